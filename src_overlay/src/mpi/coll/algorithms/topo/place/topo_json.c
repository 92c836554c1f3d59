/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_json.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE_SIZE (64 * 1024 * 1024)
#define MAX_JSON_DEPTH 64

/* Characters that are not visible, as in maint/topo_common/text.py: control characters, characters
 * without width, characters that change the direction of text, and U+FFFD, the replacement
 * character */
static const struct {
    uint32_t first, last;
} hidden[] = {
    {0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x61c, 0x61c}, {0x200b, 0x200f}, {0x2028, 0x202e},
    {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffd}, {0xe0000, 0xe0fff}
};

int MPII_Topo_char_len(const char *c, bool *is_shown)
{
    const unsigned char *u = (const unsigned char *) c;
    int len =
        u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 0;
    uint32_t code = len == 1 ? u[0] : u[0] & (0x7f >> len);

    for (int i = 1; i < len; i++) {
        code = code << 6 | (u[i] & 0x3f);
        if ((u[i] & 0xc0) != 0x80)
            len = 0;
    }
    /* overlong forms, surrogates, and values beyond the last code point */
    if ((len == 3 && (code < 0x800 || code >> 11 == 0x1b)) || (len == 4 && (code >> 16) - 1 > 0xf))
        len = 0;
    *is_shown = len > 0;
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (hidden[i].first <= code && code <= hidden[i].last)
            *is_shown = false;
    return len > 0 ? len : 1;
}

void MPII_Topo_one_line(char *text)
{
    char *to = text;
    bool is_shown;

    for (const char *c = text; *c;) {
        int len = MPII_Topo_char_len(c, &is_shown);
        if (is_shown)
            memmove(to, c, len);
        else
            *to = '?';
        to += is_shown ? len : 1;
        c += len;
    }
    *to = '\0';
}

int MPII_Topo_json_fail(char *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err, MPII_TOPO_ERR_LEN, format, args);
    va_end(args);
    MPII_Topo_one_line(err);
    return -1;
}

int MPII_Topo_read_file(const char *path, char **text, size_t *len, char *err)
{
    int ret = -1;
    struct stat st;
    char *buf = NULL;
    size_t n = 0;

    /* nonblocking: opening a FIFO would wait for its writer */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        MPII_Topo_json_fail(err, "%s: cannot open: %s", path, strerror(errno));
        goto fn_exit;
    }
    if (fstat(fd, &st) < 0) {
        MPII_Topo_json_fail(err, "%s: cannot stat: %s", path, strerror(errno));
        goto fn_exit;
    }
    if (!S_ISREG(st.st_mode)) {
        MPII_Topo_json_fail(err, "%s: expected a regular file", path);
        goto fn_exit;
    }
    if (st.st_size == 0) {
        MPII_Topo_json_fail(err, "%s: the file is empty, expected a JSON object", path);
        goto fn_exit;
    }
    if (st.st_size > MAX_FILE_SIZE) {
        MPII_Topo_json_fail(err, "%s: found %lld bytes, expected at most %d", path,
                            (long long) st.st_size, MAX_FILE_SIZE);
        goto fn_exit;
    }
    buf = MPL_malloc(st.st_size + 1, MPL_MEM_COLL);
    if (buf == NULL) {
        MPII_Topo_json_fail(err, "%s: out of memory", path);
        goto fn_exit;
    }
    while (n < (size_t) st.st_size) {
        ssize_t got = read(fd, buf + n, st.st_size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            MPII_Topo_json_fail(err, "%s: cannot read: %s", path, strerror(errno));
            goto fn_exit;
        }
        if (got == 0)
            break;
        n += got;
    }
    buf[n] = '\0';
    *text = buf;
    *len = n;
    buf = NULL;
    ret = 0;

  fn_exit:
    MPL_free(buf);
    if (fd >= 0)
        close(fd);
    return ret;
}

