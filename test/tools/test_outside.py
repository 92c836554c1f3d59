# Copyright (C) by the mpich-topo authors. See LICENSE.
"""maint/check-outside, with a pretended MPICH and suites of a few shell scripts."""

import fcntl
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from inprocess import load_program

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "maint"))

from common import Failure

# runs one rank
MPIEXEC = """#!/bin/sh
while [ "$1" != -n ]; do shift; done
shift 2
exec "$@"
"""
TUNE = '#!/bin/sh\necho "{}" >"$3"\n'
PROGRAMS = {
    "good": "echo Passed",
    "bad": "echo oops; exit 3",
    "auto": 'echo Passed; exit "${MPIR_CVAR_COLL_TOPO_AUTO:-0}"',
    "silent": "echo Passed",
    "says": "echo Passed Fail",
    "reduces": 'echo Passed; test "$MPIR_CVAR_COLLECTIVE_FALLBACK" != error',
    "hangs": "exec sleep 60",
}
TESTLIST = """\
# a comment
program 4
program 10 arg=-count=10 env=A=b timeLimit=500
program 10 arg=-count=10 env=A=b timeLimit=500
known 4 xfail=ticket1
forced 4 env=MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial
inner
!../util:all
"""
Check = Callable[..., tuple[int, str]]


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """maint/check-outside as a module, of a pretended MPICH."""
    module: types.ModuleType = load_program(REPO / "maint/check-outside")
    build = tmp_path / "build"
    for kind, where in (("patched", "bin"), ("stock", "stock/bin")):
        prefix = tmp_path / kind
        for name in ("mpiexec", "mpicc"):
            script(prefix / "bin" / name, MPIEXEC)
            (build / where).mkdir(parents=True, exist_ok=True)
            (build / where / name).symlink_to(prefix / "bin" / name)
        script(prefix / "share/mpich-topo/build.json", kind)
    script(build / "bin/topo-tune", TUNE)
    script(build / "mpich-src/src/include/mpi.h", "#define MPICH_NUMVERSION 40002300\n")
    suite = {
        "folder": "fake",
        "git": f"file://{tmp_path}/nowhere",
        "commit": "HEAD",
        "build": "touch built",
        "programs": ["t/*"],
        "skip": "/no_test$",
        "command": "{} of {stem}",
        "ranks": 1,
        "says": "Passed",
        "wrong": r"\bFail\b",
    }
    for name in PROGRAMS:
        script(tmp_path / "sources/fake/t" / name, f"#!/bin/sh\n{PROGRAMS[name]}\n")
    (tmp_path / "sources/fake/t/readme.txt").write_text("no program")
    script(tmp_path / "sources/fake/t/no_test", "#!/bin/sh\n")
    monkeypatch.setattr(module, "BUILD", build)
    monkeypatch.setattr(module, "FOLDER", build / "outside")
    monkeypatch.setattr(module, "GRACE", 0)
    monkeypatch.setattr(module, "SUITES", {"fake": suite, "lacking": suite | {"folder": "lacking"}})
    monkeypatch.setenv("OUTSIDE", str(tmp_path / "sources"))
    monkeypatch.setenv("MPIR_CVAR_COLL_TOPO_AUTO", "1")  # no mode inherits it
    return module


@pytest.fixture
def check(
    program: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["check-outside", "--time-limit", "1", *words])
        status = program.program()
        return status, capsys.readouterr().out

    return run


