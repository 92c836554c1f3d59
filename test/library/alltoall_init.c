/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/* MPI_Alltoall_init and MPI_Alltoallv_init against what the standard says. Options and output:
 * exchange.h. */

#define _GNU_SOURCE
#define PROGRAM "alltoall_init"
#include "exchange.h"

static void case_persistent(void)
{
    static const how_t hows[] = {
        {.send = INT }, {.in_place = 1 }, {.send = VECTOR,.recv = NEGATIVE,.order = 2 },
        {.send = SIX,.recv = COLUMN,.order = 1 }, {.recv = VECTOR,.in_place = 1,.gaps = 1 },
        {.send = STRUCT,.recv = STRUCT_REVERSED,.gaps = 1,.negative = 1 },
        {.overlap = 1 }, {.large = 1 }, {.recv = SIX,.large = 1,.in_place = 1,.negative = 1 },
        {.send = EMPTY,.recv = EMPTY }
    };

    for (int kind = 0; kind < (opt.is_v ? NUM_PATTERNS : 1); kind++) {
        for (int i = 0; i < (int) (sizeof(hows) / sizeof(hows[0])); i++) {
            if (kind != DENSE && (i + kind) % 3)
                continue;
            pattern_t p = pattern_new(kind, MPI_COMM_WORLD, 4, opt.seed, hows[i].in_place);
            MPI_Request req;
            exchange_t x;

            exchange_new(&x, "persistent", MPI_COMM_WORLD, &p, hows[i]);
            exchange_fill(&x, 0);
            exchange_init(&x, &req);
            exchange_free_types(&x);
            for (int round = 1; round < 5; round++)
                check_start(&x, &req, round);
            MPI_Request_free(&req);
            check(req == MPI_REQUEST_NULL, x.what, "MPI_Request_free");
            exchange_free(&x);
            pattern_free(&p);
        }
    }
    /* nothing at all, and blocks that are too long for a plan */
    for (int i = 0; i < 2; i++) {
        pattern_t p = pattern_new(i ? DENSE : NOTHING, MPI_COMM_WORLD, 3000, opt.seed, 0);
        MPI_Request req;
        exchange_t x;

        exchange_new(&x, "persistent", MPI_COMM_WORLD, &p, hows[0]);
        exchange_init(&x, &req);
        for (int round = 1; round < 4; round++)
            check_start(&x, &req, round);
        MPI_Request_free(&req);
        exchange_free(&x);
        pattern_free(&p);
    }
}

/* Several requests that are active at a time, on one communicator and on several. */
static void case_active(void)
{
    enum { N = 8 };
    static const how_t hows[4] = {
        {.send = INT }, {.send = VECTOR,.recv = SIX,.order = 2 }, {.in_place = 1,.order = 1 },
        {.send = NEGATIVE,.recv = VECTOR,.gaps = 1 }
    };
    MPI_Comm comms[3];
    pattern_t patterns[N];
    exchange_t x[N];
    MPI_Request reqs[N], pending[N];
    int perm[N], indices[N], num;

    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comms[2]);
    for (int i = 0; i < N; i++) {
        MPI_Comm comm = comms[i < 4 ? 0 : i % 3];
        patterns[i] = pattern_new(i % 5, comm, 1 + i, opt.seed, hows[i % 4].in_place);
        exchange_new(&x[i], "active", comm, &patterns[i], hows[i % 4]);
        exchange_init(&x[i], &reqs[i]);
    }
    for (int round = 1; round < (world_size <= 8 ? 13 : 5); round++) {
        counts_t before = counts_now();
        unsigned long planned = 0;

        for (int i = 0; i < N; i++) {
            exchange_fill(&x[i], round);
            planned += x[i].is_planned;
        }
        if (round % 4 == 0) {
            MPI_Startall(N, reqs);
        } else {
            /* the order in which ranks start need not be the same */
            shuffle(perm, N, round % 4 == 1 ? round : round * 100 + world_rank);
            for (int i = 0; i < N; i++)
                MPI_Start(&reqs[perm[i]]);
        }
        if (round % 3 == 0)
            MPI_Waitall(N, reqs, MPI_STATUSES_IGNORE);
        shuffle(perm, N, round * 1000 + world_rank);
        for (int i = 0; i < N; i++)
            pending[i] = reqs[perm[i]];
        for (int done = 0; done < N && round % 3;) {
            if (round % 3 == 1) {
                MPI_Waitany(N, pending, indices, MPI_STATUS_IGNORE);
                num = 1;
            } else {
                MPI_Testsome(N, pending, &num, indices, MPI_STATUSES_IGNORE);
                sched_yield();
            }
            /* with inactive requests among them: case_complete */
            for (int i = 0; i < num; i++)
                pending[indices[i]] = MPI_REQUEST_NULL;
            done += num;
        }
        for (int i = 0; i < N; i++)
            exchange_verify(&x[i], MPI_SUCCESS);
        if (opt.expect)
            check(counts_since(before).n[CALLS] == planned, "active", "expected %lu planned, found "
                  "%lu", planned, counts_since(before).n[CALLS]);
    }
    /* the communicators go first, then the requests are used once more, one by one */
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
    for (int round = 13; round < 16; round++)
        for (int i = 0; i < N; i++)
            check_start(&x[i], &reqs[i], round);
    for (int i = 0; i < N; i++) {
        MPI_Request_free(&reqs[world_rank % 2 ? i : N - 1 - i]);
        exchange_free(&x[i]);
        pattern_free(&patterns[i]);
    }
}

