/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * topo-vidle.so: a library to preload, which lets ranks of MPICH's device ch4 share processors.
 *
 * ch4 polls whenever it waits. If there are more ranks than processors, a waiting rank takes
 * processor time from ranks that have work. ch4 asks libfabric (provider tcp) or UCX for progress,
 * and these ask the kernel for events with timeout 0. With this library, a rank that has got no
 * event several times in a row waits for one.
 *
 * The kernel has no event for a message in shared memory. So a rank with other ranks on its host
 * looks for such messages every TOPO_VIDLE_US microseconds.
 *
 * The library does not change ranks of other devices.
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NUM_POLLS 4             /* polls without an event before a rank waits */
#define MAX_VERSION 8192        /* MPI_MAX_LIBRARY_VERSION_STRING */

static int is_on, wait_us = 1000;
static __thread int num_idle;

__attribute__((constructor))
static void set_up(void)
{
    const char *us = getenv("TOPO_VIDLE_US"), *num_on_host = getenv("MPI_LOCALNRANKS");
    int (*get_version) (char *, int *), len;
    char version[MAX_VERSION] = "";

    *(void **) &get_version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (get_version)
        get_version(version, &len);
    is_on = strstr(version, "ch4:") != NULL;
    if (us && num_on_host && atoi(num_on_host) > 1)
        wait_us = atoi(us);
    /* otherwise timers of Linux have a slack of 50 us */
    if (is_on)
        prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
}

/* Events returned by a call with timeout 0, or by a wait after several such calls */
static int wait_if_idle(int num, struct pollfd *fds, nfds_t num_fds)
{
    struct timespec wait = {.tv_sec = wait_us / 1000000,.tv_nsec = 1000L * (wait_us % 1000000) };

    num_idle = num ? 0 : num_idle + 1;
    if (num_idle > NUM_POLLS) {
        num = (int) syscall(SYS_ppoll, fds, num_fds, &wait, NULL, 8);
        num_idle = num > 0 ? 0 : NUM_POLLS;
    }
    return num < 0 ? 0 : num;
}

int poll(struct pollfd *fds, nfds_t num_fds, int timeout)
{
    int num = (int) syscall(SYS_poll, fds, num_fds, timeout);

    return is_on && timeout == 0 && num >= 0 ? wait_if_idle(num, fds, num_fds) : num;
}

int epoll_wait(int fd, struct epoll_event *events, int max_events, int timeout)
{
    int num = (int) syscall(SYS_epoll_pwait, fd, events, max_events, timeout, NULL, 8);

    /* an epoll descriptor is readable if one of its descriptors has an event */
    if (is_on && timeout == 0 && num >= 0 &&
        wait_if_idle(num, &(struct pollfd) {.fd = fd,.events = POLLIN }, 1) > num)
        num = (int) syscall(SYS_epoll_pwait, fd, events, max_events, 0, NULL, 8);
    return num;
}

/* The verbs provider of libfabric searches /proc/kallsyms for drivers line by line. This takes each
 * rank up to a second. */
FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next) (const char *, const char *);

    if (is_on && !strcmp(path, "/proc/kallsyms")) {
        errno = ENOENT;
        return NULL;
    }
    if (!next)
        *(void **) &next = dlsym(RTLD_NEXT, "fopen");
    return next(path, mode);
}
