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

/* Linux has these, but older headers do not. */
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
#define FD_FLAGS 3      /* MFD_CLOEXEC | MFD_ALLOW_SEALING */

#define ALIGN(bytes_) (((bytes_) + 63) & ~(size_t) 63)

/* What the first rank of a host sends to the others: where its memory is, and how to recognize it.
 * If several machines or containers have the same host name, the PID may belong to another process,
 * and the descriptor may be anything. */
typedef struct {
    int64_t pid;                /* -1: there is no memory */
    int64_t fd;
    uint64_t pid_namespace;     /* inode */
    uint64_t device, inode;     /* of the memory's file */
    uint64_t token[2];          /* random bytes at the start of the memory */
} offer_t;

/* Answer of another rank to the first rank */
typedef struct {
    int64_t why;                /* MPII_Topo_shm_why_t */
    MPII_Topo_processors_t processors;
} answer_t;

/* Result that the first rank sends to each other rank */
typedef struct {
    int32_t why;                /* MPII_TOPO_SHM_OK: all ranks have the memory */
    int32_t may_spin;
} verdict_t;

/* Head of the memory; ended, waits_for and waker follow. */
typedef struct {
    uint64_t token[2];
    uint32_t calls;
} head_t;

/* -- creating and opening -- */

static char *map(int fd, size_t bytes)
{
    char *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return mem == MAP_FAILED ? NULL : mem;
}

/* Create memory for the ranks of a host. Returns its file descriptor, or -1. */
static int make(size_t bytes, char **mem)
{
    int fd = -1;

    *mem = NULL;
#ifdef SYS_memfd_create
    struct rlimit limit;
    sigset_t all, old;
    int err;

    /* extending a file beyond the limit would kill the process (SIGXFSZ) */
    if (getrlimit(RLIMIT_FSIZE, &limit) || (limit.rlim_cur != RLIM_INFINITY &&
                                            limit.rlim_cur < bytes))
        return -1;
    fd = syscall(SYS_memfd_create, "mpich", FD_FLAGS);
    if (fd == -1)
        goto fn_fail;
    /* Block signals: on many kernels a signal interrupts the allocation, which then starts from
     * zero. */
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

/* Open the memory that another process offers. O_PATH opens the descriptor without side effects,
 * whatever it is, such as a terminal or a device; then it is checked. */
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
    return ALIGN(sizeof(head_t) + num_ranks * (2 * sizeof(uint32_t) + MPII_TOPO_SHM_NAME_LEN));
}

/* Set the pointers into memory of `bytes` bytes. */
static void set_memory(MPII_Topo_shm_t * shm, char *mem, size_t bytes)
{
    shm->base = mem;
    shm->calls = &((head_t *) mem)->calls;
    shm->ended = (uint32_t *) (mem + sizeof(head_t));
    shm->waits_for = shm->ended + shm->num_ranks;
    shm->waker = (void *) (shm->waits_for + shm->num_ranks);
    shm->mem = mem + head_bytes(shm->num_ranks);
    shm->bytes = bytes;
}

/* -- who may spin -- */

static bool may_use(const MPII_Topo_processors_t * processors, int i)
{
    return processors->bits[i / 64] >> i % 64 & 1;
}

void MPII_Topo_shm_may_spin(const MPII_Topo_processors_t of[], int num, int num_on_node,
                            int num_ranks, bool may_spin[])
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
            /* a sum of thirds may be a little more than 1 */
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

/* Which ranks of a communicator on this host may spin. of[]: their processors. If memory is
 * exhausted, none may. */
