/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_shm.h"
#include "topo_site.h"
#include "topo_exchange.h"
#include "topo_pipe.h"
#include "topo_auto.h"
#include "topo_rates.h"
#include <json.h>

/* How the processes of a communicator learn where they all are.
 *
 * - At the end of MPI_Init, all processes of MPI_COMM_WORLD together, if rank 0 has a tuning file, a
 *   topology file, or a CVAR that forces one of these algorithms. All know that from what rank 0
 *   told before the barrier of MPI_Init (csel_tuning.c), so all take part, and nobody else pays.
 *   From then on each process finds the place of a communicator in the world's, without
 *   communication, if all its processes are of that world: they all have it.
 * - Else (CVARs set later or not by rank 0, sessions, processes of several worlds) by an agreement at
 *   the first call on a communicator. Its duplicates made after that inherit. That is the same
 *   decision on all processes: duplication is collective over the parent, as the call in which the
 *   parent's place was found, and all processes make collective calls on a communicator in one
 *   order. The same cannot be said of what other communicators learnt, were they all of its
 *   processes: threads, and processes that are not in both, may be in another order there.
 *
 * Where no process has MPI_THREAD_MULTIPLE, duplicates also share what algorithms keep: memory on
 * each host, routes, trees; but for the plans of alltoallv, which tell of the counts that one has.
 * Then all their processes make blocking calls on all of them in one order: two that called them in
 * another one would wait for each other for ever if the collectives were synchronizing, which a
 * correct program must allow for. So it is as if they were made on one communicator, but for the
 * messages, which have the context of each. The first call on a duplicate costs what any other does,
 * and a program with very many of them needs no more memory. */

MPII_Topo_counter_t MPII_Topo_calls[MPII_TOPO_ALGO__END];
int MPII_Topo_as_agreed = -1;

/* What a process tells the others of a communicator about itself. */
typedef struct {
    uint64_t digest;            /* of its topology; 0 for none */
    uint64_t host;              /* hash of the host's name */
    uint64_t path;              /* location inside the host */
    int32_t site_host;          /* index of the host in the topology, or -1 */
    int32_t has_threads;        /* whether it has MPI_THREAD_MULTIPLE */
    MPII_Topo_settings_t settings;
} whereabouts_t;

/* A renumbering for recursive doubling */
typedef struct {
    int slot;                   /* of the calling process */
    bool are_ranks;
    int slots[];                /* [num_ranks] */
} slots_t;

/* Where the processes of a communicator are, and what follows from that alone. A communicator and
 * its duplicates share it, and may use it at the same time. */
typedef struct {
    MPL_atomic_int_t num_users;
    MPII_Topo_place_t place;
    MPII_Topo_settings_t settings;
    int max_ppn;                /* most ranks on a host */
    bool use_site;              /* whether all processes hold the same topology */
    bool has_threads;           /* whether one of them has MPI_THREAD_MULTIPLE */
    int *site_host;             /* [num_hosts] index of a host in the topology, or -1 */
    int *site_rack;             /* [num_racks] likewise */
    MPL_atomic_ptr_t order;     /* MPII_Topo_order_t, built when first asked for */
    MPL_atomic_ptr_t slots;     /* slots_t, likewise */
    MPL_atomic_ptr_t links;     /* MPII_Topo_links_t, likewise */
    MPL_atomic_ptr_t decisions; /* the first of MPII_Topo_decision_t */
} view_t;

/* What algorithms keep, with a communicator or with all duplicates */
typedef struct {
    MPL_atomic_int_t num_users;
    MPII_Topo_kept_t kept;
} store_t;

struct MPII_Topo_comm {
    view_t *view;
    store_t *store;
    struct MPII_Topo_plans *plans;
    MPII_Topo_pipes_t *pipes;   /* NULL until schedules have run PIPES_AFTER times */
    int num_runs;
    unsigned told;              /* what has been printed: bits of TOLD_ */
};
enum { TOLD_PLACE = 1, TOLD_RING = 2, TOLD_SLOTS = 4 };

