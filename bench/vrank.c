/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * topo-vrank: starts a rank of an MPI program under another number.
 *
 *     mpiexec -hosts a:2,b:2 -n 4 topo-vrank 0,2,1,3 PROGRAM [ARGUMENT]...
 *
 * Hydra numbers ranks host by host. If a host occurs in its list again, Hydra takes it for another
 * node, with its own proxy. So topo-vcluster names each host once, and topo-vrank gives rank i the
 * number i of the list instead. The nodes that the library sees are then the hosts, as with Slurm.
 *
 * The process manager says which ranks are on which node by its own numbers (PMI_process_mapping).
 * So a process between it and the rank answers that this key does not exist, and MPICH compares
 * host names instead. All other messages pass unchanged (PMI, version 1). In MPICH 5, barriers of
 * some ranks also name ranks; MPIR_CVAR_PMI_DISABLE_GROUP disables them.
 */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER "cmd=get_result rc=-1 msg=key_PMI_process_mapping_not_found value=unknown\n"

/* Pass on the data that has arrived. End this process at the end of the input. */
static void pass(int from, int to, int is_request)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof(bytes) - 1);

    if (n <= 0)
        _exit(0);
    bytes[n] = '\0';
    if (is_request && !strncmp(bytes, "cmd=get ", 8) && strstr(bytes, "key=PMI_process_mapping")) {
        /* a rank waits for each answer, so nothing else is in the pipe */
        strcpy(bytes, ANSWER);
        n = strlen(bytes);
        to = from;
    }
    for (ssize_t done = 0, m; done < n; done += m) {
        m = write(to, bytes + done, n - done);
        if (m < 0)
            _exit(0);
    }
}

static void pass_on(int manager, int rank)
{
    struct pollfd p[2] = { {.fd = manager,.events = POLLIN}, {.fd = rank,.events = POLLIN} };
    int null = open("/dev/null", O_RDWR);

    /* mpiexec waits until the output of the rank ends */
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    while (poll(p, 2, -1) > 0 || errno == EINTR)
        for (int i = 0; i < 2; i++)
            if (p[i].revents)
                pass(p[i].fd, p[1 - i].fd, i);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *given = getenv("PMI_RANK"), *manager = getenv("PMI_FD");
    char *number = argc > 2 ? strtok(argv[1], ",") : NULL, text[16];
    int pair[2];

    for (int i = given ? atoi(given) : 0; number && i > 0; i--)
        number = strtok(NULL, ",");
    if (!given || !manager || !number) {
        fprintf(stderr, "topo-vrank: expected NUMBERS PROGRAM, and PMI_RANK and PMI_FD of Hydra\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
        perror("topo-vrank");
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        /* detach the child, since the program may wait for its own children */
        if (fork())
            _exit(0);
        close(pair[1]);
        pass_on(atoi(manager), pair[0]);
    }
    if (child < 0 || waitpid(child, NULL, 0) < 0) {
        perror("topo-vrank");
        return 1;
    }
    close(pair[0]);
    close(atoi(manager));
    snprintf(text, sizeof(text), "%d", pair[1]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", number, 1);
    setenv("MPIR_CVAR_PMI_DISABLE_GROUP", "1", 1);
    execvp(argv[2], argv + 2);
    fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
    return 127;
}