static void find_spinners(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks,
                          const MPII_Topo_processors_t of[], bool may_spin[])
{
    int num_neighbours, num = num_ranks;
    const MPII_Topo_neighbour_t *neighbours = MPII_Topo_neighbours(&num_neighbours);
    MPII_Topo_processors_t *all = MPL_malloc((num + num_neighbours) * sizeof(*all), MPL_MEM_SHM);
    /* Each of these numbers may be too small: virtual hosts share a machine, and without shared
     * memory MPICH treats each process as if it were alone. */
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

/* -- the limit for a host -- */

static MPL_atomic_int64_t counted;

static int64_t part_of(size_t bytes, int num_ranks)
{
    return (bytes + num_ranks - 1) / num_ranks;
}

static int64_t limit_of_process(void)
{
    return MPL_MAX(MPIR_CVAR_COLL_TOPO_PLAN_SHM_BYTES, 0) / MPII_Topo_num_on_host();
}

/* -- idle memory -- */

#ifdef __ATOMIC_SEQ_CST
#define LOAD(word) __atomic_load_n(word, __ATOMIC_SEQ_CST)
#define STORE(word, value) __atomic_store_n(word, value, __ATOMIC_SEQ_CST)
#define CAS(word, old, value) \
    __atomic_compare_exchange_n(word, old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#else
/* never used: there is no shared memory without these atomics */
#define LOAD(word) (*(word))
#define STORE(word, value) ((void) (*(word) = (value)))
#define CAS(word, old, value) (*(word) == *(old) && (*(word) = (value), true))
#endif

/* Bit in the number of calls; the number wraps around below it */
#define CLOSED 0x80000000

static MPL_atomic_int64_t clock_of_calls;

/* Unmap the part that was given back. The caller holds the lock, or has begun a call on this
 * memory. */
static void settle(MPII_Topo_shm_t * shm)
{
    int64_t part = part_of(shm->kept, shm->num_ranks);

    if (shm->bytes <= shm->kept)
        return;
    MPL_atomic_fetch_sub_int64(&counted, shm->part - part);
    munmap(shm->base + shm->kept, shm->bytes - shm->kept);
    shm->part = part;
    shm->bytes = shm->kept;
}

bool MPII_Topo_shm_begin(MPII_Topo_shm_t * shm)
{
    uint32_t n = (shm->num_calls + 1) & ~CLOSED, word = LOAD(shm->calls);

    shm->num_calls = n;
    MPL_atomic_store_int64(&shm->last_call, MPL_atomic_fetch_add_int64(&clock_of_calls, 1));
    /* another rank may have begun later calls */
    while (!(word & CLOSED) && (int32_t) ((word - n) << 1) < 0 && !CAS(shm->calls, &word, n));
    if (!(LOAD(shm->calls) & CLOSED))
        return true;
    MPII_Topo_shm_lock();
    settle(shm);
    MPII_Topo_shm_unlock();
    return false;
}

void MPII_Topo_shm_end(MPII_Topo_shm_t * shm)
{
    STORE(&shm->ended[shm->index], shm->num_calls);
}

/* Whether memory is idle. *calls: number of its last call, which all ranks have ended */
static bool is_idle(const MPII_Topo_shm_t * shm, uint32_t * calls)
{
    int64_t idle = MPL_atomic_load_int64(&clock_of_calls) - MPL_atomic_load_int64(&shm->last_call);

    /* Each time memory was taken from a communicator, the communicator may keep its memory idle for
     * longer. Otherwise communicators that are used in turn would take it from each other again and
     * again. */
    if (shm->bytes <= shm->kept || idle < (int64_t) 1 << MPL_MIN(shm->times_given_back, 30))
        return false;
    *calls = LOAD(shm->calls);
    for (int i = 0; i < shm->num_ranks && !(*calls & CLOSED); i++) {
        if (LOAD(&shm->ended[i]) != *calls)
            return false;
    }
    return true;
}

/* Give back memory, unless a rank begins a call at this moment. */
static void take(MPII_Topo_shm_t * shm, uint32_t calls)
{
    if (!(calls & CLOSED)) {
        if (!CAS(shm->calls, &calls, calls | CLOSED))
            return;
        /* free it for all ranks: another rank may not unmap it for a long time */
        madvise(shm->base + shm->kept, shm->bytes - shm->kept, MADV_REMOVE);
    }
    settle(shm);
}

/* Have other communicators give back memory until `part` more bytes fit into the limit. If that is
 * impossible, take nothing. */
static bool take_idle(int64_t part)
{
    int64_t limit = limit_of_process(), sum = 0, oldest_call = 0;
    MPII_Topo_shm_t *all = MPII_Topo_shm_lock(), *oldest = NULL;
    uint32_t calls, calls_of_oldest = 0;

    for (MPII_Topo_shm_t * shm = all; shm; shm = shm->next) {
        if (is_idle(shm, &calls))
            sum += shm->part - part_of(shm->kept, shm->num_ranks);
    }
    while (MPL_atomic_load_int64(&counted) - sum + part <= limit &&
           MPL_atomic_load_int64(&counted) + part > limit) {
        oldest = NULL;
        for (MPII_Topo_shm_t * shm = all; shm; shm = shm->next) {
            int64_t last_call = MPL_atomic_load_int64(&shm->last_call);
            if ((oldest == NULL || last_call < oldest_call) && is_idle(shm, &calls)) {
                oldest = shm;
                oldest_call = last_call;
                calls_of_oldest = calls;
            }
        }
        if (oldest == NULL)
            break;
        sum -= oldest->part - part_of(oldest->kept, oldest->num_ranks);
        take(oldest, calls_of_oldest);
    }
    MPII_Topo_shm_unlock();
    return MPL_atomic_load_int64(&counted) + part <= limit;
}

static bool add_part(int64_t part)
{
    if (MPL_atomic_fetch_add_int64(&counted, part) + part <= limit_of_process())
        return true;
    MPL_atomic_fetch_sub_int64(&counted, part);
    return false;
}

/* Count memory. Returns false if it exceeds the limit. */
static bool count_memory(int64_t part)
{
    return add_part(part) || (take_idle(part) && add_part(part));
}

void MPII_Topo_shm_uncount(const MPII_Topo_shm_t * shm)
{
    if (shm)
        MPL_atomic_fetch_sub_int64(&counted, shm->part);
}

void MPII_Topo_shm_recount(const MPII_Topo_shm_t * shm)
{
    if (shm)
        MPL_atomic_fetch_add_int64(&counted, shm->part);
}

/* -- creation: the first rank offers memory, the others try to open it, and the first rank tells
 * them whether all have it -- */

static int offer_memory(MPIR_Comm * comm_ptr, const int ranks[], MPII_Topo_shm_t * shm, int tag,
                        size_t bytes, MPII_Topo_shm_why_t * why, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    offer_t offer = {.pid = -1 };
    answer_t answer;
    verdict_t verdict;
    bool is_ok;
    struct stat info;
    char *mem = NULL;
    int fd = -1;
    MPII_Topo_processors_t *of = MPL_malloc(shm->num_ranks * sizeof(*of), MPL_MEM_SHM);
    bool *may_spin = MPL_malloc(shm->num_ranks * sizeof(bool), MPL_MEM_SHM);

    if (*why == MPII_TOPO_SHM_OK && of && may_spin)
        fd = make(bytes, &mem);
    is_ok = fd != -1 && fstat(fd, &info) == 0;
    if (mem)
        set_memory(shm, mem, bytes);
    if (is_ok) {
        offer.pid = getpid();
        offer.fd = fd;
        offer.pid_namespace = pid_namespace();
        offer.device = info.st_dev;
        offer.inode = info.st_ino;
        MPII_Topo_shm_get_token(offer.token);
        memcpy(((head_t *) mem)->token, offer.token, sizeof(offer.token));
        *shm->calls = 1;
        is_ok = MPII_Topo_shm_name_waker(shm->waker[shm->index]) == 0;
    }
    if (!is_ok && *why == MPII_TOPO_SHM_OK)
        *why = MPII_TOPO_SHM_CANNOT;
    for (int i = 1; i < shm->num_ranks; i++) {
        mpi_errno = MPIC_Send(&offer, sizeof(offer), TOPO_BYTE, ranks[i], tag, comm_ptr,
                              TOPO_COLL_ATTR);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    }
    for (int i = 1; i < shm->num_ranks; i++) {
        mpi_errno = MPII_Topo_recv(&answer, sizeof(answer), TOPO_BYTE, ranks[i], tag, comm_ptr,
                                   attr);
        TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
        *why = MPL_MAX(*why, mpi_errno ? MPII_TOPO_SHM_CANNOT : (MPII_Topo_shm_why_t) answer.why);
        if (*why == MPII_TOPO_SHM_OK)
            of[i] = answer.processors;
    }
    is_ok = *why == MPII_TOPO_SHM_OK;
    if (is_ok) {
        MPII_Topo_find_processors(&of[0]);
        find_spinners(comm_ptr, ranks, shm->num_ranks, of, may_spin);
        shm->may_spin = may_spin[0];
    }
    for (int i = 1; i < shm->num_ranks; i++) {
        verdict.why = *why;
        verdict.may_spin = is_ok && may_spin[i];
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
                         size_t bytes, MPII_Topo_shm_why_t * why, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    int mpi_errno_ret = MPI_SUCCESS;
    offer_t offer = {.pid = -1 };
    answer_t answer = {.why = *why };
    verdict_t verdict = {.why = MPII_TOPO_SHM_CANNOT };
    char *mem = NULL;

    mpi_errno = MPII_Topo_recv(&offer, sizeof(offer), TOPO_BYTE, first, tag, comm_ptr, attr);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    if (*why == MPII_TOPO_SHM_OK && mpi_errno == MPI_SUCCESS)
        mem = open_offer(&offer, bytes);
    if (mem)
        set_memory(shm, mem, bytes);
    /* if there is no offer, the first rank has the reason already */
    if (*why == MPII_TOPO_SHM_OK && offer.pid != -1 &&
        !(mem && MPII_Topo_shm_name_waker(shm->waker[shm->index]) == 0 &&
          MPII_Topo_shm_is_alive(shm->waker[0])))
        answer.why = MPII_TOPO_SHM_CANNOT;
    MPII_Topo_find_processors(&answer.processors);
    mpi_errno = MPIC_Send(&answer, sizeof(answer), TOPO_BYTE, first, tag, comm_ptr, TOPO_COLL_ATTR);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    mpi_errno = MPII_Topo_recv(&verdict, sizeof(verdict), TOPO_BYTE, first, tag, comm_ptr, attr);
    MPII_TOPO_NEED_MESSAGE(mpi_errno);
    TOPO_CHECK_AND_CONTINUE(mpi_errno, mpi_errno_ret);
    *why = mpi_errno_ret ? MPII_TOPO_SHM_CANNOT : (MPII_Topo_shm_why_t) verdict.why;
    shm->may_spin = verdict.may_spin;
    return mpi_errno_ret;
}

int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int num_ranks, int tag,
                         size_t bytes, size_t kept, MPII_Topo_shm_t ** shm_,
                         MPII_Topo_shm_why_t * why, MPII_Topo_attr_t * attr)
{
    int mpi_errno = MPI_SUCCESS;
    MPII_Topo_shm_t local = {.num_ranks = num_ranks,.revoked = &comm_ptr->revoked,.num_calls = 1 };
    MPII_Topo_shm_t *shm = MPL_malloc(sizeof(*shm), MPL_MEM_SHM);
    size_t page = sysconf(_SC_PAGESIZE);
    bool is_counted;

    *shm_ = NULL;
    bytes += head_bytes(num_ranks);
    local.kept = (head_bytes(num_ranks) + kept + page - 1) / page * page;
    local.part = part_of(bytes, num_ranks);
    MPL_atomic_store_int64(&local.last_call, MPL_atomic_fetch_add_int64(&clock_of_calls, 1));
    is_counted = count_memory(local.part);
    *why = !is_counted ? MPII_TOPO_SHM_LIMIT : shm ? MPII_TOPO_SHM_OK : MPII_TOPO_SHM_CANNOT;
    while (ranks[local.index] != comm_ptr->rank)
        local.index++;
    mpi_errno = local.index == 0 ?
        offer_memory(comm_ptr, ranks, &local, tag, bytes, why, attr) :
        accept_memory(comm_ptr, ranks[0], &local, tag, bytes, why, attr);
    if (*why == MPII_TOPO_SHM_OK && mpi_errno == MPI_SUCCESS) {
        *shm = local;
        MPII_Topo_shm_enter(shm);
        *shm_ = shm;
    } else {
        if (local.base)
            munmap(local.base, local.bytes);
        MPL_free(shm);
        if (is_counted)
            MPL_atomic_fetch_sub_int64(&counted, local.part);
    }
    return mpi_errno;
}

void MPII_Topo_shm_free(MPII_Topo_shm_t * shm)
{
    if (shm == NULL)
        return;
    MPII_Topo_shm_leave(shm);
    MPII_Topo_shm_uncount(shm);
    munmap(shm->base, shm->bytes);
    MPL_free(shm);
}

void MPII_Topo_shm_finalize(void)
{
    /* for communicators that were never freed */
    MPII_Topo_shm_leave_all();
    MPL_atomic_store_int64(&counted, 0);
}
