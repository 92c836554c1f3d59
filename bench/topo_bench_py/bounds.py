# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Lower bounds of the time of a collective, by links, and by latency and gap of messages."""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from topo_tune import site
from topo_tune.predictor import latency_bound_us, link_bound_us

BURST_MARGIN = 1.1


@dataclass(frozen=True)
class Uplinks:
    """The uplinks of a level: one for each group"""

    group_of_host: Mapping[str, Any]
    mbps_of_group: Mapping[Any, float | None]


@dataclass(frozen=True)
class Links:
    """The full-duplex links of a site: one for each host, rack and group of each level above. A
    rate of None is not known. uplinks: levels whose groups have different rates. burst_bytes: bytes
    that a link may let pass at once after a pause, before its rate applies, as a token bucket does.

    latency_us: least time of a message between two hosts; None: not known. latencies: for each
    level from racks on, the group of each host, and the least time between hosts of different
    groups. gap_us: least time between two messages of a host."""

    rack_of_host: dict[str, Any]
    host_mbps: float | None
    uplink_mbps: float | None  # of all racks
    burst_bytes: int = 0
    uplinks: tuple[Uplinks, ...] = ()
    latency_us: float | None = None
    latencies: tuple[tuple[Mapping[str, Any], float], ...] = ()
    gap_us: float = 0.0


def bytes_of_groups(
    group_of_host: dict[str, Any], hosts: list[str], bytes_from_to: list[list[float]]
) -> dict[Any, Sequence[float]]:
    """For each group of hosts the bytes that must cross its link: (in, out)."""
    sums = {group: [0.0, 0.0] for group in group_of_host.values()}
    for sender, row in zip(hosts, bytes_from_to, strict=True):
        for receiver, count in zip(hosts, row, strict=True):
            if group_of_host[sender] != group_of_host[receiver]:
                sums[group_of_host[receiver]][0] += count
                sums[group_of_host[sender]][1] += count
    return {group: tuple(both) for group, both in sums.items()}


def bound_us(
    collective: str,
    b: float,
    host_of_rank: Sequence[str],
    links: Links,
    root: int = 0,
    counts: dict[str, Any] | None = None,
) -> float | None:
    """Microseconds that no algorithm can beat; None if nothing is known, or if the links let all
    bytes pass at once.

    b: the size as topo-bench-mpi defines it for the collective. counts: if not all blocks have b
    bytes, the hosts and the bytes from each host to each host.

    The bound is the greater of two. Messages: all hosts learn data of one host or of all hosts; the
    fastest schedule for that is a tree (latency_bound.h). Links: the bytes that must cross the link
    of a host, a rack or a group above, without a burst, over its rate (link_bound.h). They are
    payload only: no headers, no latency, no processor time."""
    of_all: list[tuple[Mapping[str, Any], Callable[[Any], float | None]]] = [
        ({host: host for host in host_of_rank}, lambda _: links.host_mbps),
        (links.rack_of_host, lambda _: links.uplink_mbps),
        *((level.group_of_host, level.mbps_of_group.get) for level in links.uplinks),
    ]
    bounds = []
    for group_of_host, rate_of in of_all:
        if not all(host in group_of_host for host in host_of_rank):
            continue
        groups = [group_of_host[host] for host in host_of_rank]
        if counts:
            of_host = dict(zip(host_of_rank, groups, strict=True))
            crossing = bytes_of_groups(of_host, counts["hosts"], counts["bytes_from_to"])
            for group, both in crossing.items():
                if mbps := rate_of(group):
                    bounds.append(8 * (max(both) - links.burst_bytes) / mbps)
        else:
            ranks = Counter(groups)
            mbps_of = [rate_of(group) or math.inf for group in ranks]
            of_root = list(ranks).index(groups[root])
            num = [*ranks.values()]
            bounds.append(link_bound_us(collective, b, num, mbps_of, of_root, links.burst_bytes))
    if not counts and (b > 0 or collective == "barrier"):
        bounds.append(bound_of_messages_us(host_of_rank, links, root))
    most = max(bounds, default=0)
    return most if most >= 1e-3 else None


