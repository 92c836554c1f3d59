# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The time that the links allow."""

import itertools
import re
from collections import Counter
from dataclasses import dataclass

import click

from .files import Failure, read_json


@dataclass(frozen=True)
class Links:
    """Two levels of full-duplex links: one a host, one a rack. A rate of None is not known."""

    rack_of_host: dict
    host_mbps: float | None
    uplink_mbps: float | None


def crossing_bytes(collective, b, p, n, has_root):
    """Bytes that must cross the link of a group (host, rack) of n of the p ranks: (in, out).

    b is the size as topo-bench-mpi defines it for the collective. A block that is needed by several
    ranks of the group must come in once only.
    """
    other = p - n
    if other == 0:
        return 0, 0
    if collective == "allgather":  # every outside block comes in, every own block leaves
        return b * other, b * n
    if collective == "gather":
        return (b * other, 0) if has_root else (0, b * n)
    if collective == "scatter":
        return (0, b * other) if has_root else (b * n, 0)
    if collective == "bcast":
        return (0, b) if has_root else (b, 0)
    if collective in ("alltoall", "alltoallv"):  # b for each pair of ranks
        return b * n * other, b * n * other
    return 0, 0  # barrier: no data


def bytes_of_groups(group_of_host, hosts, bytes_from_to):
    """For each group of hosts the bytes that must cross its link: (in, out)."""
    sums = {group: [0, 0] for group in group_of_host.values()}
    for sender, row in zip(hosts, bytes_from_to, strict=True):
        for receiver, count in zip(hosts, row, strict=True):
            if group_of_host[sender] != group_of_host[receiver]:
                sums[group_of_host[receiver]][0] += count
                sums[group_of_host[sender]][1] += count
    return sums.values()


def bound_us(collective, b, host_of_rank, links, root=0, counts=None):
    """No algorithm can be faster than this, in microseconds; None if nothing is known.

    counts: where blocks are not all of b bytes, the hosts and what goes from each to each.

    The largest, over all hosts and racks, of bits that must go into it or out of it, divided by
    the rate of its link (Mbit/s, so that bits / rate are microseconds). It counts payload only, no
    headers, no latency, no CPU time. Links that let a burst through at once, as token buckets do,
    can beat it at small sizes.
    """
    p = len(host_of_rank)
    levels = [(list(host_of_rank), links.host_mbps)]
    if all(host in links.rack_of_host for host in host_of_rank):
        levels.append(([links.rack_of_host[host] for host in host_of_rank], links.uplink_mbps))
    bounds = []
    for groups, mbps in levels:
        if counts:
            of_host = dict(zip(host_of_rank, groups, strict=True))
            crossing = bytes_of_groups(of_host, counts["hosts"], counts["bytes_from_to"])
        else:
            crossing = [
                crossing_bytes(collective, b, p, n, group == groups[root])
                for group, n in Counter(groups).items()
            ]
        if mbps:
            bounds += [8 * max(both) / mbps for both in crossing]
    return max(bounds, default=0) or None


def parse_rate(text):
    """Megabits per second from "400mbit", "10gbit" or a plain number of megabits."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([kmg]?)(?:bit(?:/s)?|bps)?", text.lower())
    if not match or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}': expected a rate such as 400mbit or 10gbit")
    return float(match[1]) * {"k": 1e-3, "m": 1, "": 1, "g": 1e3}[match[2]]


def links_of_site(path, host_mbps, uplink_mbps):
    """Racks from a site.json; where no rate is given, the fastest measured pair is the host link.

    The rate of an uplink does not follow from rates of pairs: without one, only hosts bound.
    """
    site = read_json(path)
    try:
        racks = dict(zip(site["hosts"], site["racks"]["of_host"], strict=True))
        fastest = max(itertools.chain(*site.get("bandwidth_mbps", [])), default=0)
        return Links(racks, host_mbps or fastest or None, uplink_mbps)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Failure(
            f"{path}: no site file: expected hosts and racks.of_host, one a host"
        ) from None