static MPII_Topo_site_t *site;
static char *site_name;         /* file that site came from */
static view_t *world;           /* of MPI_COMM_WORLD, if all its processes found it in MPI_Init */
static store_t *world_store;    /* likewise */
static int num_on_host;         /* processes of MPI_COMM_WORLD on this host, likewise */
static bool has_coords;         /* whether MPICH has coordinates of ours */
static MPL_atomic_int_t has_warned_differs, has_warned_unknown;

/* Location of this process inside its host, from the cores that it is bound to. */
static uint64_t path_in_host(void)
{
    static const MPIR_hwtopo_type_e levels[MPII_TOPO_PATH_LEVELS] = {
        MPIR_HWTOPO_TYPE__PACKAGE, MPIR_HWTOPO_TYPE__DDR, MPIR_HWTOPO_TYPE__L3CACHE,
        MPIR_HWTOPO_TYPE__CORE
    };
    uint64_t path = 0;

    for (int i = 0; i < MPII_TOPO_PATH_LEVELS; i++) {
        MPIR_hwtopo_gid_t gid = MPIR_hwtopo_get_obj_by_type(levels[i]);
        /* the root: not bound to one object of this type */
        int index = gid == MPIR_HWTOPO_GID_ROOT ? 0 : MPIR_hwtopo_get_lid(gid) + 1;
        path = path << 16 | (index & 0xffff);
    }
    return path;
}

void MPII_Topo_warn(const char *text)
{
    if (MPIR_Process.rank == 0) {
        fprintf(stderr, "[mpich] warning: %s\n", text);
        fflush(stderr);
    }
}

void MPII_Topo_warn_once(MPL_atomic_int_t * has_warned, const char *text)
{
    if (MPL_atomic_swap_int(has_warned, 1) == 0)
        MPII_Topo_warn(text);
}

static void view_release(view_t * view)
{
    if (view == NULL || MPL_atomic_fetch_sub_int(&view->num_users, 1) > 1)
        return;
    MPL_free(MPL_atomic_load_ptr(&view->order));
    MPL_free(MPL_atomic_load_ptr(&view->slots));
    MPL_free(MPL_atomic_load_ptr(&view->links));
    for (MPII_Topo_decision_t * d = MPL_atomic_load_ptr(&view->decisions), *next; d; d = next) {
        next = d->next;
        MPL_free(d);
    }
    MPL_free(view->place.host_of_rank);
    MPL_free(view->place.rack_of_host);
    MPL_free(view->place.path_of_rank);
    MPL_free(view->site_host);
    MPL_free(view->site_rack);
    MPL_free(view);
}

static void store_release(store_t * store)
{
    if (store == NULL || MPL_atomic_fetch_sub_int(&store->num_users, 1) > 1)
        return;
    MPII_Topo_exchange_free(store->kept.exchange);
    MPII_Topo_exchange_free(store->kept.nonblocking_exchange);
    MPL_free(store);
}

int MPII_Topo_init(void)
{
#define REGISTER(COLL, Coll, coll, algo, desc)                                          \
    MPII_Topo_counter_set(&MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo], 0);        \
    MPIR_T_PVAR_COUNTER_REGISTER_DYNAMIC_impl(MPI_UNSIGNED_LONG,                        \
                                              coll_topo_##coll##_##algo##_calls,        \
                                              &MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo], \
                                              1, MPI_T_VERBOSITY_USER_BASIC,            \
                                              MPI_T_BIND_NO_OBJECT,                     \
                                              (MPIR_T_PVAR_FLAG_READONLY |              \
                                               MPIR_T_PVAR_FLAG_CONTINUOUS), NULL, NULL, \
                                              "COLLECTIVE",                             \
                                              "calls of " #coll " " #algo ": " desc);
    MPIR_TOPO_ALGOS(REGISTER)
