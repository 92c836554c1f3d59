/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Checks the counters in shared memory (topo_shm_wait.c) and the pipes between the ranks of a host
 * (topo_pipe.c). Ranks are processes, as they are in MPICH, or threads, for ThreadSanitizer. What
 * they hand on are plain words, each with the round it belongs to: who reads too early, or too late,
 * finds another one.
 *
 * usage: topo_shm processes|threads counters|pipes|once|dead RANKS ROUNDS SPIN_USEC SEED */

#define _GNU_SOURCE
#include "mpiimpl.h"
#include "topo.h"
#include "topo_shm.h"
#include "topo_pipe.h"
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MAX_RANKS 16
#define BLOCK 100       /* bytes; no multiple of a cache line */

int MPIR_CVAR_COLL_TOPO_SPIN_USEC;
MPII_Topo_counter_t MPII_Topo_shm_messages;

const MPII_Topo_settings_t *MPII_Topo_comm_settings(const MPIR_Comm * comm_ptr)
{
    static const MPII_Topo_settings_t settings = {.tree_shm_bytes = 128 };

    (void) comm_ptr;
    return &settings;
}

static bool with_threads;
static int num_ranks, num_rounds;
static unsigned seed;

/* What the ranks share, beside the memory under test */
static struct shared {
    struct {
        uint32_t is_full;
        char data[64];
    } mail[MAX_RANKS][MAX_RANKS];
    uint32_t waits_for[MAX_RANKS], num_ready;
    char waker[MAX_RANKS][MPII_TOPO_SHM_NAME_LEN];
    MPII_Topo_shm_counter_t counter[3];
    int value[2][MAX_RANKS], result[2];
    char mem[1 << 16] __attribute__((aligned(64)));
} *shared;

static void check(bool ok, const char *what, int rank, long round, long found)
{
    if (ok)
        return;
    printf("failed: %s: rank %d, round %ld, found %ld\n", what, rank, round, found);
    fflush(stdout);
    _exit(1);
}

/* The same on all ranks */
static unsigned choose(int round, unsigned n)
{
    uint64_t x = (seed * 1000003ull + round) * 0x9E3779B97F4A7C15ull;

    return (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull >> 33 % n;
}

/* Some ranks are late in some rounds, so that the others sleep. */
static void dawdle(int rank, int round)
{
    unsigned r = choose(round * MAX_RANKS + rank, 1u << 20) % 64;

    if (r < 3)
        usleep(r * 500);
    else if (r < 8)
        sched_yield();
}

/* ---------------------------------------------------------------- MPICH */

static int wakers[8], num_wakers;
static pthread_mutex_t device_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t device_cond = PTHREAD_COND_INITIALIZER;
static long num_wakes;

static void wait_for_wakers(void)
{
    struct pollfd fds[8];
    char buf[64];

    for (int i = 0; i < num_wakers; i++)
        fds[i] = (struct pollfd) {.fd = wakers[i],.events = POLLIN };
    poll(fds, num_wakers, -1);
    for (int i = 0; i < num_wakers; i++)
        while (fds[i].revents & POLLIN && read(fds[i].fd, buf, sizeof(buf)) > 0);
}

/* Threads have one device, which wakes them all. */
static void *run_device(void *arg)
{
    while (true) {
        wait_for_wakers();
        pthread_mutex_lock(&device_mutex);
        num_wakes++;
        pthread_cond_broadcast(&device_cond);
        pthread_mutex_unlock(&device_mutex);
    }
    return arg;
}

int MPID_Progress_add_waker(int fd)
{
    wakers[num_wakers++] = fd;
    return MPI_SUCCESS;
}

void MPID_Progress_start(MPID_Progress_state * state)
{
    pthread_mutex_lock(&device_mutex);
    state->seen = num_wakes;
    pthread_mutex_unlock(&device_mutex);
}

int MPID_Progress_wait(MPID_Progress_state * state)
{
    if (!with_threads) {
        wait_for_wakers();
        return MPI_SUCCESS;
    }
    pthread_mutex_lock(&device_mutex);
    while (num_wakes == state->seen)
        pthread_cond_wait(&device_cond, &device_mutex);
    state->seen = num_wakes;
    pthread_mutex_unlock(&device_mutex);
    return MPI_SUCCESS;
}

static void await(uint32_t * word, uint32_t value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        sched_yield();
}

/* All ranks have been here `times` times. */
static void meet(uint32_t times)
{
    __atomic_fetch_add(&shared->num_ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&shared->num_ready, __ATOMIC_SEQ_CST) < times * num_ranks)
        sched_yield();
}

