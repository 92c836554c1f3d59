/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_JSON_H_INCLUDED
#define TOPO_JSON_H_INCLUDED

#include "mpl.h"
#include <json.h>
#include <stdbool.h>
#include <stddef.h>

/* Reading JSON files, and describing errors in them */

/* Size of the buffers err[] below, with the final NUL. */
#define MPII_TOPO_ERR_LEN 512

/* Make a text printable in one line: each character that is not visible becomes '?'. */
void MPII_Topo_one_line(char *text);

/* Write an error message to err, in one line. Returns -1. */
int MPII_Topo_json_fail(char *err, const char *format, ...) ATTRIBUTE((format(printf, 2, 3)));

/* Length of the UTF-8 character at c. *is_shown: whether the character is visible, that is, takes
 * room in a line and does not change the direction of the text. A byte that is not UTF-8 has length
 * 1 and is not visible. */
int MPII_Topo_char_len(const char *c, bool *is_shown);

/* Read a whole regular file of at most 64 MiB. Returns 0, and *text, which ends with NUL and is to
 * be freed by MPL_free. On error, returns -1 and a sentence in err that starts with the name of the
 * file. */
int MPII_Topo_read_file(const char *path, char **text, size_t *len, char *err);

/* Parse JSON text; name is the name of its file. Returns 0, and an object to be freed by
 * json_object_put. On error, returns -1 and a sentence in err: file, line, what was found, what is
 * expected. */
int MPII_Topo_parse_json(const char *name, const char *text, size_t len, struct json_object **root,
                         char *err);

/* Line of the last of keys[] in valid JSON text. Each key is a member of the object that the key
 * before it names. */
int MPII_Topo_json_line(const char *text, const char *const keys[], int num_keys);

/* Get a member that must exist and have the given type. On error, returns NULL and a sentence in
 * err. name: name of the file. prefix: of the key in messages */
struct json_object *MPII_Topo_json_get(const char *name, const char *prefix,
                                       struct json_object *obj, const char *key,
                                       enum json_type type, char *err);

#endif /* TOPO_JSON_H_INCLUDED */
