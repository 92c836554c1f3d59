/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_reorder.h"

/* Bounds of the work for a split. Its passes end earlier, at the first pass without a gain. Most
 * splits of grids take one pass. */
#define MAX_PASSES 8
#define MAX_PATIENCE 64         /* swaps in a row without a gain that end a pass */

/* -- graphs -- */

static int allocate(MPII_Topo_graph_t * graph, int num, int64_t max_edges, bool is_weighted)
{
    memset(graph, 0, sizeof(*graph));
    graph->num = num;
    graph->first = MPL_calloc(num + 2, sizeof(int64_t), MPL_MEM_COLL);
    graph->to = MPL_malloc((max_edges + 1) * sizeof(int), MPL_MEM_COLL);
    if (is_weighted)
        graph->weight = MPL_malloc((max_edges + 1) * sizeof(int), MPL_MEM_COLL);
    if (graph->first && graph->to && (graph->weight || !is_weighted))
        return 0;
    MPII_Topo_graph_free(graph);
    return -1;
}

void MPII_Topo_graph_free(MPII_Topo_graph_t * graph)
{
    MPL_free(graph->first);
    MPL_free(graph->to);
    MPL_free(graph->weight);
    memset(graph, 0, sizeof(*graph));
}

int MPII_Topo_graph_grid(MPII_Topo_graph_t * graph, int num_dims, const int dims[],
                         const int periods[])
{
    int num = 1;
    int64_t edge = 0;

    for (int d = 0; d < num_dims; d++)
        num *= dims[d];
    if (allocate(graph, num, (int64_t) num * 2 * num_dims, false))
        return -1;
    graph->num_dims = num_dims;
    graph->dims = dims;
    for (int i = 0; i < num; i++) {
        int stride = num;
        graph->first[i] = edge;
        for (int d = 0; d < num_dims; d++) {
            stride /= dims[d];
            int at = i / stride % dims[d];
            if (dims[d] == 1)
                continue;
            if (at > 0 || periods[d])
                graph->to[edge++] = at > 0 ? i - stride : i + (dims[d] - 1) * stride;
            if (at < dims[d] - 1 || periods[d])
                graph->to[edge++] = at < dims[d] - 1 ? i + stride : i - at * stride;
        }
    }
    graph->first[num] = edge;
    return 0;
}

static void add_edge(MPII_Topo_graph_t * graph, int from, int to, const int *weight)
{
    int64_t edge = graph->first[from + 1]++;

    graph->to[edge] = to;
    if (weight)
        graph->weight[edge] = *weight > 0 ? *weight : 1;
}

int MPII_Topo_graph_edges(MPII_Topo_graph_t * graph, int num, const int64_t begin[], const int to[],
                          const int weight[])
{
    if (allocate(graph, num, 2 * begin[num], weight != NULL))
        return -1;
    /* first[i + 2] counts the edges of vertex i. After the sum, its next edge goes to first[i +
     * 1]. */
    for (int i = 0; i < num; i++) {
        for (int64_t e = begin[i]; e < begin[i + 1]; e++) {
            graph->first[i + 2] += to[e] != i;
            graph->first[to[e] + 2] += to[e] != i;
        }
    }
    for (int i = 1; i <= num + 1; i++)
        graph->first[i] += graph->first[i - 1];
    for (int i = 0; i < num; i++) {
        for (int64_t e = begin[i]; e < begin[i + 1]; e++) {
            if (to[e] == i)
                continue;
            add_edge(graph, i, to[e], weight ? &weight[e] : NULL);
            add_edge(graph, to[e], i, weight ? &weight[e] : NULL);
        }
    }
    return 0;
}

static int64_t weight_of(const MPII_Topo_graph_t * graph, int64_t edge)
{
    return graph->weight ? graph->weight[edge] : 1;
}

/* -- splits -- */

typedef struct {
    const MPII_Topo_place_t *place;
    const MPII_Topo_graph_t *graph;
    int num_levels;             /* hosts, racks, and the levels above */
    int *ranks;                 /* [num] the ranks that get a vertex, group by group */
    int *vertices;              /* vertices, sorted by the parts that were split so far */
    int *result;                /* [num] vertex of each rank */
    /* for the split that is being made: */
    char *side;                 /* [num] of a vertex: 0, 1, or OUTSIDE (not in this split) */
    int *best, *order, *key, *first;    /* [num], [num], [num], [num + 1] */
    int64_t *gain;              /* weight that the cut loses if only this vertex changes its side */
    int64_t *near;              /* weight of the edges between this vertex and the vertex that is to
                                 * be swapped */
    char *is_locked;            /* [num] */
    int *swaps;                 /* [num] vertices of the pairs that this pass has swapped */
} work_t;
enum { OUTSIDE = 2, NUM_INTS = 8 };

