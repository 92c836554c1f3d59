/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_SELECT_H_INCLUDED
#define COLL_SELECT_H_INCLUDED

/* Interface between the selection of collective algorithms and the rest of MPICH, in addition to
 * the functions of mpir_csel.h, which includes this file. */

#include "coll_report.h"

/* Select the container for a call; NULL if there is none. The signature is passed by reference,
 * since it has more than 100 bytes. */
#define MPIR_Csel_search(csel_, coll_sig_) MPII_Csel_search(csel_, &(coll_sig_))
void *MPII_Csel_search(void *csel, const MPIR_Csel_coll_sig_s * coll_sig);

/* Whether a rule of a tuning file, or topo_auto, selects for a call. The last arguments are the
 * members of the signature of the call. If true, the device must not be asked: its selection would
 * override the rule. ch3 selects nothing. A call on a communicator without rules for its collective
 * costs two tests. */
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

/* Whether reductions must give the same bits for any placement of the ranks of a communicator:
 * MPIR_CVAR_COLL_TOPO_FIXED_ORDER. False for processes of several worlds, which may not agree on
 * it. */
#define MPII_COLL_HAS_FIXED_ORDER(comm_ptr_)    \
    (unlikely(MPII_Coll_has_fixed_order) && MPII_Topo_is_in_world(comm_ptr_))
extern int MPII_Coll_has_fixed_order;

/* Select a container by topo_auto: the algorithm with the shortest predicted time */
void *MPIR_Csel_auto(const MPIR_Csel_coll_sig_s * coll_sig);

/* Between these two calls, topo_auto overrides all rules on a communicator. Used if a CVAR forces
 * topo_auto. */
void MPIR_Csel_begin_auto(MPIR_Comm * comm_ptr);
void MPIR_Csel_end_auto(MPIR_Comm * comm_ptr);

/* Create a selector that uses topo_auto for all collectives that support it; NULL if memory is
 * exhausted */
void *MPIR_Csel_create_auto(void);

/* MPIR_CVAR_COLL_TOPO_ADAPT of rank 0 of MPI_COMM_WORLD, the same on all its processes. Set in
 * MPI_Init. */
extern int MPII_Csel_is_adaptive;
void MPII_Csel_adapt_init(void);

/* Called in MPI_Finalize: print and write what communicators have learnt (csel_adapt.c). */
void MPII_Csel_adapt_finalize(void);

/* Set the selector that is searched if csel has no answer. csel owns it from now on. */
void MPIR_Csel_set_fallback(void *csel, void *fallback);
void *MPIR_Csel_get_fallback(void *csel);

/* Called before a barrier in MPI_Init: rank 0 announces whether there is a tuning file. */
int MPII_Coll_announce_tuning(void);

/* Called after that barrier, and before MPI_Init calls a collective: the settings of rank 0 apply
 * from now on. */
void MPII_Coll_agree(void);

/* Called at the end of MPI_Init, collectively: read the tuning file and the topology. */
int MPII_Coll_load_tuning(void);

#endif /* COLL_SELECT_H_INCLUDED */
