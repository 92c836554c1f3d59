/* Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Runs the schedule of an algorithm (topo_catalog.h) over MPI: under SimGrid's SMPI it takes the time that
 * another model of the network gives. Ranks stand block by block: PPN a host, HOSTS hosts a rack.
 *
 * usage: sim_smpi COLLECTIVE ALGORITHM BYTES PPN HOSTS     prints microseconds */

#include "topo_catalog.h"
#include <mpi.h>
#include <stdio.h>

static void fail(const char *text)
{
    fprintf(stderr, "%s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static MPII_Topo_order_t *make_order(int p, int ppn, int hosts, int **slots)
{
    int num = p / ppn, racks = (num + hosts - 1) / hosts;
    MPII_Topo_place_t place = {.num_ranks = p,.num_hosts = num,.num_racks = racks };
    int *ring = malloc(p * sizeof(int)), *host = malloc(p * sizeof(int)), *rack = malloc(num * sizeof(int));

    *slots = malloc(p * sizeof(int));
    for (int i = 0; i < p; i++)
        host[i] = i / ppn;
    for (int i = 0; i < num; i++)
        rack[i] = i / hosts;
    place.host_of_rank = host;
    place.rack_of_host = rack;
    MPII_Topo_map_ring(&place, ring);
    MPII_Topo_map_recursive_doubling(&place, *slots);
    return MPII_Topo_order_create(&place, ring);
}

int main(int argc, char **argv)
{
    int rank, p, num_sends = 0, room = 0;
    MPII_Topo_call_args_t args = {
        MPII_TOPO_CALL_DEFAULTS
    };
    MPII_Topo_case_t *c;
    MPII_Topo_any_gen_t g;
    MPII_Topo_step_t step;
    MPI_Request *sends = NULL;
    int *slots;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p);
    args.bytes = atoll(argv[3]);
    MPII_Topo_order_t *order = make_order(p, atoi(argv[4]), atoi(argv[5]), &slots);
    args.slots = slots;
    const MPII_Topo_algo_t *algo = MPII_Topo_catalog_find(MPII_Topo_coll_find(argv[1]), argv[2]);
    if (algo == NULL || MPII_Topo_case_create(algo, &args, order, &c) != 0 || c == NULL)
        fail("no such schedule");
    MPII_Topo_case_set(c, rank, &g);
    char *buf = malloc(args.bytes * p + 1);     /* nobody looks at it */
    double time = MPI_Wtime(), last;
    for (int i = 0; i <= g.gen.num_recvs; i++) {
        if (i > 0 && g.gen.recv(&g.gen, i - 1, &step) && MPII_Topo_case_bytes(c, &step) != -1)
            MPI_Recv(buf, MPII_Topo_case_bytes(c, &step), MPI_BYTE, step.peer, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int k = 0; g.gen.react(&g.gen, i, k, &step); k++) {
            int64_t bytes = MPII_Topo_case_bytes(c, &step);
            if (step.kind != MPII_TOPO_STEP__SEND || bytes == -1)
                continue;
            if (num_sends == room) {
                room = 2 * room + 16;
                sends = realloc(sends, room * sizeof(MPI_Request));
            }
            MPI_Isend(buf, bytes, MPI_BYTE, step.peer, 0, MPI_COMM_WORLD, &sends[num_sends++]);
        }
    }
    time = MPI_Wtime() - time;
    MPI_Waitall(num_sends, sends, MPI_STATUSES_IGNORE);
    MPI_Reduce(&time, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.3f\n", last * 1e6);
    MPI_Finalize();
    MPII_Topo_case_free(c);
    free(sends);
    free(slots);
    free(order);
    free(buf);
    return 0;
}
