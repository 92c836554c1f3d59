# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Selection files of MPICH (tuning.json): their grammar, their errors, and what they select.

A selection file is a tree of conditions: the keys of an object are tried in their order, the first
that holds is entered and never left again, and a leaf names an algorithm; {} in the place of
conditions or an algorithm selects nothing. Where nothing is selected the call goes on as if there
were no file; where an algorithm cannot be applied, MPICH uses its built-in selection. The key
"topology", beside the conditions at the top, brings the hosts, racks and latencies that the topo_*
algorithms need.

The library reads these files in src/mpi/coll/src/csel_*.c. This module does the same in Python:
both agree on whether a file is valid, on the first wrong key and on the selection."""

import codecs
import functools
import glob
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from topo_common import files
from topo_common.files import InputError, json_type
from topo_common.text import HIDDEN, SUFFIXES, hint

Tree = dict[str, Any]  # a selection file, or part of it
Path = tuple[str, ...]  # keys from the top
Lines = list[tuple[Path, str]]  # (where, error or warning)

MAX_BYTES = 64 * 1024 * 1024
MAX_NESTING = 64
MAX_LEVELS = 32
MAX_KEYS = 100_000  # keys of rules in a file
MAX_COMM = 2**31 - 2  # the largest N of comm_*
MAX_SIZE = 2**63 - 2  # the largest N of all other conditions

REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")
SCANS = ("scan", "exscan")
GATHERS = ("allgather", "allgatherv")
ALLTOALLS = ("alltoall", "alltoallv", "alltoallw")


def _with_i(*names: str) -> tuple[str, ...]:
    return (*names, *(f"i{name}" for name in names))


# {condition: the collectives for which it is defined}. None: it does not ask about a call, and may
# stand outside of a collective. The data file of a version has the forms of each condition.
CONDITIONS: dict[str, tuple[str, ...] | None] = {
    "collective": None,
    "comm_type": None,
    "comm_size": None,
    "comm_avg_ppn": None,
    "comm_hosts": None,
    "comm_racks": None,
    "comm_level3": None,
    "comm_level4": None,
    "comm_ppn": None,
    "comm_hierarchy": None,
    "is_node_consecutive": None,
    "is_multi_threaded": (),  # defined for all collectives, but not outside of one
    "avg_msg_size": _with_i("allreduce", "bcast", "reduce", "alltoall", *SCANS),
    "total_msg_size": _with_i(
        *REDUCTIONS, *SCANS, "bcast", *ALLTOALLS, *GATHERS, "gather", "scatter"
    ),
    "count": (*_with_i(*REDUCTIONS, *SCANS, *GATHERS), "bcast"),
    "is_commutative": _with_i(*REDUCTIONS, *SCANS),
    "is_op_built_in": _with_i("allreduce", "reduce"),
    "is_sendbuf_inplace": _with_i(*ALLTOALLS),
    "is_block_regular": _with_i("reduce_scatter"),
}
# conditions that only the patches bring, with the same forms in all versions
PLACEMENT = ("comm_hosts", "comm_racks", "comm_level3", "comm_level4", "comm_ppn")
PLACEMENT_FORMS = ("<=N", "=any")

# {restriction of an algorithm (maint/gen_coll.py): (condition, whether it has to hold)}
RESTRICTIONS: dict[str, Any] = {
    "power-of-two": ("comm_size=pow2", True),
    "size-ge-pof2": ("count<pow2", False),
    "parent-comm": ("comm_hierarchy=parent", True),
    "node-consecutive": ("is_node_consecutive=yes", True),
    "commutative": ("is_commutative=yes", True),
    "builtin-op": ("is_op_built_in=yes", True),
    "inplace": ("is_sendbuf_inplace=yes", True),
    "noinplace": ("is_sendbuf_inplace=no", True),
    "block-regular": ("is_block_regular=yes", True),
    # no condition asks for these
    "displs-ordered": None,
    "root-zero": None,
    "placed": None,  # the hosts of all ranks are known without communication
    "nonpersistent": None,
    "any-order": None,  # MPIR_CVAR_COLL_TOPO_FIXED_ORDER is not set
}

# (start of a key of another kind of file, that kind, the CVAR that takes such a file)
OTHER_FILES = (
    ("composition=", "a selection file of ch4", "MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE"),
    (
        *("algorithm=MPIDI_POSIX_", "a selection file of posix in ch4"),
        "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE",
    ),
    ("name=", "a coll_selection.json of a coming MPICH", "MPIR_CVAR_COLL_SELECTION_JSON_FILE"),
)

# {parameter: (least, largest) number}; all others: 0 to 2^31-1
PARAMETERS = {
    "k": (2, 32767),
    "scatterv_k": (2, 32767),
    "allgatherv_k": (2, 32767),
    "buffer_per_child": (0, 1),
    "buffer_per_phase": (0, 1),
    "is_non_blocking": (0, 1),
    "recv_pre_posted": (0, 1),
    "single_phase_recv": (0, 1),
    "batch_size": (1, 32767),
    "bblock": (1, 32767),
}


# -- what MPICH has --


def versions() -> list[str]:
    """The versions of MPICH whose files are known: 4.0, ..."""
    names = glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpich-*.json"))
    return sorted(os.path.basename(name)[len("mpich-") : -len(".json")] for name in names)


def find_version(text: str) -> str | None:
    """The version of versions() that `text` means, as 4.0 or 4.0.2; None if there is none."""
    return next((v for v in versions() if text == v or text.startswith(v + ".")), None)


@functools.cache
def mpich(version: str = "4.0") -> Tree:
    """The data file of an MPICH version, as `make refresh` wrote it. "grammar": the conditions that
    a selection file may have; "collectives": {collective: {algorithm: its restrictions, params,
    patched}}; "builtin": MPICH's own selection."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"mpich-{version}.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def builtin(collective: str, version: str = "4.0") -> Tree:
    """The conditions of MPICH's own selection for a collective"""
    tree: Tree = mpich(version)["builtin"][f"collective={collective}"]
    return tree