def bound_of_messages_us(host_of_rank: Sequence[str], links: Links, root: int) -> float:
    """The bound by messages: at each level, for the root's group and all other groups"""
    hosts = set(host_of_rank)
    near = links.latency_us
    if near is None or len(hosts) == 1:
        return 0
    splits = [(len(hosts), near)]
    for group_of_host, far in links.latencies:
        own = group_of_host.get(host_of_rank[root])
        if own is not None:
            splits.append((sum(group_of_host.get(host) == own for host in hosts), far))
    return max(latency_bound_us(len(hosts), own, near, far, links.gap_us) for own, far in splits)


def parse_rate(text: str) -> float:
    """Megabits per second from "400mbit", "10gbit" or a plain number of megabits."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d*)?)\s*([kmg]?)(?:bit(?:/s)?|bps)?", text.lower())
    if not match or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}': expected a rate such as 400mbit or 10gbit")
    return float(match[1]) * {"k": 1e-3, "m": 1, "": 1, "g": 1e3}[match[2]]


def links_of_site(
    path: str | os.PathLike[str], host_mbps: float | None, uplink_mbps: float | None
) -> Links:
    """Links of a site.json. If host_mbps is not given, it is the rate of the fastest pair of hosts.
    If uplink_mbps is not given, it is the file's `uplink_mbps`, if there is one.

    The rates of uplinks that topo-pingpong measured are no bounds, since links may be faster. If no
    rate of uplinks is known, only host links limit. The diagonal does not count: messages inside a
    host use no link. The burst is that of `costs`, plus a tenth as a margin, since it was measured.
    """
    what = site.load(path)
    racks = dict(zip(what.hosts, what.rack_of_host.tolist(), strict=True))
    uplinks = []
    for level, of_host in zip(what.levels, what.groups_of_host, strict=True):
        is_given = level is what.levels[0] and uplink_mbps is not None
        if level.uplink_mbps is not None and what.source != "measured" and not is_given:
            groups = dict(zip(what.hosts, of_host.tolist(), strict=True))
            uplinks.append(Uplinks(groups, dict(enumerate(level.uplink_mbps))))
    if host_mbps is None and what.bandwidth_mbps is not None:
        between = what.bandwidth_mbps[~np.eye(what.num_hosts, dtype=bool)]
        fastest = float(np.nanmax(between, initial=0))
        host_mbps = fastest if fastest > 0 and math.isfinite(fastest) else None
    burst = math.ceil(BURST_MARGIN * what.costs.get("burst_bytes", 0))
    links = Links(racks, host_mbps, uplink_mbps, burst, tuple(uplinks))
    return replace(links, **latencies_of_site(what))


def latencies_of_site(what: site.Site) -> dict[str, Any]:
    """latency_us and latencies for `Links`: the least measured latencies"""
    of = what.groups_of_host

    def least(differ: np.ndarray) -> float | None:
        """The least latency between hosts for which differ[host, host] holds"""
        us = what.latency_us
        if us is None:
            assert what.rack_latency_us is not None
            us = what.rack_latency_us[np.ix_(of[0], of[0])]
        found = us[differ & np.isfinite(us)]
        return float(found.min()) if len(found) else None

    if what.latency_us is None and what.rack_latency_us is None:
        return {}
    found = []
    for of_host in of:
        us = least(of_host[:, None] != of_host[None, :])
        if us is not None:
            found.append((dict(zip(what.hosts, of_host.tolist(), strict=True)), us))
    near = least(~np.eye(what.num_hosts, dtype=bool))
    return {"latency_us": near, "latencies": tuple(found), "gap_us": what.costs.get("gap_us", 0)}
