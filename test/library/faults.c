/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* What happens to a collective when the process cannot have what the library asks the system for.
 *
 * This program has malloc, mmap, ... of its own, which stand before those of the C library. They
 * fail once in a call, at the k-th request that a function of ours makes; test_faults.py tells which
 * functions are ours. For each case, each victim (a rank, or -1: all of them) and k = 1, 2, ... until
 * there are no more requests, the collective is called on a new communicator with MPI_ERRORS_RETURN.
 * It may succeed, with right data, on all ranks; it may return an error, on the rank that failed at
 * least, and right data wherever it returns none; or the job may end, with one message. If it
 * succeeds it has to work again on the communicator, and in any case on the next one. No memory of
 * ours, mapping or file stays behind.
 *
 *   faults --functions FILE [options] CALL[=COUNTER]...
 *
 *   CALL                a collective, with an i before it or _init after it; or mismatch, an alltoallv in
 *                       which a rank has room for more than it gets
 *   COUNTER             performance variable that its cases raise without faults
 *   --functions FILE    lines `offset size name` (hexadecimal) of our functions in libmpi
 *   --from C,V,K        begin with the K-th request on victim V of case C; default 0,0,1. Those of one CALL
 *                       are numbered after those of the one before it.
 *   --skip PLACE,...    requests that do not fail any more: as FAULT tells them, or all of a FUNCTION, or
 *                       FUNCTION<CALLER; or CALL:PLACE, in that one alone
 *   --cases C,C,...     of each CALL; default all
 *   --victims R,R,...   default -1,0,1,last
 *   --patience S        seconds after which a call hangs
 *   --lose              no requests fail, but receives of our functions: their messages are lost
 *   --first-use         one case, on MPI_COMM_WORLD in a new process, and no more than one k
 *
 * Output: FAULT before a request fails, with the place; a line FAIL, HANG, CRASH or LEAK for what
 * may not happen; at the end `OK <n> faults, <m> errors`, or `AGAIN C,V,K`: go on from there in a
 * new process. */

#define _GNU_SOURCE
#include "counters.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---------------------------------------------------------------- functions of the library */

typedef struct {
    uintptr_t begin, end;
    char name[80];
} function_t;

static function_t functions[4096];      /* ascending */
static int num_functions;

