# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Times of algorithms of collectives on a site, as the library itself predicts them
(topo_predict.h): from the schedules that it runs, and the rates that it derives from a site
file."""

import ctypes
import functools
import itertools
import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from topo_common.files import InputError

from topo_tune import grammar
from topo_tune.site import Site

LIBRARY = "libtopo_predict.so"

# assumed if a site file does not have them
LATENCY_US = 10.0
HOST_MBPS = 10_000.0

ERR_LEN = 512  # MPII_TOPO_ERR_LEN
# the keys of a site file that the library reads
KEYS = ["format", "hosts", "racks", "levels", "latency_us", "rack_latency_us", "bandwidth_mbps"]
KEYS += ["rack_bandwidth_mbps", "rack_join_bytes", "costs"]

# {(collective, name in some versions of MPICH): our name of the same algorithm, for the default
# k=2}
ALIASES = {
    ("allgather", "k_brucks"): "brucks",
    ("alltoall", "k_brucks"): "brucks",
    ("barrier", "k_dissemination"): "dissemination",
}

# topo_auto decides for sizes that are powers of two, at most AUTO_MAX_BYTES. For collectives whose
# size not all processes know, it decides for the size in AUTO_BYTES (csel_auto.c).
AUTO_MAX_BYTES = 2**26
AUTO_BYTES = {"barrier": 1, "alltoallv": 512, "alltoallw": 512, "gatherv": 512, "scatterv": 512}

# Default of MPIR_CVAR_COLL_TOPO_PLAN_MAX_BYTES
PLAN_MAX_BYTES = 2048

# rack_join_bytes is computed for calls of JOIN_PPN ranks a host, on at most JOIN_HOSTS hosts of
# each of at most JOIN_RACKS racks.
JOIN_PPN = 4
JOIN_HOSTS = JOIN_RACKS = 8

MAX_PLACEMENTS = 256  # number of placements that are kept
FEW_CALLS = 8  # number of calls that are not worth a thread
MAX_RANKS = 2**17  # limit of a placement; it takes a tenth of a second
DECLINES, NO_MEMORY = -1, -2

Hosts = Sequence[int] | np.ndarray  # index in the site of the host of each rank
_Call = tuple[int | None, int, int]  # index of the algorithm (None: unknown), bytes, root


@dataclass(frozen=True)
class Loads:
    """The messages and bytes that a call sends"""

    messages: int
    most_messages: int  # most messages that a rank sends, or receives
    host_bytes: int  # over the busiest link of a host
    uplink_bytes: int


@dataclass(frozen=True)
class Level:
    """Latency of messages inside a host, a rack, a group or the site, and rate of the slowest
    link"""

    name: str
    latency_us: float
    overhead_us: float
    mbps: float


@dataclass(frozen=True)
class Cost:
    """A cost of a site file (site.schema.json), as predictions use it."""

    key: str
    value: float
    by_default: str  # source of the default value; "" if the file has the value


class Predictor:
    """Predictions for ranks on a site, for the version `mpich` of MPICH. `costs` replace the costs
    of the site file, and have the same form (site.schema.json)."""

    def __init__(
        self,
        site: Site,
        mpich: str = grammar.versions()[0],
        costs: Mapping[str, float] | None = None,
    ) -> None:
        self.site = site
        self.mpich = mpich
        self.is_ch4 = str(site.raw.get("provenance", {}).get("mpi_device", "")).startswith("ch4")
        self.notes: list[str] = []  # sentences about assumptions
        text = json.dumps(self._topology(costs)).encode()
        err = ctypes.create_string_buffer(ERR_LEN)
        self._site = _library().topo_predict_site(b"site.json", text, len(text), err)
        if not self._site:
            raise InputError(*err.value.decode(errors="replace").partition(": ")[::2])
        self._placements: OrderedDict[tuple[bytes, int], _Placement] = OrderedDict()
        self.algorithms = functools.cache(self._find_algorithms)
        self.candidates = functools.cache(self._find_candidates)

    def __del__(self) -> None:
        if getattr(self, "_site", None):
            _library().topo_predict_site_free(self._site)

    def _topology(self, costs: Mapping[str, float] | None) -> dict[str, Any]:
        site = self.site
        result = {key: site.raw[key] for key in KEYS if key in site.raw}
        if costs is not None:
            result["costs"] = dict(costs)
        for what, table, unit, assumed in (
            ("latency", site.rack_latency_us, "us", LATENCY_US),
            ("bandwidth", site.rack_bandwidth_mbps, "mbps", HOST_MBPS),
        ):
            if table is not None and np.isfinite(table).any():
                continue
            if site.num_hosts > 1:
                text = f"{assumed:g} {'us' if unit == 'us' else 'Mbit/s everywhere'}"
                self.notes.append(f"no {what} between hosts was measured; assuming {text}")
            result.pop(f"{what}_{unit}", None)
            result[f"rack_{what}_{unit}"] = [[assumed] * site.num_racks] * site.num_racks
        return result

    def costs(self) -> list[Cost]:
        result: list[Cost] = []
        value, why = ctypes.c_double(), ctypes.c_char_p()
        while key := _library().topo_predict_cost(
            self._site, len(result), ctypes.byref(value), ctypes.byref(why)
        ):
            name = key.decode()
            is_known = self.site.costs.get(name, 0) > 0
            result.append(Cost(name, value.value, "" if is_known else (why.value or b"").decode()))
        return result

    def rank_mbps(self) -> float:
        """The rate at which one rank sends to other hosts."""
        return float(_library().topo_predict_rank_mbps(self._site))

    def _find_algorithms(self, collective: str) -> list[str]:
        """Names, as in the CVARs, of the algorithms of this version that can be predicted: ours,
        and MPICH's own"""
        names = [*_catalog().get(collective, {}), *(n for of, n in ALIASES if of == collective)]
        full = {name: grammar.full_name(collective, name) for name in names}
        return [n for n in names if grammar.algorithm(full[n], self.mpich) is not None]

    def times_us(
        self,
        collective: str,
        hosts: Hosts,
        num_bytes: float,
        root: int = 0,
        algorithms: Iterable[str] | None = None,
    ) -> dict[str, float]:
        """{algorithm: microseconds} of a call by ranks on `hosts`. num_bytes: of the buffer of
        bcast, reduce and allreduce, else of a block; all blocks are equal. Algorithms that are
        unknown, or that do not take such a call, are left out."""
        names = self.algorithms(collective) if algorithms is None else list(algorithms)
        found = self.each_time_us([(collective, name, hosts, num_bytes) for name in names], root)
        return {n: time for n, time in zip(names, found, strict=True) if time is not None}

    def each_time_us(
        self, calls: Sequence[tuple[str, str, Hosts, float]], root: int = 0
    ) -> list[float | None]:
        """Microseconds of each call (collective, algorithm, hosts, bytes), as in times_us(); None
        if that leaves the algorithm out"""
        wanted = [
            (
                self._placement(hosts),
                (_first(collective, name, int(num_bytes)), int(num_bytes), root),
            )
            for collective, name, hosts, num_bytes in calls
        ]
        _predict(wanted)
        return [placement.times_us.get(call) for placement, call in wanted]

    def loads(
        self, collective: str, hosts: Hosts, num_bytes: int, algorithm: str, root: int = 0
    ) -> Loads | None:
        """The messages and bytes of an algorithm; None if it is unknown or does not take the
        call"""
        index = _index(collective, algorithm)
        found = (ctypes.c_int64 * 4)()
        if index is None:
            return None
        of = self._placement(hosts).pointer
        status = _library().topo_predict_loads(of, index, int(num_bytes), root, found)
        if status == NO_MEMORY:
            raise MemoryError
        return None if status == DECLINES else Loads(*found)

    def is_gain(self, time_us: float, stock_us: float) -> bool:
        """Whether time_us is so much shorter than stock_us that topo_auto leaves MPICH's choice"""
        least = _library().topo_predict_least_gain(self._site, int(stock_us * 1e6)) / 1e6
        return time_us < stock_us - least

    def _find_candidates(self, collective: str) -> list[str]:
        """The algorithms that topo_auto may take in place of MPICH's choice, in its order: others
        of MPICH's own, then ours"""
        others = baselines(collective)
        names = [n for n in self.algorithms(collective) if n not in others]
        ours = [n for n in names if grammar.is_ours(collective, n, self.mpich)]
        return [n for n in names if grammar.is_plain(collective, n, self.mpich)] + ours

    def builtin(self, call: grammar.Call) -> str:
        """The algorithm that MPICH selects by itself; "smp" if its device ch4 splits the call"""
        of = _library().topo_predict_is_split
        num_bytes = call.count * call.type_size
        if self.is_ch4 and of(call.collective.encode(), num_bytes, call.ranks, call.hosts):
            return "smp"
        return grammar.walk(grammar.builtin(call.collective, call.version), call).short

    def choice(self, collective: str, times_us: Mapping[str, float], stock: str) -> str:
        """The algorithm that topo_auto takes by predicted times. `stock`: MPICH's choice; topo_auto
        keeps it if its time is unknown."""
        known = [name for name in self.candidates(collective) if name in times_us]
        first = min(known, key=times_us.__getitem__, default=stock)
        if stock in times_us and self.is_gain(times_us[first], times_us[stock]):
            return first
        return stock

    def auto(self, collective: str, hosts: Hosts, num_bytes: int, stock: str) -> str:
        """The algorithm that topo_auto in the library takes for a call by ranks on `hosts`"""
        num_bytes = auto_bytes(collective, num_bytes)
        # notes mean that a rate had to be assumed; the library then keeps MPICH's choice
        if num_bytes == 0 or self.notes or len(set(hosts)) == 1:
            return stock
        names = [stock, *self.candidates(collective)]
        times = self.times_us(collective, hosts, num_bytes, algorithms=names)
        return self.choice(collective, times, stock)

    @functools.cached_property
    def _rates(self) -> tuple[list[int], list[int], np.ndarray]:
        """(latency, overhead, rates) of topo_predict_rates(), but rates in Mbit/s"""
        num_levels, num = (
            len(self.site.levels),
            sum(len(level.groups) for level in self.site.levels),
        )
        latency, overhead = ((ctypes.c_int64 * (num_levels + 2))() for _ in range(2))
        rates = (ctypes.c_int64 * (num + 2))()
        _library().topo_predict_rates(self._site, latency, overhead, rates)
        # convert from picoseconds for a KiB, which is 8192 bits
        return list(latency), list(overhead), 8192e6 / np.array(rates)

    def links_mbps(self) -> tuple[float, list[np.ndarray]]:
        """Rates that the library derives from the site file: of the link of a host, and for each
        level of the uplinks of its groups"""
        _, host, *_ = rates = self._rates[2]
        ends = np.cumsum([2, *(len(level.groups) for level in self.site.levels)])
        return float(host), [rates[a:b] for a, b in itertools.pairwise(ends)]

    def levels(self) -> list[Level]:
        """Costs that the library derives from the site file: in a host, in a rack, in each level
        above, in the site"""
        names = ("host", *(level.name for level in self.site.levels), "site")
        latency, overhead, rates = self._rates
        host, uplinks = self.links_mbps()
        mbps = [float(rates[0]), host, *(float(each.min()) for each in uplinks)]
        # convert from picoseconds
        return [
            Level(name, (own + 2 * busy) / 1e6, busy / 1e6, rate)
            for name, own, busy, rate in zip(names, latency, overhead, mbps, strict=True)
        ]

    @functools.cached_property
    def rack_join_bytes(self) -> int:
        """Length in bytes up to which it pays to join messages between hosts by rack: a power of
        two, or 0. Joining pays as long as it is predicted to take no more time than separate
        messages."""
        if self.site.rack_join_bytes is not None:
            return self.site.rack_join_bytes
        racks = np.bincount(self.site.rack_of_host).argsort(kind="stable")[::-1][:JOIN_RACKS]
        of_racks = [np.flatnonzero(self.site.rack_of_host == rack)[:JOIN_HOSTS] for rack in racks]
        hosts = np.repeat(np.concatenate(of_racks), JOIN_PPN)
        index = _index("alltoall", "planned")
        if len(of_racks) == 1 or index is None:
            return 0
        joined, direct = self._placement(hosts, 2**31 - 1), self._placement(hosts, 0)
        block = 1
        while block <= PLAN_MAX_BYTES:
            call = index, block, 0
            _predict([(joined, call), (direct, call)])
            by_rack, by_host = joined.times_us[call], direct.times_us[call]
            if by_rack is None or by_host is None or by_rack > by_host:
                break
            block *= 2
        return block // 2 * JOIN_PPN**2

    def _placement(self, hosts: Hosts, rack_join_bytes: int = -1) -> "_Placement":
        array = np.ascontiguousarray(hosts, dtype=np.intc)
        key = array.tobytes(), rack_join_bytes
        if key not in self._placements:
            num = self.site.num_hosts
            if not 0 < len(array) <= MAX_RANKS or array.min() < 0 or array.max() >= num:
                raise ValueError(f"expected ranks on hosts 0 to {num - 1}")
            self._placements[key] = _Placement(self._site, array, rack_join_bytes)
            if len(self._placements) > MAX_PLACEMENTS:
                self._placements.popitem(last=False)
        self._placements.move_to_end(key)
        return self._placements[key]


