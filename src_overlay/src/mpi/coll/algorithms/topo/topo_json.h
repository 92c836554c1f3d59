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

/* Files of JSON, and what is wrong with them */

/* Longest message that the functions below write to err, with its final NUL. */
#define MPII_TOPO_ERR_LEN 512

/* Make one line of a text, whatever the names in it hold: what is not shown becomes '?'. */
void MPII_Topo_one_line(char *text);

/* Write such a message, in one line. Returns -1. */
int MPII_Topo_json_fail(char *err, const char *format, ...) ATTRIBUTE((format(printf, 2, 3)));

/* Length of the UTF-8 character at c. *is_shown: it takes room in a line, and turns no direction;
 * so it is no control character. A byte that is not UTF-8 has length 1, and is not shown. */
int MPII_Topo_char_len(const char *c, bool *is_shown);

/* Read a whole regular file, at most 64 MiB. Returns 0, with *text NUL-terminated and to be freed
 * by MPL_free; or -1 and a sentence in err that starts with the name of the file. */
int MPII_Topo_read_file(const char *path, char **text, size_t *len, char *err);

/* Parse JSON text; name is the file it came from. Returns 0, and an object to be freed by
 * json_object_put; or -1 and a sentence in err: file, line, what was found, what is expected. */
int MPII_Topo_parse_json(const char *name, const char *text, size_t len, struct json_object **root,
                         char *err);

/* The line of the last of keys, each a member of what the one before it names, in good JSON text */
int MPII_Topo_json_line(const char *text, const char *const keys[], int num_keys);

/* A member that has to be there and of that type; NULL and a sentence in err otherwise. name: of
 * the file, prefix: of the key in it */
struct json_object *MPII_Topo_json_get(const char *name, const char *prefix,
                                       struct json_object *obj, const char *key,
                                       enum json_type type, char *err);

#endif /* TOPO_JSON_H_INCLUDED */
