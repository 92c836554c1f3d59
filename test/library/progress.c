/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* What a rank does for others while it waits in a collective for one that is late.
 *
 *   progress --collective NAME --algorithms LIST --works LIST [--pairs W:L,...] [--worker late|other]
 *            [--repetitions N] [--units N] [--bytes N]
 *
 * Of each pair, rank L is late: all others are in the collective, and rank W has work to do there for
 * the worker, which is L, or the last rank. L comes when the work is done. A work has that many units:
 *
 *   get      MPI_Get and MPI_Win_flush
 *   fetch    MPI_Fetch_and_op and MPI_Win_flush
 *   send     receive what W has sent by MPI_Isend (--bytes)
 *   thread   there and back, to a thread of W that is in MPI_Probe
 *   ibcast   a chunk of an MPI_Ibcast through W, if MPIR_CVAR_IBCAST_INTRA_ALGORITHM is tsp_ring;
 *            units chunks of MPIR_CVAR_IBCAST_RING_CHUNK_SIZE, here --bytes
 *   allreduce  MPI_Iallreduce, all started before (--bytes)
 *   idle     nothing, for 0.2 s: what a wait costs
 *
 * The algorithms take turns. Output, from rank 0, for each pair, work and algorithm:
 *
 *   TIME collective=C algorithm=A work=K waiter=W late=L units=N median_ms=X min_ms=X max_ms=X
 *   CPU collective=C algorithm=A waiter=W late=L wall_ms=X cpu_ms=X       of the waiter, if idle
 *
 * then the counters. Exit status 0 if all data were right, 1 if not, 2 if the arguments were not. */

#include "algorithms.h"
#include "counters.h"
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_PAIRS 8
#define MAX_WORKS 8
#define CALLS 3         /* in a row: shared memory of a gather takes two before one waits */
#define BLOCK 4         /* ints */
#define TAG_COME 1
#define TAG_PING 2
#define TAG_DATA 100
#define IDLE_US 200000
#define DELAY_US 3000   /* until those who are in time wait */

static int rank, size, num_wrong;
static const char *collective = "alltoall";
static int num_algos, num_pairs, num_works;
static struct algorithm algos[MAX_ALGORITHMS];
static struct {
    int waiter, late;
} pairs[MAX_PAIRS];
static const char *works[MAX_WORKS];
static bool worker_is_late;
static int repetitions = 5, units = 50, bytes = 256 << 10;

static int *in, *out, *counts, *displs;
static MPI_Request persistent[MAX_ALGORITHMS];
static MPI_Comm other_comm;     /* for the work */
static MPI_Win win;
static long *win_mem;
static char *data;
static MPI_Request *reqs;

static void wrong(const char *what, long expected, long found)
{
    if (num_wrong++ < 5)
        printf("WRONG rank %d: %s: expected %ld, found %ld\n", rank, what, expected, found);
}

/* -- the collective -- */

static void call_once(void)
{
    if (!strcmp(collective, "alltoall"))
        MPI_Alltoall(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, MPI_COMM_WORLD);
    else if (!strcmp(collective, "alltoallv"))
        MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, MPI_COMM_WORLD);
    else if (!strcmp(collective, "gather"))
        MPI_Gather(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, 0, MPI_COMM_WORLD);
    else if (!strcmp(collective, "allreduce"))
        MPI_Allreduce(in, out, size * BLOCK, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Scatter(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, 0, MPI_COMM_WORLD);
}

static void call(int algo)
{
    bool is_all = collective[0] == 'a', has_result = is_all || rank == 0 || collective[0] == 's';

    algorithms_select(&algos[algo], true);
    for (int i = 0; i < size * BLOCK; i++) {
        in[i] = rank * 1000 + i;
        out[i] = -1;
    }
    for (int i = 0; i < CALLS; i++) {
        if (algos[algo].persistent) {
            MPI_Start(&persistent[algo]);
            MPI_Wait(&persistent[algo], MPI_STATUS_IGNORE);
        } else {
            call_once();
        }
    }
    for (int i = 0; has_result && i < (collective[0] == 's' ? 1 : size) * BLOCK; i++) {
        int from = collective[0] == 's' ? 0 : i / BLOCK;
        int at = collective[0] == 'g' ? 0 : rank * BLOCK;
        int expected = from * 1000 + at + i % BLOCK;
        if (!strcmp(collective, "allreduce"))
            expected = size * (size - 1) / 2 * 1000 + size * i;
        if (out[i] != expected)
            wrong(collective, expected, out[i]);
    }
}