#undef REGISTER
#define COUNTER(name, variable, desc)                                                   \
    MPII_Topo_counter_set(&variable, 0);                                                \
    MPIR_T_PVAR_COUNTER_REGISTER_DYNAMIC_impl(MPI_UNSIGNED_LONG, name, &variable, 1,    \
                                              MPI_T_VERBOSITY_USER_BASIC,               \
                                              MPI_T_BIND_NO_OBJECT,                     \
                                              (MPIR_T_PVAR_FLAG_READONLY |              \
                                               MPIR_T_PVAR_FLAG_CONTINUOUS), NULL, NULL, \
                                              "COLLECTIVE", desc " (of this process)")
    COUNTER(coll_topo_rack_messages, MPII_Topo_rack_messages,
            "messages to other racks, but for those of MPICH's own algorithms");
    COUNTER(coll_topo_shm_messages, MPII_Topo_shm_messages,
            "messages through shared memory, but for alltoall and alltoallv by plans");
    COUNTER(coll_topo_auto_decisions, MPII_Topo_auto_decisions,
            "decisions of topo_auto that were worked out, and not found");
    COUNTER(coll_topo_host_messages, MPII_Topo_host_messages,
            "messages to other hosts in alltoall and alltoallv by plans");
    COUNTER(coll_topo_plan_hits, MPII_Topo_plan_hits, "calls of alltoallv that found their plan");
    COUNTER(coll_topo_plan_misses, MPII_Topo_plan_misses,
            "calls of alltoallv that found no plan");
    COUNTER(coll_topo_plan_builds, MPII_Topo_plan_builds,
            "plans built, for alltoallv and persistent alltoall(v)");
    COUNTER(coll_topo_plan_build_usec, MPII_Topo_plan_build_usec,
            "time spent building plans, microseconds");
    COUNTER(coll_topo_plan_bytes, MPII_Topo_plan_bytes, "bytes of the plans kept now");
    COUNTER(coll_topo_plan_declined_place, MPII_Topo_plan_declined[MPII_TOPO_DECLINED_PLACE],
            "calls of planned alltoall(v) that went the stock way: one host, or one rank a host");
    COUNTER(coll_topo_plan_declined_size, MPII_Topo_plan_declined[MPII_TOPO_DECLINED_SIZE],
            "calls of planned alltoall(v) that went the stock way: long blocks");
    COUNTER(coll_topo_plan_declined_memory, MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MEMORY],
            "calls of planned alltoall(v) that went the stock way: no memory");
    COUNTER(coll_topo_plan_declined_misses, MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISSES],
            "calls of planned alltoallv that went the stock way: counts changed too often");
    COUNTER(coll_topo_plan_declined_mismatch, MPII_Topo_plan_declined[MPII_TOPO_DECLINED_MISMATCH],
            "calls of planned alltoall(v) without a plan: other sizes sent than received");
#undef COUNTER
    return MPI_SUCCESS;
}

int MPII_Topo_finalize(void)
{
    MPII_Topo_site_free(site);
    site = NULL;
    MPL_free(site_name);
    site_name = NULL;
    if (has_coords)
        MPII_Topo_set_coords(NULL);
    has_coords = false;
    store_release(world_store);
    world_store = NULL;
    view_release(world);
    world = NULL;
    MPII_Topo_shm_finalize();
    return MPI_SUCCESS;
}

/* Hosts are told apart by name, not by node id: a launcher may count a host that comes twice in its
 * list as two nodes, and node ids of processes that were spawned do not compare. */
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
        .settings.is_auto = MPIR_CVAR_COLL_TOPO_AUTO != 0,
    };
