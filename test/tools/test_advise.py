# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune advise: reports of runs, bad ones too, and what is said about them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_tune import DEMO, topo_tune, write

from topo_tune import advise, run_report, site  # isort: skip
from topo_tune.placements import place  # isort: skip
from topo_tune.predictor import Predictor  # isort: skip

HEADER = run_report.HEADER


def row(
    collective: str,
    algorithm: str,
    *,
    calls: int = 100,
    ranks: int = 16,
    hosts: int = 16,
    place: Any = "-",
    mean_bytes: Any = 16384,
    total: Any = 2_500_000,
) -> str:
    mean = "-" if total == "-" else f"{total / calls:.1f}"
    words = [collective, ranks, hosts, place, mean_bytes, calls, total, mean, algorithm]
    return " ".join(map(str, words))


def report(
    folder: Path, *rows: str, header: str = HEADER, more: str = "", name: str = "report"
) -> Path:
    text = "".join(f"[mpich] selection: {line}\n" for line in (header, *rows))
    total = "[mpich] selection total: 1 blocking calls took 2.0 ms on rank 0\n"
    return Path(write(folder, f"what the program says\n{text}{more}{total}and more\n", name))


def test_what_gains_and_how_much(tmp_path: Path) -> None:
    path = report(
        tmp_path,
        row("allgather", "ring"),
        row("barrier", "dissemination", mean_bytes="-"),
    )
    job = topo_tune("advise", path, "--site", write(tmp_path, DEMO), "--placement", "random")
    assert job.returncode == 0 and max(map(len, job.stdout.splitlines())) <= 80, job.stdout
    found = re.search(r"allgather +16/16 +16K +100 +2500 ring, +(\d+)", job.stdout)
    total = re.search(r"gain in all: (\d+) ms, (\d+) %", job.stdout)
    assert found and total and 0 < int(found[1]) <= int(total[1]) < 2500, job.stdout

    # the same by hand
    predictor = Predictor(site.load(tmp_path / "site.json"), "4.0")
    hosts = place(predictor.site.groups_of_host, 16, 1, "random")
    rows = run_report.read(str(path)).rows
    (first, *_), _ = advise.advise(predictor, rows[:1], "random")
    times = predictor.times_us("allgather", hosts, 16384, algorithms=[first.best, "ring"])
    ran = min(times["ring"], 25000)
    assert first.gain_us == pytest.approx(100 * ran * (1 - times[first.best] / times["ring"]))


def test_waiting_is_no_gain(tmp_path: Path) -> None:
    """A hundred times the predicted time: ranks were late."""
    where = write(tmp_path, DEMO)
    gains = []
    for total in (10**6, 10**9):
        job = topo_tune(
            "advise",
            report(tmp_path, row("allgather", "ring", total=total)),
            "--site",
            where,
        )
        gains.append(int(re.findall(r"gain in all: (\d+) ms", job.stdout)[0]))
    assert gains[0] < 1000 and gains[1] < 3 * 2500


def test_rows_that_say_nothing(tmp_path: Path) -> None:
    """The best already, unknown ones, one host, nonblocking"""
    rows = [
        row("allgather", "topo_ring"),
        row("alltoallw", "pairwise_sendrecv_replace"),
        row("allgather", "ring", hosts=1),
        row("allgather", "ring", hosts=0),
        row("bcast", "binomial", mean_bytes=0),
        row("iallgather", "tsp_ring", total="-"),
    ]
    job = topo_tune("advise", report(tmp_path, *rows), "--site", write(tmp_path, DEMO))
    assert job.returncode == 0
    assert job.stdout.splitlines() == [
        "12000 ms in blocking collectives; 2500 ms of them can be predicted",
        "gain in all: 0 ms, 0 %",
        "not predicted: 2500 ms alltoallw by pairwise_sendrecv_replace, which has no prediction",
        "not predicted: 2500 ms in one host, where no link is used",
        "not predicted: 2500 ms on unknown hosts",
        "not predicted: 2500 ms without data, or of a size that rank 0 does not know",
        "100 calls have no time: nonblocking, or part of others",
    ]


def test_advises_what_can_run(tmp_path: Path) -> None:
    """Not MPICH's own that are for a power of two, or for several ranks a host"""
    rows = [
        row("barrier", "linear", mean_bytes="-"),
        row("allgather", "ring", mean_bytes=8),
    ]
    path = report(tmp_path, *(line.replace(" 16 16 ", " 13 13 ") for line in rows))
    predictor = Predictor(site.load(write(tmp_path, DEMO)), "4.0")
    found, _ = advise.advise(predictor, run_report.read(str(path)).rows, "block")
    best = {a.calls.collective: a.best for a in found}
    assert set(best) == {"barrier", "allgather"}
    assert best["barrier"] != "smp" and best["allgather"] != "recursive_doubling"


