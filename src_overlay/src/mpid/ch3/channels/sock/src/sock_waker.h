/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef SOCK_WAKER_H_INCLUDED
#define SOCK_WAKER_H_INCLUDED

/* Part of sock.c: descriptors other than connections that wake MPIDI_CH3I_Sock_wait.
 *
 * A process that waits for something other than messages, such as a word in shared memory, sleeps
 * often and for a short time. The cost of poll() grows with the number of connections: with 64 of
 * them, it is 10 us of 12 us in all. So once there is a waker, a single-threaded process sleeps in
 * epoll_wait(). A connection is added to epoll before the process first sleeps for it; the kernel
 * removes it when it is closed. Events of connections that are not waited for now (pollfd) are
 * ignored. */

#ifdef __linux__
#include <sys/epoll.h>
#endif

#define MPIDI_CH3I_SOCKI_MAX_EVENTS 16

static int MPIDI_CH3I_Socki_epoll_fd = -1;

#ifdef __linux__

/* Sleep until a descriptor that is waited for has an event; like poll() without a timeout. Returns
 * 0 if poll() has to be used instead. */
static int MPIDI_CH3I_Socki_epoll(struct MPIDI_CH3I_Sock_set *sock_set)
{
    struct epoll_event events[MPIDI_CH3I_SOCKI_MAX_EVENTS];
    int n_events, n_fds = 0;

    for (int i = 0; i < sock_set->poll_array_elems; i++) {
        struct pollfd *pollfd = &sock_set->pollfds[i];
        struct pollinfo *pollinfo = &sock_set->pollinfos[i];

        pollfd->revents = 0;
        if (pollfd->fd < 0)
            continue;
        if (pollfd->events != POLLIN)
            return 0;
        if (!pollinfo->is_epolled) {
            struct epoll_event event = {.events = EPOLLIN,.data.u32 = i };
            if (epoll_ctl(MPIDI_CH3I_Socki_epoll_fd, EPOLL_CTL_ADD, pollfd->fd, &event))
                return 0;
            pollinfo->is_epolled = TRUE;
        }
    }
    n_events = epoll_wait(MPIDI_CH3I_Socki_epoll_fd, events, MPIDI_CH3I_SOCKI_MAX_EVENTS, -1);
    for (int i = 0; i < n_events; i++) {
        int elem = events[i].data.u32;
        if (elem >= sock_set->poll_array_elems || sock_set->pollfds[elem].fd < 0)
            continue;
        sock_set->pollfds[elem].revents = events[i].events & (POLLIN | POLLERR | POLLHUP);
        n_fds += sock_set->pollfds[elem].revents != 0;
    }
    return n_events < 0 ? -1 : n_fds;
}

#endif

static int MPIDI_CH3I_Socki_poll(struct MPIDI_CH3I_Sock_set *sock_set, int millisecond_timeout)
{
#ifdef __linux__
    if (MPIDI_CH3I_Socki_epoll_fd != -1 && millisecond_timeout == MPIDI_CH3I_SOCK_INFINITE_TIME) {
        int n_fds = MPIDI_CH3I_Socki_epoll(sock_set);
        if (n_fds != 0)
            return n_fds;
    }
#endif
    return poll(sock_set->pollfds, sock_set->poll_array_elems, millisecond_timeout);
}

int MPIDI_CH3I_Progress_add_waker(int fd)
{
    extern MPIDI_CH3I_Sock_set_t MPIDI_CH3I_sock_set;
    struct MPIDI_CH3I_Sock *sock;
    struct pollfd *pollfd;
    struct pollinfo *pollinfo;
    int mpi_errno = MPI_SUCCESS;

    mpi_errno = MPIDI_CH3I_Socki_sock_alloc(MPIDI_CH3I_sock_set, &sock);
    MPIR_ERR_CHECK(mpi_errno);

    pollfd = MPIDI_CH3I_Socki_sock_get_pollfd(sock);
    pollinfo = MPIDI_CH3I_Socki_sock_get_pollinfo(sock);
    pollinfo->fd = fd;
    pollinfo->user_ptr = NULL;
    pollinfo->type = MPIDI_CH3I_SOCKI_TYPE_WAKER;
    pollinfo->state = MPIDI_CH3I_SOCKI_STATE_CONNECTED_RO;
    pollinfo->os_errno = 0;
    MPIDI_CH3I_SOCKI_POLLFD_OP_SET(pollfd, pollinfo, POLLIN);

#ifdef __linux__
    if (MPIDI_CH3I_Socki_epoll_fd == -1)
        MPIDI_CH3I_Socki_epoll_fd = epoll_create1(EPOLL_CLOEXEC);
#endif

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

static void MPIDI_CH3I_Socki_free_wakers(struct MPIDI_CH3I_Sock_set *sock_set)
{
    for (int i = 0; i < sock_set->poll_array_elems; i++) {
        if (sock_set->pollinfos[i].type == MPIDI_CH3I_SOCKI_TYPE_WAKER)
            MPIDI_CH3I_Socki_sock_free(sock_set->pollinfos[i].sock);
    }
    if (MPIDI_CH3I_Socki_epoll_fd != -1)
        close(MPIDI_CH3I_Socki_epoll_fd);
    MPIDI_CH3I_Socki_epoll_fd = -1;
}

/* Read once from a waker that is readable. The progress engine gets the same event as for an
 * interrupt. */
static int MPIDI_CH3I_Socki_handle_waker(struct pollinfo *pollinfo)
{
    int mpi_errno = MPI_SUCCESS;
    char c[16];

    while (read(pollinfo->fd, c, sizeof(c)) < 0 && errno == EINTR);
    MPIDI_CH3I_SOCKI_EVENT_ENQUEUE(pollinfo, MPIDI_CH3I_SOCK_OP_WAKEUP, 0, NULL, MPI_SUCCESS,
                                   mpi_errno, fn_exit);

  fn_exit:
    return mpi_errno;
}

#endif /* SOCK_WAKER_H_INCLUDED */