def algorithm(name: str, version: str = "4.0") -> Tree | None:
    """The data file's row of the algorithm `name`; None if there is no such algorithm"""
    return next((a[name] for a in mpich(version)["collectives"].values() if name in a), None)


def is_ours(collective: str, name: str, version: str) -> bool:
    """Whether the patches bring the algorithm `name`, a name as in its CVAR"""
    return bool((algorithm(full_name(collective, name), version) or {}).get("patched"))


def is_plain(collective: str, name: str, version: str) -> bool:
    """Whether the algorithm `name` is MPICH's own and topo_auto may take it in place of MPICH's
    choice. It must have no parameters, and no restrictions except those listed in this function
    (coll_select.py).

    From 4.1 on, MPICH has algorithms with parameters. Most equal ours on a site of one level:
      allreduce recursive_multiplying, recexch, tree            topo_recursive_doubling
      barrier recexch, k_dissemination                          recursive_doubling
      bcast tree, pipelined_tree: knomial_1, knomial_2; kary    topo_knomial; topo_binary_tree, topo_chain
    Only with k = 2 do allgather k_brucks, recexch_doubling and recexch_halving, and allreduce
    k_reduce_scatter_allgather, equal brucks, topo_recursive_doubling and
    topo_reduce_scatter_allgather."""
    row = algorithm(full_name(collective, name), version)
    known = {"power-of-two", "noinplace", "commutative", "any-order"}
    if row is None or {"patched", "params"} & row.keys():
        return False
    return known.issuperset(row.get("restrictions", ()))


def full_name(collective: str, name: str) -> str:
    """Name in a selection file of what MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM calls `name`"""
    return f"MPIR_{collective.capitalize()}_intra_{name}"


def auto_leaf(collective: str, version: str = "4.0") -> Tree | None:
    """The leaf that selects topo_auto for a collective, blocking or not; None if it has no
    topo_auto"""
    name = full_name(collective, "tsp_topo_auto" if collective.startswith("i") else "topo_auto")
    return {f"algorithm={name}": {}} if algorithm(name, version) is not None else None


@functools.cache
def forms(version: str = "4.0", stock: bool = False) -> dict[str, tuple[str, ...]]:
    """{condition: its forms}, such as "<=N", where N is a number"""
    known = mpich(version)["grammar"]["conditions"]
    placement = {} if stock else dict.fromkeys(PLACEMENT, PLACEMENT_FORMS)
    found = {name: tuple(words.split()) for name, words in known.items()} | placement
    return {name: found[name] for name in CONDITIONS if name in found}


