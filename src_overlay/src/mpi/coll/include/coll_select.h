/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_SELECT_H_INCLUDED
#define COLL_SELECT_H_INCLUDED

/* What the rest of MPICH sees of the selection of collective algorithms, beside the functions of
 * mpir_csel.h, which includes this file. */

#include "coll_report.h"

/* The container that is selected for a call; NULL: there is none. The signature of the call, over
 * 100 bytes, goes by reference. */
#define MPIR_Csel_search(csel_, coll_sig_) MPII_Csel_search(csel_, &(coll_sig_))
void *MPII_Csel_search(void *csel, const MPIR_Csel_coll_sig_s * coll_sig);

/* Whether a rule of a tuning file, or topo_auto, selects for a call, the rest of whose signature
 * comes last. Then the device is not asked: what it selects would come before the rule. ch3 selects
 * nothing. A call on a communicator without rules for its collective pays for two tests. */
#ifdef MPIDI_CH4_MT_MODEL
#define MPII_COLL_HAS_RULE(csel_, coll_type_, ...)                              \
    (unlikely(MPII_Coll_is_tuned) && MPII_Csel_has_rules(csel_, coll_type_) &&  \
     MPII_Csel_has_rule(csel_,                                                  \
                        &(MPIR_Csel_coll_sig_s) {.coll_type = coll_type_, __VA_ARGS__}))
#else
#define MPII_COLL_HAS_RULE(csel_, coll_type_, ...) false
#endif
extern int MPII_Coll_is_tuned;
bool MPII_Csel_has_rules(const void *csel, int coll_type);
bool MPII_Csel_has_rule(void *csel, const MPIR_Csel_coll_sig_s * coll_sig);

/* Whether reductions have to give the same bits at any placement of the ranks of a communicator:
 * MPIR_CVAR_COLL_TOPO_FIXED_ORDER. Processes of several worlds may not agree on that. */
#define MPII_COLL_HAS_FIXED_ORDER(comm_ptr_)    \
    (unlikely(MPII_Coll_has_fixed_order) && MPII_Topo_is_in_world(comm_ptr_))
extern int MPII_Coll_has_fixed_order;

/* What runs a call that topo_auto is to run: the algorithm that is predicted fastest */
void *MPIR_Csel_auto(const MPIR_Csel_coll_sig_s * coll_sig);

/* Between these, topo_auto comes before all rules on a communicator: a CVAR says so. */
void MPIR_Csel_begin_auto(MPIR_Comm * comm_ptr);
void MPIR_Csel_end_auto(MPIR_Comm * comm_ptr);

/* A selection that has topo_auto for all collectives that know it; NULL: no memory */
void *MPIR_Csel_create_auto(void);

/* MPIR_CVAR_COLL_TOPO_ADAPT of rank 0 of MPI_COMM_WORLD, the same on all its processes. MPI_Init
 * sets it. */
extern int MPII_Csel_is_adaptive;
void MPII_Csel_adapt_init(void);

/* In MPI_Finalize: print and write what communicators have learnt (csel_adapt.c). */
void MPII_Csel_adapt_finalize(void);

/* Where csel has no answer, fallback is searched. csel owns it from now on. */
void MPIR_Csel_set_fallback(void *csel, void *fallback);
void *MPIR_Csel_get_fallback(void *csel);

/* Before a barrier in MPI_Init: rank 0 tells whether there is a tuning file */
int MPII_Coll_announce_tuning(void);

/* After that barrier, and before MPI_Init calls a collective: the settings of rank 0 hold from now
 * on. */
void MPII_Coll_agree(void);

/* At the end of MPI_Init, collectively: read the files that tell how to select algorithms */
int MPII_Coll_load_tuning(void);

#endif /* COLL_SELECT_H_INCLUDED */