#define SEGMENT_BYTES(coll, algo, cvar) \
    self.settings.segment_bytes_of[MPII_TOPO_SEGMENTED__##coll##_##algo] = MPL_MAX(cvar, 0);
    MPIR_TOPO_SEGMENTED(SEGMENT_BYTES)
#undef SEGMENT_BYTES
    const char *host = MPIR_CVAR_COLL_TOPOLOGY_HOST;
    char hostname[256] = "";

    if (host == NULL || *host == '\0') {
        if (MPIR_pmi_has_local_cliques())
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
    return self;
}

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

    MPII_Topo_finalize();
    if (root && MPII_Topo_site_create(name, root, &site, err))
        return -1;
    if (site == NULL && MPIR_CVAR_COLL_TOPOLOGY_FILE && *MPIR_CVAR_COLL_TOPOLOGY_FILE) {
        name = MPIR_CVAR_COLL_TOPOLOGY_FILE;
        if (load_site_file(name, file_err))
            MPII_Topo_warn(file_err);
    }
    if (site)
        site_name = MPL_strdup(name);
    return 0;
}

/* Give a communicator its view, and a store: that of others, if there are any that may share it. */
static void set_view(MPIR_Comm * comm_ptr, view_t * view, store_t * others)
{
    struct MPII_Topo_comm *topo = MPL_calloc(1, sizeof(*topo), MPL_MEM_COLL);

    MPII_TOPO_NEED(topo);
    topo->view = view;
    MPL_atomic_fetch_add_int(&view->num_users, 1);
    topo->store = others;
    if (others == NULL || view->has_threads) {
        topo->store = MPL_calloc(1, sizeof(store_t), MPL_MEM_COLL);
        MPII_TOPO_NEED(topo->store);
    }
    MPL_atomic_fetch_add_int(&topo->store->num_users, 1);
    comm_ptr->coll.topo = topo;
}

/* Whether something is to be printed for a communicator, that has not been yet. */
static bool is_to_tell(MPIR_Comm * comm_ptr, int verbose, unsigned what)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE < verbose || comm_ptr->rank != 0 || (topo->told & what))
        return false;
    topo->told |= what;
    return true;
}

void MPII_Topo_comm_inherit(MPIR_Comm * comm_ptr, const MPIR_Comm * parent)
{
    const struct MPII_Topo_comm *topo = parent->coll.topo;

    if (topo)
        set_view(comm_ptr, topo->view, topo->store);
}

void MPII_Topo_comm_cleanup(MPIR_Comm * comm_ptr)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (topo == NULL)
        return;
    MPII_Topo_plans_free(topo->plans);
    MPII_Topo_pipes_free(topo->pipes);
    store_release(topo->store);
    view_release(topo->view);
    MPL_free(topo);
    comm_ptr->coll.topo = NULL;
}

static int host_distance(const void *state, int a, int b)
{
    const view_t *view = state;
    int site_a = view->site_host[a], site_b = view->site_host[b];

    if (site_a == -1 || site_b == -1)
        return MPII_TOPO_DISTANCE_MAX + 1;
    return site->host_distance[(size_t) site_a * site->num_hosts + site_b];
}

static int rack_distance(const void *state, int a, int b)
{
    const view_t *view = state;
    int site_a = view->site_rack[a], site_b = view->site_rack[b];

    if (site_a == -1 || site_b == -1)
        return MPII_TOPO_DISTANCE_MAX + 1;
    return site->rack_distance[(size_t) site_a * site->num_racks + site_b];
}

/* Number the hosts in the order of their lowest rank. id[num_ranks]: what a host is known by, below
 * num_ids; site_host_of_id[num_ids]: its index in the topology, or -1. */
