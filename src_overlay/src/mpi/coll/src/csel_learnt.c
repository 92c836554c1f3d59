/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_auto.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Results of the trials of all communicators (csel_adapt.c). Rank 0 of MPI_COMM_WORLD collects them
 * for MPI_Finalize. */

typedef struct lesson {
    struct lesson *next;
    int coll_type, num_ranks, num_hosts;
    MPI_Aint bytes;             /* size class of the decision */
    const char *placement, *name;       /* name: of the algorithm */
    int num_trials, num_stays;  /* number of trials of this algorithm; number of trials that chose
                                 * it */
    double usec;                /* sum of the measured times over all trials */
} lesson_t;

static lesson_t *lessons, **last_lesson = &lessons;
static MPL_initlock_t lock = MPL_INITLOCK_INITIALIZER;

/* Name of the placement of ranks on hosts. Hosts are numbered by their lowest rank. */
static const char *placement_name(const MPII_Topo_place_t * place)
{
    bool is_block = true, is_cyclic = true;

    for (int i = 0; i < place->num_ranks; i++) {
        is_block = is_block && (i == 0 || place->host_of_rank[i] >= place->host_of_rank[i - 1]);
        is_cyclic = is_cyclic && place->host_of_rank[i] == i % place->num_hosts;
    }
    return is_block ? "block" : is_cyclic ? "cyclic" : "other";
}

static lesson_t *find_lesson(const lesson_t * like)
{
    lesson_t *lesson;

    for (lesson = lessons; lesson; lesson = lesson->next) {
        if (lesson->coll_type == like->coll_type && lesson->bytes == like->bytes &&
            lesson->num_ranks == like->num_ranks && lesson->num_hosts == like->num_hosts &&
            !strcmp(lesson->placement, like->placement) && !strcmp(lesson->name, like->name))
            return lesson;
    }
    lesson = MPL_malloc(sizeof(*lesson), MPL_MEM_COLL);
    if (lesson) {
        *lesson = *like;
        *last_lesson = lesson;
        last_lesson = &lesson->next;
    }
    return lesson;
}

static bool is_printed(void)
{
    return MPIR_CVAR_COLL_SELECTION_REPORT == MPIR_CVAR_COLL_SELECTION_REPORT_print;
}

/* MPIR_CVAR_COLL_TOPO_ADAPT_FILE as an absolute path, or the name of a standard stream; NULL: none.
 * Rank 0 of MPI_COMM_WORLD sets it in MPI_Init, since the program may change its working
 * directory. */
static char *path;

static void warn(const char *name, const char *why)
{
    char text[1024];

    snprintf(text, sizeof(text), "MPIR_CVAR_COLL_TOPO_ADAPT_FILE: %.500s: cannot be written: %s",
             name, why);
    MPII_Topo_warn(text);
}

/* File descriptor of a standard stream: do not open it again. -1 for other names */
static int standard_stream(const char *name)
{
    return !strcmp(name, "/dev/stdout") ? STDOUT_FILENO : !strcmp(name,
                                                                  "/dev/stderr") ? STDERR_FILENO :
        -1;
}

/* Find the absolute path of a file, and whether it can be written. Returns NULL, or the reason why
 * not. */
static const char *find_file(const char *name, char found[PATH_MAX])
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    char folder[PATH_MAX];
    struct stat st;
    bool is_there = stat(name, &st) == 0;

    if (is_there && !S_ISREG(st.st_mode))
        return "expected a regular file";
    if (is_there ? !realpath(name, found) : errno != ENOENT)
        return strerror(errno);
    if (!is_there) {
        snprintf(folder, PATH_MAX, "%.*s", slash ? (int) (base - name) : 1, slash ? name : ".");
        if (!realpath(folder, found))
            return strerror(errno);
        size_t len = strlen(found);
        if (snprintf(found + len, PATH_MAX - len, "/%s", base) >= (int) (PATH_MAX - len))
            return strerror(ENAMETOOLONG);
    }
    strcpy(folder, found);
    *(strrchr(folder, '/') + 1) = '\0';
    return access(folder, W_OK | X_OK) ? strerror(errno) : NULL;
}

