/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_shm.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef SYS_futex
#include <linux/futex.h>
#endif

/* A process that waits looks again at the latest after so many milliseconds, to make progress. */
#define MIN_SLEEP_MS 10
#define MAX_SLEEP_MS 20
/* How many events it takes care of then */
#define NUM_POLLS 2
/* How often it looks before it sleeps, some microseconds long: never, where the ranks of a
 * communicator on this host are more than its cores */
#define MAX_SPINS 500
static int num_spins = MAX_SPINS;

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* -- memory -- */

/* What the first rank of a host tells the others: where its memory is. */
typedef struct {
    int64_t pid;                /* -1: there is none */
    int64_t fd;
    uint64_t cookie;            /* at the beginning of the memory: where several machines have one
                                 * name, a process of that number may be another one */
} offer_t;

static char *map(int fd, size_t bytes)
{
    char *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return mem == MAP_FAILED ? NULL : mem;
}

/* Make memory for the ranks of a host. Returns its file, or -1. */
static int make(size_t bytes, char **mem)
{
    int fd = -1;

    *mem = NULL;
#ifdef SYS_memfd_create
    struct rlimit limit;
    sigset_t all, old;
    int err;

    /* a file beyond the limit would end the process (SIGXFSZ) */
    if (getrlimit(RLIMIT_FSIZE, &limit) || (limit.rlim_cur != RLIM_INFINITY &&
                                            limit.rlim_cur < bytes))
        return -1;
    fd = syscall(SYS_memfd_create, "mpich", 1 /* MFD_CLOEXEC */);
    if (fd == -1)
        goto fn_fail;
    /* a signal would interrupt it, on many kernels, and all that it has done would be undone */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = ftruncate(fd, bytes) || posix_fallocate(fd, 0, bytes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err)
        goto fn_fail;
    *mem = map(fd, bytes);
    if (*mem == NULL)
        goto fn_fail;
#endif
    return fd;
  fn_fail:
    if (fd != -1)
        close(fd);
    return -1;
}

/* Open the memory that another process offers. */
static char *open_offer(const offer_t * offer, size_t bytes)
{
    char path[64];
    char *mem = NULL;
    int fd;

    if (offer->pid == -1)
        return NULL;
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long) offer->pid,
             (long long) offer->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd == -1)
        return NULL;
    if (lseek(fd, 0, SEEK_END) == (off_t) bytes)
        mem = map(fd, bytes);
    close(fd);
    if (mem && *(uint64_t *) mem != offer->cookie) {
        munmap(mem, bytes);
        mem = NULL;
    }
    return mem;
}

static uint64_t make_cookie(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t) now.tv_sec << 32 ^ (uint64_t) now.tv_nsec << 12 ^ (uint64_t) getpid()) | 1;
}

