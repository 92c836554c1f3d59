/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Checks the plans of topo_plan.c: those of all ranks are made in one process, and carried out with
 * memcpy, where the ranks of a host share a segment, and where each has its own one.
 *
 * usage: topo_plan random SEED | known | memory SEED | large | scale
 * To be linked with --wrap= for malloc, calloc, realloc and free. */

#include "mpl.h"
#include "topo_plan.h"
#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

#define MAX_RANKS 65536
#define LARGE 16384
#include "place.h"

static const MPII_Topo_place_t *current;
static bool by_rack, one_rank;

static void check(int ok, const char *what, int64_t a, int64_t b)
{
    if (ok)
        return;
    printf("failed: %s; %ld, %ld\n", what, (long) a, (long) b);
    if (current == NULL)
        exit(1);
    printf("%s%s%d ranks, hosts:", one_rank ? "one rank, " : "", by_rack ? "by rack, " : "",
           current->num_ranks);
    for (int i = 0; i < current->num_ranks && i < 64; i++)
        printf(" %d", host_of_rank[i]);
    printf("; racks:");
    for (int i = 0; i < current->num_hosts && i < 64; i++)
        printf(" %d", rack_of_host[i]);
    printf("\n");
    exit(1);
}

/* -- memory -- */

static int64_t live, peak;      /* bytes */
static int fail_in = -1;        /* allocations until one fails, -1: never */

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void __wrap_free(void *ptr);

static void *count(void *ptr)
{
    live += malloc_usable_size(ptr);
    peak = MPL_MAX(peak, live);
    return ptr;
}

static bool fails(void)
{
    return fail_in >= 0 && fail_in-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t num, size_t size)
{
    return fails() ? NULL : count(__real_calloc(num, size));
}

void *__wrap_realloc(void *ptr, size_t size)
{
    if (fails())
        return NULL;
    live -= malloc_usable_size(ptr);
    return count(__real_realloc(ptr, size));
}

void __wrap_free(void *ptr)
{
    live -= malloc_usable_size(ptr);
    __real_free(ptr);
}

/* -- an exchange -- */

static int group_of(int host)
{
    return by_rack ? rack_of_host[host] : 0;
}

/* What a rank holds */
typedef struct {
    MPII_Topo_route_t *route;
    const void **send, **recv;
    void **transit;
    MPII_Topo_plan_t *plan;
} rank_t;

static rank_t *ranks;
static int64_t *all_sizes;      /* [from][to] */
static int width;               /* of the sizes in send, recv and transit */
static char *size_from, *size_to;       /* [from][to] and [to][from] */

static int64_t size_of(int from, int to)
{
    return all_sizes[from * current->num_ranks + to];
}

static void create_routes(const MPII_Topo_place_t * p, int flags)
{
    current = p;
    by_rack = flags & MPII_TOPO_ROUTE__BY_RACK;
    one_rank = flags & MPII_TOPO_ROUTE__ONE_RANK;
    ranks = calloc(p->num_ranks, sizeof(rank_t));
    for (int r = 0; r < p->num_ranks; r++) {
        ranks[r].route = MPII_Topo_route_create(p, r, flags);
        check(ranks[r].route != NULL, "route", r, 0);
    }
}

/* Sizes of the blocks, and what each rank has to know of them; as wide as they must be, or wider */
static void set_sizes(const int64_t sizes[])
{
    int p = current->num_ranks;
    int64_t max = 0;

    all_sizes = malloc((size_t) p * p * sizeof(int64_t));
    memcpy(all_sizes, sizes, (size_t) p * p * sizeof(int64_t));
    for (int i = 0; i < p * p; i++)
        max = MPL_MAX(max, sizes[i]);
    width = MPII_Topo_size_width(max) << rand() % 4;
    width = MPL_MIN(width, 8);
    size_from = malloc((size_t) p * p * width);
    size_to = malloc((size_t) p * p * width);
    for (int s = 0; s < p; s++) {
        for (int d = 0; d < p; d++) {
            MPII_Topo_size_set(size_from, width, s * p + d, sizes[s * p + d]);
            MPII_Topo_size_set(size_to, width, d * p + s, sizes[s * p + d]);
        }
    }
    for (int r = 0; r < p; r++) {
        const MPII_Topo_route_t *route = ranks[r].route;
        ranks[r].send = malloc(route->num_local * sizeof(void *));
        ranks[r].recv = malloc(route->num_local * sizeof(void *));
        for (int l = 0; l < route->num_local; l++) {
            ranks[r].send[l] = size_from + route->local[l] * p * width;
            ranks[r].recv[l] = size_to + route->local[l] * p * width;
        }
    }
    for (int r = 0; r < p; r++) {
        const MPII_Topo_route_t *route = ranks[r].route;
        int64_t table = 2 * (int64_t) route->num_local * p;
        ranks[r].transit = malloc((route->num_recvs[0] + 1) * sizeof(void *));
        for (int i = 0; i < route->num_recvs[0]; i++) {
            const rank_t *from = &ranks[route->recvs[0][i].from];
            int64_t num = MPII_Topo_route_num_transit_in(route, i);
            int k = 0;
            while (from->route->sends[0][k].host != route->host)
                k++;
            check(num == MPII_Topo_route_num_transit_out(from->route, k), "transit", r, i);
            ranks[r].transit[i] = malloc(num * width);
            MPII_Topo_route_transit(from->route, k, from->send, width, ranks[r].transit[i]);
            table += num;
        }
        check(MPII_Topo_route_table_bytes(route, width) == table * width, "table", r, table);
    }
}

