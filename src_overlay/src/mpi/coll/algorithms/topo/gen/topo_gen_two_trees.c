/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* Algorithm: Broadcast and reduction along two trees at once, in segments
 *
 * In a binary tree, each inner rank sends each unit to two children, so it sends all bytes twice.
 * Half of the ranks are leaves and send nothing. Here, even units go along tree 0 and odd units
 * along tree 1, and a host that has children in one tree is a leaf of the other tree. So each host
 * receives all bytes once and sends them once, and both directions of its link are busy all the
 * time.
 *
 * Hosts are numbered from the root's host on, in the order of the line (topo_order.h), and round
 * again. Hosts with even numbers have children in tree 0, hosts with odd numbers in tree 1. Each
 * tree is a search tree: smaller numbers are on the left of a host, larger numbers on the right. If
 * several groups (racks, groups of racks, ...) are below a host, its two subtrees are split where a
 * group begins. So few messages pass uplinks: each tree enters a rack once or twice, rarely three
 * times. The first rank of a host acts for it; the other ranks of the host form two such trees
 * below it.
 *
 *   Eight hosts, root on host 0:
 *     tree 0:  0 -> 4, 4 -> 2 6, 2 -> 1 3, 6 -> 5 7
 *     tree 1:  0 -> 5, 5 -> 3 7, 3 -> 1 4, 7 -> 6, 1 -> 2
 *
 * Down (bcast): the root sends unit 0 into tree 0, unit 1 into tree 1, and so on. Up (reduce): the
 * same in the opposite direction.
 *
 * A rank receives its messages in a fixed order. Assume it waits for a unit of the tree in which it
 * is a leaf, and that unit comes late. Then it holds up the tree in which it is near the root, and
 * the latencies of all segments add up. So the order follows the arrival times: a rank first takes
 * some units of the tree in which it is nearer to the root (up: farther from the root), as many as
 * pass in the difference of the arrival times. Then it takes units of both trees in turns. Assuming
 * too large a difference costs nothing, since nobody waits for a leaf. But a hop must be shorter
 * than the window of units that TMP holds for a child. Otherwise two ranks can deadlock: each waits
 * for the other to take a unit of one tree before it sends a unit of the other tree. So a window is
 * two hops (MPII_Topo_window).
 *
 *   Of 12 units, host 4 receives 0 2 4 6 1 8 3 10 5 7 9 11, if a hop takes as long as two units.
 *
 * Cost = n.beta + 1.5.lg(h).(alpha + n/m.beta). h: hosts; m: segments; n: bytes; alpha and beta:
 * latency and time per byte of a host's link. An uplink carries 1 to 2.5 times n bytes each way. If
 * an uplink is slower than two links of hosts, long messages are faster along the chain of
 * topo_gen_tree.c. TMP has a window of units for each child.
 *
 * topo-sim, 8 racks of 16 hosts, 100 Gbit/s, uplinks 400 Gbit/s, 1.3 us, +0.6 us between racks, 1
 * MiB: bcast 111 us, along one binary tree 188 us; reduce 192 us, rack_lanes 255 us. A link needs
 * 84 us, and the reduction of 1 MiB takes 105 us.
 *
 * Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan" (2009) */

#define MAX_SENDS 16

typedef MPII_Topo_gen_two_trees_t two_trees_t;

/* -- hosts by number -- */

static int host_of(const two_trees_t * t, int number)
{
    return (t->root_host + number) % t->gen.order->num_hosts;
}

static int number_of(const two_trees_t * t, int host)
{
    return (host - t->root_host + t->gen.order->num_hosts) % t->gen.order->num_hosts;
}

/* The rank that acts for a host */
static int leader_of(const two_trees_t * t, int number)
{
    const MPII_Topo_order_t *order = t->gen.order;

    return number == 0 ? t->root : order->rank_at[order->first_pos[host_of(t, number)]];
}

/* Hosts begin ... end - 1 are in the same group of a level as host `number`. The hosts of the
 * root's group may be in two ranges: at the start and at the end of all numbers. */