def any_is_all(version: str) -> bool:
    """Whether "any" alone, and any word before "=any", is a condition that always holds."""
    return bool(mpich(version)["grammar"]["any"])


def is_last(key: str, version: str = "4.0") -> bool:
    """Whether no key may follow this key, which strip() made, since it always holds"""
    if any_is_all(version) and not key.startswith("collective="):
        return key == "any" or key.endswith("=any")
    return key.endswith("=any") and key != "comm_hierarchy=any"


def hierarchy_by_flags(version: str) -> bool:
    """Whether comm_hierarchy has only two cases: "parent", and all other values alike"""
    return mpich(version)["grammar"]["hierarchy"] == "flags"


# -- keys --


class Wrong(Exception):
    """An error in a key; its text is a sentence."""


@dataclass(frozen=True)
class Condition:
    name: str
    op: str  # <= < =
    value: Any  # an integer if it is a limit, else a word

    def __str__(self) -> str:
        return f"{self.name}{self.op}{self.value}"


@functools.cache
def strip(key: str) -> str:
    """A key without its white space."""
    return re.sub(r"[ \t\n\v\f\r]", "", key)


@functools.cache
def condition(key: str, stock: bool = False, version: str = "4.0") -> Condition:
    """The Condition of a key that strip() made. Raises Wrong; collectives are not checked."""
    # this pattern always matches
    name, op, value = re.findall(r"(?s)^([^<=>]*)(<=|<|=|)(.*)\Z", key)[0]
    known = forms(version, stock)
    if any_is_all(version) and is_last(key, version) and key != "=any":
        return Condition(name if name in known and op + value == "=any" else "any", "=", "any")
    if name not in known:
        raise Wrong(f"unknown condition{hint(name, ['collective', 'algorithm', *known])}")
    if op + value in known[name] or (name == "collective" and op == "="):
        return Condition(name, op, value)
    if f"{op}N" in known[name]:
        suffix = "" if stock else ", also with K, M or G"
        return Condition(name, op, number(value, 0, _most(name, stock), stock, suffix=suffix))
    raise Wrong(f'found "{op}{value[:80]}", expected {", ".join(known[name])}')


def _most(name: str, stock: bool) -> int:
    # without the patches, atoi reads numbers
    return 2**31 - 1 if stock else MAX_COMM if name.startswith("comm_") else MAX_SIZE


def number(
    text: str, least: int, most: int, stock: bool = False, words: str = "", suffix: str = ""
) -> int:
    """An integer from `least` to `most`, 32K and the like included. Raises Wrong."""
    match = re.fullmatch(r"([0-9]+)([KMG]?)", text, re.ASCII)
    # a number that fits has less than 20 digits; int() refuses thousands of digits
    if match and len(match[1].lstrip("0")) < 20 and not (stock and match[2]):
        value = int(match[1]) * SUFFIXES[match[2]]
        if least <= value <= most:
            return value
    raise Wrong(f'found "{text[:80]}", expected {words}a number from {least} to {most}{suffix}')


def parameter(text: str, name: str, row: Tree, stock: bool = False, version: str = "4.0") -> int:
    """The value of the parameter `name`; `row`: its row in the data file. Raises Wrong."""
    if "values" not in row:
        return number(text, *PARAMETERS.get(name, (0, 2**31 - 1)), stock)
    values = row["values"]
    if stock and mpich(version)["grammar"]["stock_values"] == "numbers":
        return number(text, 0, len(values) - 1, stock)
    if stock:  # MPICH without patches takes topology-aware trees for kary
        values = [word for word in values if not word.startswith("topology")]
    if text in values:
        return values.index(text)
    if stock:
        raise Wrong(f'found "{text[:80]}", expected {", ".join(values)}')
    return number(text, 0, len(values) - 1, words=", ".join(values) + " or ")


# -- JSON --