static MPII_Topo_plan_t *create_plan(int r, bool own_segments)
{
    return MPII_Topo_plan_create(ranks[r].route, ranks[r].send, ranks[r].recv,
                                 (const void *const *) ranks[r].transit, width, own_segments);
}

static void create_plans(bool own_segments)
{
    for (int r = 0; r < current->num_ranks; r++) {
        ranks[r].plan = create_plan(r, own_segments);
        check(ranks[r].plan != NULL, "plan", r, 0);
    }
}

static void free_plans(void)
{
    for (int r = 0; r < current->num_ranks; r++)
        MPII_Topo_plan_free(ranks[r].plan);
}

static void free_ranks(void)
{
    for (int r = 0; r < current->num_ranks; r++) {
        for (int i = 0; i < ranks[r].route->num_recvs[0]; i++)
            free(ranks[r].transit[i]);
        free(ranks[r].transit);
        free(ranks[r].send);
        free(ranks[r].recv);
        MPII_Topo_route_free(ranks[r].route);
    }
    free(all_sizes);
    free(size_from);
    free(size_to);
    free(ranks);
}

/* -- routes -- */

static const MPII_Topo_route_msg_t *find_msg(const MPII_Topo_route_msg_t * msgs, int num, int host)
{
    const MPII_Topo_route_msg_t *found = NULL;

    for (int i = 0; i < num; i++) {
        if (msgs[i].host != host)
            continue;
        check(found == NULL, "one message for a pair of hosts", host, i);
        found = &msgs[i];
    }
    return found;
}

static void check_dealt(const int num[], const MPII_Topo_route_t * route, const char *what)
{
    int min = num[route->local[0]], max = min;

    for (int l = 1; l < route->num_local && one_rank; l++)
        check(num[route->local[l]] == 0, what, route->local[l], num[route->local[l]]);
    if (one_rank)
        return;

    for (int l = 0; l < route->num_local; l++) {
        min = MPL_MIN(min, num[route->local[l]]);
        max = MPL_MAX(max, num[route->local[l]]);
    }
    check(max - min <= 1, what, min, max);
}

/* How many hosts come before one, group by group */
static int index_of(int host)
{
    int index = 0;

    for (int i = 0; i < current->num_hosts; i++)
        index += group_of(i) < group_of(host) || (group_of(i) == group_of(host) && i < host);
    return index;
}

static void check_route(const MPII_Topo_route_t * route)
{
    int p = current->num_ranks, h = current->num_hosts, host = route->host;
    int n = 0, num_members = 0;
    int num_groups = by_rack ? current->num_racks : 1;
    int *num_sends = calloc(p, sizeof(int)), *num_recvs = calloc(p, sizeof(int));
    int *size_of_group = calloc(num_groups, sizeof(int));

    check(host == host_of_rank[route->rank], "host", route->rank, host);
    check(route->local[route->index] == route->rank, "index", route->rank, route->index);
    for (int r = 0; r < p; r++) {
        if (host_of_rank[r] == host)
            check(n < route->num_local && route->local[n++] == r, "local", route->rank, r);
    }
    check(n == route->num_local, "num_local", n, route->num_local);
    n = 0;
    for (int i = 0; i < h; i++) {
        size_of_group[group_of(i)]++;
        if (group_of(i) != group_of(host))
            continue;
        check(route->members[num_members++] == i, "members", route->rank, i);
        for (int r = 0; r < p; r++) {
            if (host_of_rank[r] == i)
                check(route->group_ranks[n++] == r, "group_ranks", route->rank, r);
        }
    }
    check(num_members == route->num_members, "num_members", route->rank, num_members);
    check(n == route->num_group_ranks, "num_group_ranks", route->rank, n);

    check(route->num_sends[0] == num_groups - 1, "stage 1", route->rank, route->num_sends[0]);
    for (int stage = 0; stage < 2; stage++) {
        int last_group = -1, last_host = -1;
        for (int l = 0; l < route->num_local; l++) {
            bool takes_part = false;
            for (int i = 0; i < route->num_sends[stage]; i++)
                takes_part = takes_part || route->sends[stage][i].from == route->local[l];
            for (int i = 0; i < route->num_recvs[stage]; i++)
                takes_part = takes_part || route->recvs[stage][i].to == route->local[l];
            check(takes_part == MPII_Topo_route_takes_part(route, stage, l), "takes part", host, l);
        }
        for (int i = 0; i < route->num_sends[stage]; i++) {
            const MPII_Topo_route_msg_t *msg = &route->sends[stage][i];
            int other = group_of(msg->host), index = 0;
            num_sends[msg->from]++;
            check(host_of_rank[msg->from] == host && host_of_rank[msg->to] == msg->host,
                  "ranks of a message", msg->from, msg->to);
            find_msg(route->sends[stage], route->num_sends[stage], msg->host);
            if (stage == 0) {
                check(other != group_of(host) && other > last_group, "other groups", host, i);
                last_group = other;
                for (int k = 0; k < msg->host; k++)
                    index += group_of(k) == other;
                check(index == index_of(host) % size_of_group[other], "member of the group", host, i);
            } else {
                check(other == group_of(host) && msg->host != host && msg->host > last_host,
                      "own group", host, i);
                last_host = msg->host;
            }
            const MPII_Topo_route_t *to = ranks[msg->to].route;
            const MPII_Topo_route_msg_t *end =
                find_msg(to->recvs[stage], to->num_recvs[stage], host);
            check(end && end->from == msg->from && end->to == msg->to, "both ends", host,
                  msg->host);
        }
        last_host = -1;
        for (int i = 0; i < route->num_recvs[stage]; i++) {
            const MPII_Topo_route_msg_t *msg = &route->recvs[stage][i];
            const MPII_Topo_route_t *from = ranks[msg->from].route;
            num_recvs[msg->to]++;
            check(msg->host > last_host, "order of hosts", host, i);
            last_host = msg->host;
            check(find_msg(from->sends[stage], from->num_sends[stage], host) != NULL, "sent",
                  host, msg->host);
        }
    }
    check(route->num_sends[1] == num_members - 1, "stage 2", route->rank, route->num_sends[1]);
    /* the hosts of other groups are shared out evenly */
    check(route->num_recvs[0] == (h - num_members) / num_members ||
          route->num_recvs[0] == (h - 1) / num_members, "receives in stage 1", host,
          route->num_recvs[0]);
    check_dealt(num_sends, route, "sends of a rank");
    check_dealt(num_recvs, route, "receives of a rank");
    free(num_sends);
    free(num_recvs);
    free(size_of_group);
}

