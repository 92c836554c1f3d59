# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A topology file that cannot be used: one warning, a common fallback, right results. A topology in
a tuning file that cannot be used: MPI_Init fails with one sentence.

Never an assertion, a crash or a hang: run_mpi fails a test whose job does not end in time.
"""

import copy
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kinds import Job, Json, Launch, MakeSite, Require, WriteJson

TOPOLOGY = "MPIR_CVAR_COLL_TOPOLOGY_FILE"
TUNING = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
HOSTS = ["clique0", "clique1", "clique2"]
CLUSTER = {"MPIR_CVAR_NUM_CLIQUES": 3, "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM": "topo_ring"}
RANKS = 4


def changed(*path: Any, to: Any = None, drop: bool = False) -> Any:
    """A function that replaces or drops one value of a site."""

    def change(content: Json) -> Any:
        content = copy.deepcopy(content)
        place = content
        for key in path[:-1]:
            place = place[key]
        if drop:
            del place[path[-1]]
        else:
            place[path[-1]] = to
        return content

    return change


def nan(text: str) -> Any:
    """The first off-diagonal latency becomes `text`, which need not be JSON."""

    def change(content: Json) -> Any:
        content = changed("latency_us", 0, 1, to="HERE")(content)
        return json.dumps(content).replace('"HERE"', text)

    return change


# name: (change of a good site, what the warning must name beside the file)
BAD_CONTENT = {
    "format missing": (changed("format", drop=True), "format"),
    "format unknown": (changed("format", to=99), "format"),
    "format not a number": (changed("format", to="one"), "format"),
    "hosts missing": (changed("hosts", drop=True), "hosts"),
    "hosts not a list": (changed("hosts", to="clique0"), "hosts"),
    "hosts empty": (changed("hosts", to=[]), "hosts"),
    "host not a string": (changed("hosts", 1, to=7), "hosts"),
    "host empty": (changed("hosts", 1, to=""), "hosts"),
    "host not printable": (changed("hosts", 1, to="a\x1b[2J"), "hosts.*control character"),
    "host twice": (changed("hosts", 1, to="clique0"), "hosts"),
    "host more than rows": (changed("hosts", to=[*HOSTS, "clique3"]), "of_host|latency_us"),
    "racks missing": (changed("racks", drop=True), "racks"),
    "racks not an object": (changed("racks", to=[0, 1, 0]), "racks"),
    "rack names missing": (changed("racks", "names", drop=True), "names"),
    "rack names not strings": (changed("racks", "names", to=[0, 1]), "names"),
    "of_host missing": (changed("racks", "of_host", drop=True), "of_host"),
    "of_host short": (changed("racks", "of_host", to=[0, 1]), "of_host"),
    "of_host too large": (changed("racks", "of_host", 1, to=2), "of_host"),
    "of_host negative": (changed("racks", "of_host", 1, to=-1), "of_host"),
    "of_host beyond int": (changed("racks", "of_host", 1, to=2**32), "of_host"),
    "of_host not an integer": (changed("racks", "of_host", 1, to="rack1"), "of_host"),
    "matrix a number": (changed("latency_us", to=5), "latency_us"),
    "matrix a list of numbers": (changed("latency_us", to=[1, 2, 3]), "latency_us"),
    "matrix empty": (changed("latency_us", to=[]), "latency_us"),
    "matrix too small": (changed("latency_us", to=[[0, 1], [1, 0]]), "latency_us"),
    "matrix too large": (changed("latency_us", to=[[1] * 4] * 4), "latency_us"),
    "matrix not square": (changed("latency_us", 2, to=[1, 2]), "latency_us"),
    "matrix row null": (changed("latency_us", 2, to=None), "latency_us"),
    "negative": (changed("latency_us", 0, 1, to=-1.5), "latency_us"),
    "string in matrix": (changed("latency_us", 0, 1, to="20"), "latency_us"),
    "null in matrix": (changed("latency_us", 0, 1, to=None), "latency_us"),
    "boolean in matrix": (changed("latency_us", 0, 1, to=True), "latency_us"),
    "large": (changed("latency_us", 0, 1, to=1e300), "latency_us.*1e-06 to 1e.12"),
    "misspelt": (changed("latencies_us", to=1), "latencies_us.*unknown key"),
    "NaN": (nan("NaN"), "latency_us|line"),
    "Infinity": (nan("Infinity"), "latency_us|line"),
    "1e999": (nan("1e999"), "latency_us|line"),
}


def leveled(*path: Any, to: Any = None, drop: bool = False) -> Any:
    """Three hosts in two racks of one pod, in format 2, changed."""

    def change(content: Json) -> Any:
        racks = {"groups": ["r0", "r1"], "of_group": [0, 1, 0], "uplink_mbps": [None, 100]}
        pods = {"groups": ["pod"], "of_group": [0, 0]}
        levels = [{"name": "rack", **racks}, {"name": "pod", **pods}]
        rest = {key: value for key, value in content.items() if key != "racks"}
        return changed(*path, to=to, drop=drop)({**rest, "format": 2, "levels": levels})

    return change


BAD_CONTENT |= {
    "levels missing": (leveled("levels", drop=True), "levels"),
    "levels not a list": (leveled("levels", to={}), "levels"),
    "levels empty": (leveled("levels", to=[]), "levels.*found 0 levels, expected 1 to 7"),
    "too many levels": (
        leveled("levels", to=[{"groups": ["a"], "of_group": [0] * (3 if i == 0 else 1)} for i in range(8)]),
        "levels.*found 8 levels, expected 1 to 7",
    ),
    "level not an object": (leveled("levels", 1, to=[0, 0]), r"levels\[1\]"),
    "groups missing": (leveled("levels", 1, "groups", drop=True), r"levels\[1\]\.groups"),
    "groups empty": (leveled("levels", 0, "groups", to=[]), r"levels\[0\]\.groups"),
    "group not a string": (leveled("levels", 1, "groups", 0, to=1), r"levels\[1\]\.groups\[0\]"),
    "of_group missing": (leveled("levels", 0, "of_group", drop=True), r"levels\[0\]\.of_group"),
    "of_group long": (leveled("levels", 1, "of_group", to=[0, 0, 0]), r"levels\[1\]\.of_group"),
    "of_group too large": (leveled("levels", 1, "of_group", 1, to=1), r"levels\[1\]\.of_group\[1\]"),
    "of_group negative": (leveled("levels", 0, "of_group", 2, to=-1), r"levels\[0\]\.of_group\[2\]"),
    "of_group not an integer": (leveled("levels", 1, "of_group", 0, to="a"), "of_group"),
    "uplinks a number": (leveled("levels", 0, "uplink_mbps", to=5), "uplink_mbps"),
    "uplinks short": (leveled("levels", 0, "uplink_mbps", to=[1]), "uplink_mbps"),
    "uplink negative": (leveled("levels", 0, "uplink_mbps", 0, to=-1), r"uplink_mbps\[0\]"),
    "uplink a string": (leveled("levels", 0, "uplink_mbps", 1, to="fast"), r"uplink_mbps\[1\]"),
}  # fmt: skip

# name: the whole file
BAD_TEXT = {
    "empty": "",
    "blank": " \n\n",
    "truncated": lambda content: json.dumps(content)[:200],
    "last brace missing": lambda content: json.dumps(content)[:-1],
    "something after the end": lambda content: json.dumps(content) + "}",
    "not JSON": "hosts: [clique0, clique1]\n",
    "a list": "[]",
    "null": "null",
    "a number": "17",
    "a string": '"site"',
    "empty object": "{}",
    "deeply nested": "[" * 200000,
    "deeply nested, closed": '{"a":' * 50000 + "1" + "}" * 50000,
    "NUL bytes": "\0" * 4096,
    "NUL in the middle": lambda content: json.dumps(content).replace("rack1", "ra\0ck1"),
    "binary": "\x7fELF\x02\x01\x01" + "\x00\x7f" * 500,
}


@pytest.fixture
def good(site: MakeSite) -> Json:
    return site(HOSTS, [0, 1, 0])


def text_of(make: Any, content: Json) -> Any:
    made = make(content) if callable(make) else make
    return made if isinstance(made, str) else json.dumps(made)


def assert_one_warning(job: Job, file: Path | str, *also: Any) -> None:
    """The job is right, and all that it says on stderr is one line that names the file."""
    assert job.returncode == 0, job.stdout + job.stderr
    assert job.stdout.splitlines()[-1].startswith("OK "), job.stdout + job.stderr
    lines = [line for line in job.stderr.splitlines() if line]
    assert len(lines) == 1, job.stderr
    assert "warning" in lines[0] and str(file) in lines[0], lines[0]
    for pattern in also:
        assert re.search(pattern, lines[0].replace(str(file), "")), lines[0]


def assert_refused(job: Job, file: Path | str, *also: Any) -> None:
    """MPI_Init failed on one process, with one sentence that names the file."""
    text = job.stdout + job.stderr
    assert job.returncode != 0, text
    assert "OK " not in job.stdout and "Assertion" not in text, text
    assert text.count("Fatal error in") == 1, text
    # a long sentence takes several lines of the error stack
    sentence = " ".join(re.findall(r"MPIR_Csel_error\(\d+\)\.*: (.*)", text))
    assert str(file) in sentence, text
    for pattern in also:
        assert re.search(pattern, sentence.replace(str(file), "")), text


@pytest.mark.parametrize("case", BAD_CONTENT)
def test_content(run_allgather: Launch, write_json: WriteJson, good: Json, case: str) -> None:
    make, key = BAD_CONTENT[case]
    file = write_json("site.json", text_of(make, good))
    job = run_allgather("quick", n=RANKS, env={**CLUSTER, TOPOLOGY: file})
    assert_one_warning(job, file, key, "expected")


@pytest.mark.parametrize("case", BAD_TEXT)
def test_text(run_allgather: Launch, write_json: WriteJson, good: Json, case: str) -> None:
    file = write_json("site.json", text_of(BAD_TEXT[case], good))
    job = run_allgather("quick", n=RANKS, env={**CLUSTER, TOPOLOGY: file})
    assert_one_warning(job, file)


def test_good_file_has_no_warning(run_allgather: Launch, write_json: WriteJson, good: Json) -> None:
    file = write_json("site.json", good)
    job = run_allgather("quick", n=RANKS, env={**CLUSTER, TOPOLOGY: file})
    assert job.stderr == ""


def test_keys_of_the_tools_are_no_error(
    run_allgather: Launch, write_json: WriteJson, good: Json
) -> None:
    file = write_json("site.json", {**good, "warnings": ["noisy"]})
    job = run_allgather("quick", n=RANKS, env={**CLUSTER, TOPOLOGY: file})
    assert job.stderr == ""


def test_racks_suffice(run_allgather: Launch, write_json: WriteJson, good: Json) -> None:
    """Without latencies the racks tell what is near."""
    del good["latency_us"]
    job = run_allgather("quick", n=RANKS, env={**CLUSTER, TOPOLOGY: write_json("site.json", good)})
    assert job.stderr == ""


@pytest.mark.parametrize(
    "kind",
    ["missing", "folder_missing", "directory", "fifo", "device", "endless", "huge", "long_name"],
)
def test_not_a_file(run_allgather: Launch, tmp_path: Path, kind: str) -> None:
    file = {"device": Path("/dev/null"), "endless": Path("/dev/zero")}.get(kind, tmp_path / "f")
    if kind == "directory":
        file.mkdir()
    elif kind == "folder_missing":
        file = tmp_path / "none" / "f"
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "huge":
        file.touch()
        os.truncate(file, 1 << 36)  # no blocks on disk
    elif kind == "long_name":
        file = tmp_path / ("x" * 5000)
    job = run_allgather("quick", n=RANKS, timeout=30, env={**CLUSTER, TOPOLOGY: file})
    assert_one_warning(job, file if kind != "long_name" else str(file)[:50])


@pytest.mark.parametrize("variable", [TOPOLOGY, TUNING])
def test_no_permission(
    run_allgather: Launch, require: Require, tmp_path: Path, good: Json, variable: str
) -> None:
    prefix = []
    if os.geteuid() == 0:
        # root without the right to read what permissions forbid
        caps = "-dac_override,-dac_read_search"
        prefix = [require("setpriv"), f"--inh-caps={caps}", f"--bounding-set={caps}"]
    file = tmp_path / "site.json"
    file.write_text(json.dumps(good))
    file.chmod(0)
    refused = variable == TUNING
    job = run_allgather(
        "quick", n=RANKS, prefix=prefix, check=not refused, env={**CLUSTER, variable: file}
    )
    (assert_refused if refused else assert_one_warning)(job, file, "[Pp]ermission")


@pytest.mark.parametrize("known", [0, 1, 2])
def test_unknown_hosts(
    run_allgather: Launch, write_json: WriteJson, site: MakeSite, known: Any
) -> None:
    """They are far from all others: one warning, and the algorithm still runs."""
    hosts = [*HOSTS[:known], "other0", "other1"]
    file = write_json("site.json", site(hosts, [i % 2 for i in range(len(hosts))]))
    job = run_allgather(
        "quick",
        "comms",
        "--expect",
        "topo_ring",
        n=RANKS,
        env={**CLUSTER, TOPOLOGY: file, "MPIR_CVAR_COLLECTIVE_FALLBACK": "error"},
    )
    assert_one_warning(job, file, "host")


# ---------------------------------------------------------------- ranks that disagree


def mpmd(program: Path, *groups: Any, cases: Sequence[Any] = ("quick", "comms")) -> list[object]:
    """mpiexec's words for two ranks of each group, a group being {variable: value}."""
    words: list[object] = []
    for group in groups:
        words += [":"] if words else []
        words += ["-n", "2"]
        for variable, value in group.items():
            words += ["-env", variable, value]
        words += [program, *cases]
    return words