int MPIC_Send(const void *buf, MPI_Aint count, MPI_Datatype type, int to, int tag, MPIR_Comm * comm,
              MPIR_Errflag_t * errflag)
{
    (void) tag, (void) errflag;
    await(&shared->mail[comm->rank][to].is_full, 0);
    memcpy(shared->mail[comm->rank][to].data, buf, count * type);
    __atomic_store_n(&shared->mail[comm->rank][to].is_full, 1, __ATOMIC_RELEASE);
    return MPI_SUCCESS;
}

int MPII_Topo_recv(void *buf, MPI_Aint count, MPI_Datatype type, int from, int tag, MPIR_Comm * comm,
                   MPII_Topo_attr_t * attr)
{
    (void) tag, (void) attr;
    await(&shared->mail[from][comm->rank].is_full, 1);
    memcpy(buf, shared->mail[from][comm->rank].data, count * type);
    __atomic_store_n(&shared->mail[from][comm->rank].is_full, 0, __ATOMIC_RELEASE);
    return MPI_SUCCESS;
}

int MPIR_Localcopy(const void *from, MPI_Aint from_count, MPI_Datatype from_type, void *to,
                   MPI_Aint to_count, MPI_Datatype to_type)
{
    MPIR_Assert(from_count * from_type <= to_count * to_type);
    memcpy(to, from, from_count * from_type);
    return MPI_SUCCESS;
}

int MPIR_Typerep_copy(void *to, const void *from, MPI_Aint bytes)
{
    memcpy(to, from, bytes);
    return MPI_SUCCESS;
}

int MPIR_Reduce_local(const void *in, void *inout, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    (void) in, (void) inout, (void) count, (void) type, (void) op;
    check(false, "a sum that nobody wants", -1, 0, 0);
    return MPI_SUCCESS;
}

void MPII_Topo_out_of_memory(const char *where)
{
    check(false, where, -1, 0, 0);
}

/* ---------------------------------------------------------------- memory */

__typeof__(MPIR_Process) MPIR_Process;

/* In place of topo_shm.c */
int MPII_Topo_shm_create(MPIR_Comm * comm_ptr, const int ranks[], int n, int tag, size_t bytes,
                         size_t kept, MPII_Topo_shm_t ** shm_, MPII_Topo_shm_why_t * why,
                         MPII_Topo_attr_t * attr)
{
    MPII_Topo_shm_t *shm = calloc(1, sizeof(*shm));

    (void) ranks, (void) tag, (void) kept, (void) attr;
    *why = MPII_TOPO_SHM_OK;
    MPIR_Assert(n == num_ranks && bytes <= sizeof(shared->mem));
    shm->num_ranks = num_ranks;
    shm->index = comm_ptr->rank;
    shm->mem = shared->mem;
    shm->bytes = bytes;
    shm->waits_for = shared->waits_for;
    shm->waker = shared->waker;
    shm->revoked = &comm_ptr->revoked;
    shm->may_spin = MPIR_CVAR_COLL_TOPO_SPIN_USEC > 0;
    check(MPII_Topo_shm_name_waker(shm->waker[shm->index]) == 0, "no socket", shm->index, 0, 0);
    meet(1);    /* all have named theirs */
    *shm_ = shm;
    return MPI_SUCCESS;
}

void MPII_Topo_shm_free(MPII_Topo_shm_t * shm)
{
    free(shm);
}

/* Nobody takes it here. */
bool MPII_Topo_shm_begin(MPII_Topo_shm_t * shm)
{
    return shm != NULL;
}

void MPII_Topo_shm_end(MPII_Topo_shm_t * shm)
{
    (void) shm;
}

/* ---------------------------------------------------------------- tests */

static void wait_for(MPII_Topo_shm_t * shm, int k, uint32_t target, int round)
{
    int err = MPII_Topo_shm_wait(shm, &shared->counter[k], target);

    check(err == MPI_SUCCESS, "wait", shm->index, round, err);
}

/* All hand on to all, then one collects and hands out: the counters begin where they wrap around,
 * and in the middle. */
