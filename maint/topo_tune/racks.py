# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Finds hosts that share a leaf switch (racks), and racks that share the switches above, from a
file or by clustering the distances.

Readers of files return a Found, with racks in the order of the file."""

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from topo_common import files
from topo_common.files import InputError
from topo_common.text import HIDDEN, counted, short

from topo_tune.site import MAX_LEVELS, MAX_NAME, Site

MAX_HOSTS = 1_000_000  # a longer list, such as n[0-999999999], is a typing error
MAX_LISTS = 10_000  # lists in brackets in a line
MAX_INCLUDES = 8  # depth of included files


@dataclass
class Found:
    """racks: {rack name: [host names]}. above: for each level above, {name of a group of the level
    below: name of its group}. notes: sentences about what was left out. A host may be in several
    racks: chosen() selects one."""

    racks: dict[str, list[str]] = field(default_factory=dict)
    above: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, path: object, number: int, name: str, hosts: list[str]) -> None:
        if HIDDEN.search(name) or len(name.encode()) > MAX_NAME:
            text = f"found {short(name)}, expected the name of a rack, at most {MAX_NAME} bytes"
            raise InputError(path, text, f"line {number}")
        if name in self.racks:
            raise InputError(path, f"rack {name} is there twice", f"line {number}")
        self.racks[name] = hosts

    def checked(self, path: object, expected: str) -> "Found":
        if not self.racks:
            raise InputError(path, f"found no rack, expected {expected}")
        return self


def chosen(
    path: object, racks_of: dict[str, list[str]], several: str
) -> tuple[dict[str, str], list[str]]:
    """({host: its rack}, notes on hosts that have several). racks_of: {host: [its racks]}. several:
    "first" takes the first rack; a pattern such as rail1-* the first rack whose name matches, or an
    error if none does; "error" is always an error."""
    result = {}
    with_several = {host: names for host, names in racks_of.items() if len(set(names)) > 1}
    for host, names in racks_of.items():
        result[host] = names[0]
        if host not in with_several or several == "first":
            continue
        found = [name for name in names if fnmatch.fnmatchcase(name, several)]
        if not found:
            what = "expected one" if several == "error" else f"expected one like {several}"
            text = f"host {host} is in several racks: {', '.join(dict.fromkeys(names))}; {what}"
            raise InputError(path, text)
        result[host] = found[0]
    if not with_several:
        return result, []
    host, *others = with_several
    who = f"{host} and {counted(len(others), 'more host')} are" if others else f"{host} is"
    return result, [
        f"{who} in several racks; of {host}, {result[host]} counts (--several says which)"
    ]


# -- Slurm --


def read_slurm(path: str, several: str = "first") -> Found:
    """Racks of Slurm's topology.conf (plugins tree, block and ring) or topology.yaml, or of what
    `scontrol show topology` prints: switches that have nodes and no switches below, blocks, or rings.
    several: as of chosen(). Raises InputError with the line that is wrong."""
    text = files.read_text(path)
    if str(path).endswith((".yaml", ".yml")) or re.match(r"(\s*#.*\n|\s*\n)*(---|- )", text):
        return _read_slurm_yaml(path, text, several)
    found = Found()
    above: dict[str, tuple[str, ...]] = {}  # switches, and what is below them
    sizes: list[str] = []
    for file, number, line in _slurm_lines(path):
        fields = _slurm_fields(file, number, line)
        name = next((fields[key] for key in SLURM_RACKS if key in fields), None)
        if name and fields.get("switches"):
            # scontrol lists all nodes below a switch of any level: the switches tell the tree
            above[name] = tuple(expand(fields["switches"], file, number))
        elif name and fields.get("level", "0") != "0":
            text = f"found a switch of level {fields['level']} with no Switches="
            text += ", expected whole lines: SLURM_TOPO_LEN cuts those of scontrol"
            raise InputError(file, text, f"line {number}")
        elif name and fields.get("nodes"):
            found.add(file, number, name, expand(fields["nodes"], file, number))
        elif "blocksizes" in fields:
            sizes = fields["blocksizes"].split(",")[1:]
        elif "aggregatedblock" in fields:
            sizes.append(fields.get("blocksize", "more"))
        elif not name:
            text = (
                f"found {short(line)}, expected SwitchName=, BlockName=, RingName= or BlockSizes="
            )
            raise InputError(file, text, f"line {number}")
    return _slurm_found(path, found, above, sizes, several)


SLURM_RACKS = ("switchname", "blockname", "ringname")


def _slurm_found(
    path: str, found: Found, above: dict[str, tuple[str, ...]], sizes: list[str], several: str
) -> Found:
    """Complete what was read: add the levels, and choose one rack for each host."""
    found.checked(path, "a switch, block or ring with nodes")
    _add_levels(found, above)
    racks_of: dict[str, list[str]] = {}
    for rack, hosts in found.racks.items():
        for host in hosts:
            racks_of.setdefault(host, []).append(rack)
    rack_of, notes = chosen(path, racks_of, several)
    for rack, hosts in found.racks.items():
        found.racks[rack] = [host for host in hosts if rack_of[host] == rack]
    if sizes:
        many = ", ".join(dict.fromkeys(sizes))
        notes.append(f"blocks that are joined to blocks of {many} hosts are left out")
    found.notes = notes + found.notes
    return found


def _slurm_lines(path: str, depth: int = 0) -> Iterator[tuple[str, int, str]]:
    """(file, number, text) of the lines, with included files in place of the include lines"""
    for number, line in _lines(path):
        include = re.fullmatch(r"include\s+(\S.*)", line, re.IGNORECASE)
        if not include:
            yield path, number, line
        elif depth == MAX_INCLUDES:
            text = f"found more than {MAX_INCLUDES} files that include each other"
            raise InputError(path, text, f"line {number}")
        else:
            yield from _slurm_lines(os.path.join(os.path.dirname(path), include[1]), depth + 1)


def _slurm_fields(path: str, number: int, line: str) -> dict[str, str]:
    fields = {}
    for word in re.findall(r'(?:"[^"]*"|\S)+', re.sub(r"\s*=\s*", "=", line)):
        key, equals, value = word.partition("=")
        if not equals:
            raise InputError(path, f"found {short(word)}, expected KEY=VALUE", f"line {number}")
        fields[key.lower()] = value.strip('"')
    return fields


def _add_levels(found: Found, above: dict[str, tuple[str, ...]]) -> None:
    """Add the levels of switches above the racks, if they are a tree. The level of a switch is one
    above that of its highest child."""
    parents = [child for below in above.values() for child in below]
    level = dict.fromkeys(found.racks, 0)
    for _ in above:  # as many rounds as the deepest tree needs
        for name, below in above.items():
            level[name] = max((level.get(each, 0) + 1 for each in below), default=1)
    if len(set(parents)) < len(parents) or max(level.values(), default=0) > len(above):
        found.notes.append("the switches above the racks are left out: they are no tree")
        return
    for number in sorted({level[name] for name in above}):
        names = [name for name in above if level[name] == number]
        found.above.append({child: name for name in names for child in above[name]})


def _read_slurm_yaml(path: str, text: str, several: str) -> Found:
    """The racks of a topology.yaml: of its topology with cluster_default, or else of the first one
    with a tree, blocks or rings"""
    import yaml  # type: ignore[import-untyped]

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > files.MAX_NESTING:
                raise InputError(path, f"found more than {files.MAX_NESTING} levels of nesting")
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1
                raise InputError(path, "found an alias, expected plain YAML", f"line {line}")
        # BaseLoader reads all scalars as strings: a host may be called 1e3
        root = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else None
        what = getattr(error, "problem", None) or "found what cannot be read"
        raise InputError(path, f"not YAML: {what}", where) from None
    topologies = [t for t in _typed(path, "$", root, list) if isinstance(t, dict)]
    kinds = [t for t in topologies if SLURM_YAML.keys() & t.keys()]
    kinds.sort(key=lambda t: t.get("cluster_default") != "true")
    if not kinds:
        raise InputError(path, "found no topology with tree:, block: or ring:")
    using, found = kinds[0], Found()
    kind = next(key for key in SLURM_YAML if key in using)
    of_kind = _typed(path, f"$.{kind}", using[kind], dict)
    many, one = SLURM_YAML[kind]
    above = {}
    for i, row in enumerate(_typed(path, f"$.{kind}.{many}", of_kind.get(many), list)):
        where = f"$.{kind}.{many}[{i}]"
        name, hosts, children = _yaml_row(path, where, row, one, "nodes", "children")
        if children:
            above[name] = tuple(expand(children, path))
        elif hosts:
            found.add(path, 1, name, expand(hosts, path))
    sizes = _typed(path, "$.block.block_sizes", of_kind.get("block_sizes", []), list)
    if len(kinds) > 1:
        found.notes.append(f"of {len(kinds)} topologies, {short(using.get('topology'))} is used")
    return _slurm_found(path, found, above, [short(s).strip('"') for s in sizes[1:]], several)


SLURM_YAML = {
    "tree": ("switches", "switch"),
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
}


def _yaml_row(path: str, where: str, row: Any, *keys: str) -> list[str]:
    """Texts at the keys of a row, "" for a missing key. The first key is required."""
    row = _typed(path, where, row, dict)
    texts = [_typed(path, f"{where}.{key}", row.get(key, ""), str) for key in keys]
    if not texts[0]:
        raise InputError(path, f"found no {keys[0]}, expected its name", where)
    return texts


def _typed(path: str, where: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        names: dict[type, str] = {list: "a list", dict: "keys and values", str: "a text"}
        raise InputError(path, f"found {short(value)}, expected {names[kind]}", where)
    return value


# -- a list --


def read_list(path: str) -> Found:
    """Racks of a text file with a line `RACK: HOST HOST ...` each; hosts as in Slurm, n[0-3,7] too."""
    found = Found()
    for number, line in _lines(path):
        name, colon, hosts = line.partition(":")
        if not colon or not name.strip():
            text = f"found {short(line)}, expected RACK: HOST HOST ..."
            raise InputError(path, text, f"line {number}")
        found.add(path, number, name.strip(), expand(",".join(hosts.split()), path, number))
    return found.checked(path, "a line RACK: HOST HOST ...")


# -- ibnetdiscover --

# Mellanox switches that can reduce (SHARP) show an adapter of their own, which is no host.
NO_HOST = re.compile(r"aggregation node", re.IGNORECASE)


def read_ibnetdiscover(path: str, hosts: Sequence[str] = (), several: str = "first") -> Found:
    """Racks of the output of ibnetdiscover: the switches with a channel adapter on a port. The
    first word of an adapter's description is the name of its host; the rest distinguishes adapters
    of a host. If a host has adapters on several switches, these are ordered by names of adapters:
    HCA-1, mlx5_0; `several` is passed to chosen(). hosts: those of the site. If the file has any of
    them, other hosts are left out, and a switch with only other hosts is no rack.

    Racks that are joined by switches without adapters are in one group. Racks that are joined by
    these switches and the switches behind them are in one group of the next level, and so on. The
    name of a rack or group is a switch's description, or its GUID if several switches have one
    description."""
    switch = re.compile(r'Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
    port = re.compile(r'\[\d+\](?:\[[^]]*\])?\s*(?:\([^)]*\)\s*)?"H-[^"]*"\[[^#]*#\s*"([^"]*)"')
    to_switch = re.compile(r'\[\d+\](?:\[[^]]*\])?\s*(?:\([^)]*\)\s*)?"(S-[^"]*)"')
    switches: dict[str, tuple[str, int]] = {}  # GUID: description, line
    links: list[tuple[str, str]] = []  # GUIDs
    rails: dict[str, list[tuple[list[Any], str]]] = {}  # host: [(key of its adapter, switch)]
    current = None
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        if match := switch.match(line):
            current, text = match.groups()
            if current in switches:
                raise InputError(path, f"switch {current} is there twice", f"line {number}")
            switches[current] = (re.sub(r"^MF0;|:.*$", "", text).strip(), number)
        elif not line.startswith("["):
            current = None if line[:1].isalpha() else current
        elif current and (match := port.match(line)):
            host, _, adapter = match[1].strip().partition(" ")
            if host and not NO_HOST.search(match[1]):
                rails.setdefault(host, []).append((_natural(adapter), current))
        elif current and (match := to_switch.match(line)):
            links.append((current, match[1]))
    same = same_hosts(list(rails), hosts)
    rails = {host: rails[host] for host in rails if host in same} or rails
    texts = Counter(text for text, _ in switches.values())
    names = {
        guid: text if text and texts[text] == 1 else guid for guid, (text, _) in switches.items()
    }
    guids_of = {host: [guid for _, guid in sorted(ends)] for host, ends in rails.items()}
    names_of = {host: [names[guid] for guid in guids] for host, guids in guids_of.items()}
    rack_of, notes = chosen(path, names_of, several)
    hosts_of: dict[str, list[str]] = {}
    for host, rack in rack_of.items():
        hosts_of.setdefault(rack, []).append(host)
    leaves = [guid for guid in switches if names[guid] in hosts_of]
    found = Found()
    for guid in leaves:
        found.add(path, switches[guid][1], names[guid], hosts_of[names[guid]])
    found.above = _joined(leaves, links, names)
    found.notes = notes
    return found.checked(path, "a switch with adapters, as ibnetdiscover prints it")


def _joined(
    leaves: list[str], links: list[tuple[str, str]], names: dict[str, str]
) -> list[dict[str, str]]:
    """Levels above racks, as in Found.above. Switches of one depth, counted from the leaves, join
    the groups of a level. Links between leaves do not count: in a dragonfly, all groups have
    them."""
    beside: dict[str, set[str]] = {}
    for a, b in links:
        beside.setdefault(a, set()).add(b)
        beside.setdefault(b, set()).add(a)
    depth = dict.fromkeys(leaves, 0)
    shells = [leaves]
    while shells[-1]:
        shells.append([])
        for guid in shells[-2]:
            for other in sorted(beside.get(guid, ())):
                if other not in depth:
                    depth[other] = len(shells) - 1
                    shells[-1].append(other)
    group = {guid: guid for guid in depth}  # union-find

    def find(guid: str) -> str:
        while group[guid] != guid:
            group[guid] = group[group[guid]]
            guid = group[guid]
        return guid

    above, last = [], {leaf: names[leaf] for leaf in leaves}
    for number in range(1, len(shells) - 1):
        for guid in shells[number]:
            for other in beside[guid]:
                if depth[other] <= number:
                    group[find(guid)] = find(other)
        name_of: dict[str, str] = {}  # name of a group: that of its first switch of this depth
        for guid in [*shells[number], *leaves]:
            name_of.setdefault(find(guid), names.get(guid, guid))
        now = {leaf: name_of[find(leaf)] for leaf in leaves}
        above.append({last[leaf]: now[leaf] for leaf in leaves})
        last = now
    return above


def _natural(text: str) -> list[Any]:
    """A key that sorts mlx5_2 before mlx5_10."""
    return [(int(n[:18]), "") if n.isascii() and n.isdigit() else (-1, n)
            for n in re.split(r"([0-9]+)", text.strip())]  # fmt: skip


# -- host lists --


def expand(text: str, path: object = "host list", number: int = 1) -> list[str]:
    """The names in a host list of Slurm, such as `a,n[0-2,08-10],r[1-2]n[1-4]`. Raises InputError,
    which names `path` and the `number` of the line."""
    from ClusterShell.NodeSet import (  # type: ignore[import-untyped]
        RESOLVER_NOGROUP,
        NodeSet,
        NodeSetException,
    )

    def bad(what: str) -> InputError:
        return InputError(path, f"found {short(text)}, {what}", f"line {number}")

    words = re.sub(r"[\s,]*,[\s,]*", ",", text).strip(", ")
    # ClusterShell also has operators, and expands all names before it tells their number
    if not re.fullmatch(r"[\w.,\[\]-]*", words, re.ASCII):
        raise bad("expected names of hosts, such as n[0-3,7]")
    total = 0
    names: list[str] = []
    lists: list[str] = []
    for item in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+|[\[\]]", words):
        count = 1
        (lists if "[" in item or "]" in item else names).append(item)
        for spans in re.findall(r"\[([^\]]*)\]", item):
            ends = [(f or "0", t or f) for f, t in re.findall(r"(\d*)-?(\d*)", spans) if f]
            if any(len(end) > 9 for pair in ends for end in pair):
                raise bad("expected at most nine digits")
            count *= max(sum(int(last) - int(first) + 1 for first, last in ends), 1)
        total += count
    if total > MAX_HOSTS:
        raise bad("expected at most a million hosts")
    if any(len(name) > MAX_NAME for name in names):
        raise bad(f"expected names of at most {MAX_NAME} bytes")
    if len(lists) > MAX_LISTS:
        raise bad(f"expected at most {MAX_LISTS} lists in brackets")
    try:
        # pass only lists to ClusterShell: a single name costs it as much as a list
        found = NodeSet(",".join(lists), resolver=RESOLVER_NOGROUP)
        return list(dict.fromkeys([*names, *found]))
    except (NodeSetException, ValueError) as error:
        what = str(error).split(": ")[0]
        raise bad(f"{what}, expected a list such as n[0-3,7]") from None


def assign(
    site: Site, racks: dict[str, list[str]], path: object, whole_site: bool = True
) -> tuple[list[str], list[int]]:
    """(rack names, rack index of each host of `site`). racks: {rack: [hosts]}.

    A host that the site does not have is an error with `whole_site`. Without it, such a host is
    left out, since the file describes a larger machine. Racks with no host of the site are left
    out. Raises InputError for a host in two racks, and for a host of the site in none."""
    index = {name: i for i, name in enumerate(site.hosts)}
    same = same_hosts(
        list(dict.fromkeys(host for hosts in racks.values() for host in hosts)), site.hosts
    )
    number: dict[str, int] = {}  # of a rack
    of_host = [-1] * site.num_hosts
    for rack, hosts in racks.items():
        for host in hosts:
            if host not in same:
                if whole_site:
                    raise InputError(path, f"host {host} of rack {rack} is not in the site file")
                continue
            i, own = index[same[host]], number.setdefault(rack, len(number))
            if of_host[i] not in (-1, own):
                other = list(number)[of_host[i]]
                raise InputError(path, f"host {host} is in two racks: {other} and {rack}")
            of_host[i] = own
    missing = [site.hosts[i] for i, rack in enumerate(of_host) if rack == -1]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        near = sorted(
            {h for hosts in racks.values() for h in hosts if _first(h) == _first(missing[0])}
        )
        hint = f" ({', '.join(near[:3])}: not surely the same)" if near else ""
        raise InputError(path, f"no rack for {', '.join(missing[:5])}{more}{hint}")
    return list(number), of_host


def same_hosts(names: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """{name in `names`: name in `known`} of the hosts that are in both lists. Names match if they
    are equal, or if one of them lacks the domain and each list has only one name with that first
    part. n1 and n1.cluster match, n1.a and n1.b do not. Addresses have no short form. topo_site.c
    follows the same rules."""
    whole = set(known)
    result = {name: name for name in names if name in whole}
    shorts = [_by_first(of) for of in (names, known)]
    for first, (name, *others) in shorts[0].items():
        (other, *more) = shorts[1].get(first, ("",))
        ends = f"{name}.", f"{other}."
        if (
            not others
            and not more
            and other
            and (ends[0].startswith(ends[1]) or ends[1].startswith(ends[0]))
        ):
            result[name] = other
    return result


def _by_first(hosts: Sequence[str]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for host in hosts:
        if ":" not in host and not re.fullmatch(r"([0-9]*\.){3}[0-9]*", host):
            result.setdefault(_first(host), []).append(host)
    return result


def levels_above(found: Found, racks: list[str]) -> list[tuple[list[str], list[int]]]:
    """For each level above `racks`, the lowest first: (group names, group of each group of the
    level below). A level that joins no groups, or all of them into one, is left out."""
    levels: list[tuple[list[str], list[int]]] = []
    names = racks
    for parent in found.above:
        now = [parent.get(name, name) for name in names]
        groups = list(dict.fromkeys(now))
        index = {name: i for i, name in enumerate(groups)}
        if len(groups) == 1 or len(levels) == MAX_LEVELS - 1:
            break
        if len(groups) < len(names):
            levels.append((groups, [index[name] for name in now]))
            names = groups
        else:
            names = now
            if levels:
                levels[-1] = (now, levels[-1][1])
    return levels


def cluster(site: Site) -> tuple[list[str], list[int], float]:
    """(rack names, rack index of each host, confidence 0..1), by clustering the distances.

    Latencies and reciprocal bandwidths are clustered by average linkage (scipy). The number of
    racks is the one with the largest mean silhouette, which is the confidence. If that is below
    0.25, there is one rack, with the confidence 1 - silhouette. The confidence is multiplied by the
    share of pairs that were measured.

    The site must have the matrix of latencies. Raises ValueError where no distance was measured."""
    matrices = _measured(site)
    if site.num_hosts > 1 and not matrices:
        raise ValueError("found no distance between hosts that was measured")
    best, labels = 0.0, np.zeros(site.num_hosts, dtype=int)
    known = max([_known_share(matrix) for matrix in matrices], default=1.0)
    for matrix in matrices if site.num_hosts > 2 else ():
        score, found = _best_cut(_distances(matrix))
        if score > best:
            best, labels, known = score, found, _known_share(matrix)
    if best < 0.25:
        # the distance of only two hosts shows nothing
        confidence = 1 - best if site.num_hosts != 2 else 0.0
        return ["rack0"], [0] * site.num_hosts, round(confidence * known, 3)
    # racks are numbered by their first host
    _, first = np.unique(labels, return_index=True)
    number = {labels[i]: k for k, i in enumerate(sorted(first))}
    names = [f"rack{k}" for k in range(len(number))]
    return names, [number[label] for label in labels], round(best * known, 3)


def _measured(site: Site) -> list[np.ndarray]:
    """The matrices of latencies and of reciprocal bandwidths, if they have a measured pair"""
    inverse = None if site.bandwidth_mbps is None else 1 / site.bandwidth_mbps
    return [m for m in (site.latency_us, inverse) if m is not None and _known_share(m) > 0]


def _known_share(matrix: np.ndarray) -> float:
    """The share of the pairs of hosts that were measured in at least one direction"""
    known = np.isfinite(matrix) | np.isfinite(matrix.T)
    pairs = ~np.eye(len(matrix), dtype=bool)
    return float(known[pairs].mean()) if pairs.any() else 0.0


def contradicts(site: Site) -> bool:
    """Whether hosts of a Site are on average nearer to hosts of another rack than to their own, in
    latency and in bandwidth."""
    if site.num_racks < 2 or site.latency_us is None:
        return False
    scores = [silhouette(_distances(m), site.rack_of_host) for m in _measured(site)]
    return bool(scores) and max(scores) <= 0


def silhouette(distances: np.ndarray, labels: np.ndarray) -> float:
    """Mean silhouette of a clustering, -1..1 (Rousseeuw 1987): how much nearer a host is to its own
    rack than to the next one. A host alone in its rack counts 0."""
    names, labels = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        return 0.0
    member = np.eye(len(names))[labels]
    count = member.sum(axis=0)
    total = distances @ member
    rows = np.arange(len(labels))
    own_count = count[labels]
    own = total[rows, labels] / np.maximum(own_count - 1, 1)
    mean = total / count
    mean[rows, labels] = np.inf
    other = mean.min(axis=1)
    scale = np.maximum(own, other)
    score = np.where(
        (own_count > 1) & (scale > 0), (other - own) / np.where(scale > 0, scale, 1), 0
    )
    return float(score.mean())


def _best_cut(distances: np.ndarray) -> tuple[float, np.ndarray]:
    """(silhouette, labels) of the best number of racks, 2 to hosts - 1."""
    from scipy.cluster import hierarchy  # type: ignore[import-untyped]
    from scipy.spatial.distance import squareform  # type: ignore[import-untyped]

    tree = hierarchy.linkage(squareform(distances, checks=False), "average")
    # try only cuts at the 64 widest gaps between merges: the cost of all cuts is cubic in the hosts
    gaps = np.diff(tree[:, 2])
    best, labels = 0.0, np.zeros(len(distances), dtype=int)
    for i in sorted(np.argsort(-gaps, kind="stable")[:64]):
        found = hierarchy.fcluster(tree, len(distances) - 1 - i, "maxclust")
        score = silhouette(distances, found)
        if score > best + 1e-9:
            best, labels = score, found
    return best, labels


def _distances(matrix: np.ndarray) -> np.ndarray:
    """A symmetric matrix of distances, zero on the diagonal. A pair that was not measured has the
    largest distance."""
    both = np.stack([matrix, matrix.T])
    known = np.isfinite(both)
    count = known.sum(axis=0)
    result = np.where(known, both, 0).sum(axis=0) / np.maximum(count, 1)
    result[count == 0] = result.max()
    np.fill_diagonal(result, 0)
    return result


def _first(host: str) -> str:
    return host.split(".")[0]


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines, without comments and empty lines; continued lines are joined"""
    pending, start = "", 0
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        line = line.split("#")[0].rstrip()
        start = start or number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        line = (pending + line).strip()
        if line:
            yield start, line
        pending, start = "", 0
    if pending.strip():
        yield start, pending.strip()