/* -- plans -- */

static void check_msg(const MPII_Topo_plan_msg_t * msg, int64_t segment)
{
    int64_t bytes = 0;

    for (int i = 0; i < msg->num_pieces; i++) {
        const MPII_Topo_piece_t *piece = &msg->pieces[i];
        check(piece->bytes > 0, "empty piece", msg->rank, i);
        check(piece->offset >= 0 && piece->offset + piece->bytes <= segment, "in the segment",
              piece->offset, piece->bytes);
        check(i == 0 || piece[-1].offset + piece[-1].bytes != piece->offset, "pieces are one",
              msg->rank, i);
        bytes += piece->bytes;
    }
    check(bytes == msg->bytes, "bytes of a message", msg->bytes, bytes);
}

/* Messages are those of the route that are not empty: in their order, and the same at both ends. */
static void check_messages(int rank)
{
    const MPII_Topo_route_t *route = ranks[rank].route;
    const MPII_Topo_plan_t *plan = ranks[rank].plan;

    for (int stage = 0; stage < 2; stage++) {
        int n = 0;
        for (int i = 0; i < route->num_sends[stage] && n < plan->num_sends[stage]; i++) {
            const MPII_Topo_plan_msg_t *msg = &plan->sends[stage][n], *end = NULL;
            if (route->sends[stage][i].from != rank || route->sends[stage][i].to != msg->rank)
                continue;
            /* two hosts never have two messages in a stage, so that the rank tells which one */
            const MPII_Topo_plan_t *to = ranks[msg->rank].plan;
            for (int k = 0; k < to->num_recvs[stage]; k++) {
                if (to->recvs[stage][k].rank == rank)
                    end = &to->recvs[stage][k];
            }
            check(end != NULL && end->bytes == msg->bytes, "received", rank, msg->rank);
            check(msg->bytes > 0, "empty message", rank, msg->rank);
            check_msg(msg, plan->bytes);
            n++;
        }
        check(n == plan->num_sends[stage], "sends in the order of the route", rank, n);
        n = 0;
        for (int i = 0; i < route->num_recvs[stage] && n < plan->num_recvs[stage]; i++) {
            const MPII_Topo_plan_msg_t *msg = &plan->recvs[stage][n];
            if (route->recvs[stage][i].to != rank || route->recvs[stage][i].from != msg->rank)
                continue;
            check(msg->bytes > 0, "empty message", rank, msg->rank);
            check_msg(msg, plan->bytes);
            n++;
        }
        check(n == plan->num_recvs[stage], "receives in the order of the route", rank, n);
    }
}