def latency_bound_us(num: int, num_own: int, near_us: float, far_us: float, gap_us: float) -> float:
    """Least microseconds until all of `num` hosts know what one of them knows: see
    latency_bound.h"""
    found = float(_library().latency_bound(num, num_own, near_us, far_us, gap_us))
    if found < 0:
        raise MemoryError
    return found


def link_bound_us(
    collective: str,
    num_bytes: float,
    ranks: Sequence[int],
    mbps: Sequence[float],
    root: int,
    burst_bytes: float = 0,
) -> float:
    """Least microseconds of a collective on the links of some groups: see link_bound.h. ranks:
    number of ranks of each group. mbps: Mbit/s of the link of each group in each direction,
    math.inf if unknown. root: the group of the root."""
    num = len(ranks)
    rates = (ctypes.c_double * num)(*(rate / 8 for rate in mbps))
    call = (
        collective.encode(),
        num_bytes,
        num,
        (ctypes.c_int * num)(*ranks),
        rates,
        root,
        burst_bytes,
    )
    found = float(_library().topo_predict_link_bound(*call))
    if found < 0:
        raise ValueError(f"no bound of {collective} is known")
    return found


def auto_bytes(collective: str, num_bytes: int) -> int:
    """The size for which topo_auto decides on calls of num_bytes"""
    if collective in AUTO_BYTES or num_bytes == 0:
        return AUTO_BYTES.get(collective, 0)
    pof2 = min(2 ** (num_bytes.bit_length() - 1), AUTO_MAX_BYTES)
    # 181/128: the square root of two
    return 2 * pof2 if pof2 < AUTO_MAX_BYTES and num_bytes > pof2 + pof2 * 53 // 128 else pof2


