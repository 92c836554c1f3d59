# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The programs in maint/ and the Makefile. MPICH's source has to be in the cache (`make fetch`).

Where a test would change the repository, it works on a copy of it.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from inprocess import load_program
from kinds import Job

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "maint"))

import lists
import patching
import results
import sources
import tuner_data
from common import (
    OVERLAY,
    TOPO,
    VERSION_HEADER,
    Failure,
    Row,
    apply_patches,
    is_generated,
    overlay_files,
    series,
    topo_files,
    topo_includes,
    topo_version,
    touched,
    versions,
)

GIVEN = os.environ.get("MPICH_SRC", "")  # before fixtures set it
UPSTREAM = [
    "maint/version.m4",
    "src/mpi/coll/allgather/allgather_intra_ring.c",
    "test/mpi/maint/gen_coll_cvar.py",
    *tuner_data.SOURCES,
    # for maint/gen_coll.py
    "maint/gen_coll.py",
    *(f"maint/local_python/{name}.py" for name in ("__init__", "binding_common", "mpi_api")),
    "maint/local_python/info_hints.py",
    "src/binding/apis_mapping.txt",
    "src/binding/custom_mapping.txt",
    "src/binding/mpi_standard_api.txt",
    "src/binding/c/coll_api.txt",
]
# rows of a manifest
ROWS: list[Row] = [
    {
        "collective": "bcast",
        "name": "new_tree_of_a_length_that_breaks_lines",
        "file": "src/mpi/coll/bcast/bcast_intra_new_tree_of_a_length_that_breaks_lines.c",
        "help": "a tree",
        "restrictions": ["power-of-two"],
        "params": [
            {"name": "k", "cvar": "NEW_KVAL", "test": "2,4"},
            {"name": "chunk", "cvar": "NEW_CHUNK"},
        ],
        "tests": ["bcasttest 10", "bcasttest 7"],
    },
    {
        "collective": "barrier",
        "name": "new",
        "file": "src/mpi/coll/barrier/barrier_intra_new.c",
        "help": "another",
    },
]
VERBS = [
    "fetch",
    "apply",
    "build",
    "demo",
    "check",
    "check-all",
    "check-outside",
    "bench",
    "refresh",
    "patches-check",
    "upstream-check",
    "install",
    "dist",
    "clean",
]


def small_source(full: sources.Source, path: Path) -> sources.Source:
    """A source tree of MPICH, of which only the files that matter here are there: fast."""
    only = [*UPSTREAM, *overlay_files(), *(path for path, *_ in lists.per_file(ROWS))]
    only += [name for patch in series(full.row) for name in touched(patch.read_text())]
    only += [path for path, *_ in lists.per_file(lists.load_manifest())]
    full.copy(path, only=only)
    return sources.Source(path)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> sources.Source:
    """Of the first version."""
    first = versions()[0]
    full = sources.find(first) or sources.Source(sources.fetch(first))
    return small_source(full, tmp_path_factory.mktemp("source") / "mpich")