static void run_counters(MPIR_Comm * comm)
{
    const uint32_t starts[3] = { 0u, 0x80000000u - 20 * num_ranks, 0u - 20 * num_ranks };
    int attr = 0, ranks[MAX_RANKS] = { 0 };
    int me = comm->rank, n = num_ranks;
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_why_t why;

    MPII_Topo_shm_create(comm, ranks, n, 0, 0, 0, &shm, &why, &attr);
    for (int s = 0; s < 3; s++) {
        meet(2 * s + 2);        /* nobody looks at the counters any more */
        if (me == 0)
            for (int k = 0; k < 3; k++)
                shared->counter[k].count = starts[s];
        meet(2 * s + 3);
        for (int round = 1; round <= num_rounds; round++) {
            uint32_t target = starts[s] + (uint32_t) round * n, single = starts[s] + round;
            int half = round % 2, sum = 0;

            dawdle(me, round);
            shared->value[half][me] = round * 100 + me;
            MPII_Topo_shm_count(shm, &shared->counter[0], target);
            wait_for(shm, 0, target, round);
            for (int i = 0; i < n; i++) {
                check(shared->value[half][i] == round * 100 + i, "value", me, round,
                      shared->value[half][i]);
                sum += shared->value[half][i];
            }

            MPII_Topo_shm_count(shm, &shared->counter[1], target);
            if (me == 0) {
                wait_for(shm, 1, target, round);
                dawdle(me, round + 1000000);
                shared->result[half] = sum;
                MPII_Topo_shm_count(shm, &shared->counter[2], single);
            } else {
                wait_for(shm, 2, single, round);
                check(shared->result[half] == sum, "result", me, round, shared->result[half]);
            }
        }
    }
    MPII_Topo_shm_free(shm);
}

static void fill(char *block, int round, int rank)
{
    for (int i = 0; i < BLOCK; i++)
        block[i] = (char) (round * 31 + rank * 7 + i);
}

static void check_block(const char *block, int round, int rank, int me, const char *what)
{
    char expected[BLOCK];

    fill(expected, round, rank);
    check(memcmp(block, expected, BLOCK) == 0, what, me, round, rank);
}

static bool has_read(const void *data)
{
    return MPII_Topo_pipes_can_write(data, MPII_Topo_pipes_index(data, 0));
}

/* In each round all ranks but one write to that one, which may be in the next round before others are. A
 * pipe is full now and then. */
static void run_pipes(MPIR_Comm * comm)
{
    int attr = 0, line[MAX_RANKS], host_at[MAX_RANKS] = { 0 }, first_pos[2] = { 0, num_ranks };
    int pos_of[MAX_RANKS];
    MPII_Topo_order_t order = {.num_ranks = num_ranks,.num_hosts = 1,.rank_at = line,
        .pos_of = pos_of,.host_at = host_at,.first_pos = first_pos
    };
    MPII_Topo_pipes_t *pipes;
    int me = comm->rank, error, err;
    bool is_end;
    char block[BLOCK];

    /* not in the order of ranks */
    for (int i = 0; i < num_ranks; i++) {
        line[i] = (2 * num_ranks - 2 - i) % num_ranks;
        pos_of[line[i]] = i;
    }
    err = MPII_Topo_pipes_create(comm, &order, 0, &pipes, &attr);
    check(err == MPI_SUCCESS && MPII_Topo_pipes_limit(pipes) == 128, "create", me, 0, err);
    for (int round = 1; round <= num_rounds; round++) {
        int reader = choose(round, 1u << 20) % 4 ? 0 : choose(round, 1u << 20) % num_ranks;

        dawdle(me, round);
        if (me != reader) {
            fill(block, round, me);
            while (!MPII_Topo_pipes_write(pipes, pos_of[reader], block, BLOCK, MPI_BYTE, BLOCK, round % 2, 0,
                                          &err)) {
                if (reader == 0)
                    MPII_Topo_pipes_wait_until(pipes, has_read, pipes);
                else
                    sched_yield();
            }
            continue;
        }
        for (int rank = 0; rank < num_ranks; rank++) {
            MPI_Aint bytes = BLOCK;
            if (rank == me)
                continue;
            check(MPII_Topo_pipes_wait(pipes, pos_of[rank]) == MPI_SUCCESS, "wait", me, round, rank);
            check(MPII_Topo_pipes_read(pipes, pos_of[rank], block, BLOCK, MPI_BYTE, &bytes, MPI_OP_NULL,
                                       &is_end, &error, &err),
                  "read", me, round, rank);
            check(bytes == BLOCK && error == 0, "bytes", me, round, bytes);
            check(is_end == round % 2, "end of a message", me, round, rank);
            check_block(block, round, rank, me, "read another message");
        }
    }
    MPII_Topo_pipes_free(pipes);
}