# name: the file of each group of ranks, out of the fixture `files`; None is no file
DISAGREE = {
    "two topologies": ["good", "slower"],
    "two topologies, three groups": ["good", "slower", "good"],
    "other racks": ["good", "other racks"],
    "other hosts": ["good", "other hosts"],
    "on the first ranks only": ["good", None],
    "on the last ranks only": [None, "good"],
    "broken on the first ranks": ["broken", "good"],
    "broken on the last ranks": ["good", "broken"],
    "missing on the last ranks": ["good", "missing"],
}


@pytest.fixture
def files(good: Json, site: MakeSite, write_json: WriteJson, tmp_path: Path) -> dict[str, Path]:
    slower = copy.deepcopy(good)
    slower["latency_us"][0][1] *= 2
    return {
        "good": write_json("good.json", good),
        "slower": write_json("slower.json", slower),
        "other racks": write_json("racks.json", site(HOSTS, [0, 1, 1])),
        "other hosts": write_json("hosts.json", site("xyz", [0, 1, 0])),
        "broken": write_json("broken.json", "{"),
        "missing": tmp_path / "none.json",
    }


@pytest.mark.parametrize("case", DISAGREE)
def test_ranks_disagree(
    run_mpi: Launch, allgather_program: Path, files: dict[str, Path], algorithm: str, case: str
) -> None:
    groups = [{TOPOLOGY: files[name]} if name else {} for name in DISAGREE[case]]
    job = run_mpi(
        *mpmd(allgather_program, *groups),
        timeout=30,
        env={"MPIR_CVAR_NUM_CLIQUES": 3, "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM": algorithm},
    )
    assert job.returncode == 0, job.stdout + job.stderr
    assert "OK " in job.stdout
    if algorithm == "gather_bcast":
        return  # it needs no topology, so it need not look at one
    lines = [line for line in job.stderr.splitlines() if line]
    # a broken file is one fact, and that the ranks differ another
    most = 2 if "broken" in case or "missing" in case else 1
    assert 1 <= len(lines) <= most, job.stderr
    assert all("warning" in line for line in lines), job.stderr