def test_ranks_on_fewer_hosts(tmp_path: Path) -> None:
    """--ppn, and the same from the report"""
    where = write(tmp_path, DEMO)
    outputs = []
    for hosts, more in ((8, ()), (16, ("--ppn", 2))):
        path = report(tmp_path, row("bcast", "smp", hosts=hosts, mean_bytes=2**20))
        outputs.append(topo_tune("advise", path, "--site", where, *more).stdout)
    assert outputs[0] == outputs[1] and "16/8" in outputs[0]
    # 12 on two hosts, and on two of the others the rest
    unequal = topo_tune("advise", path, "--site", where, "--ppn", "6x2,2x14")
    assert unequal.returncode == 0 and "16/4" in unequal.stdout
    for ppn, words in (("6x2,2x4", "found 6 hosts in 6x2,2x4, expected 16"), ("x", 'found "x"')):
        assert words in topo_tune("advise", path, "--site", where, "--ppn", ppn).stderr


def test_site_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = report(tmp_path, row("allgather", "ring"))
    monkeypatch.delenv("MPIR_CVAR_COLL_TOPOLOGY_FILE", raising=False)
    job = topo_tune("advise", path)
    assert job.returncode == 2 and "--site SITE.json is needed" in job.stderr
    monkeypatch.setenv("MPIR_CVAR_COLL_TOPOLOGY_FILE", str(write(tmp_path, DEMO)))
    assert topo_tune("advise", path).returncode == 0


def test_algorithm_in_a_line_of_its_own(tmp_path: Path) -> None:
    """As the library prints it where a row would be too long, and in one line, as it did"""
    words = [row("allgather", "ring"), row("bcast", "scatter_ring_allgather"), "    rule 1"]
    found = [
        run_report.read(str(report(tmp_path, *rows)))
        for rows in (words, [line.replace(" s", NEXT + "s") for line in words])
    ]
    assert found[0] == found[1] and len(found[0].rows) == 2


