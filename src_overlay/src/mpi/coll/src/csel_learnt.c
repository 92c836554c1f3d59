/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#include "mpiimpl.h"
#include "csel_auto.h"

#include <sys/stat.h>
#include <unistd.h>

/* What communicators learnt by trials (csel_adapt.c), on rank 0 of MPI_COMM_WORLD, for MPI_Finalize */

typedef struct lesson {
    struct lesson *next;
    int coll_type, num_ranks, num_hosts;
    MPI_Aint bytes;
    const char *placement, *name;
    int num_trials, num_stays;  /* it was tried, and stayed */
    double usec;                /* of all trials */
} lesson_t;

static lesson_t *lessons, **last_lesson = &lessons;
static MPL_initlock_t lock = MPL_INITLOCK_INITIALIZER;

/* Of ranks on hosts, which are numbered by their lowest rank */
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

/* A copy of MPIR_CVAR_COLL_TOPO_ADAPT_FILE, NULL where that is empty: MPI_T_finalize, before MPI_Finalize, has
 * CVARs that are strings forgotten. */
static char *path;

void MPII_Csel_learnt_init(void)
{
    if (MPIR_CVAR_COLL_TOPO_ADAPT_FILE && *MPIR_CVAR_COLL_TOPO_ADAPT_FILE)
        path = MPL_strdup(MPIR_CVAR_COLL_TOPO_ADAPT_FILE);
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

static bool write_table(const char *name)
{
    FILE *file = fopen(name, "w");
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

/* All of it, or nothing: a file that is there stays as it is where the disk is full. */
static void write_lessons(void)
{
    char text[1024], *beside = NULL;
    struct stat status;
    bool is_good;

    if (lstat(path, &status) != 0 || S_ISREG(status.st_mode))
        beside = MPL_malloc(strlen(path) + 32, MPL_MEM_COLL);
    if (beside) {
        sprintf(beside, "%s.%ld", path, (long) getpid());
        is_good = write_table(beside) && rename(beside, path) == 0;
    } else {
        is_good = write_table(path);
    }
    if (!is_good) {
        snprintf(text, sizeof(text), "MPIR_CVAR_COLL_TOPO_ADAPT_FILE: %.500s: cannot be written: %s",
                 path, strerror(errno));
        MPII_Topo_warn(text);
        if (beside)
            unlink(beside);
    }
    MPL_free(beside);
}

void MPII_Csel_learnt_finalize(void)
{
    if (MPIR_Process.rank == 0 && is_printed() && lessons)
        print_lessons();
    if (MPIR_Process.rank == 0 && path)
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