def test_table_and_failures(check: Check, program: types.ModuleType) -> None:
    status, out = check("--suites", "fake", "--modes", "none,topo_auto", "--tests", "^[^hr]")
    assert status == 1
    assert "10 runs" not in out and "1/10 none fake auto: passed" in out
    # stock ran where something failed
    rows = [line.split() for line in out.splitlines() if line.startswith("fake ")]
    assert rows == [["fake", "5", "3/5", "2/5"]]
    stocks, ours = out.split("Fails on stock too:")[1].split("Fails here alone:")
    assert "fake bad, stock: status 3" in stocks
    assert "fake says, stock: says 'Passed Fail'" in stocks
    assert ours.count("fake ") == 1 + 1 and "fake auto, topo_auto: status 1" in ours

    # the log begins with a command that does it again
    log = program.FOLDER / "log/fake_auto_topo_auto.log"
    command, said = log.read_text().split("\n", 1)
    done = subprocess.run(
        ["sh", "-c", command.removeprefix("$ ")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, said) == (1, "Passed\n")


def test_a_run_goes_on(check: Check, program: types.ModuleType, tmp_path: Path) -> None:
    words = ("--suites", "fake", "--tests", "good|bad", "--modes")
    assert "2/2" in check(*words, "stock")[1]
    results = program.FOLDER / "results.jsonl"
    with open(results, "a") as file:
        file.write('{"suite": "fake", "name"')  # it was cut here
    assert "1/2 none" in check(*words, "stock,none")[1]
    out = check(*words, "stock,none")[1]
    assert " runs in " not in out and ["fake", "2", "1/2", "1/2"] in map(
        str.split, out.splitlines()
    )
    out = check(*words, "none", "--retry")[1]
    assert "1/1 none fake bad: FAILED: status 3" in out
    # another library: all but stock's is of no use
    (tmp_path / "patched/share/mpich-topo/build.json").write_text("newer")
    out = check(*words, "stock,none", "--table")[1]
    assert ["fake", "2", "1/2", "-"] in map(str.split, out.splitlines())


def test_one_run_at_a_time(check: Check, program: types.ModuleType) -> None:
    program.FOLDER.mkdir(parents=True)
    with open(program.FOLDER / "lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Failure, match="is under way"):
            check("--suites", "fake")


def test_forced(check: Check) -> None:
    """What fails with FALLBACK=error has another try without; what fails with both has failed."""
    status, out = check("--suites", "fake", "--modes", "forced1", "--tests", "reduces|good")
    assert status == 0 and "1 runs passed with MPICH's own choice" in out
    status, out = check("--suites", "fake", "--modes", "forced*", "--tests", "bad")
    assert "0/1" in out and "forced3" in out


def test_all_algorithms_are_forced(program: types.ModuleType) -> None:
    settings = {
        item for mode, env in program.modes().items() if "forced" in mode for item in env.items()
    }
    for item in (("BCAST", "rack_lanes"), ("IBCAST", "tsp_topo_auto"), ("BARRIER", "topo_tree")):
        assert (f"MPIR_CVAR_{item[0]}_INTRA_ALGORITHM", item[1]) in settings
    assert ("MPIR_CVAR_REDUCE_TOPO_KNOMIAL_KVAL", "3") in settings


def test_no_end(check: Check) -> None:
    out = check("--suites", "fake", "--modes", "stock", "--tests", "hangs")[1]
    assert "1/1 stock fake hangs: FAILED: no end in time" in out


def test_no_source(check: Check, program: types.ModuleType) -> None:
    """A suite that cannot be had is told, and the others run."""
    status, out = check("--modes", "none", "--tests", "good")
    assert status == 0 and "1/1" in out
    assert out.count("lacking: skipped, fetch lacking, fetch failed") == 2
    program.SUITES["fake"]["needs"] = ["no-such-compiler"]
    status, out = check("--suites", "fake", "--modes", "none")
    assert status == 1 and "fake: skipped, no no-such-compiler on this machine" in out


@pytest.mark.parametrize(
    "words, said",
    [
        (["--suites", "nonsense"], "'nonsense' is not a suite: fake, lacking"),
        (["--modes", "none,nonsense"], "'nonsense' is not a mode"),
        (["--sources", "/nowhere"], "/nowhere: no such folder"),
        (["--tests", "("], "not a regular expression"),
    ],
)
def test_misuse(check: Check, words: list[str], said: str) -> None:
    with pytest.raises(Failure, match=said):
        check(*words)


def test_testlists(program: types.ModuleType, tmp_path: Path) -> None:
    top = tmp_path / "mpi"
    program.SUITES["mpich"] = {"folders": ["coll", "lacks"]}
    for folder, text in (
        ("coll", TESTLIST),
        ("coll/inner", "aborts 2 resultTest=TestErrFatal timeLimit=9\n"),
    ):
        (top / folder).mkdir(parents=True)
        (top / folder / "testlist").write_text(text)
    tests = list(program.mpich_tests(top))
    assert [test.name for test in tests] == [
        "coll/program 4",
        *["coll/program 10 -count=10 A=b"] * 2,
        "coll/inner/aborts 2",
    ]
    assert {test.suite for test in tests} == {"mpich/coll"}
    assert (tests[1].words, tests[1].env, tests[1].limit) == (
        ["./program", "-count=10"],
        {"A": "b"},
        500,
    )
    plain, *_, fails = tests
    assert program.judge(plain, 0, "\n No Errors\n") == ""
    assert program.judge(plain, 0, "Found 2 errors\n") and program.judge(plain, 1, " No Errors\n")
    assert program.judge(fails, 1, "APPLICATION TIMED OUT") == ""
    assert program.judge(fails, 0, "") == "status 0"


def test_all_suites_are_described() -> None:
    path = str(REPO / "maint/check-outside")
    done = subprocess.run(
        [path, "--help"], capture_output=True, text=True, check=True, env=os.environ
    )
    for name in ("mpich", "mpi4py", "osu", "imb", "scalapack"):
        assert name in done.stdout