/* Group of a rank at a level: 0: host, 1: rack, ... */
static int group_of(const MPII_Topo_place_t * place, int rank, int level)
{
    int group = place->host_of_rank[rank];

    if (level >= 1)
        group = place->rack_of_host[group];
    for (int i = 0; i < level - 1; i++)
        group = place->above[i].of[group];
    return group;
}

static int num_groups(const MPII_Topo_place_t * place, int level)
{
    return level == 0 ? place->num_hosts : level == 1 ? place->num_racks :
        place->above[level - 2].num;
}

/* Weight of the edges between the two sides of vertex[n] */
static int64_t cut_of(const work_t * w, const int vertex[], int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        if (w->side[vertex[i]] != 0)
            continue;
        for (int64_t e = w->graph->first[vertex[i]]; e < w->graph->first[vertex[i] + 1]; e++) {
            if (w->side[w->graph->to[e]] == 1)
                sum += weight_of(w->graph, e);
        }
    }
    return sum;
}

/* Set order[n] to the vertices, sorted by one coordinate. */
static void order_by_dim(work_t * w, const int vertex[], int n, int dim)
{
    int stride = 1;

    for (int d = w->graph->num_dims - 1; d > dim; d--)
        stride *= w->graph->dims[d];
    for (int i = 0; i < n; i++)
        w->key[i] = vertex[i] / stride % w->graph->dims[dim];
    MPII_Topo_sort(n, w->key, w->graph->dims[dim], w->first, w->order);
    for (int i = 0; i < n; i++)
        w->order[i] = vertex[w->order[i]];
}

/* Set order[n] to the vertices, in the order of a breadth-first search. All must be on side 0. The
 * search begins at `start`, and again at the lowest vertex that it has not reached. */
static void search(work_t * w, const int vertex[], int n, int start)
{
    int num = 0, next = 0;

    w->side[start] = 1;
    w->order[num++] = start;
    for (int i = 0; i < n; i++) {
        if (i == num) {
            while (w->side[vertex[next]] != 0)
                next++;
            w->side[vertex[next]] = 1;
            w->order[num++] = vertex[next];
        }
        int v = w->order[i];
        for (int64_t e = w->graph->first[v]; e < w->graph->first[v + 1]; e++) {
            if (w->side[w->graph->to[e]] == 0) {
                w->side[w->graph->to[e]] = 1;
                w->order[num++] = w->graph->to[e];
            }
        }
    }
    for (int i = 0; i < n; i++)
        w->side[vertex[i]] = 0;
}

/* Put the first num vertices of order[n] on side 0, and the others on side 1. */
static void set_sides(work_t * w, int n, int num)
{
    for (int i = 0; i < n; i++)
        w->side[w->order[i]] = i >= num;
}

static void move_vertex(work_t * w, int v)
{
    const MPII_Topo_graph_t *g = w->graph;

    w->side[v] = !w->side[v];
    w->gain[v] = -w->gain[v];
    for (int64_t e = g->first[v]; e < g->first[v + 1]; e++) {
        int other = g->to[e];
        if (w->side[other] != OUTSIDE)
            w->gain[other] += (w->side[other] == w->side[v] ? -2 : 2) * weight_of(g, e);
    }
}

/* The vertex of a side that gains most if it is swapped with the vertex to which near[] belongs;
 * -1: no vertex is free */
static int best_of_side(const work_t * w, const int vertex[], int n, int side)
{
    int best = -1;

    for (int i = 0; i < n; i++) {
        int v = vertex[i];
        if (w->side[v] == side && !w->is_locked[v] &&
            (best == -1 || w->gain[v] - 2 * w->near[v] > w->gain[best] - 2 * w->near[best]))
            best = v;
    }
    return best;
}

