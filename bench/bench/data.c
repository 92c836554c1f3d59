/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Data: the buffers of a call, their contents, and whether they are right
 */

#include "bench.h"

#define GUARD 64        /* bytes behind the receive buffer that nobody may write */

/* All blocks that a rank sends, or all that it receives */
struct half {
    unsigned char *buffer;      /* buffer that is passed to MPI, unless MPI_IN_PLACE */
    int blocks;
    long *bytes, *displs;       /* of each block */
};

struct buffers data_args;

static struct {
    struct half send, recv;
    long bytes;                 /* the size that is measured */
} data;

static int num_blocks(enum blocks blocks)
{
    const bool root = (rank == data_args.root);

    return blocks == ONE || (blocks == ONE_AT_ROOT && root) ? 1 :
        blocks == ALL || (blocks == ALL_AT_ROOT && root) ? nprocs : 0;
}

static int blocks_to_send(void)
{
    return opt.coll->send == NEIGHBORS ? edges.num_out : num_blocks(opt.coll->send);
}

static int blocks_to_receive(void)
{
    return coll_has_neighbors() ? edges.num_in : num_blocks(opt.coll->recv);
}

/* Contents of a block from a key on: bytes or, if they are added, numbers */
struct content {
    uint64_t key, step;
};

#define EVERY -1        /* sender: the sum over all ranks */

static uint32_t content_key(int from, int to, long call)
{
    uint32_t key = (uint32_t) (from + 1) * 0x9e3779b1u ^ (uint32_t) to * 0x85ebca6bu ^
        (uint32_t) call * 0xc2b2ae35u;

    if (!opt.coll->personalised)
        key ^= (uint32_t) to * 0x85ebca6bu;     /* cancels `to` */
    return (key ^ key >> 15) * 0x2c1b3c6du >> 16;
}

/* Key of the data that `from` sends to `to` in a call */
static struct content content_of(int from, int to, long call)
{
    struct content c = {.step = 0x9e3779b97f4a7c15u };

    if (from != EVERY) {
        c.key = content_key(from, to, call);
    } else {
        const enum adds adds = opt.coll->adds;
        const int num = adds == UP_TO_SELF ? to + 1 : adds == BEFORE_SELF ? to : nprocs;
        c.step *= (uint64_t) num;
        for (int i = 0; i < num; i++)
            c.key += content_key(i, to, call);
    }
    return c;
}

static inline unsigned char byte_at(uint32_t key, long offset)
{
    return (unsigned char) (key + offset * 167 + (offset >> 8) * 59);
}

static void fill_block(const struct half *half, int block, int from, int to, long call)
{
    const struct content c = content_of(from, to, call);
    unsigned char *bytes = half->buffer + half->displs[block];

    if (opt.coll->adds) {
        uint64_t *numbers = (uint64_t *) bytes;
        for (long i = 0; i < half->bytes[block] / (long) sizeof(uint64_t); i++)
            numbers[i] = c.key + (uint64_t) i * c.step;
    } else {
        for (long i = 0; i < half->bytes[block]; i++)
            bytes[i] = byte_at((uint32_t) c.key, i);
    }
}

/* The rank that block i of the send buffer is for. Blocks of two edges between the same two ranks
 * are equal, because libraries differ in which of them they match. */
static int receiver(int i)
{
    return opt.coll->send == NEIGHBORS ? edges.to[i] : i;
}

/* The rank whose data block i of the receive buffer will hold */
static int sender(int i)
{
    if (coll_has_neighbors())
        return edges.from[i];
    return opt.coll->adds ? EVERY : data.recv.blocks > 1 ? i : data_args.root;
}

void data_fill(long call)
{
    const struct collective *coll = opt.coll;
    const struct half *send = &data.send, *recv = &data.recv;

    for (int i = 0; i < send->blocks; i++)
        fill_block(send, i, rank, receiver(i), call);
    for (int i = 0; i < recv->blocks; i++) {
        unsigned char *block = recv->buffer + recv->displs[i];
        fill_block(recv, i, sender(i), rank, call);
        for (long k = 0; k < recv->bytes[i]; k++)
            block[k] = ~block[k];
    }
    memset(recv->buffer + recv->displs[recv->blocks], 0xa5, GUARD);

    if (coll->send == NONE && coll->recv == ONE && rank == data_args.root)
        fill_block(recv, 0, rank, rank, call);
    if (opt.in_place) {
        if (coll->in_place == ALL) {
            for (int i = 0; i < nprocs; i++)
                fill_block(recv, i, rank, i, call);
        } else if (num_blocks(coll->in_place)) {
            fill_block(recv, recv->blocks > 1 ? rank : 0, rank, rank, call);
        }
    }
}

