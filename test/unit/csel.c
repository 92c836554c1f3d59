/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Reads selection files and selects algorithms as the library does, with its csel_*.c. Obeys commands from
 * standard input, one a line:
 *
 *   set VARIABLE VALUE             the default of parameters
 *   load FILE                      answers: ok | warning SENTENCE | error SENTENCE
 *   load-known FILE                the same, but rules that are not known are skipped; or answers: skipped
 *                                  NUMBER LINE SENTENCE, of the first of them
 *   site FILE                      answers: ok | error SENTENCE
 *   host NAME                      answers: the host of that site that the name means, -1 for none
 *   select COLLECTIVE KEY=VALUE... answers: ALGORITHM PARAM=VALUE... | ALGORITHM PARAM=VALUE...
 *
 * The first algorithm is what the rules select, - where they do not, and the second is the built-in
 * selection's. KEYs are those of topo_tune.grammar.Call; those that are not given are 0.
 *
 * usage: csel GENERIC_JSON < commands */

#include "csel_common.h"

static void *csel_root, *builtin_root;

static void fail(const char *what, const char *word)
{
    fprintf(stderr, "csel: %s: %s\n", what, word);
    exit(2);
}

static void unload(void)
{
    if (csel_root && csel_root != builtin_root) {
        MPIR_Csel_set_fallback(csel_root, NULL);
        MPIR_Csel_free(csel_root);
    }
    csel_root = builtin_root;
}

static void load(const char *path)
{
    char err[MPIR_CSEL_ERR_LEN], warning[MPIR_CSEL_ERR_LEN];
    char *text = NULL;
    size_t len;
    void *csel = NULL;

    unload();
    if (MPII_Topo_read_file(path, &text, &len, err) ||
        load_text(path, text, len, &csel, err, warning))
        printf("error %s\n", err);
    else if (skipped.num)
        printf("skipped %d %d %s\n", skipped.num, skipped.line, skipped.what);
    else if (warning[0])
        printf("warning %.500s: %.1500s\n", path, warning);
    else
        printf("ok\n");
    MPL_free(text);
    if (csel) {
        MPIR_Csel_set_fallback(csel, builtin_root);
        csel_root = csel;
    }
}

static MPII_Topo_site_t *site;

static void load_site(const char *path)
{
    char err[MPII_TOPO_ERR_LEN], *text = NULL;
    size_t len;
    struct json_object *root = NULL;

    MPII_Topo_site_free(site);
    site = NULL;
    if (MPII_Topo_read_file(path, &text, &len, err) ||
        MPII_Topo_parse_json(path, text, len, &root, err) ||
        MPII_Topo_site_create(path, root, &site, err))
        printf("error %s\n", err);
    else
        printf("ok\n");
    MPL_free(text);
    if (root)
        json_object_put(root);
}

static void load_known(const char *path)
{
    is_strict = false;
    load(path);
    is_strict = true;
}

