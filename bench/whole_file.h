/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Files that are written under another name and then renamed. A reader never sees a half-written
 * file, and an old file survives if the disk is full. maint/topo_common/files.py does the same.
 */

#ifndef WHOLE_FILE_H_INCLUDED
#define WHOLE_FILE_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    char target[PATH_MAX];      /* the file to which symbolic links lead */
    char temporary[PATH_MAX];   /* temporary file in the same folder; "": write to the target
                                 * directly */
    int fd;                     /* open file descriptor of the target, or -1 */
} whole_file_t;

/* Exit status if the file cannot be created: 2, since the command line names it, or 1 if the disk
 * is full */
static int whole_file_status(int why)
{
    return why == ENOSPC || why == EDQUOT ? 1 : 2;
}

/* File descriptor for which /dev/stdout or the like stands; -1 for other files */
static int whole_file_number(const char *path)
{
    int fd = -1, end = 0;

    if (!strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    if (sscanf(path, "/dev/fd/%9d%n", &fd, &end) == 1 && end == (int) strlen(path))
        return fd;
    return sscanf(path, "/proc/self/fd/%9d%n", &fd, &end) == 1 && end == (int) strlen(path) ? fd : -1;
}

/* Prefix a relative path with the folder of another path. False if it is too long. */
static int whole_file_beside(char *to, const char *other, const char *path)
{
    const char *slash = *path == '/' ? NULL : strrchr(other, '/');

    return snprintf(to, PATH_MAX, "%.*s%s", slash ? (int) (slash + 1 - other) : 0, other, path) < PATH_MAX;
}

/* Called before the work is done: check whether the file can be written, and leave nothing behind.
 * Returns NULL, or the reason why it cannot, and sets the exit status for that. */
static const char *whole_file_find(whole_file_t * w, const char *path, int *status)
{
    struct stat st, other;
    char link[PATH_MAX];
    sigset_t all, before;
    int fd;

    *status = 2;
    w->temporary[0] = w->target[0] = '\0';
    w->fd = whole_file_number(path);
    if (w->fd >= 0)
        return fcntl(w->fd, F_GETFD) < 0 ? strerror(errno) : NULL;
    if (!stat(path, &st)) {
        if (S_ISCHR(st.st_mode) && !stat("/dev/null", &other) && st.st_rdev == other.st_rdev) {
            strcpy(w->target, "/dev/null");
            return NULL;
        }
        if (!S_ISREG(st.st_mode))
            return S_ISDIR(st.st_mode) ? "found a folder, expected a regular file" :
                S_ISFIFO(st.st_mode) ? "found a FIFO, expected a regular file" :
                "found a device or socket, expected a regular file";
        /* standard output must continue in the same file */
        if (!fstat(STDOUT_FILENO, &other) && other.st_dev == st.st_dev && other.st_ino == st.st_ino) {
            w->fd = STDOUT_FILENO;
            return NULL;
        }
        if (access(path, W_OK) || !realpath(path, w->target))
            return strerror(errno);
    } else if (errno != ENOENT || !*path) {
        return strerror(errno);
    } else {
        /* a new file, or a link to a file that does not exist */
        ssize_t len = readlink(path, link, sizeof(link) - 1);
        link[len > 0 ? len : 0] = '\0';
        if (!whole_file_beside(w->target, len > 0 ? path : "", len > 0 ? link : path))
            return strerror(ENAMETOOLONG);
    }
    if (!whole_file_beside(w->temporary, w->target, ".topo.XXXXXX"))
        return strerror(ENAMETOOLONG);
    /* no signal may end the program before the file is removed again */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    fd = mkstemp(w->temporary);
    int why = errno;
    if (fd >= 0) {
        close(fd);
        unlink(w->temporary);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    *status = fd < 0 ? whole_file_status(why) : 0;
    return fd < 0 ? strerror(why) : NULL;
}

/* Open the file for writing. NULL if it cannot be created; errno has the reason. */
static FILE *whole_file_open(const whole_file_t * w)
{
    int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW, fd;

    if (w->fd >= 0) {
        fflush(stdout);
        fd = dup(w->fd);
    } else {
        fd = w->temporary[0] ? open(w->temporary, flags | O_CREAT | O_EXCL, 0666) : open(w->target, flags);
    }
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Close and rename the file. Returns 0, or errno of the reason why it cannot be written. */
static int whole_file_close(const whole_file_t * w, FILE * f)
{
    int why = 0;

    errno = 0;
    if (fflush(f) || ferror(f) || (w->temporary[0] && fsync(fileno(f))))
        why = errno ? errno : EIO;
    if (fclose(f) && !why)
        why = errno;
    if (!why && w->temporary[0] && rename(w->temporary, w->target))
        why = errno;
    if (why && w->temporary[0])
        unlink(w->temporary);
    return why;
}

#endif