static void prepare_call(void)
{
    in = malloc(size * BLOCK * sizeof(int));
    out = malloc(size * BLOCK * sizeof(int));
    counts = malloc(size * sizeof(int));
    displs = malloc(size * sizeof(int));
    for (int i = 0; i < size; i++) {
        counts[i] = BLOCK;
        displs[i] = i * BLOCK;
    }
    for (int i = 0; i < num_algos; i++) {
        if (!algos[i].persistent)
            continue;
        algorithms_select(&algos[i], true);
        if (!strcmp(collective, "alltoall"))
            MPI_Alltoall_init(in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, MPI_COMM_WORLD,
                              MPI_INFO_NULL, &persistent[i]);
        else
            MPI_Alltoallv_init(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT,
                               MPI_COMM_WORLD, MPI_INFO_NULL, &persistent[i]);
    }
}

/* -- the works -- */

static bool is_work(const char *work, const char *name)
{
    return !strcmp(work, name);
}

static void *answer(void *arg)
{
    int source = *(int *) arg, n;
    MPI_Status status;

    do {
        MPI_Probe(source, TAG_PING, other_comm, &status);
        MPI_Recv(&n, 1, MPI_INT, source, TAG_PING, other_comm, MPI_STATUS_IGNORE);
        MPI_Send(&n, 1, MPI_INT, source, TAG_PING, other_comm);
    } while (n > 0);
    return NULL;
}

/* What all, or the waiter, start before the collective. Returns the number of requests. */
static int start(const char *work, int waiter, int worker, pthread_t * thread, int *source)
{
    char *buf = data;

    if (is_work(work, "send") && rank == waiter) {
        for (int i = 0; i < units; i++) {
            memset(buf, i + 1, bytes);
            MPI_Isend(buf, bytes, MPI_BYTE, worker, TAG_DATA + i, other_comm, &reqs[i]);
            buf += bytes;
        }
        return units;
    }
    if (is_work(work, "ibcast")) {
        int root = (worker + 1) % size; /* the worker is the end of the ring */
        memset(data, rank == root ? 7 : 0, (size_t) units * bytes);
        MPI_Ibcast(data, units * bytes, MPI_BYTE, root, other_comm, reqs);
        return 1;
    }
    if (is_work(work, "allreduce")) {
        for (int i = 0; i < units; i++) {
            memset(buf, 1, bytes);
            MPI_Iallreduce(MPI_IN_PLACE, buf, bytes, MPI_CHAR, MPI_SUM, other_comm, &reqs[i]);
            buf += bytes;
        }
        return units;
    }
    if (is_work(work, "thread") && rank == waiter) {
        *source = worker;
        pthread_create(thread, NULL, answer, source);
    }
    return 0;
}

