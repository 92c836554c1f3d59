/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* To be preloaded into ranks that outnumber the cores: a rank that asks whether there is something to
 * receive, and finds nothing, gives its core to one that may have something to send. By itself ch3 asks
 * until its share of time is over wherever it may not sleep: in MPI_Test, and in any wait while a
 * nonblocking collective is under way; ch4, over libfabric, in all that waits. */

#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int poll(struct pollfd *fds, nfds_t num, int timeout)
{
    int rc = (int) syscall(SYS_poll, fds, num, timeout);

    if (timeout == 0 && rc == 0)
        sched_yield();
    return rc;
}

int epoll_wait(int epfd, struct epoll_event *events, int max_events, int timeout)
{
    int rc = (int) syscall(SYS_epoll_pwait, epfd, events, max_events, timeout, NULL, 8);

    if (timeout == 0 && rc == 0)
        sched_yield();
    return rc;
}