static int line_of(const char *text, size_t offset)
{
    int line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

int MPII_Topo_parse_json(const char *name, const char *text, size_t len, struct json_object **root,
                         char *err)
{
    int ret = -1;
    struct json_tokener *tok = NULL;
    struct json_object *obj = NULL;

    const char *nul = memchr(text, '\0', len);
    if (nul) {
        MPII_Topo_json_fail(err, "%s: line %d: found a NUL byte, expected JSON text", name,
                            line_of(text, nul - text));
        goto fn_exit;
    }
    if (!strncmp(text, "\xef\xbb\xbf", 3)) {
        MPII_Topo_json_fail(err, "%s: line 1: found a byte order mark, expected UTF-8 without one",
                            name);
        goto fn_exit;
    }
    const char *first = text + strspn(text, " \t\r\n");
    if (*first && *first != '{') {
        int word = strcspn(first, " \t\r\n");
        MPII_Topo_json_fail(err, "%s: line %d: found \"%.*s\", expected a JSON object", name,
                            line_of(text, first - text), word < 20 ? word : 20, first);
        goto fn_exit;
    }
    tok = json_tokener_new_ex(MAX_JSON_DEPTH);
    if (tok == NULL) {
        MPII_Topo_json_fail(err, "%s: out of memory", name);
        goto fn_exit;
    }
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    obj = json_tokener_parse_ex(tok, text, len);
    size_t end = json_tokener_get_parse_end(tok);
    if (end > len)
        end = len;
    enum json_tokener_error jerr = json_tokener_get_error(tok);
    if (jerr == json_tokener_continue) {
        MPII_Topo_json_fail(err, "%s: line %d: the file ends inside a JSON value; is it cut off?",
                            name, line_of(text, len));
        goto fn_exit;
    }
    if (jerr != json_tokener_success) {
        MPII_Topo_json_fail(err, "%s: line %d: %s", name, line_of(text, end),
                            json_tokener_error_desc(jerr));
        goto fn_exit;
    }
    for (; end < len; end++) {
        if (!strchr(" \t\r\n", text[end])) {
            MPII_Topo_json_fail(err, "%s: line %d: found text after the JSON object", name,
                                line_of(text, end));
            goto fn_exit;
        }
    }
    *root = obj;
    obj = NULL;
    ret = 0;

  fn_exit:
    if (obj)
        json_object_put(obj);
    if (tok)
        json_tokener_free(tok);
    return ret;
}

int MPII_Topo_json_line(const char *text, const char *const keys[], int num_keys)
{
    int line = 1, depth = 0, found = 0; /* number of keys found so far */

    for (const char *c = text; *c && found < num_keys; c++) {
        if (*c == '\n') {
            line++;
        } else if (*c == '{') {
            depth++;
        } else if (*c == '}') {
            depth--;
            found = MPL_MIN(found, depth - 1);
        } else if (*c == '"' || *c == '\'') {
            const char *start = c + 1;
            for (c = start; *c && *c != start[-1]; c++) {
                line += *c == '\n';
                c += *c == '\\' && c[1];
            }
            if (*c == '\0')
                break;
            size_t len = c - start;
            if (depth == found + 1 && c[1 + strspn(c + 1, " \t\r\n")] == ':' &&
                len == strlen(keys[found]) && !strncmp(start, keys[found], len))
                found++;
        }
    }
    return line;
}

struct json_object *MPII_Topo_json_get(const char *name, const char *prefix,
                                       struct json_object *obj, const char *key,
                                       enum json_type type, char *err)
{
    struct json_object *val = NULL;

    if (!json_object_object_get_ex(obj, key, &val)) {
        MPII_Topo_json_fail(err, "%s: key \"%s%s\": found nothing, expected %s", name, prefix, key,
                            json_type_to_name(type));
        return NULL;
    }
    if (!json_object_is_type(val, type)) {
        MPII_Topo_json_fail(err, "%s: key \"%s%s\": found %s, expected %s", name, prefix, key,
                            json_type_to_name(json_object_get_type(val)), json_type_to_name(type));
        return NULL;
    }
    return val;
}