static void find_group(const two_trees_t * t, int level, int number, int *begin, int *end)
{
    const MPII_Topo_order_t *order = t->gen.order;
    int group = host_of(t, number);

    for (int i = 2; i <= level; i++)
        group = order->of[i][group];
    *begin = number_of(t, order->host_at[order->begin[level][group]]);
    *end = number_of(t, order->host_at[order->begin[level][group + 1] - 1]) + 1;
    if (*begin > number)
        *begin = 0;
    if (*end <= number)
        *end = order->num_hosts;
}

/* -- trees: inner nodes of tree 0 are 2, 4, 6 ..., of tree 1 they are 1, 3, 5 ... -- */

/* A node of a tree. Nodes are numbers of hosts, or of ranks in a host; child 0: none; parent 0: the
 * root */
typedef struct {
    int parent, child[2];
    int time;                   /* number of units that leave the root until a unit arrives here */
} node_t;

static int inner_at(int tree, int i)
{
    return 2 * i + 2 - tree;
}

/* Number of inner nodes below a number */
static int num_inner(int tree, int number)
{
    return (number - 1 + tree) / 2;
}

/* The top of the inner nodes first ... end - 1: the middle one. For hosts (are_hosts): if they are
 * in several groups, the first inner node of the group that begins nearest to the middle, for the
 * highest level with several groups. */
static int find_top(const two_trees_t * t, int tree, bool are_hosts, int first, int end)
{
    int middle = first + (end - first) / 2;

    for (int level = t->gen.order->num_levels; are_hosts && level > 1; level--) {
        int begin_of_group, end_of_group;
        if (t->gen.order->num[level] == 1)
            continue;
        find_group(t, level, inner_at(tree, middle), &begin_of_group, &end_of_group);
        int before = num_inner(tree, begin_of_group), behind = num_inner(tree, end_of_group);
        if (before > first && (behind >= end || middle - before <= behind - middle))
            return before;
        if (behind < end)
            return behind;
    }
    return middle;
}

/* Top of a subtree with the inner nodes first ... end - 1, in a tree of num nodes. Without inner
 * nodes the subtree is a leaf; 0: it is empty. */
static int find_child(const two_trees_t * t, int tree, bool are_hosts, int num, int first, int end,
                      int leaf)
{
    if (first < end)
        return inner_at(tree, find_top(t, tree, are_hosts, first, end));
    return leaf < num ? leaf : 0;
}

/* Find a number in a tree of num nodes, which are hosts or the ranks of a host. */
static node_t find_node(const two_trees_t * t, int tree, bool are_hosts, int num, int number,
                        int hop)
{
    int first = 0, end = num_inner(tree, num);
    node_t node = {.time = hop };

    if (number == 0) {
        node.child[0] = find_child(t, tree, are_hosts, num, first, end, 1);
        node.time = 0;
        return node;
    }
    while (first < end) {
        int top = find_top(t, tree, are_hosts, first, end), at = inner_at(tree, top);
        if (at == number) {
            node.child[0] = find_child(t, tree, are_hosts, num, first, top, at - 1);
            node.child[1] = find_child(t, tree, are_hosts, num, top + 1, end, at + 1);
            break;
        }
        node.parent = at;
        node.time += hop + (number > at);
        if (number < at)
            end = top;
        else
            first = top + 1;
    }
    return node;
}

/* -- order of units: `lead` units of tree `ahead`, then alternately one of the other tree and one
 * of this tree -- */

/* How many of the first num units belong to tree `ahead` */
static int count_ahead(const two_trees_t * t, int num)
{
    return num <= t->lead ? num : t->lead + MPL_MIN((num - t->lead) / 2, t->num_turns);
}

static int unit_at(const two_trees_t * t, int place)
{
    int count = count_ahead(t, place);

    return count_ahead(t,
                       place + 1) > count ? 2 * count + t->ahead : 2 * (place - count) + !t->ahead;
}

