/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * topo-fft: a distributed 2-D or 3-D FFT with FFTW, which transposes data by MPI_Alltoallv. It
 * shows how much an application gains by other algorithms for MPI_Alltoallv.
 *
 *     mpiexec -n 16 topo-fft -s 96x90x84 -a auto,planned,planned+init,tsp_planned+overlap
 *
 * Idea: the ranks are a grid of rows x cols, rank = row * cols + col. The data are in three layouts
 * in turn, and in each one axis is whole on every rank, so that plain 1-D transforms serve:
 *
 *     layout      whole   split over rows   split over cols     in memory
 *     X (input)   x       y                 z                   [z][y][x]
 *     Y           y       x                 z                   [x][z][y]
 *     Z           z       x                 y                   [x][y][z]
 *
 * From X to Y the ranks of one column exchange data, and from Y to Z the ranks of one row; backward
 * it is the same. In 2-D (slabs) there is no z, only one column, and the layout Y is the result. If
 * the number of ranks does not divide an axis, some ranks have one line more, so that counts
 * differ.
 *
 * In 3-D a transpose does not move the third axis, so it is cut into PIECES along that axis. The
 * form +overlap sends each piece by MPI_Ialltoallv as soon as it is transformed, while other pieces
 * are on their way. Backward, it transforms each piece as soon as it has arrived.
 *
 * In each repetition every algorithm makes one forward and one backward transform, in an order that
 * rotates from repetition to repetition. Algorithms are switched as in topo-bench-mpi. A time is
 * the maximum over the ranks. The time of the transposes includes only calls of MPI, in which ranks
 * may wait for each other, but no copies to and from their buffers. For +overlap, it is the part
 * that is not hidden.
 *
 * Every transform is checked. The first spectrum must equal direct sums over the input, at some
 * points, or at all points of a small grid. Every later spectrum must be equal to the first one,
 * bit for bit. The backward transform must give the input. The input is scaled by another power of
 * two each time, which does not round, so that stale data of an earlier call are found.
 *
 * Exit status: 0 success; 1 wrong data, an algorithm that cannot be applied, or lost output; 2
 * usage.
 */

#define _GNU_SOURCE

#include "algorithms.h"
#include "output.h"

#include <complex.h>
#include <fftw3.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CVAR "MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM"
#define OVERLAP_CVAR "MPIR_CVAR_IALLTOALLV_INTRA_ALGORITHM"
#define COUNTER "coll_topo_%salltoallv_%s_calls"
#define PIECES 4                /* pieces of a transpose that is overlapped */
#define ALL_POINTS 4096         /* largest number of points of a grid that are all checked */
#define SOME_POINTS 16          /* points of a larger grid that are checked */
#define TOLERANCE 1e-9          /* a wrong element is far above it, rounding is far below it */

typedef double complex element;

enum axis { X, Y, Z };

static int rank, nprocs;

static struct {
    int dims;
    long size[3];               /* size of each axis; 1: no such axis */
    int rows, cols;             /* size of the grid of ranks; 0: to be chosen */
    struct algorithm algos[MAX_ALGORITHMS];
    int num_algos;
    long reps, warmup;
    bool json, help, version;
} opt = {
    .reps = 20, .warmup = 2
};

/* ---- options ---- */

static void print_help(void)
{
    printf("Usage: mpiexec -n N topo-fft [options]\n"
           "A distributed FFT whose transposes are MPI_Alltoallv: time in these, and in all.\n"
           "Results are checked.\n\n"
           "Options:\n"
           "  -s, --size XxY[xZ]       elements of a 2-D grid, in slabs, or a 3-D one, in\n"
           "                           pencils (60x54x50)\n"
           "  -g, --grid ROWSxCOLS     of the ranks, in 3-D (as square as can be)\n"
           "  -a, --algorithms LIST    values of " CVAR ",\n"
           "                           and `auto` for the library's own choice; with +init\n"
           "                           behind it: MPI_Alltoallv_init; with +overlap:\n"
           "                           MPI_Ialltoallv in %d pieces beside the transforms of\n"
           "                           a 3-D grid, by values of\n"
           "                           " OVERLAP_CVAR ";\n"
           "                           ratios refer to the first (auto)\n"
           "  -n, --repetitions N      timed transforms, forward and backward, of each (%ld)\n"
           "  -w, --warmup N           transforms before, checked but not timed (%ld)\n"
           "  -j, --json               print JSON lines with all samples\n"
           "  -h, --help\n"
           "  -V, --version\n\n"
           "Examples:\n"
           "  mpiexec -n 16 topo-fft -s 64x64x64 -a auto,planned,planned+init\n", PIECES, opt.reps, opt.warmup);
}

