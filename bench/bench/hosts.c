/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 *
 * Hosts: names and sockets of ranks, and the hosts that make background traffic
 */

#include "bench.h"
#include <sched.h>

struct hosts hosts;
struct traffic traffic;

/* Collect gethostname() of all ranks on rank 0. MPI_Get_processor_name may return artificial
 * names. */
static char *gather_names(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    char *names = rank == 0 ? get_memory(nprocs, sizeof(name)) : NULL;

    gethostname(name, sizeof(name) - 1);
    MPI_Gather(name, sizeof(name), MPI_BYTE, names, sizeof(name), MPI_BYTE, 0, comm);
    return names;
}

/* Number of the package (socket) to which this rank is bound */
static int find_socket(void)
{
    const int most = 8192;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    cpu_set_t *cpus = CPU_ALLOC(most);
    int socket = -1, num = 0;

    if (cpus && !sched_getaffinity(0, bytes, cpus))
        for (int i = 0; i < most; i++) {
            char path[80];
            int its = -1;
            FILE *f;

            if (!CPU_ISSET_S(i, bytes, cpus))
                continue;
            snprintf(path, sizeof(path),
                     "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", i);
            if ((f = fopen(path, "r"))) {
                if (fscanf(f, "%d", &its) != 1)
                    its = -1;
                fclose(f);
            }
            socket = num++ && its != socket ? -1 : its;
            if (socket < 0)
                break;
        }
    CPU_FREE(cpus);
    return socket;
}

void hosts_find(void)
{
    const size_t len = MPI_MAX_PROCESSOR_NAME;
    const int socket = find_socket();

    hosts.name_of_rank = gather_names();
    if (rank == 0) {
        hosts.socket_of_rank = get_memory(nprocs, sizeof(int));
        hosts.names = get_memory(nprocs, len);
        hosts.of_rank = get_memory(nprocs, sizeof(int));
    }
    MPI_Gather(&socket, 1, MPI_INT, hosts.socket_of_rank, 1, MPI_INT, 0, comm);
    for (int i = 0; rank == 0 && i < nprocs; i++) {
        const char *name = hosts.name_of_rank + i * len;
        int h = 0;
        while (h < hosts.num && strcmp(hosts.names + h * len, name))
            h++;
        if (h == hosts.num)
            memcpy(hosts.names + hosts.num++ * len, name, len);
        hosts.of_rank[i] = h;
    }
}

/* Rank 0 of MPI_COMM_WORLD never makes traffic. It sends marks to the first of the ranks that do.
 * That rank takes a mark after the MPI_Alltoall during which it arrived. It answers with the number
 * of its calls and its clock, so whole calls lie between two marks. The last mark means stop. The
 * next call carries it to all others, in the first byte of its blocks. So ranks that make traffic
 * exchange nothing but MPI_Alltoall. */

/* Number of the rack of a host in --racks; 0 if the host is not listed */
static int find_rack(const char *host)
{
    const size_t len = strlen(host);
    int rack = 1;

    for (const char *s = opt.racks; s && *s; s++) {
        const size_t word = strcspn(s, ",:");
        if (word == len && !strncmp(s, host, len))
            return rack;
        s += word;
        if (*s == ':')
            rack++;
        else if (*s == '\0')
            break;
    }
    return 0;
}

/* Set makes[] to 1 for ranks that are to make traffic, by their host names. */
static void choose_hosts(const char *names, int size, int *makes)
{
    int *first = get_memory(size, sizeof(int)); /* rank of the host of a rank */
    int *rack = get_memory(size, sizeof(int));  /* rack of the host of which this is the first
                                                 * rank */
    double same_host = 0;

    traffic.hosts = get_memory(size, MPI_MAX_PROCESSOR_NAME);
#define NAME(i) (names + (size_t) (i) * MPI_MAX_PROCESSOR_NAME)
    for (int i = 0; i < size; i++) {
        for (first[i] = 0; strcmp(NAME(i), NAME(first[i])); first[i]++);
        if (first[i] == i)
            rack[i] = find_rack(NAME(i));
    }
    for (int i = 0; i < size; i++) {
        int in_rack = 0, before = 0, ranks = 0;

        makes[i] = makes[first[i]];
        if (first[i] != i)
            continue;
        for (int k = 0; k < size; k++) {
            ranks += first[k] == i;
            in_rack += first[k] == k && rack[k] == rack[i];
            before += first[k] == k && rack[k] == rack[i] && k < i;
        }
        /* round so that 0.3 of ten hosts are three */
        makes[i] = before >= in_rack - (int) (opt.share * in_rack + 1e-9);
        if (makes[i]) {
            if (traffic.num_ranks == 0)
                traffic.first = i;
            traffic.num_ranks += ranks;
            same_host += (double) ranks *ranks;
            memcpy(traffic.hosts + (size_t) traffic.num_hosts++ * MPI_MAX_PROCESSOR_NAME, NAME(i),
                   MPI_MAX_PROCESSOR_NAME);
        }
    }
#undef NAME
    traffic.bits = 8.0 * opt.traffic_bytes *
        ((double) traffic.num_ranks * traffic.num_ranks - same_host);
    free(first);
    free(rack);
}

bool traffic_split(void)
{
    char *names = gather_names();
    int *makes = get_memory(nprocs, sizeof(int)), mine;

    if (rank == 0)
        choose_hosts(names, nprocs, makes);
    free(names);
    MPI_Scatter(makes, 1, MPI_INT, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(makes);
    MPI_Bcast(&traffic.num_ranks, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (traffic.num_ranks == 0)
        usage_error("--background: %g of the hosts of a rack are less than one in each rack of "
                    "this job", opt.share);
    MPI_Comm_split(MPI_COMM_WORLD, mine, rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nprocs);
    return mine;
}

void traffic_make(void)
{
    const int bytes = (int) opt.traffic_bytes;
    unsigned char *send = calloc(nprocs, bytes), *recv = calloc(nprocs, bytes);
    struct mark mark = { 0 };
    int stop = 0, came = 0;
    MPI_Request request = MPI_REQUEST_NULL;

    if (!send || !recv) {
        fprintf(stderr, PROGRAM ": no memory for background traffic of %d bytes among %d "
                "ranks\n", bytes, nprocs);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        MPI_Irecv(&stop, 1, MPI_INT, 0, TAG_MARK, MPI_COMM_WORLD, &request);
    do {
        MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
        mark.calls++;
        if (request != MPI_REQUEST_NULL)
            MPI_Test(&request, &came, MPI_STATUS_IGNORE);
        if (came) {
            came = 0;
            mark.clock = MPI_Wtime();
            MPI_Send(&mark, 2, MPI_DOUBLE, 0, TAG_MARK, MPI_COMM_WORLD);
            for (int i = 0; i < nprocs; i++)
                send[(size_t) i * bytes] = stop;
            if (!stop)
                MPI_Irecv(&stop, 1, MPI_INT, 0, TAG_MARK, MPI_COMM_WORLD, &request);
        }
    } while (!recv[0]);
    free(send);
    free(recv);
}

struct mark traffic_mark(int stop)
{
    struct mark mark;

    MPI_Send(&stop, 1, MPI_INT, traffic.first, TAG_MARK, MPI_COMM_WORLD);
    MPI_Recv(&mark, 2, MPI_DOUBLE, traffic.first, TAG_MARK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return mark;
}