@pytest.mark.parametrize(
    ("names", "is_known"),
    [
        (["n1.a", "n2.a"], True),
        (["n1.a", "n1.b"], False),  # which of them is the file's n1, or neither?
        (["n1", "n2.b"], True),
    ],
)
def test_hosts_of_one_name(
    run_mpi: Launch,
    allgather_program: Path,
    write_json: WriteJson,
    site: MakeSite,
    names: list[str],
    is_known: bool,
) -> None:
    file = write_json("site.json", site(["n1", "n2"], [0, 1]))
    groups = [{"MPIR_CVAR_COLL_TOPOLOGY_HOST": name} for name in names]
    job = run_mpi(
        *mpmd(allgather_program, *groups),
        env={TOPOLOGY: file, "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM": "topo_ring"},
    )
    if is_known:
        assert job.returncode == 0 and job.stderr == "", job.stdout + job.stderr
    else:
        assert_one_warning(job, file, "4 of 4 ranks")


def test_same_topology_in_two_files(
    run_mpi: Launch, allgather_program: Path, write_json: WriteJson, good: Json
) -> None:
    """What counts is the content: neither the name of the file nor its layout."""
    a, b = write_json("a.json", good), write_json("b.json", json.dumps(good, indent=3))
    job = run_mpi(
        *mpmd(allgather_program, {TOPOLOGY: a}, {TOPOLOGY: b}),
        env={**CLUSTER, "MPIR_CVAR_COLLECTIVE_FALLBACK": "error"},
    )
    assert job.returncode == 0 and job.stderr == "", job.stdout + job.stderr


