# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The frame of the tools in Python: errors, exit status, ^C, standard output, files, schemas."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from inprocess import run_tool
from kinds import Job

REPO = Path(__file__).resolve().parents[2]
TOOLS = {
    "topo-bench": REPO / "bench/topo-bench",
    "topo-tune": REPO / "maint/topo_tune",
    "topo-vcluster": REPO / "bench/topo-vcluster",
}

from topo_common import cli, files, progress, schema
from topo_common.files import Failure, InputError


def tool(name: str, *args: Any, **more: Any) -> Job:
    command = [sys.executable, str(TOOLS[name]), *args]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(command, check=False, timeout=60, **(streams | more))


# -- all tools --


@pytest.mark.parametrize("name", TOOLS)
def test_version_and_help(name: str) -> None:
    versions = tomllib.loads((REPO / "maint/versions.toml").read_text())
    done = tool(name, "--version")
    supported = ", ".join(release for row in versions["mpich"] for release in row["tested"])
    assert done.stdout == f"{name} {versions['topo']} of mpich-topo, for MPICH {supported}\n"
    assert (done.returncode, done.stderr) == (0, "")
    done = tool(name, "--help")
    assert done.returncode == 0
    assert "Exit status: 0 success; 1 failure (" in done.stdout


@pytest.mark.parametrize("name", TOOLS)
def test_python_without_packages(name: str) -> None:
    """As where a package manager installed the tools for a Python that lacks some of them"""
    command = [sys.executable, "-S", str(TOOLS[name]), "--version"]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"{name}: {sys.executable} has no module click:")
    assert done.stderr.count("\n") == 1 and "maint/requirements.txt" in done.stderr


@pytest.mark.parametrize("name", TOOLS)
def test_standard_output_that_cannot_be_written(name: str) -> None:
    with open("/dev/full", "w") as full:
        done = tool(name, "--help", stdout=full)
    assert done.returncode == 1
    assert done.stderr == f"{name}: standard output: No space left on device\n"
    closed = ["sh", "-c", '"$@" >&-', "sh", sys.executable, str(TOOLS[name]), "--help"]
    done = subprocess.run(closed, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"{name}: standard output: Bad file descriptor\n"
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as nobody:
        done = tool(name, "--help", stdout=nobody)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    "words",
    [
        "topo-fft --help",
        "topo-fft -s 8x8",
        "topo-pingpong --help",
        "topo-sim --racks 2x2 --host-rate 1gbit --uplink-rate 1gbit",
    ],
)
def test_programs_in_c_say_that_standard_output_is_lost(bindir: Path, words: str) -> None:
    name, *args = words.split()
    command = [str(bindir / name), *args]
    if not Path(command[0]).exists():
        pytest.skip(f"{name} is not built")
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as nobody:
        piped = subprocess.run(
            command, check=False, stdout=nobody, stderr=subprocess.PIPE, text=True
        )
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], check=False, stderr=subprocess.PIPE, text=True
    )
    for done, why in ((piped, "Broken pipe"), (closed, "Bad file descriptor")):
        assert (done.returncode, done.stderr) == (1, f"{name}: standard output: {why}\n")