@pytest.fixture
def repo(tmp_path: Path, source: sources.Source, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the programs in maint/ read; they use the small source."""
    monkeypatch.setenv("MPICH_SRC", str(source.path))
    copy = tmp_path / "repo"
    for name in ("maint", "cvars", "patches", "src_overlay", "bench"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPO / name, copy / name, ignore=skip)
    for name in ("Makefile", "README.md"):
        shutil.copy(REPO / name, copy)
    return copy


@pytest.fixture
def tree(tmp_path: Path, source: sources.Source) -> Path:
    """A copy of the small source, to patch."""
    source.copy(tmp_path / "tree")
    return tmp_path / "tree"


def maint(
    program: Any, *args: Any, repo: Path = REPO, env: dict[str, str] | None = None, **kwargs: Any
) -> Job:
    return subprocess.run(
        [sys.executable, repo / "maint" / program, *args],
        capture_output=True,
        text=True,
        check=False,
        env=environment() | (env or {}),
        **kwargs,
    )


def environment() -> dict[str, str]:
    """Without what pytest-xdist says of the process that runs this test."""
    return {name: value for name, value in os.environ.items() if "XDIST" not in name}


def content(tree: Path) -> Any:
    return {
        str(path.relative_to(tree)): (path.stat().st_mode, path.read_bytes())
        for path in tree.rglob("*")
        if path.is_file()
    } | {str(path.relative_to(tree)): None for path in tree.rglob("*") if path.is_dir()}


# -- patches ----------------------------------------------------------------------------------


def test_patches_check() -> None:
    result = maint("patches-check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_refresh_repeats_itself(repo: Path) -> None:
    folders = ("patches", "src_overlay", "maint/topo_tune")
    before = [content(repo / folder) for folder in folders]
    assert maint("refresh", repo=repo).returncode == 0
    assert [content(repo / folder) for folder in folders] == before


def edit_generated_patch(repo: Path) -> None:
    (patch,) = (repo / "patches/4.0").glob("*-coll-list-topo-algorithms.patch")
    patch.write_text(patch.read_text().replace("nearest neighbour", "nearest"))


def edit_tuner_data(repo: Path) -> None:
    path = repo / "maint/topo_tune/mpich-4.0.json"
    path.write_text(path.read_text().replace('"power-of-two"', '"power-of-3"'))


def edit_row(repo: Path) -> None:
    path = repo / "cvars/algorithms.toml"
    path.write_text(path.read_text().replace('"ring over ranks', '"a ring over ranks'))


def overwrite_upstream(repo: Path) -> None:
    (repo / "src_overlay/src/mpi/coll/allgather/allgather_intra_ring.c").write_text("")


def remove_algorithm(repo: Path) -> None:
    (repo / "src_overlay/src/mpi/coll/allgather/allgather_intra_topo_ring.c").unlink()


def leave_gap(repo: Path) -> None:
    first = min((repo / "patches/4.0").glob("*.patch"))
    first.rename(first.with_name("0009" + first.name[4:]))


def spoil_context(repo: Path) -> None:
    first = min((repo / "patches/4.0").glob("*.patch"))
    first.write_text(re.sub(r"(?m)^(@@.*\n .*\w)", r"\1 spoilt", first.read_text(), count=1))


@pytest.mark.parametrize(
    "spoil, says",
    [
        (edit_generated_patch, "is not what would be generated"),
        (edit_tuner_data, "mpich-4.0.json is not what would be generated"),
        (edit_row, "is not what would be generated"),
        (
            overwrite_upstream,
            "src_overlay/src/mpi/coll/allgather/allgather_intra_ring.c is a file of upstream",
        ),
        (remove_algorithm, "allgather_intra_topo_ring.c is missing"),
        (leave_gap, ""),
        (spoil_context, ""),
    ],
)
def test_patches_check_finds(repo: Path, tmp_path: Path, spoil: Any, says: str) -> None:
    """In the first version; there are no sources of others"""
    spoil(repo)
    result = maint("patches-check", repo=repo, env={"MPICH_TOPO_CACHE": str(tmp_path / "cache")})
    assert result.returncode == 1
    assert says in result.stdout
    assert "Traceback" not in result.stderr


def test_series_goes_through_git_and_back(repo: Path, tmp_path: Path) -> None:
    before = content(repo / "patches")
    work = tmp_path / "git"
    result = maint("series", "tree", work, repo=repo)
    assert result.returncode == 0, result.stderr
    subprocess.run(["git", "log", "--oneline"], cwd=work, check=True, capture_output=True)
    result = maint("series", "save", work, repo=repo)
    assert result.returncode == 0, result.stderr
    assert content(repo / "patches") == before


# -- lists ------------------------------------------------------------------------------------


def test_each_list_gets_every_row_and_keeps_its_own(source: sources.Source, tmp_path: Path) -> None:
    plan = list(lists.per_file(ROWS))
    assert len(plan) == 6  # two makefiles
    source.copy(tmp_path, only=[path for path, *_ in plan])
    for path, rows, add, read in plan:
        old = (tmp_path / path).read_text()
        new = add(old, rows)
        names = {(row["collective"], row["name"]) for row in rows}
        assert read(new) == read(old) | names, path
        assert not names & read(old)
        for line in old.split("\n"):  # a line that ended a list may go on now
            assert line in new
        for line in set(new.split("\n")) - set(old.split("\n")):
            assert len(line) <= 100 or "ALGORITHM__" in line or path.endswith("cvars.txt")
        (tmp_path / path).write_text(new)
    algorithms = (tmp_path / "src/mpi/coll/coll_algorithms.txt").read_text()
    assert (
        f"    {ROWS[0]['name']}\n"
        "        restrictions: power-of-two\n"
        "        extra_params: k, chunk\n"
        "        cvar_params: NEW_KVAL, NEW_CHUNK\n"
    ) in algorithms
    header = (tmp_path / "src/mpi/coll/include/csel_container.h").read_text()
    assert f"int chunk;\n            }} intra_{ROWS[0]['name']};\n        }} bcast;" in header
    tests = (tmp_path / "test/mpi/maint/coll_cvars.txt").read_text()
    assert "bcasttest 10\n            bcastzerotype 5\n            bcasttest 7\n" in tests
    assert ".MPIR_CVAR_BCAST_NEW_KVAL=2,4\n" in tests


def test_every_row_reaches_mpich_own_tests(tree: Path) -> None:
    """What MPICH's own generator makes of the patched list."""
    patching.apply(tree)
    (tree / "test/mpi/coll").mkdir(exist_ok=True)
    generator = [sys.executable, "maint/gen_coll_cvar.py"]
    subprocess.run(generator, cwd=tree / "test/mpi", check=True, capture_output=True)
    text = (tree / "test/mpi/coll/testlist.cvar").read_text()
    for row in lists.load_manifest():
        name = f"env=MPIR_CVAR_{row['collective'].upper()}_INTRA_ALGORITHM={row['name']}"
        if row["collective"] in ("barrier", "ibarrier", "exscan", "iexscan"):
            continue  # MPICH lists no tests of these
        assert re.search(rf"{name}\b", text), name


def test_order_of_reductions(tree: Path) -> None:
    """MPICH's own reductions whose order follows the placement, or what arrives first, say so, and nothing
    else does."""
    patching.apply(tree)
    found, key = set(), ""
    for line in (tree / "src/mpi/coll/coll_algorithms.txt").read_text().splitlines():
        if re.match(r"\w+-\w+:", line):
            key = line[:-1]
        elif match := re.match(r"    (\w+)$", line):
            name = match[1]
        elif re.match(r"        restrictions:.*\bany-order\b", line):
            found.add(f"{key} {name}")
    ours = {f"{row['collective']}-intra {row['name']}" for row in lists.load_manifest()}
    assert found - ours == {
        "reduce-intra smp",
        "ireduce-intra sched_smp",
        "ireduce-intra tsp_tree",
        "allreduce-intra smp",
        "iallreduce-intra sched_smp",
        "iallreduce-intra tsp_recexch_multiple_buffer",
        "iallreduce-intra tsp_tree",
        "scan-intra smp",
        "iscan-intra sched_smp",
    }


def test_size_of_series() -> None:
    """Fixes of MPICH come first, one a patch. The patches that our algorithms need follow."""
    for row in versions():
        hand = [patch for patch in series(row) if not is_generated(patch)]
        first = next(i for i, patch in enumerate(hand) if "coll-add-missing" in patch.name)
        hooks = [len(patch.read_text().splitlines()) for patch in hand[first:]]
        assert len(hooks) >= 5 and sum(hooks) <= 1100, row["series"]


@pytest.mark.parametrize(
    "text, says",
    [
        ("[[algorithm", "end of an array"),
        ('[[algorithm]]\ncollective = "gather"', "is missing"),
        ('[[algorithm]]\nspeed = "high"', 'unknown key "speed"'),
        ("[[algorithm]]\ncollective = 7", '"collective" must be a str'),
        (
            '[[algorithm]]\ncollective = "gather"\nname = "x"\nhelp = "x"\nfile = "x.c"',
            '"file" must be a C file in src/mpi/coll/gather/',
        ),
        (
            '[[algorithm]]\ncollective = "gather"\nname = "Not-C"\nhelp = "x"\nfile = "x.c"',
            '"name" must be a lower-case word',
        ),
        (
            '[[algorithm]]\ncollective = "gather"\nname = "x"\nhelp = "x"\nuse = "x"\n'
            'file = "src/mpi/coll/gather/gather_intra_x.c"\n' * 2,
            "named twice",
        ),
        (
            '[[algorithm]]\ncollective = "gather"\nname = "x"\nhelp = "x"\n'
            'file = "src/mpi/coll/gather/gather_intra_x.c"\n',
            'needs either "use", or "baseline"',
        ),
        (
            '[[algorithm]]\ncollective = "gather"\nname = "x"\nhelp = "x"\nuse = "x"\n'
            'baseline = true\nfile = "src/mpi/coll/gather/gather_intra_x.c"\n',
            'needs either "use", or "baseline"',
        ),
    ],
)
def test_bad_manifest(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "algorithms.toml"
    path.write_text(text)
    with pytest.raises(Failure, match=re.escape(says)) as error:
        lists.load_manifest(path)
    assert str(path) in str(error.value)


# -- patches for upstream -----------------------------------------------------------------------

upstream_check = load_program(REPO / "maint/upstream-check")
FOR_UPSTREAM = sorted((REPO / "patches/upstream").glob("*.patch"))
PATCH = """\
Subject: [PATCH] ibarrier: limit k

---
diff --git a/src/a.c b/src/a.c
--- a/src/a.c
+++ b/src/a.c
@@ -1 +1 @@
-a
+b
diff --git a/test/mpi/coll/Makefile.am b/test/mpi/coll/Makefile.am
--- a/test/mpi/coll/Makefile.am
+++ b/test/mpi/coll/Makefile.am
@@ -1 +1,2 @@
 bcasttest
+    new_test \\
diff --git a/test/mpi/coll/new_test.c b/test/mpi/coll/new_test.c
new file mode 100644
--- /dev/null
+++ b/test/mpi/coll/new_test.c
@@ -0,0 +1 @@
+int main(void) {}
diff --git a/test/mpi/coll/testlist.in b/test/mpi/coll/testlist.in
--- a/test/mpi/coll/testlist.in
+++ b/test/mpi/coll/testlist.in
@@ -1 +1,4 @@
 bcasttest 4
+# a comment
+@coll_error@new_test 3 arg=-x=1 env=MPIR_CVAR_A=b=c timeLimit=10
+new_test 1
"""


def test_upstream_check_reads_a_patch() -> None:
    parts = upstream_check.split(PATCH)
    assert [*parts] == [
        "src/a.c",
        *(f"test/mpi/coll/{name}" for name in ("Makefile.am", "new_test.c", "testlist.in")),
    ]
    assert "".join(parts.values()) == PATCH[PATCH.index("diff") :]
    first, second = upstream_check.tests_of(parts)
    assert first == ("coll", "new_test", 3, ["-x=1"], {"MPIR_CVAR_A": "b=c"}, 10)
    assert second == ("coll", "new_test", 1, [], {}, upstream_check.TIME_LIMIT)
    assert upstream_check.errors_of(PATCH) == []


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("ibarrier: limit k", "limit k", "the subject must be"),
        (
            "+    new_test \\\n",
            "+    newer \\\n",
            "coll/new_test.c is not in test/mpi/coll/Makefile.am",
        ),
        ("+int main(", "+int run(", "is not in test/mpi/maint/all_mpitests.txt"),
        ("a/src/a.c b/src/a.c", "a/test/mpi/a.c b/test/mpi/a.c", "it changes nothing but tests"),
        ("coll/testlist.in b/test/mpi/coll/testlist.in", "a b/test/mpi/a", "adds no line"),
    ],
)
def test_upstream_check_refuses_a_patch(old: str, new: str, says: str) -> None:
    assert old in PATCH
    assert any(says in error for error in upstream_check.errors_of(PATCH.replace(old, new)))


def test_upstream_check_knows_all_of_a_test() -> None:
    with pytest.raises(Failure, match="found mem=2, expected arg=, env= or timeLimit="):
        upstream_check.parse_test("coll", "allred 4 mem=2")


@pytest.mark.parametrize("patch", FOR_UPSTREAM, ids=lambda path: path.stem)
def test_patches_for_upstream(patch: Path, tmp_path: Path) -> None:
    """Each has a test, applies alone without fuzz, and is in MPICH's style."""
    text = patch.read_text()
    assert upstream_check.errors_of(text) == []
    assert len(subject(text)) <= 72
    message = text[text.index("\n\n") : text.index("\n---\n")].split("\n")
    assert all(len(line) <= 72 for line in message), message
    added = upstream_check.added_lines(text)
    assert not [line for line in added if line != line.rstrip()]
    if main_source := sources.find(sources_row("main")):
        main_source.copy(tmp_path, only=[*upstream_check.split(text)])
        apply_patches(tmp_path, [patch], strict=True)


def sources_row(name: str) -> Row:
    return next(row for row in versions() if row.get("folder") == name)


def test_patches_for_upstream_are_those_of_main() -> None:
    """What patches/main mends, and a patch for upstream of the same subject, change the same lines."""
    ours = {path.name[5:]: path.read_text() for path in series(sources_row("main"))}
    of_subject = {subject(text): text for text in ours.values()}
    same = [path for path in FOR_UPSTREAM if subject(path.read_text()) in of_subject]
    assert len(same) >= 12
    for path in same:
        text = path.read_text()
        assert changed_lines(text) == changed_lines(of_subject[subject(text)]), path.name


def subject(text: str) -> str:
    found = re.search(r"^Subject: \[PATCH\] (.*(?:\n .*)*)", text, re.MULTILINE)
    return " ".join(found[1].split())


def changed_lines(text: str) -> dict[str, list[str]]:
    """{file: lines with + and -} of a patch, without MPICH's tests and lists of restrictions."""
    return {
        name: [line for line in part.split("\n") if re.match(r"[-+](?![-+]{2} |#)", line)]
        for name, part in upstream_check.split(text).items()
        if not name.startswith("test/mpi/")
    }