/* Read numbers from 1 on, such as "60x50". Returns how many; 0 if the text is wrong. */
static int parse_product(const char *s, long *numbers, int max)
{
    int num = 0;
    char *end;

    for (;; s = end + 1) {
        if (num == max || *s < '0' || *s > '9')
            return 0;
        numbers[num] = strtol(s, &end, 10);
        if (numbers[num] < 1 || numbers[num] > INT_MAX)
            return 0;
        num++;
        if (*end != 'x')
            return *end == '\0' ? num : 0;
    }
}

static void parse_options(int argc, char **argv)
{
    static const struct option longopts[] = {
        {"size", required_argument, NULL, 's'},
        {"grid", required_argument, NULL, 'g'},
        {"algorithms", required_argument, NULL, 'a'},
        {"repetitions", required_argument, NULL, 'n'},
        {"warmup", required_argument, NULL, 'w'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0}
    };
    static char automatic[] = "auto";
    const char *size = "60x54x50";
    char *algorithms = automatic;
    long grid[2];
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":s:g:a:n:w:jhV", longopts, NULL)) != -1) {
        switch (c) {
            case 's':
                size = optarg;
                break;
            case 'g':
                if (parse_product(optarg, grid, 2) == 2) {
                    opt.rows = (int) grid[0];
                    opt.cols = (int) grid[1];
                } else {
                    usage_error("--grid: '%s': expected ROWSxCOLS, such as 4x8", optarg);
                }
                break;
            case 'a':
                algorithms = optarg;
                break;
            case 'n':
                opt.reps = parse_long("--repetitions", optarg, 1);
                break;
            case 'w':
                opt.warmup = parse_long("--warmup", optarg, 0);
                break;
            case 'j':
                opt.json = true;
                break;
            case 'h':
                opt.help = true;
                return;
            case 'V':
                opt.version = true;
                return;
            case ':':
                usage_error("%s: needs a value", argv[optind - 1]);
                break;
            default:
                usage_error("%s: no such option (see --help)", argv[optind - 1]);
        }
    }
    if (optind < argc)
        usage_error("'%s': not expected (see --help)", argv[optind]);
    opt.size[Z] = 1;
    opt.dims = parse_product(size, opt.size, 3);
    if (opt.dims < 2)
        usage_error("--size: '%s': expected XxY or XxYxZ, such as 60x54x50", size);
    if (opt.dims == 2 && opt.rows)
        usage_error("--grid: only a 3-D grid has one; in 2-D each rank has a slab");
    if (!bad_usage[0])
        opt.num_algos = algorithms_parse(algorithms, "alltoallv", CVAR, true, OVERLAP_CVAR,
                                         opt.algos);
    for (int i = 0; i < opt.num_algos; i++)
        if (opt.algos[i].overlap && opt.dims == 2)
            usage_error("--algorithms: '%s': only a 3-D grid has pieces that overlap",
                        opt.algos[i].name);
}

/* ---- distribution of the data ---- */

/* Length of part i, and below its start, if m elements are split into equal parts, the first ones
 * longer by one */
static long part(long m, long parts, long i)
{
    return m / parts + (i < m % parts);
}

static long start(long m, long parts, long i)
{
    return i * (m / parts) + (i < m % parts ? i : m % parts);
}

/* A part of a transpose: a range of its third axis, and the numbers of elements for each rank of
 * its communicator, [0] before and [1] after the transpose */
struct piece {
    long from, num;
    long base[2];               /* index of its first element in the buffers of MPI */
    int *counts[2], *displs[2];
};

/* A transpose. In the layout before it, axis i is split over the ranks of comm, and each rank has
 * the whole axis j; after it, j is split, and i is whole. The distribution of the third axis, o,
 * does not change. */
struct transpose {
    MPI_Comm comm;
    int parts, me;              /* size of comm, and this rank in it */
    long num_o, num_i, num_j;   /* length of axes; o: part of this rank; i, j: whole */
    long before_o, before_i;    /* strides in the layout before; that of j is 1 */
    long after_o, after_j;      /* strides in the layout after; that of i is 1 */
    struct piece whole, pieces[PIECES];
    MPI_Request requests[MAX_ALGORITHMS][2];    /* of persistent algorithms, by direction */
};

struct range {
    long from, num;
};

/* Ranges of i and j that this rank exchanges with rank k, in local indices */
static void shared_ranges(const struct transpose *t, bool after, int k, struct range *i,
                          struct range *j)
{
    const int i_part = after ? k : t->me, j_part = after ? t->me : k;

