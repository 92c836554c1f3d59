/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef CSEL_AUTO_H_INCLUDED
#define CSEL_AUTO_H_INCLUDED

#include "csel_tree.h"
#include "topo_auto.h"

/* What topo_auto decides for a place (csel_auto.c), and what communicators learn of it since
 * (csel_adapt.c, csel_learnt.c) */

#define MPII_CSEL_MAX_CANDIDATES 4

typedef struct {
    const char *name;           /* value of MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM; NULL: there is
                                 * none */
    int64_t ps;                 /* predicted time */
    const MPII_Topo_algo_t *row;        /* NULL: it has no schedule */
    bool is_stock;              /* what the built-in selection takes; else: */
    MPII_Csel_container_s cnt;  /* what is to be run; its rule tells why */
} MPII_Csel_candidate_t;

/* Of the calls of a collective, of a size class, for which the built-in selection takes the same */
typedef struct {
    MPII_Topo_decision_t list;
    int coll_type;
    MPI_Aint bytes;             /* of the size class */
    MPII_Csel_container_type_e stock;   /* what the built-in selection takes */
    int num_candidates;         /* the first is what is to be run; others are predicted to be near
                                 * it */
    MPII_Csel_candidate_t candidates[MPII_CSEL_MAX_CANDIDATES];
    const char *why;            /* NULL: no report is made */
} MPII_Csel_decision_t;

/* -- csel_adapt.c -- */

/* What runs a call on a communicator that tries the candidates of a decision; NULL: it does not. */
void *MPII_Csel_adapt_select(const MPIR_Csel_coll_sig_s * coll_sig,
                             const MPII_Csel_decision_t * decision, MPII_Csel_container_s * stock);

/* -- csel_learnt.c -- */

void MPII_Csel_learnt_init(void);
/* After a trial: the candidate that stays, and the times of all */
void MPII_Csel_learn(MPIR_Comm * comm_ptr, const MPII_Csel_decision_t * decision, int choice,
                     const int64_t ns[]);
/* Print it, and write it to MPIR_CVAR_COLL_TOPO_ADAPT_FILE, as far as these are wanted. */
void MPII_Csel_learnt_finalize(void);

#endif /* CSEL_AUTO_H_INCLUDED */