/* The calls that complete several requests, of which some are inactive. */
static void case_complete(void)
{
    enum { N = 4 };
    pattern_t p = pattern_new(RANDOM, MPI_COMM_WORLD, 4, opt.seed, 0);
    MPI_Request reqs[N];
    int indices[N], num, flag;
    exchange_t x[N];

    for (int i = 0; i < N; i++) {
        exchange_new(&x[i], "complete", MPI_COMM_WORLD, &p, (how_t) {.order = i % 3 });
        exchange_init(&x[i], &reqs[i]);
    }
    /* none of them was started yet */
    for (int i = 0; i < N; i++) {
        MPI_Status status;
        MPI_Wait(&reqs[i], &status);
        check(reqs[i] != MPI_REQUEST_NULL && status.MPI_SOURCE == MPI_ANY_SOURCE &&
              status.MPI_TAG == MPI_ANY_TAG, "MPI_Wait", "no empty status");
        MPI_Test(&reqs[i], &flag, &status);
        check(flag && status.MPI_SOURCE == MPI_ANY_SOURCE, "MPI_Test", "no empty status");
    }
    MPI_Waitall(N, reqs, MPI_STATUSES_IGNORE);
    MPI_Waitany(N, reqs, &num, MPI_STATUS_IGNORE);
    check(num == MPI_UNDEFINED, "MPI_Waitany", "index %d, where none is active", num);
    for (int way = 0; way < 6; way++) {
        int active = way < 3 ? N : N - 2, done = 0, seen[N] = { 0 };

        for (int i = 0; i < active; i++) {
            exchange_fill(&x[i], way);
            MPI_Start(&reqs[i]);
        }
        switch (way % 3) {
            case 0:
                for (flag = 0; !flag; sched_yield())
                    if (!check(MPI_Testall(N, reqs, &flag, MPI_STATUSES_IGNORE) == MPI_SUCCESS,
                               "MPI_Testall", "failed"))
                        break;
                break;
            case 1:
                for (; done < active; done++) {
                    MPI_Waitany(N, reqs, indices, MPI_STATUS_IGNORE);
                    if (!check(0 <= indices[0] && indices[0] < active && !seen[indices[0]]++,
                               "MPI_Waitany", "request %d", indices[0]))
                        break;
                }
                MPI_Waitany(N, reqs, indices, MPI_STATUS_IGNORE);
                check(indices[0] == MPI_UNDEFINED, "MPI_Waitany", "request %d", indices[0]);
                break;
            case 2:
                for (; done < active; done += num) {
                    MPI_Testsome(N, reqs, &num, indices, MPI_STATUSES_IGNORE);
                    for (int i = 0; i < num; i++)
                        if (!check(0 <= indices[i] && indices[i] < active && !seen[indices[i]]++,
                                   "MPI_Testsome", "request %d", indices[i]))
                            done = active;
                }
                MPI_Testsome(N, reqs, &num, indices, MPI_STATUSES_IGNORE);
                check(num == MPI_UNDEFINED, "MPI_Testsome", "%d requests", num);
        }
        MPI_Waitall(N, reqs, MPI_STATUSES_IGNORE);
        for (int i = 0; i < active; i++)
            exchange_verify(&x[i], MPI_SUCCESS);
    }
    for (int i = 0; i < N; i++) {
        MPI_Request_free(&reqs[i]);
        exchange_free(&x[i]);
    }
    pattern_free(&p);
}