class Object(dict):
    """A JSON object, as json-c makes it. A key that occurs twice has the first position and the
    last value. `twice`: these keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        # json-c keeps C strings, which end at NUL, and replaces halves of surrogate pairs
        pairs = [
            (re.sub("[\ud800-\udbff\udc00-\udc7f]", "\ufffd", k.split("\0")[0]), v)
            for k, v in pairs
        ]
        super().__init__(pairs)
        self.twice = []
        if len(self) < len(pairs):
            times = Counter(key for key, _ in pairs)
            self.twice = [key for key in self if times[key] > 1]


def read(content: bytes | str) -> tuple[Any, str | None, str | None]:
    """(the JSON object in a file's bytes or text, None, the error of a stricter reader or None), or
    (None, the error, None) if json-c cannot read it"""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if not data:
        return None, "the file is empty, expected a JSON object", None
    if len(data) > MAX_BYTES:
        return None, f"found {len(data)} bytes, expected at most {MAX_BYTES}", None

    def line(offset: int) -> str:
        return f"line {data[:offset].count(10) + 1}: "

    if b"\0" in data:
        return None, line(data.index(b"\0")) + "found a NUL byte, expected JSON text", None
    if data.startswith(codecs.BOM_UTF8):
        return None, "line 1: found a byte order mark, expected UTF-8 without one", None
    match = UTF8.match(data)
    good = match.end() if match else 0
    if good < len(data):
        return None, line(good) + "found bytes that are not UTF-8", None
    text = data.decode("utf-8", "surrogateescape")
    top = re.search(r"\S.{,19}", text)
    if top and not top[0].startswith("{"):
        what = f'found "{top[0].split()[0]}", expected a JSON object'
        return None, f"line {text[: top.start()].count(chr(10)) + 1}: {what}", None
    try:
        try:
            tree, strict = json.loads(text, parse_constant=_refuse, **HOOKS), None
        except ValueError as error:
            tree, strict = json.loads(UNUSUAL.sub(_usual, text), strict=False, **HOOKS), str(error)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            what = "the file ends inside a JSON value; is it cut off?"
            return None, line(len(data)) + what, None
        return None, f"line {error.lineno}: {error.msg}", None
    except RecursionError:
        tree = None
    if tree is None or _too_deep(tree):
        return None, f"found more than {MAX_NESTING} levels of JSON", None
    return tree, None, strict


# UTF-8 as json-c checks it
UTF8 = re.compile(
    rb"(?:[\x00-\x7f]+|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3})*"
)
HOOKS: dict[str, Any] = {
    "object_pairs_hook": Object,
    "parse_int": lambda word: max(-(2**63), min(int(word[:21]), 2**63 - 1)),
}
# What json-c takes though it is not JSON (RFC 8259): keys in single quotes, more white space, numbers
# like 1. and -01, NaN and Infinity; and control characters in strings.
UNUSUAL = re.compile(
    r'"(?:[^"\\]|\\.)*"' r"|'(?:[^'\\]|\\.)*'(?=\s*:)" r"|[\v\f]" r"|[-0-9][-+.0-9eE]*", re.DOTALL
)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"found {word}")


def _usual(match: re.Match[str]) -> str:
    """JSON for a token that only json-c accepts. Other tokens are left as they are."""
    token = match[0]
    if token[0] == '"':
        return token
    if token[0] == "'":
        escaped = re.sub(r'(?s)\\.|"', lambda m: m[0].rjust(2, "\\"), token[1:-1])
        return f'"{escaped}"'
    if token.isspace():
        return " "
    # as json_tokener_state_number, then strtod() or strtoll(), which read as far as they can
    if not re.fullmatch(r"-?[0-9+]*\.?[0-9+]*([eE]-?[0-9+]*)?", token):
        return token
    if found := re.match(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", token):
        is_int = not re.search("[.eE]", token)
        if not is_int:
            return repr(float(found[0])).replace("inf", "1e999")
        if found[0][0] != "0" or not found[0].strip("0"):
            return "-" * (found[0][0] == "-") + (found[0].lstrip("-0") or "0")
    return token


def _too_deep(tree: Any) -> bool:
    inner = [tree]
    for _ in range(MAX_NESTING):
        values = (
            v.values() if isinstance(v, dict) else v for v in inner if isinstance(v, dict | list)
        )
        inner = [value for group in values for value in group]
        if not inner:
            return False
    return True


# -- the check --


def check(
    content: bytes | str, name: str = "tuning.json", version: str = "4.0", stock: bool = False
) -> tuple[Lines, Lines]:
    """(errors, warnings) of a selection file, lists of (path, sentence). A path has the keys from
    the top to the one in question. The first error is the one that the library prints.

    `stock`: for MPICH without the patches, which prints no such errors, but crashes"""
    found = Findings(name, version, stock)
    tree, wrong, strict = read(content)
    if wrong:
        found.error((), wrong)
        return found.errors, []
    if strict:
        found.warn((), f"the library reads it, but it is not JSON: {strict}")
    found.twice(tree, ())
    if "topology" in tree:
        if stock:
            found.error(("topology",), "unknown condition of MPICH without the patches")
        elif fault := topology_fault(tree["topology"]):
            found.error(*fault)
    rules = _rules(tree)
    if "hosts" in rules and not stock:
        found.error((), "found a site, which MPIR_CVAR_COLL_TOPOLOGY_FILE takes, expected rules")
    elif rules or "topology" not in tree:
        found.rules(rules, (), None, None)
    if not found.errors:
        from topo_tune import reach

        reach.Analysis(found).visit(rules)
    return found.errors, found.warnings


def topology_fault(topology: Any) -> tuple[Path, str] | None:
    """(key, sentence) of the first error in the "topology" of a tuning file, in the library's
    words; None if there is none"""
    from topo_tune import predictor

    fault = predictor.fault("-", json.dumps({"topology": topology}).encode())
    found = re.match(r'-: key "([^"]*)": (.*)', fault)
    return ((found[1],), found[2]) if found else ((), fault[3:]) if fault else None


def _rules(tree: Tree) -> Tree:
    return {key: child for key, child in tree.items() if key != "topology"}


def load(path: str | os.PathLike[str], version: str = "4.0") -> Tree:
    """The tuning file at `path`, parsed. Raises InputError with the first thing that is wrong."""
    content = files.read_bytes(path, MAX_BYTES)
    errors, _ = check(content, str(path), version)
    if errors:
        raise InputError(path, errors[0][1][len(str(path)) + 2 :])
    return read(content)[0]


class Findings:
    """The errors and warnings of a file, in the order in which the library would find them"""

    def __init__(self, name: str, version: str, stock: bool) -> None:
        self.name, self.version, self.stock = name, version, stock
        self.errors: Lines = []
        self.warnings: Lines = []
        self.num_keys = 0  # keys of rules so far
        self.is_over = False  # whether the check ends here
        self.by_size = False  # whether a total_msg_size<... came before in this collective
        self.collectives = mpich(version)["collectives"]
        self.known = [n for a in self.collectives.values() for n in a if self.has(a[n])]

    def has(self, row: Tree) -> bool:
        """Whether the MPICH to check for has the algorithm of this row of the data file"""
        return not (self.stock and row.get("patched"))

    def error(self, path: Path, what: str) -> None:
        self.errors.append((path, self.line(path, what)))

    def warn(self, path: Path, what: str, kind: str = "warning") -> None:
        self.warnings.append((path, self.line(path, what, f"{kind}: ")))

    def line(self, path: Path, what: str, kind: str = "") -> str:
        where = "key " + quoted(path) + ": " if path else ""
        return HIDDEN.sub("?", f"{self.name}: {kind}{where}{what}")

    def twice(self, tree: Any, path: Path) -> None:
        for key in getattr(tree, "twice", ()):
            self.warn((*path, key), "found it twice, of which the last counts")

    def rules(self, tree: Tree, path: Path, collective: str | None, kind: str | None) -> None:
        """The conditions in `tree`, below `path`: within a collective ("?": an unknown one), on
        communicators of a `kind` (intra, inter, None: not said)."""
        if not tree and (self.stock or not path):
            self.error(path, "found an empty object, expected conditions or an algorithm")
        last = None
        for key, child in tree.items():
            if self.is_over:
                return
            if len(path) == MAX_LEVELS:
                self.error(path, f"found more than {MAX_LEVELS} levels")
                return
            here, stripped = (*path, key), strip(key)
            inner: tuple[str | None, str | None] = collective, kind
            self.twice(child, here)
            try:
                self.num_keys += 1
                if wrong_file := self.wrong_file(stripped):
                    self.is_over = True
                    raise Wrong(wrong_file)
                if not isinstance(child, dict):
                    raise Wrong(f"found {json_type(child)}, expected an object")
                if stripped.startswith("algorithm="):
                    self.leaf(stripped[len("algorithm=") :], len(tree), *inner)
                else:
                    inner = self.condition(stripped, last, *inner)
            except Wrong as wrong:
                self.error(here, str(wrong))
                if stripped.startswith("collective="):
                    inner = ("?", kind)
                leaf = False
            else:
                leaf = stripped.startswith("algorithm=")
            last = stripped
            if leaf:
                self.parameters(stripped[len("algorithm=") :], child, here)
            elif isinstance(child, dict) and not stripped.startswith("algorithm="):
                self.rules(child, here, *inner)
        if self.stock and last and last.split("<")[0].split("=")[0] in (
            *("comm_size", "comm_avg_ppn", "avg_msg_size", "total_msg_size", "count"),
        ) and not is_last(last, self.version):  # fmt: skip
            self.error((*path, list(tree)[-1]), 'expected a "...=any" behind it')

    def wrong_file(self, key: str) -> str:
        """Why this key shows that the file is no tuning file; "" if it does not show that"""
        if self.num_keys > MAX_KEYS:
            return f"found more than {MAX_KEYS} keys of rules in the file"
        for start, file, cvar in OTHER_FILES:
            if key.startswith(start):
                return f"found a key of {file}, which {cvar} takes, expected rules"
        return ""

    def condition(
        self, key: str, last: str | None, collective: str | None, kind: str | None
    ) -> tuple[str | None, str | None]:
        """(collective, kind of communicator) of the rules below a condition, as in rules(). `last`:
        the key before it. Raises Wrong."""
        found = condition(key, self.stock, self.version)
        is_collective = found.name == "collective"
        if is_collective and found.value not in self.collectives:
            raise Wrong(f"unknown collective{hint(found.value, list(self.collectives))}")
        is_any = found.value == "any" and any_is_all(self.version)  # with any word before it
        of = None if is_any else CONDITIONS.get(found.name)
        if of is not None and collective is None:
            raise Wrong('expected it inside of "collective=NAME"')
        if of and collective not in (*of, "?"):
            raise Wrong(f"is not defined for {collective}")
        if last and is_last(last, self.version):
            raise Wrong('can never be reached, expected nothing behind "...=any"')
        if is_collective and collective:
            raise Wrong("found one collective inside of another")
        if last and is_collective != last.startswith("collective="):
            raise Wrong("expected collectives not to stand beside conditions")
        if is_collective:
            self.by_size = False
            return found.value, kind
        if found.name == "total_msg_size" and found.op != "=":
            self.by_size = True
        is_kind = found.name == "comm_type" and found.value != "any"
        return collective, found.value if is_kind else kind

    def leaf(self, name: str, siblings: int, collective: str | None, kind: str | None) -> None:
        """Check the key of an algorithm. siblings: all keys of its object. Raises Wrong."""
        if siblings != 1:
            raise Wrong("found other keys beside it, expected an algorithm alone")
        if collective is None:
            raise Wrong('expected it inside of "collective=NAME"')
        if collective == "?":
            return
        row = algorithm(name, self.version)
        if row is None:
            raise Wrong(f"unknown algorithm{hint(name, self.known)}")
        if not self.has(row):
            raise Wrong("is not in MPICH without the patches")
        kinds = ["allcomm", "intra" if re.search("scan|neighbor", collective) else kind]
        if not name.startswith(tuple(f"MPIR_{collective.capitalize()}_{k}_" for k in kinds)):
            inside = "" if kind else ' inside of "comm_type=intra" (or inter)'
            raise Wrong(f"expected an algorithm of {collective}{inside}")
        rooted_nb = re.fullmatch("MPIR_(Gather|Scatter)_allcomm_nb", name)
        if rooted_nb and self.by_size and kind != "intra":
            # a process beside the root, which does not know the size, would not take part
            raise Wrong(
                "not all processes of an intercommunicator know total_msg_size, expected it before"
                ' that or inside of "comm_type=intra"'
            )

    def parameters(self, name: str, given: Tree, path: Path) -> None:
        known = (algorithm(name, self.version) or {}).get("params", {})
        seen = set()
        for key, value in given.items():
            try:
                param, is_set, text = strip(key).partition("=")
                if param not in known or not is_set:
                    expected = ", ".join(f"{param}=N" for param in known) or "none"
                    raise Wrong(f"unknown parameter, expected {expected}")
                if param in seen:
                    raise Wrong("found it twice, expected it once")
                seen.add(param)
                parameter(text, param, known[param], self.stock, self.version)
                if not isinstance(value, dict) or value:
                    raise Wrong("found a value that is not {}, expected {}")
            except Wrong as wrong:
                self.error((*path, key), str(wrong))
        if self.stock and len(seen) < len(known):
            missing = ", ".join(p for p in known if p not in seen)
            self.error(path, f"found no {missing}, which has no default without the patches")


def quoted(path: Sequence[str]) -> str:
    """A path in a sentence."""
    return " > ".join(f'"{key[:80]}{"..." * (len(key) > 80)}"' for key in path)


# -- the evaluation --


@dataclass
class Call:
    """A call of a collective, with all properties that conditions can ask for.

    A property is unknown (0 or None) if not every process of the communicator knows it."""

    collective: str = "allgather"
    ranks: int = 1  # of an intercommunicator: in the group that does not have the root
    count: int = 0  # elements of one block or of the buffer, as the receiver passes it
    type_size: int = 1  # bytes of an element
    total_count: int | None = None  # elements of all blocks; default: all are equal
    hosts: int | None = None  # by the topology; 0: unknown, racks and ppn too; default: one a rank
    ppn: int | None = None  # most ranks on a host; default: as even as possible
    racks: int = 1
    level3: int = 1  # groups of the levels above racks
    level4: int = 1
    nodes: int | None = None  # as MPICH counts them; default: hosts
    comm_type: str = "intra"
    hierarchy: str | None = None  # default: as for a communicator of an application
    consecutive: bool = True  # the ranks of each node have consecutive numbers
    commutative: bool = True
    builtin_op: bool = True
    inplace: bool = False
    regular: bool = True  # all counts are the same
    displs_ordered: bool = True
    root_zero: bool = True
    placed: bool = True
    idle: bool = False  # intercommunicator: this process is in the root's group, but not the root
    version: str = "4.0"  # of MPICH

    def __post_init__(self) -> None:
        self.hosts = self.ranks if self.hosts is None else self.hosts
        self.nodes = self.nodes or self.hosts or self.ranks
        if self.hosts:
            self.ppn = self.ppn or -(-self.ranks // self.hosts)
        else:
            self.racks = self.level3 = self.level4 = self.ppn = 0
        if self.total_count is None:
            self.total_count = self.count * self.ranks
        if self.hierarchy is None:
            is_parent = self.comm_type == "intra" and self.nodes < self.ranks
            self.hierarchy = "parent" if is_parent else "flat"

    def sees(self, name: str) -> Any:
        """The value that the condition `name` asks for, None if it is unknown"""
        if name == "any":
            return None
        base = self.collective.removeprefix("i")
        if name == "total_msg_size":
            return self._total_bytes(base)
        if name in ("comm_type", "collective"):
            return getattr(self, name)
        if name == "comm_hierarchy":
            return self.hierarchy
        if name == "is_node_consecutive":
            return _yes(self.hierarchy == "parent" and self.consecutive)
        if name == "is_commutative":
            return _yes(self.commutative)
        if name == "is_op_built_in":
            return _yes(self.builtin_op)
        if name == "is_sendbuf_inplace":
            return _yes(self.inplace)
        if self.comm_type == "inter" or name == "is_multi_threaded":
            return None
        if name == "is_block_regular":
            return _yes(self.regular)
        if name == "comm_size":
            return self.ranks
        if name == "comm_avg_ppn":
            return -(-self.ranks // (self.nodes or self.ranks))
        if name in PLACEMENT:
            return getattr(self, name.removeprefix("comm_")) or None
        if name == "avg_msg_size":
            is_known = self.collective in (CONDITIONS[name] or ())
            return self.count * self.type_size if is_known else None
        if name == "count":
            if base == "reduce_scatter":
                return self.total_count
            return self.count if base in (*REDUCTIONS, *SCANS) else None
        raise KeyError(name)

    def _total_bytes(self, base: str) -> int | None:
        if self.comm_type == "inter" and (self.idle or base not in ("gather", "scatter")):
            return None
        if base in ("alltoallv", "alltoallw"):
            return None
        # for ireduce_scatter_block MPICH does not multiply by the size of the type
        type_size = 1 if self.collective == "ireduce_scatter_block" else self.type_size
        return (self.total_count or 0) * type_size

    def holds(self, asked: Condition) -> bool:
        """Whether a Condition holds."""
        return self.holds_for(asked, self.sees(asked.name))

    def holds_for(self, asked: Condition, value: Any) -> bool:
        """Whether a Condition holds for the `value` that sees() gave"""
        if asked.value == "any":
            return True
        if asked.op == "=":
            by_flags = hierarchy_by_flags(self.version)
            if asked.value == "node_comm_size":
                is_parent = by_flags or self.hierarchy == "parent"
                return self.nodes == 1 and is_parent and value is not None
            if asked.name == "comm_hierarchy" and by_flags:
                return (value == "parent") == (asked.value == "parent")
            if asked.value == "pow2":
                return value is not None and value & (value - 1) == 0
            return value == asked.value
        if value is None:
            return False
        limit = pof2(self.ranks) if asked.value == "pow2" else asked.value
        return value <= limit if asked.op == "<=" else value < limit

    def allows(self, restriction: str) -> bool:
        """Whether an algorithm with this restriction can run this call"""
        if restriction == "displs-ordered":
            return self.displs_ordered
        if restriction == "root-zero":
            return self.root_zero
        if restriction == "placed":
            return self.placed
        if restriction in ("any-order", "nonpersistent"):
            return True
        key, expected = RESTRICTIONS[restriction]
        return self.holds(condition(key)) == expected


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def pof2(number: int) -> int:
    """The largest power of two that is not above `number`."""
    return 1 << (number.bit_length() - 1)


@dataclass
class Selection:
    """The algorithm that runs for a Call, and why.

    `path`: the keys of the file that were entered, down to the leaf, if there is one. `is_empty`:
    the path ends at {}. `steps`: (path, value, whether it held) of each key that was tried.
    `declined`: (algorithm, restriction) of a rule that cannot be applied. `builtin`: the Selection
    by MPICH's own rules, if they decide."""

    path: tuple = ()
    is_empty: bool = False
    algorithm: str | None = None
    params: dict = field(default_factory=dict)
    from_rule: bool = True
    declined: tuple | None = None
    steps: list = field(default_factory=list)
    builtin: "Selection | None" = None
    version: str = "4.0"  # of MPICH

    @property
    def short(self) -> str:
        """The algorithm as MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM has it."""
        return re.sub(r"^MPIR_[A-Za-z_]+?_(intra|inter|allcomm)_", "", self.algorithm or "")


def walk(tree: Tree, call: "Call") -> "Selection":
    """The Selection by one tree, in which check() found no error. `algorithm` is None if no leaf is
    reached."""
    version = call.version
    result = Selection(version=version)
    seen: dict[str, Any] = {}
    while True:
        for key, child in tree.items():
            here, stripped = (*result.path, key), strip(key)
            if stripped.startswith("algorithm="):
                result.path, result.algorithm = here, stripped[len("algorithm=") :]
                row = algorithm(result.algorithm, version) or {}
                given = dict(strip(param).split("=", 1) for param in child)
                for param, cvar in row.get("params", {}).items():
                    value = cvar["default"]
                    if param in given:
                        value = parameter(given[param], param, cvar, version=version)
                    elif "values" in cvar:
                        value = cvar["values"].index(value)
                    result.params[param] = value
                return result
            asked = condition(stripped, version=version)
            if asked.name not in seen:
                seen[asked.name] = call.sees(asked.name)
            held = call.holds_for(asked, seen[asked.name])
            result.steps.append((here, seen[asked.name], held))
            if held:
                result.path, tree = here, child
                break
        else:
            result.is_empty = bool(result.path) and not tree
            return result


def select(tuning: Tree, call: "Call") -> "Selection":
    """The Selection that a tuning file, parsed and without errors, makes for a Call."""
    result = walk(_rules(tuning), call)
    if result.algorithm:
        row = algorithm(result.algorithm, call.version) or {}
        failed = [r for r in row.get("restrictions", ()) if not call.allows(r)]
        if not failed:
            return result
        result.declined = (result.algorithm, failed[0])
    result.builtin = walk(mpich(call.version)["builtin"], call)
    result.builtin.from_rule = result.from_rule = False
    result.algorithm, result.params = result.builtin.algorithm, result.builtin.params
    return result