int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, MPII_Topo_shm_t ** shm_, TOPO_COLL_ATTR_DECL)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    bool is_first = ranks[0] == comm_ptr->rank;
    int fd = -1, is_ok, is_ok_there;
    offer_t offer = {.pid = -1 };
    MPII_Topo_shm_t *shm = MPL_calloc(1, sizeof(*shm), MPL_MEM_SHM);
    char *mem = NULL;

    *shm_ = NULL;
    if (num_ranks > sysconf(_SC_NPROCESSORS_ONLN))
        num_spins = 0;
    bytes = MPL_MAX(bytes, sizeof(uint64_t));
    if (shm && is_first) {
        fd = make(bytes, &mem);
        if (fd != -1) {
            offer.pid = getpid();
            offer.fd = fd;
            offer.cookie = make_cookie();
            *(uint64_t *) mem = offer.cookie;
        }
    }

    /* -- the first rank offers, the others try, it says whether all of them have it -- */
    is_ok = mem != NULL;
    if (is_first) {
        for (int i = 1; i < num_ranks; i++) {
            mpi_errno = MPIC_Send(&offer, sizeof(offer), MPI_BYTE, ranks[i], tag, comm_ptr,
                                  TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
        for (int i = 1; i < num_ranks; i++) {
            mpi_errno = MPIC_Recv(&is_ok_there, 1, MPI_INT, ranks[i], tag, comm_ptr,
                                  MPI_STATUS_IGNORE, TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
            is_ok = is_ok && mpi_errno == MPI_SUCCESS && is_ok_there;
        }
        if (mem)
            *(uint64_t *) mem = 0;
        for (int i = 1; i < num_ranks; i++) {
            mpi_errno = MPIC_Send(&is_ok, 1, MPI_INT, ranks[i], tag, comm_ptr, TOPO_COLL_ATTR);
            TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        }
    } else {
        mpi_errno = MPIC_Recv(&offer, sizeof(offer), MPI_BYTE, ranks[0], tag, comm_ptr,
                              MPI_STATUS_IGNORE, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        if (shm && mpi_errno == MPI_SUCCESS)
            mem = open_offer(&offer, bytes);
        is_ok = mem != NULL;
        mpi_errno = MPIC_Send(&is_ok, 1, MPI_INT, ranks[0], tag, comm_ptr, TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        mpi_errno = MPIC_Recv(&is_ok, 1, MPI_INT, ranks[0], tag, comm_ptr, MPI_STATUS_IGNORE,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }

    if (fd != -1)
        close(fd);
    if (is_ok && mpi_errno_ret == MPI_SUCCESS) {
        shm->num_ranks = num_ranks;
        while (ranks[shm->index] != comm_ptr->rank)
            shm->index++;
        shm->mem = mem;
        shm->bytes = bytes;
        *shm_ = shm;
    } else {
        if (mem)
            munmap(mem, bytes);
        MPL_free(shm);
    }
    return mpi_errno_ret;
}

void MPII_Topo_shm_free(MPII_Topo_shm_t * shm)
{
    if (shm == NULL)
        return;
    munmap(shm->mem, shm->bytes);
    MPL_free(shm);
}

/* -- waiting -- */

static bool is_reached(const MPII_Topo_shm_counter_t * counter, uint32_t target)
{
    return (int32_t) (MPL_atomic_load_uint32(&counter->count) - target) >= 0;
}

bool MPII_Topo_shm_count(MPII_Topo_shm_counter_t * counter, uint32_t target)
{
    uint32_t before;

    MPL_atomic_write_barrier();
    before = MPL_atomic_fetch_add_uint32(&counter->count, 1);
    MPL_atomic_read_write_barrier();
#ifdef SYS_futex
    if (before + 1 == target && MPL_atomic_load_uint32(&counter->num_waiting) > 0)
        syscall(SYS_futex, &counter->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
#endif
    return before + 1 == target;
}

/* Sleep until the counter changes, not long. */
static void doze(MPII_Topo_shm_counter_t * counter, uint32_t target, int ms)
{
#ifdef SYS_futex
    uint32_t seen;
    struct timespec time = {.tv_nsec = ms * 1000000L };

    MPL_atomic_fetch_add_uint32(&counter->num_waiting, 1);
    MPL_atomic_read_write_barrier();
    seen = MPL_atomic_load_uint32(&counter->count);
    if ((int32_t) (seen - target) < 0)
        syscall(SYS_futex, &counter->count, FUTEX_WAIT, seen, &time, NULL, 0);
    MPL_atomic_fetch_sub_uint32(&counter->num_waiting, 1);
#else
    MPL_sched_yield();
#endif
}

int MPII_Topo_shm_wait(MPII_Topo_shm_counter_t * counter, uint32_t target)
{
    int mpi_errno = MPI_SUCCESS;
    int ms = MIN_SLEEP_MS;

    for (int i = 0; i < num_spins && !is_reached(counter, target); i++)
        pause_core();
    while (!is_reached(counter, target)) {
        MPID_THREAD_CS_EXIT(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
        doze(counter, target, ms);
        MPID_THREAD_CS_ENTER(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
        for (int i = 0; i < NUM_POLLS && !is_reached(counter, target); i++) {
            ms = MAX_SLEEP_MS;
            mpi_errno = MPID_Progress_test(NULL);
            MPIR_ERR_CHECK(mpi_errno);
        }
    }
    MPL_atomic_read_barrier();

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
