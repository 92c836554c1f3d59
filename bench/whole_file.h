/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Files that are written under another name, then renamed: a reader never sees half of one, and an old
 * one stays where the disk is full.
 */

#ifndef WHOLE_FILE_H_INCLUDED
#define WHOLE_FILE_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

typedef struct {
    char *target, *temporary;   /* temporary: in the same folder; NULL: the target is written to directly */
} whole_file_t;

/* NULL: it cannot be created; errno tells why. */
static FILE *whole_file_open(const whole_file_t * w)
{
    int fd;

    if (!w->temporary)
        return fopen(w->target, "w");
    fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/* The exit status where it cannot be created: the command line names it, but a disk may be full. */
static int whole_file_status(int why)
{
    return why == ENOSPC || why == EDQUOT ? 1 : 2;
}

/* Returns 0, or why it cannot be written (errno). */
static int whole_file_close(const whole_file_t * w, FILE * f)
{
    int why = 0;

    errno = 0;
    if (fflush(f) || ferror(f) || (w->temporary && fsync(fileno(f))))
        why = errno ? errno : EIO;
    if (fclose(f) && !why)
        why = errno;
    if (!why && w->temporary && rename(w->temporary, w->target))
        why = errno;
    if (why && w->temporary)
        unlink(w->temporary);
    return why;
}

#endif