# ---------------------------------------------------------------- topology in a tuning file

RING = {"algorithm=MPIR_Allgather_intra_topo_ring": {}}
RULES = {"comm_type=intra": {"collective=allgather": {"comm_size=any": RING}}}


@pytest.mark.parametrize(
    "case",
    [
        "host twice",
        "of_host too large",
        "matrix not square",
        "negative",
        "format unknown",
        "racks missing",
    ],
)
def test_bad_topology_in_tuning(
    run_allgather: Launch, write_json: WriteJson, good: Json, case: str
) -> None:
    make, key = BAD_CONTENT[case]
    topology = {k: v for k, v in good.items() if k in ("format", "hosts", "racks", "latency_us")}
    file = write_json("tuning.json", {**RULES, "topology": make(topology)})
    job = run_allgather("quick", n=RANKS, check=False, env={TUNING: file})
    assert_refused(job, file, key, "expected")


@pytest.mark.parametrize("topology", [None, [], 5, "site.json"])
def test_topology_in_tuning_of_wrong_type(
    run_allgather: Launch, write_json: WriteJson, topology: str
) -> None:
    file = write_json("tuning.json", {**RULES, "topology": topology})
    job = run_allgather("quick", n=RANKS, check=False, env={TUNING: file})
    assert_refused(job, file, "topology", "expected")
