/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "coll_device.h"
#include "csel_compat.h"

/* ch4 is asked before MPIR selects. If hosts have several ranks, it splits a bcast, reduce,
 * allreduce or barrier by a composition: a part in each host, in the shared memory of posix, and a
 * part between the first ranks of the hosts, for which MPIR selects. It splits a scan as MPIR's smp
 * does, and passes other calls on to MPIR. For bcast, reduce, allreduce and barrier, the first line
 * that applies tells what runs:
 *
 *     what is set                                      what runs
 *     DEVICE_COLLECTIVES=all                           composition
 *     DEVICE_COLLECTIVES=none,                         on all ranks: <COLLECTIVE>_INTRA_ALGORITHM,
 *                                                      or a rule,
 *       or <COLLECTIVE>_DEVICE_COLLECTIVE=0              or topo_auto's choice, or MPIR's
 *     COLL_TOPO_FIXED_ORDER=1, for reductions          the same, in the order of ranks
 *     a rule of the tuning file applies, not {}        on all ranks: <COLLECTIVE>_INTRA_ALGORITHM,
 *                                                      or the rule
 *     topo_auto chooses an algorithm of topo/          the same, or topo_auto's choice
 *     <COLLECTIVE>_COMPOSITION, from 4.3 on            that composition, if it is applicable
 *     CH4_COLL_SELECTION_TUNING_JSON_FILE              composition, by this file
 *     nothing                                          composition, by MPICH's rules
 *
 * In the part between hosts, <COLLECTIVE>_INTRA_ALGORITHM, rules and topo_auto apply again, to a
 * communicator with one rank per host. */

#if MPII_COLL_IS_CH4

static const MPII_Coll_composition_t compositions[] = {
#define ROW(COLL, Coll, number, name, form)     \
    {MPIR_CSEL_COLL_TYPE__##COLL,               \
     MPIDI_CSEL_CONTAINER_TYPE__COMPOSITION__MPIDI_##Coll##_intra_composition_##name, number,   \
     MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_##Coll##_##form, "composition_" #name},
    CSEL_DEVICE_SPLITS(ROW)
#undef ROW
};

#define IS_ASKED(COLL)                          \
    (MPIR_CVAR_DEVICE_COLLECTIVES == MPIR_CVAR_DEVICE_COLLECTIVES_all ||        \
     (MPIR_CVAR_DEVICE_COLLECTIVES == MPIR_CVAR_DEVICE_COLLECTIVES_percoll &&   \
      MPIR_CVAR_##COLL##_DEVICE_COLLECTIVE))

const MPII_Coll_composition_t *MPII_Coll_device_choice(const MPIR_Csel_coll_sig_s * coll_sig)
{
    MPIR_Comm *comm_ptr = coll_sig->comm_ptr;
    const MPIDI_Csel_container_s *cnt = NULL;
    bool is_asked = false;
    int number = 0;

    switch (coll_sig->coll_type) {
#define ASK(COLL)                               \
        case MPIR_CSEL_COLL_TYPE__##COLL:       \
            is_asked = IS_ASKED(COLL);          \
            number = CSEL_DEVICE_CVAR(COLL);    \
            break;
            CSEL_DEVICE_COLLS(ASK)
#undef ASK
        default:
            break;
    }
    if (!is_asked || comm_ptr->comm_kind != MPIR_COMM_KIND__INTRACOMM ||
        (number && !csel_is_hierarchy(comm_ptr, CSEL_HIERARCHY__PARENT)))
        return NULL;
    if (number == 0 && MPIDI_COMM(comm_ptr, csel_comm))
        cnt = MPII_Csel_search(MPIDI_COMM(comm_ptr, csel_comm), coll_sig);
    for (int i = 0; i < (int) (sizeof(compositions) / sizeof(compositions[0])); i++) {
        const MPII_Coll_composition_t *c = &compositions[i];
        if (c->coll_type == coll_sig->coll_type &&
            (number ? c->number == number : cnt && c->device_id == (int) cnt->id))
            return c;
    }
    return NULL;
}

#else

const MPII_Coll_composition_t *MPII_Coll_device_choice(const MPIR_Csel_coll_sig_s * coll_sig)
{
    return NULL;
}

#endif /* MPII_COLL_IS_CH4 */

void MPII_Coll_report_device(bool has_rule, const MPIR_Csel_coll_sig_s * coll_sig, MPI_Aint count,
                             MPI_Datatype datatype)
{
    MPIR_Comm *comm_ptr = coll_sig->comm_ptr;
    const MPII_Coll_composition_t *found;
    char text[512];

    if (!MPII_Coll_report_on ||
        (has_rule && MPIR_CVAR_DEVICE_COLLECTIVES != MPIR_CVAR_DEVICE_COLLECTIVES_all))
        return;
    found = MPII_Coll_device_choice(coll_sig);
    if (found == NULL)
        return;
    /* if topo_auto was asked: why it left the call to the device */
    const char *declined = comm_ptr->coll.declined;
    snprintf(text, sizeof(text), "%.400s%sdevice: %s", declined ? declined : "",
             declined ? "; " : "", found->name);
    comm_ptr->coll.declined = MPII_Coll_report_text(text);
    MPII_Coll_report(comm_ptr, found->id, NULL, count, datatype);
}
