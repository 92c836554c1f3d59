/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Links that messages share fairly, as TCP connections do. A message is a flow over all links of
 * its route. The flows of a link get equal parts of its rate; what a flow cannot take, because
 * another link limits it, goes to the other flows (max-min fairness). A pair of ranks has one
 * connection, which carries one message after the other.
 *
 * Rates are computed again whenever a flow begins or ends. This costs links times flows each time,
 * so it is for hundreds of ranks.
 */

#include "sim.h"
#include <math.h>

#define MAX_LINKS (2 * MAX_LEVELS)

typedef struct {
    int id, from, to;
    double left, bytes, rate;   /* rate 0: not computed yet */
    int num_links;
    link_t *links[MAX_LINKS];
} flow_t;

struct fair {
    flow_t *flows;              /* active flows, then those that wait for their connection, in
                                 * order */
    int num_active, num, room;
    double now, next;           /* next: when the next flow ends */
    bool is_known;              /* whether rates and `next` are up to date */
};

fair_t *fair_create(void)
{
    return get_memory(1, sizeof(fair_t));
}

void fair_free(fair_t * f)
{
    if (f)
        free(f->flows);
    free(f);
}

static bool has_connection(const fair_t * f, const flow_t * flow)
{
    for (int i = 0; i < f->num_active; i++)
        if (f->flows[i].from == flow->from && f->flows[i].to == flow->to)
            return false;
    return true;
}

static void advance(fair_t * f, double time)
{
    for (int i = 0; i < f->num_active; i++)
        f->flows[i].left -= f->flows[i].rate * (time - f->now);
    f->now = time;
}

/* Repeatedly take the link that gives each of its flows the least. It fixes the rates of these
 * flows. */
static void find_rates(fair_t * f)
{
    int num_open = f->num_active;

    for (int i = 0; i < f->num_active; i++) {
        flow_t *flow = &f->flows[i];
        flow->rate = 0;
        for (int k = 0; k < flow->num_links; k++) {
            flow->links[k]->num_flows = 0;
            flow->links[k]->rate_left = 1 / flow->links[k]->per_byte;
        }
    }
    for (int i = 0; i < f->num_active; i++)
        for (int k = 0; k < f->flows[i].num_links; k++)
            f->flows[i].links[k]->num_flows++;
    while (num_open > 0) {
        const link_t *tight = NULL;
        double rate = INFINITY;
        for (int i = 0; i < f->num_active; i++) {
            for (int k = 0; f->flows[i].rate == 0 && k < f->flows[i].num_links; k++) {
                const link_t *link = f->flows[i].links[k];
                if (tight == NULL || link->rate_left / link->num_flows < rate) {
                    tight = link;
                    rate = link->rate_left / link->num_flows;
                }
            }
        }
        for (int i = 0; i < f->num_active; i++) {
            flow_t *flow = &f->flows[i];
            bool is_here = false;
            for (int k = 0; flow->rate == 0 && k < flow->num_links; k++)
                is_here |= flow->links[k] == tight;
            if (!is_here)
                continue;
            flow->rate = rate;
            num_open--;
            for (int k = 0; k < flow->num_links; k++) {
                flow->links[k]->rate_left = MPL_MAX(flow->links[k]->rate_left - rate, 0);
                flow->links[k]->num_flows--;
            }
        }
    }
}

void fair_add(fair_t * f, double time, int id, int from, int to, double bytes, link_t * links[],
              int num_links)
{
    flow_t flow = {.id = id,.from = from,.to = to,.left = bytes,.bytes = bytes,.num_links = num_links };

    if (f->num == f->room)
        f->flows = get_more(f->flows, &f->room, sizeof(flow_t));
    memcpy(flow.links, links, num_links * sizeof(links[0]));
    advance(f, time);
    if (has_connection(f, &flow)) {
        memmove(f->flows + f->num_active + 1, f->flows + f->num_active,
                (f->num - f->num_active) * sizeof(flow_t));
        f->flows[f->num_active++] = flow;
        f->is_known = false;
    } else {
        f->flows[f->num] = flow;
    }
    f->num++;
}

double fair_next(fair_t * f)
{
    if (!f->is_known) {
        find_rates(f);
        f->next = INFINITY;
        for (int i = 0; i < f->num_active; i++)
            f->next = MPL_MIN(f->next, f->now + MPL_MAX(f->flows[i].left, 0) / f->flows[i].rate);
        f->is_known = true;
    }
    return f->next;
}

int fair_take(fair_t * f)
{
    int found = 0;

    advance(f, fair_next(f));
    for (int i = 1; i < f->num_active; i++)
        if (f->flows[i].left / f->flows[i].rate < f->flows[found].left / f->flows[found].rate)
            found = i;
    flow_t flow = f->flows[found];
    memmove(f->flows + found, f->flows + found + 1, (f->num - found - 1) * sizeof(flow_t));
    f->num--;
    f->num_active--;
    f->is_known = false;
    for (int i = f->num_active; i < f->num; i++) {
        if (f->flows[i].from != flow.from || f->flows[i].to != flow.to)
            continue;
        flow_t next = f->flows[i];
        memmove(f->flows + f->num_active + 1, f->flows + f->num_active,
                (i - f->num_active) * sizeof(flow_t));
        f->flows[f->num_active++] = next;
        break;
    }
    return flow.id;
}
