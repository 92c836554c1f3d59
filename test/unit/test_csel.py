# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Selection files: the library's csel_*.c, compiled without MPICH, against test/corpus and topo-tune."""

import functools
import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sites
from common import TOPO, topo_files, topo_includes
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import Build
from under_test import ONLY_IN_4_0, mpich_numversion, mpich_version, of_version

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
CORPUS = REPO / "test/corpus"
sys.path.insert(0, str(REPO / "maint"))

from topo_common.text import HIDDEN
from topo_tune import grammar

GOOD_FILES = sorted((CORPUS / "good").iterdir())
WARNED = ("never", "every_message_condition")
FUZZ_FILES = sorted((CORPUS / "fuzz").iterdir())
VERSION = mpich_version()
COLLECTIVES = grammar.mpich(VERSION)["collectives"]


class Csel:
    """A process of csel.c; a new one where the last one died."""

    def __init__(self, program: Any, generic: Any, folder: Path) -> None:
        self.command = [program, generic]
        self.file = folder / "tuning.json"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            encoding="utf-8",
            errors="surrogateescape",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for row in (row for algorithms in COLLECTIVES.values() for row in algorithms.values()):
            for param in row.get("params", {}).values():
                self.send("set", variable(param["cvar"]), number(param))

    def send(self, *words: Any) -> None:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def ask(self, *words: Any) -> Any:
        self.send(*words)
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            _, err = self.process.communicate()
            self.start()
            raise AssertionError(f"csel died of {words}:\n{err}")
        return answer.rstrip("\n")

    def load(self, content: Any, command: str = "load") -> Any:
        """("ok", "warning" or "error", the sentence without the name of the file)"""
        self.file.write_bytes(content)
        limit = threading.Timer(60, self.process.kill)
        limit.start()
        verdict, _, sentence = self.ask(command, self.file).partition(" ")
        limit.cancel()
        if verdict != "ok":
            assert sentence.startswith(f"{self.file}: ")
        return verdict, sentence.removeprefix(f"{self.file}: ")

    def select(self, call: Any) -> Any:
        """(what the rules select, what the built-in selection does), each (name, parameters)"""
        words = [
            f"{key}={int(value) if isinstance(value, bool) else value}"
            for key, value in call.items()
            if key != "collective"
        ]
        found = []
        for choice in self.ask("select", call["collective"], *words).split("|"):
            name, *params = choice.split()
            pairs = (param.split("=") for param in params)
            found.append((name, {param: int(value) for param, value in pairs}))
        return found

    def end(self) -> Any:
        """What the sanitizers say in the end."""
        _, err = self.process.communicate(timeout=60)
        return err + (f"status {self.process.returncode}" if self.process.returncode else "")


def variable(cvar: str) -> Any:
    """The C variable that holds a CVAR."""
    if re.fullmatch(r"\w+_(SEGMENT_BYTES|TOPO_\w+_KVAL|RECURSIVE_DOUBLING_KVAL)", cvar):
        return "MPII_Topo_as_agreed"
    match = re.fullmatch(r"MPIR_CVAR_(\w+)_TREE_TYPE", cvar)
    return f"MPIR_{match[1].capitalize()}_tree_type" if match else cvar


def number(param: Any) -> Any:
    default = param["default"]
    return param["values"].index(default) if "values" in param else default


@pytest.fixture(scope="module")
def start(
    build_unit: Build, mpich_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Any]:
    """start(): a new Csel."""
    coll, json_c = mpich_source / "src/mpi/coll", mpich_source / "modules/json-c"
    topo = mpich_source / TOPO
    includes = [HERE / "shim", mpich_source / "src/include", coll / "include", coll / "src"]
    program = build_unit(
        HERE / "csel.c",
        *(coll / f"src/csel_{part}.c" for part in ("algo", "grammar", "parse", "search", "tree")),
        *topo_files("topo_json.c", "topo_site.c", "topo_rates.c", topo=topo),
        *sorted(set(json_c.glob("*.c")) - {json_c / "libjson.c"}),
        *(f"-I{folder}" for folder in [*includes, json_c]),
        *topo_includes(topo),
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        f"-DMPICH_NUMVERSION={mpich_numversion()}",
        *("-Wno-sign-compare", "-Wno-unused-parameter", "-Wno-missing-field-initializers"),
        "-lm",
    )
    generic = mpich_source / "maint/tuning/coll/mpir/generic.json"
    return lambda: Csel(program, generic, tmp_path_factory.mktemp("csel"))