/* Place of the i-th unit of a tree in this order */
static int place_of(const two_trees_t * t, int tree, int i)
{
    if (tree == t->ahead)
        return i < t->lead ? i : 2 * i + 1 - t->lead;
    return t->lead + i + MPL_MIN(i, t->num_turns);
}

/* Number of messages from or to children, for the first num units */
static int count_messages(const two_trees_t * t, int num)
{
    int count = count_ahead(t, num);

    return count * t->of[t->ahead].num_children + (num - count) * t->of[!t->ahead].num_children;
}

/* Place of the unit of the i-th message from or to children; *index: number of the message among
 * the messages of the unit */
static int find_place(const two_trees_t * t, int i, int *index)
{
    int ahead = t->of[t->ahead].num_children, other = t->of[!t->ahead].num_children, turn =
        ahead + other;
    int place = t->lead;

    if (i < t->lead * ahead) {
        *index = i % ahead;
        return i / ahead;
    }
    i -= t->lead * ahead;
    if (i < t->num_turns * turn) {
        place += i / turn * 2;
        i %= turn;
        *index = i < other ? i : i - other;
        return place + (i >= other);
    }
    i -= t->num_turns * turn;
    *index = i % other;
    return place + 2 * t->num_turns + i / other;
}

/* -- messages -- */

/* Up: TMP has a window of units of each child in tree 0, then the same of tree 1. */
static int find_slot(const two_trees_t * t, int unit)
{
    int tree = unit % 2, first = tree * t->window * t->of[0].num_children;

    return first + unit / 2 % t->window * t->of[tree].num_children;
}

static bool receive(const MPII_Topo_gen_t * gen, int i, MPII_Topo_step_t * step)
{
    const two_trees_t *t = (const two_trees_t *) gen;
    int index, tree;

    *step = (MPII_Topo_step_t) {
    .kind = MPII_TOPO_STEP__RECV,.num = 1};
    if (!t->is_up) {
        step->unit = unit_at(t, i);
        step->peer = t->of[step->unit % 2].parent;
        step->buf = MPII_TOPO_BUF__OUT;
        return true;
    }
    step->unit = unit_at(t, find_place(t, i, &index));
    tree = step->unit % 2;
    step->peer = t->of[tree].child[t->of[tree].num_children - 1 - index];
    step->buf = MPII_TOPO_BUF__TMP;
    step->slot = find_slot(t, step->unit) + index;
    /* the unit before in this slot was sent up in the round after its last message */
    if (step->unit / 2 >= t->window)
        step->after = count_messages(t, place_of(t, tree, step->unit / 2 - t->window) + 1) + 1;
    return true;
}

static bool send_down(const two_trees_t * t, int place, int k, MPII_Topo_step_t * step)
{
    int unit = unit_at(t, place);

    step->kind = MPII_TOPO_STEP__SEND;
    step->unit = unit;
    step->buf = MPII_TOPO_BUF__OUT;
    if (k < t->of[unit % 2].num_children)
        step->peer = t->of[unit % 2].child[k];
    return k < t->of[unit % 2].num_children;
}

/* The k-th unit from a place on that needs no message from a child: send it up. Returns false if
 * there are no more before the next unit that does. */
static bool send_own(const two_trees_t * t, int place, int k, MPII_Topo_step_t * step)
{
    int at = place + k;

    if (t->is_root || at >= t->num_units || count_messages(t, at + 1) > count_messages(t, place))
        return false;
    step->kind = MPII_TOPO_STEP__SEND;
    step->unit = unit_at(t, at);
    step->peer = t->of[step->unit % 2].parent;
    step->buf = MPII_TOPO_BUF__IN;
    return true;
}

/* Add a message of a child. The sum is in the slot of the first child's unit, or at the root in
 * OUT. After the last child, send the sum to the parent. */
