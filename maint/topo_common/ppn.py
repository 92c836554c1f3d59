# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The option for ranks a host on all command lines: N or, for unequal numbers, NxHOSTS,..."""

import re
from typing import Any

import click

from topo_common.text import short

MOST = 4096
# the schemas of plans and suites have the same pattern
FORM = r"[1-9][0-9]{0,3}|[1-9][0-9]{0,3}x[1-9][0-9]{0,4}(,[1-9][0-9]{0,3}x[1-9][0-9]{0,4})*"


class RanksAHost(click.ParamType):
    """Checks the text, and keeps it: the number of hosts is known later."""

    name = "N|NxHOSTS,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not re.fullmatch(FORM, text) or max(ranks for ranks, _ in _parts(text)) > MOST:
            expected = f"1 to {MOST} ranks a host, or RANKSxHOSTS,... such as 16x4,8x29"
            self.fail(f"found {short(text)}, expected {expected}", param, ctx)
        return text


def _parts(text: str) -> list[tuple[int, int | None]]:
    """[(ranks of each host, number of hosts; None: all hosts)]"""
    parts = (part.partition("x") for part in text.split(","))
    return [(int(ranks), int(hosts) if hosts else None) for ranks, _, hosts in parts]


def ranks_of_hosts(text: str, num_hosts: int) -> list[int]:
    """The number of ranks of each host. Raises UsageError if `text` is for another number of
    hosts."""
    found = [(ranks, num_hosts if hosts is None else hosts) for ranks, hosts in _parts(text)]
    if (total := sum(hosts for _, hosts in found)) != num_hosts:
        where = f"found {total} hosts in {text}, expected {num_hosts}, as there are"
        raise click.UsageError(f"--ppn: {where}")
    return [ranks for ranks, hosts in found for _ in range(hosts)]
