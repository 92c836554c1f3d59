/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* Calls for what communicators learn of topo_auto's choices.
 *
 *   adapt [threads] WORD...
 *
 *   COLLECTIVE:BYTES:N  N calls, of a block or a vector of so many bytes, each from another root, on the
 *                       communicator in use. "RAN": which algorithms ran, in order
 *   float               reductions from now on of floats: their sum depends on the order
 *   late:RANK:USEC      from now on this rank comes so much later to each call (-1: each one at random)
 *   slow:USEC:MIN:MAX   from now on it takes so much longer to send a message of so many bytes: algorithms
 *                       have messages of different sizes
 *   dup, idup           from now on use a duplicate of it
 *   world               MPI_COMM_WORLD
 *   halves              a half of it
 *   many:N              N duplicates, each used for three calls of bcast and freed
 *
 * With `threads` it has MPI_THREAD_MULTIPLE, and each of four threads does all of that, on a duplicate of
 * its own. All results are checked, and that all ranks of the communicator run the same in each
 * call: by the counters coll_select_..., but with threads. The bits of a sum are the same in each call. Output:
 * RAN lines, then "OK" and the number of words, or what is wrong. */

#define _GNU_SOURCE             /* RTLD_NEXT */
#include "words.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_VALUES 64           /* of a counter */
#define MAX_COUNTERS 1024

static int is_float, late_rank = -2, late_usec;

/* -- a network that is slow for some messages -- */

static long slow_usec, slow_min, slow_max;

/* In the place of that of libc: what a message is written with */
ssize_t writev(int fd, const struct iovec *iov, int num)
{
    static ssize_t (*libc_writev) (int, const struct iovec *, int);
    long bytes = 0;

    if (libc_writev == NULL)
        *(void **) &libc_writev = dlsym(RTLD_NEXT, "writev");
    for (int i = 0; i < num; i++)
        bytes += iov[i].iov_len;
    if (slow_usec && slow_min <= bytes && bytes <= slow_max)
        usleep(slow_usec);
    return libc_writev(fd, iov, num);
}

/* -- which algorithm ran -- */

static int num_counters;
static struct {
    char name[128];
    MPI_T_pvar_handle handle;
    unsigned long sum;
} counters[MAX_COUNTERS];
static MPI_T_pvar_session session;

static void open_counters(void)
{
    int num;

    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num && num_counters < MAX_COUNTERS; i++) {
        char name[128], desc[1];
        int name_len = sizeof(name), desc_len = sizeof(desc), x, class, bind, count;
        MPI_Datatype type;
        MPI_T_enum enumtype;

        MPI_T_pvar_get_info(i, name, &name_len, &x, &class, &type, &enumtype, desc, &desc_len,
                            &bind, &x, &x, &x);
        if (strncmp(name, "coll_select_MPIR_", 17))
            continue;
        strcpy(counters[num_counters].name, name + 17);
        MPI_T_pvar_handle_alloc(session, i, NULL, &counters[num_counters++].handle, &count);
        if (count > MAX_VALUES)
            fail("too long", name);
    }
}

/* The counter of a collective that has counted since it was last asked; -1: none; it may be NULL. An
 * algorithm by hosts (smp) runs others inside, which are not the same on all ranks. */
static int find_ran(const char *collective)
{
    unsigned long values[MAX_VALUES];
    size_t len = collective ? strlen(collective) : 0;
    int found = -1;

    for (int i = 0; i < num_counters; i++) {
        if (collective && (strncasecmp(counters[i].name, collective, len) ||
                           counters[i].name[len] != '_'))
            continue;
        unsigned long sum = 0;
        memset(values, 0, sizeof(values));
        MPI_T_pvar_read(session, counters[i].handle, values);
        for (int k = 0; k < MAX_VALUES; k++)
            sum += values[k];
        if (sum > counters[i].sum && (found < 0 || !strstr(counters[found].name, "_smp")))
            found = i;
        counters[i].sum = sum;
    }
    return found;
}

/* Whether the rank before this one has the same number, by messages alone */
static void compare(MPI_Comm comm, int value, const char *word)
{
    int p, rank, other;

    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &rank);
    MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % p, 1, &other, 1, MPI_INT, (rank + p - 1) % p, 1,
                 comm, MPI_STATUS_IGNORE);
    if (value != other)
        fail("ranks run different algorithms", word);
}

/* -- calls -- */

/* What rank r contributes to element i, in a call from this root */
static int element(int r, int i, int root)
{
    return (r + 1) * 1009 + i * 7 + root;
}

static float part(int r, int i)
{
    return 1.0f / (3 + r * 17 + i % 101);
}

static int sum_of(int p, int i, int root)
{
    int sum = 0;

    for (int r = 0; r < p; r++)
        sum += element(r, i, root);
    return sum;
}

