/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_shm.h"

#ifdef __linux__
#include <sched.h>
#endif
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux has these, its older headers do not. */
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif
#ifndef O_PATH
#define O_PATH 010000000
#endif
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
#define FD_FLAGS 3              /* MFD_CLOEXEC | MFD_ALLOW_SEALING */

#define ALIGN(bytes_) (((bytes_) + 63) & ~(size_t) 63)

/* What the first rank of a host tells the others: where its memory is, and by what they know it.
 * Where several machines, or containers, have one host name, a process of that number may be another
 * one, and its descriptor anything. */
typedef struct {
    int64_t pid;                /* -1: there is none */
    int64_t fd;
    uint64_t pid_namespace;     /* inode */
    uint64_t device, inode;     /* of the memory */
    uint64_t token[2];          /* that stands at its beginning */
} offer_t;

/* What they tell it */
typedef struct {
    int64_t is_ok;
    uint64_t processors[16];    /* bits of those that the process may use */
} answer_t;

/* At the beginning of the memory; waits_for and wakers follow. */
typedef struct {
    uint64_t token[2];
    uint32_t may_spin;
} head_t;

/* -- memory -- */

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
    fd = syscall(SYS_memfd_create, "mpich", FD_FLAGS);
    if (fd == -1)
        goto fn_fail;
    /* a signal would interrupt it, on many kernels, and all that it has done would be undone */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = ftruncate(fd, bytes) || posix_fallocate(fd, 0, bytes) || fcntl(fd, F_ADD_SEALS, SEALS);
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

static uint64_t pid_namespace(void)
{
    struct stat info;

    return stat("/proc/self/ns/pid", &info) ? 0 : info.st_ino;
}

/* Open what another process offers, if that is it. Nothing else is opened: O_PATH does not touch
 * what it finds, be it a terminal or a device. */
static char *open_offer(const offer_t * offer, size_t bytes)
{
    char path[64], *mem = NULL;
    int ref = -1, fd = -1;
    struct stat info;

    if (offer->pid == -1 || offer->pid_namespace != pid_namespace())
        goto fn_exit;
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long) offer->pid,
             (long long) offer->fd);
    ref = open(path, O_PATH | O_CLOEXEC);
    if (ref == -1 || fstat(ref, &info) || !S_ISREG(info.st_mode) ||
        info.st_dev != offer->device || info.st_ino != offer->inode ||
        info.st_size != (off_t) bytes)
        goto fn_exit;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ref);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd == -1 || fcntl(fd, F_GET_SEALS) != SEALS)
        goto fn_exit;
    mem = map(fd, bytes);
    if (mem && memcmp(((head_t *) mem)->token, offer->token, sizeof(offer->token))) {
        munmap(mem, bytes);
        mem = NULL;
    }

  fn_exit:
    if (ref != -1)
        close(ref);
    if (fd != -1)
        close(fd);
    return mem;
}

static size_t head_bytes(int num_ranks)
{
    return ALIGN(sizeof(head_t) + num_ranks * (sizeof(uint32_t) + MPII_TOPO_SHM_NAME_LEN));
}

/* Look at memory of `bytes` bytes for num_ranks ranks. */
static void set_memory(MPII_Topo_shm_t * shm, char *mem, size_t bytes)
{
    shm->base = mem;
    shm->waits_for = (uint32_t *) (mem + sizeof(head_t));
    shm->waker = (void *) (shm->waits_for + shm->num_ranks);
    shm->mem = mem + head_bytes(shm->num_ranks);
    shm->bytes = bytes;
}

/* Processors that this process may use, as far as they have numbers below 1024 */
static void find_processors(uint64_t bits[16])
{
    memset(bits, 0, 16 * sizeof(uint64_t));
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        for (int i = 0; i < 1024; i++)
            bits[i / 64] |= (uint64_t) (CPU_ISSET(i, &set) != 0) << i % 64;
    }
#endif
}

bool MPII_Topo_shm_may_spin(int num_ranks, int num_on_node, const uint64_t processors[16])
{
    int num = 0;

    for (int i = 0; i < 1024; i++)
        num += processors[i / 64] >> i % 64 & 1;
    return num_ranks <= num && num_on_node <= sysconf(_SC_NPROCESSORS_ONLN);
}

/* -- the limit of a host -- */

static MPL_atomic_int64_t counted;

static int64_t part_of(size_t bytes, int num_ranks)
{
    return (bytes + num_ranks - 1) / num_ranks;
}

/* Count memory, if it is allowed. */
static bool count_memory(size_t bytes, int num_ranks)
{
    int64_t part = part_of(bytes, num_ranks);
    int64_t limit = MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES, 0) / MPII_Topo_num_on_host();

    if (MPL_atomic_fetch_add_int64(&counted, part) + part <= limit)
        return true;
    MPL_atomic_fetch_sub_int64(&counted, part);
    return false;
}

void MPII_Topo_shm_uncount(const MPII_Topo_shm_t * shm)
{
    if (shm)
        MPL_atomic_fetch_sub_int64(&counted, part_of(shm->bytes, shm->num_ranks));
}

void MPII_Topo_shm_recount(const MPII_Topo_shm_t * shm)
{
    if (shm)
        MPL_atomic_fetch_add_int64(&counted, part_of(shm->bytes, shm->num_ranks));
}

