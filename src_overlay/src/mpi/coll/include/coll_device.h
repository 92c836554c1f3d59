/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_DEVICE_H_INCLUDED
#define COLL_DEVICE_H_INCLUDED

/* How the device splits collectives (coll_device.c): ch4 does, ch3 does not. */

#ifdef MPIDI_CH4_MT_MODEL
#define MPII_COLL_IS_CH4 1
#else
#define MPII_COLL_IS_CH4 0
#endif

/* A composition of the device that splits a call into parts in each host and parts between hosts */
typedef struct {
    int coll_type;
    int device_id, number;      /* for the device's rules, and its CVAR */
    MPII_Csel_container_type_e id;      /* MPIR's algorithm of this form */
    const char *name;
} MPII_Coll_composition_t;

/* The one that runs a call for which no rule selects; NULL: none, MPIR runs the call. */
const MPII_Coll_composition_t *MPII_Coll_device_choice(const MPIR_Csel_coll_sig_s * coll_sig);

/* For the report: a call of which count elements of a datatype are a block, or the buffer. It
 * counts if the device splits it, since no rule selects for it, or DEVICE_COLLECTIVES=all. */
void MPII_Coll_report_device(bool has_rule, const MPIR_Csel_coll_sig_s * coll_sig, MPI_Aint count,
                             MPI_Datatype datatype);

#endif /* COLL_DEVICE_H_INCLUDED */
