/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_view.h"
#include "topo_json.h"
#include "topo_where.h"
#include "coll_settings.h"

#ifdef __linux__
#include <sched.h>
#endif

/* How the processes of a communicator learn where all of them are.
 *
 * - At the end of MPI_Init, all processes of MPI_COMM_WORLD exchange their places if rank 0 has a
 *   tuning file, a topology file, or a CVAR that forces one of these algorithms. Rank 0 announces
 *   this before the barrier of MPI_Init (csel_tuning.c), so either all processes take part or none.
 *   From then on, each process finds the place of a communicator in that of MPI_COMM_WORLD, without
 *   communication, if all processes of the communicator belong to that MPI_COMM_WORLD.
 * - Otherwise (CVARs set later or not by rank 0, sessions, processes of several worlds), the
 *   processes agree at the first call on a communicator. Duplicates made after that call inherit
 *   the place. All processes decide alike whether a duplicate inherits: the duplication and the
 *   first call are both collective over the parent, and all processes make collective calls on a
 *   communicator in the same order. A communicator does not take the place of any other
 *   communicator with the same processes: with threads, or with processes that are not in both, the
 *   order of calls on two communicators may differ between processes. */

/* Same limit as in a rule (csel_algo.c): topo_call.c packs the radix into the key of a schedule. */
#define MOST_RADIX 32767

/* What a process sends to the others of a communicator about itself. */
typedef struct {
    uint64_t digest;            /* of its topology; 0: it has none */
    uint64_t host;              /* hash of the name of its host */
    uint64_t path;              /* location inside the host */
    int32_t site_host;          /* index of the host in the topology, or -1 */
    int32_t has_threads;        /* whether it has MPI_THREAD_MULTIPLE */
    int32_t other_setting;      /* number of the first setting that rank 0 has and that was
                                 * different here; 0 for none */
    MPII_Topo_name_t host_name;
    MPII_Topo_processors_t processors;
    MPII_Topo_settings_t settings;
} whereabouts_t;

static MPII_Topo_site_t *site;
static MPII_Topo_view_t *world; /* view of MPI_COMM_WORLD, if its processes exchanged their places
                                 * in MPI_Init */
static MPII_Topo_store_t *world_store;  /* its store */
static int num_on_host;         /* number of processes of MPI_COMM_WORLD on this host */
static MPII_Topo_neighbour_t *neighbours;       /* processes of MPI_COMM_WORLD on this host */
static int num_neighbours;
static bool has_coords;         /* whether MPICH uses coordinates that we set */
static MPL_atomic_int_t has_warned_differs, has_warned_unknown, has_warned_settings;

/* -- the topology -- */

static int load_site_file(const char *name, char *err)
{
    char *text = NULL;
    size_t len;
    struct json_object *root = NULL;

    int ret = MPII_Topo_read_file(name, &text, &len, err);
    if (ret == 0)
        ret = MPII_Topo_parse_json(name, text, len, &root, err);
    if (ret == 0)
        ret = MPII_Topo_site_create(name, root, &site, err);
    if (ret == 0 && site == NULL) {
        snprintf(err, MPII_TOPO_ERR_LEN, "%s: found no topology, expected key \"hosts\"", name);
        ret = -1;
    }
    MPL_free(text);
    if (root)
        json_object_put(root);
    return ret;
}

int MPII_Topo_load(const char *name, struct json_object *root, char *err)
{
    char file_err[MPII_TOPO_ERR_LEN];

    MPII_Topo_world_finalize();
    if (root && MPII_Topo_site_create(name, root, &site, err))
        return -1;
    if (site == NULL && MPIR_CVAR_COLL_TOPOLOGY_FILE && *MPIR_CVAR_COLL_TOPOLOGY_FILE) {
        name = MPIR_CVAR_COLL_TOPOLOGY_FILE;
        if (load_site_file(name, file_err))
            MPII_Topo_warn(file_err);
    }
    return 0;
}

void MPII_Topo_world_finalize(void)
{
    MPII_Topo_site_free(site);
    site = NULL;
    if (has_coords)
        MPII_Topo_set_coords(NULL);
    has_coords = false;
    MPL_free(neighbours);
    neighbours = NULL;
    MPII_Topo_store_release(world_store);
    world_store = NULL;
    MPII_Topo_view_release(world);
    world = NULL;
}

