# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What MPIR_CVAR_COLL_SELECTION_REPORT=print prints"""

import re
from typing import NamedTuple

MARK = "[mpich] selection:"
HEADER = "COLLECTIVE RANKS HOSTS PLACE BYTES CALLS TOTAL_US MEAN_US ALGORITHM"
SIZES = {"0": 0, "1..64": 64, "65..512": 512, "513..4K": 4096, "4K..32K": 32768}
SIZES |= {"32K..256K": 2**18, "256K..2M": 2**21}


class Row(NamedTuple):
    collective: str
    ranks: int
    hosts: int
    place: str  # a number, or "-", as what follows, up to:
    bytes: str  # on average
    calls: int
    total_us: str
    mean_us: str
    algorithm: str  # as a tuning file has it: intra_ring
    reason: str = "built-in"

    @property
    def size(self) -> str:
        """The class of sizes, as a trace calls it"""
        if self.bytes == "-":
            return "-"
        return next((name for name, most in SIZES.items() if int(self.bytes) <= most), ">2M")


def rows(stderr: str) -> list[Row]:
    found: list[Row] = []
    waits = ""
    lines = [line for line in stderr.splitlines() if line.startswith(MARK)]
    assert not lines or lines[0].removeprefix(MARK).split() == HEADER.split(), lines[0]
    for line in lines[1:]:
        text = waits + line.removeprefix(MARK)
        if text.startswith("    "):
            found[-1] = found[-1]._replace(reason=text.strip())
            continue
        assert len(line) <= 100, line
        words = text.split()
        waits = text if len(words) == len(HEADER.split()) - 1 else ""
        if waits:  # the algorithm is in the next line
            continue
        assert len(words) == len(HEADER.split()), line
        name = words[8]
        if not name.startswith(("inter_", "allcomm_")):
            name = f"intra_{name}"
        ranks, hosts, calls = int(words[1]), int(words[2]), int(words[5])
        found.append(
            Row(words[0], ranks, hosts, words[3], words[4], calls, words[6], words[7], name)
        )
    return found


def is_by_auto(reason: str) -> bool:
    """Whether topo_auto has decided, perhaps to keep MPICH's choice."""
    return bool(re.match("topo_auto|kept MPICH's choice", reason))
