/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_tree.h"
#include "topo_json.h"
#include <ctype.h>
#include <stdarg.h>

/* Limits of a selection file: levels of conditions, and keys in all */
#define MAX_DEPTH 32
#define MAX_KEYS 100000

/* Longest path of keys in a message */
#define MAX_PATH_TEXT 900

/* State of the parser */
typedef struct {
    void *(*create_container)(struct json_object *);    /* NULL: the file is a tuning file */
    const char *path[MAX_DEPTH + 1];    /* keys from the root to the current key */
    int depth;
    const char *collective;     /* collective of the current rules, or NULL */
    const char *comm_kind;      /* "_intra_", "_inter_", or NULL */
    bool is_by_size;            /* whether a condition on total_msg_size came before, in this
                                 * collective */
    bool has_place;             /* whether a condition depends on the place */
    char *err;                  /* [MPIR_CSEL_ERR_LEN]; "" means no error */
    char *warning;              /* [MPIR_CSEL_ERR_LEN] first warning or ""; may be NULL */
    MPII_Csel_skipped_s *skipped;       /* NULL: unknown rules are errors */
    int num_keys;
} parser_s;

/* Print the keys from the root to the current key: "a" > "b". Returns the length. */
static size_t path_text(const parser_s * parser, char *text, size_t size)
{
    size_t len = 0, n = 0;
    int first = parser->depth;

    /* if the path is too long, omit its first keys */
    while (first > 0 && len < size - 16) {
        n = strnlen(parser->path[--first], CSEL_MAX_KEY_TEXT);
        len += n + strlen("\"...\" > ");
    }
    if (len >= size - 16)
        first++;
    len = 0;
    text[0] = '\0';
    for (int i = first; i < parser->depth; i++) {
        const char *key = parser->path[i];
        len += snprintf(text + len, size - len, "%s\"%.*s%s\"",
                        i > first ? " > " : i > 0 ? "... > " : "", CSEL_MAX_KEY_TEXT, key,
                        strlen(key) > CSEL_MAX_KEY_TEXT ? "..." : "");
    }
    return len;
}

/* Write a message to text[MPIR_CSEL_ERR_LEN]: the current path of keys, and a description. */
static void say(const parser_s * parser, char *text, const char *format, va_list args)
{
    size_t len = 0;

    if (parser->depth > 0) {
        len = snprintf(text, MPIR_CSEL_ERR_LEN, "key ");
        len += path_text(parser, text + len, MAX_PATH_TEXT);
        len += snprintf(text + len, MPIR_CSEL_ERR_LEN - len, ": ");
    }
    vsnprintf(text + len, MPIR_CSEL_ERR_LEN - len, format, args);
    MPII_Topo_one_line(text);
}

static void parse_error(parser_s * parser, const char *format, ...)
ATTRIBUTE((format(printf, 2, 3)));
static void parse_error(parser_s * parser, const char *format, ...)
{
    va_list args;

    if (parser->err[0])
        return;
    va_start(args, format);
    say(parser, parser->err, format, args);
    va_end(args);
}

static void parse_warning(parser_s * parser, const char *format, ...)
ATTRIBUTE((format(printf, 2, 3)));
static void parse_warning(parser_s * parser, const char *format, ...)
{
    va_list args;

    if (parser->warning == NULL || parser->warning[0])
        return;
    va_start(args, format);
    say(parser, parser->warning, format, args);
    va_end(args);
}

/* Report a rule that this MPICH does not know. */
static void parse_unknown(parser_s * parser, const char *format, ...)
ATTRIBUTE((format(printf, 2, 3)));
static void parse_unknown(parser_s * parser, const char *format, ...)
{
    MPII_Csel_skipped_s *skipped = parser->skipped;
    va_list args;

    if (parser->err[0])
        return;
    va_start(args, format);
    if (skipped == NULL) {
        say(parser, parser->err, format, args);
    } else if (skipped->num++ == 0) {
        say(parser, skipped->what, format, args);
        skipped->line = MPII_Topo_json_line(skipped->text, parser->path, parser->depth);
    }
    va_end(args);
}