/* What the worker does */
static void do_work(const char *work, int waiter, int num_reqs)
{
    for (int i = 0; i < units; i++) {
        long value = -1, one = 1;
        int n = units - 1 - i;

        if (is_work(work, "get")) {
            MPI_Get(&value, 1, MPI_LONG, waiter, 0, 1, MPI_LONG, win);
            MPI_Win_flush(waiter, win);
            if (value != 1000 + waiter)
                wrong("MPI_Get", 1000 + waiter, value);
        } else if (is_work(work, "fetch")) {
            MPI_Fetch_and_op(&one, &value, MPI_LONG, waiter, 1, MPI_SUM, win);
            MPI_Win_flush(waiter, win);
        } else if (is_work(work, "send")) {
            MPI_Recv(data, bytes, MPI_BYTE, waiter, TAG_DATA + i, other_comm, MPI_STATUS_IGNORE);
            if (data[0] != (char) (i + 1) || data[bytes - 1] != (char) (i + 1))
                wrong("MPI_Recv", i + 1, data[0]);
        } else if (is_work(work, "thread")) {
            MPI_Send(&n, 1, MPI_INT, waiter, TAG_PING, other_comm);
            MPI_Recv(&n, 1, MPI_INT, waiter, TAG_PING, other_comm, MPI_STATUS_IGNORE);
        }
    }
    if (is_work(work, "idle"))
        usleep(IDLE_US);
    MPI_Waitall(num_reqs, reqs, MPI_STATUSES_IGNORE);
}