static void set(char *args)
{
    char *value = strchr(args, ' ');

    if (value == NULL)
        fail("expected a value", args);
    *value++ = '\0';
#define PARAM(algorithm, member, param, variable) \
    if (!strcmp(args, #variable)) { \
        variable = atoi(value); \
        return; \
    }
    MPII_CSEL_PARAMS(PARAM);
    CSEL_PARAMS_OF_VERSION(PARAM);
#undef PARAM
    fail("unknown variable", args);
}

static void print_container(const MPII_Csel_container_s * cnt)
{
    const char *name = "?";

#define ALGORITHM(name_) \
    if (cnt->id == MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##name_) \
        name = #name_;
    MPII_CSEL_ALGORITHMS(ALGORITHM);
#undef ALGORITHM
    printf("%s", name);
#define PARAM(algorithm, member, param, variable) \
    if (cnt->id == MPII_CSEL_CONTAINER_TYPE__ALGORITHM__##algorithm) \
        printf(" %s=%d", #param, (int) cnt->u.member.param);
    MPII_CSEL_PARAMS(PARAM);
    CSEL_PARAMS_OF_VERSION(PARAM);
#undef PARAM
}

static void select_algorithm(char *args)
{
    call_s call = { 0 };
    const char *word = strtok(args, " ");
    const MPII_Csel_container_s *cnt, *builtin;
    int type;

    for (type = 0; type < MPIR_CSEL_COLL_TYPE__END; type++) {
        if (word && !strcmp(word, collectives[type]))
            break;
    }
    if (type == MPIR_CSEL_COLL_TYPE__END)
        fail("unknown collective", word ? word : "");
    call.coll_type = type;
    MPII_Coll_has_fixed_order = 0;

    while ((word = strtok(NULL, " "))) {
        const char *eq = strchr(word, '=');
        if (eq == NULL)
            fail("expected KEY=VALUE", word);
        size_t len = eq - word;
        long long val = atoll(eq + 1);
#define IS(key) (len == strlen(key) && !strncmp(word, key, len))
        if (IS("comm_type"))
            call.is_inter = !strcmp(eq + 1, "inter");
        else if (IS("ranks"))
            call.ranks = val;
        else if (IS("nodes"))
            call.nodes = val;
        else if (IS("hosts"))
            call.hosts = val;
        else if (IS("racks"))
            call.racks = val;
        else if (IS("level3"))
            call.above[0] = val;
        else if (IS("level4"))
            call.above[1] = val;
        else if (IS("ppn"))
            call.ppn = val;
        else if (IS("hierarchy"))
            call.hierarchy = !strcmp(eq + 1, "parent") ? MPIR_COMM_HIERARCHY_KIND__PARENT :
                !strcmp(eq + 1, "node_roots") ? MPIR_COMM_HIERARCHY_KIND__NODE_ROOTS :
                !strcmp(eq + 1, "node") ? MPIR_COMM_HIERARCHY_KIND__NODE :
                MPIR_COMM_HIERARCHY_KIND__FLAT;
        else if (IS("consecutive"))
            call.is_consecutive = val;
        else if (IS("count"))
            call.count = val;
        else if (IS("total_count"))
            call.total_count = val;
        else if (IS("type_size"))
            call.type_size = val;
        else if (IS("commutative"))
            call.op |= val ? OP_COMMUTATIVE : 0;
        else if (IS("builtin_op"))
            call.op |= val ? OP_BUILTIN : 0;
        else if (IS("inplace"))
            call.is_inplace = val;
        else if (IS("regular"))
            call.is_regular = val;
        else if (IS("fixed_order"))
            MPII_Coll_has_fixed_order = val;
        else if (IS("idle"))
            call.is_idle = val;
        else
            fail("unknown key", word);
    }
    if (call.ranks < 1 || call.ranks > MAX_RANKS)
        fail("expected ranks from 1 to 8192", "");

    cnt = select_for(csel_root, &call, &builtin);
    if (cnt == builtin)
        printf("-");
    else
        print_container(cnt);
    printf(" | ");
    print_container(builtin);
    printf("\n");
}

int main(int argc, char **argv)
{
    char err[MPII_TOPO_ERR_LEN], *generic = NULL, *line = NULL;
    size_t len, room = 0;
    ssize_t n;

    if (argc != 2)
        fail("usage", "csel GENERIC_JSON < commands");
    if (MPII_Topo_read_file(argv[1], &generic, &len, err) ||
        MPIR_Csel_create_from_buf(generic, MPII_Create_container, &builtin_root))
        fail("built-in selection", err);
    csel_root = builtin_root;

    while ((n = getline(&line, &room, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (!strncmp(line, "set ", 4))
            set(line + 4);
        else if (!strncmp(line, "load ", 5))
            load(line + 5);
        else if (!strncmp(line, "site ", 5))
            load_site(line + 5);
        else if (!strncmp(line, "host ", 5))
            printf("%d\n", MPII_Topo_site_find_host(site, line + 5));
        else if (!strncmp(line, "load-known ", 11))
            load_known(line + 11);
        else if (!strncmp(line, "select ", 7))
            select_algorithm(line + 7);
        else
            fail("unknown command", line);
        fflush(stdout);
    }

    unload();
    MPII_Topo_site_free(site);
    MPIR_Csel_free(builtin_root);
    MPL_free(generic);
    free(line);
    return 0;
}
