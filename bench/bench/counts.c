/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Counts: patterns, and the bytes of each block that follow from them
 */

#include "bench.h"
#include "../splitmix.h"

#define ELEMENT 16      /* of an FFT: a complex double */
#define SPARSE_PARTNERS 4
#define HEAVY_TIMES 16
#define MIXED_TIMES 256

const struct pattern_text patterns[NUM_PATTERNS] = {
    [UNIFORM] = {"uniform", "the size to each rank"},
    [RANDOM] = {"random", "0 to twice the size, drawn for each pair of ranks"},
    [SPARSE] = {"sparse", "the size to about four ranks, drawn; to the others nothing"},
    [HEAVY] = {"heavy", "16 times the size to and from the rank --root, else the size"},
    [MIXED] = {"mixed", "256 times the size to about one rank, drawn, else the size"},
    [FFT2D] = {"fft2d", "transpose of a 2-D FFT in slabs, all ranks with all"},
    [FFT3D_ROWS] = {"fft3d_rows", "of a 3-D FFT in pencils, in rows of consecutive ranks"},
    [FFT3D_COLS] = {"fft3d_cols", "the other transpose of it, between these rows"},
    [CHANGING] = {"changing", "as random, but drawn anew for each call"},
};

void counts_parse_pattern(const char *name)
{
    int found = 0;

    while (found < NUM_PATTERNS && strcmp(patterns[found].name, name))
        found++;
    if (found == NUM_PATTERNS) {
        char known[256] = "";
        for (int i = 0; i < NUM_PATTERNS; i++)
            sprintf(known + strlen(known), "%s%s", i ? ", " : "", patterns[i].name);
        usage_error("--pattern: '%s' is none of: %s", name, known);
    } else if (found != UNIFORM && !coll_has_counts()) {
        usage_error("--pattern %s: %s has one count for all, expected -c alltoallv", name,
                    opt.coll->name);
    } else if (found != UNIFORM && found != RANDOM && found != SPARSE && !coll_is_alltoallv()) {
        usage_error("--pattern %s: not of %s, expected random or sparse", name, opt.coll->name);
    } else if (found == CHANGING && opt.first > 0) {
        usage_error("--first: with pattern changing no call is like the first");
    } else {
        opt.pattern = found;
    }
}

/* A 3-D FFT transposes within rows, or within columns, of a grid of ranks that is as square as
 * possible. All edges of the data are equal. */
static struct {
    long rows, cols;            /* of ranks */
    long edge;
} fft;

/* Length of part i if m is split into equal parts, the first ones longer by one */
static long part(long m, long parts, long i)
{
    return m / parts + (i < m % parts);
}

/* Use the largest edge for which the mean of the exchanged blocks has at most `bytes`, or one less,
 * so that ranks do not divide the edge. */
static void prepare_fft(long bytes)
{
    const bool is_2d = opt.pattern == FFT2D;
    const double mean = (double) bytes / ELEMENT;
    const double p = nprocs;
    double power;

    for (fft.rows = 1; (fft.rows + 1) * (fft.rows + 1) <= nprocs; fft.rows++);
    while (nprocs % fft.rows)
        fft.rows--;
    fft.cols = nprocs / fft.rows;
    power = mean * p * (is_2d ? p : opt.pattern == FFT3D_ROWS ? fft.cols : fft.rows);
    for (fft.edge = 0;; fft.edge++) {
        const double next = fft.edge + 1;
        if (next * next * (is_2d ? 1 : next) > power)
            break;
    }
    if (fft.edge > 1 && nprocs > 1 &&
        fft.edge % (is_2d ? nprocs : fft.cols) == 0 && (is_2d || fft.edge % fft.rows == 0))
        fft.edge--;
}

/* A pseudorandom number for a block */
static uint64_t draw(int from, int to, long version)
{
    uint64_t x = (uint64_t) from << 32 | (uint32_t) to;

    x += 0x9e3779b97f4a7c15u * (uint64_t) (opt.seed + 1) + 0xd1342543de82ef95u * (uint64_t) version;
    return mix(x);
}

static long pattern_bytes(long bytes, int from, int to, long version)
{
    long blocks, elements = 0;

    if (opt.in_place && from > to) {    /* the same number of bytes comes and goes */
        int swap = from;
        from = to;
        to = swap;
    }
    switch (opt.pattern) {
        case RANDOM:
        case CHANGING:
            return (long) (draw(from, to, version) % (uint64_t) (2 * bytes + 1));
        case SPARSE:
            blocks = draw(from, to, version) % (uint64_t) nprocs < SPARSE_PARTNERS;
            break;
        case HEAVY:
            blocks = from == opt.root || to == opt.root ? HEAVY_TIMES : 1;
            break;
        case MIXED:
            blocks = draw(from, to, version) % (uint64_t) nprocs < 1 ? MIXED_TIMES : 1;
            break;
        case FFT2D:
            elements = part(fft.edge, nprocs, from) * part(fft.edge, nprocs, to);
            return elements * ELEMENT;
        case FFT3D_ROWS:       /* rank = row * cols + column */
        case FFT3D_COLS:
            if (opt.pattern == FFT3D_ROWS && from / fft.cols == to / fft.cols)
                elements = part(fft.edge, fft.cols, to % fft.cols);
            else if (opt.pattern == FFT3D_COLS && from % fft.cols == to % fft.cols)
                elements = part(fft.edge, fft.rows, to / fft.cols);
            return elements * part(fft.edge, fft.rows, from / fft.cols) *
                part(fft.edge, fft.cols, from % fft.cols) * ELEMENT;
        default:
            blocks = 1;
    }
    return blocks * bytes;
}

long counts_more(long version)
{
    return coll_is_alltoallv() && opt.pattern != CHANGING ? version : 0;
}

long counts_block(long bytes, int from, int to, long version)
{
    return pattern_bytes(bytes, from, to, opt.pattern == CHANGING ? version : 0) +
        (from == 0 && to == 0 ? counts_more(version) : 0);
}

/* If all receivers get the same block, the count of the root applies. */
long counts_sent(long bytes, int i, long version)
{
    return counts_block(bytes, rank, opt.coll->personalised ? i : (int) opt.root, version);
}

long counts_received(long bytes, int i, long version)
{
    const int from = opt.coll->recv == ONE ? (int) opt.root : i;

    return counts_block(bytes, from, opt.coll->personalised ? rank : (int) opt.root, version);
}

long counts_most(long bytes)
{
    long sent = 0, received = 0;

    if (opt.pattern == CHANGING)
        return 2 * bytes * nprocs;
    prepare_fft(bytes);
    for (int i = 0; i < nprocs; i++) {
        sent += counts_sent(bytes, i, 0);
        received += counts_received(bytes, i, 0);
    }
    return sent > received ? sent : received;
}

void counts_check_most(bool makes_traffic, int measured)
{
    for (int i = 0; i < opt.num_sizes; i++) {
        long mine = makes_traffic ? 0 : counts_most(opt.sizes[i]), most;

        MPI_Allreduce(&mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
        if (most > INT_MAX)
            usage_error("--sizes: %ld bytes, pattern %s: %ld bytes of a rank to all %d ranks are "
                        "over 2^31, the limit of displacements", opt.sizes[i],
                        patterns[opt.pattern].name, most, measured);
    }
}
