/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo.h"
#include "topo_shm.h"

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
    MPII_Topo_processors_t processors;
} answer_t;

/* And what it tells each of them */
typedef struct {
    int32_t is_ok;              /* all have the memory */
    int32_t may_spin;
} verdict_t;

/* At the beginning of the memory; waits_for and wakers follow. */
typedef struct {
    uint64_t token[2];
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

/* -- who may spin -- */

static bool may_use(const MPII_Topo_processors_t * processors, int i)
{
    return processors->bits[i / 64] >> i % 64 & 1;
}

void MPII_Topo_shm_may_spin(const MPII_Topo_processors_t of[], int num, int num_on_node, int num_ranks,
                            bool may_spin[])
{
    double load[1024] = { 0 };

    for (int k = 0; k < num; k++) {
        int count = 0;
        for (int i = 0; i < 1024; i++)
            count += may_use(&of[k], i);
        for (int i = 0; i < 1024; i++)
            load[i] += may_use(&of[k], i) ? 1.0 / count : 0;
    }
    for (int k = 0; k < num_ranks; k++) {
        bool is_known = false, is_crowded = false;
        for (int i = 0; i < 1024; i++) {
            is_known = is_known || may_use(&of[k], i);
            /* thirds may add up to a little more than 1 */
            is_crowded = is_crowded || (may_use(&of[k], i) && load[i] > 1.001);
        }
        may_spin[k] = is_known && !is_crowded && num_on_node <= sysconf(_SC_NPROCESSORS_ONLN);
    }
}

static bool is_member(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, uint64_t world_rank)
{
    for (int i = 0; i < num_ranks; i++) {
        if (MPII_Topo_world_rank(comm_ptr, ranks[i], false) == world_rank)
            return true;
    }
    return false;
}

/* of: the processors of the ranks of a communicator on this host. Where there is no memory none may spin. */
static void find_spinners(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks,
                          const MPII_Topo_processors_t of[], bool may_spin[])
{
    int num_neighbours, num = num_ranks;
    const MPII_Topo_neighbour_t *neighbours = MPII_Topo_neighbours(&num_neighbours);
    MPII_Topo_processors_t *all = MPL_malloc((num + num_neighbours) * sizeof(*all), MPL_MEM_SHM);
    /* either may tell of too few: virtual hosts share a machine; without shared memory of its own MPICH sees
     * each process alone */
    int on_host = MPL_MAX(MPIR_Process.local_size, MPII_Topo_num_on_host());

    memset(may_spin, 0, num_ranks * sizeof(bool));
    if (all == NULL)
        return;
    memcpy(all, of, num_ranks * sizeof(*all));
    for (int i = 0; i < num_neighbours; i++) {
        if (!is_member(comm_ptr, ranks, num_ranks, neighbours[i].rank))
            all[num++] = neighbours[i].processors;
    }
    MPII_Topo_shm_may_spin(all, num, on_host, num_ranks, may_spin);
    MPL_free(all);
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
    answer_t answer;
    verdict_t verdict;
    struct stat info;
    char *mem = NULL;
    int fd = -1;
    MPII_Topo_processors_t *of = MPL_malloc(shm->num_ranks * sizeof(*of), MPL_MEM_SHM);
    bool *may_spin = MPL_malloc(shm->num_ranks * sizeof(bool), MPL_MEM_SHM);

    if (*is_ok && of && may_spin)
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
    for (int i = 1; i < shm->num_ranks; i++) {
        mpi_errno = MPII_Topo_recv(&answer, sizeof(answer), TOPO_BYTE, ranks[i], tag, comm_ptr,
                                   attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        *is_ok = *is_ok && mpi_errno == MPI_SUCCESS && answer.is_ok;
        if (*is_ok)
            of[i] = answer.processors;
    }
    if (*is_ok) {
        MPII_Topo_find_processors(&of[0]);
        find_spinners(comm_ptr, ranks, shm->num_ranks, of, may_spin);
        shm->may_spin = may_spin[0];
    }
    for (int i = 1; i < shm->num_ranks; i++) {
        verdict.is_ok = *is_ok;
        verdict.may_spin = *is_ok && may_spin[i];
        mpi_errno = MPIC_Send(&verdict, sizeof(verdict), TOPO_BYTE, ranks[i], tag, comm_ptr,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    if (fd != -1)
        close(fd);
    MPL_free(of);
    MPL_free(may_spin);
    return mpi_errno_ret;
}

static int accept_memory(MPIR_Comm * comm_ptr, int first, MPII_Topo_shm_t * shm, int tag,
                         size_t bytes, bool *is_ok, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    offer_t offer = {.pid = -1 };
    answer_t answer;
    verdict_t verdict = { 0 };
    char *mem = NULL;

    mpi_errno = MPII_Topo_recv(&offer, sizeof(offer), TOPO_BYTE, first, tag, comm_ptr, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (*is_ok && mpi_errno == MPI_SUCCESS)
        mem = open_offer(&offer, bytes);
    if (mem)
        set_memory(shm, mem, bytes);
    answer.is_ok = mem && MPII_Topo_shm_name_waker(shm->waker[shm->index]) == 0 &&
        MPII_Topo_shm_is_alive(shm->waker[0]);
    MPII_Topo_find_processors(&answer.processors);
    mpi_errno = MPIC_Send(&answer, sizeof(answer), TOPO_BYTE, first, tag, comm_ptr, TOPO_COLL_ATTR);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = MPII_Topo_recv(&verdict, sizeof(verdict), TOPO_BYTE, first, tag, comm_ptr, attr);
    MPII_TOPO_NEED_MESSAGE(mpi_errno);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    *is_ok = mpi_errno_ret == MPI_SUCCESS && verdict.is_ok;
    shm->may_spin = verdict.may_spin;
    return mpi_errno_ret;
}

int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, MPII_Topo_shm_t ** shm_, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_shm_t local = {.num_ranks = num_ranks,.revoked = &comm_ptr->revoked }, *shm = MPL_malloc(sizeof(*shm), MPL_MEM_SHM);
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
        *shm = local;
        MPII_Topo_shm_enter(shm);
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
    MPII_Topo_shm_leave(shm);
    munmap(shm->base, shm->bytes);
    MPL_free(shm);
}
