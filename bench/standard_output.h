/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Standard output that is lost: closed, a pipe that nobody reads, a full disk. All programs say so in a
 * line, and end with 1.
 */

#ifndef STANDARD_OUTPUT_H_INCLUDED
#define STANDARD_OUTPUT_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* First of all, MPI_Init too: where it is closed, the next file or socket that is opened would become
 * it. Put something there that cannot be written. */
static void guard_output(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    signal(SIGPIPE, SIG_IGN);   /* writing fails instead */
}

/* False, after saying so, when what was printed cannot all be written. */
static bool flush_output(const char *program)
{
    if (!fflush(stdout) && !ferror(stdout))
        return true;
    fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
    return false;
}

#endif
