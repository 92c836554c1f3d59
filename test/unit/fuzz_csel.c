/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * A target of libFuzzer: its input is a selection file, which csel_*.c must take or refuse, and
 * with which every collective must then find an algorithm, the same on all processes. Without libFuzzer
 * (-DREPLAY) it tries the files that are its arguments.
 *
 * The built-in selection is read from the file that CSEL_GENERIC_JSON names. */

#include "csel_common.h"

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

static void *builtin_root;

static void free_builtin(void)
{
    MPIR_Csel_free(builtin_root);
}

static void load_builtin(void)
{
    char err[MPII_TOPO_ERR_LEN], *text = NULL;
    const char *path = getenv("CSEL_GENERIC_JSON");
    size_t len;

    if (path == NULL || MPII_Topo_read_file(path, &text, &len, err) ||
        MPIR_Csel_create_from_buf(text, MPII_Create_container, &builtin_root)) {
        fprintf(stderr, "fuzz_csel: CSEL_GENERIC_JSON does not name the built-in selection\n");
        exit(2);
    }
    MPL_free(text);
    atexit(free_builtin);
}

static const call_s calls[] = {
    {.ranks = 1,.nodes = 1,.hosts = 1,.racks = 1,.above = {1, 1},.ppn = 1,.type_size = 1,.is_regular = true},
    {.ranks = 7,.nodes = 3,.hosts = 3,.racks = 2,.above = {2, 1},.ppn = 3,.type_size = 4,.count = 300,
     .hierarchy = MPIR_COMM_HIERARCHY_KIND__PARENT,.is_consecutive = true,.is_regular = true,
     .op = OP_BUILTIN | OP_COMMUTATIVE},
    {.ranks = 16,.nodes = 1,.hosts = 1,.racks = 1,.above = {1, 1},.ppn = 16,.type_size = 8,.count = 1,
     .hierarchy = MPIR_COMM_HIERARCHY_KIND__PARENT,.is_inplace = true,.total_count = 5},
    {.ranks = 64,.nodes = 64,.type_size = 1,.count = 1 << 20,.op = OP_COMMUTATIVE,
     .hierarchy = MPIR_COMM_HIERARCHY_KIND__NODE_ROOTS,.total_count = 1 << 30},
    {.is_inter = true,.ranks = 5,.nodes = 5,.type_size = 4,.count = 64,.is_regular = true},
    {.is_inter = true,.ranks = 1000,.nodes = 9,.type_size = 1,.count = 1 << 16,.is_idle = true},
};

/* One line that names the file and is not cut off, and that the error stack shows whole */
static void check_sentence(const char *err)
{
    MPIR_Assert(!strncmp(err, "f: ", 3) && err[3]);
    bool is_shown = true;
    for (const char *c = err; *c && is_shown;)
        c += MPII_Topo_char_len(c, &is_shown);
    MPIR_Assert(is_shown);
    MPIR_Assert(MPIR_Csel_error(err) != MPI_SUCCESS && !strcmp(error_stack, err));
}

static void use_rules(void *csel)
{
    MPIR_Csel_set_fallback(csel, builtin_root);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (int type = 0; type < MPIR_CSEL_COLL_TYPE__END; type++) {
            const MPII_Csel_container_s *builtin;
            call_s call = calls[i];
            call.coll_type = type;
            if (call.is_inter && (strstr(collectives[type], "scan") ||
                                  strstr(collectives[type], "neighbor")))
                continue;
            select_for(csel, &call, &builtin);
        }
    }
    MPIR_Csel_set_fallback(csel, NULL);
}

/* The same text as a topology file */
static void use_topology(const char *text, size_t size)
{
    char err[MPII_TOPO_ERR_LEN];
    struct json_object *root = NULL;
    MPII_Topo_site_t *site = NULL;

    if (MPII_Topo_parse_json("f", text, size, &root, err) ||
        MPII_Topo_site_create("f", root, &site, err)) {
        check_sentence(err);
    } else if (site) {
        for (int i = 0; i < site->num_hosts; i++)
            MPIR_Assert(MPII_Topo_site_find_host(site, site->host_names[i]) == i);
        MPII_Topo_site_find_host(site, "n0.site");
    }
    MPII_Topo_site_free(site);
    if (root)
        json_object_put(root);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size)
{
    char err[MPIR_CSEL_ERR_LEN], warning[MPIR_CSEL_ERR_LEN];
    void *csel;

    if (builtin_root == NULL)
        load_builtin();
    /* a copy of its own, as the library reads it, so that the first byte behind it is watched */
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (load_text("f", text, size, &csel, err, warning))
        check_sentence(err);
    else if (csel)
        use_rules(csel);
    MPIR_Csel_free(csel);
    use_topology(text, size);
    free(text);
    return 0;
}

#ifdef REPLAY
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char err[MPII_TOPO_ERR_LEN], *text;
        size_t len;
        if (MPII_Topo_read_file(argv[i], &text, &len, err))
            continue;
        LLVMFuzzerTestOneInput((const uint8_t *) text, len);
        MPL_free(text);
    }
    printf("%d files\n", argc - 1);
    return 0;
}
#endif