    i->from = after ? start(t->num_i, t->parts, k) : 0;
    i->num = part(t->num_i, t->parts, i_part);
    j->from = after ? 0 : start(t->num_j, t->parts, k);
    j->num = part(t->num_j, t->parts, j_part);
}

static bool make_piece(const struct transpose *t, long from, long num, struct piece *p)
{
    int *ints = malloc(sizeof(int) * 4 * t->parts);

    if (!ints)
        return false;
    p->from = from;
    p->num = num;
    for (int after = 0; after < 2; after++) {
        long all = 0;           /* elements for one index of the third axis */
        p->counts[after] = ints + (2 * after) * t->parts;
        p->displs[after] = ints + (2 * after + 1) * t->parts;
        for (int k = 0; k < t->parts; k++) {
            struct range i, j;
            shared_ranges(t, after, k, &i, &j);
            p->counts[after][k] = (int) (num * i.num * j.num);
            p->displs[after][k] = (int) (num * all);
            all += i.num * j.num;
        }
        p->base[after] = from * all;
    }
    return true;
}

static bool make_transpose(struct transpose *t)
{
    bool ok;

    MPI_Comm_rank(t->comm, &t->me);
    MPI_Comm_size(t->comm, &t->parts);
    ok = make_piece(t, 0, t->num_o, &t->whole);
    for (int c = 0; c < PIECES; c++)
        ok = ok && make_piece(t, start(t->num_o, PIECES, c), part(t->num_o, PIECES, c),
                              &t->pieces[c]);
    for (int a = 0; a < MAX_ALGORITHMS; a++)
        t->requests[a][0] = t->requests[a][1] = MPI_REQUEST_NULL;
    return ok;
}

/* Whether the library has a counter for calls of an algorithm. A counter shows if another algorithm
 * ran instead. Without a counter, the library must not replace the algorithm. */
static bool has_counter[MAX_ALGORITHMS];
static char refusal[MPI_MAX_ERROR_STRING];      /* error of MPI if an algorithm cannot be applied */

static struct {
    long elements[3];           /* elements of this rank in each layout */
    element *layout[3];
    element *out, *in;          /* send and receive buffer of MPI */
    element *spectrum;          /* the first spectrum, to compare with */
    fftw_plan plans[3][2][PIECES];      /* by axis, then backward and forward; the last layout has
                                         * only one piece */
    struct transpose transposes[2];
    int row, col;
    long y0, z0;                /* start of this rank's part of y and z in layout X */
    long x0, last_y0;           /* start of its part of x and, in 3-D, of y in the last layout */
} data;

/* Copy the blocks of a piece to the send buffer or, after the transpose, from the receive buffer.
 * Within a block, the order is [o][i][j]. */
static void copy_blocks(const struct transpose *t, const struct piece *p, bool after,
                        element * array, element * wire, bool to_wire)
{
    const long step_o = after ? t->after_o : t->before_o;
    const long step_i = after ? 1 : t->before_i;
    const long step_j = after ? t->after_j : 1;

    for (int k = 0; k < t->parts; k++) {
        element *next = wire + p->base[after] + p->displs[after][k];
        struct range i, j;
        shared_ranges(t, after, k, &i, &j);
        for (long o = p->from; o < p->from + p->num; o++) {
            for (long m = i.from; m < i.from + i.num; m++) {
                element *line = array + o * step_o + m * step_i + j.from * step_j;
                if (to_wire)
                    for (long n = 0; n < j.num; n++)
                        next[n] = line[n * step_j];
                else
                    for (long n = 0; n < j.num; n++)
                        line[n * step_j] = next[n];
                next += j.num;
            }
        }
    }
}

static void note_error(int err)
{
    int len;

    if (err != MPI_SUCCESS && !refusal[0])
        MPI_Error_string(err, refusal, &len);
}

/* Transpose by one call of MPI. Returns the time in MPI. */
static double transpose(struct transpose *t, int algo, bool forward, element * from, element * to)
{
    const struct algorithm *a = &opt.algos[algo];
    const struct piece *p = &t->whole;
    MPI_Request *request = &t->requests[algo][forward];
    const int first = forward ? 0 : 1, last = 1 - first;
    double time;
    int err = MPI_SUCCESS;

    copy_blocks(t, p, first, from, data.out, true);
    algorithms_select(a, !has_counter[algo]);
    if (a->persistent && *request == MPI_REQUEST_NULL)
        err = MPI_Alltoallv_init(data.out, p->counts[first], p->displs[first],
                                 MPI_C_DOUBLE_COMPLEX, data.in, p->counts[last], p->displs[last],
                                 MPI_C_DOUBLE_COMPLEX, t->comm, MPI_INFO_NULL, request);
    time = MPI_Wtime();
    if (a->persistent && err == MPI_SUCCESS) {
        MPI_Start(request);
        err = MPI_Wait(request, MPI_STATUS_IGNORE);
    } else if (!a->persistent) {
        err = MPI_Alltoallv(data.out, p->counts[first], p->displs[first], MPI_C_DOUBLE_COMPLEX,
                            data.in, p->counts[last], p->displs[last], MPI_C_DOUBLE_COMPLEX,
                            t->comm);
    }
    time = MPI_Wtime() - time;
    algorithms_select(NULL, false);
    note_error(err);
    copy_blocks(t, p, last, to, data.in, false);
    return time;
}

