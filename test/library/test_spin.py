# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Whether ranks that wait in shared memory may spin: if each has a processor, by what the ranks of
the communicator on the host may use, whatever other communicators there are."""

import subprocess
from pathlib import Path

import pytest

PROGRAM = """
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool MPII_Topo_shm_may_spin(int num_ranks, int num_on_node, const uint64_t processors[16]);

/* with the processors first ... first + num - 1 */
static int ask(int num_ranks, int num_on_node, int first, int num)
{
    uint64_t processors[16];

    memset(processors, 0, sizeof(processors));
    for (int i = first; i < first + num; i++)
        processors[i / 64] |= (uint64_t) 1 << i % 64;
    return MPII_Topo_shm_may_spin(num_ranks, num_on_node, processors);
}

int main(void)
{
    int online = sysconf(_SC_NPROCESSORS_ONLN), wrong = 0;

#define CHECK(yes, ...) \\
    if (ask(__VA_ARGS__) != yes && ++wrong) \\
        printf("expected %d: %s\\n", yes, #__VA_ARGS__)
    CHECK(1, 1, 1, 0, 1);
    CHECK(1, 2, 1, 0, 2);
    CHECK(1, 2, online, 62, 4);         /* across two words */
    CHECK(1, 64, 1, 960, 64);           /* the last ones */
    CHECK(0, 2, 1, 0, 1);               /* bound to one processor */
    CHECK(0, 5, 1, 100, 4);
    CHECK(0, 1, 1, 0, 0);               /* nothing is known */
    CHECK(0, 1, online + 1, 0, 64);     /* the node has more ranks than processors */
    CHECK(1, 1, online, 0, 64);
    CHECK(0, 65, 1, 0, 64);
    /* one answer does not change the next one */
    CHECK(1, 1, 1, 0, 1);
    return wrong;
}
"""


def test_may_spin(bindir: Path, tmp_path: Path) -> None:
    library = (bindir / "mpicc").resolve().parents[1] / "lib/libmpi.a"
    if not library.exists():
        pytest.skip(f"no static library {library}")
    source, program = tmp_path / "spin.c", tmp_path / "spin"
    source.write_text(PROGRAM)
    subprocess.run([bindir / "mpicc", "-static-mpi", "-o", program, source], check=True)
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