const char *MPII_Topo_why_no_links(MPIR_Comm * comm_ptr)
{
    if (site)
        return comm_ptr->coll.topo->view->site ? site->name : NULL;
    return MPIR_CVAR_COLL_TOPOLOGY_FILE && *MPIR_CVAR_COLL_TOPOLOGY_FILE ? NULL :
        "MPIR_CVAR_COLL_TOPOLOGY_FILE";
}

/* -- what a process knows about itself -- */

/* Location of this process inside its host, from the cores to which it is bound. */
static uint64_t path_in_host(void)
{
    static const MPIR_hwtopo_type_e levels[MPII_TOPO_PATH_LEVELS] = {
        MPIR_HWTOPO_TYPE__PACKAGE, MPIR_HWTOPO_TYPE__DDR, MPIR_HWTOPO_TYPE__L3CACHE,
        MPIR_HWTOPO_TYPE__CORE
    };
    uint64_t path = 0;

    for (int i = 0; i < MPII_TOPO_PATH_LEVELS; i++) {
        MPIR_hwtopo_gid_t gid = MPIR_hwtopo_get_obj_by_type(levels[i]);
        /* the root of the hardware tree: the process is not bound to one object of this type */
        int index = gid == MPIR_HWTOPO_GID_ROOT ? 0 : MPIR_hwtopo_get_lid(gid) + 1;
        path = path << 16 | (index & 0xffff);
    }
    return path;
}

void MPII_Topo_find_processors(MPII_Topo_processors_t * processors)
{
    memset(processors, 0, sizeof(*processors));
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        for (int i = 0; i < 1024; i++)
            processors->bits[i / 64] |= (uint64_t) (CPU_ISSET(i, &set) != 0) << i % 64;
    }
#endif
}

/* Whether an algorithm of neighbourhood collectives may run. A tuning file may select one. */
static bool wants_neighbors(void)
{
    const char *tuning = MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE;
    bool wants = MPIR_CVAR_COLL_TOPO_AUTO || (tuning && *tuning);

#define WANTS(COLL, Coll, coll, algo)           \
    wants = wants || (strncmp(#coll, "ineighbor", 9) == 0 &&    \
                      MPIR_CVAR_##COLL##_INTRA_ALGORITHM ==     \
                      MPIR_CVAR_##COLL##_INTRA_ALGORITHM_##algo);
#define IS_WANTED(COLL, Coll, coll, algo, desc) WANTS(COLL, Coll, coll, algo)
    MPIR_TOPO_ALGOS(IS_WANTED)
    MPIR_TOPO_AUTOS(WANTS)
#undef IS_WANTED
#undef WANTS
    return wants;
}

/* Hosts are identified by name, not by MPICH's node id: a launcher may count a host that appears
 * twice in its list as two nodes, and node ids of spawned processes cannot be compared. */
static whereabouts_t find_self(void)
{
    whereabouts_t self = {
        .settings.allgather_pipeline_min_bytes = MPIR_CVAR_ALLGATHER_TOPO_PIPELINE_MIN_BYTES,
        .settings.segment_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES, 1),
        .settings.tree_shm_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_TREE_SHM_BYTES, 0),
        .settings.plan_staging = MPIR_CVAR_COLL_TOPO_PLAN_STAGING,
        .settings.plan_max_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES, 0),
        .settings.plan_one_rank_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_ONE_RANK_BYTES, 0),
        .settings.plan_shm_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES, 0),
        .settings.plan_entries = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_ENTRIES, 1),
        .settings.plan_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_BYTES, 0),
        .settings.plan_misses = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_MISSES, 0),
        .settings.plan_rack_bytes = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_RACK_BYTES, -1),
        .settings.is_auto = MPIR_CVAR_COLL_TOPO_AUTO,
        .settings.is_adaptive = MPIR_CVAR_COLL_TOPO_ADAPT,
        .settings.is_reordering = MPIR_CVAR_TOPO_REORDER,
        .settings.has_neighbors = wants_neighbors(),
    };