/* Number of the last layout, which has the spectrum */
static int last_layout(void)
{
    return opt.dims - 1;
}

static void transform_piece(int axis, bool forward, int c)
{
    if (data.plans[axis][forward][c])
        fftw_execute(data.plans[axis][forward][c]);
}

static void transform_axis(int axis, bool forward)
{
    for (int c = 0; c < PIECES; c++)
        transform_piece(axis, forward, c);
}

/* Transpose in pieces, together with the transforms before it (forward) or after it (backward).
 * Returns the time in MPI. */
static double overlap(struct transpose *t, int algo, bool forward, int axis, int next)
{
    const int first = forward ? 0 : 1, last = 1 - first;
    MPI_Request requests[PIECES];
    double time = 0, begin;
    int err, flag;

    for (int c = 0; c < PIECES; c++) {
        const struct piece *p = &t->pieces[c];
        if (forward)
            transform_piece(axis, forward, c);
        copy_blocks(t, p, first, data.layout[axis], data.out, true);
        algorithms_select(&opt.algos[algo], !has_counter[algo]);
        begin = MPI_Wtime();
        requests[c] = MPI_REQUEST_NULL;
        err = MPI_Ialltoallv(data.out + p->base[first], p->counts[first], p->displs[first],
                             MPI_C_DOUBLE_COMPLEX, data.in + p->base[last], p->counts[last],
                             p->displs[last], MPI_C_DOUBLE_COMPLEX, t->comm, &requests[c]);
        note_error(err);
        algorithms_select(NULL, false);
        for (int before = 0; before < c; before++)
            note_error(MPI_Test(&requests[before], &flag, MPI_STATUS_IGNORE));
        time += MPI_Wtime() - begin;
    }
    for (int c = 0; c < PIECES; c++) {
        begin = MPI_Wtime();
        note_error(MPI_Wait(&requests[c], MPI_STATUS_IGNORE));
        time += MPI_Wtime() - begin;
        copy_blocks(t, &t->pieces[c], last, data.layout[next], data.in, false);
        if (!forward)
            transform_piece(next, forward, c);
    }
    return time;
}

/* Make a forward or a backward transform. Returns the time in MPI. */
static double transform(int algo, bool forward)
{
    const bool overlaps = opt.algos[algo].overlap;
    double time = 0;

    for (int i = 0; i < opt.dims; i++) {
        const int axis = forward ? i : last_layout() - i, next = forward ? axis + 1 : axis - 1;
        struct transpose *t = &data.transposes[forward ? axis : next];
        if (!overlaps || axis == last_layout())
            transform_axis(axis, forward);
        if (i + 1 < opt.dims)
            time += overlaps ? overlap(t, algo, forward, axis, next) :
                transpose(t, algo, forward, data.layout[axis], data.layout[next]);
    }
    return time;
}

