/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef COLL_SETTINGS_H_INCLUDED
#define COLL_SETTINGS_H_INCLUDED

/* Settings that must be equal on all processes of MPI_COMM_WORLD: see coll_settings.c. MPI_Init
 * calls these functions. */

/* Called on all ranks before a barrier: rank 0 publishes its settings. */
void MPII_Coll_tell_settings(void);

/* Called on the other ranks after that barrier: take the settings of rank 0. Returns the name of
 * the first setting that was different here, or NULL. */
const char *MPII_Coll_take_settings(void);

/* The number of the first setting that was different here, 0 for none; and the name of the setting
 * with a number, which may come from another process. */
int MPII_Coll_other_setting(void);
const char *MPII_Coll_setting_name(int number);

/* On rank 0: warn once of environment variables that look like a CVAR of this code but do not
 * exist. */
void MPII_Coll_check_names(void);

#endif /* COLL_SETTINGS_H_INCLUDED */