#define SEGMENT_BYTES(coll, algo, cvar) \
    self.settings.segment_bytes_of[MPII_TOPO_SEGMENTED__##coll##_##algo] = MPL_MAX(cvar, 0);
    MPIR_TOPO_SEGMENTED(SEGMENT_BYTES)
#undef SEGMENT_BYTES
#define RADIX(coll, algo, cvar) \
    self.settings.radix_of[MPII_TOPO_RADIX__##coll##_##algo] = \
        MPL_MIN(MPL_MAX(cvar, 0), MOST_RADIX);
        MPIR_TOPO_RADICES(RADIX)
#undef RADIX
    const char *host = MPIR_CVAR_COLL_TOPOLOGY_HOST;
    char hostname[256] = "";

    if (host == NULL || *host == '\0') {
        /* Simulated nodes need names of their own. Do not test MPIR_pmi_has_local_cliques() for
         * that: in newer versions it is also true with MPIR_CVAR_NOLOCAL, and in a build without
         * shared memory (ch4:ucx), where hosts have their own names. */
        if (MPIR_CVAR_NUM_CLIQUES > 1 || MPIR_CVAR_ODD_EVEN_CLIQUES)
            snprintf(hostname, sizeof(hostname), "clique%d",
                     MPIR_Process.node_map[MPIR_Process.rank]);
        else
            gethostname(hostname, sizeof(hostname) - 1);
        host = hostname;
    }
    self.digest = site ? site->digest : 0;
    self.site_host = site ? MPII_Topo_site_find_host(site, host) : -1;
    self.path = path_in_host();
    self.has_threads = MPIR_ThreadInfo.thread_provided == MPI_THREAD_MULTIPLE;
    self.host = MPII_Topo_hash(MPII_TOPO_HASH_INIT, host, strlen(host));
    self.other_setting = MPII_Coll_other_setting();
    for (int i = 0; host[i] && i < (int) sizeof(self.host_name) - 1; i++)
        self.host_name[i] = isgraph((unsigned char) host[i]) &&
            !strchr("[]*", host[i]) ? host[i] : '?';
    MPII_Topo_find_processors(&self.processors);
    return self;
}

/* -- finding a place in MPI_COMM_WORLD's -- */

static bool has_outsider(MPIR_Comm * comm_ptr, int size, bool is_remote)
{
    for (int i = 0; i < size; i++) {
        if (MPII_Topo_world_rank(comm_ptr, i, is_remote) >= (uint64_t) MPIR_Process.size)
            return true;
    }
    return false;
}

bool MPII_Topo_is_in_world(MPIR_Comm * comm_ptr)
{
    if (has_outsider(comm_ptr, comm_ptr->local_size, false))
        return false;
    return comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM ||
        !has_outsider(comm_ptr, comm_ptr->remote_size, true);
}

static void set_host_name(MPII_Topo_view_t * view, int rank, const MPII_Topo_name_t name)
{
    if (view->host_name == NULL)
        view->host_name = MPL_calloc(view->place.num_hosts, sizeof(MPII_Topo_name_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(view->host_name);
    strcpy(view->host_name[view->place.host_of_rank[rank]], name);
}

/* Give an intracommunicator its view if that needs no communication. */
static void find_in_world(MPIR_Comm * comm_ptr)
{
    int n = comm_ptr->local_size;
    bool is_world = n == MPIR_Process.size;

    if (comm_ptr->coll.topo || world == NULL || !MPII_Topo_is_in_world(comm_ptr))
        return;
    int *id = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    uint64_t *path = MPL_malloc(n * sizeof(uint64_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(id && path);
    for (int i = 0; i < n; i++) {
        int rank = MPII_Topo_world_rank(comm_ptr, i, false);
        id[i] = world->place.host_of_rank[rank];
        path[i] = world->place.path_of_rank[rank];
        is_world = is_world && rank == i;
    }
    if (is_world) {
        /* the same processes in the same order: treat it as a duplicate */
        MPII_Topo_view_set(comm_ptr, world, world_store);
        MPL_free(path);
    } else {
        MPII_Topo_view_t *view =
            MPII_Topo_view_create(n, id, world->place.num_hosts, world->site_host, path,
                                  world->site, world->has_threads, &world->settings);
        if (world->host_name) {
            for (int i = 0; i < n; i++)
                set_host_name(view, i, world->host_name[id[i]]);
        }
        MPII_Topo_view_set(comm_ptr, view, NULL);
        MPII_Topo_view_release(view);
    }
    MPL_free(id);
}

void MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count)
{
    count->num_hosts = count->num_racks = count->max_ppn = MPIR_AINT_MAX;
    count->num_above[0] = count->num_above[1] = MPIR_AINT_MAX;
    if (comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM || world == NULL ||
        !MPII_Topo_is_in_world(comm_ptr))
        return;
    find_in_world(comm_ptr);
    const MPII_Topo_view_t *view = comm_ptr->coll.topo->view;
    count->num_hosts = view->place.num_hosts;
    count->num_racks = view->place.num_racks;
    for (int i = 0; i < 2; i++)
        count->num_above[i] = i < view->place.num_above ? view->place.above[i].num : 1;
    count->max_ppn = view->max_ppn;
}

/* -- agreement of the processes of a communicator -- */

typedef struct {
    uint64_t host;
    int rank;
} host_entry_t;

static int cmp_host(const void *a_, const void *b_)
{
    const host_entry_t *a = a_, *b = b_;
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    return a->rank - b->rank;
}

#define MAX_NAMED 4     /* hosts named in a warning */

/* List the hosts that the topology does not contain, each once: the first ones by name, then how
 * many more. entries[n]: sorted by host */
static void name_unknown(const whereabouts_t all[], int n, const host_entry_t entries[],
                         char text[], size_t size)
{
    int num = 0;
    size_t len = 0;

    for (int i = 0; i < n; i++) {
        const whereabouts_t *its = &all[entries[i].rank];
        if (its->site_host != -1 || (i > 0 && entries[i].host == entries[i - 1].host))
            continue;
        if (num++ < MAX_NAMED)
            len += snprintf(text + len, size - len, "%s%s", len ? ", " : "", its->host_name);
    }
    if (num > MAX_NAMED)
        snprintf(text + len, size - len, " and %d more", num - MAX_NAMED);
}

/* Print at most one warning of each kind, from rank 0 of MPI_COMM_WORLD if it is in the
 * communicator. */
static void warn_if_unusable(const whereabouts_t all[], int n, const host_entry_t entries[],
                             bool is_same)
{
    int num_unknown = 0, num_settings = 0, settings = -1, other = -1;
    char text[MPII_TOPO_ERR_LEN], names[(MAX_NAMED + 1) * sizeof(MPII_Topo_name_t)];

    for (int i = n - 1; i >= 0; i--) {
        if (all[i].digest != all[0].digest)
            other = i;
        num_unknown += all[i].site_host == -1;
        if (all[i].other_setting) {
            settings = i;
            num_settings++;
        }
    }
    if (num_settings > 0) {
        snprintf(text, sizeof(text),
                 "%s: found another value on rank %d than on rank 0, expected the same "
                 "on all (%d ranks have other settings); what rank 0 has holds",
                 MPII_Coll_setting_name(all[settings].other_setting), settings, num_settings);
        MPII_Topo_warn_once(&has_warned_settings, text);
    }
    if (!is_same) {
        snprintf(text, sizeof(text), "%s: rank %d does not hold the topology that rank 0 holds, "
                 "expected the same on all ranks; all hosts count as equally far apart",
                 site ? site->name : "MPIR_CVAR_COLL_TOPOLOGY_FILE", other);
        MPII_Topo_warn_once(&has_warned_differs, text);
    } else if (site && num_unknown > 0) {
        name_unknown(all, n, entries, names, sizeof(names));
        snprintf(text, sizeof(text),
                 "%s: does not know the hosts of %d of %d ranks: %s; they count as "
                 "the furthest, each host in a rack of its own", site->name, num_unknown, n, names);
        MPII_Topo_warn_once(&has_warned_unknown, text);
    }
}

/* If two hosts of the communicator match the same host of the site (n1.a and n1.b match n1), treat
 * both as unknown to the site. */
static void tell_hosts_apart(whereabouts_t all[], int n)
{
    if (site == NULL)
        return;
    uint64_t *host_at = MPL_calloc(site->num_hosts, 2 * sizeof(uint64_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(host_at);
    uint64_t *has_several = host_at + site->num_hosts;
    for (int i = 0; i < n; i++) {
        int at = all[i].site_host;
        if (at == -1)
            continue;
        has_several[at] |= host_at[at] && host_at[at] != all[i].host;
        host_at[at] = all[i].host;
    }
    for (int i = 0; i < n; i++) {
        if (all[i].site_host != -1 && has_several[all[i].site_host])
            all[i].site_host = -1;
    }
    MPL_free(host_at);
}

static bool wants_names(void)
{
    return MPIR_CVAR_COLL_TOPOLOGY_VERBOSE > 0 ||
        (MPIR_Process.rank == 0 &&
         MPIR_CVAR_COLL_SELECTION_REPORT == MPIR_CVAR_COLL_SELECTION_REPORT_print);
}

static MPII_Topo_view_t *view_of(whereabouts_t all[], int n)
{
    int num_ids = 0;
    bool is_same = true, has_threads = false;
    host_entry_t *entries = MPL_malloc(n * sizeof(*entries), MPL_MEM_COLL);
    int *id = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    int *site_host_of_id = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    uint64_t *path = MPL_malloc(n * sizeof(uint64_t), MPL_MEM_COLL);

    MPII_TOPO_NEED(entries && id && site_host_of_id && path);
    for (int i = 0; i < n; i++) {
        entries[i].host = all[i].host;
        entries[i].rank = i;
        path[i] = all[i].path;
        is_same = is_same && all[i].digest == all[0].digest;
        has_threads = has_threads || all[i].has_threads;
    }
    if (is_same)
        tell_hosts_apart(all, n);
    qsort(entries, n, sizeof(*entries), cmp_host);
    warn_if_unusable(all, n, entries, is_same);
    for (int i = 0; i < n; i++) {
        if (i == 0 || entries[i].host != entries[i - 1].host)
            site_host_of_id[num_ids++] = all[entries[i].rank].site_host;
        id[entries[i].rank] = num_ids - 1;
    }
    MPII_Topo_view_t *view =
        MPII_Topo_view_create(n, id, num_ids, site_host_of_id, path, is_same ? site : NULL,
                              has_threads,
                              &all[0].settings);
    for (int i = 0; i < n && wants_names(); i++)
        set_host_name(view, i, all[i].host_name);
    MPL_free(entries);
    MPL_free(id);
    MPL_free(site_host_of_id);
    return view;
}

/* Keep the processes of MPI_COMM_WORLD on this host. If memory is exhausted, they stay unknown. */
static void keep_neighbours(const whereabouts_t all[], int n, int rank)
{
    MPII_Topo_neighbour_t *found;

    if (neighbours)
        return;
    num_neighbours = 0;
    for (int i = 0; i < n; i++)
        num_neighbours += all[i].host == all[rank].host;
    found = MPL_malloc(num_neighbours * sizeof(*found), MPL_MEM_COLL);
    for (int i = 0, k = 0; i < n && found; i++) {
        if (all[i].host == all[rank].host)
            found[k++] = (MPII_Topo_neighbour_t) {
            .rank = i,.processors = all[i].processors};
    }
    neighbours = found;
}

const MPII_Topo_neighbour_t *MPII_Topo_neighbours(int *num)
{
    *num = neighbours ? num_neighbours : 0;
    return neighbours;
}

/* Give a communicator its view: agree on the topology, and exchange where the processes are.
 * Collective. */
static int agree(MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, n = comm_ptr->local_size;
    whereabouts_t self = find_self();
    whereabouts_t *all = MPL_malloc(n * sizeof(whereabouts_t), MPL_MEM_COLL);

    MPII_TOPO_NEED(all);
    mpi_errno = MPIR_Allgather_intra_brucks(&self, sizeof(self), TOPO_BYTE, all, sizeof(self),
                                            TOPO_BYTE, comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_Topo_view_t *view = view_of(all, n);
    MPII_Topo_view_set(comm_ptr, view, NULL);
    MPII_Topo_view_release(view);
    if (comm_ptr == MPIR_Process.comm_world)
        keep_neighbours(all, n, comm_ptr->rank);

  fn_exit:
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

bool MPII_Topo_is_placed(MPIR_Comm * comm_ptr)
{
    find_in_world(comm_ptr);
    return comm_ptr->coll.topo != NULL;
}

bool MPII_Topo_is_to_tell(MPIR_Comm * comm_ptr, int verbose, unsigned what)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE < verbose || comm_ptr->rank != 0 || (topo->told & what))
        return false;
    topo->told |= what;
    return true;
}

/* Print where the ranks of a communicator are, if the user wants that. */
static void tell_place(MPIR_Comm * comm_ptr)
{
    if (MPII_Topo_is_to_tell(comm_ptr, 1, MPII_TOPO_TOLD_PLACE))
        MPII_Topo_print_place(comm_ptr->coll.topo->view, (unsigned) comm_ptr->handle);
}

int MPII_Topo_comm_find(MPIR_Comm * comm_ptr, MPII_Topo_view_t ** view, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    if (comm_ptr->coll.topo == NULL)
        find_in_world(comm_ptr);
    if (comm_ptr->coll.topo == NULL) {
        mpi_errno = agree(comm_ptr, attr);
        MPIR_ERR_CHECK(mpi_errno);
    }
    *view = comm_ptr->coll.topo->view;
    tell_place(comm_ptr);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- the place of MPI_COMM_WORLD -- */

/* Tell MPICH's topology-aware trees: a host is what they call a switch, and a rack a group of
 * switches. */
static void set_coords(const MPII_Topo_view_t * view)
{
    const MPII_Topo_place_t *place = &view->place;

    if (view->site == NULL || !TOPO_WANTS_COORDS)
        return;
    int *coords = MPL_malloc(place->num_ranks * TOPO_COORDS * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(coords);
    for (int i = 0; i < place->num_ranks; i++) {
        int host = place->host_of_rank[i];
        coords[TOPO_COORDS * i] = i;
        coords[TOPO_COORDS * i + 1] = host;
        coords[TOPO_COORDS * i + 2] = place->rack_of_host[host];
    }
    MPII_Topo_set_coords(coords);
    has_coords = true;
}

int MPII_Topo_place_world(void)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *comm_ptr = MPIR_Process.comm_world;
    TOPO_COLL_ATTR_NEW;

    if (comm_ptr == NULL || world)
        goto fn_exit;
    if (comm_ptr->coll.topo == NULL) {
        mpi_errno = agree(comm_ptr, attr);
        MPIR_ERR_CHECK(mpi_errno);
    }
    world = comm_ptr->coll.topo->view;
    world_store = comm_ptr->coll.topo->store;
    MPL_atomic_fetch_add_int(&world->num_users, 1);
    MPL_atomic_fetch_add_int(&world_store->num_users, 1);
    num_on_host = 0;
    for (int i = 0; i < comm_ptr->local_size; i++)
        num_on_host += world->place.host_of_rank[i] == world->place.host_of_rank[comm_ptr->rank];
    set_coords(world);
    tell_place(comm_ptr);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

bool MPII_Topo_world_is_auto(void)
{
    return world && world->settings.is_auto;
}

bool MPII_Topo_world_is_adaptive(void)
{
    return world && world->settings.is_adaptive;
}

int MPII_Topo_num_on_host(void)
{
    return world ? num_on_host : MPL_MAX(MPIR_Process.local_size, 1);
}

bool MPII_Topo_is_forced(void)
{
#define IS_FORCED(COLL, Coll, coll, algo, desc)                         \
    if (MPIR_CVAR_##COLL##_INTRA_ALGORITHM == MPIR_CVAR_##COLL##_INTRA_ALGORITHM_##algo)        \
        return true;
#define SELECTS(COLL, Coll, coll, algo) IS_FORCED(COLL, Coll, coll, algo, "")
    MPIR_TOPO_ALGOS(IS_FORCED)
        MPIR_TOPO_AUTOS(SELECTS)
#undef SELECTS
#undef IS_FORCED
        if (MPIR_CVAR_COLL_TOPO_AUTO)
        return true;
    return MPIR_CVAR_COLL_TOPOLOGY_FILE && *MPIR_CVAR_COLL_TOPOLOGY_FILE;
}