static const function_t *function_at(const void *address)
{
    uintptr_t at = (uintptr_t) address - 1;     /* of the call: it may be the last thing there */
    int low = 0, high = num_functions;

    while (low < high) {
        int middle = (low + high) / 2;
        if (functions[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < num_functions && functions[low].begin <= at ? &functions[low] : NULL;
}

static void read_functions(const char *file)
{
    FILE *in = fopen(file, "r");
    unsigned long offset, size;
    char name[80];
    Dl_info info;

    if (in == NULL || !dladdr(dlsym(RTLD_DEFAULT, "MPI_Init"), &info)) {
        fprintf(stderr, "faults: %s: cannot be used\n", file);
        exit(2);
    }
    while (num_functions < 4096 && fscanf(in, "%lx %lx %79s", &offset, &size, name) == 3) {
        function_t *f = &functions[num_functions++];
        f->begin = (uintptr_t) info.dli_fbase + offset;
        f->end = f->begin + size;
        strcpy(f->name, name);
    }
    fclose(in);
}

/* ---------------------------------------------------------------- what fails */

static int world_rank, world_size;
static char where[128];         /* case, victim and k, for messages */
static const char *call_name = "-";     /* what is called, likewise */
static bool is_armed;
static int num_requests, fail_at;
static bool has_failed;
static const char *skip = "";

/* Not printf: it may ask for memory itself. */
static void say(const char *what, const char *detail, const char *more)
{
    char line[800];
    int n = snprintf(line, sizeof(line), "%s %s rank %d %s: %s%s\n", what, where, world_rank, call_name,
                     detail, more);
    if (write(STDOUT_FILENO, line, n) < 0)
        abort();
}

static bool is_skipped(const char *place)
{
    size_t len = strlen(place);

    for (const char *at = strstr(skip, place); at; at = strstr(at + 1, place))
        if ((at == skip || at[-1] == ',') && (at[len] == ',' || !at[len]))
            return true;
    return false;
}

/* `function+offset<caller<...` of the innermost functions of ours. Returns whether that is skipped. */
static bool find_place(const void *caller, char place[400])
{
    void *frames[32];
    const function_t *f = function_at(caller);
    int n = backtrace(frames, 32), depth = 0;
    char brief[200], of_call[500];
    bool skips = is_skipped(f->name);

    snprintf(place, 100, "%s+%lx", f->name, (long) ((uintptr_t) caller - f->begin));
    for (int i = 0; i < n && depth < 3; i++) {
        const function_t *g = function_at(frames[i]);
        if (g && g != f) {
            if (depth++ == 0) {
                snprintf(brief, sizeof(brief), "%s<%s", f->name, g->name);
                skips = skips || is_skipped(brief);
            }
            snprintf(place + strlen(place), 90, "<%s", g->name);
            f = g;
        }
    }
    snprintf(of_call, sizeof(of_call), "%s:%s", call_name, place);
    return skips || is_skipped(place) || is_skipped(of_call);
}

static bool loses;              /* messages: requests do not fail */

static bool fails(const void *caller, const char *call)
{
    char place[400], detail[40];

    if (!is_armed || loses != !strcmp(call, "receive") || function_at(caller) == NULL ||
        ++num_requests != fail_at)
        return false;
    is_armed = false;
    bool skips = find_place(caller, place);
    is_armed = true;
    if (skips) {
        fail_at++;
        return false;
    }
    has_failed = true;
    snprintf(detail, sizeof(detail), "%s in ", call);
    say("FAULT", detail, place);
    errno = ENOMEM;
    return true;
}

/* What functions of ours hold */
static struct {
    void *ptr;
    const function_t *owner;
    long number;
} held[32768];
static int num_held;
static long last_number;

static void *hold(void *ptr, const void *caller)
{
    const function_t *owner = num_functions ? function_at(caller) : NULL;

    if (ptr == NULL || owner == NULL)
        return ptr;
    if (num_held == sizeof(held) / sizeof(held[0]))
        abort();
    held[num_held].ptr = ptr;
    held[num_held].owner = owner;
    held[num_held++].number = ++last_number;
    return ptr;
}

static void let_go(const void *ptr)
{
    for (int i = num_held - 1; i >= 0 && ptr; i--) {
        if (held[i].ptr == ptr) {
            held[i] = held[--num_held];
            return;
        }
    }
}

/* ---------------------------------------------------------------- requests to the system */

#define CALLER __builtin_return_address(0)
#define NEXT(name_) ((__typeof__(&name_)) next(#name_, &next_##name_))
#define DECLARE(name_) static void *next_##name_

static char early[4096];        /* what dlsym itself asks for */
static size_t early_used;
static bool is_resolving;

static void *next(const char *name, void **address)
{
    if (*address == NULL) {
        is_resolving = true;
        *address = dlsym(RTLD_NEXT, name);
        is_resolving = false;
    }
    return *address;
}

static void *early_malloc(size_t size)
{
    void *ptr = early + early_used;

    early_used += (size + 15) & ~(size_t) 15;
    if (early_used > sizeof(early))
        abort();
    return ptr;
}

static bool is_early(const void *ptr)
{
    return (const char *) ptr >= early && (const char *) ptr < early + sizeof(early);
}

DECLARE(malloc);
void *malloc(size_t size)
{
    if (is_resolving)
        return early_malloc(size);
    return fails(CALLER, "malloc") ? NULL : hold(NEXT(malloc) (size), CALLER);
}

DECLARE(calloc);
void *calloc(size_t num, size_t size)
{
    if (is_resolving)
        return early_malloc(num * size);
    return fails(CALLER, "calloc") ? NULL : hold(NEXT(calloc) (num, size), CALLER);
}

DECLARE(realloc);
void *realloc(void *old, size_t size)
{
    void *ptr;

    if (fails(CALLER, "realloc"))
        return NULL;
    ptr = NEXT(realloc) (old, size);
    if (ptr)
        let_go(old);
    return hold(ptr, CALLER);
}

DECLARE(free);
void free(void *ptr)
{
    let_go(ptr);
    if (!is_early(ptr))
        NEXT(free) (ptr);
}

DECLARE(posix_memalign);
int posix_memalign(void **ptr, size_t alignment, size_t size)
{
    if (fails(CALLER, "posix_memalign"))
        return ENOMEM;
    int ret = NEXT(posix_memalign) (ptr, alignment, size);
    if (ret == 0)
        hold(*ptr, CALLER);
    return ret;
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = fails(CALLER, "strdup") ? NULL : hold(NEXT(malloc) (size), CALLER);

    return copy ? memcpy(copy, text, size) : NULL;
}

DECLARE(munmap);
int munmap(void *ptr, size_t length)
{
    let_go(ptr);
    return NEXT(munmap) (ptr, length);
}

/* Under both names, that of large files and the plain one */
#define FOR_BOTH(define_) define_() define_(64)

#define DEFINE_MMAP(suffix_)                                                                    \
    DECLARE(mmap##suffix_);                                                                     \
    void *mmap##suffix_(void *at, size_t length, int prot, int flags, int fd, off_t offset)     \
    {                                                                                           \
        if (fails(CALLER, "mmap"))                                                              \
            return MAP_FAILED;                                                                  \
        void *ptr = NEXT(mmap##suffix_) (at, length, prot, flags, fd, offset);                  \
        return ptr == MAP_FAILED ? ptr : hold(ptr, CALLER);                                     \
    }
FOR_BOTH(DEFINE_MMAP)

#define DEFINE_OPEN(suffix_)                                                                    \
    DECLARE(open##suffix_);                                                                     \
    int open##suffix_(const char *path, int flags, ...)                                         \
    {                                                                                           \
        va_list args;                                                                           \
        va_start(args, flags);                                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                 \
        va_end(args);                                                                           \
        return fails(CALLER, "open") ? -1 : NEXT(open##suffix_) (path, flags, mode);            \
    }
FOR_BOTH(DEFINE_OPEN)

#define DEFINE_FTRUNCATE(suffix_)                                                               \
    DECLARE(ftruncate##suffix_);                                                                \
    int ftruncate##suffix_(int fd, off_t length)                                                \
    {                                                                                           \
        return fails(CALLER, "ftruncate") ? -1 : NEXT(ftruncate##suffix_) (fd, length);         \
    }
FOR_BOTH(DEFINE_FTRUNCATE)

#define DEFINE_FALLOCATE(suffix_)                                                               \
    DECLARE(posix_fallocate##suffix_);                                                          \
    int posix_fallocate##suffix_(int fd, off_t offset, off_t length)                            \
    {                                                                                           \
        return fails(CALLER, "posix_fallocate") ? ENOSPC :                                      \
            NEXT(posix_fallocate##suffix_) (fd, offset, length);                                \
    }
FOR_BOTH(DEFINE_FALLOCATE)

DECLARE(memfd_create);
int memfd_create(const char *name, unsigned flags)
{
    return fails(CALLER, "memfd_create") ? -1 : NEXT(memfd_create) (name, flags);
}

DECLARE(fstat);
int fstat(int fd, struct stat *info)
{
    return fails(CALLER, "fstat") ? -1 : NEXT(fstat) (fd, info);
}

DECLARE(socket);
int socket(int domain, int type, int protocol)
{
    return fails(CALLER, "socket") ? -1 : NEXT(socket) (domain, type, protocol);
}

DECLARE(bind);
int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    return fails(CALLER, "bind") ? -1 : NEXT(bind) (fd, address, len);
}

DECLARE(timerfd_create);
int timerfd_create(int clock, int flags)
{
    return fails(CALLER, "timerfd_create") ? -1 : NEXT(timerfd_create) (clock, flags);
}

DECLARE(syscall);
long syscall(long number, ...)
{
    va_list args;
    long arg[6];

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_memfd_create && fails(CALLER, "memfd_create"))
        return -1;
    return NEXT(syscall) (number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* ---------------------------------------------------------------- messages */

#ifdef WRAPS_RECEIVES           /* a static program: -Wl,--wrap=MPIC_Irecv */

int __real_MPIC_Irecv(void *buf, MPI_Aint count, MPI_Datatype type, int source, int tag, void *comm,
                      void **req);

/* A message that is lost: it comes, but not to where it should, and its receive returns an error. */
int __wrap_MPIC_Irecv(void *buf, MPI_Aint count, MPI_Datatype type, int source, int tag, void *comm,
                      void **req)
{
    MPI_Aint lb, extent;
    MPI_Request *lost;          /* its handle comes first */

    if (!fails(CALLER, "receive"))
        return __real_MPIC_Irecv(buf, count, type, source, tag, comm, req);
    if (PMPI_Type_get_extent(type, &lb, &extent)) {
        lb = 0;                 /* bytes, under a name of MPICH's own */
        extent = 1;
    }
    __real_MPIC_Irecv(NEXT(malloc) (lb + (count + 1) * extent), count, type, source, tag, comm,
                      (void **) &lost);
    PMPI_Request_free(&(MPI_Request) {*lost});
    *req = NULL;
    return MPI_ERR_OTHER;
}

#endif /* WRAPS_RECEIVES */

/* ---------------------------------------------------------------- watching */

/* Files that this process has open, but for those that communication opens. */
static int num_files(void)
{
    int n = 0;

    for (int fd = 3; fd < 1024; fd++) {
        char path[64], target[64];
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof(target) - 1);
        if (len > 0 && strncmp(target, "socket:", 7) && strncmp(target, "pipe:", 5))
            n++;
    }
    return n;
}

static void on_signal(int signal)
{
    void *frames[64];
    char list[400] = "", how[100] = "in ";
    int n = backtrace(frames, 64);

    is_armed = false;
    for (int i = 0; i < n; i++) {
        const function_t *f = function_at(frames[i]);
        if (f && strlen(list) + strlen(f->name) + 4 < sizeof(list)) {
            strcat(list, list[0] ? " < " : "");
            strcat(list, f->name);
        }
    }
    if (signal != SIGALRM)
        snprintf(how, sizeof(how), "%s in ", strsignal(signal));
    say(signal == SIGALRM ? "HANG" : "CRASH", how, list[0] ? list : "none of ours");
    _exit(3);
}

/* Adaptation may take an algorithm on MPI_COMM_WORLD for the first time in any trial, and MPI_COMM_WORLD keeps what that
 * needs: nothing is told of it. */
static void check_leaks(long since)
{
    bool is_adaptive = getenv("MPIR_CVAR_COLL_TOPO_ADAPT") != NULL;

    for (int i = 0; i < num_held && !is_adaptive; i++)
        if (held[i].number > since)
            say("LEAK", "memory of ", held[i].owner->name);
}

/* ---------------------------------------------------------------- collectives */

typedef struct {
    int count;                  /* of a block */
    int num_before;             /* calls on the communicator before */
    bool is_smaller_before;     /* of less */
    bool has_gaps;              /* in its datatype */
    bool is_reversed;           /* ranks of the communicator */
    bool last_is_root;
} case_t;

enum { BLOCKING, NONBLOCKING, PERSISTENT };
enum { ALLGATHER, ALLGATHERV, ALLREDUCE, ALLTOALL, ALLTOALLV, BARRIER, BCAST, EXSCAN, GATHER, GATHERV, MISMATCH,
    REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, SCATTER, SCATTERV, N_COLLECTIVES
};
/* What a rank sends, receives: a block for, from each rank; else one. TO_ALL: the same for all ranks. SUM: blocks
 * of all ranks are added. PREFIX: those of the ranks up to this one, or before it. */
enum { SENDS_ALL = 1, RECVS_ALL = 2, TO_ALL = 4, SUM = 8, IS_V = 16, TO_ROOT = 32, PREFIX = 64 };

static const struct {
    const char *name;
    int flags;
} collectives[N_COLLECTIVES] = {
    [ALLGATHER] = {"allgather", RECVS_ALL | TO_ALL},
    [ALLGATHERV] = {"allgatherv", RECVS_ALL | TO_ALL | IS_V},
    [ALLREDUCE] = {"allreduce", TO_ALL | SUM},
    [ALLTOALL] = {"alltoall", SENDS_ALL | RECVS_ALL},
    [ALLTOALLV] = {"alltoallv", SENDS_ALL | RECVS_ALL | IS_V},
    [BARRIER] = {"barrier", TO_ALL},
    [BCAST] = {"bcast", TO_ALL},
    [EXSCAN] = {"exscan", TO_ALL | SUM | PREFIX},
    [GATHER] = {"gather", RECVS_ALL | TO_ROOT},
    [GATHERV] = {"gatherv", RECVS_ALL | TO_ROOT | IS_V},
    [MISMATCH] = {"mismatch", SENDS_ALL | RECVS_ALL | IS_V},
    [REDUCE] = {"reduce", SUM | TO_ROOT},
    [REDUCE_SCATTER] = {"reduce_scatter", SENDS_ALL | SUM | IS_V},
    [REDUCE_SCATTER_BLOCK] = {"reduce_scatter_block", SENDS_ALL | SUM},
    [SCAN] = {"scan", TO_ALL | SUM | PREFIX},
    [SCATTER] = {"scatter", SENDS_ALL},
    [SCATTERV] = {"scatterv", SENDS_ALL | IS_V}
};

/* What is called */
typedef struct {
    const char *name;
    int coll, form;
    const char *counter;        /* NULL: whatever runs */
} word_t;

static const word_t *word;      /* the one that is under test */

static bool has(int flag)
{
    return collectives[word->coll].flags & flag;
}

static void read_word(word_t * w, char *text)
{
    char *counter = strchr(text, '='), *init = strstr(text, "_init"), name[64];

    *w = (word_t) {.name = text,.coll = -1 };
    if (counter) {
        *counter = 0;
        w->counter = counter + 1;
    }
    w->form = init ? PERSISTENT : *text == 'i' ? NONBLOCKING : BLOCKING;
    snprintf(name, sizeof(name), "%.*s", (int) (init ? init - text : 60),
             text + (w->form == NONBLOCKING));
    for (int i = 0; i < N_COLLECTIVES; i++)
        if (!strcmp(name, collectives[i].name))
            w->coll = i;
    if (w->coll == -1) {
        fprintf(stderr, "faults: %s: no such collective\n", text);
        exit(2);
    }
}

/* Elements of a block. Of what is added up, all ranks have as many. */
static int block_count(int count, int from, int to)
{
    return has(IS_V) ? count + ((has(SUM) ? 0 : from) + 2 * to) % 3 : count;
}

static int value(int from, int to, int i)
{
    return from * 1000003 + to * 1009 + i;
}

static int sum_of_values(int num_ranks, int to, int i)
{
    int sum = 0;

    for (int from = 0; from < num_ranks; from++)
        sum += value(from, to, i);
    return sum;
}

typedef struct {
    int rank, size, root, count, stride;
    MPI_Datatype type;
    MPI_Op op;
    int *sendcounts, *sdispls, *recvcounts, *rdispls;
    int *sendbuf, *recvbuf;
    int send_len, recv_len;
} call_t;

static void set_blocks(const call_t * x, bool is_send, int counts[], int displs[], int *len)
{
    bool all = has(is_send ? SENDS_ALL : RECVS_ALL);

    *len = 0;
    for (int i = 0; i < x->size; i++) {
        int other = all ? i : x->root;
        int to = has(TO_ALL) ? 0 : other, me = has(TO_ALL) && !is_send ? 0 : x->rank;
        counts[i] = is_send ? block_count(x->count, x->rank, to) : block_count(x->count, other, me);
        if (word->coll == MISMATCH && !is_send && x->rank == 1)
            counts[i]++;        /* than is sent */
        displs[i] = all ? *len : 0;
        if (all || i == 0)
            *len += counts[i];
    }
}

/* Elements are ints, and what is between them stays. */
static void add(void *in, void *inout, int *n, MPI_Datatype * type)
{
    MPI_Aint lb, extent;

    MPI_Type_get_extent(*type, &lb, &extent);
    for (size_t i = 0; i < *n * extent / sizeof(int); i += extent / sizeof(int))
        ((int *) inout)[i] += ((int *) in)[i];
}

static void call_new(call_t * x, const case_t * c, int count, MPI_Comm comm)
{
    MPI_Comm_rank(comm, &x->rank);
    MPI_Comm_size(comm, &x->size);
    x->root = c->last_is_root ? x->size - 1 : 0;
    x->count = count;
    x->stride = c->has_gaps ? 2 : 1;
    x->type = MPI_INT;
    x->op = MPI_SUM;
    if (c->has_gaps || !has(SUM)) {
        MPI_Type_create_resized(MPI_INT, 0, x->stride * sizeof(int), &x->type);
        MPI_Type_commit(&x->type);
    }
    if (c->has_gaps)
        MPI_Op_create(add, 1, &x->op);
    x->sendcounts = malloc(4 * x->size * sizeof(int));
    x->sdispls = x->sendcounts + x->size;
    x->recvcounts = x->sdispls + x->size;
    x->rdispls = x->recvcounts + x->size;
    set_blocks(x, true, x->sendcounts, x->sdispls, &x->send_len);
    set_blocks(x, false, x->recvcounts, x->rdispls, &x->recv_len);
    x->sendbuf = malloc(x->send_len * x->stride * sizeof(int));
    x->recvbuf = malloc(x->recv_len * x->stride * sizeof(int));
    memset(x->sendbuf, -1, x->send_len * x->stride * sizeof(int));
    memset(x->recvbuf, -1, x->recv_len * x->stride * sizeof(int));
    for (int i = 0; i < (has(SENDS_ALL) ? x->size : 1); i++) {
        int to = has(TO_ALL) ? 0 : has(SENDS_ALL) ? i : x->root;
        for (int j = 0; j < x->sendcounts[i]; j++)
            x->sendbuf[(x->sdispls[i] + j) * x->stride] = value(x->rank, to, j);
    }
}

static bool is_right(const call_t * x)
{
    bool is_root = x->rank == x->root;
    int num_added = !has(PREFIX) ? x->size : word->coll == SCAN ? x->rank + 1 : x->rank;

    if (num_added == 0 || word->coll == BARRIER || (has(TO_ROOT) && !is_root) || (word->coll == BCAST && is_root))
        return true;
    for (int i = 0; i < (has(RECVS_ALL) ? x->size : 1); i++) {
        int from = has(RECVS_ALL) ? i : x->root, me = has(TO_ALL) ? 0 : x->rank;
        for (int j = 0; j < x->recvcounts[i] - (word->coll == MISMATCH && x->rank == 1); j++) {
            const int *at = &x->recvbuf[(x->rdispls[i] + j) * x->stride];
            int wanted = has(SUM) ? sum_of_values(num_added, me, j) : value(from, me, j);
            if (at[0] != wanted || (x->stride == 2 && at[1] != -1))
                return false;
        }
    }
    return true;
}

static void call_free(call_t * x)
{
    if (x->type != MPI_INT)
        MPI_Type_free(&x->type);
    if (x->op != MPI_SUM)
        MPI_Op_free(&x->op);
    free(x->sendcounts);
    free(x->sendbuf);
    free(x->recvbuf);
}

static bool is_any(bool mine)
{
    int all = mine;

    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static int patience = 10;

/* From here to end_watch, the fail_at-th request fails (0: none), and nothing may hang. */
static void begin_watch(int at)
{
    if (at)
        fail_at = at;
    alarm(patience);
    is_armed = at > 0;
}

static void end_watch(void)
{
    is_armed = false;
    alarm(0);
}

/* The call, or what begins it or makes its request */
static int begin(const call_t * x, MPI_Comm comm, MPI_Request * req)
{
    int *buffer = x->rank == x->root ? x->sendbuf : x->recvbuf;

#define CALL(Name_, Iname_, ...)                                                                  \
    (word->form == BLOCKING ? MPI_##Name_(__VA_ARGS__, comm) :                                    \
     word->form == NONBLOCKING ? MPI_##Iname_(__VA_ARGS__, comm, req) :                           \
     MPI_##Name_##_init(__VA_ARGS__, comm, MPI_INFO_NULL, req))
    switch (word->coll) {
        case ALLGATHER:
            return CALL(Allgather, Iallgather, x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type);
        case ALLGATHERV:
            return CALL(Allgatherv, Iallgatherv, x->sendbuf, x->sendcounts[0], x->type, x->recvbuf,
                        x->recvcounts, x->rdispls, x->type);
        case ALLREDUCE:
            return CALL(Allreduce, Iallreduce, x->sendbuf, x->recvbuf, x->count, x->type, x->op);
        case ALLTOALL:
            return CALL(Alltoall, Ialltoall, x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type);
        case ALLTOALLV:
        case MISMATCH:
            return CALL(Alltoallv, Ialltoallv, x->sendbuf, x->sendcounts, x->sdispls, x->type, x->recvbuf,
                        x->recvcounts, x->rdispls, x->type);
        case BARRIER:
            return word->form == BLOCKING ? MPI_Barrier(comm) :
                word->form == NONBLOCKING ? MPI_Ibarrier(comm, req) :
                MPI_Barrier_init(comm, MPI_INFO_NULL, req);
        case BCAST:
            return CALL(Bcast, Ibcast, buffer, x->count, x->type, x->root);
        case EXSCAN:
            return CALL(Exscan, Iexscan, x->sendbuf, x->recvbuf, x->count, x->type, x->op);
        case GATHER:
            return CALL(Gather, Igather, x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type,
                        x->root);
        case GATHERV:
            return CALL(Gatherv, Igatherv, x->sendbuf, x->sendcounts[0], x->type, x->recvbuf,
                        x->recvcounts, x->rdispls, x->type, x->root);
        case REDUCE:
            return CALL(Reduce, Ireduce, x->sendbuf, x->recvbuf, x->count, x->type, x->op, x->root);
        case REDUCE_SCATTER:
            return CALL(Reduce_scatter, Ireduce_scatter, x->sendbuf, x->recvbuf, x->sendcounts, x->type,
                        x->op);
        case REDUCE_SCATTER_BLOCK:
            return CALL(Reduce_scatter_block, Ireduce_scatter_block, x->sendbuf, x->recvbuf, x->count,
                        x->type, x->op);
        case SCAN:
            return CALL(Scan, Iscan, x->sendbuf, x->recvbuf, x->count, x->type, x->op);
        case SCATTER:
            return CALL(Scatter, Iscatter, x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type,
                        x->root);
        default:
            return CALL(Scatterv, Iscatterv, x->sendbuf, x->sendcounts, x->sdispls, x->type, x->recvbuf,
                        x->recvcounts[0], x->type, x->root);
    }
}

/* MPI_..._init, MPI_Start and MPI_Wait; those two where all ranks have a request. */
static int call_persistent(const call_t * x, MPI_Comm comm, int at)
{
    MPI_Request req = MPI_REQUEST_NULL;
    int err;

    begin_watch(at);
    err = begin(x, comm, &req);
    end_watch();
    bool has_none = err != MPI_SUCCESS;
    if (is_any(has_none)) {
        if (!has_none)
            MPI_Request_free(&req);
        return MPI_ERR_OTHER;
    }
    for (int i = 0; i < 2 && err == MPI_SUCCESS; i++) {
        begin_watch(at);
        err = MPI_Start(&req);
        if (err == MPI_SUCCESS)
            err = MPI_Wait(&req, MPI_STATUS_IGNORE);
        end_watch();
        if (is_any(err != MPI_SUCCESS))
            break;
    }
    MPI_Request_free(&req);
    return err;
}

/* Call it; the at-th request fails. Returns whether there was an error. */
static bool call(const case_t * c, int count, MPI_Comm comm, int at)
{
    MPI_Request req;
    call_t x;
    int err;

    call_new(&x, c, count, comm);
    if (word->form == PERSISTENT) {
        err = call_persistent(&x, comm, at);
    } else {
        begin_watch(at);
        err = begin(&x, comm, &req);
        if (err == MPI_SUCCESS && word->form == NONBLOCKING)
            err = MPI_Wait(&req, MPI_STATUS_IGNORE);
        end_watch();
    }
    if (err == MPI_SUCCESS && !is_right(&x))
        say("FAIL", "success, and wrong data", "");
    call_free(&x);
    return err != MPI_SUCCESS;
}

/* ---------------------------------------------------------------- trials */

static int num_faults, num_errors;
/* Communicators on which there were errors. They are in use to the end: messages that nobody
 * received wait there, and a new communicator must not get them. */
static MPI_Comm broken[1000];
static int num_broken;

static MPI_Comm comm_new(const case_t * c)
{
    MPI_Comm comm;

    if (c->is_reversed)
        MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
    else
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
}

static void call_well(const case_t * c, int count, MPI_Comm comm, const char *what)
{
    if (call(c, count, comm, 0))
        say("FAIL", "error without a fault: ", what);
}

/* Returns whether a request failed. */
static bool trial(const case_t * c, MPI_Comm comm, int victim, int k)
{
    bool is_mine = victim == -1 || victim == world_rank, has_error;
    int files = num_files();
    long since = last_number;

    if (comm == MPI_COMM_NULL)
        comm = comm_new(c);
    for (int i = 0; i < c->num_before; i++)
        call_well(c, c->is_smaller_before ? 1 : c->count, comm, "before");
    MPI_Barrier(MPI_COMM_WORLD);
    num_requests = 0;
    has_failed = false;
    has_error = call(c, c->count, comm, is_mine ? k : 0);

    bool is_fault = is_any(has_failed), is_error = is_any(has_error);
    num_faults += is_fault;
    num_errors += is_error;
    if (is_error && !is_fault && has_error)
        say("FAIL", "error without a fault", "");
    if (is_error && has_failed && !has_error && victim != -1)
        say("FAIL", "errors, but not where the request failed", "");
    if (!is_error)
        call_well(c, c->count, comm, "the next call on the communicator");
    if (is_error && comm != MPI_COMM_WORLD)
        broken[num_broken++] = comm;
    else if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
    comm = comm_new(c);
    call_well(c, c->count, comm, "the next communicator");
    MPI_Comm_free(&comm);
    if (!is_error && is_fault) {
        check_leaks(since);
        if (num_files() > files)
            say("LEAK", "a file", "");
    }
    return is_fault;
}

/* As many calls are made before as shared memory is made after, or adaptation needs to try another
 * algorithm. */
static const case_t cases[] = {
    {.count = 4 }, {.count = 4,.is_reversed = true,.last_is_root = true },
    {.count = 4,.has_gaps = true }, {.count = 4,.num_before = 1 },
    {.count = 100,.num_before = 1,.is_smaller_before = true }, {.count = 20000 },
    {.count = 20000,.has_gaps = true,.last_is_root = true },
    {.count = 20000,.num_before = 1 }, {.count = 4,.num_before = 2 },
    {.count = 20000,.num_before = 3 }, {.count = 4,.num_before = 4,.last_is_root = true }
};

#define NUM_CASES ((int) (sizeof(cases) / sizeof(cases[0])))
#define MAX_WORDS 32

static word_t words[MAX_WORDS];
static int num_words;
static int chosen[NUM_CASES];
static int num_chosen;

/* The one of that number, of all words. */
static const case_t *case_of(int number)
{
    word = &words[number / num_chosen];
    call_name = word->name;
    return &cases[chosen[number % num_chosen]];
}

static int victims[8] = { -1, 0, 1 };
static int num_victims;
static counters_t counters;

static unsigned long counter(const char *name)
{
    for (int i = 0; i < counters.n; i++)
        if (!strcmp(counters.var[i].name, name))
            return counters_read(&counters, i);
    fprintf(stderr, "faults: no performance variable %s\n", name);
    exit(2);
}

/* What is made once for the process, and that it is the algorithm at all */
static void warm_up(int number)
{
    const case_t *c = case_of(number);
    unsigned long before = word->counter ? counter(word->counter) : 0;

    snprintf(where, sizeof(where), "%d,-,0", number);
    trial(c, MPI_COMM_NULL, -1, 0);
    if (word->counter && c->count <= 100 && counter(word->counter) == before)
        say("FAIL", "without a fault, did not count ", word->counter);
}

static int read_numbers(char *text, int numbers[], int most)
{
    int n = 0;

    for (char *s = strtok(text, ","); s && n < most; s = strtok(NULL, ","))
        numbers[n++] = atoi(s);
    return n;
}

int main(int argc, char *argv[])
{
    static const int signals[] = { SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE };
    int at[3] = { 0, 0, 1 }, provided;
    bool is_first_use = false;
    void *frame;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--functions"))
            read_functions(argv[++i]);
        else if (!strcmp(argv[i], "--from"))
            sscanf(argv[++i], "%d,%d,%d", &at[0], &at[1], &at[2]);
        else if (!strcmp(argv[i], "--skip"))
            skip = argv[++i];
        else if (!strcmp(argv[i], "--cases"))
            num_chosen = read_numbers(argv[++i], chosen, NUM_CASES);
        else if (!strcmp(argv[i], "--victims"))
            num_victims = read_numbers(argv[++i], victims, 8);
        else if (!strcmp(argv[i], "--patience"))
            patience = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--lose"))
            loses = true;
        else if (!strcmp(argv[i], "--first-use"))
            is_first_use = true;
        else if (num_words < MAX_WORDS)
            read_word(&words[num_words++], argv[i]);
    }
    if (num_chosen == 0)
        while (num_chosen < NUM_CASES) {
            chosen[num_chosen] = num_chosen;
            num_chosen++;
        }
    backtrace(&frame, 1);       /* the first call loads a library */
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], on_signal);

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    counters_open(&counters);
    if (num_victims == 0) {
        victims[3] = world_size - 1;
        num_victims = 4;
    }
    if (is_first_use) {
        snprintf(where, sizeof(where), "%d,%d,%d", at[0], at[1], at[2]);
        trial(case_of(0), MPI_COMM_WORLD, victims[at[1]], at[2]);
        goto fn_exit;
    }

    /* what MPI_COMM_WORLD keeps when it has been used a few times, and adaptation has tried all candidates: this
     * calls MPI_Allgather */
    word = &words[0];
    for (int i = 0; i < 20; i++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, 0, world_rank, &comm);
        MPI_Comm_free(&comm);
        is_any(false);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    long since = last_number;
    int held_before = num_held;
    for (int warm = at[0]; at[0] < num_words * num_chosen; at[0]++, at[1] = 0) {
        if (at[0] == warm) {
            int held_cold = num_held;
            for (; warm == at[0] || warm % num_chosen; warm++)
                warm_up(warm);
            held_before += num_held - held_cold;
        }
        const case_t *c = case_of(at[0]);
        for (; at[1] < num_victims; at[1]++, at[2] = 1) {
            for (bool is_fault = true; is_fault; at[2]++) {
                snprintf(where, sizeof(where), "%d,%d,%d", at[0], at[1], at[2]);
                if (num_broken == 1000) {
                    if (world_rank == 0)
                        printf("AGAIN %s\n", where);
                    goto fn_exit;
                }
                is_fault = trial(c, MPI_COMM_NULL, victims[at[1]], at[2]);
            }
        }
    }
    if (world_rank == 0)
        printf("OK %d faults, %d errors\n", num_faults, num_errors);
    fflush(stdout);

  fn_exit:
    for (int i = 0; i < num_broken; i++)
        MPI_Comm_free(&broken[i]);
    strcpy(where, "-,-,-");
    /* what duplicates share with MPI_COMM_WORLD stays, but one of a kind; and a communicator on which a lost
     * message was not sent after all */
    if (!is_first_use && !loses && num_held > held_before)
        check_leaks(since);
    counters_print(&counters, stdout);
    counters_close(&counters);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