/* Every byte of the segment of a host is written once: by a block, or by a message. */
static void check_written_once(int host)
{
    int p = current->num_ranks;
    int64_t bytes = -1;
    char *written = NULL;

    for (int r = 0; r < p; r++) {
        const MPII_Topo_plan_t *plan = ranks[r].plan;
        if (host_of_rank[r] != host)
            continue;
        if (bytes < 0) {
            bytes = plan->bytes;
            written = calloc(bytes + 1, 1);
        }
        check(plan->bytes == bytes, "bytes are the same on a host", host, r);
        check(plan->num_ranks == p && plan->has_stage_1 == (by_rack && current->num_racks > 1),
              "has_stage_1", host, r);
        for (int d = 0; d < p; d++) {
            int64_t n = size_of(r, d);
            bool is_own = plan->send_offset[d] >= plan->own_offset &&
                plan->send_offset[d] + n <= plan->own_offset + plan->own_bytes;
            check(n == 0 || is_own == (host_of_rank[d] == host), "blocks of the own host", r, d);
            check(plan->send_offset[d] >= 0 && plan->send_offset[d] + n <= bytes, "block", r, d);
            for (int64_t i = 0; i < n; i++)
                check(!written[plan->send_offset[d] + i]++, "blocks share bytes", r, d);
        }
        for (int stage = 0; stage < 2; stage++) {
            for (int i = 0; i < plan->num_recvs[stage]; i++) {
                const MPII_Topo_plan_msg_t *msg = &plan->recvs[stage][i];
                for (int k = 0; k < msg->num_pieces; k++) {
                    for (int64_t x = 0; x < msg->pieces[k].bytes; x++)
                        check(!written[msg->pieces[k].offset + x]++, "overlap", r, msg->rank);
                }
            }
        }
    }
    for (int64_t i = 0; i < bytes; i++)
        check(written[i], "every byte has a use", host, i);
    free(written);
}

/* -- carrying them out -- */

#define NOTHING 255

static unsigned char data(int from, int to, int64_t i)
{
    return ((unsigned) from * 2654435761u + (unsigned) to * 40503u + (unsigned) i * 97u) / 7 % 255;
}

static void copy(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) {
        check(from[i] != NOTHING, "sent before it is there", i, bytes);
        check(to[i] == NOTHING, "there before it is received", i, bytes);
        to[i] = from[i];
    }
}

/* From pieces of one segment to those of another one */
static void transfer(unsigned char *to, const MPII_Topo_plan_msg_t * to_msg,
                     const unsigned char *from, const MPII_Topo_plan_msg_t * from_msg)
{
    unsigned char *wire = malloc(from_msg->bytes + 1), *at = wire;

    check(to_msg->bytes == from_msg->bytes, "length of a message", to_msg->bytes, from_msg->bytes);
    memset(wire, NOTHING, from_msg->bytes);
    for (int i = 0; i < from_msg->num_pieces; i++) {
        copy(at, from + from_msg->pieces[i].offset, from_msg->pieces[i].bytes);
        at += from_msg->pieces[i].bytes;
    }
    at = wire;
    for (int i = 0; i < to_msg->num_pieces; i++) {
        copy(to + to_msg->pieces[i].offset, at, to_msg->pieces[i].bytes);
        at += to_msg->pieces[i].bytes;
    }
    free(wire);
}

static void mark(unsigned char *needed, const MPII_Topo_plan_msg_t * msg)
{
    for (int i = 0; i < msg->num_pieces; i++)
        memset(needed + msg->pieces[i].offset, 1, msg->pieces[i].bytes);
}

static void hand_on(unsigned char **segments, int step)
{
    for (int r = 0; r < current->num_ranks; r++) {
        const MPII_Topo_plan_t *plan = ranks[r].plan;
        check(plan->num_local == ranks[r].route->num_local, "num_local", r, plan->num_local);
        for (int l = 0; l < plan->num_local; l++) {
            int peer = ranks[r].route->local[l];
            const MPII_Topo_plan_msg_t *give = &plan->give[step][l];
            const MPII_Topo_plan_msg_t *get = &ranks[peer].plan->get[step][ranks[r].route->index];
            size_t length = give->num_pieces * sizeof(*give->pieces);
            check_msg(give, plan->bytes);
            check(give->rank == peer && get->rank == r, "rank of the peer", give->rank, get->rank);
            check(give->num_pieces == get->num_pieces, "number of pieces", r, peer);
            check(!length || !memcmp(give->pieces, get->pieces, length), "at the same place", r,
                  peer);
            check(peer != r || give->num_pieces == 0, "nothing from itself", r, step);
            transfer(segments[peer], get, segments[r], give);
        }
    }
}

/* segments[rank], which may be the same for the ranks of a host */
static void carry_out(unsigned char **segments, bool own_segments)
{
    int p = current->num_ranks;

    for (int r = 0; r < p; r++) {
        for (int d = 0; d < p; d++) {
            for (int64_t i = 0; i < size_of(r, d); i++)
                segments[r][ranks[r].plan->send_offset[d] + i] = data(r, d, i);
        }
    }
    for (int stage = 0; stage < 2; stage++) {
        if (own_segments)
            hand_on(segments, stage);
        for (int r = 0; r < p; r++) {
            for (int i = 0; i < ranks[r].plan->num_sends[stage]; i++) {
                const MPII_Topo_plan_msg_t *msg = &ranks[r].plan->sends[stage][i];
                const MPII_Topo_plan_t *to = ranks[msg->rank].plan;
                int k = 0;
                while (to->recvs[stage][k].rank != r)
                    k++;
                transfer(segments[msg->rank], &to->recvs[stage][k], segments[r], msg);
            }
        }
    }
    if (own_segments)
        hand_on(segments, 2);
    for (int r = 0; r < p; r++) {
        for (int s = 0; s < p; s++) {
            for (int64_t i = 0; i < size_of(s, r); i++)
                check(segments[r][ranks[r].plan->recv_offset[s] + i] == data(s, r, i),
                      "block arrived", s, r);
        }
    }
}