static bool is_tuning(const parser_s * parser)
{
    return parser->create_container == NULL;
}

static bool is_place(const csel_node_s * node)
{
    return node->type >= CSEL_NODE_TYPE__COMM_HOSTS_LE && node->type <= CSEL_NODE_TYPE__COMM_PPN_LE;
}

static bool holds_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *c = words; (c = strstr(c, word)) != NULL; c += len) {
        if (c[-1] == ' ' && c[len] == ' ')
            return true;
    }
    return false;
}

/* Whether an algorithm belongs to the collective and the kind of communicator of the current rules:
 * MPIR_Allgather_intra_ring belongs to allgather and comm_type=intra. */
static bool is_algorithm_of(const parser_s * parser, const char *name)
{
    const char *prefix = "MPIR_", *collective = parser->collective;
    size_t len = strlen(collective);

    if (!strncmp(name, "MPIDI_", strlen("MPIDI_")))
        return true;
    if (strncmp(name, prefix, strlen(prefix)))
        return false;
    name += strlen(prefix);
    if (name[0] != toupper(collective[0]) || strncmp(name + 1, collective + 1, len - 1))
        return false;
    name += len;
    /* scans and neighborhood collectives do not support intercommunicators */
    if (strstr(collective, "scan") || strstr(collective, "neighbor"))
        return !strncmp(name, "_intra_", strlen("_intra_")) ||
            !strncmp(name, "_allcomm_", strlen("_allcomm_"));
    return !strncmp(name, "_allcomm_", strlen("_allcomm_")) ||
        (parser->comm_kind && !strncmp(name, parser->comm_kind, strlen(parser->comm_kind)));
}

static bool is_rooted_nb(const char *name)
{
    return !strcmp(name, "MPIR_Gather_allcomm_nb") || !strcmp(name, "MPIR_Scatter_allcomm_nb");
}

/* Create the container of an algorithm. */
static void *create_container(parser_s * parser, struct json_object *obj, const char **param,
                              char *err)
{
    char rule[MAX_PATH_TEXT];

    if (is_tuning(parser)) {
        path_text(parser, rule, sizeof(rule));
        return MPII_Csel_create_container(obj, rule, param, err);
    }
    strcpy(err, "unknown algorithm");
    return parser->create_container(obj);
}

/* Keys that belong into other files, and the CVARs that name those files */
static const struct {
    const char *start, *file, *cvar;
} other_files[] = {
    {"composition=", "a selection file of ch4", "MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE"},
    {"algorithm=MPIDI_POSIX_", "a selection file of posix in ch4",
     "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE"},
    {"name=", "a coll_selection.json of a coming MPICH", "MPIR_CVAR_COLL_SELECTION_JSON_FILE"},
};

static void check_kind(parser_s * parser, const char *ckey)
{
    for (int i = 0; is_tuning(parser) && i < 3; i++) {
        if (!strncmp(ckey, other_files[i].start, strlen(other_files[i].start)))
            parse_error(parser, "found a key of %s, which %s takes, expected rules",
                        other_files[i].file, other_files[i].cvar);
    }
}