NEXT = "\nmore\n[mpich] selection:     "
GOOD = row("allgather", "ring")
BAD = {
    "old header": (GOOD, "CALLS COLLECTIVE RANKS BYTES", 'expected "COLLECTIVE RANKS'),
    "letters": (GOOD.replace("16384", "many"), HEADER, "expected a row of the table"),
    "cut off": (GOOD[:30], HEADER, "expected a row of the table"),
    "no algorithm": (GOOD.replace(" ring", ""), HEADER, "expected its algorithm below"),
    "two rows": (GOOD.replace("ring", "\n[mpich] selection: " + GOOD), HEADER, "expected a row of"),
    "no calls": (
        row("bcast", "binomial").replace(" 100 ", " 0 "),
        HEADER,
        "a row of the table",
    ),
    "negative": (GOOD.replace("16384", "-1"), HEADER, "expected a row of the table"),
    "huge": (GOOD.replace("16384", "9" * 40), HEADER, "expected a row of the table"),
    "digits of others": (
        GOOD.replace("16384", "١٢"),
        HEADER,
        "expected a row of the table",
    ),
    "hosts": (row("bcast", "ring", hosts=17), HEADER, "found 17 hosts for 16 ranks"),
    "other site": (
        row("bcast", "ring", ranks=64, hosts=17),
        HEADER,
        "expected at most 16, as",
    ),
    "escape": (
        GOOD + "\n\x1b[2J[mpich] selection: \x1b[31m",
        HEADER,
        "expected a row of the",
    ),
    "many ranks": (row("bcast", "ring", ranks=999_999_999), HEADER, "expected at most 131072"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_reports(tmp_path: Path, name: str) -> None:
    rows, header, says = BAD[name]
    job = topo_tune(
        "advise", report(tmp_path, rows, header=header), "--site", write(tmp_path, DEMO)
    )
    assert job.returncode == 2, job.stderr
    assert job.stdout == "" and says in job.stderr and "\x1b" not in job.stderr, job.stderr
    assert job.stderr.count("\n") == 1, job.stderr


@pytest.mark.parametrize("kind", ["block", "cyclic", "random"])
def test_ranks_are_where_the_report_says(tmp_path: Path, kind: str) -> None:
    """As with --placement, where that is right; by full names or without their domains"""
    path = write(tmp_path, DEMO)
    loaded = site.load(path)
    where = place(loaded.groups_of_host, 16, 1, kind)
    names = [loaded.hosts[host] + (".example.org" if host % 2 else "") for host in where]
    listed = "".join(
        f"[1] [mpich] selection place 7, ranks from 0 on: {' '.join(names[i : i + 5])}\n"
        for i in range(0, 16, 5)
    )
    reported = report(tmp_path, row("allgather", "ring", place=7), more=listed)
    by_report = topo_tune("advise", reported, "--site", path)
    assert by_report.stderr == ""
    asked = topo_tune("advise", reported, "--site", path, "--placement", kind)
    assert by_report.stdout == asked.stdout != ""


def test_place_that_the_site_does_not_know(tmp_path: Path) -> None:
    """A note; and the ranks count as placed in the order of racks."""
    path = write(tmp_path, DEMO)
    for listed in ("strange[00-15]", "h0*3", "(not listed: 4000 runs)", "h0*999999999"):
        more = f"[mpich] selection place 1, ranks from 0 on: {listed}\n"
        reported = report(tmp_path, row("allgather", "ring", place=1), more=more)
        job = topo_tune("advise", reported, "--site", path)
        assert "these count as placed in the order of racks" in job.stderr, job.stderr
        asked = topo_tune("advise", reported, "--site", path, "--placement", "block")
        assert job.stdout == asked.stdout != ""
    bad = report(
        tmp_path,
        row("allgather", "ring", place=1),
        more="[mpich] selection place 1, ranks from 0 on: n[1-2\n",
    )
    job = topo_tune("advise", bad, "--site", path)
    assert job.returncode == 2 and "expected hosts such as" in job.stderr


@pytest.mark.parametrize(
    "text, hosts",
    [
        ("n1*2 n2", ["n1", "n1", "n2"]),
        ("n[08-10].x*2", ["n08.x", "n08.x", "n09.x", "n09.x", "n10.x", "n10.x"]),
        ("a b[1-2] c*2", ["a", "b1", "b2", "c", "c"]),
    ],
)
def test_places(tmp_path: Path, text: str, hosts: list[str]) -> None:
    ranks = len(hosts)
    path = report(
        tmp_path,
        row("bcast", "binomial", ranks=ranks, hosts=2, place=3),
        more=f"[mpich] selection place 3, ranks from 0 on: {text}\n",
    )
    assert run_report.read(str(path)).places == {3: hosts}


# ---------------------------------------------------------------- two reports


def test_compare_reports(tmp_path: Path) -> None:
    """What changed most comes first; other collectives, sizes and communicators are not mixed up."""
    before = report(
        tmp_path,
        row("allgather", "ring"),
        row("allgather", "ring", mean_bytes=8, total=500),
        row("bcast", "binomial", total=1000),
        row("barrier", "smp", mean_bytes="-", total=4000),
        row("gather", "binomial", total=700),
        row("iallgather", "tsp_ring", total="-"),
        name="before",
    )
    after = report(
        tmp_path,
        row("allgather", "topo_ring", calls=60, total=300_000),
        row("allgather", "rack_lanes", calls=40, total=200_000),
        row("allgather", "ring", mean_bytes=8, total=510),
        row("bcast", "topo_binomial", total=3000),
        row("bcast", "binomial", ranks=8, hosts=8, total=100),
        row("barrier", "smp", mean_bytes="-", total=4100),
        name="after",
    )
    job = topo_tune("compare-reports", before, after)
    assert job.returncode == 0 and max(map(len, job.stdout.splitlines())) <= 80, job.stdout
    text = " ".join(job.stdout.split())
    assert re.search(r"allgather 16/16 16K 100 25000\.0 5000\.0 0\.20 ring, topo_ring,", text), text
    assert "bcast 16/16 16K 100 10.0 30.0 3.00 binomial," in text
    assert (
        text.index("allgather 16/16 16K")
        < text.index("bcast 16/16")
        < text.index("allgather 16/16 8")
    )
    assert "4 kinds of calls in both: 1 faster, 1 slower, over 1.1 times" in text
    assert "2 are in one report only" in text
    assert re.search(r"took 2506\.2 ms before, 507\.7 ms after: 0\.20 times", text), text
    rows = json.loads(topo_tune("compare-reports", before, after, "--json").stdout)
    assert [row["ratio"] for row in rows if row["collective"] == "barrier"] == [
        pytest.approx(1.025)
    ]
    assert topo_tune("compare-reports", before, tmp_path / "none").returncode == 2


def test_no_report(tmp_path: Path) -> None:
    where = write(tmp_path, DEMO)
    other = write(tmp_path, "nothing of ours\n", "other")
    for path, says in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "Is a directory"),
        (other, "found no table of MPIR_CVAR_COLL_SELECTION_REPORT=print"),
    ):
        job = topo_tune("advise", path, "--site", where)
        assert job.returncode == 2 and says in job.stderr and job.stderr.count("\n") == 1