class _Placement:
    """A placement in the library. Python frees it when it is no longer in use."""

    def __init__(self, site: Any, hosts: np.ndarray, rack_join_bytes: int) -> None:
        start = hosts.ctypes.data_as(ctypes.POINTER(ctypes.c_int))
        self.times_us: dict[_Call, float | None] = {}  # None: it does not take such a call
        self.pointer = _library().topo_predict_placement(site, start, len(hosts), rack_join_bytes)
        if not self.pointer:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            _library().topo_predict_placement_free(self.pointer)


def _predict(wanted: Iterable[tuple[_Placement, _Call]]) -> None:
    """Set `times_us` of the placements. Several threads predict, since the library runs without
    Python's lock."""
    new = [
        (placement, (index, num_bytes, root))
        for placement, (index, num_bytes, root) in set(wanted)
        if index is not None and (index, num_bytes, root) not in placement.times_us
    ]
    num = 4 * len(os.sched_getaffinity(0))
    if len(new) < FEW_CALLS:
        _predict_some(new)
    else:
        list(_threads().map(_predict_some, [new[i::num] for i in range(num)]))


def _predict_some(wanted: Sequence[tuple[_Placement, tuple[int, int, int]]]) -> None:
    num = len(wanted)
    pointers = (ctypes.c_void_p * num)(*(p.pointer for p, _ in wanted))
    indices, roots = ((ctypes.c_int * num)(*(call[i] for _, call in wanted)) for i in (0, 2))
    num_bytes = (ctypes.c_int64 * num)(*(call[1] for _, call in wanted))
    times = (ctypes.c_int64 * num)()
    _library().topo_predict_times(num, pointers, indices, num_bytes, roots, times)
    for (placement, call), time in zip(wanted, times, strict=True):
        if time == NO_MEMORY:
            raise MemoryError
        placement.times_us[call] = None if time == DECLINES else time / 1e6


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)))