@pytest.mark.parametrize("name", TOOLS)
def test_interrupted_while_modules_load(bindir: Path, name: str) -> None:
    """At any time from the first instruction of Python on."""
    for delay in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        process = subprocess.Popen(
            [bindir / name, "--help"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        # the shell that starts it may die of the signal; or it has ended before
        expected = {130: f"{name}: interrupted\n", 0: "", -signal.SIGINT: ""}
        assert stderr == expected[process.returncode]


@pytest.mark.parametrize(("name", "near"), [("topo-tune", "validate"), ("topo-bench", "suite")])
def test_misspelt(name: str, near: str) -> None:
    done = tool(name, near[:-1] + "x")
    assert done.returncode == 2 and f'no such command; did you mean "{near}"?' in done.stderr
    done = tool(name, near, "--hepl")
    assert done.returncode == 2 and 'no such option; did you mean "--help"?' in done.stderr
    for each in (done.stderr, tool(name, near, "--no-such").stderr):
        assert re.fullmatch(
            rf"{name}: --.*: no such option.* \(help: {name} {near} --help\)\n", each
        )


# -- exit status --


@pytest.mark.parametrize(
    ("problem", "status", "text"),
    [
        (None, 0, ""),
        (Failure("x: y"), 1, "tool: x: y\n"),
        (Failure("a\n  b\x1b[2J\n"), 1, "tool: a b?[2J\n"),
        (Failure("no namespaces", 77), 77, "tool: no namespaces\n"),
        (
            InputError("f", "found 1, expected 2", "line 3"),
            2,
            "tool: f: line 3: found 1, expected 2\n",
        ),
        (click.UsageError("--x: is odd"), 2, "tool: --x: is odd (help: tool --help)\n"),
        (click.ClickException("bad"), 1, "tool: bad\n"),
        (KeyboardInterrupt(), 130, "tool: interrupted\n"),
        (click.Abort(), 130, "tool: interrupted\n"),
        (SystemExit(5), 5, ""),
        (SystemExit("why"), 1, "tool: why\n"),
        (MemoryError(), 1, "tool: found too little memory\n"),
        (PermissionError(13, "Permission denied", "/x"), 2, "tool: /x: Permission denied\n"),
        (OSError(28, "No space left", "/x"), 1, "tool: /x: No space left\n"),
        (OSError(28, "No space left"), 1, "tool: standard output: No space left\n"),
        (BlockingIOError(11, "Try again"), 1, "tool: Try again\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
    ],
)
def test_exit_status(problem: Any, status: Any, text: str) -> None:
    @click.command()
    def command() -> None:
        print("said before")
        if problem:
            raise problem

    done = run_tool("tool", command)
    assert (done.returncode, done.stderr, done.stdout) == (status, text, "said before\n")


def test_a_mistake_of_ours_is_a_traceback() -> None:
    @click.command()
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_tool("tool", command)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "FILE: is missing"),
        (["f", "--number", "x"], "--number: 'x' is not a valid integer"),
        (["f", "--number"], "--number: "),
        (["f", "g"], "Got unexpected extra argument"),
        (["f", "--nubmer", "1"], '--nubmer: no such option; did you mean "--number"?'),
    ],
)
def test_wrong_command_lines(args: Any, text: str) -> None:
    @click.command()
    @click.argument("file", metavar="FILE")
    @click.option("-n", "--number", type=int)
    def command(file: Path, number: int) -> None:
        pass

    done = run_tool("tool", command, *args)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("tool: ") and text in done.stderr
    assert done.stderr.endswith(" (help: tool --help)\n") and done.stderr.count("\n") == 1


def test_group_without_a_command() -> None:
    group = cli.Group("group", commands={"run": click.Command("run")})
    done = run_tool("tool", group)
    assert done.returncode == 2 and "Usage: tool" in done.stderr and done.stdout == ""