@pytest.fixture(scope="module")
def csel(start: Callable[..., Any]) -> Iterator[Any]:
    process = start()
    yield process
    assert process.end() == ""


def shown(path: Iterable[str]) -> str:
    """A path as the library prints it, which cuts long keys."""
    keys = (key.encode(errors="surrogateescape") for key in path)
    cut = (key if len(key) <= 80 else key[:80] + b"..." for key in keys)
    text = b" > ".join(b'"%s"' % key for key in cut).decode(errors="surrogateescape")
    return HIDDEN.sub("?", text)


def assert_agree(csel: Any, content: Any) -> Any:
    """C and Python give the same verdict and see the same fault first. Returns C's answer."""
    verdict, sentence = csel.load(content)
    errors, warnings = grammar.check(content, version=VERSION)
    assert (verdict == "error") == bool(errors), (sentence, errors[:1])
    assert verdict != "warning" or warnings, sentence
    if errors:
        path = errors[0][0]
        if sentence.startswith("key ... > "):
            where, text = sentence.removeprefix("key ... > "), shown(path)
            assert any(text.endswith(where[:end]) for end in ends(where)), (sentence, errors[0])
        elif path:
            assert sentence.startswith(f"key {shown(path)}: "), (sentence, errors[0])
        else:
            assert not sentence.startswith("key "), (sentence, errors[0])
    return verdict, sentence


def ends(text: str) -> list[Any]:
    """Where a path may end in a sentence"""
    return [match.start() + 1 for match in re.finditer('": ', text)]


# ---------------------------------------------------------------- bad files


def test_bad_file(csel: Any, bad_file: tuple[bytes, str]) -> None:
    content, expected = bad_file
    verdict, sentence = assert_agree(csel, content)
    printed = sentence.encode(errors="surrogateescape").decode(errors="replace")
    assert (verdict, printed) == ("error", expected)


def test_enough_bad_files(bad_files: list[tuple[bytes, str]]) -> None:
    assert len({content for content, _ in bad_files}) == len(bad_files) >= 200


ALGORITHM = b'{"algorithm=MPIR_Bcast_allcomm_nb": {}}'

