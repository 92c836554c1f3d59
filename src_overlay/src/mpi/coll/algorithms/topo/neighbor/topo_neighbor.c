/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_view.h"
#include "topo_neighbor.h"
#include "topo_neighbor_gain.h"

/* The plan of a communicator with an application topology: who sends what to whom in the three
 * stages of topo_neighbor.h.
 *
 * A rank knows its own edges. The ranks of a host tell each other which edges they have to and from
 * the hosts of which they are s or r. Then s tells r the edges between the two hosts. So no rank
 * learns more edges than those that it forwards. */

/* A list of numbers from another rank, or for it */
typedef struct {
    int num;
    int *at;
} list_t;

/* What a rank tells another rank of its host. dests: destinations of its edges to the hosts that
 * the other rank serves as s, by host and rank. hosts: pairs (host, number of edges) for the hosts
 * that the other rank serves as r */
typedef struct {
    list_t dests, hosts;
} told_t;

/* An edge of this rank to or from a rank of another host */
typedef struct {
    int host, rank, edge;
} far_t;

typedef struct {
    MPIR_Comm *comm_ptr;
    const MPII_Topo_place_t *place;
    int host;                   /* of this rank */
    int *first_of_host, *ranks; /* [num_hosts + 1], [num_ranks] the ranks of each host */
    const int *local;           /* [num_local] the ranks of this host */
    int num_local, index;       /* index: of this rank in local[] */
    far_t *out, *in;            /* [num_out], [num_in] by host, rank and number of the edge */
    int num_out, num_in;
    told_t *to, *from;          /* [num_local] */
    list_t receivers;           /* the hosts to which this rank sends as s */
    int num_hosts;              /* hosts that send to this rank as r */
    int *hosts;                 /* [num_hosts] */
    list_t *edges;              /* [num_hosts] pairs (source, destination), sources ascending */
} make_t;

static int host_of(const make_t * m, int rank)
{
    return m->place->host_of_rank[rank];
}

/* The rank of `host` that sends to, or receives from, another host */
static int server(const make_t * m, int host, int other)
{
    int begin = m->first_of_host[host];

    return m->ranks[begin + other % (m->first_of_host[host + 1] - begin)];
}

