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

/* Call this before everything else, also before MPI_Init. If standard output is closed, the next
 * file or socket that is opened would become standard output. So open a file there that cannot be
 * written. */
static void guard_output(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    signal(SIGPIPE, SIG_IGN);   /* a write then fails instead */
}

/* Flush standard output. Returns false, after an error message, if the output could not be
 * written. */
static bool flush_output(const char *program)
{
    if (!fflush(stdout) && !ferror(stdout))
        return true;
    fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
    return false;
}

#endif
