/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* To be preloaded into ranks.
 *
 * Where they outnumber the cores: a rank that asks whether there is something to receive, and finds
 * nothing, gives its core to one that may have something to send. By itself ch3 asks until its share of
 * time is over wherever it may not sleep: in MPI_Test, and in any wait while a nonblocking collective is
 * under way; ch4, over libfabric or UCX, in all that waits. Of many that do so there is always another one
 * to yield to: with TOPO_IDLE_SLEEP those that found nothing for a while sleep.
 *
 * Where MPICH is built without shared memory (ch4:ucx) it takes each process for a host of its own, and
 * leaves MPIR_CVAR_NUM_CLIQUES aside: with TOPO_NAME_HOSTS a rank gets the name that it would have. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define IDLE_CALLS 16
#define IDLE_NS 50000

static int may_sleep;

static void find_nothing(int is_idle)
{
    static __thread int num_idle;

    if (!is_idle) {
        num_idle = 0;
    } else if (may_sleep && ++num_idle > IDLE_CALLS) {
        syscall(SYS_nanosleep, &(struct timespec) {.tv_nsec = IDLE_NS }, NULL);
    } else {
        sched_yield();
    }
}

int poll(struct pollfd *fds, nfds_t num, int timeout)
{
    int rc = (int) syscall(SYS_poll, fds, num, timeout);

    find_nothing(timeout == 0 && rc == 0);
    return rc;
}

int epoll_wait(int epfd, struct epoll_event *events, int max_events, int timeout)
{
    int rc = (int) syscall(SYS_epoll_pwait, epfd, events, max_events, timeout, NULL, 8);

    find_nothing(timeout == 0 && rc == 0);
    return rc;
}

/* Most of what UCX looks at it reads from memory, without a system call. */
unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*progress) (void *);

    if (!progress)
        *(void **) &progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned num = progress(worker);
    find_nothing(num == 0);
    return num;
}

static int number(const char *variable)
{
    const char *text = getenv(variable);

    return text ? atoi(text) : 0;
}

__attribute__((constructor))
static void set_up(void)
{
    int num = number("MPIR_CVAR_NUM_CLIQUES"), rank = number("PMI_RANK"), size = number("PMI_SIZE");
    char name[32];

    may_sleep = number("TOPO_IDLE_SLEEP");
    if (!getenv("TOPO_NAME_HOSTS") || num < 2 || size < 1)
        return;
    num = num < size ? num : size;
    int block = size / num, longer = size % num, clique = rank % num;
    if (number("MPIR_CVAR_CLIQUES_BY_BLOCK"))
        clique = rank < (block + 1) * longer ? rank / (block + 1) : (rank - longer) / block;
    snprintf(name, sizeof(name), "clique%d", clique);
    setenv("MPIR_CVAR_COLL_TOPOLOGY_HOST", name, 0);
}