static bool add(const two_trees_t * t, int i, int k, MPII_Topo_step_t * step)
{
    int index, place = find_place(t, i - 1, &index), unit = unit_at(t, place);
    int slot = find_slot(t, unit);

    if (k > 0 && (index < t->of[unit % 2].num_children - 1 || t->is_root))
        return false;
    if (k > 1)
        return send_own(t, place + 1, k - 2, step);
    step->unit = unit;
    step->buf = t->is_root ? MPII_TOPO_BUF__OUT : MPII_TOPO_BUF__TMP;
    step->slot = slot;
    if (k == 0) {
        step->kind = MPII_TOPO_STEP__REDUCE;
        step->from = !t->is_root && index == 0 ? MPII_TOPO_BUF__IN : MPII_TOPO_BUF__TMP;
        step->from_slot = slot + index;
    } else {
        step->kind = MPII_TOPO_STEP__SEND;
        step->peer = t->of[unit % 2].parent;
    }
    return true;
}

static bool react(const MPII_Topo_gen_t * gen, int i, int k, MPII_Topo_step_t * step)
{
    const two_trees_t *t = (const two_trees_t *) gen;
    int index, place;

    *step = (MPII_Topo_step_t) {
    .num = 1};
    if (t->is_up)
        return i == 0 ? send_own(t, 0, k, step) : add(t, i, k, step);
    if (i > 0)
        return send_down(t, i - 1, k, step);
    if (!t->is_root || k >= count_messages(t, t->num_units))
        return false;
    place = find_place(t, k, &index);
    return send_down(t, place, index, step);
}

static void set_units(two_trees_t * t, int num_units, int difference)
{
    int num_of[] = { (num_units + 1) / 2, num_units / 2 };

    t->num_units = num_units;
    t->ahead = difference < -1;
    t->lead = MPL_MIN(t->ahead ? -difference / 2 : (difference + 3) / 2, num_of[t->ahead]);
    t->num_turns = num_of[t->ahead] - t->lead;
}

/* Set the place of the rank in a tree. Returns its distance from the root. */
static int set_tree(two_trees_t * t, int tree, int hop)
{
    const MPII_Topo_order_t *order = t->gen.order;
    int pos = order->pos_of[t->gen.rank], host = MPII_Topo_order_host(order, t->gen.rank);
    int begin = order->first_pos[host], num = order->first_pos[host + 1] - begin;
    int leader = leader_of(t, number_of(t, host)), of_leader = order->pos_of[leader] - begin;
    node_t outside = find_node(t, tree, true, order->num_hosts, number_of(t, host), hop);
    node_t inside = find_node(t, tree, false, num, (pos - begin - of_leader + num) % num, hop);

    t->of[tree].parent = t->gen.rank == leader ? leader_of(t, outside.parent) :
        order->rank_at[begin + (of_leader + inside.parent) % num];
    for (int i = 0; i < 2 && t->gen.rank == leader; i++)
        if (outside.child[i] > 0)
            t->of[tree].child[t->of[tree].num_children++] = leader_of(t, outside.child[i]);
    for (int i = 0; i < 2; i++)
        if (inside.child[i] > 0)
            t->of[tree].child[t->of[tree].num_children++] =
                order->rank_at[begin + (of_leader + inside.child[i]) % num];
    return outside.time + inside.time;
}

void MPII_Topo_gen_two_trees(MPII_Topo_gen_two_trees_t * t, const MPII_Topo_order_t * order,
                             int hop, int root, int rank, int num_units, bool is_up)
{
    *t = (two_trees_t) {
        .gen = {.order = order,.rank = rank,.recv = receive,.react = react,.max_sends = MAX_SENDS
    },.root = root,.root_host =
            MPII_Topo_order_host(order, root),.is_root = rank == root,.is_up = is_up,};
    int difference = set_tree(t, 1, hop) - set_tree(t, 0, hop);
    set_units(t, num_units, is_up ? -difference : difference);
    t->window = MPII_Topo_window(hop, 1, (num_units + 1) / 2);
    t->gen.num_recvs = is_up ? count_messages(t, num_units) : t->is_root ? 0 : num_units;
    t->gen.num_slots = is_up ? t->window * (t->of[0].num_children + t->of[1].num_children) : 0;
}
