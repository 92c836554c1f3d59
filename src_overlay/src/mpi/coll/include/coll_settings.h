/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_SETTINGS_H_INCLUDED
#define COLL_SETTINGS_H_INCLUDED

/* Settings that all processes of MPI_COMM_WORLD must share: see coll_settings.c. All are called in
 * MPI_Init. */

/* On all, before a barrier: rank 0 tells the others its settings. */
void MPII_Coll_tell_settings(void);

/* On the other ranks, after that: take them. Returns the name of the first setting that was another
 * one here, NULL where none was. It stays until MPI_Finalize, and so does its number: */
const char *MPII_Coll_take_settings(void);

/* the number, 0 where none was another one; and the name of any process's number */
int MPII_Coll_other_setting(void);
const char *MPII_Coll_setting_name(int number);

/* On rank 0: warn, once, of names in the environment that no CVAR has, and that look like one of
 * ours. */
void MPII_Coll_check_names(void);

#endif /* COLL_SETTINGS_H_INCLUDED */
