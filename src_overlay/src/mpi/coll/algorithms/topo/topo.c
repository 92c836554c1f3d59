/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_site.h"
#include "topo_exchange.h"
#include "topo_tree.h"
#include "topo_tree_shm.h"
#include <json.h>

unsigned long MPII_Topo_calls[MPII_TOPO_ALGO__END];

/* What a process tells the others of a communicator about itself. */
typedef struct {
    uint64_t digest;            /* of its topology; 0 for none */
    uint64_t host;              /* hash of the host's name */
    uint64_t path;              /* location inside the host */
    int64_t site_host;          /* index of the host in the topology, or -1 */
} whereabouts_t;

struct MPII_Topo_comm {
    MPII_Topo_place_t place;
    int *site_host;             /* [num_hosts] index of a host in the topology, or -1 */
    int *site_rack;             /* [num_racks] likewise */
    MPII_Topo_ring_t ring;      /* built when first asked for */
    int *slots;                 /* [num_ranks], likewise */
    int slot;
    bool slots_are_ranks;
    MPII_Topo_kept_t kept;
};

static MPII_Topo_site_t *site;
static char *site_name;         /* file that site came from */
static whereabouts_t self;      /* host: 0 as long as it was not looked up */
static bool has_warned_differs, has_warned_unknown;

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

