/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpl.h"
#include "topo_gen.h"

/* The steps of a short schedule as a list
 *
 * A generator computes peers and slots in each call, although they depend only on the communicator,
 * the algorithm and the root. This takes nearly as long as a short message. So the steps of a rank
 * are stored once, in the order in which an executor runs them: first the receives that need not
 * wait, then the rounds. A receive that has to wait for sends is stored before the round that
 * handles its message, and so are all later receives. */

typedef MPII_Topo_gen_list_t list_t;

static int rack_of(const MPII_Topo_gen_t * gen, int rank)
{
    const MPII_Topo_order_t *order = gen->order;
    return MPII_Topo_order_rack(order, rank);
}

static bool add(list_t * list, const MPII_Topo_step_t * step, int round, int index)
{
    MPII_Topo_listed_t *listed = &list->steps[list->num_steps];

    if (list->num_steps == MPII_TOPO_LIST_STEPS || step->sorted)
        return false;
    *listed = (MPII_Topo_listed_t) {
    .step = *step,.round = round,.index = index};
    list->num_steps++;
    if (step->kind == MPII_TOPO_STEP__SEND && step->num > 0) {
        list->num_sends++;
        list->num_rack_messages +=
            rack_of(&list->gen, step->peer) != rack_of(&list->gen, list->gen.rank);
    }
    if (step->buf == MPII_TOPO_BUF__TMP)
        list->gen.num_slots = MPL_MAX(list->gen.num_slots, step->slot + MPL_MAX(step->num, 1));
    return true;
}

/* Fill a list. Returns false if there are too many steps. */
static bool fill(list_t * list, const MPII_Topo_gen_t * gen)
{
    int asked = 0, at[MPII_TOPO_LIST_RECVS];
    bool waits = false;
    MPII_Topo_step_t step;

    if (gen->num_recvs > MPII_TOPO_LIST_RECVS)
        return false;
    for (int round = 0; round <= gen->num_recvs; round++) {
        for (; asked < gen->num_recvs && (!waits || asked < round); asked++) {
            if (!gen->recv(gen, asked, &step))
                step = (MPII_Topo_step_t) {
                .kind = MPII_TOPO_STEP__RECV};
            waits = waits || step.after > 0;
            if (waits && asked >= round)
                break;
            at[asked] = list->num_steps;
            if (!add(list, &step, waits ? asked : 0, asked))
                return false;
        }
        for (int k = 0; gen->react(gen, round, k, &step); k++) {
            if (round > 0 && k == 0)
                list->steps[at[round - 1]].next = list->num_steps;
            if (!add(list, &step, round, k))
                return false;
            if (step.is_last)
                break;
        }
    }
    return gen->max_sends == 0 || list->num_sends <= gen->max_sends;
}

MPII_Topo_gen_list_t *MPII_Topo_gen_list(const MPII_Topo_gen_t * gen)
{
    list_t list = {
        .gen = {.order = gen->order,.rank = gen->rank,.num_recvs = gen->num_recvs,.is_list = true},
    };
    list_t *kept;
    size_t size;

    if (!fill(&list, gen))
        list.num_steps = -1;
    size = offsetof(list_t, steps) + MPL_MAX(list.num_steps, 0) * sizeof(list.steps[0]);
    kept = MPL_malloc(size, MPL_MEM_COLL);
    if (kept)
        memcpy(kept, &list, size);
    return kept;
}