static void run_shared(void)
{
    int p = current->num_ranks;
    unsigned char **segments = calloc(p, sizeof(*segments));

    for (int r = 0; r < p; r++) {
        int first = ranks[r].route->local[0];
        if (r == first) {
            segments[r] = malloc(ranks[r].plan->bytes + 1);
            memset(segments[r], NOTHING, ranks[r].plan->bytes);
        }
        segments[r] = segments[first];
        check(ranks[r].plan->give[0] == NULL && ranks[r].plan->get[2] == NULL, "not asked", r, 0);
    }
    carry_out(segments, false);
    for (int r = 0; r < p; r++) {
        if (r == ranks[r].route->local[0])
            free(segments[r]);
    }
    free(segments);
}

static void run_own(void)
{
    int p = current->num_ranks;
    unsigned char **segments = calloc(p, sizeof(*segments));

    for (int r = 0; r < p; r++) {
        segments[r] = malloc(ranks[r].plan->bytes + 1);
        memset(segments[r], NOTHING, ranks[r].plan->bytes);
    }
    carry_out(segments, true);
    /* a rank gets nothing but what it sends on or unpacks */
    for (int r = 0; r < p; r++) {
        const MPII_Topo_plan_t *plan = ranks[r].plan;
        unsigned char *needed = calloc(plan->bytes + 1, 1);
        for (int i = 0; i < p; i++) {
            memset(needed + plan->send_offset[i], 1, size_of(r, i));
            memset(needed + plan->recv_offset[i], 1, size_of(i, r));
        }
        for (int stage = 0; stage < 2; stage++) {
            for (int i = 0; i < plan->num_sends[stage]; i++)
                mark(needed, &plan->sends[stage][i]);
            for (int i = 0; i < plan->num_recvs[stage]; i++)
                mark(needed, &plan->recvs[stage][i]);
        }
        for (int64_t i = 0; i < plan->bytes; i++)
            check(needed[i] || segments[r][i] == NOTHING, "not needed", r, i);
        free(needed);
        free(segments[r]);
    }
    free(segments);
}

/* -- a uniform plan -- */

static void check_scaled_msgs(const MPII_Topo_plan_msg_t a[], const MPII_Topo_plan_msg_t b[],
                              int num, int64_t n)
{
    for (int i = 0; i < num; i++) {
        check(a[i].rank == b[i].rank && a[i].num_pieces == b[i].num_pieces &&
              a[i].bytes * n == b[i].bytes, "scaled message", i, n);
        for (int k = 0; k < a[i].num_pieces; k++)
            check(a[i].pieces[k].offset * n == b[i].pieces[k].offset &&
                  a[i].pieces[k].bytes * n == b[i].pieces[k].bytes, "scaled piece", i, k);
    }
}

static void check_uniform(int rank, int64_t n, bool own_segments)
{
    const MPII_Topo_plan_t *b = ranks[rank].plan;
    MPII_Topo_plan_t *a =
        MPII_Topo_plan_create(ranks[rank].route, NULL, NULL, NULL, 0, own_segments);

    check(a && a->bytes * n == b->bytes, "scaled plan", rank, n);
    check(MPII_Topo_route_uniform_bytes(ranks[rank].route) == a->bytes, "uniform bytes", rank,
          a->bytes);
    for (int i = 0; i < current->num_ranks; i++)
        check(a->send_offset[i] * n == b->send_offset[i] &&
              a->recv_offset[i] * n == b->recv_offset[i], "scaled offset", rank, i);
    for (int i = 0; i < 2; i++) {
        check(a->num_sends[i] == b->num_sends[i] && a->num_recvs[i] == b->num_recvs[i],
              "messages of a scaled plan", rank, i);
        check_scaled_msgs(a->sends[i], b->sends[i], a->num_sends[i], n);
        check_scaled_msgs(a->recvs[i], b->recvs[i], a->num_recvs[i], n);
    }
    for (int i = 0; i < 3 && own_segments; i++) {
        check_scaled_msgs(a->give[i], b->give[i], a->num_local, n);
        check_scaled_msgs(a->get[i], b->get[i], a->num_local, n);
    }
    MPII_Topo_plan_free(a);
}

/* -- random exchanges -- */

static int64_t *random_sizes(int p, int64_t * uniform)
{
    int64_t *sizes = malloc((size_t) p * p * sizeof(int64_t));
    int kind = rand() % 6;

    *uniform = kind == 0 ? 1 + rand() % 4 : 0;
    for (int i = 0; i < p * p; i++) {
        sizes[i] = kind == 0 ? *uniform : kind == 1 ? rand() % 4 : kind == 2 ? rand() % 8 == 0 :
            kind == 3 ? (rand() % 40 ? 1 : 100 + rand() % 1000) : kind == 4 ? 1 + rand() % 9 : 0;
    }
    if (kind == 5)
        for (int i = rand() % 4; i > 0; i--)
            sizes[rand() % (p * p)] = 1 + rand() % 50;
    for (int zero = kind == 1 || kind == 3 ? 1 + rand() % 4 : 0; zero > 0; zero--) {
        int r = rand() % p, row = rand() % 2;
        for (int i = 0; i < p; i++)
            sizes[row ? r * p + i : i * p + r] = 0;
    }
    return sizes;
}

