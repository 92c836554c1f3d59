/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Schedules with one step changed, to see that the proof finds that. */

#ifndef GEN_CHANGES_H_INCLUDED
#define GEN_CHANGES_H_INCLUDED

#include "gen_run.h"

/* ---------------------------------------------------------------- changed schedules */

typedef enum {
    CHANGE__DROP,
    CHANGE__TWICE,
    CHANGE__SWAP,               /* with the next one */
    CHANGE__EARLY,              /* at the end of the round before */
    CHANGE__PEER,
    CHANGE__UNIT,               /* the next one */
    CHANGE__FEWER,              /* units: all but the last one */
    CHANGE__BUF,
    CHANGE__FROM,
    CHANGE__SLOT,
    CHANGE__FROM_SLOT,
    CHANGE__AFTER,              /* one less */
    CHANGE__NEVER_AFTER,
    CHANGE__COPY,               /* a reduction */
    CHANGE__OPERANDS,           /* of a reduction: the result is where the other one was */
    CHANGE__END
} change_t;

static const char *const changes[] = {
    "drop", "twice", "swap", "early", "peer", "unit", "fewer", "buf", "from", "slot", "from slot",
    "after", "never after", "copy", "operands"
};

static bool inner_step(const probe_t * probe, int i, int k, MPII_Topo_step_t * step)
{
    const MPII_Topo_gen_t *gen = &probe->inner.u.gen;
    return k == -1 ? gen->recv(gen, i, step) : gen->react(gen, i, k, step);
}

/* Change what a step says. Returns whether that is another step. */
static bool change_step(const probe_t * probe, change_t change, MPII_Topo_step_t * step)
{
    bool is_message = step->kind == MPII_TOPO_STEP__RECV || step->kind == MPII_TOPO_STEP__SEND;
    int num_slots = probe->gen.num_slots, p = probe->c->p;

    switch (change) {
        case CHANGE__PEER:
            do
                step->peer = (step->peer + 1) % p;
            while (step->peer == probe->gen.rank);
            return is_message && p > 2;
        case CHANGE__UNIT:
            step->unit = (step->unit + 1) % (probe->c->num_units - step->num + 1);
            return step->num < probe->c->num_units;
        case CHANGE__FEWER:
            return --step->num > 0;
        case CHANGE__BUF:
            step->buf = step->buf == MPII_TOPO_BUF__OUT ? MPII_TOPO_BUF__TMP : MPII_TOPO_BUF__OUT;
            return step->buf == MPII_TOPO_BUF__OUT || num_slots > 0;
        case CHANGE__FROM:
            step->from = step->from == MPII_TOPO_BUF__OUT ? MPII_TOPO_BUF__TMP : MPII_TOPO_BUF__OUT;
            return !is_message && (step->from == MPII_TOPO_BUF__OUT || num_slots > 0);
        case CHANGE__SLOT:
            if (num_slots > step->num)
                step->slot = (step->slot + 1) % (num_slots - step->num + 1);
            return step->buf == MPII_TOPO_BUF__TMP && num_slots > step->num;
        case CHANGE__FROM_SLOT:
            if (num_slots > step->num)
                step->from_slot = (step->from_slot + 1) % (num_slots - step->num + 1);
            return !is_message && step->from == MPII_TOPO_BUF__TMP && num_slots > step->num;
        case CHANGE__AFTER:
            return step->after-- > 0;
        case CHANGE__NEVER_AFTER:
            if (step->after <= 1)
                return false;
            step->after = 0;
            return true;
        case CHANGE__COPY:
            if (step->kind != MPII_TOPO_STEP__REDUCE)
                return false;
            step->kind = MPII_TOPO_STEP__COPY;
            return true;
        case CHANGE__OPERANDS:
            if (step->kind != MPII_TOPO_STEP__REDUCE || step->from == MPII_TOPO_BUF__IN)
                return false;
            MPII_Topo_step_t old = *step;
            step->buf = old.from;
            step->slot = old.from_slot;
            step->from = old.buf;
            step->from_slot = old.slot;
            return true;
        default:
            return false;
    }
}

/* Whether it made no difference each time: what a copy to TMP no longer copies, its last unit, was
 * there; or where a step takes units from instead, the same is */
static bool was_there;

static void compare(const probe_t * probe, int unit, int num, MPII_Topo_buf_t a, int a_slot,
                    MPII_Topo_buf_t b, int b_slot)
{
    const exec_t *e = &ranks[probe->gen.rank].exec;
    MPI_Aint first, count;

    MPII_Topo_data_find(e->data, unit, num, &first, &count);
    const cell_t *x = (cell_t *) address(e, a, a_slot, first);
    const cell_t *y = (cell_t *) address(e, b, b_slot, first);
    for (int n = 0; n < count; n++)
        was_there &= x[n].symbol == y[n].symbol;
}

