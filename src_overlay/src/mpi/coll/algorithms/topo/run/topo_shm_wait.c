/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "topo_shm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/timerfd.h>
#include <sys/random.h>
#endif

/* Waiting for a counter in shared memory, while messages, one-sided communication and other threads
 * make progress.
 *
 * A process that waits first spins for a moment, if the processors suffice
 * (MPII_Topo_shm_may_spin). If the device can be woken by a descriptor (MPID_HAS_PROGRESS_WAKER),
 * the process then announces in shared memory that it sleeps, and sleeps in MPID_Progress_wait,
 * which also handles incoming messages. The rank that brings the counter to its target finds the
 * sleepers there and sends to their sockets. With other devices the process polls, as these devices
 * do in every wait.
 *
 * No wake-up is lost. A sleeper writes waits_for and then reads the counter. The rank that counts
 * writes the counter and then reads waits_for. Both are sequentially consistent, so at least one
 * sees the other's write. The rank that wakes a process clears its waits_for, so there is one
 * wake-up for each sleep. A datagram stays in the socket until the device has read it, and then
 * MPID_Progress_wait returns. If the queue of the socket is full, the datagram is not needed:
 * others are in the queue.
 *
 * The socket of a process disappears when the process dies. A process that waits checks once a
 * second whether the sockets of the ranks of its host still exist. A timer wakes it for that; it
 * then also notices that its communicator was revoked. */

#define LOOK_SECONDS 1

/* Limit for spinning: a process that spins makes no progress on other communication, for which a
 * rank of its host may be waiting. */
#define MOST_SPIN_USEC 1000

#if defined(__linux__) && defined(__ATOMIC_SEQ_CST)
#define HAVE_WAKER
#endif

/* Sequentially consistent, so that all processes see these accesses in one order. */
#ifdef __ATOMIC_SEQ_CST
#define LOAD(word) __atomic_load_n(word, __ATOMIC_SEQ_CST)
#define STORE(word, value) __atomic_store_n(word, value, __ATOMIC_SEQ_CST)
#define FETCH_ADD(word, value) __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST)
#define CAS(word, old, value) \
    __atomic_compare_exchange_n(word, old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#else
/* never used: there is no shared memory without these atomics */
#define LOAD(word) (*(word))
#define STORE(word, value) ((void) (*(word) = (value)))
#define FETCH_ADD(word, value) ((*(word))++)
#define CAS(word, old, value) (*(word) == *(old) && (*(word) = (value), true))
#endif

/* -- the waker of this process -- */

static struct {
    int fd, timer;              /* -1: not created */
    bool is_made;
    char name[MPII_TOPO_SHM_NAME_LEN];
    double timer_at;            /* when the timer expires, or has expired */
} waker = {.fd = -1,.timer = -1 };

static pthread_mutex_t waker_mutex = PTHREAD_MUTEX_INITIALIZER;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

void MPII_Topo_shm_get_token(uint64_t token[2])
{
#ifdef HAVE_WAKER
    if (getrandom(token, 2 * sizeof(uint64_t), GRND_NONBLOCK) == 2 * sizeof(uint64_t))
        return;
#endif
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    token[0] = (uint64_t) t.tv_sec << 32 ^ (uint64_t) t.tv_nsec;
    token[1] = (uint64_t) getpid() << 32 ^ (uint64_t) (uintptr_t) token;
}

#ifdef HAVE_WAKER

/* Address in the abstract namespace: it belongs to no file system, and disappears with its
 * owner. */
static socklen_t set_address(struct sockaddr_un *address, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, MPII_TOPO_SHM_NAME_LEN);
    return offsetof(struct sockaddr_un, sun_path) + 1 + MPII_TOPO_SHM_NAME_LEN;
}

/* Whether enough descriptors are left for connections, after this one. A process does not connect
 * to very many others, so some are enough. */
#define MAX_CONNECTIONS 64
static bool are_others_left(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        (rlim_t) fd + 4 + MPL_MIN(MPIR_Process.size, MAX_CONNECTIONS) <= limit.rlim_cur;
}

static int make_waker(void)
{
    struct sockaddr_un address;
    socklen_t len;
    uint64_t token[2];

    MPII_Topo_shm_get_token(token);
    memset(waker.name, 0, sizeof(waker.name));
    snprintf(waker.name, sizeof(waker.name), "mpich-%08x%016llx", (unsigned) token[0],
             (unsigned long long) token[1]);
    waker.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    waker.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    len = set_address(&address, waker.name);
    if (waker.fd == -1 || waker.timer == -1 || !are_others_left(MPL_MAX(waker.fd, waker.timer)) ||
        bind(waker.fd, (struct sockaddr *) &address, len))
        return -1;
#ifdef MPID_HAS_PROGRESS_WAKER
    if (MPID_Progress_add_waker(waker.fd) || MPID_Progress_add_waker(waker.timer))
        return -1;
#endif
    waker.timer_at = 0;
    waker.is_made = true;
    return 0;
}

#else

static int make_waker(void)
{
    return -1;
}

#endif /* HAVE_WAKER */