/* One pass of Kernighan and Lin. Returns the weight that the cut has lost. */
static int64_t improve(work_t * w, const int vertex[], int n)
{
    const MPII_Topo_graph_t *g = w->graph;
    int64_t sum = 0, most = 0;
    int num = 0, num_best = 0;

    for (int i = 0; i < n; i++) {
        int v = vertex[i];
        w->gain[v] = w->near[v] = w->is_locked[v] = 0;
        for (int64_t e = g->first[v]; e < g->first[v + 1]; e++) {
            if (w->side[g->to[e]] != OUTSIDE)
                w->gain[v] += (w->side[g->to[e]] == w->side[v] ? -1 : 1) * weight_of(g, e);
        }
    }
    while (num - num_best < MAX_PATIENCE) {
        int a = best_of_side(w, vertex, n, 0), b = -1;
        if (a != -1) {
            for (int64_t e = g->first[a]; e < g->first[a + 1]; e++)
                w->near[g->to[e]] += weight_of(g, e);
            b = best_of_side(w, vertex, n, 1);
        }
        if (b == -1)
            break;              /* the next pass sets near[] to 0 */
        sum += w->gain[a] + w->gain[b] - 2 * w->near[b];
        for (int64_t e = g->first[a]; e < g->first[a + 1]; e++)
            w->near[g->to[e]] = 0;
        move_vertex(w, a);
        move_vertex(w, b);
        w->is_locked[a] = w->is_locked[b] = 1;
        w->swaps[2 * num] = a;
        w->swaps[2 * num + 1] = b;
        num++;
        if (sum > most) {
            most = sum;
            num_best = num;
        }
    }
    for (int i = 2 * num_best; i < 2 * num; i++)
        w->side[w->swaps[i]] = !w->side[w->swaps[i]];
    return most;
}

/* Split vertex[n] into the first num and the other n - num vertices. Both parts keep the order that
 * they had. */
static void split(work_t * w, int vertex[], int n, int num)
{
    int64_t least = -1;
    int num_orders = w->graph->num_dims ? w->graph->num_dims : 2;

    for (int i = 0; i < n; i++)
        w->side[vertex[i]] = 0;
    for (int i = 0; i < num_orders; i++) {
        if (w->graph->num_dims) {
            order_by_dim(w, vertex, n, i);
        } else if (i == 0) {    /* in the order of the application's ranks */
            memcpy(w->order, vertex, n * sizeof(int));
        } else {                /* by a search from a vertex that is far from vertex[0] */
            search(w, vertex, n, vertex[0]);
            search(w, vertex, n, w->order[n - 1]);
        }
        set_sides(w, n, num);
        for (int pass = 0; pass < MAX_PASSES && improve(w, vertex, n) > 0; pass++);
        int64_t cut = cut_of(w, vertex, n);
        if (least == -1 || cut < least) {
            least = cut;
            for (int k = 0; k < n; k++)
                w->best[k] = w->side[vertex[k]];
        }
        for (int k = 0; k < n; k++)
            w->side[vertex[k]] = 0;
    }
    MPII_Topo_sort(n, w->best, 2, w->first, w->order);
    for (int i = 0; i < n; i++)
        w->side[vertex[i]] = OUTSIDE;
    for (int i = 0; i < n; i++)
        w->order[i] = vertex[w->order[i]];
    memcpy(vertex, w->order, n * sizeof(int));
}

/* Assign vertices to the ranks of one host. A rank keeps its own vertex if the host has it. */
static void fill_host(work_t * w, int begin, int end)
{
    int free = begin, next = begin;

    for (int i = begin; i < end; i++)
        w->side[w->vertices[i]] = 0;
    for (int i = begin; i < end; i++) {
        int rank = w->ranks[i];
        w->result[rank] = w->side[rank] == 0 ? rank : -1;
        if (w->result[rank] != -1)
            w->side[rank] = 1;
    }
    for (; free < end; free++) {
        int v = w->vertices[free];
        if (w->side[v] == 0) {
            while (w->result[w->ranks[next]] != -1)
                next++;
            w->result[w->ranks[next]] = v;
        }
        w->side[v] = OUTSIDE;
    }
}

/* Assign vertices[begin ... end - 1] to ranks[begin ... end - 1]. */
static void descend(work_t * w, int begin, int end)
{
    int level = w->num_levels - 1, middle = begin;

    while (level >= 0 && group_of(w->place, w->ranks[begin], level) ==
           group_of(w->place, w->ranks[end - 1], level))
        level--;
    if (level < 0) {
        fill_host(w, begin, end);
        return;
    }
    for (int i = begin + 1; i < end; i++) {
        if (group_of(w->place, w->ranks[i - 1], level) != group_of(w->place, w->ranks[i], level) &&
            (middle == begin || abs(2 * i - begin - end) < abs(2 * middle - begin - end)))
            middle = i;
    }
    split(w, w->vertices + begin, end - begin, middle - begin);
    descend(w, begin, middle);
    descend(w, middle, end);
}