def fault(name: str, content: bytes) -> str:
    """The error that the library finds in the text of a site file, or in the "topology" of a tuning
    file: a sentence that begins with the name of the file; "" if there is none"""
    err = ctypes.create_string_buffer(ERR_LEN)
    _library().topo_predict_fault(name.encode(), content, len(content), err)
    return err.value.decode()


def baselines(collective: str) -> set[str]:
    """Algorithms that others are compared with. Neither topo_auto nor rules choose them."""
    return {
        name for name, (_, is_baseline) in _catalog().get(collective, {}).items() if is_baseline
    }


def _index(collective: str, name: str) -> int | None:
    """The index of an algorithm in the library; None if it is unknown"""
    name = ALIASES.get((collective, name), name)
    found = _catalog().get(collective, {}).get(name)
    return found[0] if found else None


@functools.cache
def _first(collective: str, name: str, num_bytes: int) -> int | None:
    """The index of the first algorithm with the same schedule for num_bytes; None: unknown name"""
    index = _index(collective, name)
    return None if index is None else int(_library().topo_predict_first(index, num_bytes))


@functools.cache
def _library() -> ctypes.CDLL:
    """The library with predictor.c: beside this package if that is installed, else in build/"""
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    built = os.path.join(above, "../build/libexec/mpich-topo")
    for folder in (above, built):
        path = os.path.join(folder, LIBRARY)
        if os.path.exists(path):
            break
    else:
        raise InputError(LIBRARY, "it was not built: run `make build`, with json-c's header files")
    library = ctypes.CDLL(path)
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    number, long = ctypes.c_int, ctypes.c_int64
    numbers, longs = ctypes.POINTER(number), ctypes.POINTER(long)
    real = ctypes.c_double
    reals = ctypes.POINTER(real)
    for name, result, arguments in (
        ("site", pointer, [text, text, ctypes.c_size_t, text]),
        ("site_free", None, [pointer]),
        ("fault", None, [text, text, ctypes.c_size_t, text]),
        ("rates", None, [pointer, longs, longs, longs]),
        ("cost", text, [pointer, number, reals, ctypes.POINTER(text)]),
        ("rank_mbps", real, [pointer]),
        ("least_gain", long, [pointer, long]),
        ("placement", pointer, [pointer, numbers, number, long]),
        ("placement_free", None, [pointer]),
        ("is_split", number, [text, long, number, number]),
        ("algorithm", text, [number, ctypes.POINTER(text), numbers]),
        ("first", number, [number, long]),
        ("times", None, [number, ctypes.POINTER(pointer), numbers, longs, numbers, longs]),
        ("loads", number, [pointer, number, long, number, longs]),
        ("link_bound", real, [text, real, number, numbers, reals, number, real]),
    ):
        function = getattr(library, f"topo_predict_{name}")
        function.restype, function.argtypes = result, arguments
    library.latency_bound.restype = real
    library.latency_bound.argtypes = [number, number, real, real, real]
    return library


@functools.cache
def _catalog() -> dict[str, dict[str, tuple[int, bool]]]:
    """{collective: {algorithm: (its index in the library, whether it is a baseline)}}"""
    result: dict[str, dict[str, tuple[int, bool]]] = {}
    collective, is_baseline = ctypes.c_char_p(), ctypes.c_int()
    index = 0
    while name := _library().topo_predict_algorithm(
        index, ctypes.byref(collective), ctypes.byref(is_baseline)
    ):
        of = result.setdefault((collective.value or b"").decode(), {})
        of[name.decode()] = index, bool(is_baseline.value)
        index += 1
    return result