static void look_whether_there(const probe_t * probe, change_t change,
                               const MPII_Topo_step_t * step, const MPII_Topo_step_t * old)
{
    int num = step->num;

    if (change == CHANGE__FROM && ranks[probe->gen.rank].out == NULL)
        was_there = false;
    else if (change == CHANGE__FROM)
        compare(probe, step->unit, num, step->from, step->from_slot, old->from, old->from_slot);
    else if (step->kind != MPII_TOPO_STEP__COPY || step->buf != MPII_TOPO_BUF__TMP || step->sorted)
        was_there = false;
    else
        compare(probe, step->unit + num, 1, step->from, step->from_slot + num, step->buf,
                step->slot + num);
}

static bool mutate(const probe_t * probe, int i, int k, MPII_Topo_step_t * step)
{
    const mutation_t *m = probe->mutation;
    bool is_here = i == m->i && k >= m->k && (k == -1) == (m->k == -1);
    int next_i = m->k == -1 ? i + 1 : i, next_k = m->k == -1 ? -1 : k + 1;

    switch (m->kind) {
        case CHANGE__DROP:
            return is_here && k == -1 ? false : inner_step(probe, i, k + is_here, step);
        case CHANGE__TWICE:
            return inner_step(probe, i, is_here && k > m->k ? k - 1 : k, step);
        case CHANGE__SWAP:
            if (is_here && k == m->k)
                return inner_step(probe, next_i, next_k, step);
            if (m->k == -1 ? k == -1 && i == m->i + 1 : i == m->i && k == m->k + 1)
                return inner_step(probe, m->i, m->k, step);
            return inner_step(probe, i, k, step);
        case CHANGE__EARLY:
            if (i == m->i - 1 && k == m->arg)
                return inner_step(probe, m->i, m->k, step);
            return inner_step(probe, i, k + is_here, step);
        default:
            if (!inner_step(probe, i, k, step))
                return false;
            if (is_here && k == m->k) {
                MPII_Topo_step_t old = *step;
                change_step(probe, m->kind, step);
                if (m->kind == CHANGE__FEWER || m->kind == CHANGE__FROM)
                    look_whether_there(probe, m->kind, step, &old);
            }
            return true;
    }
}

static struct {
    int num, num_caught, num_equal;
} tally[CHANGE__END];
static int num_open;

/* Why changes that are not caught are right */
static struct {
    const char *why;
    int num;
} reasons[16];

static void count_reason(const char *why)
{
    int i = 0;

    while (reasons[i].why && strcmp(reasons[i].why, why))
        i++;
    reasons[i].why = why;
    reasons[i].num++;
}

/* Where a step's units are in TMP, in elements */
static int tmp_offset(const probe_t * probe, int slot)
{
    return MPII_Topo_data_slot(&ranks[probe->gen.rank].data, slot);
}

/* Whether steps x and y have elements in common, where they have them in buffers a and b */
static bool is_same_place(const probe_t * probe, MPII_Topo_buf_t a, int a_slot,
                          const MPII_Topo_step_t * x, MPII_Topo_buf_t b, int b_slot,
                          const MPII_Topo_step_t * y)
{
    const case_t *c = probe->c;
    int x_begin = c->cells_before[x->unit], x_len = c->cells_before[x->unit + x->num] - x_begin;
    int y_begin = c->cells_before[y->unit], y_len = c->cells_before[y->unit + y->num] - y_begin;

    if ((a == MPII_TOPO_BUF__TMP) != (b == MPII_TOPO_BUF__TMP) || (a != b && !c->in_place))
        return false;
    if (a == MPII_TOPO_BUF__TMP) {
        x_begin = tmp_offset(probe, a_slot);
        y_begin = tmp_offset(probe, b_slot);
    }
    return x_len > 0 && y_len > 0 && x_begin < y_begin + y_len && y_begin < x_begin + x_len;
}

static bool is_local(const MPII_Topo_step_t * step)
{
    return step->kind == MPII_TOPO_STEP__COPY || step->kind == MPII_TOPO_STEP__REDUCE;
}

static bool is_in_tmp(const MPII_Topo_step_t * step)
{
    return step->buf == MPII_TOPO_BUF__TMP;
}

static bool is_from_tmp(const MPII_Topo_step_t * step)
{
    return step->from == MPII_TOPO_BUF__TMP;
}

