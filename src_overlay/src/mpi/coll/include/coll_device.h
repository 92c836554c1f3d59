/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_DEVICE_H_INCLUDED
#define COLL_DEVICE_H_INCLUDED

/* How the device splits collectives (coll_device.c). ch4 does so, ch3 does not. */

#ifdef MPIDI_CH4_MT_MODEL
#define MPII_COLL_IS_CH4 1
#else
#define MPII_COLL_IS_CH4 0
#endif

/* A composition of the device: it splits a call into a part in each host and a part between
 * hosts */
typedef struct {
    int coll_type;
    int device_id, number;      /* its id in the device's rules; its number in the device's CVAR */
    MPII_Csel_container_type_e id;      /* the algorithm of MPIR with the same structure */
    const char *name;
} MPII_Coll_composition_t;

/* The composition that runs a call for which no rule selects; NULL if MPIR runs the call. */
const MPII_Coll_composition_t *MPII_Coll_device_choice(const MPIR_Csel_coll_sig_s * coll_sig);

/* Count a call in the report if the device splits it: no rule selects for it, or
 * DEVICE_COLLECTIVES=all. A block, or the buffer, of the call has `count` elements of a
 * datatype. */
void MPII_Coll_report_device(bool has_rule, const MPIR_Csel_coll_sig_s * coll_sig, MPI_Aint count,
                             MPI_Datatype datatype);

#endif /* COLL_DEVICE_H_INCLUDED */
