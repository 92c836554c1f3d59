/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef CSEL_AUTO_H_INCLUDED
#define CSEL_AUTO_H_INCLUDED

#include "csel_tree.h"
#include "topo_auto.h"

/* Decisions of topo_auto for a place (csel_auto.c), and what communicators learn about them by
 * trials (csel_adapt.c, csel_learnt.c) */

#define MPII_CSEL_MAX_CANDIDATES 4

typedef struct {
    const char *name;           /* value of MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM; NULL: MPICH's
                                 * choice has no such name */
    int64_t ps;                 /* predicted time in picoseconds */
    const MPII_Topo_algo_t *row;        /* NULL: no schedule exists for it */
    bool is_stock;              /* this is the choice of the built-in selection, which runs the
                                 * call */
    MPII_Csel_container_s cnt;  /* otherwise: the algorithm to run; its rule is the reason for
                                 * reports */
} MPII_Csel_candidate_t;

/* A decision for calls of a collective in a size class, where the built-in selection makes the same
 * choice */
typedef struct {
    MPII_Topo_decision_t list;
    int coll_type;
    MPI_Aint bytes;             /* size of the class */
    MPII_Csel_container_type_e stock;   /* choice of the built-in selection */
    int num_candidates;         /* the first candidate is the decision; the others are predicted to
                                 * be nearly as fast */
    MPII_Csel_candidate_t candidates[MPII_CSEL_MAX_CANDIDATES];
    const char *why;            /* reason for reports; NULL: there is no report */
} MPII_Csel_decision_t;

/* -- csel_adapt.c -- */

/* Returns the algorithm that runs this call, if the communicator tries the candidates of the
 * decision; otherwise NULL. */
void *MPII_Csel_adapt_select(const MPIR_Csel_coll_sig_s * coll_sig,
                             const MPII_Csel_decision_t * decision, MPII_Csel_container_s * stock);

/* -- csel_learnt.c -- */

void MPII_Csel_learnt_init(void);
/* Record the result of a trial: the candidate that was chosen, and the times of all candidates in
 * nanoseconds. */
void MPII_Csel_learn(MPIR_Comm * comm_ptr, const MPII_Csel_decision_t * decision, int choice,
                     const int64_t ns[]);
/* Print what was learnt, and write it to MPIR_CVAR_COLL_TOPO_ADAPT_FILE, if the user asks for
 * these. */
void MPII_Csel_learnt_finalize(void);

#endif /* CSEL_AUTO_H_INCLUDED */