static MPII_Topo_place_t random_place(int max)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];
    int n = 1 + rand() % max, kind = rand() % 8;
    int hosts = kind == 0 ? 1 : kind == 1 ? n : 1 + rand() % n;
    int racks = kind == 2 ? 1 : kind == 3 ? hosts : 1 + rand() % hosts;

    for (int r = 0; r < n; r++)
        host[r] = kind == 1 ? (r * 7 + 3) % n : kind == 4 ? r * hosts / n : rand() % hosts;
    /* a host in three is crowded, a rack in three large */
    for (int r = 0; r < n && kind > 4; r++)
        host[r] = rand() % 2 ? host[r] : host[r] / 3;
    for (int h = 0; h < n; h++)
        rack[h] = kind > 5 && rand() % 2 ? 0 : rand() % racks;
    return place(n, host, rack);
}

static void random_exchanges(unsigned seed)
{
    srand(seed);
    for (int i = 0; i < 150; i++) {
        MPII_Topo_place_t p = random_place(i % 50 ? 40 : 120);
        int64_t uniform, *sizes = random_sizes(p.num_ranks, &uniform);
        create_routes(&p, i % MPII_TOPO_ROUTE__NUM);
        for (int r = 0; r < p.num_ranks; r++)
            check_route(ranks[r].route);
        set_sizes(sizes);
        for (int own = 0; own < 2; own++) {
            create_plans(own);
            for (int r = 0; r < p.num_ranks; r++) {
                check_messages(r);
                if (uniform)
                    check_uniform(r, uniform, own);
            }
            for (int h = 0; h < p.num_hosts; h++)
                check_written_once(h);
            if (own)
                run_own();
            else
                run_shared();
            free_plans();
        }
        free(sizes);
        free_ranks();
    }
}

static void random_memory(unsigned seed)
{
    srand(seed);
    for (int i = 0; i < 30; i++) {
        MPII_Topo_place_t p = random_place(30);
        int64_t uniform, *sizes = random_sizes(p.num_ranks, &uniform), before = live;
        int r = rand() % p.num_ranks, num;
        bool own = i % 2;
        MPII_Topo_route_t *route;

        current = &p;
        int flags = i % MPII_TOPO_ROUTE__NUM;
        for (num = 0, route = NULL; route == NULL; num++) {
            check(live == before, "a route leaves memory", live, num);
            fail_in = num;
            route = MPII_Topo_route_create(&p, r, flags);
            check(route == NULL || fail_in >= 0, "no memory, but a route", num, 0);
            fail_in = -1;
        }
        check(num > 3, "allocations for a route", num, 0);
        MPII_Topo_route_free(route);
        check(live == before, "a freed route leaves memory", live, num);

        create_routes(&p, flags);
        set_sizes(sizes);
        before = live;
        MPII_Topo_plan_t *plan = NULL;
        for (num = 0; plan == NULL; num++) {
            check(live == before, "a plan leaves memory", live, num);
            fail_in = num;
            plan = create_plan(r, own);
            check(plan == NULL || fail_in >= 0, "no memory, but a plan", num, 0);
            fail_in = -1;
        }
        check(num > 3, "allocations for a plan", num, 0);
        /* malloc_usable_size may be more than was asked for: by less than 32 for each block */
        int64_t memory = MPII_Topo_plan_memory(plan);
        check(memory <= live - before && memory > live - before - 3 * 32, "memory of a plan",
              memory, live - before);
        MPII_Topo_plan_free(plan);
        check(live == before, "a freed plan leaves memory", live, num);
        free(sizes);
        free_ranks();
    }
    MPII_Topo_plan_free(NULL);
    MPII_Topo_route_free(NULL);
}

/* -- known plans -- */

static void check_list(const MPII_Topo_plan_msg_t msgs[], int num, const int expected[],
                       const char *what, int rank)
{
    int n = 0;

    for (int i = 0; i < num; i++) {
        for (int k = 0; k < msgs[i].num_pieces; k++, n += 3)
            check(expected[n] == msgs[i].rank && expected[n + 1] == msgs[i].pieces[k].offset &&
                  expected[n + 2] == msgs[i].pieces[k].bytes, what, rank, n / 3);
    }
    check(expected[n] == -1, what, rank, n / 3);
}

typedef struct {
    int bytes, send_offset[5], recv_offset[5];
    /* rank, offset and bytes of each piece */
    int sends[2][16], recvs[2][16];
} known_t;

static void check_known(const known_t known[])
{
    for (int r = 0; r < 5; r++) {
        const MPII_Topo_plan_t *plan = ranks[r].plan;
        check(plan->bytes == known[r].bytes, "known bytes", r, plan->bytes);
        for (int i = 0; i < 5; i++) {
            check(size_of(r, i) == 0 || plan->send_offset[i] == known[r].send_offset[i],
                  "known send_offset", r, i);
            check(size_of(i, r) == 0 || plan->recv_offset[i] == known[r].recv_offset[i],
                  "known recv_offset", r, i);
        }
        for (int i = 0; i < 2; i++) {
            check_list(plan->sends[i], plan->num_sends[i], known[r].sends[i], "known sends", r);
            check_list(plan->recvs[i], plan->num_recvs[i], known[r].recvs[i], "known recvs", r);
        }
    }
}