static double cpu_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
        (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

/* One collective with a late rank. Returns how long the work took, in ms, on its worker. */
static double late_once(int algo, const char *work, int waiter, int late, double idle[2])
{
    int worker = worker_is_late ? late : size - 1, num_reqs, source;
    double begin, ms = 0;
    bool is_late = rank == late || rank == worker;
    pthread_t thread;

    MPI_Barrier(MPI_COMM_WORLD);
    num_reqs = start(work, waiter, worker, &thread, &source);
    idle[0] = MPI_Wtime() * 1e3;
    idle[1] = cpu_ms();
    if (is_late) {
        if (rank == worker) {
            usleep(DELAY_US);
            begin = MPI_Wtime();
            do_work(work, waiter, num_reqs);
            ms = (MPI_Wtime() - begin) * 1e3;
            if (late != worker)
                MPI_Send(NULL, 0, MPI_BYTE, late, TAG_COME, MPI_COMM_WORLD);
        } else {
            /* who is late for others must not keep up the work */
            MPI_Waitall(num_reqs, reqs, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_BYTE, worker, TAG_COME, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        num_reqs = 0;
    }
    call(algo);
    idle[0] = MPI_Wtime() * 1e3 - idle[0];
    idle[1] = cpu_ms() - idle[1];
    MPI_Waitall(num_reqs, reqs, MPI_STATUSES_IGNORE);
    if (is_work(work, "thread") && rank == waiter)
        pthread_join(thread, NULL);
    if (is_work(work, "ibcast") && data[(size_t) units * bytes - 1] != 7)
        wrong("MPI_Ibcast", 7, data[(size_t) units * bytes - 1]);
    if (is_work(work, "allreduce") && data[(size_t) units * bytes - 1] != size)
        wrong("MPI_Iallreduce", size, data[(size_t) units * bytes - 1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&ms, 1, MPI_DOUBLE, worker, MPI_COMM_WORLD);
    MPI_Bcast(idle, 2, MPI_DOUBLE, waiter, MPI_COMM_WORLD);
    return ms;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static void measure(const char *work, int waiter, int late)
{
    double (*ms)[repetitions] = malloc(num_algos * sizeof(*ms)), idle[2];

    for (int i = 0; i < repetitions; i++) {
        for (int a = 0; a < num_algos; a++) {
            ms[a][i] = late_once(a, work, waiter, late, idle);
            if (is_work(work, "idle") && rank == 0)
                printf("CPU collective=%s algorithm=%s waiter=%d late=%d wall_ms=%.1f cpu_ms=%.1f\n",
                       collective, algos[a].name, waiter, late, idle[0], idle[1]);
        }
    }
    for (int a = 0; a < num_algos && rank == 0; a++) {
        qsort(ms[a], repetitions, sizeof(double), ascending);
        printf("TIME collective=%s algorithm=%s work=%s waiter=%d late=%d units=%d median_ms=%.2f "
               "min_ms=%.2f max_ms=%.2f\n", collective, algos[a].name, work, waiter, late, units,
               ms[a][repetitions / 2], ms[a][0], ms[a][repetitions - 1]);
    }
    fflush(stdout);
    free(ms);
}

/* -- arguments -- */

static void parse(int argc, char **argv)
{
    char cvar[64], *list = NULL, *name;
    const char *known[] = { "get", "fetch", "send", "thread", "ibcast", "allreduce", "idle" };

    for (int i = 1; i + 1 < argc; i += 2) {
        char *value = argv[i + 1];
        if (!strcmp(argv[i], "--collective")) {
            collective = value;
        } else if (!strcmp(argv[i], "--algorithms")) {
            list = value;
        } else if (!strcmp(argv[i], "--works")) {
            for (name = strtok(value, ","); name; name = strtok(NULL, ",")) {
                int k = 0;
                while (k < 7 && strcmp(name, known[k]))
                    k++;
                if (k == 7 || num_works == MAX_WORKS)
                    usage_error("--works: '%s'", name);
                else
                    works[num_works++] = known[k];
            }
        } else if (!strcmp(argv[i], "--pairs")) {
            for (name = strtok(value, ","); name; name = strtok(NULL, ",")) {
                if (num_pairs == MAX_PAIRS || sscanf(name, "%d:%d", &pairs[num_pairs].waiter,
                                                     &pairs[num_pairs].late) != 2)
                    usage_error("--pairs: '%s'", name);
                else
                    num_pairs++;
            }
        } else if (!strcmp(argv[i], "--worker")) {
            worker_is_late = !strcmp(value, "late");
        } else if (!strcmp(argv[i], "--repetitions")) {
            repetitions = parse_long(argv[i], value, 1);
        } else if (!strcmp(argv[i], "--units")) {
            units = parse_long(argv[i], value, 1);
        } else if (!strcmp(argv[i], "--bytes")) {
            bytes = parse_long(argv[i], value, 1);
        } else {
            usage_error("unknown option '%s'", argv[i]);
        }
    }
    if (num_pairs == 0) {
        pairs[num_pairs++].late = 1;
        pairs[num_pairs++].waiter = 1;
    }
    snprintf(cvar, sizeof(cvar), "MPIR_CVAR_%s_INTRA_ALGORITHM", collective);
    for (char *c = cvar; *c; c++)
        *c = toupper((unsigned char) *c);
    if (list == NULL)
        usage_error("--algorithms is missing");
    else
        num_algos = algorithms_parse(list, collective, cvar, collective[0] == 'a', NULL, algos);
    algorithms_ask();
    int provided;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (!bad_usage[0])
        algorithms_open(cvar, NULL);
}

int main(int argc, char **argv)
{
    int provided, level = MPI_THREAD_SINGLE, sum;
    counters_t counters;

    parse(argc, argv);
    if (bad_usage[0]) {
        fprintf(stderr, "progress: %s\n", bad_usage);
        return 2;
    }
    for (int i = 0; i < num_works; i++)
        if (is_work(works[i], "thread"))
            level = MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    counters_open(&counters);
    if (provided < level) {
        if (rank == 0)
            printf("SKIP the library does not provide MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 0;
    }

    MPI_Comm_dup(MPI_COMM_WORLD, &other_comm);
    data = malloc((size_t) units * bytes);
    reqs = malloc(units * sizeof(*reqs));
    win_mem = malloc(2 * sizeof(long));
    win_mem[0] = 1000 + rank;
    win_mem[1] = 0;
    MPI_Win_create(win_mem, 2 * sizeof(long), sizeof(long), MPI_INFO_NULL, other_comm, &win);
    MPI_Win_lock_all(0, win);
    prepare_call();
    for (int a = 0; a < num_algos; a++)
        call(a);
    for (int i = 0; i < num_pairs; i++)
        for (int k = 0; k < num_works; k++)
            measure(works[k], pairs[i].waiter, pairs[i].late);

    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    for (int i = 0; i < num_algos; i++)
        if (algos[i].persistent)
            MPI_Request_free(&persistent[i]);
    MPI_Comm_free(&other_comm);
    MPI_Allreduce(&num_wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    counters_print(&counters, stdout);
    counters_close(&counters);
    MPI_Finalize();
    return sum > 0;
}