/* Check one block. If it is wrong, describe the error in `why`. */
static bool check_block(const char *what, const struct half *half, int index, int from, int to,
                        long call, char *why, size_t size)
{
    const struct content c = content_of(from, to, call);
    const unsigned char *block = half->buffer + half->displs[index];
    const uint64_t *numbers = (const uint64_t *) block;
    const long bytes = half->bytes[index], count = bytes / (long) sizeof(uint64_t);
    long at = 0;

    if (opt.coll->adds) {
        uint64_t differ = 0;
        for (long i = 0; i < count; i++)        /* without a branch, so that it is vectorised */
            differ |= numbers[i] ^ (c.key + (uint64_t) i * c.step);
        if (!differ)
            return true;
        while (numbers[at] == c.key + (uint64_t) at * c.step)
            at++;
        snprintf(why, size, "rank %d, call %ld, %s block %d, number %ld: expected 0x%llx, found "
                 "0x%llx", rank, call, what, index, at,
                 (unsigned long long) (c.key + (uint64_t) at * c.step),
                 (unsigned long long) numbers[at]);
    } else {
        unsigned char differ = 0;
        for (long i = 0; i < bytes; i++)
            differ |= block[i] ^ byte_at((uint32_t) c.key, i);
        if (!differ)
            return true;
        while (block[at] == byte_at((uint32_t) c.key, at))
            at++;
        snprintf(why, size, "rank %d, call %ld, %s block %d, offset %ld: expected 0x%02x, "
                 "found 0x%02x", rank, call, what, index, at, byte_at((uint32_t) c.key, at),
                 block[at]);
    }
    return false;
}

void data_check(long call, char *why, size_t size)
{
    const struct half *send = &data.send, *recv = &data.recv;
    const unsigned char *guard = recv->buffer + recv->displs[recv->blocks];

    /* rank 0 has no result of exscan */
    if (data_args.recv != MPI_IN_PLACE && !(opt.coll->adds == BEFORE_SELF && rank == 0)) {
        for (int i = 0; i < blocks_to_receive(); i++)
            if (!check_block("received", recv, i, sender(i), rank, call, why, size))
                return;
    }
    if (data_args.send != MPI_IN_PLACE) {
        for (int i = 0; i < send->blocks; i++)
            if (!check_block("sent", send, i, rank, receiver(i), call, why, size))
                return;
    }
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] != 0xa5) {
            snprintf(why, size, "rank %d, call %ld, %d bytes behind the receive buffer: "
                     "expected 0xa5, found 0x%02x", rank, call, i, guard[i]);
            return;
        }
    }
}

void data_init(void)
{
    const size_t blocks = fmax(nprocs, fmax(edges.num_out, edges.num_in));

    data.send.bytes = get_memory(2 * blocks + 1, sizeof(long));
    data.send.displs = data.send.bytes + blocks;
    data.recv.bytes = get_memory(2 * blocks + 1, sizeof(long));
    data.recv.displs = data.recv.bytes + blocks;
    data_args.scounts = get_memory(4 * blocks, sizeof(int));
    data_args.sdispls = data_args.scounts + blocks;
    data_args.rcounts = data_args.sdispls + blocks;
    data_args.rdispls = data_args.rcounts + blocks;
    data_args.types = get_memory(blocks, sizeof(MPI_Datatype));
    for (size_t i = 0; i < blocks; i++)
        data_args.types[i] = MPI_BYTE;
    data_args.comm = comm;
}

void data_set_counts(long version)
{
    const long unit = opt.coll->adds ? sizeof(uint64_t) : 1;

    for (int out = 0; out < 2; out++) {
        struct half *half = out ? &data.send : &data.recv;
        int *counts = out ? data_args.scounts : data_args.rcounts;
        int *displs = out ? data_args.sdispls : data_args.rdispls;

        half->displs[0] = 0;
        for (int i = 0; i < half->blocks; i++) {
            half->bytes[i] =
                out ? counts_sent(data.bytes, i, version) : counts_received(data.bytes, i, version);
            half->displs[i + 1] = half->displs[i] + half->bytes[i];
            counts[i] = (int) (half->bytes[i] / unit);
            displs[i] = (int) half->displs[i];
        }
    }
}