static void known(void)
{
    /* hosts 0 and 1 in one rack, 2 in another one */
    int host[] = { 0, 0, 1, 2, 2 }, rack[] = { 0, 0, 1 };
    MPII_Topo_place_t p = place(5, host, rack);
    int64_t sizes[25];

    /* the example of topo_plan.h */
    const known_t ones[] = {
        {18, {4, 5, 12, 0, 1}, {4, 6, 16, 8, 10},
         {{3, 0, 4, -1}, {-1}}, {{3, 8, 4, 3, 14, 2, -1}, {-1}}},
        {18, {6, 7, 13, 2, 3}, {5, 7, 17, 9, 11},
         {{-1}, {2, 12, 4, -1}}, {{-1}, {2, 16, 2, -1}}},
        {9, {2, 3, 4, 0, 1}, {5, 6, 4, 7, 8},
         {{4, 0, 2, -1}, {1, 2, 2, -1}}, {{-1}, {1, 5, 4, -1}}},
        {16, {0, 1, 4, 6, 7}, {10, 12, 14, 6, 8},
         {{0, 0, 6, -1}, {-1}}, {{0, 10, 4, -1}, {-1}}},
        {16, {2, 3, 5, 8, 9}, {11, 13, 15, 7, 9},
         {{-1}, {-1}}, {{2, 14, 2, -1}, {-1}}}
    };
    create_routes(&p, MPII_TOPO_ROUTE__BY_RACK);
    for (int i = 0; i < 25; i++)
        sizes[i] = 1;
    set_sizes(sizes);
    create_plans(true);
    check_known(ones);
    int give[3][16] = { {1, 5, 1, 1, 12, 1, -1}, {1, 9, 1, 1, 11, 1, 1, 14, 2, -1}, {-1} };
    int get[3][16] = { {1, 2, 2, 1, 6, 1, -1}, {-1}, {1, 16, 1, -1} };
    for (int i = 0; i < 3; i++) {
        check_list(ranks[0].plan->give[i], 2, give[i], "known give", i);
        check_list(ranks[0].plan->get[i], 2, get[i], "known get", i);
    }
    free_plans();
    free_ranks();

    /* two blocks: 5 bytes from 3 to 2, by way of host 0, and 2 from 0 to 1, which stay */
    const known_t two[] = {
        {7, {0, 0}, {0}, {{-1}, {-1}}, {{3, 2, 5, -1}, {-1}}},
        {7, {0}, {0}, {{-1}, {2, 2, 5, -1}}, {{-1}, {-1}}},
        {5, {0}, {0}, {{-1}, {-1}}, {{-1}, {1, 0, 5, -1}}},
        {5, {0}, {0}, {{0, 0, 5, -1}, {-1}}, {{-1}, {-1}}},
        {5, {0}, {0}, {{-1}, {-1}}, {{-1}, {-1}}}
    };
    create_routes(&p, MPII_TOPO_ROUTE__BY_RACK);
    memset(sizes, 0, sizeof(sizes));
    sizes[3 * 5 + 2] = 5;
    sizes[0 * 5 + 1] = 2;
    set_sizes(sizes);
    create_plans(false);
    check_known(two);
    free_plans();
    free_ranks();

    /* the same, not by rack: straight from host 2 to host 1 */
    const known_t straight[] = {
        {2, {0, 0}, {0}, {{-1}, {-1}}, {{-1}, {-1}}},
        {2, {0}, {0}, {{-1}, {-1}}, {{-1}, {-1}}},
        {5, {0}, {0}, {{-1}, {-1}}, {{-1}, {4, 0, 5, -1}}},
        {5, {0}, {0}, {{-1}, {-1}}, {{-1}, {-1}}},
        {5, {0}, {0}, {{-1}, {2, 0, 5, -1}}, {{-1}, {-1}}}
    };
    create_routes(&p, 0);
    set_sizes(sizes);
    create_plans(false);
    check_known(straight);
    free_plans();
    free_ranks();
}

/* -- large ones: cost, and what the plans need -- */

static double seconds_since(clock_t start)
{
    return (double) (clock() - start) / CLOCKS_PER_SEC;
}

