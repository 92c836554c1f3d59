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
 *   faults --functions FILE [options] COLLECTIVE
 *
 *   --functions FILE    lines `offset size name` (hexadecimal) of our functions in libmpi
 *   --from C,V,K        begin with the K-th request on victim V of case C; default 0,0,1
 *   --skip PLACE,...    requests, as FAULT tells them, that do not fail any more
 *   --victims R,R,...   default -1,0,1,last
 *   --patience S        seconds after which a call hangs
 *   --expect COUNTER    performance variable that every case but the first raises without faults
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
static bool is_armed;
static int num_requests, fail_at;
static bool has_failed;
static const char *skip = "";

/* Not printf: it may ask for memory itself. */
static void say(const char *what, const char *detail, const char *more)
{
    char line[512];
    int n = snprintf(line, sizeof(line), "%s %s rank %d: %s%s\n", what, where, world_rank, detail,
                     more);
    if (write(STDOUT_FILENO, line, n) < 0)
        abort();
}

static bool fails(const void *caller, const char *call)
{
    const function_t *f;
    char place[128], detail[40];

    if (!is_armed || (f = function_at(caller)) == NULL || ++num_requests != fail_at)
        return false;
    snprintf(place, sizeof(place), "%s+%lx,", f->name, (long) ((uintptr_t) caller - f->begin));
    if (strstr(skip, place)) {
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
} held[8192];
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
    char list[400] = "";
    int n = backtrace(frames, 64);

    is_armed = false;
    for (int i = 0; i < n; i++) {
        const function_t *f = function_at(frames[i]);
        if (f && strlen(list) + strlen(f->name) + 4 < sizeof(list)) {
            strcat(list, list[0] ? " < " : "");
            strcat(list, f->name);
        }
    }
    say(signal == SIGALRM ? "HANG" : "CRASH", "in ", list[0] ? list : "none of ours");
    _exit(3);
}

static void check_leaks(long since)
{
    for (int i = 0; i < num_held; i++)
        if (held[i].number > since)
            say("LEAK", "memory of ", held[i].owner->name);
}

/* ---------------------------------------------------------------- collectives */

enum { NEW, AFTER_SAME, AFTER_SMALLER };

typedef struct {
    int count;                  /* of a block */
    int before;                 /* what was called on the communicator */
    bool has_gaps;              /* in its datatype */
    bool is_reversed;           /* ranks of the communicator */
    bool last_is_root;
} case_t;

static const char *collective;
static bool is_v, is_persistent;

static int block_count(int count, int from, int to)
{
    return is_v ? count + (from + 2 * to) % 3 : count;
}

static int value(int from, int to, int i)
{
    return from * 1000003 + to * 1009 + i;
}

typedef struct {
    int rank, size, root, count, stride;
    bool sends_all, recvs_all;  /* a block for (from) each rank; else one */
    bool is_for_all;            /* the block is the same for all ranks */
    MPI_Datatype type;
    int *sendcounts, *sdispls, *recvcounts, *rdispls;
    int *sendbuf, *recvbuf;
    int send_len, recv_len;
} call_t;

static void set_blocks(const call_t * x, bool is_send, bool all, int counts[], int displs[],
                       int *len)
{
    *len = 0;
    for (int i = 0; i < x->size; i++) {
        int other = all ? i : x->root;
        int to = x->is_for_all ? 0 : other, me = x->is_for_all && !is_send ? 0 : x->rank;
        counts[i] = is_send ? block_count(x->count, x->rank, to) : block_count(x->count, other, me);
        displs[i] = all ? *len : 0;
        if (all || i == 0)
            *len += counts[i];
    }
}

