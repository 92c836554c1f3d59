/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Stands in for the header of the json-c that MPICH brings along: the system's.
 */

#include <json-c/json.h>
