# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What `make install` puts in a prefix beside programs: manual pages, completion, a module file."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from inprocess import load_program
from kinds import Json, MakeSite
from under_test import mpich_version

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "maint"))

import share
from common import Failure, run

COMMANDS = {
    "topo-bench": "plot report run simulate study suite table",
    "topo-tune": "advise compare compare-reports compare-sites explain fit measure model order racks"
    " report schema show tune validate",
    "topo-vcluster": "check describe down exec lateness list run up",
}


@pytest.fixture(scope="session")
def installed(bindir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Json]:
    """Where the build under test is installed; {"program command": what it said for --help}"""
    entry = (bindir / "mpicc").resolve().parents[1]
    if not (entry / "share/mpich-topo/build.json").exists():
        pytest.skip(f"{entry} is none of the cache's builds")
    folder, helps = tmp_path_factory.mktemp("install") / "prefix", {}
    build = load_program(REPO / "maint/build")
    build.build_mpich = lambda _: entry

    def recorded(command: list[Any], **more: Any) -> str:
        text = run(command, **more)
        helps[" ".join([command[2].name, *command[3:-1]])] = text
        return text

    mask = os.umask(0o022)  # which an installation changes
    with mock.patch.object(share, "run", recorded):
        build.install(SimpleNamespace(version=mpich_version()), folder)
    os.umask(mask)
    return folder, helps


@pytest.fixture
def prefix(installed: tuple[Path, Json]) -> Path:
    return installed[0]


@pytest.fixture
def helps(installed: tuple[Path, Json]) -> Json:
    return installed[1]


def letters(text: str) -> str:
    return re.sub(r"\W", "", text).lower()


def test_help_fits_a_terminal_and_has_an_example(helps: Json) -> None:
    for name, text in helps.items():
        assert max(map(len, text.splitlines())) <= 80, name
        if name not in ("topo-vcluster check", "topo-vcluster list"):  # nothing to be given
            words = rf"({name}|{name.split()[0]} \w+\.json|mpiexec .*{name}|MPIR_CVAR_)"
            assert re.search(rf"(?m)^ {{2,4}}{words}", text), name


def test_manual_pages(prefix: Path, helps: Json) -> None:
    """One of each program and command; nothing of --help is lost."""
    folder = prefix / "share/man/man1"
    programs = {path.name for path in (prefix / "bin").glob("topo-*")} | {"topo-bench-mpi"}
    commands = {f"{name}-{command}" for name in COMMANDS for command in COMMANDS[name].split()}
    assert {path.name for path in folder.glob("topo-*")} == {f"{n}.1" for n in programs | commands}
    if not shutil.which("man") or not shutil.which("groff"):
        pytest.skip("no man")
    for name, text in helps.items():
        page = folder / f"{name.replace(' ', '-')}.1"
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", page],
            env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", name
        assert max(map(len, done.stdout.splitlines())) <= 80, name
        assert re.search(rf"NAME\n {{7}}{page.stem} - [A-Z]", done.stdout), name
        usage, rest = share.usage_and_rest(text)
        shown, at = letters(done.stdout), 0
        for part in (usage, *rest.split("\nCommands:\n")[0].split("\n")):
            at = shown.find(letters(part), at)
            assert at >= 0, (name, part)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("topo-tune sh", "show"),
        ("topo-tune compare", "compare compare-reports compare-sites"),
        ("topo-tune --dry", "--dry-run"),
        ("topo-tune site.json --dry", "--dry-run"),
        ("topo-tune explain --not", "--not-consecutive --not-commutative"),
        ("topo-tune show s", ""),  # names of files
        ("topo-sim --inside", "--inside-rate --inside-latency"),
        ("topo-pingpong -", "-o --output"),
        ("topo-bench-mpi --li", "--list-cvars"),
        ("topo-fft s", ""),
    ],
)
def test_completion(prefix: Path, line: str, expected: str) -> None:
    """Without any program"""
    words = line.split()
    file = prefix / "share/bash-completion/completions" / words[0]
    if not file.exists() and words[0] == "topo-fft":
        pytest.skip("topo-fft is not built")
    script = 'source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))\n'
    script += 'call=$(complete -p "$1"); call=${call#* -F }; ${call% *}\n'
    script += 'echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", script, "bash", file, *words],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "" and done.stdout.startswith(expected)
    assert done.stdout == f"{expected}\n" or line.endswith(" -")


def test_module_file(prefix: Path) -> None:
    (file,) = (prefix / "share/modulefiles/mpich-topo").iterdir()
    text = file.read_text()
    assert text.startswith("#%Module")
    paths = dict(re.findall(r"(?m)^prepend-path (\w+) (.+)", text))
    assert (
        paths["PATH"] == f"{prefix}/bin" and (Path(paths["MANPATH"]) / "man1/topo-sim.1").exists()
    )
    assert (Path(paths["PKG_CONFIG_PATH"]) / "mpich.pc").exists()
    if shutil.which("tclsh"):
        commands = "prepend-path append-path conflict module-whatis"
        script = f"foreach name {{{commands}}} {{ proc $name args {{}} }}\n"
        script += "source [lindex $argv 0]; ModulesHelp"
        (prefix / "run.tcl").write_text(script)
        done = subprocess.run(
            ["tclsh", prefix / "run.tcl", file], capture_output=True, text=True, check=True
        )
        assert "TUNING_JSON_FILE" in done.stderr and done.stdout == ""