static void call_new(call_t * x, const case_t * c, int count, MPI_Comm comm)
{
    bool is_gather = !strncmp(collective, "gather", 6), is_scatter = !strncmp(collective, "sc", 2);

    MPI_Comm_rank(comm, &x->rank);
    MPI_Comm_size(comm, &x->size);
    x->root = c->last_is_root ? x->size - 1 : 0;
    x->count = count;
    x->stride = c->has_gaps ? 2 : 1;
    x->is_for_all = !strncmp(collective, "allgather", 9);
    x->sends_all = !is_gather && !x->is_for_all;
    x->recvs_all = !is_scatter;
    MPI_Type_create_resized(MPI_INT, 0, x->stride * sizeof(int), &x->type);
    MPI_Type_commit(&x->type);
    x->sendcounts = malloc(4 * x->size * sizeof(int));
    x->sdispls = x->sendcounts + x->size;
    x->recvcounts = x->sdispls + x->size;
    x->rdispls = x->recvcounts + x->size;
    set_blocks(x, true, x->sends_all, x->sendcounts, x->sdispls, &x->send_len);
    set_blocks(x, false, x->recvs_all, x->recvcounts, x->rdispls, &x->recv_len);
    x->sendbuf = malloc(x->send_len * x->stride * sizeof(int));
    x->recvbuf = malloc(x->recv_len * x->stride * sizeof(int));
    memset(x->sendbuf, -1, x->send_len * x->stride * sizeof(int));
    memset(x->recvbuf, -1, x->recv_len * x->stride * sizeof(int));
    for (int i = 0; i < (x->sends_all ? x->size : 1); i++) {
        int to = x->is_for_all ? 0 : x->sends_all ? i : x->root;
        for (int j = 0; j < x->sendcounts[i]; j++)
            x->sendbuf[(x->sdispls[i] + j) * x->stride] = value(x->rank, to, j);
    }
}

static bool is_right(const call_t * x)
{
    bool is_gather = !strncmp(collective, "gather", 6);

    if (is_gather && x->rank != x->root)
        return true;
    for (int i = 0; i < (x->recvs_all ? x->size : 1); i++) {
        int from = x->recvs_all ? i : x->root, me = x->is_for_all ? 0 : x->rank;
        for (int j = 0; j < x->recvcounts[i]; j++) {
            const int *at = &x->recvbuf[(x->rdispls[i] + j) * x->stride];
            if (at[0] != value(from, me, j) || (x->stride == 2 && at[1] != -1))
                return false;
        }
    }
    return true;
}