void MPII_Csel_learnt_init(void)
{
    const char *name = MPIR_CVAR_COLL_TOPO_ADAPT_FILE, *why = NULL;
    char found[PATH_MAX];

    if (MPIR_Process.rank != 0 || name == NULL || *name == '\0')
        return;
    if (standard_stream(name) == -1)
        why = find_file(name, found);
    if (why)
        warn(name, why);
    else
        path = MPL_strdup(standard_stream(name) == -1 ? found : name);
}

void MPII_Csel_learn(MPIR_Comm * comm_ptr, const MPII_Csel_decision_t * decision, int choice,
                     const int64_t ns[])
{
    const MPII_Topo_place_t *place;
    TOPO_COLL_ATTR_NEW;

    if (MPIR_Process.rank != 0 || !(is_printed() || path) ||
        MPII_Topo_comm_place(comm_ptr, &place, attr) != MPI_SUCCESS)
        return;
    for (int i = 0; i < decision->num_candidates; i++) {
        lesson_t like = {
            .coll_type = decision->coll_type,
            .num_ranks = place->num_ranks,
            .num_hosts = place->num_hosts,
            .bytes = decision->bytes,
            .placement = placement_name(place),
            .name = decision->candidates[i].name,
        };
        MPL_initlock_lock(&lock);
        lesson_t *lesson = find_lesson(&like);
        if (lesson) {
            lesson->num_trials++;
            lesson->num_stays += i == choice;
            lesson->usec += ns[i] / 1e3;
        }
        MPL_initlock_unlock(&lock);
    }
}

static void print_lessons(void)
{
    fprintf(stderr, "[mpich] adaptation: %6s %6s  %-20s %6s %6s %-7s %9s  %-24s %s\n", "TRIALS",
            "STAYED", "COLLECTIVE", "RANKS", "HOSTS", "PLACED", "BYTES", "ALGORITHM", "MEAN_US");
    for (const lesson_t * lesson = lessons; lesson; lesson = lesson->next)
        fprintf(stderr, "[mpich] adaptation: %6d %6d  %-20s %6d %6d %-7s %9ld  %-24s %.1f\n",
                lesson->num_trials, lesson->num_stays, MPII_Csel_collectives[lesson->coll_type],
                lesson->num_ranks, lesson->num_hosts, lesson->placement, (long) lesson->bytes,
                lesson->name, lesson->usec / lesson->num_trials);
    fflush(stderr);
}

static bool write_table(int fd)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool is_good;

    if (file == NULL)
        return false;
    fprintf(file, "collective,hosts,ranks,bytes,placement,algorithm,time_us\n");
    for (const lesson_t * lesson = lessons; lesson; lesson = lesson->next)
        fprintf(file, "%s,%d,%d,%ld,%s,%s,%.3f\n", MPII_Csel_collectives[lesson->coll_type],
                lesson->num_hosts, lesson->num_ranks, (long) lesson->bytes, lesson->placement,
                lesson->name, lesson->usec / lesson->num_trials);
    is_good = !ferror(file);
    return fclose(file) == 0 && is_good;
}

/* Write the whole file or nothing: if the disk is full, an existing file stays unchanged. */
static void write_lessons(void)
{
    char beside[PATH_MAX + 8];
    int fd;

    if (standard_stream(path) != -1) {
        fflush(stdout);
        if (!write_table(dup(standard_stream(path))))
            warn(path, strerror(errno));
        return;
    }
    snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    fd = mkstemp(beside);       /* creates a new file, so it follows no symbolic link */
    if (fd < 0) {
        warn(path, strerror(errno));
        return;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);   /* mkstemp lets only the owner read: give the permissions that fopen
                                 * would give */
    if (!write_table(fd) || rename(beside, path) != 0) {
        warn(path, strerror(errno));
        unlink(beside);
    }
}

void MPII_Csel_learnt_finalize(void)
{
    if (MPIR_Process.rank == 0 && is_printed() && lessons)
        print_lessons();
    if (path)
        write_lessons();
    MPL_free(path);
    path = NULL;
    for (lesson_t * lesson = lessons, *next; lesson; lesson = next) {
        next = lesson->next;
        MPL_free(lesson);
    }
    lessons = NULL;
    last_lesson = &lessons;
}