/* Prepare memory, plans and communicators. False if memory is exhausted. */
static bool prepare(void)
{
    const long *n = opt.size;
    const long x = part(n[X], opt.rows, data.row), y = part(n[Y], opt.rows, data.row);
    const long z = part(n[Z], opt.cols, data.col), last_y = part(n[Y], opt.cols, data.col);
    struct transpose *xy = &data.transposes[0], *yz = &data.transposes[1];
    long most = 0;

    data.y0 = start(n[Y], opt.rows, data.row);
    data.z0 = start(n[Z], opt.cols, data.col);
    data.x0 = start(n[X], opt.rows, data.row);
    data.last_y0 = opt.dims == 3 ? start(n[Y], opt.cols, data.col) : 0;
    data.elements[X] = n[X] * y * z;
    data.elements[Y] = n[Y] * x * z;
    data.elements[Z] = n[Z] * x * last_y;
    *xy = (struct transpose) {
        .num_o = z, .num_i = n[Y], .num_j = n[X],
        .before_o = y * n[X], .before_i = n[X], .after_o = n[Y], .after_j = z * n[Y]
    };
    MPI_Comm_split(MPI_COMM_WORLD, data.col, data.row, &xy->comm);
    MPI_Comm_set_errhandler(xy->comm, MPI_ERRORS_RETURN);
    if (!make_transpose(xy))
        return false;
    if (opt.dims == 3) {
        *yz = (struct transpose) {
            .num_o = x, .num_i = n[Z], .num_j = n[Y],
            .before_o = z * n[Y], .before_i = n[Y], .after_o = last_y * n[Z], .after_j = n[Z]
        };
        MPI_Comm_split(MPI_COMM_WORLD, data.row, data.col, &yz->comm);
        MPI_Comm_set_errhandler(yz->comm, MPI_ERRORS_RETURN);
        if (!make_transpose(yz))
            return false;
    }
    for (int l = 0; l < opt.dims; l++) {
        data.layout[l] = fftw_malloc(sizeof(element) * (data.elements[l] + 1));
        if (!data.layout[l])
            return false;
        most = data.elements[l] > most ? data.elements[l] : most;
        /* Also forms without overlap transform by pieces of the slowest axis in memory, so that all
         * algorithms give the same bits. */
        const long lines = l == last_layout() ? 1 : data.transposes[l].num_o;
        for (int i = 0; i < 2 * PIECES && lines > 0; i++) {
            const int forward = i / PIECES, c = i % PIECES, len = (int) n[l];
            const int num = (int) (data.elements[l] / len / lines * part(lines, PIECES, c));
            element *e = data.layout[l] + data.elements[l] / lines * start(lines, PIECES, c);
            if (num == 0)
                continue;
            data.plans[l][forward][c] =
                fftw_plan_many_dft(1, &len, num, e, NULL, 1, len, e, NULL, 1, len,
                                   forward ? FFTW_FORWARD : FFTW_BACKWARD, FFTW_ESTIMATE);
            if (!data.plans[l][forward][c])
                return false;
        }
    }
    data.out = fftw_malloc(sizeof(element) * (most + 1));
    data.in = fftw_malloc(sizeof(element) * (most + 1));
    data.spectrum = fftw_malloc(sizeof(element) * (data.elements[last_layout()] + 1));
    return data.out && data.in && data.spectrum;
}

static void release(void)
{
    for (int l = 0; l < 3; l++) {
        for (int i = 0; i < 2 * PIECES; i++)
            if (data.plans[l][i / PIECES][i % PIECES])
                fftw_destroy_plan(data.plans[l][i / PIECES][i % PIECES]);
        fftw_free(data.layout[l]);
    }
    fftw_free(data.out);
    fftw_free(data.in);
    fftw_free(data.spectrum);
    for (int i = 0; i < opt.dims - 1; i++) {
        struct transpose *t = &data.transposes[i];
        for (int a = 0; a < 2 * opt.num_algos; a++)
            if (t->requests[a / 2][a % 2] != MPI_REQUEST_NULL)
                MPI_Request_free(&t->requests[a / 2][a % 2]);
        free(t->whole.counts[0]);
        for (int c = 0; c < PIECES; c++)
            free(t->pieces[c].counts[0]);
        MPI_Comm_free(&t->comm);
    }
}

/* ---- the input, and checks of the results ---- */

/* The element of the input at (x, y, z): noise, real and imaginary part from -1 to 1 */
static element input(long x, long y, long z)
{
    uint64_t h = (uint64_t) ((z * opt.size[Y] + y) * opt.size[X] + x) + 1;

    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u + 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    h ^= h >> 31;
    return ((double) (h >> 32) + (double) (h & 0xffffffff) * I) / 0x7fffffff - (1 + I);
}

/* Loop over the elements of layout X of this rank, in their order */
#define FOR_INPUT(x, y, z) \
    for (long z = data.z0; z < data.z0 + part(opt.size[Z], opt.cols, data.col); z++) \
        for (long y = data.y0; y < data.y0 + part(opt.size[Y], opt.rows, data.row); y++) \
            for (long x = 0; x < opt.size[X]; x++)

static void fill(double scale)
{
    element *e = data.layout[X];

    FOR_INPUT(x, y, z) {
        *e++ = scale * input(x, y, z);
    }
}

static double all_elements(void)
{
    return (double) opt.size[X] * opt.size[Y] * opt.size[Z];
}