/* -- the whole -- */

int MPII_Topo_cut(const MPII_Topo_place_t * place, const MPII_Topo_graph_t * graph,
                  const int vertex[], MPII_Topo_cut_t * cut)
{
    int *rank_of = MPL_malloc((graph->num + 1) * sizeof(int), MPL_MEM_COLL);

    memset(cut, 0, sizeof(*cut));
    if (rank_of == NULL)
        return -1;
    for (int i = 0; i < graph->num; i++)
        rank_of[vertex[i]] = i;
    for (int v = 0; v < graph->num; v++) {
        for (int64_t e = graph->first[v]; e < graph->first[v + 1]; e++) {
            if (graph->to[e] > v)
                continue;       /* counted at the other vertex */
            for (int level = 0; level < place->num_above + 2; level++) {
                if (group_of(place, rank_of[v], level) ==
                    group_of(place, rank_of[graph->to[e]], level))
                    break;
                *(level == 0 ? &cut->hosts : level == 1 ? &cut->racks : &cut->above[level - 2]) +=
                    weight_of(graph, e);
            }
        }
    }
    MPL_free(rank_of);
    return 0;
}

/* Sum over the levels of the mean time of a link. Unit: time of weight 1 on the link of a host */
static double time_of(const MPII_Topo_place_t * place, const MPII_Topo_cut_t * cut)
{
    double uplink = place->uplink_percent > 0 ? place->uplink_percent / 100. : 1;
    double sum = (double) cut->hosts / place->num_hosts +
        uplink * (double) cut->racks / place->num_racks;

    for (int i = 0; i < place->num_above; i++)
        sum += uplink * (double) cut->above[i] / place->above[i].num;
    return sum;
}

/* Set ranks[], sorted by their groups at the highest level, then at the next lower level, and so
 * on. */
static void sort_ranks(work_t * w)
{
    int n = w->graph->num;

    for (int i = 0; i < n; i++)
        w->ranks[i] = i;
    for (int level = 0; level < w->num_levels; level++) {
        for (int i = 0; i < n; i++)
            w->key[i] = group_of(w->place, w->ranks[i], level);
        MPII_Topo_sort(n, w->key, num_groups(w->place, level), w->first, w->order);
        for (int i = 0; i < n; i++)
            w->order[i] = w->ranks[w->order[i]];
        memcpy(w->ranks, w->order, n * sizeof(int));
    }
}

int MPII_Topo_reorder(const MPII_Topo_place_t * place, const MPII_Topo_graph_t * graph,
                      int vertex[])
{
    size_t n = graph->num;
    /* a sort needs room for the groups of a level, and for the coordinates of a dimension */
    size_t room = n + place->num_ranks + 2;
    work_t w = {.place = place,.graph = graph,.num_levels = place->num_above + 2 };
    int64_t *longs = MPL_calloc(2 * (n + 1), sizeof(int64_t), MPL_MEM_COLL);
    int *ints = MPL_malloc(NUM_INTS * room * sizeof(int), MPL_MEM_COLL);
    char *chars = MPL_malloc(2 * (n + 1), MPL_MEM_COLL);
    MPII_Topo_cut_t old, new;
    int ret = -1;

    if (longs == NULL || ints == NULL || chars == NULL)
        goto fn_exit;
    w.gain = longs;
    w.near = longs + n;
    w.side = chars;
    w.is_locked = chars + n;
    memset(w.side, OUTSIDE, n);
    int **arrays[NUM_INTS] = { &w.ranks, &w.vertices, &w.result, &w.best, &w.order, &w.key,
        &w.first, &w.swaps
    };
    for (int i = 0; i < NUM_INTS; i++)
        *arrays[i] = ints + i * room;

    for (int i = 0; i < graph->num; i++)
        vertex[i] = w.vertices[i] = i;
    sort_ranks(&w);
    if (n > 0)
        descend(&w, 0, graph->num);
    ret = MPII_Topo_cut(place, graph, vertex, &old);
    if (ret == 0)
        ret = MPII_Topo_cut(place, graph, w.result, &new);
    if (ret == 0 && time_of(place, &new) < time_of(place, &old))
        memcpy(vertex, w.result, n * sizeof(int));

  fn_exit:
    MPL_free(longs);
    MPL_free(ints);
    MPL_free(chars);
    return ret;
}