/* Whether step x uses what y writes */
static bool uses(const probe_t * probe, const MPII_Topo_step_t * x, const MPII_Topo_step_t * y)
{
    return y->kind != MPII_TOPO_STEP__SEND &&
        (is_same_place(probe, x->buf, x->slot, x, y->buf, y->slot, y) ||
         (is_local(x) && is_same_place(probe, x->from, x->from_slot, x, y->buf, y->slot, y)));
}

static bool is_one_after_the_other(const probe_t * probe, const MPII_Topo_step_t * x,
                                   const MPII_Topo_step_t * y)
{
    bool are_messages = !is_local(x) && !is_local(y) &&
        num_cells_of(probe->c, x->unit, x->num) > 0 && num_cells_of(probe->c, y->unit, y->num) > 0;

    return uses(probe, x, y) || uses(probe, y, x) || (are_messages && x->peer == y->peer);
}

/* What a step has to wait for: as `after` says it. Message i (k = -1), or step k of round i */
static int needs_after(const probe_t * probe, int i, int k, const MPII_Topo_step_t * step)
{
    MPII_Topo_step_t other;
    int after = 0;

    for (int round = 0; round <= i; round++)
        for (int j = 0; (k == -1 || round < i || j < k) && inner_step(probe, round, j, &other); j++)
            /* local steps are over, in order; but a message may come before the round, if not
             * before it is asked for */
            if ((other.kind == MPII_TOPO_STEP__SEND ||
                 (k == -1 && round > i + 1 - MPII_TOPO_EXEC_WINDOW)) &&
                uses(probe, &other, step))
                after = round + 1;
    return after;
}

/* For how long it waits anyway, since what comes before it does */
static int waits_anyway(const probe_t * probe, int i, int k)
{
    MPII_Topo_step_t other;
    int after = 0;

    for (int j = 0; j < i && k == -1; j++)
        if (inner_step(probe, j, -1, &other))
            after = MPL_MAX(after, other.after);
    for (int round = 0; round <= i && k >= 0; round++)
        for (int j = 0; (round < i || j < k) && inner_step(probe, round, j, &other); j++)
            after = MPL_MAX(after, MPL_MIN(other.after, round));
    return after;
}

static bool are_same_elements(const case_t * c, const MPII_Topo_step_t * x,
                              const MPII_Topo_step_t * y)
{
    return c->cells_before[x->unit] == c->cells_before[y->unit] &&
        num_cells_of(c, x->unit, x->num) == num_cells_of(c, y->unit, y->num);
}

/* Why a changed schedule is as right as the one it was made of, or NULL */
static const char *why_equal(const probe_t * probe, const mutation_t * m,
                             const MPII_Topo_step_t * step, const MPII_Topo_step_t * next)
{
    const case_t *c = probe->c;
    MPII_Topo_step_t other, changed = *step;
    int i = m->i;

    change_step(probe, m->kind, &changed);
    switch (m->kind) {
        case CHANGE__SWAP:
            if (m->k >= 0)
                return is_one_after_the_other(probe, step, next) ? NULL :
                    "two steps that have nothing to do with each other";
            for (int k = 0; inner_step(probe, i + 1, k, &other); k++)
                if (uses(probe, &other, step))
                    return NULL;
            return step->peer == next->peer ? NULL :
                "messages of different ranks, and nothing is done with the first one alone";
        case CHANGE__EARLY:
            if (inner_step(probe, i - 1, -1, &other) && uses(probe, step, &other))
                return NULL;
            for (int k = 0; k < m->k && inner_step(probe, i, k, &other); k++)
                if (is_one_after_the_other(probe, step, &other))
                    return NULL;
            return "the step does not need what comes between";
        case CHANGE__TWICE:
            return step->kind == MPII_TOPO_STEP__COPY ? "the same copy again" : NULL;
        case CHANGE__FROM:
            if (was_there)
                return "the same was there";
            /* fall through */
        case CHANGE__BUF:
            return c->in_place && is_in_tmp(step) == is_in_tmp(&changed) &&
                is_from_tmp(step) == is_from_tmp(&changed) ? "IN is OUT" : NULL;
        case CHANGE__UNIT:
            if (is_local(step) && is_in_tmp(step) && is_from_tmp(step) &&
                num_cells_of(c, step->unit, step->num) ==
                num_cells_of(c, changed.unit, changed.num))
                return "in TMP, and as many elements";
            return are_same_elements(c, step, &changed) ? "the units that differ are empty" : NULL;
        case CHANGE__FEWER:
            if (was_there)
                return "what is no longer copied was there";
            return are_same_elements(c, step, &changed) ? "the units that differ are empty" : NULL;
        case CHANGE__SLOT:
            return tmp_offset(probe, step->slot) == tmp_offset(probe, changed.slot) ?
                "the slot has no length" : NULL;
        case CHANGE__FROM_SLOT:
            return tmp_offset(probe, step->from_slot) == tmp_offset(probe, changed.from_slot) ?
                "the slot has no length" : NULL;
        case CHANGE__AFTER:
        case CHANGE__NEVER_AFTER:
            return MPL_MAX(changed.after, waits_anyway(probe, i, m->k)) >=
                needs_after(probe, i, m->k, step) ? "that is as long as it needs to wait" : NULL;
        default:
            return NULL;
    }
}