/* Largest error of the input after a forward and a backward transform */
static double input_error(double scale)
{
    const element *e = data.layout[X];
    double worst = 0, all;

    FOR_INPUT(x, y, z) {
        const double error = cabs(*e++ / (all_elements() * scale) - input(x, y, z));
        if (!(error <= worst))  /* also true for NaN */
            worst = error;
    }
    MPI_Allreduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* This rank's element of the spectrum at a point; NULL if another rank has it. */
static const element *spectrum_at(const long *point)
{
    const long x = point[X] - data.x0, y = point[Y] - data.last_y0;
    const long num_x = part(opt.size[X], opt.rows, data.row);
    const long num_y = opt.dims == 3 ? part(opt.size[Y], opt.cols, data.col) : opt.size[Y];

    if (x < 0 || x >= num_x || y < 0 || y >= num_y)
        return NULL;
    return data.layout[last_layout()] + (x * num_y + y) * opt.size[Z] + point[Z];
}

/* Largest difference of the spectrum from direct sums, in units of its root mean square */
static double spectrum_error(void)
{
    const long all = all_elements() <= ALL_POINTS ? (long) all_elements() : 0;
    const long points = all ? all : SOME_POINTS;
    element *roots[3];          /* roots of unity for each axis */
    double worst = 0;

    for (int axis = 0; axis < 3; axis++) {
        roots[axis] = malloc(sizeof(element) * opt.size[axis]);
        if (!roots[axis])
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (long i = 0; i < opt.size[axis]; i++)
            roots[axis][i] = cexp(-2 * M_PI * I * i / opt.size[axis]);
    }
    for (long k = 0; k < points; k++) {
        /* in a large grid, check the first point and scattered ones */
        long index = all || k == 0 ? k : (long) (all_elements() * fmod(k * 0.6180339887498949, 1));
        element mine[2] = { 0, 0 }, sums[2];
        const element *found;
        long point[3];
        point[X] = index % opt.size[X];
        point[Y] = index / opt.size[X] % opt.size[Y];
        point[Z] = index / opt.size[X] / opt.size[Y] % opt.size[Z];
        FOR_INPUT(x, y, z) {
            mine[0] += input(x, y, z) * roots[X][x * point[X] % opt.size[X]] *
                roots[Y][y * point[Y] % opt.size[Y]] * roots[Z][z * point[Z] % opt.size[Z]];
        }
        found = spectrum_at(point);
        mine[1] = found ? *found : 0;
        MPI_Allreduce(mine, sums, 2, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
        if (!(cabs(sums[0] - sums[1]) <= worst))
            worst = cabs(sums[0] - sums[1]);
    }
    for (int axis = 0; axis < 3; axis++)
        free(roots[axis]);
    return worst / sqrt(all_elements());
}

/* True on all ranks if the spectrum is the first one times scale */
static bool same_spectrum(double scale)
{
    const element *e = data.layout[last_layout()];
    int differ = 0, any;

    for (long i = 0; i < data.elements[last_layout()]; i++)
        differ |= e[i] != scale * data.spectrum[i];
    MPI_Allreduce(&differ, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return !any;
}

/* ---- timing ---- */

struct result {
    double *transposes_us, *total_us;
    long calls;                 /* calls of MPI_Alltoallv, MPI_Start or MPI_Ialltoallv on rank 0 */
    unsigned long counted;      /* number of these calls by this algorithm, as the library counts */
};

static double spectrum_off, input_off;  /* largest errors that were found */

/* Read the counter of an algorithm's calls, if the library has one. */
static unsigned long read_counter(MPI_T_pvar_session session, const struct algorithm *a,
                                  bool * found)
{
    char name[128];
    unsigned long value = 0;
    int index, count;
    MPI_T_pvar_handle handle;

    snprintf(name, sizeof(name), COUNTER, a->overlap ? "i" : "", a->item);
    *found = MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS &&
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS;
    if (*found) {
        MPI_T_pvar_read(session, handle, &value);
        MPI_T_pvar_handle_free(session, &handle);
    }
    return value;
}

static bool refused_anywhere(void)
{
    int mine = refusal[0] != '\0', any;

    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

/* Measure a forward and a backward transform. `call` is their number over all algorithms; all
 * others are compared with number 0. Returns false on all ranks after an error, which rank 0 has
 * reported. */
static bool measure(int algo, long call, double *transposes_us, double *total_us)
{
    const double scale = ldexp(1, (int) (call % 16) - 8);
    double mine[2] = { 0, 0 }, all[2], t, error;
    const char *what = NULL;

    fill(scale);
    for (int forward = 1; forward >= 0 && !what; forward--) {
        MPI_Barrier(MPI_COMM_WORLD);
        t = MPI_Wtime();
        mine[0] += transform(algo, forward);
        mine[1] += MPI_Wtime() - t;
        if (refused_anywhere()) {
            what = "this MPI library cannot apply it here";
        } else if (forward && call == 0) {
            for (long i = 0; i < data.elements[last_layout()]; i++) {
                data.layout[last_layout()][i] /= scale;
                data.spectrum[i] = data.layout[last_layout()][i];
            }
            spectrum_off = spectrum_error();
            if (!(spectrum_off <= TOLERANCE))
                what = "the spectrum is not that of direct sums";
            for (long i = 0; i < data.elements[last_layout()]; i++)
                data.layout[last_layout()][i] *= scale;
        } else if (forward && !same_spectrum(scale)) {
            what = "the spectrum is not that of the first transform";
        } else if (!forward) {
            error = input_error(scale);
            if (!(error <= input_off))
                input_off = error;
            if (!(error <= TOLERANCE))
                what = "the backward transform does not give the input";
        }
    }
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *transposes_us = all[0] * 1e6;
    *total_us = all[1] * 1e6;
    for (char *c = refusal; *c; c++)
        if (*c == '\n')
            *c = ' ';
    if (what && rank == 0)
        fprintf(stderr, "topo-fft: algorithm %s, transform %ld: %s%s%s\n", opt.algos[algo].name,
                call, what, refusal[0] ? ": " : "", refusal);
    return !what;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(const double *list, long num)
{
    double *sorted = malloc(sizeof(double) * num), m;

    if (!sorted)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memcpy(sorted, list, sizeof(double) * num);
    qsort(sorted, num, sizeof(double), by_value);
    m = (sorted[(num - 1) / 2] + sorted[num / 2]) / 2;
    free(sorted);
    return m;
}

static void print_list(const char *name, const double *list)
{
    printf(", \"%s\": [", name);
    for (long i = 0; i < opt.reps; i++)
        printf("%s%.2f", i ? ", " : "", list[i]);
    printf("]");
}

/* Mean bytes of a block in a transpose, over the ranks that exchange blocks */
static double mean_block(int transpose)
{
    const double parts = transpose == 0 ? opt.rows : opt.cols;

    return all_elements() * sizeof(element) / nprocs / parts;
}

static void print_results(const struct result *results)
{
    const struct result *first = &results[0];

    if (opt.json) {
        printf("{\"type\": \"start\", \"program\": \"topo-fft\", \"format\": 1, \"size\": [");
        for (int i = 0; i < opt.dims; i++)
            printf("%s%ld", i ? ", " : "", opt.size[i]);
        printf("], \"ranks\": %d, \"grid\": [%d, %d], \"block_bytes\": [", nprocs, opt.rows,
               opt.cols);
        for (int i = 0; i < opt.dims - 1; i++)
            printf("%s%.1f", i ? ", " : "", mean_block(i));
        printf("], \"spectrum_error\": %.3g, \"input_error\": %.3g}\n", spectrum_off, input_off);
    } else {
        printf("%d-D FFT of %ld x %ld", opt.dims, opt.size[X], opt.size[Y]);
        if (opt.dims == 3)
            printf(" x %ld on %d x %d ranks, blocks of %.0f and %.0f bytes", opt.size[Z], opt.rows,
                   opt.cols, mean_block(0), mean_block(1));
        else
            printf(" on %d ranks, blocks of %.0f bytes", nprocs, mean_block(0));
        printf(" on average\nmedians of %ld transforms, forward and backward; errors: %.1g of "
               "the spectrum, %.1g of the input\n\n", opt.reps, spectrum_off, input_off);
        printf("%-24s %14s %7s %10s %7s   %s\n", "algorithm", "transposes ms", "ratio", "total ms",
               "ratio", "calls by it");
    }
    for (int i = 0; i < opt.num_algos; i++) {
        const struct result *r = &results[i];
        const double transposes = median(r->transposes_us, opt.reps);
        const double total = median(r->total_us, opt.reps);
        if (opt.json) {
            printf("{\"type\": \"result\", \"algorithm\": \"%s\", \"transposes_median_us\": %.2f, "
                   "\"total_median_us\": %.2f, \"calls\": %ld", opt.algos[i].name, transposes,
                   total, r->calls);
            if (has_counter[i])
                printf(", \"calls_counted\": %lu", r->counted);
            print_list("transposes_us", r->transposes_us);
            print_list("total_us", r->total_us);
            printf("}\n");
        } else {
            printf("%-24s %14.3f %7.2f %10.3f %7.2f", opt.algos[i].name, transposes / 1e3,
                   transposes / median(first->transposes_us, opt.reps), total / 1e3,
                   total / median(first->total_us, opt.reps));
            if (has_counter[i])
                printf("   %lu of %ld", r->counted, r->calls);
            printf("\n");
        }
    }
    if (opt.json)
        printf("{\"type\": \"end\", \"program\": \"topo-fft\"}\n");
}

static bool run(void)
{
    struct result results[MAX_ALGORITHMS] = { {NULL} };
    MPI_T_pvar_session session;
    bool found;
    int ok, all_ok;
    long call = 0;

    ok = prepare();
    MPI_Allreduce(&ok, &all_ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_ok) {
        if (rank == 0)
            fprintf(stderr, "topo-fft: no memory for this size\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < opt.num_algos; i++) {
        results[i].transposes_us = malloc(sizeof(double) * opt.reps);
        results[i].total_us = malloc(sizeof(double) * opt.reps);
        if (!results[i].transposes_us || !results[i].total_us)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; ok && i < opt.num_algos; i++) {
        read_counter(session, &opt.algos[i], &has_counter[i]);
        /* For some algorithms only, MPICH reads the CVAR in the persistent form. Without a counter,
         * another algorithm might be measured under its name. */
        ok = has_counter[i] || !opt.algos[i].forced || !opt.algos[i].persistent;
        if (!ok && rank == 0)
            fprintf(stderr, "topo-fft: --algorithms: '%s': this MPI library does not tell whether "
                    "%s runs in the persistent alltoallv\n", opt.algos[i].name, opt.algos[i].item);
    }
    for (long rep = -opt.warmup; ok && rep < opt.reps; rep++) {
        for (int i = 0; ok && i < opt.num_algos; i++) {
            const int algo = (int) ((i + rep + opt.warmup) % opt.num_algos);
            struct result *r = &results[algo];
            const unsigned long before = read_counter(session, &opt.algos[algo], &found);
            double transposes, total;
            ok = measure(algo, call++, &transposes, &total);
            r->calls += 2 * (opt.dims - 1) * (opt.algos[algo].overlap ? PIECES : 1);
            r->counted += read_counter(session, &opt.algos[algo], &found) - before;
            if (rep >= 0) {
                r->transposes_us[rep] = transposes;
                r->total_us[rep] = total;
            }
        }
    }
    if (ok && rank == 0) {
        print_results(results);
        ok = flush_output("topo-fft");
    }
    for (int i = 0; i < opt.num_algos; i++) {
        free(results[i].transposes_us);
        free(results[i].total_us);
    }
    MPI_T_pvar_session_free(&session);
    release();
    return ok;
}

/* Find the grid of ranks, and this rank's place in it. */
static void place(void)
{
    if (opt.dims == 2) {
        opt.rows = nprocs;
        opt.cols = 1;
    } else if (opt.rows == 0) {
        for (opt.rows = 1; (opt.rows + 1) * (opt.rows + 1) <= nprocs; opt.rows++);
        while (nprocs % opt.rows)
            opt.rows--;
        opt.cols = nprocs / opt.rows;
    } else if ((long) opt.rows * opt.cols != nprocs) {
        usage_error("--grid: %dx%d are not the %d ranks of this job", opt.rows, opt.cols, nprocs);
        return;
    }
    data.row = rank / opt.cols;
    data.col = rank % opt.cols;
    /* check the elements of rank 0, which has the most, in each layout */
    for (int axis = 0; axis < opt.dims; axis++) {
        const int a = axis == X ? Y : X, b = axis == Z ? Y : Z;
        if ((double) opt.size[axis] * part(opt.size[a], opt.rows, 0) *
            part(opt.size[b], opt.cols, 0) > INT_MAX)
            usage_error("--size: a rank would have over 2^31 elements, the limit of "
                        "MPI_Alltoallv's displacements");
    }
}

int main(int argc, char **argv)
{
    int provided, rc = 0;

    guard_output();
    parse_options(argc, argv);
    opt.help |= opt.version;
    if (!opt.help && !bad_usage[0])
        algorithms_ask();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    if (!opt.help && !bad_usage[0])
        place();
    if (opt.help) {
        if (rank == 0 && opt.version) {
            rc = print_version("topo-fft") ? 0 : 1;
        } else if (rank == 0) {
            print_help();
            rc = flush_output("topo-fft") ? 0 : 1;
        }
    } else if (bad_usage[0]) {
        if (rank == 0)
            fprintf(stderr, "topo-fft: %s\n", bad_usage);
        rc = 2;
    } else {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        algorithms_open(CVAR, OVERLAP_CVAR);
        rc = run() ? 0 : 1;
        MPI_T_finalize();
    }
    MPI_Finalize();
    return rc;
}