# name: (content, what the library says, or the start of it)
LARGE = {
    "JSON too deep": (b'{"a":' + b"[" * 100_000, "line 1: nesting too deep"),
    "JSON too deep, closed": (b'{"a":' * 65 + b"1" + b"}" * 65, "line 1: nesting too deep"),
    "33 levels": (
        b'{"collective=bcast":' + b'{"comm_size<=4":' * 31 + ALGORITHM + b"}" * 32,
        'key "collective=bcast"' + ' > "comm_size<=4"' * 31 + ": found more than 32 levels",
    ),
    "64 levels": (
        b'{"comm_size<=4":' * 63 + b"{}" + b"}" * 63,
        'key "comm_size<=4"' + ' > "comm_size<=4"' * 31 + ": found more than 32 levels",
    ),
    "long path": (
        b'{"collective=bcast":'
        + b'{"comm_size <= %s7":' % (b" " * 100) * 30
        + b'{"nonsense":{}}'
        + b"}" * 31,
        "key ... > ",
    ),
    "long key": (b'{"%s": {}}' % (b"x" * 10_000_000), f'key "{"x" * 80}...": unknown condition'),
    "long key of blanks": (b'{"%s": {}}' % (b" " * 10_000_000), f'key "{" " * 80}...": unknown'),
    "long key, half of a character": (
        b'{"x%s": {}}' % ("é".encode() * 100),
        'key "x' + "é" * 39 + '?...": unknown condition',
    ),
    "long number": (
        b'{"comm_size<=%s": {}}' % (b"9" * 1_000_000),
        f'key "comm_size<={"9" * 69}...": found "{"9" * 80}',
    ),
    "long collective": (b'{"collective=%s": {}}' % (b"b" * 100_000), 'key "collective=bbb'),
    "long algorithm": (
        b'{"collective=bcast": {"algorithm=MPIR_Bcast_allcomm_%s": {}}}' % (b"n" * 100_000),
        'key "collective=bcast" > "algorithm=MPIR_Bcast_allcomm_nnn',
    ),
    "long parameter": (
        b'{"collective=bcast": {"algorithm=MPIR_Bcast_allcomm_nb": {"%s": {}}}}' % (b"k" * 100_000),
        'key "collective=bcast" > "algorithm=MPIR_Bcast_allcomm_nb" > "kkk',
    ),
    "many keys": (
        b'{"collective=bcast": {'
        + b",".join(b'"comm_size<=%d":%s' % (i, ALGORITHM) for i in range(49_999))
        + b',"comm_size<=x":{}}}',
        'key "collective=bcast" > "comm_size<=x": found "x"',
    ),
    "too many keys": (
        b'{"collective=bcast": {'
        + b",".join(b'"comm_size<=%d":%s' % (i, ALGORITHM) for i in range(50_000))
        + b"}}",
        'key "collective=bcast" > "comm_size<=49999" > "algorithm=MPIR_Bcast_allcomm_nb": found more'
        " than 100000 keys of rules in the file",
    ),
    "many parameters": (
        b'{"collective=bcast": {"algorithm=MPIR_Bcast_allcomm_nb": {'
        + b",".join(b'"k=%d":{}' % i for i in range(50_000))
        + b"}}}",
        'key "collective=bcast" > "algorithm=MPIR_Bcast_allcomm_nb" > "k=0": unknown parameter',
    ),
    "many lines": (b"\n" * 1_000_000 + b"x", 'line 1000001: found "x", expected a JSON object'),
}


@pytest.mark.parametrize("case", LARGE)
def test_large(csel: Any, case: str) -> None:
    content, start = LARGE[case]
    verdict, sentence = assert_agree(csel, content)
    assert verdict == "error" and sentence.startswith(start)
    assert len(sentence) < 2000


def test_many_keys(csel: Any) -> None:
    """Where each is good, all are there at the same time."""
    rules = (b'"comm_size<=%d":%s' % (i, ALGORITHM) for i in range(49_999))
    assert csel.load(b'{"collective=bcast": {' + b",".join(rules) + b"}}") == ("ok", "")


def test_more_than_64_mib(csel: Any) -> None:
    with open(csel.file, "wb") as file:
        file.truncate(2**26 + 1)
    answer = csel.ask("load", csel.file)
    assert answer == f"error {csel.file}: found 67108865 bytes, expected at most 67108864"


@pytest.mark.parametrize(
    "kind, sentence",
    {
        "missing": "cannot open: No such file or directory",
        "directory": "expected a regular file",
        "fifo": "expected a regular file",
        "device": "expected a regular file",
        "loop": "cannot open: Too many levels of symbolic links",
        "name too long": "cannot open: File name too long",
    }.items(),
)
def test_not_a_file(csel: Any, tmp_path: Path, kind: str, sentence: str) -> None:
    path = {"device": Path("/dev/zero"), "name too long": tmp_path / ("x" * 300)}.get(
        kind, tmp_path / "f"
    )
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    assert csel.ask("load", path) == f"error {path}: {sentence}"


@pytest.fixture(scope="module")
def text() -> Any:
    """A file that is changed: conditions, algorithms, parameters."""
    whole = json.loads(of_version((CORPUS / "good/parameters.json").read_bytes()))
    some = {"collective=ibcast": whole["collective=ibcast"]}
    return json.dumps(some, indent=1).encode()