static void call(MPI_Comm comm, const char *name, int num, int root, float *first_bits,
                 const char *word)
{
    int p, rank, bad = 0;

    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &rank);
    size_t len = (size_t) num * p + 1;
    int *in = malloc(len * sizeof(int)), *out = calloc(len, sizeof(int));
    for (size_t i = 0; i < len; i++)
        in[i] = element(rank, i, root);
    if (late_rank == rank)
        usleep(late_usec);
    else if (late_rank == -1)
        usleep(rand() % (late_usec + 1));

    if (!strcmp(name, "bcast")) {
        MPI_Bcast(in, num, MPI_INT, root, comm);
        for (int i = 0; i < num; i++)
            bad |= in[i] != element(root, i, root);
    } else if (!strcmp(name, "allreduce") && is_float) {
        float *floats = (float *) in, *sums = (float *) out;
        for (int i = 0; i < num; i++)
            floats[i] = part(rank, i);
        MPI_Allreduce(floats, sums, num, MPI_FLOAT, MPI_SUM, comm);
        if (first_bits[0] == 0)
            memcpy(first_bits, sums, num * sizeof(float));
        bad |= memcmp(first_bits, sums, num * sizeof(float)) != 0;
    } else if (!strcmp(name, "allreduce")) {
        MPI_Allreduce(in, out, num, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < num; i++)
            bad |= out[i] != sum_of(p, i, root);
    } else if (!strcmp(name, "reduce")) {
        MPI_Reduce(in, out, num, MPI_INT, MPI_SUM, root, comm);
        for (int i = 0; rank == root && i < num; i++)
            bad |= out[i] != sum_of(p, i, root);
    } else if (!strcmp(name, "reduce_scatter_block")) {
        MPI_Reduce_scatter_block(in, out, num, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < num; i++)
            bad |= out[i] != sum_of(p, rank * num + i, root);
    } else if (!strcmp(name, "allgather")) {
        MPI_Allgather(in, num, MPI_INT, out, num, MPI_INT, comm);
        for (int i = 0; i < num * p; i++)
            bad |= out[i] != element(i / num, i % num, root);
    } else if (!strcmp(name, "gather")) {
        MPI_Gather(in, num, MPI_INT, out, num, MPI_INT, root, comm);
        for (int i = 0; rank == root && i < num * p; i++)
            bad |= out[i] != element(i / num, i % num, root);
    } else if (!strcmp(name, "scatter")) {
        MPI_Scatter(in, num, MPI_INT, out, num, MPI_INT, root, comm);
        for (int i = 0; i < num; i++)
            bad |= out[i] != element(root, rank * num + i, root);
    } else if (!strcmp(name, "barrier")) {
        MPI_Barrier(comm);
    } else {
        fail("unknown collective", word);
    }
    if (bad)
        fail("wrong result", word);
    free(in);
    free(out);
}

static void run(MPI_Comm comm, const char *word)
{
    char name[32];
    int bytes = 0, calls = 0, p, last = -1, same = 0, num, world_rank;
    float *first_bits;

    if (sscanf(word, "%31[a-z_]:%d:%d", name, &bytes, &calls) != 3)
        fail("unknown word", word);
    num = bytes / sizeof(int);
    first_bits = calloc(num + 1, sizeof(float));
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (!has_threads)
        find_ran(NULL);
    if (world_rank == 0 && !has_threads)
        printf("RAN %s", word);
    for (int i = 0; i <= calls; i++) {
        int ran = -2;
        if (i < calls)
            call(comm, name, num, i % p, first_bits, word);
        if (has_threads)
            continue;
        if (i < calls) {
            ran = find_ran(name);
            compare(comm, ran, word);
        }
        if (ran != last && same > 0 && world_rank == 0)
            printf(" %s*%d", last < 0 ? "?" : counters[last].name, same);
        same = ran == last ? same + 1 : 1;
        last = ran;
    }
    if (world_rank == 0 && !has_threads)
        printf("\n");
    free(first_bits);
}

static void use_many(MPI_Comm comm, int n)
{
    float none[1];

    for (int i = 0; i < n; i++) {
        MPI_Comm dup;
        MPI_Comm_dup(comm, &dup);
        for (int k = 0; k < 3; k++)
            call(dup, "bcast", 64, 0, none, "many");
        MPI_Comm_free(&dup);
    }
}

static void *run_all(void *start)
{
    MPI_Comm world = *(MPI_Comm *) start, comm = world, made[64];
    MPI_Request request;
    int num_made = 0, rank;

    MPI_Comm_rank(world, &rank);
    for (int i = 0; i < words_argc; i++) {
        const char *word = words_argv[i];
        if (!strcmp(word, "world")) {
            comm = world;
        } else if (!strcmp(word, "float")) {
            is_float = 1;
        } else if (!strncmp(word, "late:", 5)) {
            sscanf(word + 5, "%d:%d", &late_rank, &late_usec);
        } else if (!strncmp(word, "slow:", 5)) {
            sscanf(word + 5, "%ld:%ld:%ld", &slow_usec, &slow_min, &slow_max);
        } else if (!strcmp(word, "dup")) {
            MPI_Comm_dup(comm, &made[num_made]);
            comm = made[num_made++];
        } else if (!strcmp(word, "idup")) {
            MPI_Comm_idup(comm, &made[num_made], &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            comm = made[num_made++];
        } else if (!strcmp(word, "halves")) {
            MPI_Comm_split(world, rank % 2, rank, &made[num_made]);
            comm = made[num_made++];
        } else if (!strncmp(word, "many:", 5)) {
            use_many(comm, atoi(word + 5));
        } else {
            run(comm, word);
        }
    }
    while (num_made > 0)
        MPI_Comm_free(&made[--num_made]);
    return NULL;
}

int main(int argc, char **argv)
{
    int rank;

    words_init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    srand(rank);
    open_counters();
    words_run(run_all);
    if (rank == 0)
        printf("OK %d\n", words_argc);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