void data_set_root(long call)
{
    const struct collective *coll = opt.coll;

    data_args.root = (int) (opt.root == EACH ? call % nprocs : opt.root);
    data.send.blocks = blocks_to_send();
    /* a single rank that gathers receives one block, from itself, the root; in place, there are
     * blocks for all ranks at the position of the result */
    data.recv.blocks = opt.in_place && coll->in_place == ALL ? nprocs : blocks_to_receive();
    data_args.send = data.send.buffer;
    data_args.recv = data.recv.buffer;
    data_set_counts(0);
    if (opt.in_place) {
        if (coll->send == ALL_AT_ROOT) {
            if (rank == data_args.root)
                data_args.recv = MPI_IN_PLACE;
        } else if (num_blocks(coll->in_place)) {
            data_args.send = MPI_IN_PLACE;
        }
    }
}

/* Most bytes of a buffer on any rank, root or not */
static int most_blocks(enum blocks blocks)
{
    return blocks == ALL || blocks == ALL_AT_ROOT ? nprocs : blocks == NONE ? 0 : 1;
}

/* A number that is equal for processes of one machine, whatever host name they use */
static int machine_number(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    unsigned number = 0;
    int c;

    while (file && (c = getc(file)) != EOF)
        number = 31 * number + c;
    if (file)
        fclose(file);
    return number & 0x7fffffff;
}

/* Whether each machine has enough memory for all its ranks; malloc() does not report this */
static bool has_memory(double bytes)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    long free_kb = -1;
    MPI_Comm machine;

    MPI_Comm_split(comm, machine_number(), 0, &machine);
    MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_DOUBLE, MPI_SUM, machine);
    MPI_Comm_free(&machine);
    while (file && free_kb < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "MemAvailable: %ld", &free_kb);
    if (file)
        fclose(file);
    return free_kb < 0 || bytes < free_kb * 1024.0;
}

#define MUCH_MEMORY 1e9         /* from this size on, check the memory of machines */

bool data_prepare(long bytes)
{
    const struct collective *coll = opt.coll;
    const bool varies = opt.pattern != UNIFORM;
    const bool has_all = opt.in_place && coll->in_place == ALL;
    int ok, all_ok;

    data.bytes = bytes;
    data_args.root = (int) opt.root;
    const long sent = opt.root == EACH ? most_blocks(coll->send) : blocks_to_send();
    const long received = has_all ? nprocs :
        opt.root == EACH ? most_blocks(coll->recv) : blocks_to_receive();
    free(data.send.buffer);
    free(data.recv.buffer);
    const long more = counts_more(opt.first * opt.num_algos);
    const long to_send = varies ? counts_most(bytes) : sent * bytes;
    const long to_receive = varies ? counts_most(bytes) : received * bytes;
    data.send.buffer = data.recv.buffer = NULL;
    if (2.0 * bytes * nprocs * nprocs < MUCH_MEMORY ||
        has_memory((double) to_send + to_receive + 2 * more)) {
        data.send.buffer = malloc(to_send + more + 1);
        data.recv.buffer = malloc(to_receive + more + GUARD);
    }
    ok = data.send.buffer && data.recv.buffer;
    MPI_Allreduce(&ok, &all_ok, 1, MPI_INT, MPI_MIN, comm);
    if (!all_ok) {
        if (rank == 0)
            fprintf(stderr, PROGRAM ": no memory for %s of %ld bytes on %d ranks\n",
                    coll->name, bytes, nprocs);
        return false;
    }

    data_args.count = (int) (coll->adds ? bytes / (long) sizeof(uint64_t) : bytes);
    data_set_root(0);
    return true;
}

#define LINE 64         /* bytes of a cache line; longer lines are flushed twice */

void data_cool(void)
{
#ifdef FLUSH_LINE
    const struct half *halves[] = { &data.send, &data.recv };

    for (int i = 0; i < 2; i++) {
        const long bytes = halves[i]->displs[halves[i]->blocks];
        for (long k = 0; k < bytes + LINE; k += LINE)
            FLUSH_LINE(halves[i]->buffer + (k < bytes ? k : bytes));
    }
    __sync_synchronize();
#endif
}