static int *new_ints(int64_t num)
{
    int *ints = MPL_malloc((num + 1) * sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(ints);
    return ints;
}

static void find_hosts(make_t * m)
{
    const MPII_Topo_place_t *place = m->place;

    m->first_of_host = new_ints(place->num_hosts);
    m->ranks = new_ints(place->num_ranks);
    MPII_Topo_sort(place->num_ranks, place->host_of_rank, place->num_hosts, m->first_of_host,
                   m->ranks);
    m->host = host_of(m, m->comm_ptr->rank);
    m->local = m->ranks + m->first_of_host[m->host];
    m->num_local = m->first_of_host[m->host + 1] - m->first_of_host[m->host];
    while (m->local[m->index] != m->comm_ptr->rank)
        m->index++;
}

/* -- what the ranks of a host tell each other -- */

static int cmp_ranks(const far_t * a, const far_t * b)
{
    return a->host != b->host ? a->host - b->host : a->rank - b->rank;
}

static int cmp_out(const void *a, const void *b)
{
    int cmp = cmp_ranks(a, b);

    return cmp ? cmp : ((const far_t *) a)->edge - ((const far_t *) b)->edge;
}

/* Several edges between the same ranks are in the opposite order at the receiver (the head of
 * topo_neighbor.h) */
static int cmp_in(const void *a, const void *b)
{
    int cmp = cmp_ranks(a, b);

    return cmp ? cmp : ((const far_t *) b)->edge - ((const far_t *) a)->edge;
}

static far_t *find_far(const make_t * m, const int rank[], int degree, bool is_in, int *num)
{
    far_t *far = MPL_malloc((degree + 1) * sizeof(far_t), MPL_MEM_COLL);

    MPII_TOPO_NEED(far);
    *num = 0;
    for (int i = 0; i < degree; i++) {
        if (rank[i] != MPI_PROC_NULL && host_of(m, rank[i]) != m->host)
            far[(*num)++] = (far_t) {
            host_of(m, rank[i]), rank[i], i};
    }
    qsort(far, *num, sizeof(far_t), is_in ? cmp_in : cmp_out);
    return far;
}

static int local_index(const make_t * m, int rank)
{
    int i = 0;

    while (m->local[i] != rank)
        i++;
    return i;
}

static void tell(make_t * m)
{
    m->to = MPL_calloc(m->num_local, sizeof(told_t), MPL_MEM_COLL);
    m->from = MPL_calloc(m->num_local, sizeof(told_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(m->to && m->from);
    for (int i = 0; i < m->num_local; i++) {
        m->to[i].dests.at = new_ints(m->num_out);
        m->to[i].hosts.at = new_ints(2 * m->num_in);
    }
    for (int i = 0; i < m->num_out; i++) {
        list_t *dests = &m->to[local_index(m, server(m, m->host, m->out[i].host))].dests;
        dests->at[dests->num++] = m->out[i].rank;
    }
    for (int i = 0; i < m->num_in; i++) {
        list_t *hosts = &m->to[local_index(m, server(m, m->host, m->in[i].host))].hosts;
        if (i == 0 || m->in[i - 1].host != m->in[i].host) {
            hosts->at[hosts->num++] = m->in[i].host;
            hosts->at[hosts->num++] = 0;
        }
        hosts->at[hosts->num - 1]++;
    }
}

static int exchange_lists(make_t * m, int tag, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *comm_ptr = m->comm_ptr;

    for (int i = 0; i < m->num_local; i++) {
        int to = (m->index + i) % m->num_local, from = (m->index + m->num_local - i) % m->num_local;
        list_t *out[2] = { &m->to[to].dests, &m->to[to].hosts };
        list_t *in[2] = { &m->from[from].dests, &m->from[from].hosts };
        int nums[2] = { out[0]->num, out[1]->num }, got[2] = { nums[0], nums[1] };
        if (i > 0) {
            mpi_errno = MPIC_Sendrecv(nums, sizeof(nums), TOPO_BYTE, m->local[to], tag, got,
                                      sizeof(got), TOPO_BYTE, m->local[from], tag, comm_ptr,
                                      MPI_STATUS_IGNORE, TOPO_COLL_ATTR);
            MPIR_ERR_CHECK(mpi_errno);
        }
        for (int k = 0; k < 2; k++) {
            in[k]->num = got[k];
            in[k]->at = new_ints(got[k]);
            if (i == 0) {
                memcpy(in[k]->at, out[k]->at, got[k] * sizeof(int));
                continue;
            }
            mpi_errno = MPIC_Sendrecv(out[k]->at, out[k]->num * sizeof(int), TOPO_BYTE,
                                      m->local[to], tag, in[k]->at, got[k] * sizeof(int), TOPO_BYTE,
                                      m->local[from], tag, comm_ptr, MPI_STATUS_IGNORE,
                                      TOPO_COLL_ATTR);
            MPIR_ERR_CHECK(mpi_errno);
        }
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- what a host tells another one -- */

/* The hosts that send to this rank as r, and how many edges each has to this host */
static void find_senders(make_t * m)
{
    int *edges = MPL_calloc(m->place->num_hosts + 1, sizeof(int), MPL_MEM_COLL);

    MPII_TOPO_NEED(edges);
    for (int i = 0; i < m->num_local; i++) {
        const list_t *hosts = &m->from[i].hosts;
        for (int k = 0; k < hosts->num; k += 2) {
            m->num_hosts += edges[hosts->at[k]] == 0;
            edges[hosts->at[k]] += hosts->at[k + 1];
        }
    }
    m->hosts = new_ints(m->num_hosts);
    m->edges = MPL_calloc(m->num_hosts + 1, sizeof(list_t), MPL_MEM_COLL);
    MPII_TOPO_NEED(m->edges);
    for (int host = 0, i = 0; host < m->place->num_hosts; host++) {
        if (edges[host] == 0)
            continue;
        m->hosts[i] = host;
        m->edges[i].num = 2 * edges[host];
        m->edges[i++].at = new_ints(2 * edges[host]);
    }
    MPL_free(edges);
}

static void find_receivers(make_t * m)
{
    char *is_used = MPL_calloc(m->place->num_hosts + 1, 1, MPL_MEM_COLL);

    MPII_TOPO_NEED(is_used);
    for (int i = 0; i < m->num_local; i++) {
        for (int k = 0; k < m->from[i].dests.num; k++)
            is_used[host_of(m, m->from[i].dests.at[k])] = 1;
    }
    m->receivers.at = new_ints(m->place->num_hosts);
    for (int host = 0; host < m->place->num_hosts; host++) {
        if (is_used[host])
            m->receivers.at[m->receivers.num++] = host;
    }
    MPL_free(is_used);
}

/* pairs: (source, destination) of the edges of this host to another one */
static void find_pairs(const make_t * m, int host, list_t * pairs)
{
    pairs->num = 0;
    for (int i = 0; i < m->num_local; i++) {
        const list_t *dests = &m->from[i].dests;
        for (int k = 0; k < dests->num; k++) {
            if (host_of(m, dests->at[k]) == host) {
                pairs->at[pairs->num++] = m->local[i];
                pairs->at[pairs->num++] = dests->at[k];
            }
        }
    }
}

static int exchange_edges(make_t * m, int tag, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS, total = 0;
    const list_t *receivers = &m->receivers;
    MPIR_Request **reqs;

    find_senders(m);
    find_receivers(m);
    for (int i = 0; i < m->num_local; i++)
        total += 2 * m->from[i].dests.num;
    int *pairs = new_ints(total), *next = pairs;
    reqs = MPL_calloc(m->num_hosts + receivers->num + 1, sizeof(*reqs), MPL_MEM_COLL);
    MPII_TOPO_NEED(reqs);
    for (int i = 0; i < m->num_hosts; i++) {
        mpi_errno = MPII_Topo_irecv(m->edges[i].at, m->edges[i].num * sizeof(int), TOPO_BYTE,
                                    server(m, m->hosts[i], m->host), tag, m->comm_ptr, &reqs[i]);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int i = 0; i < receivers->num; i++) {
        list_t list = {.at = next };
        find_pairs(m, receivers->at[i], &list);
        next += list.num;
        mpi_errno = MPII_Topo_isend(list.at, list.num * sizeof(int), TOPO_BYTE,
                                    server(m, receivers->at[i], m->host), tag, m->comm_ptr,
                                    &reqs[m->num_hosts + i], attr);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int i = 0; i < m->num_hosts + receivers->num; i++) {
        mpi_errno = MPII_Topo_wait(&reqs[i], attr);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    MPL_free(reqs);
    MPL_free(pairs);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- the three stages -- */

static void begin_stage(MPII_Topo_nb_stage_t * s, int most_in, int most_out, int most_blocks)
{
    s->in = MPL_malloc((most_in + 1) * sizeof(*s->in), MPL_MEM_COLL);
    s->out = MPL_malloc((most_out + 1) * sizeof(*s->out), MPL_MEM_COLL);
    s->source = new_ints(most_blocks);
    MPII_TOPO_NEED(s->in && s->out);
}

static void add_in(MPII_Topo_nb_stage_t * s, int rank, int num)
{
    if (num == 0)
        return;
    s->in[s->num_in++] = (MPII_Topo_bundle_t) {
    .rank = rank,.num = num,.first = s->blocks_in};
    s->blocks_in += num;
}

/* Add a message of all blocks that were added to source[] since the message before. */
static void add_out(MPII_Topo_nb_stage_t * s, int rank)
{
    int first = s->num_out > 0 ? s->out[s->num_out - 1].first + s->out[s->num_out - 1].num : 0;

    if (s->blocks_out == first)
        return;
    s->out[s->num_out++] = (MPII_Topo_bundle_t) {
    .rank = rank,.num = s->blocks_out - first,.first = first};
}

static void add_block(MPII_Topo_nb_stage_t * s, int source)
{
    s->source[s->blocks_out++] = source;
}

/* From the ranks of the host to s */
static void make_first(const make_t * m, MPII_Topo_nb_stage_t * s, bool is_allgather)
{
    begin_stage(s, m->num_local, m->num_local, m->num_out);
    for (int i = 0; i < m->num_local; i++) {
        bool has_block = false;
        for (int k = 0; k < m->num_out; k++) {
            if (server(m, m->host, m->out[k].host) == m->local[i] &&
                !(is_allgather && has_block)) {
                add_block(s, is_allgather ? 0 : m->out[k].edge);
                has_block = true;
            }
        }
        add_out(s, m->local[i]);
        int num_in = m->from[i].dests.num;
        add_in(s, m->local[i], is_allgather ? num_in > 0 : num_in);
    }
}

/* Number of different sources in pairs of ascending sources */
static int num_sources(const list_t * pairs)
{
    int num = 0;

    for (int k = 0; k < pairs->num; k += 2)
        num += k == 0 || pairs->at[k] != pairs->at[k - 2];
    return num;
}

/* From s to r */
static void make_second(const make_t * m, MPII_Topo_nb_stage_t * s,
                        const MPII_Topo_nb_stage_t * before, bool is_allgather)
{
    int most = 0;

    for (int i = 0; i < m->num_local; i++)
        most += m->from[i].dests.num;
    begin_stage(s, m->num_hosts, m->receivers.num, most);
    for (int i = 0; i < m->receivers.num; i++) {
        int message = 0;
        for (int u = 0; u < m->num_local; u++) {
            const list_t *dests = &m->from[u].dests;
            bool has_block = false;
            for (int k = 0; k < dests->num; k++) {
                if (host_of(m, dests->at[k]) == m->receivers.at[i] &&
                    !(is_allgather && has_block)) {
                    add_block(s, before->in[message].first + (is_allgather ? 0 : k));
                    has_block = true;
                }
            }
            message += dests->num > 0;
        }
        add_out(s, server(m, m->receivers.at[i], m->host));
    }
    for (int i = 0; i < m->num_hosts; i++)
        add_in(s, server(m, m->hosts[i], m->host),
               is_allgather ? num_sources(&m->edges[i]) : m->edges[i].num / 2);
}

/* From r to the ranks of the host */
static void make_third(const make_t * m, MPII_Topo_nb_route_t * route, bool is_allgather)
{
    MPII_Topo_nb_stage_t *s = &route->stage[2];
    const MPII_Topo_nb_stage_t *before = &route->stage[1];
    int most = 0;

    for (int i = 0; i < m->num_hosts; i++)
        most += m->edges[i].num / 2;
    begin_stage(s, m->num_local, m->num_local, most);
    for (int v = 0; v < m->num_local; v++) {
        for (int i = 0; i < m->num_hosts; i++) {
            const list_t *edges = &m->edges[i];
            int source = -1;    /* index of the block's source */
            bool has_block = false;
            for (int k = 0; k < edges->num; k += 2) {
                if (k == 0 || edges->at[k] != edges->at[k - 2]) {
                    source++;
                    has_block = false;
                }
                if (edges->at[k + 1] == m->local[v] && !(is_allgather && has_block)) {
                    add_block(s, before->in[i].first + (is_allgather ? source : k / 2));
                    has_block = true;
                }
            }
        }
        add_out(s, m->local[v]);
    }

    route->first_edge = new_ints(m->num_in);
    route->edge = new_ints(m->num_in);
    int num_edges = 0, num_blocks = 0;
    for (int i = 0; i < m->num_local; i++) {
        int first = num_blocks, last = -1;      /* the source of the last block */
        for (int k = 0; k < m->num_in; k++) {
            if (server(m, m->host, m->in[k].host) != m->local[i])
                continue;
            if (!is_allgather || m->in[k].rank != last)
                route->first_edge[num_blocks++] = num_edges;
            route->edge[num_edges++] = m->in[k].edge;
            last = m->in[k].rank;
        }
        add_in(s, m->local[i], num_blocks - first);
    }
    route->first_edge[num_blocks] = num_edges;
}

static void make_routes(const make_t * m, MPII_Topo_neighbor_t * plan)
{
    for (int kind = 0; kind < MPII_TOPO_NB__NUM; kind++) {
        MPII_Topo_nb_route_t *route = &plan->route[kind];
        make_first(m, &route->stage[0], kind == MPII_TOPO_NB__ALLGATHER);
        make_second(m, &route->stage[1], &route->stage[0], kind == MPII_TOPO_NB__ALLGATHER);
        make_third(m, route, kind == MPII_TOPO_NB__ALLGATHER);
    }
}

/* -- limit and gain -- */

static int agree(MPII_Topo_neighbor_t * plan, const make_t * m, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    struct {
        int64_t blocks;         /* in memory of a call; allgather never has more than alltoall */
        int64_t has_lone;
        MPII_Topo_nb_load_t load[MPII_TOPO_NB__NUM];
    } own = {.has_lone = plan->indegree + plan->outdegree == 0 }, all = own;
    int num_hosts = 0;          /* with edges from this rank */

    for (int i = 0; i < m->num_out; i++)
        num_hosts += i == 0 || m->out[i].host != m->out[i - 1].host;
    for (int kind = 0; kind < MPII_TOPO_NB__NUM; kind++) {
        const MPII_Topo_nb_stage_t *stage = plan->route[kind].stage;
        own.load[kind].far = m->num_out;
        own.load[kind].joined = kind == MPII_TOPO_NB__ALLGATHER ? num_hosts : m->num_out;
        own.load[kind].messages = stage[1].num_out;
        own.load[kind].inside = MPL_MAX(stage[0].num_in, stage[0].num_out) +
            MPL_MAX(stage[2].num_in, stage[2].num_out);
        for (int i = 0; i < 3; i++) {
            own.load[kind].out[i] = stage[i].blocks_out;
            own.blocks += kind == MPII_TOPO_NB__ALLTOALL ?
                stage[i].blocks_in + stage[i].blocks_out : 0;
        }
    }
    mpi_errno = MPIR_Allreduce(&own, &all, sizeof(all) / sizeof(int64_t), TOPO_INT64, MPI_MAX,
                               m->comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    for (int kind = 0; kind < MPII_TOPO_NB__NUM; kind++) {
        plan->limit[kind] =
            MPII_Topo_nb_limit(&m->place->lengths, &all.load[kind],
                               m->comm_ptr->coll.topo->view->max_ppn, all.blocks,
                               &plan->is_gain[kind]);
        plan->most = MPL_MAX(plan->most, plan->limit[kind]);
    }
    plan->has_lone = all.has_lone;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Hash of an edge. Sums of it over two sets of edges are equal by chance only: the finalizer of
 * MurmurHash3 (A. Appleby). */
static uint64_t hash_edge(int from, int to)
{
    uint64_t h = (uint64_t) (uint32_t) from << 32 | (uint32_t) to;

    h += UINT64_C(0x9e3779b97f4a7c15);  /* 0 would stay 0 */
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

/* Whether each edge is known at both ends: an erroneous graph must not hang here. Each edge has a
 * hash. Each rank adds the hashes of its outgoing edges and subtracts those of its incoming edges.
 * The sum over all ranks is 0 if each edge is known at both ends. */
static int check_edges(const MPII_Topo_neighbor_t * plan, MPIR_Comm * comm_ptr, bool *is_consistent,
                       MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    uint64_t own = 0, all = 0;

    for (int i = 0; i < plan->outdegree + plan->indegree; i++) {
        bool is_out = i < plan->outdegree;
        int other = is_out ? plan->dest[i] : plan->source[i - plan->outdegree];
        if (other == MPI_PROC_NULL)
            continue;
        own += is_out ? hash_edge(comm_ptr->rank, other) : -hash_edge(other, comm_ptr->rank);
    }
    mpi_errno = MPIR_Allreduce(&own, &all, 1, TOPO_INT64, MPI_SUM, comm_ptr, TOPO_COLL_ATTR);
    MPIR_ERR_CHECK(mpi_errno);
    *is_consistent = all == 0;

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* -- creation -- */

static void free_plan(void *ptr)
{
    MPII_Topo_neighbor_t *plan = ptr;

    if (plan == NULL || MPL_atomic_fetch_sub_int(&plan->num_users, 1) > 1)
        return;
    for (int kind = 0; kind < MPII_TOPO_NB__NUM; kind++) {
        MPII_Topo_nb_route_t *route = &plan->route[kind];
        for (int i = 0; i < 3; i++) {
            MPL_free(route->stage[i].in);
            MPL_free(route->stage[i].out);
            MPL_free(route->stage[i].source);
        }
        MPL_free(route->first_edge);
        MPL_free(route->edge);
    }
    MPL_free(MPL_atomic_load_ptr(&plan->spare));
    MPL_free(plan->source);
    MPL_free(plan->dest);
    MPL_free(plan->is_near_source);
    MPL_free(plan->is_near_dest);
    MPL_free(plan);
}

static void *share_plan(const void *ptr)
{
    MPII_Topo_neighbor_t *plan = (void *) ptr;

    MPL_atomic_fetch_add_int(&plan->num_users, 1);
    return plan;
}

static void free_make(make_t * m)
{
    for (int i = 0; i < m->num_local; i++) {
        for (int k = 0; k < 2; k++) {
            told_t *told = k ? m->to : m->from;
            if (told) {
                MPL_free(told[i].dests.at);
                MPL_free(told[i].hosts.at);
            }
        }
    }
    for (int i = 0; m->edges && i < m->num_hosts; i++)
        MPL_free(m->edges[i].at);
    MPL_free(m->out);
    MPL_free(m->in);
    MPL_free(m->receivers.at);
    MPL_free(m->to);
    MPL_free(m->from);
    MPL_free(m->hosts);
    MPL_free(m->edges);
    MPL_free(m->first_of_host);
    MPL_free(m->ranks);
}

int MPII_Topo_neighbor_edges(MPIR_Comm * comm_ptr, int *indegree, int **source, int *outdegree,
                             int **dest)
{
    int mpi_errno = MPI_SUCCESS, is_weighted;

    mpi_errno = MPIR_Topo_canon_nhb_count(comm_ptr, indegree, outdegree, &is_weighted);
    MPIR_ERR_CHECK(mpi_errno);
    *source = new_ints(*indegree);
    *dest = new_ints(*outdegree);
    mpi_errno = MPIR_Topo_canon_nhb(comm_ptr, *indegree, *source, MPI_UNWEIGHTED, *outdegree,
                                    *dest, MPI_UNWEIGHTED);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Whether each of these ranks is on the host of this rank */
static char *find_near(const MPIR_Comm * comm_ptr, const int rank[], int num)
{
    const int *host = comm_ptr->coll.topo->view->place.host_of_rank;
    char *is_near = MPL_malloc(num + 1, MPL_MEM_COLL);

    MPII_TOPO_NEED(is_near);
    for (int i = 0; i < num; i++)
        is_near[i] = rank[i] != MPI_PROC_NULL && host[rank[i]] == host[comm_ptr->rank];
    return is_near;
}

static int make_plan(MPII_Topo_neighbor_t * plan, MPIR_Comm * comm_ptr)
{
    int mpi_errno = MPI_SUCCESS, tag;
    bool is_consistent;
    make_t m = {.comm_ptr = comm_ptr,.place = &comm_ptr->coll.topo->view->place };
    TOPO_COLL_ATTR_NEW;

    mpi_errno = MPII_Topo_neighbor_edges(comm_ptr, &plan->indegree, &plan->source,
                                         &plan->outdegree, &plan->dest);
    MPIR_ERR_CHECK(mpi_errno);
    plan->is_near_source = find_near(comm_ptr, plan->source, plan->indegree);
    plan->is_near_dest = find_near(comm_ptr, plan->dest, plan->outdegree);
    mpi_errno = check_edges(plan, comm_ptr, &is_consistent, attr);
    MPIR_ERR_CHECK(mpi_errno);
    if (!is_consistent)
        goto fn_exit;
    mpi_errno = MPIR_Sched_next_tag(comm_ptr, &tag);
    MPIR_ERR_CHECK(mpi_errno);
    find_hosts(&m);
    m.out = find_far(&m, plan->dest, plan->outdegree, false, &m.num_out);
    m.in = find_far(&m, plan->source, plan->indegree, true, &m.num_in);
    tell(&m);
    mpi_errno = exchange_lists(&m, tag, attr);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = exchange_edges(&m, tag, attr);
    MPIR_ERR_CHECK(mpi_errno);
    make_routes(&m, plan);
    mpi_errno = agree(plan, &m, attr);
    MPIR_ERR_CHECK(mpi_errno);

  fn_exit:
    free_make(&m);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPII_Topo_neighbor_create(MPIR_Comm * comm_ptr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_kept_t *kept;

    if (comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM || !MPII_Topo_is_placed(comm_ptr))
        goto fn_exit;
    const MPII_Topo_view_t *view = comm_ptr->coll.topo->view;
    kept = MPII_Topo_comm_kept(comm_ptr, MPII_TOPO_KEPT__NEIGHBOR);
    free_plan(kept->ptr);       /* of the communicator that this one is a copy of */
    kept->ptr = NULL;
    if (!view->settings.has_neighbors || view->place.num_hosts == 1 || view->max_ppn == 1)
        goto fn_exit;
    MPII_Topo_neighbor_t *plan = MPL_calloc(1, sizeof(*plan), MPL_MEM_COLL);
    MPII_TOPO_NEED(plan);
    MPL_atomic_store_int(&plan->num_users, 1);
    MPL_atomic_store_ptr(&plan->spare, NULL);
    mpi_errno = make_plan(plan, comm_ptr);
    if (mpi_errno || plan->most == 0) {
        free_plan(plan);
        goto fn_exit;
    }
    *kept = (MPII_Topo_kept_t) {
    .ptr = plan,.free = free_plan,.copy = share_plan};

  fn_exit:
    return mpi_errno;
}

MPII_Topo_neighbor_t *MPII_Topo_neighbor_get(MPIR_Comm * comm_ptr)
{
    return comm_ptr->coll.topo ?
        MPII_Topo_comm_kept(comm_ptr, MPII_TOPO_KEPT__NEIGHBOR)->ptr : NULL;
}

bool MPII_Topo_neighbor_is_gain(MPIR_Comm * comm_ptr, int kind, MPI_Aint sent, MPI_Aint received)
{
    const MPII_Topo_neighbor_t *plan = MPII_Topo_neighbor_get(comm_ptr);

    if (plan == NULL || !plan->is_gain[kind])
        return false;
    return plan->has_lone || (plan->outdegree > 0 ? sent : received) <= plan->limit[kind];
}