/* A rank ends without a word: those that wait for it are told. */
static void run_dead(MPIR_Comm * comm)
{
    int attr = 0, ranks[MAX_RANKS] = { 0 };
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_why_t why;

    MPII_Topo_shm_create(comm, ranks, num_ranks, 0, 0, 0, &shm, &why, &attr);
    if (comm->rank == num_ranks - 1)
        _exit(0);
    MPII_Topo_shm_count(shm, &shared->counter[0], num_ranks);
    for (int i = 0; i < 2; i++) {
        int err = MPII_Topo_shm_wait(shm, &shared->counter[0], num_ranks);
        check(err == MPIX_ERR_PROC_FAILED, "waits for the dead", comm->rank, i, err);
    }
    MPII_Topo_shm_free(shm);
}

/* The last rank is as one that sleeps, and does not run: others bring a counter to targets again and
 * again, and wake it once. */
static void run_once(MPIR_Comm * comm)
{
    int attr = 0, ranks[MAX_RANKS] = { 0 }, last = num_ranks - 1, num = 0;
    char c;
    MPII_Topo_shm_t *shm;
    MPII_Topo_shm_why_t why;

    MPII_Topo_shm_create(comm, ranks, num_ranks, 0, 0, 0, &shm, &why, &attr);
    if (comm->rank == last)
        __atomic_store_n(&shm->waits_for[last], 1, __ATOMIC_SEQ_CST);   /* for anything */
    meet(2);
    if (comm->rank < 2 && comm->rank != last)
        for (int i = 1; i <= num_rounds; i++)
            MPII_Topo_shm_count(shm, &shared->counter[comm->rank], i);
    meet(3);
    if (comm->rank == last) {
        while (read(wakers[0], &c, 1) == 1)
            num++;
        check(num == 1, "woken", last, 0, num);
        check(shm->waits_for[last] == 0, "still waits", last, 0, shm->waits_for[last]);
    }
    MPII_Topo_shm_free(shm);
}

/* ---------------------------------------------------------------- ranks */

static void (*test)(MPIR_Comm *);

static void *run_rank(void *arg)
{
    MPIR_Comm comm = {.rank = (int) (intptr_t) arg,.local_size = num_ranks };

    test(&comm);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[MAX_RANKS], device;
    char name[MPII_TOPO_SHM_NAME_LEN];

    /* the device may look at the wakers from now on */
    check(MPII_Topo_shm_name_waker(name) == 0, "no socket", -1, 0, 0);
    pthread_create(&device, NULL, run_device, NULL);
    for (intptr_t i = 0; i < num_ranks; i++)
        pthread_create(&threads[i], NULL, run_rank, (void *) i);
    for (int i = 0; i < num_ranks; i++)
        pthread_join(threads[i], NULL);
}

static void run_processes(void)
{
    int status;

    for (intptr_t i = 0; i < num_ranks; i++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank((void *) i);
            _exit(0);
        }
    }
    for (int i = 0; i < num_ranks; i++) {
        wait(&status);
        if (status)
            _exit(1);   /* and the others end */
    }
}

int main(int argc, char *argv[])
{
    if (argc != 7)
        return 2;
    with_threads = strcmp(argv[1], "threads") == 0;
    test = !strcmp(argv[2], "counters") ? run_counters : !strcmp(argv[2], "pipes") ? run_pipes :
        !strcmp(argv[2], "once") ? run_once : run_dead;
    num_ranks = atoi(argv[3]);
    num_rounds = atoi(argv[4]);
    MPIR_CVAR_COLL_TOPO_SPIN_USEC = atoi(argv[5]);
    seed = atoi(argv[6]);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (with_threads)
        run_threads();
    else
        run_processes();
    printf("ok\n");
    fflush(stdout);
    _exit(0);   /* with the device still at work */
}