def test_cut_off(csel: Any, text: bytes) -> None:
    for end in range(1, len(text), 7):
        verdict, sentence = assert_agree(csel, text[:end])
        line = text[:end].count(b"\n") + 1
        what = f"line {line}: the file ends inside a JSON value; is it cut off?"
        assert (verdict, sentence) == ("error", what), end


def test_nul_anywhere(csel: Any, text: bytes) -> None:
    for at in range(0, len(text), 11):
        verdict, sentence = assert_agree(csel, text[:at] + b"\0" + text[at + 1 :])
        line = text[:at].count(b"\n") + 1
        assert sentence == f"line {line}: found a NUL byte, expected JSON text", at
        assert verdict == "error"


def places(tree: Any, path: Sequence[Any] = ()) -> Iterator[Any]:
    for key, value in tree.items():
        yield (*path, key)
        yield from places(value, (*path, key))


JSON_TYPES = {"null": None, "boolean": False, "int": 7, "double": 0.5, "string": "x", "array": [{}]}


def test_wrong_type_anywhere(csel: Any, text: bytes) -> None:
    for path, kind in itertools.product(places(json.loads(text)), JSON_TYPES):
        tree = json.loads(text)
        parent = functools.reduce(dict.get, path[:-1], tree)
        parent[path[-1]] = JSON_TYPES[kind]
        _, sentence = assert_agree(csel, json.dumps(tree).encode())
        assert sentence.startswith(f"key {shown(path)}: found ")


def test_changed_bytes(csel: Any, text: bytes) -> None:
    """What comes out is right or wrong, the same for both."""
    change = random.Random(1)
    verdicts = []
    for _ in range(800):
        new = bytearray(text[: change.randrange(len(text))] if change.random() < 0.1 else text)
        for _ in range(change.choice([1, 1, 1, 2, 5])):
            at = change.randrange(len(new) or 1)
            new[at : at + change.randrange(3)] = change.choice(
                [b"", b'"', b"{", b"}", b",", b" ", b"<", b"=", b"9", b"K", b"\xc3", b"k=2", b"_i"]
            )
        verdicts.append(assert_agree(csel, bytes(new))[0])
    assert {"ok", "error"} <= set(verdicts)


# ---------------------------------------------------------------- rules that are not known

