# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Which hosts share a leaf switch: read from a file, or clustered from the distances.

Readers return {rack name: [host names]} in the order of the file."""

import itertools
import re

import numpy as np

from topo_common import files
from topo_common.files import InputError
from topo_common.text import short

MAX_HOSTS = 1_000_000  # a list such as n[0-999999999] is a typing error


def read_slurm(path):
    """Racks of a Slurm topology.conf: the switches that have Nodes=. Raises InputError with the line
    that is wrong."""
    racks = {}
    for number, line in _lines(path):
        fields = {}
        for word in line.split():
            key, equals, value = word.partition("=")
            if not equals:
                text = f"found {short(word)}, expected KEY=VALUE"
                raise InputError(path, text, f"line {number}")
            fields[key.lower()] = value
        name = fields.get("switchname")
        if not name:
            raise InputError(path, f"found {short(line)}, expected SwitchName=", f"line {number}")
        if "nodes" in fields:
            _add(racks, path, number, name, expand(fields["nodes"], path, number))
    return _not_empty(racks, path, "a switch with Nodes=")


def read_list(path):
    """Racks of a text file with a line `RACK: HOST HOST ...` each; hosts as in Slurm, n[0-3,7] too."""
    racks = {}
    for number, line in _lines(path):
        name, colon, hosts = line.partition(":")
        if not colon or not name.strip():
            text = f"found {short(line)}, expected RACK: HOST HOST ..."
            raise InputError(path, text, f"line {number}")
        expanded = [h for word in hosts.split() for h in expand(word, path, number)]
        _add(racks, path, number, name.strip(), expanded)
    return _not_empty(racks, path, "a line RACK: HOST HOST ...")


def read_ibnetdiscover(path):
    """Racks of the output of ibnetdiscover: the switches with a channel adapter on a port. A host is
    the first word of its adapter's description; a rack is named by the switch's description, or by
    its GUID where switches are described alike."""
    switch = re.compile(r'Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
    port = re.compile(r'\[\d+\](?:\[[^]]*\])?\s*(?:\([^)]*\)\s*)?"H-[^"]*"\[[^#]*#\s*"([^"]*)"')
    found = []  # GUID, description, line, hosts
    current = None
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        if match := switch.match(line):
            guid, text = match.groups()
            text = re.sub(r"^MF0;|:.*$", "", text).strip()
            current = (guid, text, number, [])
            found.append(current)
        elif not line.startswith("["):
            current = None if line[:1].isalpha() else current
        elif current and (match := port.match(line)):
            words = match.group(1).split()
            if not words:
                text = "found an adapter with no description, so no host name"
                raise InputError(path, text, f"line {number}")
            # one host may have several ports on a switch
            if words[0] not in current[3]:
                current[3].append(words[0])
    leaves = [entry for entry in found if entry[3]]
    texts = [entry[1] for entry in leaves]
    racks = {}
    for guid, text, number, hosts in leaves:
        name = text if text and texts.count(text) == 1 else guid
        _add(racks, path, number, name, hosts)
    return _not_empty(racks, path, "a switch with adapters, as ibnetdiscover prints it")


def expand(text, path="host list", number=1):
    """Names in a host list of Slurm: `a,n[0-2,08-10],r[1-2]n[1-4]`. `path` and `number` of the line
    are for the InputError about a list that cannot be read."""

    def bad(what):
        return InputError(path, f"found {short(text)}, {what}", f"line {number}")

    names = []
    for item in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+|[\[\],]", text):
        if item == ",":
            continue
        if item in "[]":
            raise bad("expected a closing bracket for each opening one")
        choices = []
        for part in re.split(r"(\[[^\]]*\])", item):
            if not part.startswith("["):
                choices.append([part])
                continue
            numbers = []
            for span in part[1:-1].split(","):
                match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", span, re.ASCII)
                if not match:
                    raise bad("expected numbers in brackets, such as [0-3,7]")
                first, last = match[1], match[2] or match[1]
                if not int(first) <= int(last) < int(first) + MAX_HOSTS:
                    raise bad("expected a range that goes up, of at most a million hosts")
                numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
            choices.append(numbers)
        for parts in itertools.product(*choices):
            names.append("".join(parts))
            if len(names) > MAX_HOSTS:
                raise bad("expected at most a million hosts")
    return names


def assign(site, racks, path, whole_site=True):
    """Rack names and the rack index of each host of `site`, from `racks` = {rack: [hosts]}.

    A host is found by its name, or by its name up to the first dot. With `whole_site` a host that the
    site does not have is an error; without, it is left out: the file describes a larger machine.
    Racks with no host of the site are left out. Raises InputError for a host in two racks and for a
    host of the site in none."""
    index = {name: i for i, name in enumerate(site.hosts)}
    by_short = {}
    for name, i in index.items():
        # None: two hosts of the site have this short name
        by_short[_short_name(name)] = None if _short_name(name) in by_short else i
    names, of_host, rack_of = [], [-1] * site.num_hosts, {}
    for rack, hosts in racks.items():
        for host in hosts:
            if rack_of.setdefault(host, rack) != rack:
                raise InputError(path, f"host {host} is in two racks: {rack_of[host]} and {rack}")
            i = index.get(host, by_short.get(_short_name(host)))
            if i is None:
                if whole_site:
                    raise InputError(path, f"host {host} of rack {rack} is not in the site file")
                continue
            if of_host[i] != -1 and names[of_host[i]] != rack:
                text = f"host {host} is in two racks: {names[of_host[i]]} and {rack}"
                raise InputError(path, text)
            if rack not in names:
                names.append(rack)
            of_host[i] = names.index(rack)
    missing = [site.hosts[i] for i, rack in enumerate(of_host) if rack == -1]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InputError(path, f"no rack for {', '.join(missing[:5])}{more}")
    return names, of_host


def cluster(site):
    """Rack names, the rack index of each host, and a confidence 0..1, from the distances.

    Average-linkage clustering (scipy) of the latencies and of the reciprocal bandwidths; of all
    numbers of racks the one with the largest mean silhouette, which is the confidence. Under 0.25
    nothing is seen that deserves the name of racks: one rack, with 1 - silhouette as confidence.
    The site must have the matrix of latencies."""
    best, labels = 0.0, np.zeros(site.num_hosts, dtype=int)
    inverse = None if site.bandwidth_mbps is None else 1 / site.bandwidth_mbps
    for matrix in (site.latency_us, inverse):
        if matrix is not None and site.num_hosts > 2:
            score, found = _best_cut(_distances(matrix))
            if score > best:
                best, labels = score, found
    if best < 0.25:
        # of two hosts nothing can be said
        confidence = 1 - best if site.num_hosts != 2 else 0.0
        return ["rack0"], [0] * site.num_hosts, round(confidence, 3)
    # racks are numbered by their first host
    _, first = np.unique(labels, return_index=True)
    number = {labels[i]: k for k, i in enumerate(sorted(first))}
    names = [f"rack{k}" for k in range(len(number))]
    return names, [number[label] for label in labels], round(best, 3)


def contradicts(site):
    """Whether hosts of a Site are on average nearer to hosts of another rack than to their own, in
    latency and in bandwidth."""
    if site.num_racks < 2 or site.latency_us is None:
        return False
    inverse = None if site.bandwidth_mbps is None else 1 / site.bandwidth_mbps
    matrices = [m for m in (site.latency_us, inverse) if m is not None]
    return all(silhouette(_distances(m), site.rack_of_host) <= 0 for m in matrices)


def silhouette(distances, labels):
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


def _best_cut(distances):
    """(silhouette, labels) of the best number of racks, 2 to hosts - 1."""
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    tree = hierarchy.linkage(squareform(distances, checks=False), "average")
    # cuts at the 64 widest gaps between merges: to look at all would be cubic in the hosts
    gaps = np.diff(tree[:, 2])
    best, labels = 0.0, np.zeros(len(distances), dtype=int)
    for i in sorted(np.argsort(-gaps, kind="stable")[:64]):
        found = hierarchy.fcluster(tree, len(distances) - 1 - i, "maxclust")
        score = silhouette(distances, found)
        if score > best + 1e-9:
            best, labels = score, found
    return best, labels


def _distances(matrix):
    """Symmetric, zero on the diagonal; what was not measured is as far as the farthest."""
    both = np.stack([matrix, matrix.T])
    known = np.isfinite(both)
    count = known.sum(axis=0)
    result = np.where(known, both, 0).sum(axis=0) / np.maximum(count, 1)
    result[count == 0] = result.max()
    np.fill_diagonal(result, 0)
    return result


def _short_name(host):
    return host.split(".")[0]


def _lines(path):
    """(number, text) of the lines that say something: no comments, continued lines joined."""
    pending, start = "", None
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        line = line.split("#")[0].rstrip()
        start = start or number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        line = (pending + line).strip()
        if line:
            yield start, line
        pending, start = "", None
    if pending.strip():
        yield start, pending.strip()


def _add(racks, path, number, name, hosts):
    if name in racks:
        raise InputError(path, f"rack {name} is there twice", f"line {number}")
    racks[name] = hosts


def _not_empty(racks, path, expected):
    if not racks:
        raise InputError(path, f"found no rack, expected {expected}")
    return racks