int MPII_Topo_shm_name_waker(char name[MPII_TOPO_SHM_NAME_LEN])
{
    int ret = 0;

    pthread_mutex_lock(&waker_mutex);
    /* try only once: after a failure the device may already have one of the descriptors */
    if (waker.fd == -1 && waker.timer == -1)
        ret = make_waker();
    memcpy(name, waker.name, sizeof(waker.name));
    if (!waker.is_made)
        ret = -1;
    pthread_mutex_unlock(&waker_mutex);
    return ret;
}

static MPII_Topo_shm_t *entered;

void MPII_Topo_shm_enter(MPII_Topo_shm_t * shm)
{
    pthread_mutex_lock(&waker_mutex);
    shm->next = entered;
    entered = shm;
    pthread_mutex_unlock(&waker_mutex);
}

void MPII_Topo_shm_leave(MPII_Topo_shm_t * shm)
{
    MPII_Topo_shm_t **at = &entered;

    STORE(&shm->waker[shm->index][0], 0);
    pthread_mutex_lock(&waker_mutex);
    while (*at && *at != shm)
        at = &(*at)->next;
    if (*at)
        *at = shm->next;
    pthread_mutex_unlock(&waker_mutex);
}

MPII_Topo_shm_t *MPII_Topo_shm_lock(void)
{
    pthread_mutex_lock(&waker_mutex);
    return entered;
}

void MPII_Topo_shm_unlock(void)
{
    pthread_mutex_unlock(&waker_mutex);
}

void MPII_Topo_shm_leave_all(void)
{
    while (entered)
        MPII_Topo_shm_leave(entered);
    if (waker.fd != -1)
        close(waker.fd);
    if (waker.timer != -1)
        close(waker.timer);
    waker.fd = waker.timer = -1;
    waker.is_made = false;
}

/* -- other processes -- */

bool MPII_Topo_shm_is_alive(const char name[MPII_TOPO_SHM_NAME_LEN])
{
    bool is_alive = true;
#ifdef HAVE_WAKER
    struct sockaddr_un address;
    socklen_t len = set_address(&address, name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd == -1)
        return true;
    is_alive = connect(fd, (struct sockaddr *) &address, len) == 0 || errno != ECONNREFUSED;
    close(fd);
#endif
    return is_alive;
}

static void wake(const char name[MPII_TOPO_SHM_NAME_LEN])
{
#ifdef HAVE_WAKER
    struct sockaddr_un address;
    socklen_t len = set_address(&address, name);
    char c = 0;

    while (sendto(waker.fd, &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *) &address, len)
           == -1 && errno == EINTR);
#endif
}

/* A process that leaves clears its name first. */
static bool is_dead(const char name[MPII_TOPO_SHM_NAME_LEN])
{
    return LOAD(&name[0]) && !MPII_Topo_shm_is_alive(name) && LOAD(&name[0]);
}

int MPII_Topo_shm_check(const MPII_Topo_shm_t * shm)
{
    int mpi_errno = MPI_SUCCESS;

    if (shm->is_broken)
        MPIR_ERR_SET(mpi_errno, MPIX_ERR_PROC_FAILED, "**fail");
    return mpi_errno;
}

static int find_dead(MPII_Topo_shm_t * shm)
{
    for (int i = 0; i < shm->num_ranks && !shm->is_broken; i++)
        shm->is_broken = i != shm->index && is_dead(shm->waker[i]);
    return MPII_Topo_shm_check(shm);
}

/* Whether the communicator was revoked: other ranks have left the call, or will. */
static int find_revoked(MPII_Topo_shm_t * shm)
{
    int mpi_errno = MPI_SUCCESS;

    if (*shm->revoked) {
        shm->is_broken = true;
        MPIR_ERR_SET(mpi_errno, MPIX_ERR_REVOKED, "**revoked");
    }
    return mpi_errno;
}

/* -- counters -- */

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH >= 7)
    __asm__ __volatile__("yield":::"memory");
#elif defined(__powerpc__) || defined(__powerpc64__)
    /* low priority, and back to normal */
    __asm__ __volatile__("or 1,1,1\n\tor 2,2,2":::"memory");
#endif
}

uint32_t MPII_Topo_shm_count_of(const MPII_Topo_shm_counter_t * counter)
{
    return LOAD(&counter->count);
}

bool MPII_Topo_shm_is_reached(const MPII_Topo_shm_counter_t * counter, uint32_t target)
{
    return (int32_t) (LOAD(&counter->count) - target) >= 0;
}

/* A counter and its target */
typedef struct {
    const MPII_Topo_shm_counter_t *counter;
    uint32_t target;
} goal_t;

static bool is_reached(const void *data)
{
    const goal_t *goal = data;
    return MPII_Topo_shm_is_reached(goal->counter, goal->target);
}

/* Value of waits_for for a rank that waits for any counter */
#define ANY_PLACE 1
/* Value of waits_for for a rank that waits for this counter; never 0 or ANY_PLACE */
static uint32_t place_of(const MPII_Topo_shm_t * shm, const MPII_Topo_shm_counter_t * counter)
{
    return (char *) counter - (char *) shm->waits_for;
}