int MPII_Topo_init(void)
{
#define REGISTER(COLL, Coll, coll, algo, desc)                                          \
    MPII_Topo_calls[MPII_TOPO_ALGO__##coll##_##algo] = 0;                               \
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
    variable = 0;                                                                       \
    MPIR_T_PVAR_COUNTER_REGISTER_DYNAMIC_impl(MPI_UNSIGNED_LONG, name, &variable, 1,    \
                                              MPI_T_VERBOSITY_USER_BASIC,               \
                                              MPI_T_BIND_NO_OBJECT,                     \
                                              (MPIR_T_PVAR_FLAG_READONLY |              \
                                               MPIR_T_PVAR_FLAG_CONTINUOUS), NULL, NULL, \
                                              "COLLECTIVE", desc " (of this process)")
    COUNTER(coll_topo_rack_messages, MPII_Topo_rack_messages,
            "messages to other racks in gather and scatter along trees, and by plans");
    COUNTER(coll_topo_shm_blocks, MPII_Topo_shm_blocks,
            "blocks through shared memory in gather and scatter along trees");
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
#undef COUNTER
    return MPI_SUCCESS;
}

int MPII_Topo_finalize(void)
{
    MPII_Topo_site_free(site);
    site = NULL;
    MPL_free(site_name);
    site_name = NULL;
    self.host = 0;
    return MPI_SUCCESS;
}

/* Hosts are told apart by name, not by node id: a launcher may count a host that comes twice in its
 * list as two nodes, and node ids of processes that were spawned do not compare. */
static void find_self(void)
{
    const char *host = MPIR_CVAR_COLL_TOPOLOGY_HOST;
    char hostname[256] = "";

    if (self.host)
        return;
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
    self.host = MPII_Topo_hash(MPII_TOPO_HASH_INIT, host, strlen(host));
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

void MPII_Topo_comm_init(MPIR_Comm * comm_ptr)
{
    comm_ptr->coll.topo = NULL;
}

void MPII_Topo_comm_cleanup(MPIR_Comm * comm_ptr)
{
    struct MPII_Topo_comm *topo = comm_ptr->coll.topo;

    if (topo == NULL)
        return;
    MPL_free(topo->place.host_of_rank);
    MPL_free(topo->place.rack_of_host);
    MPL_free(topo->place.path_of_rank);
    MPL_free(topo->site_host);
    MPL_free(topo->site_rack);
    MPL_free(topo->ring.order);
    MPL_free(topo->slots);
    MPII_Topo_exchange_free(topo->kept.exchange);
    MPII_Topo_forest_free(topo->kept.forest);
    MPII_Topo_tree_shm_free(topo->kept.tree_shm);
    MPL_free(topo);
    comm_ptr->coll.topo = NULL;
}

static int host_distance(const void *state, int a, int b)
{
    const struct MPII_Topo_comm *topo = state;
    int site_a = topo->site_host[a], site_b = topo->site_host[b];

    if (site_a == -1 || site_b == -1)
        return MPII_TOPO_DISTANCE_MAX + 1;
    return site->host_distance[(size_t) site_a * site->num_hosts + site_b];
}

static int rack_distance(const void *state, int a, int b)
{
    const struct MPII_Topo_comm *topo = state;
    int site_a = topo->site_rack[a], site_b = topo->site_rack[b];

    if (site_a == -1 || site_b == -1)
        return MPII_TOPO_DISTANCE_MAX + 1;
    return site->rack_distance[(size_t) site_a * site->num_racks + site_b];
}

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

/* Number the hosts of a communicator in the order of their lowest rank. */
static int number_hosts(MPII_Topo_place_t * place, const whereabouts_t all[])
{
    int mpi_errno = MPI_SUCCESS, n = place->num_ranks;
    host_entry_t *entries = NULL;
    int *lowest = NULL;         /* of each rank, the lowest rank of its host */

    entries = MPL_malloc(n * sizeof(*entries), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!entries, mpi_errno, MPI_ERR_OTHER, "**nomem");
    lowest = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!lowest, mpi_errno, MPI_ERR_OTHER, "**nomem");

    for (int i = 0; i < n; i++) {
        entries[i].host = all[i].host;
        entries[i].rank = i;
    }
    qsort(entries, n, sizeof(*entries), cmp_host);
    for (int i = 0; i < n; i++) {
        if (i > 0 && entries[i].host == entries[i - 1].host)
            lowest[entries[i].rank] = lowest[entries[i - 1].rank];
        else
            lowest[entries[i].rank] = entries[i].rank;
    }
    place->num_hosts = 0;
    for (int i = 0; i < n; i++)
        place->host_of_rank[i] = lowest[i] == i ? place->num_hosts++ :
            place->host_of_rank[lowest[i]];

  fn_exit:
    MPL_free(entries);
    MPL_free(lowest);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Number the racks of a communicator in the order of their lowest host. A host that the topology
 * does not know has a rack of its own. Without a topology all hosts are in one rack. */
static int number_racks(struct MPII_Topo_comm *topo, bool use_site)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_place_t *place = &topo->place;
    int *rack_of_site = NULL;

    place->num_racks = 0;
    if (!use_site) {
        place->num_racks = 1;
        topo->site_rack[0] = -1;
        for (int h = 0; h < place->num_hosts; h++)
            place->rack_of_host[h] = 0;
        goto fn_exit;
    }
    rack_of_site = MPL_malloc(site->num_racks * sizeof(int), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!rack_of_site, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int i = 0; i < site->num_racks; i++)
        rack_of_site[i] = -1;
    for (int h = 0; h < place->num_hosts; h++) {
        int site_rack = topo->site_host[h] == -1 ? -1 : site->rack_of_host[topo->site_host[h]];
        if (site_rack != -1 && rack_of_site[site_rack] != -1) {
            place->rack_of_host[h] = rack_of_site[site_rack];
            continue;
        }
        if (site_rack != -1)
            rack_of_site[site_rack] = place->num_racks;
        topo->site_rack[place->num_racks] = site_rack;
        place->rack_of_host[h] = place->num_racks++;
    }

  fn_exit:
    MPL_free(rack_of_site);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
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
    if (!is_same && !has_warned_differs) {
        has_warned_differs = true;
        snprintf(text, sizeof(text), "%s: rank %d does not hold the topology that rank 0 holds, "
                 "expected the same on all ranks; all hosts count as equally far apart",
                 site_name ? site_name : "MPIR_CVAR_COLL_TOPOLOGY_FILE", other);
        MPII_Topo_warn(text);
    } else if (is_same && site && num_unknown > 0 && !has_warned_unknown) {
        has_warned_unknown = true;
        snprintf(text, sizeof(text), "%s: does not know the hosts of %d of %d ranks (the first is "
                 "rank %d); they count as the furthest, each host in a rack of its own",
                 site_name, num_unknown, n, unknown);
        MPII_Topo_warn(text);
    }
}

/* Build the view of a communicator, collectively. */
static int comm_create(MPIR_Comm * comm_ptr, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS, n = comm_ptr->local_size;
    whereabouts_t *all = NULL;
    struct MPII_Topo_comm *topo = NULL;
    MPII_Topo_place_t *place;
    bool is_same = true;

    all = MPL_malloc(n * sizeof(whereabouts_t), MPL_MEM_COLL);
    topo = MPL_calloc(1, sizeof(*topo), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!all || !topo, mpi_errno, MPI_ERR_OTHER, "**nomem");

    /* -- agree on the topology, and learn where everybody is -- */
    find_self();
    mpi_errno = MPIR_Allgather_intra_brucks(&self, sizeof(self), MPI_BYTE, all, sizeof(self),
                                            MPI_BYTE, comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 1; i < n; i++) {
        if (all[i].digest != all[0].digest)
            is_same = false;
    }
    bool use_site = site && is_same;
    warn_if_unusable(all, n, is_same);

    place = &topo->place;
    place->num_ranks = n;
    place->host_of_rank = MPL_malloc(n * sizeof(int), MPL_MEM_COLL);
    place->path_of_rank = MPL_malloc(n * sizeof(uint64_t), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!place->host_of_rank || !place->path_of_rank, mpi_errno, MPI_ERR_OTHER,
                        "**nomem");
    mpi_errno = number_hosts(place, all);
    MPIR_ERR_CHECK(mpi_errno);

    place->rack_of_host = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    topo->site_host = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    topo->site_rack = MPL_malloc(place->num_hosts * sizeof(int), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!place->rack_of_host || !topo->site_host || !topo->site_rack, mpi_errno,
                        MPI_ERR_OTHER, "**nomem");
    for (int i = n - 1; i >= 0; i--) {
        place->path_of_rank[i] = all[i].path;
        topo->site_host[place->host_of_rank[i]] = all[i].site_host;
    }
    mpi_errno = number_racks(topo, use_site);
    MPIR_ERR_CHECK(mpi_errno);

    place->state = topo;
    place->rack_join_bytes = use_site ? site->rack_join_bytes : -1;
    if (use_site && site->host_distance)
        place->host_distance = host_distance;
    if (use_site && site->rack_distance)
        place->rack_distance = rack_distance;

    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE > 0 && comm_ptr->rank == 0) {
        printf("[mpich] topology of communicator 0x%08x: %d ranks, %d hosts, %d racks, from %s\n",
               (unsigned) comm_ptr->handle, n, place->num_hosts, place->num_racks,
               use_site ? site_name : "host names");
        fflush(stdout);
    }
    comm_ptr->coll.topo = topo;
    topo = NULL;

  fn_exit:
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    if (topo) {
        comm_ptr->coll.topo = topo;
        MPII_Topo_comm_cleanup(comm_ptr);
    }
    goto fn_exit;
}

