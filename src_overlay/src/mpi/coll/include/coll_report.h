/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_REPORT_H_INCLUDED
#define COLL_REPORT_H_INCLUDED

/* Which algorithms were selected, why, and how long they took: MPIR_CVAR_COLL_SELECTION_REPORT and
 * _TRACE. The generated selection in mpir_coll.c calls this; while it is off that costs one
 * test. */

extern int MPII_Coll_report_on;

void MPII_Coll_report_init(void);
void MPII_Coll_report_finalize(void);

/* A blocking call, from its beginning to its end. What is done on the same communicator meanwhile
 * is part of it: who comes first sets `row` and `adapt`. */
typedef struct MPII_Coll_call {
    MPIR_Comm *comm_ptr;
    struct MPII_Coll_call *outer;       /* the call of this thread that this one is part of; NULL:
                                         * none */
    struct MPII_Coll_row *row;  /* of the report, that its time goes to; NULL: none */
    struct MPII_Csel_adapt *adapt;      /* what its time teaches (csel_adapt.c), when it ends; NULL:
                                         * nothing */
    void (*adapt_end)(struct MPII_Coll_call * call);
    bool has_start;
    MPL_time_t start;
} MPII_Coll_call_t;

/* Whether calls are of interest: the report, or MPIR_CVAR_COLL_TOPO_ADAPT. It changes in MPI_Init
 * and MPI_Finalize only; while it is 0 a call costs one test more. It stays 0 where the compiler
 * has nothing that each thread has for itself. */
extern int MPII_Coll_is_timed;
#ifdef MPL_TLS
#define MPII_COLL_CAN_TIME true
#else
#define MPII_COLL_CAN_TIME false
#endif

void MPII_Coll_call_begin(MPIR_Comm * comm_ptr, MPII_Coll_call_t * call);
void MPII_Coll_call_end(MPII_Coll_call_t * call);
/* The innermost call of this thread, if it is on this communicator; NULL: none */
MPII_Coll_call_t *MPII_Coll_call_of(MPIR_Comm * comm_ptr);
/* Take the time of its start, if that has not been done. */
void MPII_Coll_call_start(MPII_Coll_call_t * call);
/* Seconds since then */
double MPII_Coll_call_time(MPII_Coll_call_t * call);

/* What begins coll.declined where an algorithm could not be applied; other texts there tell why
 * topo_auto left a call to the built-in selection. */
#define MPII_COLL_FALLBACK "fallback: "

/* Count a call. why: MPII_COLL_BY_CVAR, or the rule of a file, or NULL for the built-in selection;
 * count elements of a datatype are a block, or the buffer, of the call; -1: it has none. */
void MPII_Coll_report(MPIR_Comm * comm_ptr, MPII_Csel_container_type_e id, const char *why,
                      MPI_Aint count, MPI_Datatype datatype);

/* A text for `why`, or for MPIR_Comm's coll.declined, that stays until MPI_Finalize: the same for
 * the same words. NULL: no memory */
const char *MPII_Coll_report_text(const char *text);

extern const char MPII_Coll_by_cvar[];
#define MPII_COLL_BY_CVAR MPII_Coll_by_cvar

#define MPII_COLL_REPORT(comm_ptr_, id_, why_, count_, datatype_)               \
    do {                                                                        \
        if (unlikely(MPII_Coll_report_on))                                      \
            MPII_Coll_report(comm_ptr_, id_, why_, count_, datatype_);          \
    } while (0)

/* Remember that an algorithm cannot be applied, for the report of the one that is taken instead. */
#define MPII_COLL_DECLINE(comm_ptr_, check_, text_)             \
    do {                                                        \
        if (unlikely(MPII_Coll_report_on) && !(check_))         \
            (comm_ptr_)->coll.declined = MPII_COLL_FALLBACK text_;      \
    } while (0)

/* Mean of the counts of a call, one for each process that a process receives from */
MPI_Aint MPII_Coll_report_mean(MPIR_Comm * comm_ptr, const MPI_Aint counts[]);
#define MPII_COLL_MEAN(counts_) MPII_Coll_report_mean(comm_ptr, counts_)

#define MPII_COLL_IS_ROOT(root_)        \
    ((root_) == MPI_ROOT ||             \
     ((root_) == comm_ptr->rank && comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM))

#endif /* COLL_REPORT_H_INCLUDED */