def test_library_to_preload(prefix: Path, tmp_path: Path) -> None:
    """It is where the help of topo-tune order says, and works with what is installed."""
    pattern, library = tmp_path / "pattern", prefix / "lib/libtopo-trace.so"
    settings: list[str | Path] = [
        "-genv",
        "LD_PRELOAD",
        library,
        "-genv",
        "TOPO_TRACE_FILE",
        pattern,
    ]
    program = prefix / "libexec/mpich-topo/topo-bench-mpi"
    done = subprocess.run(
        [prefix / "bin/mpiexec", *settings, "-n", "2", program, "-c", "barrier", "-n", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert re.search(r"\n1 1 0 # the last rank\n0 1 \d+\n1 0 \d+\n$", pattern.read_text())


def test_pkg_config(prefix: Path) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    done = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "mpich"],
        env=os.environ | {"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"},
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split()
    assert f"-I{prefix}/include" in words and (prefix / "include/mpi.h").exists()
    assert f"-L{prefix}/lib" in words and (prefix / "lib/libmpi.so").exists()
    folders = [re.sub("-I|-L|-Wl,", "", word) for word in words if "/" in word]
    assert all(Path(folder).is_dir() for folder in folders) and "/builds/" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "topo-tune site.json -o tuning.json --collective scatter",
        "topo-tune show site.json -o site.png",
        "topo-tune show site.json -o site.svg",
        "topo-tune model site.json --collective bcast",
        "topo-tune validate --help",
        "topo-bench suite --help",
        "topo-vcluster --help",
    ],
)
def test_all_modules_are_compiled(prefix: Path, words: str, site: MakeSite, tmp_path: Path) -> None:
    """Users cannot write there: what is not compiled would be compiled by each run."""
    (tmp_path / "site.json").write_text(json.dumps(site(["a", "b"], [0, 1])))
    name, *arguments = words.split()
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPYCACHEPREFIX"}
    done = subprocess.run(
        [prefix / "bin" / name, *arguments],
        cwd=tmp_path,
        env=env | {"PYTHONVERBOSE": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = re.findall(r"(?m)^# code object from '?(.*\.pyc?)'?$", done.stderr)
    assert any(path.endswith(".pyc") for path in loaded)
    assert [path for path in loaded if path.endswith(".py")] == []


def test_a_program_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """has no page, which is said; what a former install has left is gone."""
    old = [
        tmp_path / "share" / name for name in ("man/man1/topo-old.1", "modulefiles/mpich-topo/0")
    ]
    for path in (*old, tmp_path / "bin/x", tmp_path / "libexec/mpich-topo/x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name, does in {
        "bin/topo-good": "printf 'Usage: topo-good [-x]\\nDoes good. And more.\\n\\n  -x   it\\n'",
        "bin/topo-bad": "echo no such device >&2; exit 3",
        "libexec/mpich-topo/topo-bench-mpi": "echo odd",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    share.install_share(tmp_path, "4.0.2")
    said = capsys.readouterr().err
    assert "warning: topo-bad goes without manual page and completion: " in said
    assert "no such device" in said and "topo-bench-mpi goes without" in said
    assert [path.name for path in (tmp_path / "share/man/man1").iterdir()] == ["topo-good.1"]
    assert "topo\\-good \\- Does good\n" in (tmp_path / "share/man/man1/topo-good.1").read_text()
    assert not any(path.exists() for path in old)


def test_tools_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are built below DESTDIR, for the prefix without it."""
    build = load_program(REPO / "maint/build")
    source = tmp_path / "topo-one.c"
    source.write_text(
        '#include "mpi.h"\n#include <stdio.h>\n'
        'int main(void) { return puts("Usage: topo-one\\n\\nDoes one.") < 0; }\n'
    )
    monkeypatch.setattr(build, "REPO", tmp_path)
    monkeypatch.setattr(build, "BUILD", tmp_path / "build")
    monkeypatch.setattr(build, "copy_scripts", lambda dest: dest.mkdir(parents=True))
    monkeypatch.setattr(build, "C_TOOLS", {"bin/topo-one": build.Tool(["topo-one.c"])})
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/user")
    root, prefix = tmp_path / "root", Path("/opt/mpich")
    there = root / "opt/mpich"
    with pytest.raises(Failure, match=f"{there}: found no MPICH"):
        build.install_tools(prefix, root)
    for folder in ("bin", "include", "lib"):
        (there / folder).mkdir(parents=True)
    (there / "include/mpi.h").write_text('#define MPICH_VERSION "4.0.2"\n')
    (there / "bin/mpicc").write_text('#!/bin/sh\nexec cc "$@"\n')
    (there / "bin/mpicc").chmod(0o755)
    mask = os.umask(0o022)
    build.install_tools(prefix, root)
    os.umask(mask)
    assert subprocess.check_output([there / "bin/topo-one"], text=True).startswith("Usage")
    wrapper = (there / "bin/topo-tune").read_text()
    assert f'"{sys.executable}" "{prefix}/libexec/mpich-topo/topo_tune"' in wrapper
    found = there / f"share/modulefiles/mpich-topo/{share.topo_version()}-mpich-4.0.2"
    assert f"prepend-path PATH {prefix}/bin\n" in found.read_text()
    assert (there / "share/man/man1/topo-one.1").exists()
    for file in (there / "bin/topo-tune", found):
        assert str(root) not in file.read_text()


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("relative", "must be an absolute path"),
        ("/tmp/pre fix", "found ' ' in /tmp/pre fix, which MPICH's mpicc cannot have there"),
        ("/dev/null/prefix", "Not a directory: run as a user who may write there"),
    ],
)
def test_prefix_that_cannot_be(prefix: str, message: str) -> None:
    build = load_program(REPO / "maint/build")
    with pytest.raises(Failure, match=re.escape(message)):
        build.install(SimpleNamespace(version="4.0.2"), Path(prefix))