# what stands under "collective=bcast", and where no rule selects then; "skipped" NUMBER LINE of the first
KNOWN = "algorithm=MPIR_Bcast_intra_binomial"
UNKNOWN = {
    "algorithm": ({"algorithm=MPIR_Bcast_intra_new": {}}, 1, 4),
    "parameter": ({"algorithm=MPIR_Bcast_intra_topo_chain": {"new=1": {}}}, 1, 5),
    "value": ({"algorithm=MPIR_Bcast_intra_topo_chain": {"segment_bytes=x": {}}}, 1, 5),
    "condition, and all behind it": (
        {"comm_size<=1": {KNOWN: {}}, "new<=2": {"newer": {}}, "comm_size=any": {KNOWN: {}}},
        *(1, 7),
    ),
    "condition of other collectives": ({"is_commutative=yes": {KNOWN: {}}}, 1, 4),
    "two algorithms": (
        {
            "comm_size<=2": {"algorithm=MPIR_Bcast_intra_new": {}},
            "comm_size<=4": {"algorithm=MPIR_Bcast_intra_new": {}},
        },
        *(2, 5),
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_rule(csel: Any, case: str) -> None:
    """It is wrong; or skipped, where that is asked for, and selects nothing; rules beside it stay."""
    rules, number, line = UNKNOWN[case]
    reduce = {"algorithm=MPIR_Reduce_intra_binomial": {}}
    tuning = {"collective=bcast": rules, "collective=new": {"new": {}}, "collective=reduce": reduce}
    csel.file.write_text(json.dumps({"comm_type=intra": tuning}, indent=1))
    assert csel.ask("load", csel.file).startswith(f"error {csel.file}: key ")
    answer = csel.ask("load-known", csel.file)
    first = rf'skipped {number + 1} {line} key ".*" > "collective=bcast" > ".*": \S'
    assert re.match(first, answer), answer
    call = {
        "ranks": 2,
        "nodes": 1,
        "hosts": 1,
        "racks": 1,
        "count": 8,
        "total_count": 16,
        "type_size": 8,
    }
    for collective, known in (("bcast", "-"), ("reduce", "MPIR_Reduce_intra_binomial")):
        (of_rules, _), _ = csel.select({"collective": collective, "comm_type": "intra", **call})
        assert of_rules == known


def test_skipping_ends_with_what_is_wrong(csel: Any) -> None:
    """Skipped is what another version may know, and nothing else."""
    for rules, what in (
        ({"comm_size<=x": {}}, "expected a number"),
        ({"algorithm=MPIR_Reduce_intra_binomial": {}}, "expected an algorithm of bcast"),
        ({"composition=MPIDI_Bcast_intra_composition_alpha": {}}, "a selection file of ch4"),
    ):
        csel.file.write_text(json.dumps({"collective=bcast": rules}))
        answer = csel.ask("load-known", csel.file)
        assert answer.startswith("error ") and what in answer


# ---------------------------------------------------------------- good files


def calls(collectives: Any, comm_types: Sequence[Any] = ("intra", "inter")) -> Iterator[Any]:
    """Calls of collectives over a grid, as keyword arguments of grammar.Call."""
    placements = [  # ranks, nodes, hosts, racks, groups of levels 3 and 4, ppn
        (1, 1, 1, 1, 1, 1, 1),
        (2, 1, 1, 1, 1, 1, 2),
        (4, 2, 2, 2, 2, 1, 3),
        (7, 3, 3, 1, 1, 1, 4),
        (8, 8, 8, 3, 2, 2, 1),
        (16, 5, 0, 0, 0, 0, 0),
        (1024, 64, 32, 8, 4, 2, 32),
    ]
    names = ("ranks", "nodes", "hosts", "racks", "level3", "level4", "ppn")
    sizes = [(0, 1), (1, 1), (1, 8), (8, 8), (100, 4), (300, 1), (1024, 4), (2**20, 8)]
    yes = dict.fromkeys(("commutative", "builtin_op", "regular", "consecutive"), True)
    for collective in collectives:
        for comm_type in comm_types:
            if comm_type == "inter" and re.search("scan|neighbor", collective):
                continue
            for i, (place, (count, type_size)) in enumerate(itertools.product(placements, sizes)):
                where = dict(zip(names, place, strict=True))
                flags = yes
                if i % 3 == 1:
                    flags = dict.fromkeys(yes, False) | {"inplace": i % 2 == 0}
                elif i % 3 == 2:
                    flags = yes | {"commutative": i % 2 == 0, "inplace": i % 4 == 1}
                message = {"count": count, "type_size": type_size}
                known: dict[str, Any] = {**where, **message, **flags}
                yield make_call(collective, comm_type, **known)


HIERARCHIES = ("flat", "parent", "node_roots", "node")


def make_call(
    collective: str,
    comm_type: str,
    ranks: int,
    nodes: int,
    count: int,
    regular: Any,
    hierarchy: str | None = None,
    **more: Any,
) -> Any:
    """A call as it may happen."""
    if comm_type == "inter":
        nodes, hierarchy = ranks, "flat"
    elif hierarchy is None:
        hierarchy = "parent" if nodes < ranks else HIERARCHIES[count % 3 and 2]
    if hierarchy in ("flat", "node_roots"):
        nodes = ranks
    elif hierarchy == "node":
        nodes = 1
    varies = collective.removeprefix("i") in ("allgatherv", "reduce_scatter")
    regular = regular or not varies or ranks == 1 or count == 0
    return dict(
        collective=collective,
        comm_type=comm_type,
        ranks=ranks,
        nodes=nodes,
        count=count,
        total_count=count * ranks if regular else count,
        regular=regular,
        hierarchy=hierarchy,
        **more,
    )


@functools.cache
def builtin(call: Any) -> Any:
    """What grammar.select says of a call without rules."""
    found = grammar.select({}, grammar.Call(**dict(call), version=VERSION))
    return found.algorithm, found.params


def assert_same_selection(csel: Any, tuning: dict[str, Any], call: Any) -> None:
    rule, own = csel.select(call)
    found = grammar.select(tuning, grammar.Call(**call, version=VERSION))
    if found.declined:
        # csel.c leaves restrictions to the code that calls the algorithm
        assert rule[0] == found.declined[0], (call, found.steps)
    elif found.from_rule:
        assert rule == (found.algorithm, found.params), (call, found.steps)
    else:
        assert rule[0] == "-", (call, found.steps)
    assert own == builtin(tuple(call.items())), call


def collectives_of(tree: Any) -> list[Any]:
    named = {
        re.sub(r"\s", "", key).removeprefix("collective=")
        for *_, key in places({k: v for k, v in tree.items() if k != "topology"})
    }
    return [name for name in COLLECTIVES if name in named]


@pytest.mark.parametrize("file", GOOD_FILES, ids=lambda file: file.stem)
def test_good_file(csel: Any, file: Path) -> None:
    content = of_version(file.read_bytes())
    verdict, sentence = assert_agree(csel, content)
    if file.stem in ONLY_IN_4_0 and VERSION != "4.0":
        assert "can never be reached" in sentence
        return
    assert verdict == ("warning" if file.stem in WARNED else "ok"), sentence
    tuning = grammar.read(content)[0]
    for call in calls(collectives_of(tuning)):
        assert_same_selection(csel, tuning, call)


@pytest.mark.parametrize("name", ["mpir/generic", "ch4/generic", "ch4/posix_generic"])
def test_stock_file(csel: Any, mpich_source: Path, name: str) -> None:
    """MPICH's own files; those of the ch4 device are told as what they are."""
    content = (mpich_source / f"maint/tuning/coll/{name}.json").read_bytes()
    verdict, sentence = assert_agree(csel, content)
    if "ch4" in name:
        what = "posix in ch4, which MPIR_CVAR_CH4_POSIX_"
        if "posix" not in name:
            what = "ch4, which MPIR_CVAR_CH4_COLL_"
        assert verdict == "error" and f"found a key of a selection file of {what}" in sentence
        return
    tuning = json.loads(content)
    for call in calls(COLLECTIVES):
        assert_same_selection(csel, tuning, call)


def test_fuzz_corpus(csel: Any) -> None:
    assert FUZZ_FILES
    for file in FUZZ_FILES:
        try:
            assert_agree(csel, of_version(file.read_bytes()))
        except AssertionError as error:
            raise AssertionError(file.name) from error


def test_nothing_leaks(start: Callable[..., Any], bad_files: list[tuple[bytes, str]]) -> None:
    """Every way out of the parser, in one process."""
    process = start()
    for content, _ in bad_files:
        process.load(content)
    for file in GOOD_FILES:
        process.load(of_version(file.read_bytes()))
    assert process.end() == ""


# ---------------------------------------------------------------- generated files

NUMBERS = [0, 1, 2, 3, 4, 7, 8, 16, 63, 64, 65, 100, 800, 1024, 4096, 2**20, 2**31 - 2]
JUNK = [
    *("comm_size", "comm_size<=", "comm_size<=-1", "comm_size=3", "comm_sise<=3", "count<pow3"),
    *("is_commutative=", "collective=", "collective=Bcast", "algorithm=", "algorithm=x", "", "x"),
    *("avg_msg_size<=1T", "total_msg_size<=9999999999999999999", "comm_hosts<3", "topology", "k=2"),
]


@pytest.mark.parametrize("collective", ["allreduce", "ireduce", "reduce_scatter", "scan", "bcast"])
def test_fixed_order(csel: Any, collective: str) -> None:
    """Reductions whose order is fixed see no placement, be it of MPICH or of a topology."""
    name = f"MPIR_{collective.capitalize()}_intra_"
    names = [key for key in COLLECTIVES[collective] if key.startswith(name)]
    conditions = ["comm_hosts<=4", "comm_hierarchy=parent", "comm_avg_ppn<=2", "comm_size=any"]
    rules = {
        key: {f"collective={collective}": {f"algorithm={names[i % len(names)]}": {}}}
        for i, key in enumerate(conditions)
    }
    assert csel.load(json.dumps({"comm_type=intra": rules}).encode())[0] == "ok"
    places = [
        {"nodes": nodes, "hosts": hosts, "racks": 1, "ppn": 2, "hierarchy": hierarchy}
        for nodes, hierarchy in ((8, "flat"), (4, "parent"), (2, "parent"))
        for hosts in (2, 4, 8)
    ]

    def chosen(fixed_order: int) -> set[str]:
        common = {"ranks": 8, "count": 300, "type_size": 8, "commutative": 1, "builtin_op": 1}
        calls = [{**common, **place, "fixed_order": fixed_order} for place in places]
        return {
            csel.ask("select", collective, *(f"{key}={value}" for key, value in call.items()))
            for call in calls
        }

    assert len(chosen(0)) > 1
    assert (len(chosen(1)) == 1) == (collective != "bcast")


def number_text(draw: Any) -> Any:
    value = draw.choice(NUMBERS)
    if value % 1024 == 0 and draw.random() < 0.5:
        return f"{value // 1024}K"
    return "0" * draw.randrange(2) + str(value)


def make_condition(draw: Any, collective: str) -> Any:
    names = [
        name
        for name, of in grammar.CONDITIONS.items()
        if name != "collective" and (of is None or (collective and (not of or collective in of)))
    ]
    name = draw.choice(names)
    form = draw.choice(grammar.forms(VERSION)[name])
    return name + (form[:-1] + number_text(draw) if form.endswith("N") else form)


def make_leaf(draw: Any, collective: str, kind: str) -> dict[str, Any]:
    kinds = "intra|inter" if draw.random() < 0.02 else f"allcomm|{kind or 'allcomm'}"
    known = [name for name in COLLECTIVES[collective] if re.search(f"_({kinds})_", name)]
    if not known:
        return {"comm_type=intra": make_leaf(draw, collective, "intra")}
    name = draw.choice(known)
    params = {}
    for param, row in COLLECTIVES[collective][name].get("params", {}).items():
        names = row.get("values", [])
        default = (0, len(names) - 1) if names else (0, 2**31 - 1)
        least, most = grammar.PARAMETERS.get(param, default)
        values = [least, least + 1, most, min(most, 64), most + (draw.random() < 0.1), *names]
        if draw.random() < 0.5:
            params[f"{param}={draw.choice(values)}"] = {}
    return {f"algorithm={name}": params}


def make_rules(draw: Any, collective: str, kind: str, depth: int) -> Any:
    if collective and (depth > 3 or draw.random() < 0.2 * depth):
        return make_leaf(draw, collective, kind)
    result = {}
    as_collectives = collective is None and draw.random() < (0.5, 0.7, 1, 1, 1)[depth]
    for _ in range(draw.choice([1, 2, 2, 3])):
        if as_collectives:
            name = draw.choice(list(COLLECTIVES))
            result[f"collective={name}"] = make_rules(draw, name, kind, depth + 1)
            continue
        key = make_condition(draw, collective)
        inner = key.removeprefix("comm_type=") if key.startswith("comm_type=") else kind
        if collective and kind is None and draw.random() < 0.4:
            key, inner = draw.choice([("comm_type=intra", "intra"), ("comm_type=inter", "inter")])
        if draw.random() < 0.1:
            key = draw.choice([" ", "\t"]).join(re.split("(?<==)|(?=<)", key))
        result[key] = make_rules(draw, collective, inner, depth + 1)
        if grammar.is_last(grammar.strip(key), VERSION) and draw.random() < 0.95:
            break
    return result


def break_somewhere(draw: Any, tree: Any) -> None:
    path = draw.choice(list(places(tree)))
    parent = functools.reduce(dict.get, path[:-1], tree)
    what = draw.randrange(4)
    if what == 0:
        parent[path[-1]] = draw.choice([None, 1, 0.5, "x", [], {}, {"x": {}}])
    elif what == 1:
        parent[draw.choice(JUNK)] = draw.choice([{}, parent[path[-1]]])
    elif what == 2:
        other = functools.reduce(dict.get, draw.choice(list(places(tree)))[:-1], tree)
        parent[path[-1]] = json.loads(json.dumps(other))
    else:
        values = list(parent.items())
        at = [key for key, _ in values].index(path[-1])
        values[at] = (draw.choice(JUNK), values[at][1])
        parent.clear()
        parent.update(values)


@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=400)
def test_generated(csel: Any, draw: Any) -> None:
    tree = make_rules(draw, None, None, 0)
    if draw.random() < 0.3:
        break_somewhere(draw, tree)
    verdict, _ = assert_agree(csel, json.dumps(tree).encode())
    if verdict == "error":
        return
    for _ in range(10):
        ranks = draw.choice([1, 2, 3, 4, 7, 8, 16, 63, 64, 100])
        hosts = draw.choice([0, 1, min(2, ranks), -(-ranks // 2), ranks])
        collective = draw.choice(collectives_of(tree) or list(COLLECTIVES))
        intra = draw.random() < 0.7 or re.search("scan|neighbor", collective)
        call = make_call(
            collective,
            "intra" if intra else "inter",
            ranks=ranks,
            nodes=draw.choice([1, -(-ranks // 2)]) if ranks > 1 else 1,
            hosts=hosts,
            racks=(racks := draw.randint(1, hosts) if hosts else 0),
            level3=(level3 := draw.randint(1, racks) if hosts else 0),
            level4=draw.randint(1, level3) if hosts else 0,
            ppn=-(-ranks // hosts) if hosts else 0,
            count=draw.choice(NUMBERS),
            type_size=draw.choice([1, 4, 8]),
            hierarchy=draw.choice(HIERARCHIES if ranks > 1 else HIERARCHIES[:1]),
            **{
                flag: draw.random() < 0.5
                for flag in ("commutative", "builtin_op", "inplace", "regular", "consecutive")
            },
            idle=not intra and draw.random() < 0.3,
        )
        assert_same_selection(csel, tree, call)


# -- site files --


@pytest.mark.parametrize("site", [sites.SITE, sites.LEVELS, sites.BY_RACK])
def test_all_keys_of_a_site_file_are_known(csel: Any, site: Any) -> None:
    assert csel.load(json.dumps(site).encode(), "site") == ("ok", "")
    assert csel.load(json.dumps({"topology": site}).encode()) == ("ok", "")


def test_site_files_that_are_refused(csel: Any) -> None:
    """As by topo-tune (test/tools/test_tune.py), and in a tuning file by topo-tune validate."""
    for place, text, who in sites.site_files():
        verdict, sentence = csel.load(text.encode(), "site")
        assert verdict == ("error" if who == "both" else "ok"), (place, text[-200:], sentence)
        if who == "both":
            key = re.split(r"[.[]", place)[0]
            # the key, or the other one without which it may not be
            assert re.match(rf'key "({key}\b|racks|levels)', sentence), (place, sentence)
        tuning = f'{{"topology": {text}}}'.encode()
        assert csel.load(tuning)[0] == verdict
        assert bool(grammar.check(tuning)[0]) == (who == "both"), place


def test_names_of_hosts(csel: Any) -> None:
    for known, name, expected in sites.host_names():
        site = {"format": 1, "hosts": known, "racks": {"names": ["r"], "of_host": [0] * len(known)}}
        assert csel.load(json.dumps(site).encode(), "site")[0] == "ok"
        found = int(csel.ask("host", name))
        assert (known[found] if found >= 0 else "-") == expected, (known, name)