/* Other communication on the same communicator while requests are active, or not. */
static void case_mixed(void)
{
    MPI_Comm comm;
    pattern_t p, q;
    exchange_t x, y;
    MPI_Request reqs[2];

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    p = pattern_new(RANDOM, comm, 5, opt.seed, 0);
    q = pattern_new(HEAVY, comm, 9, opt.seed, 0);
    exchange_new(&x, "mixed", comm, &p, (how_t) {.send = VECTOR,.recv = SIX,.order = 2 });
    exchange_new(&y, "mixed", comm, &q, (how_t) {.overlap = 1 });
    quick("before init", comm);
    exchange_init(&x, &reqs[0]);
    exchange_init(&y, &reqs[1]);
    for (int round = 1; round < 7; round++) {
        int sum = 0, one = 1;

        exchange_fill(&x, round);
        exchange_fill(&y, round);
        quick("none active", comm);
        MPI_Start(&reqs[round % 2]);
        quick("one active", comm);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        check(sum == x.size, "mixed", "MPI_Allreduce: expected %d, found %d", x.size, sum);
        MPI_Start(&reqs[1 - round % 2]);
        check_pattern("two active, same counts", comm, &p, (how_t) {.order = 1 });
        check_pattern("two active, same counts", comm, &q, (how_t) {.order = 1 });
        quick("two active", comm);
        if (round % 3 == 0)
            MPI_Barrier(comm);
        if (world_rank % 2) {
            exchange_verify(&x, finish(&reqs[0], round));
            exchange_verify(&y, finish(&reqs[1], round));
        } else {
            exchange_verify(&y, finish(&reqs[1], round));
            exchange_verify(&x, finish(&reqs[0], round));
        }
    }
    MPI_Comm_free(&comm);
    MPI_Request_free(&reqs[0]);
    check_start(&y, &reqs[1], 7);
    MPI_Request_free(&reqs[1]);
    exchange_free(&x);
    exchange_free(&y);
    pattern_free(&p);
    pattern_free(&q);
}

/* MPI_Start sends what the plan says, and asks nobody. */
static void case_starts(void)
{
    enum { N = 1000 };
    pattern_t p = pattern_new(RANDOM, MPI_COMM_WORLD, 3, opt.seed, 0);
    long host_pairs, far_pairs, rack_pairs;
    MPI_Request req;
    counts_t c, before;
    exchange_t x;

    count_pairs(&p, &host_pairs, &far_pairs, &rack_pairs);
    exchange_new(&x, "starts", MPI_COMM_WORLD, &p, (how_t) {.send = INT });
    exchange_init(&x, &req);
    before = counts_now();
    for (int i = 1; i <= N; i++) {
        if (i % 100 == 1)
            exchange_fill(&x, i);
        MPI_Start(&req);
        exchange_verify(&x, finish(&req, i % 50 ? 0 : i / 50));
    }
    if (opt.expect && predict(&x) == CALLS && !opt.declined) {
        check_counts("starts", before, 0, 0);
        c = counts_sum(counts_since(before));
        check(c.n[CALLS] == (unsigned long) N * world_size, "starts", "expected %d starts, found "
              "%lu", N * world_size, c.n[CALLS]);
        check(num_racks > 1 && rack_bytes ? c.n[HOST_MESSAGES] > N :
              c.n[HOST_MESSAGES] == (unsigned long) (N * host_pairs), "starts",
              "expected %ld messages, found %lu", N * host_pairs, c.n[HOST_MESSAGES]);
    }
    MPI_Request_free(&req);
    exchange_free(&x);
    pattern_free(&p);
}