static void large(void)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];
    MPII_Topo_place_t p;

    for (int i = 0; i < LARGE; i++) {
        host[i] = i / 128;
        rack[i] = i / 8;
    }
    p = place(LARGE, host, rack);
    current = &p;
    for (int own = 0; own < 2; own++) {
        int64_t before = live;
        peak = live;
        clock_t start = clock();
        MPII_Topo_route_t *route = MPII_Topo_route_create(&p, 1000, MPII_TOPO_ROUTE__BY_RACK);
        MPII_Topo_plan_t *plan = MPII_Topo_plan_create(route, NULL, NULL, NULL, 0, own);
        printf("%.6f s, %ld KiB, at most %ld KiB: 16384 ranks, 128 a host, uniform%s\n",
               seconds_since(start), (long) MPII_Topo_plan_memory(plan) / 1024,
               (long) (peak - before) / 1024, own ? ", own segments" : "");
        /* nothing as long as ranks times ranks of a host */
        check(peak - before < 128 * LARGE, "memory of a uniform plan", peak - before, own);
        check(plan->bytes > 2 * 128L * LARGE, "bytes", plan->bytes, own);
        MPII_Topo_plan_free(plan);
        MPII_Topo_route_free(route);
    }

    int n = 4096, local = 64;
    for (int i = 0; i < n; i++)
        host[i] = i / local;
    p = place(n, host, rack);
    MPII_Topo_route_t *route = MPII_Topo_route_create(&p, 1000, MPII_TOPO_ROUTE__BY_RACK);
    int64_t *sizes = malloc((size_t) local * n * sizeof(int64_t));
    const void **rows = malloc(local * sizeof(*rows)), **transit =
        malloc(route->num_recvs[0] * sizeof(*transit));
    /* so that what the ranks of the host send to each other is the same either way */
    for (int l = 0; l < local; l++) {
        for (int i = 0; i < n; i++)
            sizes[l * n + i] = (host[i] == route->host ? l * (i % local) : l * 7 + i * 3) % 4 * 100;
        rows[l] = sizes + l * n;
    }
    for (int i = 0; i < route->num_recvs[0]; i++) {
        int64_t num = MPII_Topo_route_num_transit_in(route, i);
        int64_t *t = malloc(num * sizeof(int64_t));
        for (int64_t k = 0; k < num; k++)
            t[k] = k * 5 % 7;
        transit[i] = t;
    }
    for (int own = 0; own < 2; own++) {
        int64_t before = live;
        peak = live;
        clock_t start = clock();
        MPII_Topo_plan_t *plan = MPII_Topo_plan_create(route, rows, rows, transit, 8, own);
        printf("%.6f s, %ld KiB, at most %ld KiB: 4096 ranks, 64 a host%s\n", seconds_since(start),
               (long) MPII_Topo_plan_memory(plan) / 1024, (long) (peak - before) / 1024,
               own ? ", own segments" : "");
        MPII_Topo_plan_free(plan);
    }
    for (int i = 0; i < route->num_recvs[0]; i++)
        free((void *) transit[i]);
    free(transit);
    free(rows);
    free(sizes);
    MPII_Topo_route_free(route);
}

/* -- what a machine needs: 65536 ranks, 128 a host, 16 hosts a rack -- */

static void scale(void)
{
    static int host[MAX_RANKS], rack[MAX_RANKS];
    MPII_Topo_place_t p;

    for (int i = 0; i < MAX_RANKS; i++) {
        host[i] = i / 128;
        rack[i] = i / 16;
    }
    p = place(MAX_RANKS, host, rack);
    current = &p;
    for (int flags = 0; flags <= MPII_TOPO_ROUTE__BY_RACK; flags++) {
        int64_t before = live;
        MPII_Topo_route_t *route = MPII_Topo_route_create(&p, 1000, flags);
        int64_t memory = MPII_Topo_route_memory(route);
        check(memory <= live - before && memory > live - before - 4 * 4096, "memory of a route",
              memory, live - before);
        MPII_Topo_plan_t *plan = MPII_Topo_plan_create(route, NULL, NULL, NULL, 0, false);
        int64_t segment = MPII_Topo_route_uniform_bytes(route);
        check(plan->bytes == segment, "uniform bytes", plan->bytes, segment);
        printf("%s: a host: segment %ld for blocks of 1 byte, sizes %ld, %ld, %ld; a rank: route "
               "%ld, plan %ld\n", flags ? "by rack" : "by host", (long) segment,
               (long) MPII_Topo_route_table_bytes(route, MPII_Topo_size_width(255)),
               (long) MPII_Topo_route_table_bytes(route, MPII_Topo_size_width(65535)),
               (long) MPII_Topo_route_table_bytes(route, MPII_Topo_size_width(65536)),
               (long) memory, (long) MPII_Topo_plan_memory(plan));
        MPII_Topo_plan_free(plan);
        MPII_Topo_route_free(route);
    }
}

static void check_widths(void)
{
    const int64_t max[] = { 0, 255, 256, 65535, 65536, UINT32_MAX, (int64_t) UINT32_MAX + 1 };
    const int expected[] = { 1, 1, 2, 2, 4, 4, 8 };

    for (int i = 0; i < 7; i++)
        check(MPII_Topo_size_width(max[i]) == expected[i], "width", max[i], expected[i]);
}

int main(int argc, char **argv)
{
    assert(argc > 1);
    unsigned seed = argc > 2 ? atoi(argv[2]) : 1;
    if (!strcmp(argv[1], "large")) {
        large();
        return 0;
    }
    if (!strcmp(argv[1], "scale")) {
        scale();
        return 0;
    }
    check_widths();
    if (!strcmp(argv[1], "random"))
        random_exchanges(seed);
    else if (!strcmp(argv[1], "memory"))
        random_memory(seed);
    else
        known();
    printf("ok\n");
    return 0;
}
