/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_REPORT_H_INCLUDED
#define COLL_REPORT_H_INCLUDED

/* Report which algorithms were selected, why, and how long they took:
 * MPIR_CVAR_COLL_SELECTION_REPORT and _TRACE. The generated selection in mpir_coll.c calls these
 * functions. A call costs one test while the report is off. */

extern int MPII_Coll_report_on;

void MPII_Coll_report_init(void);
void MPII_Coll_report_finalize(void);

/* A blocking call, from start to end. Collectives that it calls on the same communicator belong to
 * it. The first of these to set `row` and `adapt` wins. */
typedef struct MPII_Coll_call {
    MPIR_Comm *comm_ptr;
    struct MPII_Coll_call *outer;       /* the call of this thread that contains this one; NULL:
                                         * none */
    struct MPII_Coll_row *row;  /* row of the report to which its time is added; NULL: none */
    struct MPII_Csel_adapt *adapt;      /* state that uses its time at its end (csel_adapt.c); NULL:
                                         * none */
    void (*adapt_end)(struct MPII_Coll_call * call);
    bool has_start;
    MPL_time_t start;
} MPII_Coll_call_t;

/* Whether calls are timed: for the report, or for MPIR_CVAR_COLL_TOPO_ADAPT. It changes only in
 * MPI_Init and MPI_Finalize. While it is 0, a call costs one more test. It stays 0 if the compiler
 * has no thread-local storage. */
extern int MPII_Coll_is_timed;
#ifdef MPL_TLS
#define MPII_COLL_CAN_TIME true
#else
#define MPII_COLL_CAN_TIME false
#endif

void MPII_Coll_call_begin(MPIR_Comm * comm_ptr, MPII_Coll_call_t * call);
void MPII_Coll_call_end(MPII_Coll_call_t * call);
/* The innermost call of this thread if it is on this communicator; otherwise NULL */
MPII_Coll_call_t *MPII_Coll_call_of(MPIR_Comm * comm_ptr);
/* Read the clock for the start of a call, if that has not been done. */
void MPII_Coll_call_start(MPII_Coll_call_t * call);
/* Seconds since MPII_Coll_call_start */
double MPII_Coll_call_time(MPII_Coll_call_t * call);

/* Prefix of coll.declined if an algorithm was not applicable. Other texts in coll.declined say why
 * topo_auto left a call to the built-in selection. */
#define MPII_COLL_FALLBACK "fallback: "

/* Count a call in the report. why: MPII_COLL_BY_CVAR, the rule of a file, or NULL for the built-in
 * selection. A block, or the buffer, of the call has `count` elements of a datatype; count -1: the
 * call has none. */
void MPII_Coll_report(MPIR_Comm * comm_ptr, MPII_Csel_container_type_e id, const char *why,
                      MPI_Aint count, MPI_Datatype datatype);

/* A copy of a text for `why` or for coll.declined of MPIR_Comm. It stays until MPI_Finalize. Equal
 * texts give the same pointer. NULL if memory is exhausted */
const char *MPII_Coll_report_text(const char *text);

extern const char MPII_Coll_by_cvar[];
#define MPII_COLL_BY_CVAR MPII_Coll_by_cvar

#define MPII_COLL_REPORT(comm_ptr_, id_, why_, count_, datatype_)               \
    do {                                                                        \
        if (unlikely(MPII_Coll_report_on))                                      \
            MPII_Coll_report(comm_ptr_, id_, why_, count_, datatype_);          \
    } while (0)

/* Note in coll.declined that an algorithm is not applicable, for the report of the one that
 * replaces it. */
#define MPII_COLL_DECLINE(comm_ptr_, check_, text_)             \
    do {                                                        \
        if (unlikely(MPII_Coll_report_on) && !(check_))         \
            (comm_ptr_)->coll.declined = MPII_COLL_FALLBACK text_;      \
    } while (0)

/* Mean of the counts of a call, one for each process from which a process receives */
MPI_Aint MPII_Coll_report_mean(MPIR_Comm * comm_ptr, const MPI_Aint counts[]);
#define MPII_COLL_MEAN(counts_) MPII_Coll_report_mean(comm_ptr, counts_)

#define MPII_COLL_IS_ROOT(root_)        \
    ((root_) == MPI_ROOT ||             \
     ((root_) == comm_ptr->rank && comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM))

#endif /* COLL_REPORT_H_INCLUDED */