static void try_change(const case_t * c, const probe_t * probe, mutation_t m)
{
    MPII_Topo_step_t step, next = { 0 }, changed;
    outcome_t outcome;
    bool is_recv = m.k == -1, is_caught = false;

    if (!inner_step(probe, m.i, m.k, &step) || num_cells_of(c, step.unit, step.num) == 0)
        return;
    if (m.kind == CHANGE__SWAP) {
        if (is_recv ? m.i + 1 >= probe->gen.num_recvs || !inner_step(probe, m.i + 1, -1, &next) :
            !inner_step(probe, m.i, m.k + 1, &next))
            return;
        if (num_cells_of(c, next.unit, next.num) == 0)
            return;
    } else if (m.kind == CHANGE__EARLY) {
        if (is_recv || m.i == 0)
            return;
        for (m.arg = 0; inner_step(probe, m.i - 1, m.arg, &changed);)
            m.arg++;
    } else if (m.kind == CHANGE__TWICE) {
        if (is_recv)
            return;
    } else if (m.kind != CHANGE__DROP) {
        changed = step;
        if (!change_step(probe, m.kind, &changed))
            return;
    }
    if (!is_taken(2))
        return;
    tally[m.kind].num++;
    was_there = m.kind == CHANGE__FEWER || m.kind == CHANGE__FROM;
    for (int i = 0; i < NUM_SCHEDULES && !is_caught; i++)
        is_caught = !run_case(c, &schedules[i], &m, &outcome);
    tally[m.kind].num_caught += is_caught;
    const char *why = why_equal(probe, &m, &step, &next);
    if (!is_caught && why) {
        tally[m.kind].num_equal++;
        count_reason(why);
    }
    if (!is_caught && !why) {
        static const char *const kinds[] = { "send", "recv", "copy", "reduce" };
        num_open++;
        printf("not caught: %s, %d ranks, placement %d, root %d, %d units%s: rank %d, %s %d",
               c->family->name, c->p, c->shape, c->root, c->units, c->in_place ? ", in place" : "",
               m.rank, is_recv ? "message" : "round", m.i);
        if (!is_recv)
            printf(" step %d", m.k);
        printf(" (%s, peer %d, unit %d, after %d): %s\n", kinds[step.kind], step.peer, step.unit,
               step.after, changes[m.kind]);
    }
}

static void mutate_family(const family_t * family)
{
    static const struct {
        int p, shape, root;
    } places[] = { {6, 4, 1}, {7, 6, 3}, {5, 1, 2}, {9, 10, 4}, {7, 14, 4} };
    case_t c = {.family = family };

    for (int i = 0; i < (int) (sizeof(places) / sizeof(places[0])); i++) {
        for (int in_place = 0; in_place <= family->collective->has_in_place; in_place++) {
            set_place(&c, places[i].shape, places[i].p);
            c.layout = i % 2 ? LAYOUT__UNEQUAL : LAYOUT__PLAIN;
            c.root = family->collective->has_root ? places[i].root : 0;
            c.units = family->has_units ? 5 : 1;
            c.in_place = in_place;
            case_t one = c;
            family->prepare(&one);
            for (int rank = 0; rank < c.p; rank++) {
                probe_t probe = {.c = &one };
                ranks[rank].data = one.data;
                family->setup(&probe.inner, &one, rank);
                probe.gen = probe.inner.u.gen;
                for (int kind = 0; kind < CHANGE__END; kind++) {
                    MPII_Topo_step_t step;
                    for (int m = 0; m < probe.gen.num_recvs; m++)
                        try_change(&one, &probe, (mutation_t) {kind, rank, m, -1, 0});
                    for (int round = 0; round <= probe.gen.num_recvs; round++)
                        for (int k = 0; inner_step(&probe, round, k, &step); k++)
                            try_change(&one, &probe, (mutation_t) {kind, rank, round, k, 0});
                }
            }
        }
    }
}

#endif /* GEN_CHANGES_H_INCLUDED */