static void number_hosts(view_t * view, const int id[], int num_ids, const int site_host_of_id[])
{
    MPII_Topo_place_t *place = &view->place;
    int *host_of_id = MPL_malloc(num_ids * sizeof(int), MPL_MEM_COLL);
    int *num_on = MPL_calloc(num_ids, sizeof(int), MPL_MEM_COLL);

    place->host_of_rank = MPL_malloc(place->num_ranks * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(host_of_id && num_on && place->host_of_rank);
    for (int i = 0; i < num_ids; i++)
        host_of_id[i] = -1;
    for (int i = 0; i < place->num_ranks; i++) {
        if (host_of_id[id[i]] == -1)
            host_of_id[id[i]] = place->num_hosts++;
        place->host_of_rank[i] = host_of_id[id[i]];
        num_on[id[i]]++;
        view->max_ppn = MPL_MAX(view->max_ppn, num_on[id[i]]);
    }
    view->site_host = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(view->site_host);
    for (int i = 0; i < num_ids; i++) {
        if (host_of_id[i] != -1)
            view->site_host[host_of_id[i]] = site_host_of_id[i];
    }
    MPL_free(host_of_id);
    MPL_free(num_on);
}

/* Number the racks in the order of their lowest host. A host that the topology does not know has a
 * rack of its own. Without a topology all hosts are in one rack. */
static void number_racks(view_t * view)
{
    MPII_Topo_place_t *place = &view->place;
    int *rack_of_site = NULL;

    place->rack_of_host = MPL_calloc(place->num_hosts, sizeof(int), MPL_MEM_COLL);
    view->site_rack = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(place->rack_of_host && view->site_rack);
    if (!view->use_site) {
        place->num_racks = 1;
        view->site_rack[0] = -1;
        return;
    }
    rack_of_site = MPL_malloc(site->num_racks * sizeof(int), MPL_MEM_COLL);
    MPII_TOPO_NEED(rack_of_site);
    for (int i = 0; i < site->num_racks; i++)
        rack_of_site[i] = -1;
    for (int h = 0; h < place->num_hosts; h++) {
        int site_rack = view->site_host[h] == -1 ? -1 : site->rack_of_host[view->site_host[h]];
        if (site_rack != -1 && rack_of_site[site_rack] != -1) {
            place->rack_of_host[h] = rack_of_site[site_rack];
            continue;
        }
        if (site_rack != -1)
            rack_of_site[site_rack] = place->num_racks;
        view->site_rack[place->num_racks] = site_rack;
        place->rack_of_host[h] = place->num_racks++;
    }
    MPL_free(rack_of_site);
}

/* A view of num_ranks processes, id and site_host_of_id as above. Takes path. */
static view_t *view_create(int num_ranks, const int id[], int num_ids, const int site_host_of_id[],
                           uint64_t * path, bool use_site, bool has_threads,
                           const MPII_Topo_settings_t * settings)
{
    view_t *view = MPL_calloc(1, sizeof(*view), MPL_MEM_COLL);
    MPII_Topo_place_t *place;

    MPII_TOPO_NEED(view);
    MPL_atomic_store_int(&view->num_users, 1);
    MPL_atomic_store_ptr(&view->order, NULL);
    MPL_atomic_store_ptr(&view->slots, NULL);
    MPL_atomic_store_ptr(&view->links, NULL);
    MPL_atomic_store_ptr(&view->decisions, NULL);
    view->use_site = use_site;
    view->has_threads = has_threads;
    view->settings = *settings;
    place = &view->place;
    place->num_ranks = num_ranks;
    place->path_of_rank = path;
    number_hosts(view, id, num_ids, site_host_of_id);
    number_racks(view);

    place->state = view;
    place->rack_join_bytes = use_site ? site->rack_join_bytes : -1;
    if (use_site && site->host_distance)
        place->host_distance = host_distance;
    if (use_site && site->rack_distance)
        place->rack_distance = rack_distance;
    return view;
}

/* -- from the world -- */

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

/* Give an intracommunicator its view, if that can be found without communication. */
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
        /* as good as a duplicate of it */
        set_view(comm_ptr, world, world_store);
        MPL_free(path);
    } else {
        view_t *view = view_create(n, id, world->place.num_hosts, world->site_host, path,
                                   world->use_site, world->has_threads, &world->settings);
        set_view(comm_ptr, view, NULL);
        view_release(view);
    }
    MPL_free(id);
}

void MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count)
{
    count->num_hosts = count->num_racks = count->max_ppn = MPIR_AINT_MAX;
    if (comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM || world == NULL ||
        !MPII_Topo_is_in_world(comm_ptr))
        return;
    find_in_world(comm_ptr);
    const view_t *view = comm_ptr->coll.topo->view;
    count->num_hosts = view->place.num_hosts;
    count->num_racks = view->place.num_racks;
    count->max_ppn = view->max_ppn;
}

/* -- by agreement -- */

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

/* One warning, from rank 0 of MPI_COMM_WORLD, if it is in the communicator. */
static void warn_if_unusable(const whereabouts_t all[], int n, bool is_same)
{
    int num_unknown = 0, unknown = -1, other = -1;
    char text[MPII_TOPO_ERR_LEN];

    for (int i = n - 1; i >= 0; i--) {
        if (all[i].digest != all[0].digest)
            other = i;
        if (all[i].site_host == -1) {
            unknown = i;
            num_unknown++;
        }
    }
    if (!is_same) {
        snprintf(text, sizeof(text), "%s: rank %d does not hold the topology that rank 0 holds, "
                 "expected the same on all ranks; all hosts count as equally far apart",
                 site_name ? site_name : "MPIR_CVAR_COLL_TOPOLOGY_FILE", other);
        MPII_Topo_warn_once(&has_warned_differs, text);
    } else if (site && num_unknown > 0) {
        snprintf(text, sizeof(text), "%s: does not know the hosts of %d of %d ranks (the first is "
                 "rank %d); they count as the furthest, each host in a rack of its own",
                 site_name, num_unknown, n, unknown);
        MPII_Topo_warn_once(&has_warned_unknown, text);
    }
}

static view_t *view_of(const whereabouts_t all[], int n)
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
    warn_if_unusable(all, n, is_same);
    qsort(entries, n, sizeof(*entries), cmp_host);
    for (int i = 0; i < n; i++) {
        if (i == 0 || entries[i].host != entries[i - 1].host)
            site_host_of_id[num_ids++] = all[entries[i].rank].site_host;
        id[entries[i].rank] = num_ids - 1;
    }
    view_t *view = view_create(n, id, num_ids, site_host_of_id, path, site && is_same, has_threads,
                               &all[0].settings);
    MPL_free(entries);
    MPL_free(id);
    MPL_free(site_host_of_id);
    return view;
}