static void parse_algorithm(parser_s * parser, const char *name, struct json_object *obj,
                            csel_node_s * node)
{
    char what[MPIR_CSEL_ERR_LEN];
    const char *param = NULL;

    if (json_object_object_length(obj) != 1) {
        parse_error(parser, "found other keys beside it, expected an algorithm alone");
        return;
    }
    if (parser->collective == NULL) {
        parse_error(parser, "expected it inside of \"collective=NAME\"");
        return;
    }
    node->container = create_container(parser, obj, &param, what);
    if (node->container)
        node->type = CSEL_NODE_TYPE__CONTAINER;
    if (node->container == NULL && param == NULL) {
        parse_unknown(parser, "%s", what);
    } else if (!is_algorithm_of(parser, name)) {
        parse_error(parser, "expected an algorithm of %s%s", parser->collective,
                    parser->comm_kind ? "" : " inside of \"comm_type=intra\" (or inter)");
    } else if (parser->is_by_size && is_rooted_nb(name) &&
               (parser->comm_kind == NULL || strcmp(parser->comm_kind, "_intra_"))) {
        /* This algorithm takes a tag from the communicator. Processes that do not know the size do
         * nothing in other algorithms and would not take a tag. */
        parse_error(parser, "not all processes of an intercommunicator know total_msg_size, "
                    "expected it before that or inside of \"comm_type=intra\"");
    } else if (node->container == NULL) {
        parser->path[parser->depth++] = param;
        parse_unknown(parser, "%s", what);
        parser->depth--;
    }
}

/* Returns whether the collective is known. */
static bool parse_collective(parser_s * parser, const char *name, csel_node_s * node)
{
    node->type = CSEL_NODE_TYPE__COLLECTIVE;
    if (parser->collective)
        parse_error(parser, "found one collective inside of another");
    for (int i = 0; i < MPIR_CSEL_COLL_TYPE__END; i++) {
        if (!strcmp(name, MPII_Csel_collectives[i])) {
            node->val = i;
            parser->collective = MPII_Csel_collectives[i];
            return true;
        }
    }
    parse_unknown(parser, "unknown collective");
    return false;
}

/* Parse a key that is neither an algorithm nor a collective. Check whether it is allowed here, and
 * warn if it can never hold. Returns whether the condition is known. */
static bool parse_condition(parser_s * parser, const char *ckey, csel_node_s * node)
{
    const char *never = "is not known to all processes, so it never holds";
    const csel_message_condition_s *message = MPII_Csel_message_condition(ckey);
    char what[MPIR_CSEL_ERR_LEN];

    int ret = MPII_Csel_parse_condition(ckey, node, what);
    if (ret == CSEL_UNKNOWN) {
        parse_unknown(parser, "%s", what);
        return false;
    } else if (ret) {
        parse_error(parser, "%s", what);
        return false;
    }
    if (message && parser->collective == NULL) {
        parse_error(parser, "expected it inside of \"collective=NAME\"");
    } else if (message && message->collectives &&
               !holds_word(message->collectives, parser->collective)) {
        parse_unknown(parser, "is not defined for %s", parser->collective);
        return false;
    } else if (message && message->unknown && node->type != CSEL_NODE_TYPE__ANY &&
               holds_word(message->unknown, parser->collective)) {
        parse_warning(parser, "%s", never);
    }
    /* processes may have different thread levels */
    if (node->type == CSEL_NODE_TYPE__IS_MULTI_THREADED && is_tuning(parser)) {
        node->type = CSEL_NODE_TYPE__NEVER;
        parse_warning(parser, "%s", never);
    }
    if (is_place(node))
        parser->has_place = true;
    return true;
}

static csel_node_s *parse_json_tree(struct json_object *obj, parser_s * parser);

/* Returns NULL if the key is an unknown collective, which is skipped. If it is an unknown
 * condition, sets *is_last: the following keys of obj are skipped. */