static void call_free(call_t * x)
{
    MPI_Type_free(&x->type);
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

/* MPI_..._init, MPI_Start and MPI_Wait; those two where all ranks have a request. */
static int call_persistent(const call_t * x, MPI_Comm comm, int at)
{
    MPI_Request req = MPI_REQUEST_NULL;
    int err;

    begin_watch(at);
    err = is_v ?
        MPI_Alltoallv_init(x->sendbuf, x->sendcounts, x->sdispls, x->type, x->recvbuf,
                           x->recvcounts, x->rdispls, x->type, comm, MPI_INFO_NULL, &req) :
        MPI_Alltoall_init(x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type, comm,
                          MPI_INFO_NULL, &req);
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

static int call_blocking(const call_t * x, MPI_Comm comm)
{
    if (!strcmp(collective, "allgather"))
        return MPI_Allgather(x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type, comm);
    if (!strcmp(collective, "gather"))
        return MPI_Gather(x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type, x->root,
                          comm);
    if (!strcmp(collective, "scatter"))
        return MPI_Scatter(x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type, x->root,
                           comm);
    if (!strcmp(collective, "alltoall"))
        return MPI_Alltoall(x->sendbuf, x->count, x->type, x->recvbuf, x->count, x->type, comm);
    if (!strcmp(collective, "gatherv"))
        return MPI_Gatherv(x->sendbuf, x->sendcounts[0], x->type, x->recvbuf, x->recvcounts,
                           x->rdispls, x->type, x->root, comm);
    if (!strcmp(collective, "scatterv"))
        return MPI_Scatterv(x->sendbuf, x->sendcounts, x->sdispls, x->type, x->recvbuf,
                            x->recvcounts[0], x->type, x->root, comm);
    if (!strcmp(collective, "alltoallv"))
        return MPI_Alltoallv(x->sendbuf, x->sendcounts, x->sdispls, x->type, x->recvbuf,
                             x->recvcounts, x->rdispls, x->type, comm);
    fprintf(stderr, "faults: %s: no such collective\n", collective);
    exit(2);
}

/* Call it; the at-th request fails. Returns whether there was an error. */
static bool call(const case_t * c, int count, MPI_Comm comm, int at)
{
    call_t x;
    int err;

    call_new(&x, c, count, comm);
    if (is_persistent) {
        err = call_persistent(&x, comm, at);
    } else {
        begin_watch(at);
        err = call_blocking(&x, comm);
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
    if (c->before != NEW)
        call_well(c, c->before == AFTER_SMALLER ? 1 : c->count, comm, "before");
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

int main(int argc, char *argv[])
{
    static const case_t cases[] = {
        {.count = 4 }, {.count = 4,.is_reversed = true,.last_is_root = true },
        {.count = 4,.has_gaps = true }, {.count = 4,.before = AFTER_SAME },
        {.count = 100,.before = AFTER_SMALLER }, {.count = 20000 },
        {.count = 20000,.has_gaps = true,.last_is_root = true },
        {.count = 20000,.before = AFTER_SAME }
    };
    static const int signals[] = { SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE };
    int at[3] = { 0, 0, 1 }, provided;
    const char *expect = NULL;
    bool is_first_use = false;
    void *frame;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--functions"))
            read_functions(argv[++i]);
        else if (!strcmp(argv[i], "--from"))
            sscanf(argv[++i], "%d,%d,%d", &at[0], &at[1], &at[2]);
        else if (!strcmp(argv[i], "--skip"))
            skip = argv[++i];
        else if (!strcmp(argv[i], "--victims"))
            for (char *s = strtok(argv[++i], ","); s; s = strtok(NULL, ","))
                victims[num_victims++] = atoi(s);
        else if (!strcmp(argv[i], "--patience"))
            patience = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--expect"))
            expect = argv[++i];
        else if (!strcmp(argv[i], "--first-use"))
            is_first_use = true;
        else
            collective = argv[i];
    }
    is_persistent = strstr(collective, "_init") != NULL;
    is_v = strstr(collective, "v") != NULL;
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
        trial(&cases[0], MPI_COMM_WORLD, victims[at[1]], at[2]);
        goto fn_exit;
    }

    /* what is made once for the process, and that it is the algorithm at all */
    for (int i = 0; i < (int) (sizeof(cases) / sizeof(cases[0])); i++) {
        unsigned long before = expect ? counter(expect) : 0;
        snprintf(where, sizeof(where), "%d,-,0", i);
        trial(&cases[i], MPI_COMM_NULL, -1, 0);
        if (expect && cases[i].count <= 100 && counter(expect) == before)
            say("FAIL", "without a fault, did not count ", expect);
    }
    /* what MPI_COMM_WORLD keeps when it has been used a few times: this calls MPI_Allgather */
    for (int i = 0; i < 3; i++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, 0, world_rank, &comm);
        MPI_Comm_free(&comm);
    }
    long since = last_number;
    int held_before = num_held;
    for (; at[0] < (int) (sizeof(cases) / sizeof(cases[0])); at[0]++, at[1] = 0) {
        for (; at[1] < num_victims; at[1]++, at[2] = 1) {
            for (bool is_fault = true; is_fault; at[2]++) {
                snprintf(where, sizeof(where), "%d,%d,%d", at[0], at[1], at[2]);
                if (num_broken == 1000) {
                    if (world_rank == 0)
                        printf("AGAIN %s\n", where);
                    goto fn_exit;
                }
                is_fault = trial(&cases[at[0]], MPI_COMM_NULL, victims[at[1]], at[2]);
            }
        }
    }
    counters_print(&counters, stdout);
    if (world_rank == 0)
        printf("OK %d faults, %d errors\n", num_faults, num_errors);
    fflush(stdout);

  fn_exit:
    for (int i = 0; i < num_broken; i++)
        MPI_Comm_free(&broken[i]);
    strcpy(where, "-,-,-");
    /* what duplicates share with MPI_COMM_WORLD stays, but one of a kind */
    if (!is_first_use && num_held > held_before)
        check_leaks(since);
    counters_close(&counters);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