/* Before a rank comes to the collective, it receives a message for which the sender, who is in the
 * collective already, has to do something. */
static void case_progress(void)
{
    size_t len = 3 << 20;
    char *out = malloc(len), *in = malloc(len);
    pattern_t p;
    exchange_t x;
    MPI_Comm comm;

    for (int hop = 1; hop < world_size; hop++) {
        int right = (world_rank + hop) % world_size;
        int left = (world_rank + world_size - hop) % world_size;
        MPI_Request req = MPI_REQUEST_NULL;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        p = pattern_new(RANDOM, comm, 5, hop, 0);
        exchange_new(&x, "progress", comm, &p, (how_t) {.send = INT });
        /* the plan is made, is found, is made for a request; the request is started */
        for (int round = 0; round < 6; round++) {
            int late = (world_rank + round) % 2;
            MPI_Request send;

            memset(out, world_rank + round, len);
            memset(in, -1, len);
            exchange_fill(&x, round);
            MPI_Isend(out, len, MPI_CHAR, right, round, MPI_COMM_WORLD, &send);
            if (late)
                MPI_Recv(in, len, MPI_CHAR, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (round == 2) {
                exchange_init(&x, &req);
            } else if (round > 2) {
                MPI_Start(&req);
                exchange_verify(&x, finish(&req, round % 2));
            } else {
                exchange_verify(&x, exchange_call(&x));
            }
            if (!late)
                MPI_Recv(in, len, MPI_CHAR, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            check(in[0] == (char) (left + round) && in[len - 1] == in[0], "progress",
                  "wrong values from %d", left);
        }

        /* An active request goes on while its rank is in other calls, and MPI_Start does not wait
         * for other ranks. */
        for (int round = 6; round < 10; round++) {
            int token = -1, first = round % 2;

            exchange_fill(&x, round);
            if (world_rank % 2 == first && right % 2 != first) {
                MPI_Start(&req);
                if (round < 8) {        /* the other one has completed the collective */
                    MPI_Recv(&token, 1, MPI_INT, right, 0, comm, MPI_STATUS_IGNORE);
                    exchange_verify(&x, finish(&req, 0));
                } else {        /* the other one has not started it */
                    MPI_Ssend(&token, 1, MPI_INT, right, 0, comm);
                    exchange_verify(&x, finish(&req, 0));
                }
            } else if (world_rank % 2 != first && left % 2 == first) {
                if (round < 8) {
                    MPI_Start(&req);
                    exchange_verify(&x, finish(&req, 0));
                    MPI_Send(&token, 1, MPI_INT, left, 0, comm);
                } else {
                    MPI_Recv(&token, 1, MPI_INT, left, 0, comm, MPI_STATUS_IGNORE);
                    MPI_Start(&req);
                    exchange_verify(&x, finish(&req, 0));
                }
            } else {
                MPI_Start(&req);
                exchange_verify(&x, finish(&req, 1));
            }
        }
        MPI_Request_free(&req);
        exchange_free(&x);
        pattern_free(&p);
        MPI_Comm_free(&comm);
    }
    free(in);
    free(out);
}

static const case_t cases[] = {
    { "persistent", case_persistent, 1 },
    { "active", case_active, 1 },
    { "mixed", case_mixed, 1 },
    { "complete", case_complete, 0 },
    { "starts", case_starts, 0 },
    { "progress", case_progress, 0 },
    { NULL, NULL, 0 }
};

int main(int argc, char **argv)
{
    return run_program(argc, argv, cases);
}