@pytest.mark.parametrize("row", versions(), ids=lambda row: row["series"])
def test_an_algorithm_is_one_file_and_one_row(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    """One that is made up: MPICH's own generator finds it in the patched tree."""
    monkeypatch.setenv("MPICH_SRC", GIVEN)
    full = sources.find(row)
    if not series(row):
        pytest.skip(f"patches/{row['series']} has no patches")
    if not full:
        pytest.skip(sources.no_source(row))
    folder, manifest = repo / "src_overlay/src/mpi/coll/barrier", repo / "cvars/algorithms.toml"
    folder.mkdir(exist_ok=True)
    (folder / "barrier_intra_made_up.c").write_text('#include "mpiimpl.h"\n')
    with manifest.open("a") as file:
        file.write(
            '\n[[algorithm]]\ncollective = "barrier"\nname = "made_up"\nhelp = "made up"\n'
            'use = "tests"\nfile = "src/mpi/coll/barrier/barrier_intra_made_up.c"\n'
        )
    tree = small_source(full, tmp_path / "tree").path
    env = {"MPICH_SRC": str(tree), "MPICH_TOPO_CACHE": str(tmp_path / "cache")}
    for program, *words in (["refresh"], ["patches-check"], ["apply", str(tree)]):
        result = maint(program, *words, repo=repo, env=env)
        assert result.returncode == 0, result.stdout + result.stderr
    subprocess.run([sys.executable, "maint/gen_coll.py"], cwd=tree, check=True, capture_output=True)
    name = "MPIR_Barrier_intra_made_up"
    assert (
        f"int {name}(MPIR_Comm * comm_ptr"
        in (tree / "src/mpi/coll/include/coll_algos.h").read_text()
    )
    assert f"{name}(comm_ptr" in (tree / "src/mpi/coll/mpir_coll.c").read_text()


def test_a_row_is_all_that_topo_sim_needs(tmp_path: Path) -> None:
    """It runs an algorithm that is made up: scatter from the root to each rank, not in the order of a tree."""
    build, manifest, folder = load("build"), tmp_path / "algorithms.toml", tmp_path / "topo"
    row = """
[[algorithm]]
collective = "scatter"
name = "made_up"
help = "made up"
use = "tests"
file = "src/mpi/coll/scatter/scatter_intra_made_up.c"
family = "block_tree"
shape = "linear"
"""
    manifest.write_text((REPO / "cvars/algorithms.toml").read_text() + row)
    shutil.copytree(OVERLAY / TOPO, folder)
    (folder / "topo_algos.h").write_text(lists.topo_algos_h(lists.load_manifest(manifest)))
    pure = topo_files(*build.PURE, topo=folder)
    flags = ["-O0", '-DTOPO_VERSION="0"', f"-I{REPO}/bench/sim", *topo_includes(folder)]
    sim = tmp_path / "topo-sim"
    files = [*sorted((REPO / "bench/sim").glob("*.c")), *pure]
    subprocess.run(["cc", *flags, "-o", sim, *files, "-ljson-c", "-lm"], check=True)
    where = ["--racks", "4x4", "--host-rate", "100gbit", "--uplink-rate", "200gbit", "--json"]
    words: list[str | Path] = [sim, *where, "-c", "scatter", "-b", "8", "-a"]
    ends = {
        name: json.loads(subprocess.check_output([*words, name]))["runs"][0]["time_us"]
        for name in ("made_up", "topo_binomial")
    }
    assert 0 < ends["made_up"] < ends["topo_binomial"]


# -- apply ------------------------------------------------------------------------------------


def test_apply_twice_and_back(tree: Path) -> None:
    before = content(tree)
    patching.apply(tree)
    after = content(tree)
    assert set(overlay_files()) <= after.keys() - before.keys()
    assert "already applied" in patching.apply(tree)
    assert content(tree) == after
    patching.reverse(tree)
    assert content(tree) == before
    assert "nothing to take back" in patching.reverse(tree)
    assert content(tree) == before


def test_by_hand_is_the_same(tree: Path, source: sources.Source, tmp_path: Path) -> None:
    """The README's way: patch -p1, then copy the overlay, which does not know the commit."""
    by_hand = tmp_path / "by-hand"
    shutil.copytree(tree, by_hand)
    apply_patches(by_hand, series(source.row))
    shutil.copytree(REPO / "src_overlay", by_hand, dirs_exist_ok=True)
    patching.apply(tree)
    (tree / patching.RECORD).unlink()
    shutil.copy(REPO / "src_overlay" / VERSION_HEADER, tree / VERSION_HEADER)
    assert content(by_hand) == content(tree)
    with pytest.raises(Failure, match="patched by hand"):
        patching.apply(by_hand)
    assert content(by_hand) == content(tree)


def refuses(tree: Path, says: str, function: Any = patching.apply) -> None:
    before = content(tree)
    with pytest.raises((Failure, OSError, KeyboardInterrupt), match=says):
        function(tree)
    assert content(tree) == before


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_apply_refuses_another_version(tree: Path) -> None:
    edit(tree / "maint/version.m4", "[4.0.2]", "[3.4.3]")
    refuses(tree, "this is MPICH 3.4.3; supported: 4.0.x")


def test_apply_refuses_an_overlapping_change(tree: Path) -> None:
    name = "src/mpi/coll/coll_algorithms.txt"
    edit(tree / name, "allgather-inter:", "allgather-inter-changed:")
    refuses(tree, f"[^\n]* does not apply: {name} differs from MPICH 4.0.2; nothing was changed$")


@pytest.mark.parametrize("version", ["4.0.3", "4.0", "4.0.3rc1"])
def test_apply_warns_of_a_release_that_is_not_tested(
    tree: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    edit(tree / "maint/version.m4", "[4.0.2]", f"[{version}]")
    assert "patches applied" in patching.apply(tree)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"MPICH {version} is not tested; tested: 4.0.2" in said


@pytest.mark.parametrize("version", ["4.00.2", "4.01", "40.2", "main", "", "5.2.0a1"])
def test_apply_refuses_what_looks_like_a_version(tree: Path, version: str) -> None:
    edit(tree / "maint/version.m4", "[4.0.2]", f"[{version}]")
    refuses(tree, f"this is MPICH {version}; supported: 4.0.x")


@pytest.mark.parametrize("count", [1, 5, -1])
def test_apply_refuses_a_tree_that_is_patched_in_part(
    tree: Path, source: sources.Source, count: int
) -> None:
    patches = series(source.row)[:count]
    apply_patches(tree, patches)
    refuses(
        tree, f"patched in part, by hand: it has {patches[-1].name} already; nothing was changed$"
    )


def git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    done = subprocess.run(
        ["git", *who, *words], cwd=tree, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_apply_to_a_git_checkout(tree: Path) -> None:
    """Changes that are not committed are refused where they are in a file that we would edit."""
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "all")
    name = "src/mpi/coll/coll_algorithms.txt"
    edit(tree / name, "barrier-intra:", "# mine\n\nbarrier-intra:")
    edit(tree / "src/mpi/coll/allgather/allgather_intra_ring.c", "int", "int ")
    for staged in (False, True):
        if staged:
            git(tree, "add", "-A")
        refuses(tree, f"has changes that are not committed: {name}; commit or stash them")
    git(tree, "commit", "-q", name, "-m", "mine")
    before = git(tree, "status", "--porcelain")
    patching.apply(tree)
    patching.reverse(tree)
    assert (
        git(tree, "status", "--porcelain")
        == before
        == "M  src/mpi/coll/allgather/allgather_intra_ring.c\n"
    )
    # a record that nobody has written stops us, too
    (tree / ".git/HEAD").write_text("nonsense")
    refuses(tree, "git cannot tell what is changed there")


def test_apply_tells_the_commit(tree: Path, repo: Path) -> None:
    """The last one that changed what is put into MPICH; the version alone without git"""

    def told() -> str:
        assert maint("apply", tree, repo=repo).returncode == 0
        text = (tree / VERSION_HEADER).read_text()
        assert "already applied" in maint("apply", tree, repo=repo).stdout
        assert maint("apply", "--reverse", tree, repo=repo).returncode == 0
        (found,) = re.findall(r'MPII_TOPO_VERSION "(.*)"', text)
        return found

    version = told()
    assert re.fullmatch(r"mpich-topo \d+\.\d+", version)
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "all")
    commit = git(repo, "rev-parse", "HEAD")[:12]
    (repo / "README.md").write_text("another")
    git(repo, "commit", "-q", "-a", "-m", "words")
    (repo / "README.md").write_text("and another")
    assert told() == f"{version} ({commit})"
    added = repo / "src_overlay" / overlay_files()[0]
    added.write_text(added.read_text() + "\n")
    assert told() == f"{version} ({commit} with changes)"


def test_apply_keeps_a_change_elsewhere(tree: Path) -> None:
    name = tree / "src/mpi/coll/coll_algorithms.txt"
    edit(name, "barrier-intra:", "# mine\n\nbarrier-intra:")
    before = content(tree)
    patching.apply(tree)
    assert "# mine" in name.read_text()
    patching.reverse(tree)
    assert content(tree) == before


def test_apply_refuses_a_file_in_the_way(tree: Path) -> None:
    name = overlay_files()[0]
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("mine")
    refuses(tree, re.escape(name))


def test_apply_refuses_a_missing_file(tree: Path) -> None:
    (tree / "src/mpi/coll/cvars.txt").unlink()
    refuses(tree, "cvars.txt is missing")


def test_reverse_refuses_changed_files(tree: Path) -> None:
    patching.apply(tree)
    edit(tree / "src/mpi/coll/cvars.txt", "allgather", "allgather ")
    refuses(tree, "cvars.txt", patching.reverse)


def test_apply_refuses_another_state_of_ours(tree: Path, repo: Path) -> None:
    patching.apply(tree)
    before = content(tree)
    added = repo / "src_overlay" / overlay_files()[0]
    added.write_text(added.read_text() + "\n")
    result = maint("apply", tree, repo=repo)
    assert result.returncode == 1
    assert "another state of mpich-topo is applied" in result.stderr
    assert content(tree) == before
    # the record in the tree suffices to take it back
    assert maint("apply", "--reverse", tree, repo=repo).returncode == 0
    assert not (tree / patching.RECORD).exists()


def test_damaged_record(tree: Path) -> None:
    patching.apply(tree)
    (tree / patching.RECORD).write_text('{"what": ')
    refuses(tree, "damaged")
    refuses(tree, "damaged", patching.reverse)


@pytest.mark.parametrize("call", range(0, 12, 3))
@pytest.mark.parametrize("error", [KeyboardInterrupt("^C"), OSError(28, "No space left")])
def test_apply_cut_short(
    tree: Path, monkeypatch: pytest.MonkeyPatch, call: Any, error: Any
) -> None:
    fail_at(monkeypatch, call, error)
    refuses(tree, "C|space")


def fail_at(monkeypatch: pytest.MonkeyPatch, call: Any, error: Any) -> None:
    calls = iter(range(1000))
    replace = os.replace

    def failing(*args: Any) -> None:
        if next(calls) == call:
            raise error
        replace(*args)

    monkeypatch.setattr(patching.os, "replace", failing)


def test_apply_killed_is_undone_by_the_next(tree: Path) -> None:
    before = content(tree)
    script = (
        "import os, pathlib, patching; n = iter(range(99)); replace = os.replace\n"
        "def dying(*args):\n"
        "    os._exit(9) if next(n) == 5 else replace(*args)\n"
        f"os.replace = dying; patching.apply(pathlib.Path({str(tree)!r}))"
    )
    killed = subprocess.run([sys.executable, "-c", script], cwd=REPO / "maint", check=False)
    assert killed.returncode == 9
    assert content(tree) != before
    assert "undid a run that was cut short" in patching.reverse(tree)
    assert content(tree) == before


@pytest.mark.parametrize(
    "path, says",
    [
        ("nowhere", "no such folder"),
        (".", "no maint/version.m4"),
        ("file", "unpack it"),
    ],
)
def test_apply_to_no_tree(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "file").write_text("")
    result = maint("apply", tmp_path / path)
    assert result.returncode == 1
    assert says in result.stderr


def small_disk(tree: Path, tmp_path: Path, script: str) -> Job:
    """Run a script with TREE on a disk that is full, in a namespace of its own."""
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    (tmp_path / "disk").mkdir()
    setup = (
        f"mount -t tmpfs -o size={size + 600_000} none disk && cp -a {tree} disk/tree"
        " && { cat /dev/zero >disk/fill || true; } 2>/dev/null"
    )
    unshare = ["unshare", "-rm", "sh", "-c"]
    probe = subprocess.run([*unshare, setup], cwd=tmp_path, capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("cannot mount a small disk (no user namespaces)")
    return subprocess.run(
        [*unshare, f"{setup}; {script}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_apply_on_a_full_disk(tree: Path, tmp_path: Path) -> None:
    script = f"{sys.executable} {REPO}/maint/apply disk/tree; echo $?; diff -r {tree} disk/tree"
    result = small_disk(tree, tmp_path, script)
    assert result.stdout == "1\n"
    assert "No space left" in result.stderr


def test_apply_without_permission(tree: Path, tmp_path: Path) -> None:
    script = (
        "mkdir ro && mount --bind tree ro && mount -o remount,ro,bind ro &&"
        f" {sys.executable} {REPO}/maint/apply ro"
    )
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount:" in result.stderr or "unshare:" in result.stderr:
        pytest.skip("cannot mount read-only (no user namespaces)")
    assert result.returncode == 1
    assert "no permission to write" in result.stderr or "Read-only" in result.stderr


# -- sources ----------------------------------------------------------------------------------


def test_versions_file() -> None:
    rows = versions()
    assert (REPO / "patches" / rows[0]["series"]).is_dir()
    assert len({row["series"] for row in rows}) == len(rows)
    for row in rows:
        assert all(release.startswith(row["series"] + ".") for release in row["tested"])
        if "debian" in row:
            assert re.fullmatch(r"[0-9a-f]{64}", row["sha256"])
            assert row["tested"][0] in row["tarball"]
        else:
            assert re.fullmatch(r"[0-9a-f]{40}", row["commit"])


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("nowhere", None, "no such file"),
        ("empty.tar.gz", b"", "not a readable tarball"),
        ("text.tar.xz", b"not a tarball at all\n" * 99, "not a readable tarball"),
    ],
)
def test_bad_tarball(tmp_path: Path, name: str, text: bytes | None, says: str) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text)
    result = maint("fetch", env={"MPICH_SRC": str(tmp_path / name)})
    assert result.returncode == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_tarballs_and_trees_are_the_same(tree: Path, tmp_path: Path, kind: str) -> None:
    (tree / "maint/link").symlink_to("version.m4")
    tarball = tmp_path / f"mpich-4.0.2.tar.{kind}"
    subprocess.run(["tar", "-caf", tarball, "-C", tree.parent, tree.name], check=True)
    for path in (tarball, tree):
        source = sources.Source(path)
        dest = tmp_path / f"from-{path.name}"
        source.copy(dest)
        assert content(dest) == content(tree)
        some = tmp_path / f"some-{path.name}"
        source.copy(some, only=["maint/version.m4", "not/there"])
        assert [p.name for p in some.rglob("*") if p.is_file()] == ["version.m4"]


def test_truncated_tarball(tree: Path, tmp_path: Path) -> None:
    tarball, short = tmp_path / "whole.tar.gz", tmp_path / "short.tar.gz"
    subprocess.run(["tar", "-caf", tarball, "-C", tree.parent, tree.name], check=True)
    short.write_bytes(tarball.read_bytes()[:2000])
    with pytest.raises(Failure, match="not a readable tarball"):
        sources.Source(short)


MODULES = ["modules/hwloc", "modules/json-c"]


def version_tree(path: Path, version: str, configured: bool = False) -> Path:
    """A tree that says that it is of a version, and has little else."""
    (path / "maint").mkdir(parents=True)
    (path / "maint/version.m4").write_text(f"m4_define([MPICH_VERSION_m4],[{version}])dnl\n")
    if configured:
        (path / "configure").write_text("")
    return path


def test_sources_of_several_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in MPICH_SRC, or put into the cache by the user."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("MPICH_TOPO_CACHE", str(cache))
    first, second = (version_tree(tmp_path / v, v) for v in ("5.0.1", "4.3.7"))
    monkeypatch.setenv("MPICH_SRC", f"{first}:{second}")
    rows = {row["series"]: row for row in versions()}
    found = {name: sources.find(row) for name, row in rows.items()}
    assert {name: source and source.path for name, source in found.items()} == {
        **dict.fromkeys(rows),
        "5.0": first,
        "4.3": second,
    }
    assert sources.source_path() == first
    monkeypatch.delenv("MPICH_SRC")
    assert sources.find(rows["5.0"]) is None
    for version in ("5.0.0", "5.0.2"):
        subprocess.run(
            [
                "tar",
                "-caf",
                cache / f"mpich-{version}.tar.gz",
                "-C",
                version_tree(tmp_path / "new", version).parent,
                "new",
            ],
            check=True,
        )
        shutil.rmtree(tmp_path / "new")
    untested = sources.find(rows["5.0"])
    assert untested and untested.version == "5.0.2"
    version_tree(cache / "mpich-5.0.1", "5.0.1")
    tested = sources.find(rows["5.0"])
    assert tested and tested.version == "5.0.1"


def test_fetch_of_an_unknown_version() -> None:
    result = maint("fetch", "--versions", "4.2")
    assert result.returncode == 1
    assert "'4.2' is not a version of MPICH that is supported: 4.0, 4.3, 5.0, main" in result.stderr


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Row:
    """A repository with a release and two submodules, of which one is needed; its row."""
    monkeypatch.setenv("MPICH_TOPO_CACHE", str(tmp_path / "cache"))
    # what git does not do by itself, but with https
    for number, (key, value) in enumerate([("protocol.file.allow", "always")]):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    upstream = version_tree(tmp_path / "upstream", "5.0.1")
    git(upstream, "init", "-q")
    for name in ("modules/hwloc", "modules/ucx"):
        module = tmp_path / name
        module.mkdir(parents=True)
        git(module, "init", "-q")
        (module / "configure.ac").write_text("")
        git(module, "add", "-A")
        git(module, "commit", "-q", "-m", "all")
        git(upstream, "submodule", "add", "-q", str(module), name)
    git(upstream, "add", "-A")
    git(upstream, "commit", "-q", "-m", "all")
    git(upstream, "tag", "v5.0.1")
    monkeypatch.setattr(sources, "GIT", f"file://{upstream}")
    commit = git(upstream, "rev-parse", "HEAD").strip()
    return {"series": "5.0", "tested": ["5.0.1"], "commit": commit, "submodules": ["modules/hwloc"]}


def test_fetch_of_a_branch(repository: Row, tmp_path: Path) -> None:
    """Its commit, although the branch has moved on."""
    upstream = tmp_path / "upstream"
    git(upstream, "tag", "-d", "v5.0.1")
    git(upstream, "commit", "-q", "--allow-empty", "-m", "later")
    row = repository | {"folder": "main"}
    path = sources.fetch(row)
    assert git(path, "rev-parse", "HEAD").strip() == row["commit"]
    assert (path / "modules/hwloc/configure.ac").exists()


def test_fetch_from_git(repository: Row, tmp_path: Path) -> None:
    path = sources.fetch(repository)
    assert path == tmp_path / "cache/mpich-5.0.1"
    assert (path / "modules/hwloc/configure.ac").exists()
    assert not (path / "modules/ucx/configure.ac").exists()
    assert sources.Source(path).version == "5.0.1"
    dest = tmp_path / "copy"
    sources.Source(path).copy(dest)
    assert not list(dest.rglob(".git"))
    shutil.rmtree(tmp_path / "upstream")
    assert sources.fetch(repository) == path


@pytest.mark.parametrize(
    "change, says",
    [
        ({"commit": "0" * 40}, "expected commit 0000"),
        ({"tested": ["5.0.9"]}, r"MPICH_SRC=PATH(?s:.*)mpich-5\.0\.9\.tar\.gz"),
    ],
)
def test_fetch_from_git_fails(repository: Row, tmp_path: Path, change: Row, says: str) -> None:
    with pytest.raises(Failure, match=says):
        sources.fetch(repository | change)
    left = [path.name for path in (tmp_path / "cache").iterdir() if path.name != "tmp"]
    assert left == ["fetch.lock"] and not list((tmp_path / "cache/tmp").iterdir())


def test_mirrors(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://comment/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/keys/a.gpg] http://one/debian/ bookworm main contrib\n"
        "deb cdrom:[Debian]/ bookworm main\n"
        "deb http://security/debian-security bookworm-security main\n"
        "deb-src http://newer/debian trixie main # why\n"
    )
    (tmp_path / "sources.list.d/debian.sources").write_text(
        "Types: deb\n# comment\nURIs: http://two/debian\nSuites: bookworm bookworm-updates\n"
        "Components: main\nSigned-By: /keys/b.gpg\n\n"
        "Types: deb\nEnabled: no\nURIs: http://off/debian\nSuites: bookworm\nComponents: main\n\n"
        "Types: deb\nURIs: https://other/node\nSuites: nodistro\nComponents: main\n"
    )
    (tmp_path / "sources.list.d/vendor.list").write_text("deb http://v/apt sdk-bookworm main\n")
    found = sources.mirrors(tmp_path)
    assert [uri for uri, _ in found] == [
        "http://one/debian",
        "http://two/debian",
        "http://newer/debian",
    ]
    assert found[0][1] == "Signed-By: /keys/a.gpg"
    assert found[1][1] == "Signed-By: /keys/b.gpg"


@pytest.fixture
def fake_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that downloads rubbish."""
    path = tmp_path / "fake/apt-get"
    path.parent.mkdir()
    path.write_text(
        '#!/bin/sh\ncase "$*" in *update*) ;; *) echo bad >mpich_4.0.2.orig.tar.xz ;; esac\n'
    )
    path.chmod(0o755)
    monkeypatch.setattr(sources, "mirrors", lambda: [("http://mirror/debian", "")])
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("MPICH_TOPO_CACHE", str(tmp_path / "cache"))
    return path


def test_wrong_checksum(fake_apt: Path, tmp_path: Path) -> None:
    row = versions()[0]
    with pytest.raises(Failure, match="expected sha256 " + row["sha256"]):
        sources.fetch(row)
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["fetch.lock"]


def test_damaged_cache_is_fetched_again(fake_apt: Path, tmp_path: Path) -> None:
    row = versions()[0]
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / row["tarball"]).write_text("bad")
    with pytest.raises(Failure, match="removed it"):
        sources.fetch(row)
    assert not (tmp_path / "cache" / row["tarball"]).exists()


def test_no_network(fake_apt: Path) -> None:
    fake_apt.write_text("#!/bin/sh\necho 'E: no network' >&2; exit 100\n")
    with pytest.raises(Failure, match=r"MPICH_SRC=PATH(?s:.*)E: no network"):
        sources.fetch(versions()[0])


# -- build ------------------------------------------------------------------------------------

CONFIGURE = """#!/bin/sh
for arg; do case $arg in --prefix=*) prefix=${arg#*=} ;; esac; done
cat >Makefile <<EOF
all: ; $MAKE_DOES
install: ; mkdir -p \\$(DESTDIR)$prefix/bin \\$(DESTDIR)$prefix/lib
\techo made >\\$(DESTDIR)$prefix/bin/mpiexec
EOF
"""


@dataclass
class Pretended:
    build: Callable[..., subprocess.Popen[str]]
    tree: Path
    repo: Path
    cache: Path

    def __call__(self, make: str = "true", option: str = "--stock") -> subprocess.Popen[str]:
        return self.build(make, option)


@pytest.fixture
def pretend(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretended:
    """build(make="command", option=): `maint/build --stock` of a pretended MPICH in the copied repo."""
    tree = tmp_path / "pretended"
    (tree / "maint").mkdir(parents=True)
    (tree / "maint/version.m4").write_text("m4_define([MPICH_VERSION_m4],[4.0.2])dnl\n")
    (tree / "configure").write_text(CONFIGURE)
    (tree / "configure").chmod(0o755)
    monkeypatch.setenv("MPICH_TOPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPICH_SRC", str(tree))

    def start(make: str, option: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, repo / "maint/build", option],
            env=os.environ | {"MAKE_DOES": make},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return Pretended(start, tree, repo, tmp_path / "cache")


def test_checkout_without_modules(pretend: Pretended) -> None:
    """Those that every build needs are asked for; the others are left out."""
    (pretend.tree / "configure").unlink()
    for name in ("hwloc", "json-c", "libfabric", "ucx"):
        (pretend.tree / "modules" / name).mkdir(parents=True)
    result = pretend()
    assert (
        "empty: modules/hwloc modules/json-c; git submodule update --init modules/hwloc"
        " modules/json-c\n"
    ) in result.communicate()[1]
    assert entries(pretend.cache) == ([], [])
    for name in ("hwloc", "json-c", "ucx"):
        (pretend.tree / "modules" / name / "configure.ac").write_text("")
    (pretend.tree / "autogen.sh").write_text(
        "#!/bin/sh\n# knows -yaksa-depth=N\n"
        f'echo "$@" >{pretend.cache}/options\ncat >configure <<"END"\n{CONFIGURE}END\n'
        "chmod +x configure\n"
    )
    (pretend.tree / "autogen.sh").chmod(0o755)
    result = pretend()
    assert result.wait() == 0, result.communicate()
    assert (pretend.cache / "options").read_text() == "-without-ofi -yaksa-depth=0\n"


def test_no_stock_build_of_a_patched_tree(pretend: Pretended) -> None:
    (pretend.tree / patching.RECORD).write_text("{}")
    assert "patched; no stock MPICH can be built from it" in pretend().communicate()[1]


def test_a_refusal_names_the_source_of_the_user(pretend: Pretended) -> None:
    """and not the copy that is built, of which nothing is left"""
    added = pretend.tree / overlay_files()[0]
    for file in (f for patch in series(versions()[0]) for f in touched(patch.read_text())):
        (pretend.tree / file).parent.mkdir(parents=True, exist_ok=True)
        (pretend.tree / file).write_text("")
    added.parent.mkdir(parents=True, exist_ok=True)
    added.write_text("")
    said = pretend(option="--cache").communicate()[1]
    assert said.startswith(
        f"build: {pretend.tree}: patched by hand, or not what the series was made"
    )
    assert said.count("\n") == 1 and entries(pretend.cache) == ([], [])
    added.unlink()
    said = pretend(option="--cache").communicate()[1]
    assert said.startswith(f"build: {pretend.tree}: 0001-") and said.count("\n") == 1
    assert "does not apply" in said and entries(pretend.cache) == ([], [])


def test_library_of_a_checkout_has_the_name_of_a_release(pretend: Pretended) -> None:
    assert pretend(make="touch libmpi.so.0").wait() == 0
    (build,) = entries(pretend.cache)[0]
    assert not (build / "lib/libmpi.so.12").exists()
    text = CONFIGURE.replace(
        "\techo made",
        "\tcd \\$(DESTDIR)$prefix/lib; touch libmpi.so.0; ln -s libmpi.so.0 libmpi.so\n\techo made",
    )
    (pretend.tree / "configure").write_text(text)
    assert pretend().wait() == 0
    (build,) = set(entries(pretend.cache)[0]) - {build}
    assert (build / "lib/libmpi.so.12").resolve() == build / "lib/libmpi.so.0"


def entries(cache: Path) -> tuple[list[Path], list[Path]]:
    builds = list((cache / "builds").glob("*")) if (cache / "builds").exists() else []
    return builds, list((cache / "tmp/build").glob("*"))


def test_build_is_cached(pretend: Pretended) -> None:
    job = pretend()
    out, err = job.communicate()
    assert job.returncode == 0, err
    assert "Building MPICH 4.0.2, stock" in out
    assert (pretend.repo / "build/stock/bin/mpiexec").read_text() == "made\n"
    built, left = entries(pretend.cache)
    assert (len(built), left) == (1, [])
    assert pretend().communicate()[0] == ""
    # another source, another entry
    (pretend.tree / "new").write_text("")
    assert "Building" in pretend().communicate()[0]
    assert len(entries(pretend.cache)[0]) == 2


def test_failed_build_leaves_nothing(pretend: Pretended) -> None:
    job = pretend("echo the reason; false")
    _, err = job.communicate()
    assert job.returncode == 1
    assert "the reason" in err
    assert "build/log/mpich-stock.log" in err
    assert entries(pretend.cache) == ([], [])


def test_configure_gets_the_flags_that_it_asks_for(pretend: Pretended) -> None:
    """4.0.2 says so of gfortran. Other errors are shown, and where configure's own log is."""
    said = "configure: error: no.  Rerun configure with FFLAGS=-fallow-x and FCFLAGS=-fallow-x"
    check = f'case "$*" in *" FFLAGS=-O1 -fallow-x FCFLAGS= -fallow-x") ;; *) echo "{said}"; exit 1 ;; esac\n'
    configure = pretend.tree / "configure"
    configure.write_text(CONFIGURE.replace("#!/bin/sh\n", f"#!/bin/sh\n{check}"))
    job = subprocess.Popen(
        [sys.executable, pretend.repo / "maint/build", "--stock"],
        env=os.environ | {"MAKE_DOES": "true", "MPICH_CONFIGURE": "FFLAGS=-O1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.wait() == 0, job.communicate()
    configure.write_text("#!/bin/sh\necho why >config.log; echo 'configure: error: no C'; exit 1\n")
    said = pretend().communicate()[1]
    assert "configure: error: no C" in said and "mpich-stock-config.log" in said
    assert (pretend.repo / "build/log/mpich-stock-config.log").read_text() == "why\n"


def test_a_build_moves_to_a_prefix(tmp_path: Path) -> None:
    """In texts and in programs, which stay what they were beside the path."""
    build = load("build")
    entry, folder = tmp_path / "entry", tmp_path / "folder"
    prefix = tmp_path / ("longer" * 8)
    folder.mkdir()
    long = f"{entry}{build.PADDING}"
    source = folder / "x.c"
    source.write_text(
        "#include <stdio.h>\nconst char *volatile path = PATH;\nint main(void) { return puts(path) < 0; }\n"
    )
    for name in ("program", "library.so"):
        kind = ["-shared", "-fPIC"] if name.endswith("so") else []
        words = [f'-DPATH="-L{long}/lib:{long}"', f"-Wl,-rpath,{long}/lib", str(source)]
        subprocess.run(["cc", *kind, "-o", folder / name, *words], check=True)
    source.unlink()
    (folder / "mpicc").write_text(f"prefix={long}\n")
    build.move(folder, entry, entry, only_text=True)
    assert (folder / "mpicc").read_text() == f"prefix={entry}\n"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.suffix != ""}
    build.move(folder, entry, prefix)
    assert (folder / "mpicc").read_text() == f"prefix={prefix}\n"
    assert sizes == {
        path.name: path.stat().st_size for path in folder.iterdir() if path.suffix != ""
    }
    done = subprocess.run([folder / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == f"-L{prefix}/lib:{prefix}\n"
    assert str(entry).encode() not in b"".join(path.read_bytes() for path in folder.iterdir())
    with pytest.raises(Failure, match="expected a path of at most"):
        (folder / "again").write_bytes(f"\0{long}\0".encode())
        build.move(folder, entry, tmp_path / ("long" * 80))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_build_leaves_nothing(pretend: Pretended, tmp_path: Path, number: int) -> None:
    pid = tmp_path / "pid"
    job = pretend(f"echo $$$$ >{pid}; exec sleep 60")
    while not (pid.exists() and pid.read_text().strip()):
        assert job.poll() is None
        time.sleep(0.05)
    job.send_signal(number)
    job.communicate(timeout=10)
    assert job.returncode == 128 + number
    assert entries(pretend.cache) == ([], [])
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_two_builds_at_once(pretend: Pretended) -> None:
    jobs = [pretend("sleep 1"), pretend("sleep 1")]
    outs = [job.communicate() for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], outs
    assert sum("Built in" in out for out, _ in outs) == 1
    assert len(entries(pretend.cache)[0]) == 1


def test_recipes_of_other_builders_are_up_to_date() -> None:
    """EasyBuild's takes a tested release and this version; Spack's refuses what has no series."""
    (easyconfig,) = (REPO / "maint/easybuild").glob("*.eb")
    text = easyconfig.read_text()
    found = re.findall(r"^(?:local_topo|version) = '(.*)'$", text, re.MULTILINE)
    release, topo = found
    assert topo == topo_version()
    assert easyconfig.name == f"MPICH-{release}-GCC-13.3.0-topo-{topo}.eb"
    assert release in [tested for row in versions() for tested in row["tested"]]
    # EasyBuild's own steps for MPICH keep its flags out of mpicc
    assert "easyblock" not in text and "maint/build --tools %(installdir)s" in text
    compile(text, easyconfig.name, "exec")
    package = (
        REPO / "maint/spack/spack_repo/mpich_topo/packages/mpich_topo/package.py"
    ).read_text()
    compile(package, "package.py", "exec")
    released = [row["series"] for row in versions() if "folder" not in row]
    assert ", ".join(released).replace(", 5", " and 5") in package


# -- dist --------------------------------------------------------------------------------------


def test_dist(repo: Path, tree: Path, tmp_path: Path) -> None:
    """The same tarballs each time; what is not committed is in none of them."""
    # what autogen.sh makes
    (tree / "autogen.sh").write_text("#!/bin/sh\necho made >configure\nmkdir autom4te.cache\n")
    (tree / "autogen.sh").chmod(0o755)
    for name in MODULES:
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name / "configure.ac").write_text("")
    env = {"MPICH_SRC": str(tree), "MPICH_TOPO_CACHE": str(tmp_path / "cache")}
    result = maint("dist", repo=repo, env=env)
    assert result.returncode == 1 and "not a git repository" in result.stderr
    (repo / ".gitignore").write_text("build/\n__pycache__/\n")
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "all")
    (repo / "maint/new").write_text("")
    seen = []
    for _ in range(2):
        result = maint("dist", repo=repo, env=env)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "not in it, because not committed: 1 changes" in result.stdout
        ours, mpich = sorted((repo / "build/dist").iterdir(), reverse=True)
        assert ours.name.startswith("mpich-topo-") and mpich.name.startswith("mpich-4.0.2-topo-")
        seen.append((ours.read_bytes(), mpich.read_bytes()))
    assert seen[0] == seen[1]
    with tarfile.open(ours) as tar:
        names = {name.split("/", 1)[-1] for name in tar.getnames()}
        assert {
            "maint/dist",
            "cvars/algorithms.toml",
            "Makefile",
        } <= names and "maint/new" not in names
    with tarfile.open(mpich) as tar:
        names = {name.split("/", 1)[-1] for name in tar.getnames()}
        assert {"configure", patching.RECORD, *overlay_files()} <= names
        assert not any("autom4te.cache" in name for name in names)


def test_debian_source_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH, Debian's folder, and all that builds the tools"""
    if not shutil.which("dpkg-source"):
        pytest.skip("no dpkg-source")
    dist = load_program(REPO / "maint/dist")
    tree = version_tree(tmp_path / "mpich-4.0.2-topo-0.1", "4.0.2", configured=True)
    tarball, tools = tmp_path / "mpich.tar.gz", tmp_path / "tools.tar.gz"
    subprocess.run(["tar", "-czf", tarball, "-C", tmp_path, tree.name], check=True)
    folders = ["bench", "maint", "src_overlay", "test/tools"]
    inside = "--transform=s,^,mpich-topo-0.1/,"
    subprocess.run(["tar", "-czf", tools, inside, "-C", REPO, "LICENSE", *folders], check=True)
    monkeypatch.setattr(dist, "BUILD", tmp_path)
    monkeypatch.setenv("DEBEMAIL", "me@here.org")
    dsc = dist.pack_debian(tarball, tools, "4.0.2", tmp_path)
    version = f"{topo_version()}+mpich4.0.2"
    assert dsc.name == f"mpich-topo_{version}.dsc" and f"\nVersion: {version}\n" in dsc.read_text()
    subprocess.run(["dpkg-source", "-x", "--no-check", dsc, "out"], cwd=tmp_path, check=True)
    out = tmp_path / "out"
    assert (out / "configure").is_file() and os.access(out / "debian/rules", os.X_OK)
    for name in ("changelog", "control"):
        assert not re.search("@[A-Z]+@", (out / "debian" / name).read_text())
    assert "\nMaintainer: mpich-topo authors <me@here.org>\n" in dsc.read_text()
    ours = out / "mpich-topo"
    assert {path.name for path in ours.iterdir()} == {*folders[:3], "LICENSE"}
    assert not (ours / "maint/debian").exists()
    build = load_program(ours / "maint/build")
    missing = [file for tool in build.C_TOOLS.values() for file in tool.sources]
    assert [file for file in missing if not list(ours.glob(file))] == []
    done = subprocess.run(
        [sys.executable, "-B", ours / "maint/build", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--tools" in done.stdout


def test_packages_that_the_debian_package_needs() -> None:
    """are those of the tools; Python's compiled files are in no package."""
    rules = (REPO / "maint/debian/rules").read_text()
    assert re.search(r"PYTHONDONTWRITEBYTECODE=1 (.*\\\n)*.*maint/build --tools", rules)
    text = (REPO / "maint/debian/control").read_text()
    lines = (REPO / "maint/requirements.txt").read_text().splitlines()
    names = {re.split("[>#]", line)[0].strip().lower().removeprefix("py") for line in lines}
    built, used = ({*re.findall(r"^ python3-(\w+)", part, re.M)} for part in text.split("\n\n"))
    assert built == used == names - {"", "plotly"}  # Debian's has not the script for pages


# -- set-up, Makefile, check --------------------------------------------------------------------


def test_help_has_every_verb() -> None:
    result = subprocess.run(["make"], cwd=REPO, capture_output=True, text=True, check=True)
    for verb in VERBS:
        assert re.search(rf"^make {verb} +\S", result.stdout, re.MULTILINE), verb


def load(name: str) -> Any:
    """A program of maint/ as a module"""
    return load_program(REPO / "maint" / name)


def test_demo_where_namespaces_are_forbidden(
    bindir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It then simulates, says so, and hints at nothing that cannot work there."""
    demo = load("demo")
    programs(tmp_path / "bin", topo_vcluster="echo 'because ...' >&2; exit 77")
    (tmp_path / "bin/topo-sim").symlink_to(bindir / "topo-sim")
    monkeypatch.setattr(demo, "BIN", tmp_path / "bin")
    monkeypatch.setattr(demo, "OUT", tmp_path / "demo")
    monkeypatch.setattr(sys, "argv", ["demo"])
    assert demo.program() == 0
    said, why = capfd.readouterr()
    assert why == "because ...\n"
    assert "== Simulated: 4 racks" in said and re.search(
        r"^allreduce +1M .* \d+%$", said, re.MULTILINE
    )
    for word in ("tuned", "topo-bench", "report.html"):
        assert word not in said
    hint = said.splitlines()[-1].split()
    assert hint[1:] == ["--help"] and subprocess.run(hint, check=False).returncode == 0
    site = re.search(r"^\$ .* --host-rate (\d+)gbit --uplink-rate (\d+)gbit", said, re.MULTILINE)
    assert site and f"links {site[1]} Gbit/s, uplinks {site[2]} Gbit/s" in said


def programs(folder: Path, **scripts: str) -> dict[str, str]:
    folder.mkdir()
    for name, script in scripts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def setup(repo: Path, env: dict[str, str], *options: str) -> Job:
    return subprocess.run(
        [repo / "maint/setup", "--packages", *options],
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_setup_without_rights_prints_the_command(repo: Path, tmp_path: Path) -> None:
    env = programs(tmp_path / "fake", id="echo 1000", sudo="exit 1", dpkg_query="exit 1")
    result = setup(repo, env)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "apt-get update && apt-get install -y --no-install-recommends build-essential" in line


def test_setup_installs_only_what_is_missing(repo: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = programs(
        tmp_path / "fake",
        id="echo 1000",
        sudo=f'shift; [ $1 = true ] || echo "$@" >>{log}',
        dpkg_query="case $4 in patch) exit 1 ;; *) echo install ok installed ;; esac",
    )
    result = setup(repo, env)
    assert result.returncode == 0, result.stderr
    assert log.read_text().splitlines()[-1].endswith("--no-install-recommends patch")


def test_setup_installs_what_check_all_alone_needs_for_it_only(repo: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = programs(
        tmp_path / "fake",
        id="echo 1000",
        sudo=f'shift; [ $1 = true ] || echo "$@" >>{log}',
        dpkg_query="case $4 in qemu-user) exit 1 ;; *) echo install ok installed ;; esac",
    )
    assert (setup(repo, env).returncode, log.exists()) == (0, False)
    assert setup(repo, env, "--all").returncode == 0
    assert log.read_text().splitlines()[-1].endswith("--no-install-recommends qemu-user")


def test_setup_with_dnf(repo: Path, tmp_path: Path) -> None:
    """On a machine that has dnf instead of apt-get."""
    log, folder = tmp_path / "log", tmp_path / "fake"
    programs(
        folder,
        id="echo 0",
        rpm='case "$*" in *hwloc-devel | *python3.11) exit 1 ;; esac',
        dnf=f'echo "$@" >>{log}',
    )
    for name in ("sh", "sed", "env", "dirname", "mkdir", "sleep", "cat", "tail", "kill"):
        (folder / name).symlink_to(str(shutil.which(name)))
    result = setup(repo, {"PATH": str(folder)})
    assert result.returncode == 0, result.stderr
    assert log.read_text().splitlines() == ["makecache", "install -y hwloc-devel python3.11"]


def test_setup_with_all_there_is_silent(repo: Path, tmp_path: Path) -> None:
    env = programs(tmp_path / "fake", dpkg_query="echo install ok installed", apt_get="exit 1")
    result = setup(repo, env)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_setup_takes_the_python_of_the_system(repo: Path, tmp_path: Path) -> None:
    """Another one that is first in PATH may be in the home of whoever installed it."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no /usr/bin/python3")
    env = programs(tmp_path / "fake", dpkg_query="echo install ok installed", python3="exit 0")
    text = (repo / "maint/setup").read_text()
    (repo / "maint/setup").write_text(text.partition("venv=build/venv")[0] + 'echo "$python"\n')
    for given, taken in (("", "/usr/bin/python3"), (sys.executable, sys.executable)):
        words = {"PYTHON": given} if given else {}
        done = subprocess.run(
            [repo / "maint/setup"],
            env=os.environ | env | words,
            capture_output=True,
            text=True,
            check=False,
        )
        old = sys.version_info < (3, 11) or "no such" in done.stderr
        assert old or done.stdout.strip() == taken, done.stderr


def test_packages_of_tests_are_not_installed(tmp_path: Path) -> None:
    """but all that the tools import is: it works without any other folder of packages"""
    build = load("build")
    build.copy_packages(tmp_path)
    size = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*"))
    assert size <= 200 * 2**20, f"{size / 2**20:.0f} MB"
    assert not [name for name in ("pytest", "mypy", "ruff", "pip") if (tmp_path / name).exists()]
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{build.IMPORTS}\n"
        "import ClusterShell.NodeSet, click, jsonschema, rich.table\n"
        "for kind in ('png', 'svg', 'pdf'):\n"
        f"    matplotlib.pyplot.savefig({str(tmp_path)!r} + f'/x.{{kind}}')\n"
    )
    words = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plotly/package_data/plotly.min.js").exists()


def test_work_under_sudo_is_the_callers(tmp_path: Path) -> None:
    """What root leaves in a clone and in a cache, whose owner has called sudo, is the owner's."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    uid = 54321
    home, clone = tmp_path / "home", tmp_path / "home/clone"
    shutil.copytree(REPO / "maint", clone / "maint", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (home, clone, *clone.rglob("*")):
        os.chown(path, uid, uid)
    passwd = f"import pwd; pwd.getpwuid = lambda n: pwd.struct_passwd(('u', '', n, n, '', {str(home)!r}, ''))\n"
    code = (
        f"import sys; sys.path.insert(0, {str(clone / 'maint')!r})\n{passwd}"
        "import common\n"
        "def work():\n"
        "    (common.BUILD / 'log').mkdir(parents=True)\n"
        "    (common.cache_dir() / 'entry').write_text('')\n"
        "    raise common.Failure('it failed')\n"
        "common.main(work)\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "MPICH_TOPO_CACHE"}
    env |= {"SUDO_UID": str(uid), "SUDO_GID": str(uid), "HOME": "/root"}
    env.pop("XDG_CACHE_HOME", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert done.returncode == 1 and b"it failed" in done.stderr
    for name in ("clone/build/log", ".cache", ".cache/mpich-topo", ".cache/mpich-topo/entry"):
        assert (home / name).stat().st_uid == uid, name
    assert not [path for path in home.rglob("*") if path.lstat().st_uid != uid]


def test_check_ends_in_the_line(repo: Path, tmp_path: Path) -> None:
    (repo / "build").mkdir()
    test = tmp_path / "test_pretended.py"
    test.write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): pass\n"
        "def test_c(): assert False\n"
        "def test_d(): pytest.skip('why')\n"
    )
    result = maint("check", test, repo=repo)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "2 passed, 1 failed, 1 skipped"
    result = maint("check", test, "-k", "test_a or test_b", repo=repo)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "2 passed, 0 failed"
    assert maint("check", tmp_path / "nowhere.py", repo=repo).returncode == 1


def test_check_of_versions(repo: Path, tmp_path: Path) -> None:
    """Each whose source and series are there is built and tested; the others are named."""
    (repo / "build").mkdir()
    (repo / "maint/build").write_text(
        "import os, sys\nprint('build', os.environ['MPICH_SRC'], *sys.argv[1:], flush=True)\n"
    )
    test = tmp_path / "test_pretended.py"
    test.write_text("import os\ndef test_a(): assert '4.0' in os.environ['MPICH_SRC']\n")
    trees = [version_tree(tmp_path / version, version) for version in ("4.0.2", "5.0.1")]
    env = {"MPICH_SRC": ":".join(map(str, trees)), "MPICH_TOPO_CACHE": str(tmp_path / "cache")}
    shutil.rmtree(repo / "patches/5.0", ignore_errors=True)
    (repo / "patches/4.3").mkdir(exist_ok=True)
    (repo / "patches/4.3/0001-x.patch").write_text("")

    def check(wanted: str) -> list[str]:
        result = maint("check", f"--versions={wanted}", test, repo=repo, env=env)
        assert result.returncode == (0 if "2 failed" not in result.stdout else 1)
        return [
            line for line in result.stdout.splitlines() if re.match("build |MPICH|[0-9]+ p", line)
        ]

    built = [f"build {trees[0]}", f"build {trees[0]} --stock"]
    assert check("default") == [*built, "1 passed, 0 failed"]
    skipped = [
        "MPICH 4.3: skipped, no source: MPICH_SRC=PATH names one, make fetch VERSIONS=4.3 downloads it",
        "MPICH 5.0: skipped, patches/5.0 has no patches",
        "MPICH 5.1: skipped, no source: MPICH_SRC=PATH names one, make fetch VERSIONS=main downloads it",
    ]
    assert check("all") == [
        *built,
        *skipped,
        "MPICH 4.0.2: 1 passed, 0 failed",
        "1 passed, 0 failed",
    ]
    # nothing to test is no success
    result = maint("check", "--versions=4.3", test, repo=repo, env=env)
    assert result.returncode == 1 and result.stdout.splitlines()[-2:] == [
        skipped[0],
        "0 passed, 0 failed",
    ]
    (repo / "patches/5.0").mkdir()
    (repo / "patches/5.0/0001-x.patch").write_text("")
    result = maint("check", "--versions=5.0,4.0", test, repo=repo, env=env)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-3:] == [
        "MPICH 5.0.1: 0 passed, 1 failed",
        "MPICH 4.0.2: 1 passed, 0 failed",
        "1 passed, 1 failed",
    ]


def test_results_make_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PATH", tmp_path / "results.json")
    folder = tmp_path / "bin"
    programs(
        folder,
        mpichversion="echo 'MPICH Version: 5.0.1'; echo 'MPICH Device: ch3:sock'",
        mpicc="echo 'gcc (Debian 12.2.0-14) 12.2.0'; echo more",
    )
    counts = Counter(
        {"unit passed": 7, "library passed": 5, "library failed": 1, "tools skipped": 2}
    )
    monkeypatch.setattr(results, "commit", lambda: "abc")
    for _ in range(2):  # the second in place of the first
        results.record(folder, counts, slow=False)
    text = results.generate()[results.README].decode()
    row = "| 5.0.1 | ch3:sock | gcc 12.2.0 | 7 | 5, 1 failed | 0, 2 skipped | - |"
    assert re.search(re.escape(row) + r" 20\d\d-\d\d-\d\d \| abc \|\n\n<!-- end", text)
    assert text.count("| 5.0.1 |") == 1
    old = {key: value for key, value in results.load()[0].items() if key not in ("commit", "date")}
    assert f"{row} not known | not known |" in results.table([old])


def test_results_tell_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "REPO", tmp_path)
    for name in ("PATH", "README"):
        monkeypatch.setattr(results, name, tmp_path / name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert results.commit() == "no git"
    git(tmp_path, "init", "-q")
    for name in ("PATH", "README", "other"):
        (tmp_path / name).write_text("")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "all")
    (tmp_path / "README").write_text("a new table")
    commit = git(tmp_path, "rev-parse", "--short=12", "HEAD").strip()
    assert results.commit() == commit
    (tmp_path / "other").write_text("changed")
    assert results.commit() == f"{commit} and changes"


def test_results_of_another_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that has run the library tests with another build tells how many, and that is a row."""
    monkeypatch.setattr(results, "PATH", tmp_path / "results.json")
    for device in ("ch3:sock", "ch4:ofi"):
        programs(
            tmp_path / f"{device} bin",
            mpichversion=f"echo 'MPICH Version: 5.0.1'; echo 'MPICH Device: {device}'",
            mpicc="echo 'gcc (Debian 12.2.0-14) 12.2.0'",
        )
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_pretended.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('failed', [0, 2])\n"
        "def test_a(failed, record_property):\n"
        f"    record_property('bindir', {str(tmp_path / 'ch4:ofi bin')!r})\n"
        "    for kind, n in (('passed', 8), ('failed', failed), ('skipped', 0)):\n"
        "        record_property(kind, n)\n"
        "    assert not failed\n"
    )
    report = tmp_path / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junit-xml={report}",
    ]
    subprocess.run([*command, "test"], cwd=tmp_path, check=False, capture_output=True)
    text = report.read_text().replace("test.test_pretended", "test.library.test_ch4")
    report.write_text(text)
    results.record(tmp_path / "ch3:sock bin", results.count(report), slow=True)
    text = results.generate()[results.README].decode()
    assert "| 5.0.1 | ch3:sock | gcc 12.2.0 | - | 1, 1 failed | - | - |" in text
    assert "| 5.0.1 | ch4:ofi | gcc 12.2.0 | - | 16, 2 failed | - | - |" in text
    results.PATH.unlink()
    results.record(None, results.count(report), slow=True)
    assert [row["device"] for row in results.load()] == ["ch4:ofi"]


def test_only_all_tests_are_recorded(repo: Path) -> None:
    for words in (["--record"], ["--record", "--versions=4.0", "test/tools"]):
        result = maint("check", *words, repo=repo)
        assert result.returncode == 1
        text = "check: --record is for all tests of --versions=LIST, or test/library/test_ch4.py\n"
        assert result.stderr == text


def test_check_of_a_folder(repo: Path, tmp_path: Path) -> None:
    """Both parts count, and what is to run alone does."""
    (repo / "build").mkdir()
    folder, log = tmp_path / "tests", tmp_path / "log"
    folder.mkdir()
    for name in "ab":
        (folder / f"test_{name}.py").write_text(
            "import os, pytest, time\n"
            "from pathlib import Path\n"
            f"def note(what): print(what, file=Path({str(log)!r}).open('a'))\n"
            "def test_any():\n"
            "    time.sleep(0.5)\n"
            "    note(os.environ['PYTEST_XDIST_WORKER'])\n"
            "@pytest.mark.alone\n"
            "def test_alone(): note('alone' if 'PYTEST_XDIST_WORKER' not in os.environ else '-')\n"
        )
    result = maint("check", folder, repo=repo)
    assert result.stdout.splitlines()[-1] == "4 passed, 0 failed", result.stdout
    workers = log.read_text().split()
    assert all(word.startswith("gw") for word in workers[:2])
    assert workers[2:] == ["alone", "alone"]


def test_programs_start_with_signals_as_in_the_foreground() -> None:
    ignored = "grep SigIgn /proc/$$/status"
    found = subprocess.run(["sh", "-c", ignored], capture_output=True, text=True, check=True)
    mask = int(found.stdout.split()[1], 16)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        assert not mask >> (number - 1) & 1, number


def test_check_in_the_background() -> None:
    """`make check &` and `nohup make check` run with signals ignored."""
    test = f"{__file__}::{test_programs_start_with_signals_as_in_the_foreground.__name__}"
    pytest_run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", test]
    result = subprocess.run(
        ["sh", "-c", 'trap "" HUP INT QUIT; exec "$@"', "sh", *pytest_run],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_left_process_fails(tmp_path: Path) -> None:
    """A process that a test leaves behind ends the run with an error, and ends."""
    pid = tmp_path / "pid"
    (tmp_path / "test_pretended.py").write_text(
        "import subprocess\n"
        "from pathlib import Path\n"
        "def test_leaves():\n"
        "    process = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "    while b'sleep' not in Path(f'/proc/{process.pid}/cmdline').read_bytes(): pass\n"
        f"    Path({str(pid)!r}).write_text(str(process.pid))\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "conftest", tmp_path],
        env=os.environ | {"PYTHONPATH": str(REPO / "test")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    left = rf"left behind: {pid.read_text().strip()}: sleep 1000 , of .*test_leaves"
    assert re.search(left, result.stdout), result.stdout
    # an ended process that nobody has waited for has no command line
    command = Path(f"/proc/{pid.read_text()}/cmdline")
    assert not command.exists() or not command.read_bytes()


def test_ci_runs_the_readme_command() -> None:
    assert "make check" in (REPO / ".ci/run").read_text()
    packages = (REPO / "maint/packages.txt").read_text()
    assert "python3-venv" in packages
    assert tomllib.loads((REPO / "maint/versions.toml").read_text())["mpich"]