/* Wake a rank that waits for a counter. */
static void tell(MPII_Topo_shm_t * shm, const MPII_Topo_shm_counter_t * counter, int index)
{
    uint32_t place = LOAD(&shm->waits_for[index]);

    /* One wake-up is enough until it sleeps again. */
    if ((place == ANY_PLACE || place == place_of(shm, counter)) &&
        CAS(&shm->waits_for[index], &place, 0))
        wake(shm->waker[index]);
}

bool MPII_Topo_shm_count(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter, uint32_t target)
{
    if (FETCH_ADD(&counter->count, 1) + 1 != target)
        return false;
    for (int i = 0; i < shm->num_ranks; i++) {
        if (i != shm->index)
            tell(shm, counter, i);
    }
    return true;
}

bool MPII_Topo_shm_count_for(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter,
                             uint32_t target, int index)
{
    if (FETCH_ADD(&counter->count, 1) + 1 != target)
        return false;
    tell(shm, counter, index);
    return true;
}

static bool spin(const MPII_Topo_shm_t * shm, bool (*is_over)(const void *), const void *data)
{
    double end;

    if (is_over(data))
        return true;
    if (!shm->may_spin || MPIR_CVAR_COLL_TOPO_SPIN_USEC <= 0)
        return false;
    end = now() + MPL_MIN(MPIR_CVAR_COLL_TOPO_SPIN_USEC, MOST_SPIN_USEC) * 1e-6;
    do {
        for (int i = 0; i < 64; i++) {
            if (is_over(data))
                return true;
            pause_core();
        }
    } while (now() < end);
    return false;
}

#ifdef MPID_HAS_PROGRESS_WAKER

/* Let MPID_Progress_wait return after LOOK_SECONDS at the latest. */
static void set_timer(double time)
{
#ifdef HAVE_WAKER
    struct itimerspec spec = {.it_value.tv_sec = LOOK_SECONDS };

    pthread_mutex_lock(&waker_mutex);
    if (time >= waker.timer_at && timerfd_settime(waker.timer, 0, &spec, NULL) == 0)
        waker.timer_at = time + LOOK_SECONDS;
    pthread_mutex_unlock(&waker_mutex);
#endif
}

static int sleep_until(MPII_Topo_shm_t * shm, uint32_t place, bool (*is_over)(const void *),
                       const void *data)
{
    int mpi_errno = MPI_SUCCESS;
    uint32_t *waits_for = &shm->waits_for[shm->index];
    double time = now(), next_look = time + LOOK_SECONDS;
    MPID_Progress_state state;

    MPID_Progress_start(&state);
    while (true) {
        STORE(waits_for, place);
        if (is_over(data))
            break;
        set_timer(time);
        mpi_errno = MPID_Progress_wait(&state);
        if (mpi_errno == MPI_SUCCESS && !is_over(data))
            mpi_errno = find_revoked(shm);
        if (mpi_errno)
            break;
        time = now();
        if (time >= next_look && !is_over(data)) {
            next_look = time + LOOK_SECONDS;
            mpi_errno = find_dead(shm);
            if (mpi_errno)
                break;
        }
    }
    STORE(waits_for, 0);
    MPID_Progress_end(&state);
    return mpi_errno;
}

#else

static int sleep_until(MPII_Topo_shm_t * shm, uint32_t place, bool (*is_over)(const void *),
                       const void *data)
{
    int mpi_errno = MPI_SUCCESS;
    double next_look = now() + LOOK_SECONDS;

    while (mpi_errno == MPI_SUCCESS && !is_over(data)) {
        mpi_errno = MPID_Progress_test(NULL);
        MPID_THREAD_CS_YIELD(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
        if (!shm->may_spin)
            MPL_sched_yield();
        if (mpi_errno == MPI_SUCCESS && !is_over(data))
            mpi_errno = find_revoked(shm);
        if (mpi_errno == MPI_SUCCESS && now() >= next_look) {
            next_look = now() + LOOK_SECONDS;
            mpi_errno = find_dead(shm);
        }
    }
    return mpi_errno;
}

#endif /* MPID_HAS_PROGRESS_WAKER */

static int wait_for(MPII_Topo_shm_t * shm, uint32_t place, bool (*is_over)(const void *),
                    const void *data)
{
    int mpi_errno = MPI_SUCCESS;

    if (!shm->is_broken && spin(shm, is_over, data))
        return MPI_SUCCESS;
    mpi_errno = find_revoked(shm);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = MPII_Topo_shm_check(shm);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = sleep_until(shm, place, is_over, data);
    return mpi_errno;
}

int MPII_Topo_shm_wait(MPII_Topo_shm_t * shm, MPII_Topo_shm_counter_t * counter, uint32_t target)
{
    goal_t goal = { counter, target };

    return wait_for(shm, place_of(shm, counter), is_reached, &goal);
}

int MPII_Topo_shm_wait_until(MPII_Topo_shm_t * shm, bool (*is_over)(const void *data),
                             const void *data)
{
    return wait_for(shm, ANY_PLACE, is_over, data);
}