static csel_node_s *parse_key(const char *key, struct json_object *val, struct json_object *obj,
                              const csel_node_s * prev, parser_s * parser, bool *is_last)
{
    const char *outer_collective = parser->collective, *outer_kind = parser->comm_kind;
    csel_node_s *node = MPL_calloc(1, sizeof(csel_node_s), MPL_MEM_COLL);
    char *ckey = MPII_Csel_strip(key);
    bool is_known = true;

    if (node == NULL || ckey == NULL) {
        parse_error(parser, "out of memory");
        goto fn_exit;
    }
    node->type = CSEL_NODE_TYPE__ANY;
    check_kind(parser, ckey);
    if (!json_object_is_type(val, json_type_object)) {
        parse_error(parser, "found %s, expected an object",
                    json_type_to_name(json_object_get_type(val)));
        goto fn_exit;
    }
    if (!strncmp(ckey, "composition=", strlen("composition=")) ||
        !strncmp(ckey, "algorithm=", strlen("algorithm="))) {
        parse_algorithm(parser, strchr(ckey, '=') + 1, obj, node);
        goto fn_exit;
    }
    if (!strncmp(ckey, "collective=", strlen("collective=")))
        is_known = parse_collective(parser, ckey + strlen("collective="), node);
    else
        is_known = parse_condition(parser, ckey, node);
    if (prev && (prev->type == CSEL_NODE_TYPE__COLLECTIVE) !=
        (node->type == CSEL_NODE_TYPE__COLLECTIVE))
        parse_error(parser, "expected collectives not to stand beside conditions");
    if (prev && prev->type == CSEL_NODE_TYPE__ANY)
        parse_error(parser, "can never be reached, expected nothing behind \"...=any\"");
    if (node->type == CSEL_NODE_TYPE__COMM_TYPE_INTRA)
        parser->comm_kind = "_intra_";
    else if (node->type == CSEL_NODE_TYPE__COMM_TYPE_INTER)
        parser->comm_kind = "_inter_";
    else if (node->type == CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LE ||
             node->type == CSEL_NODE_TYPE__TOTAL_MSG_SIZE_LT)
        parser->is_by_size = true;
    if (parser->err[0])
        goto fn_exit;
    if (is_known) {
        node->success = parse_json_tree(val, parser);
    } else if (node->type == CSEL_NODE_TYPE__COLLECTIVE) {
        MPL_free(node);
        node = NULL;
    } else {
        node->type = CSEL_NODE_TYPE__ANY;
        *is_last = true;
    }

  fn_exit:
    parser->collective = outer_collective;
    parser->comm_kind = outer_kind;
    if (parser->collective == NULL)
        parser->is_by_size = false;
    MPL_free(ckey);
    return node;
}

static csel_node_s *parse_json_tree(struct json_object *obj, parser_s * parser)
{
    csel_node_s *first = NULL, *prev = NULL, **next = &first;
    bool is_last = false;

    /* an empty object is an error, except as a rule of a tuning file: there it selects nothing */
    if (json_object_object_length(obj) == 0 && !(is_tuning(parser) && parser->depth > 0))
        parse_error(parser, "found an empty object, expected conditions or an algorithm");
    else if (parser->depth == MAX_DEPTH)
        parse_error(parser, "found more than %d levels", MAX_DEPTH);
    if (parser->err[0])
        return NULL;
    json_object_object_foreach(obj, key, val) {
        parser->path[parser->depth++] = key;
        if (parser->num_keys++ == MAX_KEYS)
            parse_error(parser, "found more than %d keys of rules in the file", MAX_KEYS);
        *next = parse_key(key, val, obj, prev, parser, &is_last);
        parser->depth--;
        if (parser->err[0] || is_last)
            break;
        if (*next) {
            prev = *next;
            next = &prev->failure;
        }
    }
    return first;
}

csel_node_s *MPII_Csel_parse(struct json_object *root,
                             void *(*create_container)(struct json_object *),
                             bool *has_place, char *err, char *warning,
                             MPII_Csel_skipped_s * skipped)
{
    parser_s parser = {.create_container = create_container,.err = err,.warning = warning,
        .skipped = skipped
    };
    csel_node_s *tree = NULL;

    err[0] = '\0';
    if (json_object_object_get_ex(root, "hosts", NULL))
        parse_error(&parser,
                    "found a site, which MPIR_CVAR_COLL_TOPOLOGY_FILE takes, expected rules");
    else
        tree = parse_json_tree(root, &parser);
    *has_place = parser.has_place;
    return tree;
}