# -- files --


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{\n"a": NaN}', "line 2", "found NaN, expected a finite number"),
        ('["NaN", \n\n-Infinity]', "line 3", "found -Infinity"),
        ('["1e999",\n1e999]', "line 2", "found 1e999"),
        ("[\n" + "9" * 400 + "]", "line 2", "found 99999"),
        ('{"a": 1,\n"b": "a",\n"a": 2}', "line 3", 'found the key "a" twice in one object'),
        ('[{"a": 1},\n{"b": 1, "a": 2, "b": 3}]', "line 2", 'found the key "b" twice'),
        (
            '["\\ud83d\\ude00", {"a": "\\ud800"}]',
            "$[1].a",
            'found "\\ud800", half of a surrogate pair',
        ),
        ('{"a": {"x\\udfff": 1}}', "$.a", 'found "x\\udfff", half of a surrogate pair'),
        ("[" * 65 + "]" * 65, "", "found more than 64 levels of nesting"),
        ("[" * 100_000, "", "found more than 64 levels of nesting"),
        ('{"a": [1,\n 2', "line 2 column 3", "the file ends early"),
        ('{"a"\n 2}', "line 2 column 2", "not JSON"),
        ("\ufeff{}", "line 1", "found a byte order mark, expected UTF-8 without one"),
        ("", "", "the file is empty"),
    ],
)
def test_json_that_is_refused(tmp_path: Path, text: str, where: Any, what: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        files.read_json(path)
    said = str(error.value)
    assert said.startswith(f"{path}: {where}") and what in said and "\n" not in said


def test_json_that_is_taken(tmp_path: Path) -> None:
    value = {
        "a": [1, 2.5, -3e300, "NaN", None, True],
        "": {},
        "\U0001f600": "\\ud800",  # with a backslash
        "deep": json.loads("[" * 62 + "]" * 62),
    }
    path = tmp_path / "file.json"
    path.write_text(files.dump_json(value))
    assert files.read_json(path) == value


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a = 1\na = 2", "not TOML"),
        ("a = " + "9" * 5000, "not TOML: Exceeds the limit"),
        ("a = " + "[" * 9999, "found too many levels of nesting"),
    ],
)
def test_toml_that_is_refused(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"^{path}: {what}[^\n]*$"):
        files.read_toml(path)


def test_json_for_a_terminal() -> None:
    value = {
        "names": [f"n{i}" for i in range(99)],
        "few": [1, 2],
        "rows": [[10**9 + i for i in range(20)]] * 2,
    }
    for width in (1, 20, 33, 80):
        text = files.dump_json(value, " ", width)
        assert json.loads(text) == value
        assert width < 33 or max(map(len, text.splitlines())) <= width
    assert '\n "few": [1, 2],\n' in text