/* The view of a communicator; it is built at the first call, collectively. */
static int get_view(MPIR_Comm * comm_ptr, struct MPII_Topo_comm **topo, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;

    if (comm_ptr->coll.topo == NULL)
        mpi_errno = comm_create(comm_ptr, TOPO_COLL_ATTR);
    *topo = comm_ptr->coll.topo;
    return mpi_errno;
}

int MPII_Topo_place_world(void)
{
    struct MPII_Topo_comm *topo;
    TOPO_COLL_ATTR_NEW;

    return MPIR_Process.comm_world ?
        get_view(MPIR_Process.comm_world, &topo, TOPO_COLL_ATTR) : MPI_SUCCESS;
}

static bool has_outsider(MPIR_Comm * comm_ptr, int size, bool is_remote)
{
    for (int i = 0; i < size; i++) {
        TOPO_LPID_T lpid = 0;
        MPID_Comm_get_lpid(comm_ptr, i, &lpid, is_remote);
        if (lpid >= (uint64_t) MPIR_Process.size)
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

int MPII_Topo_comm_count(MPIR_Comm * comm_ptr, MPII_Topo_count_t * count)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *world = MPIR_Process.comm_world;
    const MPII_Topo_place_t *place;
    int *ranks_on = NULL;       /* [hosts of the world] ranks of the communicator on a host */
    bool *is_in = NULL;         /* [racks of the world] whether the communicator is in a rack */

    count->num_hosts = count->num_racks = count->max_ppn = MPIR_AINT_MAX;
    if (comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM || world == NULL ||
        world->coll.topo == NULL || !MPII_Topo_is_in_world(comm_ptr))
        goto fn_exit;
    place = &world->coll.topo->place;
    ranks_on = MPL_calloc(place->num_hosts, sizeof(int), MPL_MEM_COLL);
    is_in = MPL_calloc(place->num_racks, sizeof(bool), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!ranks_on || !is_in, mpi_errno, MPI_ERR_OTHER, "**nomem");

    for (int i = 0; i < comm_ptr->local_size; i++) {
        TOPO_LPID_T lpid = 0;
        MPID_Comm_get_lpid(comm_ptr, i, &lpid, false);
        ranks_on[place->host_of_rank[lpid]]++;
    }
    count->num_hosts = count->num_racks = count->max_ppn = 0;
    for (int h = 0; h < place->num_hosts; h++) {
        if (ranks_on[h] == 0)
            continue;
        count->num_hosts++;
        count->num_racks += !is_in[place->rack_of_host[h]];
        is_in[place->rack_of_host[h]] = true;
        count->max_ppn = MPL_MAX(count->max_ppn, ranks_on[h]);
    }

  fn_exit:
    MPL_free(ranks_on);
    MPL_free(is_in);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

static void print_order(MPIR_Comm * comm_ptr, const char *what, const int order[])
{
    if (MPIR_CVAR_COLL_TOPOLOGY_VERBOSE < 2 || comm_ptr->rank != 0)
        return;
    printf("[mpich] topology of communicator 0x%08x: %s", (unsigned) comm_ptr->handle, what);
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

/* Whether a group of the ring begins at a position. */
static bool is_first_of_group(const MPII_Topo_place_t * place, const int order[], int pos)
{
    int left = order[(pos + place->num_ranks - 1) % place->num_ranks];
    return MPII_Topo_level(place, left, order[pos]) >=
        (place->num_racks > 1 ? MPII_TOPO_LEVEL__SITE : MPII_TOPO_LEVEL__RACK);
}

static void group_ring(const MPII_Topo_place_t * place, MPII_Topo_ring_t * ring)
{
    int n = place->num_ranks, num_first = 0;
    int first = ring->pos, last, next_last;

    for (int i = 0; i < n; i++)
        num_first += is_first_of_group(place, ring->order, i);
    if (num_first <= 1 || num_first != (place->num_racks > 1 ? place->num_racks : place->num_hosts)) {
        ring->group_len = ring->next_group_len = n;
        ring->index = 0;
        return;
    }
    while (!is_first_of_group(place, ring->order, first))
        first = (first + n - 1) % n;
    for (last = ring->pos; !is_first_of_group(place, ring->order, (last + 1) % n);)
        last = (last + 1) % n;
    for (next_last = (last + 1) % n; !is_first_of_group(place, ring->order, (next_last + 1) % n);)
        next_last = (next_last + 1) % n;
    ring->index = (ring->pos - first + n) % n;
    ring->group_len = (last - first + n) % n + 1;
    ring->next_group_len = (next_last - last + n) % n;
}

int MPII_Topo_comm_ring(MPIR_Comm * comm_ptr, const MPII_Topo_ring_t ** ring, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int *order = NULL;
    struct MPII_Topo_comm *topo;

    mpi_errno = get_view(comm_ptr, &topo, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    if (topo->ring.order == NULL) {
        order = MPL_malloc(comm_ptr->local_size * sizeof(int), MPL_MEM_COLL);
        MPIR_ERR_CHKANDJUMP(!order || MPII_Topo_map_ring(&topo->place, order), mpi_errno,
                            MPI_ERR_OTHER, "**nomem");
        topo->ring.order = order;
        topo->ring.pos = position(order, comm_ptr->rank);
        group_ring(&topo->place, &topo->ring);
        order = NULL;
        print_order(comm_ptr, "ring", topo->ring.order);
    }
    *ring = &topo->ring;

  fn_exit:
    return mpi_errno;
  fn_fail:
    MPL_free(order);
    goto fn_exit;
}

int MPII_Topo_comm_recursive_doubling(MPIR_Comm * comm_ptr, const int **slots_, int *slot,
                                      bool * is_identity, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int *slots = NULL;
    struct MPII_Topo_comm *topo;

    mpi_errno = get_view(comm_ptr, &topo, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    if (topo->slots == NULL) {
        slots = MPL_malloc(comm_ptr->local_size * sizeof(int), MPL_MEM_COLL);
        MPIR_ERR_CHKANDJUMP(!slots || MPII_Topo_map_recursive_doubling(&topo->place, slots),
                            mpi_errno, MPI_ERR_OTHER, "**nomem");
        topo->slot = position(slots, comm_ptr->rank);
        topo->slots_are_ranks = true;
        for (int i = 0; i < comm_ptr->local_size; i++) {
            if (slots[i] != i)
                topo->slots_are_ranks = false;
        }
        topo->slots = slots;
        slots = NULL;
        print_order(comm_ptr, "recursive doubling", topo->slots);
    }
    *slots_ = topo->slots;
    *slot = topo->slot;
    *is_identity = topo->slots_are_ranks;

  fn_exit:
    return mpi_errno;
  fn_fail:
    MPL_free(slots);
    goto fn_exit;
}

int MPII_Topo_comm_place(MPIR_Comm * comm_ptr, const MPII_Topo_place_t ** place,
                         MPII_Topo_kept_t ** kept, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    struct MPII_Topo_comm *topo;

    mpi_errno = get_view(comm_ptr, &topo, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    *place = &topo->place;
    *kept = &topo->kept;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_wait(MPIR_Request ** request, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;

    if (*request == NULL)
        return MPI_SUCCESS;
    mpi_errno = MPIC_Wait(*request, TOPO_COLL_ATTR);
    if (mpi_errno == MPI_SUCCESS && (*request)->kind == MPIR_REQUEST_KIND__RECV)
        mpi_errno = (*request)->status.MPI_ERROR;
    MPIR_Request_free(*request);
    *request = NULL;
    return mpi_errno;
}