/* Give a communicator its view: agree on the topology, and learn where everybody is. Collective. */
static int agree(MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, n = comm_ptr->local_size;
    whereabouts_t self = find_self();
    whereabouts_t *all = MPL_malloc(n * sizeof(whereabouts_t), MPL_MEM_COLL);

    MPII_TOPO_NEED(all);
    mpi_errno = MPIR_Allgather_intra_brucks(&self, sizeof(self), TOPO_BYTE, all, sizeof(self),
                                            TOPO_BYTE, comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    view_t *view = view_of(all, n);
    set_view(comm_ptr, view, NULL);
    view_release(view);

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

/* The view of a communicator, for an algorithm that runs on it. */
static int get_view(MPIR_Comm * comm_ptr, view_t ** view, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    if (comm_ptr->coll.topo == NULL)
        find_in_world(comm_ptr);
    if (comm_ptr->coll.topo == NULL) {
        mpi_errno = agree(comm_ptr, attr);
        MPIR_ERR_CHECK(mpi_errno);
    }
    *view = comm_ptr->coll.topo->view;
    if (is_to_tell(comm_ptr, 1, TOLD_PLACE)) {
        const MPII_Topo_place_t *place = &(*view)->place;
        printf("[mpich] topology of communicator 0x%08x: %d ranks, %d hosts, %d racks, from %s\n",
               (unsigned) comm_ptr->handle, place->num_ranks, place->num_hosts, place->num_racks,
               (*view)->use_site ? site_name : "host names");
        fflush(stdout);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* A rack is what MPICH's trees call a group of switches, and a host a switch. */
static void set_coords(const view_t * view)
{
    const MPII_Topo_place_t *place = &view->place;

    if (!view->use_site || !TOPO_WANTS_COORDS)
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

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
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

/* -- renumberings -- */

static void print_order(MPIR_Comm * comm_ptr, unsigned what, const char *name, const int order[])
{
    if (!is_to_tell(comm_ptr, 2, what))
        return;
    printf("[mpich] topology of communicator 0x%08x: %s", (unsigned) comm_ptr->handle, name);
    for (int i = 0; i < comm_ptr->local_size; i++)
        printf(" %d", order[i]);
    printf("\n");
    fflush(stdout);
}

static int position(const int order[], int rank)
{
    int pos = 0;
    while (order[pos] != rank)
        pos++;
    return pos;
}

/* Keep what was built in a view, or what another thread has put there meanwhile. */
static void *keep(MPL_atomic_ptr_t * where, void *built)
{
    void *before = MPL_atomic_cas_ptr(where, NULL, built);
    return before ? before : built;
}

int MPII_Topo_comm_order(MPIR_Comm * comm_ptr, const MPII_Topo_order_t ** order_,
                         MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_order_t *order, *built;
    view_t *view;

    mpi_errno = get_view(comm_ptr, &view, attr);
    MPIR_ERR_CHECK(mpi_errno);
    order = MPL_atomic_load_ptr(&view->order);
    if (order == NULL) {
        int *ring = MPL_malloc(comm_ptr->local_size * sizeof(int), MPL_MEM_COLL);
        MPII_TOPO_NEED(ring && MPII_Topo_map_ring(&view->place, ring) == 0);
        built = MPII_Topo_order_create(&view->place, ring);
        MPII_TOPO_NEED(built);
        MPL_free(ring);
        order = keep(&view->order, built);
        if (order != built)
            MPL_free(built);
    }
    print_order(comm_ptr, TOLD_RING, "ring", order->rank_at);
    *order_ = order;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots_, int *slot,
                                      bool * is_identity, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, n = comm_ptr->local_size;
    slots_t *slots, *built;
    view_t *view;

    mpi_errno = get_view(comm_ptr, &view, attr);
    MPIR_ERR_CHECK(mpi_errno);
    slots = MPL_atomic_load_ptr(&view->slots);
    if (slots == NULL) {
        built = MPL_malloc(sizeof(*built) + n * sizeof(int), MPL_MEM_COLL);
        MPII_TOPO_NEED(built && MPII_Topo_map_recursive_doubling(&view->place, built->slots) == 0);
        built->slot = position(built->slots, comm_ptr->rank);
        built->are_ranks = true;
        for (int i = 0; i < n; i++) {
            if (built->slots[i] != i)
                built->are_ranks = false;
        }
        slots = keep(&view->slots, built);
        if (slots != built)
            MPL_free(built);
    }
    print_order(comm_ptr, TOLD_SLOTS, "recursive doubling", slots->slots);
    *slots_ = slots->slots;
    *slot = slots->slot;
    *is_identity = slots->are_ranks;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_comm_links(MPIR_Comm * comm_ptr, const MPII_Topo_links_t ** links_,
                         MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    const MPII_Topo_order_t *order;
    view_t *view;

    *links_ = NULL;
    mpi_errno = MPII_Topo_comm_order(comm_ptr, &order, attr);
    MPIR_ERR_CHECK(mpi_errno);
    view = comm_ptr->coll.topo->view;
    if (!view->use_site || !site->rates)
        goto fn_exit;
    *links_ = MPL_atomic_load_ptr(&view->links);
    if (*links_ == NULL) {
        int *rack = MPL_malloc(order->num_racks * sizeof(int), MPL_MEM_COLL);
        MPII_TOPO_NEED(rack);
        for (int i = 0; i < order->num_racks; i++) {
            int rank = order->rank_at[order->first_pos[order->first_host[i]]];
            rack[i] = view->site_rack[view->place.rack_of_host[view->place.host_of_rank[rank]]];
        }
        void *built = MPII_Topo_links_create(site->rates, order, rack);
        MPII_TOPO_NEED(built);
        MPL_free(rack);
        *links_ = keep(&view->links, built);
        if (*links_ != built)
            MPL_free(built);
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

MPL_atomic_ptr_t *MPII_Topo_comm_decisions(MPIR_Comm * comm_ptr)
{
    return &comm_ptr->coll.topo->view->decisions;
}

const char *MPII_Topo_why_no_links(MPIR_Comm * comm_ptr)
{
    if (site)
        return comm_ptr->coll.topo->view->use_site ? site_name : NULL;
    return MPIR_CVAR_COLL_TOPOLOGY_FILE && *MPIR_CVAR_COLL_TOPOLOGY_FILE ? NULL :
        "MPIR_CVAR_COLL_TOPOLOGY_FILE";
}

const MPII_Topo_settings_t *MPII_Topo_comm_settings(const MPIR_Comm * comm_ptr)
{
    return &comm_ptr->coll.topo->view->settings;
}

int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_kept_t ** kept, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    view_t *view;

    mpi_errno = get_view(comm_ptr, &view, attr);
    MPIR_ERR_CHECK(mpi_errno);
    *place = &view->place;
    *kept = &comm_ptr->coll.topo->store->kept;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Pipes belong to one communicator, not to its duplicates: while a process waits in one collective, its
 * progress may run another one on a new duplicate (the broadcast in the commit of MPI_Comm_idup). They are
 * made when it is used for more than being made itself. */
#define PIPES_AFTER 2

int MPII_Topo_comm_pipes(MPIR_Comm * comm_ptr, const MPII_Topo_order_t * order, int tag,
                         MPII_Topo_pipes_t ** pipes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (topo->num_runs < PIPES_AFTER)
        topo->num_runs++;
    else if (topo->pipes == NULL)
        mpi_errno = MPII_Topo_pipes_create(comm_ptr, order, tag, &topo->pipes, attr);
    *pipes = topo->pipes;
    return mpi_errno;
}

struct MPII_Topo_plans **MPII_Topo_comm_plans(MPIR_Comm * comm_ptr)
{
    return &comm_ptr->coll.topo->plans;
}

int MPII_Topo_wait_bytes(MPIR_Request ** request, MPI_Aint * bytes, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;

    *bytes = 0;
    if (*request == NULL)
        return MPI_SUCCESS;
    mpi_errno = MPII_Topo_wait_request(*request, attr);
    if (mpi_errno == MPI_SUCCESS && (*request)->kind == MPIR_REQUEST_KIND__RECV) {
        mpi_errno = (*request)->status.MPI_ERROR;
        *bytes = MPIR_STATUS_GET_COUNT((*request)->status);
    }
    MPIR_Request_free(*request);
    *request = NULL;
    return mpi_errno;
}

int MPII_Topo_wait(MPIR_Request ** request, MPII_Topo_attr_t * attr)
{
    MPI_Aint bytes;

    return MPII_Topo_wait_bytes(request, &bytes, attr);
}

int MPII_Topo_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int source, int tag,
                   MPIR_Comm * comm_ptr, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Request *request = NULL;

    mpi_errno = MPIC_Irecv(buf, count, datatype, source, tag, comm_ptr, &request);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPII_Topo_wait(&request, attr);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

void MPII_Topo_out_of_memory(const char *where)
{
    char text[MPII_TOPO_ERR_LEN];

    snprintf(text, sizeof(text), "%s: out of memory in a collective, which the others of its "
             "communicator wait for", where);
    MPID_Abort(NULL, MPI_ERR_OTHER, 1, text);
}