/* -- making it: the first rank offers, the others try, it says whether all of them have it -- */

static int offer_memory(MPIR_Comm * comm_ptr, const int ranks[], MPII_Topo_shm_t * shm, int tag,
                        size_t bytes, bool *is_ok, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    offer_t offer = {.pid = -1 };
    answer_t all, answer;
    struct stat info;
    char *mem = NULL;
    int fd = -1;

    if (*is_ok)
        fd = make(bytes, &mem);
    *is_ok = fd != -1 && fstat(fd, &info) == 0;
    if (mem)
        set_memory(shm, mem, bytes);
    if (*is_ok) {
        offer.pid = getpid();
        offer.fd = fd;
        offer.pid_namespace = pid_namespace();
        offer.device = info.st_dev;
        offer.inode = info.st_ino;
        MPII_Topo_shm_get_token(offer.token);
        memcpy(((head_t *) mem)->token, offer.token, sizeof(offer.token));
        *is_ok = MPII_Topo_shm_name_waker(shm->waker[shm->index]) == 0;
    }
    for (int i = 1; i < shm->num_ranks; i++) {
        mpi_errno = MPIC_Send(&offer, sizeof(offer), TOPO_BYTE, ranks[i], tag, comm_ptr,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    find_processors(all.processors);
    for (int i = 1; i < shm->num_ranks; i++) {
        mpi_errno = MPII_Topo_recv(&answer, sizeof(answer), TOPO_BYTE, ranks[i], tag, comm_ptr,
                                   attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        *is_ok = *is_ok && mpi_errno == MPI_SUCCESS && answer.is_ok;
        for (int k = 0; k < 16 && mpi_errno == MPI_SUCCESS; k++)
            all.processors[k] |= answer.processors[k];
    }
    if (mem) {
        /* either may tell of too few: virtual hosts share a machine; without shared memory of its own
         * MPICH sees each process alone */
        int on_host = MPL_MAX(MPIR_Process.local_size, MPII_Topo_num_on_host());
        ((head_t *) mem)->may_spin =
            MPII_Topo_shm_may_spin(shm->num_ranks, on_host, all.processors);
    }
    all.is_ok = *is_ok;
    for (int i = 1; i < shm->num_ranks; i++) {
        mpi_errno = MPIC_Send(&all.is_ok, sizeof(all.is_ok), TOPO_BYTE, ranks[i], tag, comm_ptr,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (fd != -1)
        close(fd);
    return mpi_errno_ret;
}

static int accept_memory(MPIR_Comm * comm_ptr, int first, MPII_Topo_shm_t * shm, int tag,
                         size_t bytes, bool *is_ok, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    offer_t offer = {.pid = -1 };
    answer_t answer;
    char *mem = NULL;

    mpi_errno = MPII_Topo_recv(&offer, sizeof(offer), TOPO_BYTE, first, tag, comm_ptr, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (*is_ok && mpi_errno == MPI_SUCCESS)
        mem = open_offer(&offer, bytes);
    if (mem)
        set_memory(shm, mem, bytes);
    answer.is_ok = mem && MPII_Topo_shm_name_waker(shm->waker[shm->index]) == 0 &&
        MPII_Topo_shm_is_alive(shm->waker[0]);
    find_processors(answer.processors);
    mpi_errno = MPIC_Send(&answer, sizeof(answer), TOPO_BYTE, first, tag, comm_ptr, TOPO_COLL_ATTR);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = MPII_Topo_recv(&answer.is_ok, sizeof(answer.is_ok), TOPO_BYTE, first, tag, comm_ptr,
                               attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    *is_ok = mpi_errno_ret == MPI_SUCCESS && answer.is_ok;
    return mpi_errno_ret;
}

int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, MPII_Topo_shm_t ** shm_, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_shm_t local = {.num_ranks = num_ranks }, *shm = MPL_malloc(sizeof(*shm), MPL_MEM_SHM);
    bool is_ok, is_counted;

    *shm_ = NULL;
    bytes += head_bytes(num_ranks);
    is_counted = count_memory(bytes, num_ranks);
    is_ok = shm && is_counted;
    while (ranks[local.index] != comm_ptr->rank)
        local.index++;
    mpi_errno = local.index == 0 ?
        offer_memory(comm_ptr, ranks, &local, tag, bytes, &is_ok, attr) :
        accept_memory(comm_ptr, ranks[0], &local, tag, bytes, &is_ok, attr);
    if (is_ok && mpi_errno == MPI_SUCCESS) {
        local.may_spin = ((head_t *) local.base)->may_spin;
        *shm = local;
        *shm_ = shm;
    } else {
        if (local.base)
            munmap(local.base, local.bytes);
        MPL_free(shm);
        if (is_counted)
            MPL_atomic_fetch_sub_int64(&counted, part_of(bytes, num_ranks));
    }
    return mpi_errno;
}

void MPII_Topo_shm_free(MPII_Topo_shm_t * shm)
{
    if (shm == NULL)
        return;
    MPII_Topo_shm_uncount(shm);
    munmap(shm->base, shm->bytes);
    MPL_free(shm);
}