def test_where_a_file_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    """Regular files, new ones, /dev/null and what is open are taken; nothing waits."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "to_new").symlink_to("other")
    (tmp_path / "old").write_text("old")
    for taken in ("-", "/dev/stdout", "/dev/fd/2", "/dev/null"):
        files.check_target(taken)
    for name in ("new", "old", "to_new"):
        files.check_target(tmp_path / name)
    for path, text in (
        (tmp_path / "no/x.json", "no folder"),
        (tmp_path, "found a folder, expected a regular file"),
        (tmp_path / "fifo", "found a FIFO, expected a regular file"),
        (tmp_path / "link", "found a FIFO, expected a regular file"),
        ("/dev/full", "found a device or socket, expected a regular file"),
        ("a\0b", "NUL"),
    ):
        with pytest.raises(InputError, match=text):
            files.check_target(path)
        with pytest.raises(InputError, match="No such file" if "no" in text.split() else text):
            files.write(path, "text")
    files.write(tmp_path / "to_new", "text")
    assert (tmp_path / "other").read_text() == "text" and (tmp_path / "to_new").is_symlink()
    files.write("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    read, write = os.pipe()
    files.write(f"/dev/fd/{write}", "text")
    os.close(write)
    assert os.read(read, 9) == b"text"
    os.close(read)


@pytest.mark.parametrize(
    "words",
    [
        "topo-tune SITE -o",
        "topo-tune racks SITE --cluster -o",
        "topo-tune show SITE -o",
        "topo-tune fit SITE -o",
        "topo-tune fit SITE --points",
        "topo-tune report SITE -o",
        "topo-bench run -o",
        "topo-bench suite -o",
        "topo-bench plot SITE -o",
        "topo-bench report SITE -o",
    ],
)
def test_outputs_are_checked_before_the_work(tmp_path: Path, words: str) -> None:
    """Before what is read: no file SITE is there."""
    for path, what in (("/nowhere/x", "there is no folder /nowhere"), (tmp_path, "found a folder")):
        name, *rest = words.split()
        done = tool(name, *rest, str(path), cwd=tmp_path)
        assert done.returncode == 2 and f"{name}: {path}: {what}" in done.stderr


# -- schemas --

SCHEMA = {
    "type": "object",
    "required": ["n"],
    "additionalProperties": False,
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "list": {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string"}},
        "kind": {"enum": ["one", "two"]},
        "time": {
            "anyOf": [{"const": 0}, {"minimum": 1e-6, "maximum": 1e12}],
            "$comment": "0 or a number from 1e-06 to 1e+12",
        },
        "rate": {"type": "number", "maximum": 1e12},
        "name": {"type": "string", "format": "printable"},
    },
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, '$: found no key "n", which is required'),
        ([], "$: found [], expected object"),
        ({"n": 0}, "$.n: found 0, expected at least 1"),
        ({"n": 10}, "$.n: found 10, expected at most 9"),
        ({"n": 1, "lits": 1}, '$: found the unknown key "lits"; did you mean "list"?'),
        ({"n": 1, "list": []}, "$.list: found [], expected at least 1 entries"),
        ({"n": 1, "list": ["a", 2]}, "$.list[1]: found 2, expected string"),
        ({"n": 1, "list": ["a", "a"]}, '$.list: found "a" twice, expected each only once'),
        ({"n": 1, "name": 3}, "$.name: found 3, expected string"),
        (
            {"n": 1, "name": "a\x1b[2J"},
            r'$.name: found "a\u001b[2J", expected printable characters',
        ),
        ({"n": 1, "name": "\u202ea"}, r'$.name: found "\u202ea", expected printable characters'),
        ({"n": 1.0}, "$.n: found 1.0, expected integer"),
        ({"n": True}, "$.n: found true, expected integer"),
        (
            {"n": 1, "time": 1e300},
            "$.time: found 1e+300, expected 0 or a number from 1e-06 to 1e+12",
        ),
        ({"n": 1, "rate": 1e13}, "$.rate: found 10000000000000.0, expected at most 1e+12"),
        ({"n": 1, "kind": "three"}, '$.kind: found "three", expected one of one, two'),
    ],
)
def test_schema(value: Any, text: str) -> None:
    with pytest.raises(InputError) as error:
        schema.check(value, SCHEMA, "file")
    assert str(error.value) == f"file: {text}"
    schema.check({"n": 1, "list": ["a"], "kind": "two", "name": "é ß"}, SCHEMA, "file")


NAMES = ("properties", "$defs", "dependentRequired")  # in which keys are no keywords


def keywords(part: Any, is_names: bool = False) -> Iterator[tuple[str, Any]]:
    """Those of a schema, each with what it stands in."""
    for key, value in part.items() if isinstance(part, dict) else ():
        if not is_names:
            yield key, part
        if is_names or key not in ("anyOf", "oneOf", "not"):  # what is in them is not said
            yield from keywords(value, not is_names and key in NAMES)
    for value in part if isinstance(part, list) else ():
        yield from keywords(value)


@pytest.mark.parametrize(
    "path", [*REPO.glob("bench/*/*.schema.json"), *REPO.glob("maint/*/*.schema.json")]
)
def test_every_keyword_of_our_schemas_has_a_message(path: Path) -> None:
    """One of ours, and not that of jsonschema."""
    applied = {"properties", "items", "propertyNames", "if", "then", "else"}
    said = {"title", "description", *applied}
    for key, part in keywords(json.loads(path.read_text())):
        if key in ("pattern", "anyOf", "oneOf", "not"):
            assert "$comment" in part, (key, part)
        elif key[0] != "$" and key not in said:
            assert f'"{key}"' in inspect.getsource(schema._explain), key


@pytest.mark.parametrize("seconds", [0, 1000])
def test_progress_in_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: int
) -> None:
    """Where standard error is no terminal; and not for each step."""
    monkeypatch.setattr(progress, "SECONDS", seconds)
    with progress.progress_bar("topo-test") as bar:
        task = bar.add_task("launches", total=2)
        bar.advance(task)
        bar.advance(task)
    lines = [f"topo-test: launches: {i} of 2 in 0 s\n" for i in (1, 2)]
    assert capsys.readouterr().err == ("" if seconds else "".join(lines))
