# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Functions that the programs in maint/ share: folders, versions, running of steps, git and
patches.

It uses Python's standard library only, because it runs before build/venv exists.
"""

import fcntl
import functools
import hashlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit(f"{sys.executable} is too old: Python 3.11 or later is needed")

REPO = Path(__file__).resolve().parent.parent
BUILD = REPO / "build"
OVERLAY = REPO / "src_overlay"
TOPO = "src/mpi/coll/algorithms/topo"  # below OVERLAY, and in a tree of MPICH
VERSION_HEADER = f"{TOPO}/topo_version.h"
MANIFEST = REPO / "cvars/algorithms.toml"
CVAR_BLOCKS = REPO / "cvars/cvars.txt"
# Options of MPICH's configure by device, the default first
DEVICES = {
    "ch4:ofi": "--with-device=ch4:ofi --with-libfabric=/usr --with-datatype-engine=dataloop",
    "ch4:ucx": "--with-device=ch4:ucx --with-ucx=/usr --with-datatype-engine=dataloop",
    "ch3:sock": "--with-device=ch3:sock",
}
GENERATED_PATCH = "coll-list-topo-algorithms.patch"

Row = dict[str, Any]  # a row of versions.toml or of the manifest
Env = Mapping[str, str]


class Failure(Exception):
    """An error whose text has all that the user needs; it is shown without a traceback."""


_caught: list[int] = []  # signals that came
_starting: list[str] = []  # programs that are being started, which an exception would leave behind


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _catch(number: int, _frame: object) -> None:
    """Raise for a signal. The exception may be lost, for example in a destructor, so step() looks
    at _caught."""
    _caught.append(number)
    if not _starting:
        _raise(number)


def main(function: Callable[[], int]) -> NoReturn:
    """Run FUNCTION as a program. A Failure or ^C ends it with one message and an exit status."""
    name = Path(sys.argv[0]).name
    # a plain `kill` must clean up too
    signal.signal(signal.SIGTERM, _catch)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, _catch)
    try:
        sys.exit(function())
    except Failure as err:
        sys.exit(f"{name}: {err}")
    except OSError as err:
        sys.exit(f"{name}: {err.filename or ''}: {err.strerror or err}")
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; nothing half-done is left", file=sys.stderr)
        sys.exit(130)
    finally:
        hand_over()


def sudo_user() -> pwd.struct_passwd | None:
    """The user who has called sudo, if this clone is that user's; else None"""
    caller = os.environ.get("SUDO_UID", "0")
    if os.geteuid() != 0 or caller in ("", "0") or caller != str(REPO.stat().st_uid):
        return None
    return pwd.getpwuid(int(caller))


def hand_over() -> None:
    """Give files that root has written to the clone and the cache to the caller of sudo."""
    if not (user := sudo_user()):
        return
    found, cache = [REPO, *REPO.rglob("*")], cache_dir()
    if cache.is_relative_to(user.pw_dir):
        above = [folder for folder in cache.parents if folder.is_relative_to(user.pw_dir)]
        found += [*above, cache, *cache.rglob("*")]
    for path in found:
        with suppress(FileNotFoundError):
            if path.lstat().st_uid == 0:
                os.lchown(path, user.pw_uid, user.pw_gid)


def cache_dir() -> Path:
    """The folder outside the clone for downloads and builds"""
    user = sudo_user()
    home = Path(user.pw_dir) if user else Path.home()
    default = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "mpich-topo"
    path = Path(os.environ.get("MPICH_TOPO_CACHE") or default).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def lock(name: str, message: str) -> Iterator[None]:
    """Hold the lock file NAME of the cache. Print MESSAGE if another process has the lock."""
    with open(cache_dir() / f"{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(message, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A temporary folder, which is removed afterwards. It may get several hundred MB, so it is in
    the cache, and not in /tmp, which may be in memory."""
    parent = parent or cache_dir() / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# -- versions -------------------------------------------------------------------------------


def versions() -> list[Row]:
    """The rows of versions.toml."""
    rows: list[Row] = _versions_file()["mpich"]
    return rows


def topo_version() -> str:
    """The version of this repository."""
    return str(_versions_file()["topo"])


def topo_commit() -> str:
    """The last commit that changed files for MPICH, and whether they have changed since; "" if this
    is no git repository"""
    parts = ["--", "patches", "src_overlay", "cvars"]
    if not (REPO / ".git").exists() or not shutil.which("git"):
        return ""
    try:
        commit = git("log", "-1", "--format=%H", *parts, cwd=REPO).strip()[:12]
        changed = git("--no-optional-locks", "status", "--porcelain", *parts, cwd=REPO)
    except Failure:  # for example, the repository has another owner
        return ""
    return f"{commit} with changes" if changed else commit


def _versions_file() -> dict[str, Any]:
    with open(REPO / "maint/versions.toml", "rb") as file:
        return tomllib.load(file)


def tree_version(tree: Path) -> str:
    """The version of MPICH that a source tree states"""
    path = tree / "maint/version.m4"
    if not tree.is_dir():
        raise Failure(f"{tree}: no such folder")
    if not path.is_file():
        raise Failure(f"{tree}: not an MPICH source tree, it has no maint/version.m4")
    return parse_version(path.read_text(errors="replace"), path)


def numversion(tree: Path) -> int:
    """MPICH_NUMVERSION of a configured tree"""
    header = tree / "src/include/mpi.h"
    match = re.search(r"#define MPICH_NUMVERSION (\d+)", header.read_text())
    if not match:
        raise Failure(f"{header}: found no MPICH_NUMVERSION")
    return int(match[1])


def parse_version(text: str, where: Path | str) -> str:
    match = re.search(r"m4_define\(\[MPICH_VERSION_m4\],\s*\[(.*?)\]\)", text)
    if not match:
        raise Failure(f"{where}: does not say which version of MPICH this is")
    return match[1]


def supported(version: str, where: Path) -> Row:
    """The row of versions.toml for VERSION. WHERE: path of that source, for the error"""
    match = re.match(r"\d+\.\d+(?!\d)", version)
    for row in versions():
        if match and row["series"] == match[0]:
            if version not in row["tested"]:
                warn(f"{where}: MPICH {version} is not tested; tested: {', '.join(row['tested'])}")
            return row
    known = ", ".join(f"{row['series']}.x" for row in versions() if series(row))
    raise Failure(f"{where}: this is MPICH {version}; supported: {known}")


@functools.cache
def warn(text: str) -> None:
    """Print TEXT on standard error, only once."""
    print(f"{Path(sys.argv[0]).name}: warning: {text}", file=sys.stderr, flush=True)


def find_row(wanted: str) -> Row:
    """The row of versions.toml that a user means with 5.0, 5.0.1 or main."""
    for row in versions():
        if wanted in (row["series"], series_folder(row).name, *row["tested"]):
            return row
    known = ", ".join(series_folder(row).name for row in versions())
    raise Failure(f"{wanted!r} is not a version of MPICH that is supported: {known}")


def series_folder(row: Row) -> Path:
    return REPO / "patches" / str(row.get("folder") or row["series"])


def series(row: Row) -> list[Path]:
    """The patches for a row of versions.toml, in their order."""
    return sorted(series_folder(row).glob("[0-9][0-9][0-9][0-9]-*.patch"))


def is_generated(patch: Path) -> bool:
    return patch.name.endswith(GENERATED_PATCH)


def overlay_files() -> list[str]:
    """The files of src_overlay, relative to it."""
    return sorted(
        path.relative_to(OVERLAY).as_posix()
        for path in OVERLAY.rglob("*")
        if path.is_file() and path.name != ".gitignore"
    )


def topo_files(*names: str, topo: Path = OVERLAY / TOPO) -> list[Path]:
    """The files of TOPO, and its folders, with these names. They may be patterns: topo_gen_*.c"""
    found = {name: sorted(topo.rglob(name)) for name in names}
    missing = [name for name, files in found.items() if not files]
    if missing:
        raise Failure(f"no {', '.join(missing)} in {topo}")
    return [file for files in found.values() for file in files]


def topo_includes(topo: Path = OVERLAY / TOPO) -> list[str]:
    """Options of a compiler by which the files of TOPO find each other's headers"""
    folders = sorted({header.parent for header in topo.rglob("*.h")})
    return [f"-I{folder}" for folder in folders]


def touched(patch_text: str) -> list[str]:
    """The files that a patch edits. Patches here edit only: new files are in the overlay."""
    return sorted(set(re.findall(r"^\+\+\+ b/(\S+)", patch_text, re.MULTILINE)))


def sha256(path: Path | str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- running --------------------------------------------------------------------------------


def run(command: Sequence[str | Path], cwd: Path | None = None, env: Env | None = None) -> str:
    """Run a short command; its output is shown only when it fails."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if result.returncode:
        raise Failure(f"{' '.join(map(str, command))} failed:\n{result.stdout.rstrip()}")
    return result.stdout


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def last_line(path: Path) -> str:
    """The last line that a log has so far."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def step(
    title: str,
    command: Sequence[str | Path],
    log: Path,
    cwd: Path | None = None,
    env: Env | None = None,
) -> None:
    """Run a long command with its output in LOG. On a terminal, one line shows the time and the
    last output; elsewhere, a line appears every half minute. ^C ends all processes that it
    started."""
    log.parent.mkdir(parents=True, exist_ok=True)
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    start, shown = time.monotonic(), 0.0
    with open(log, "a") as out:
        out.write(f"$ {' '.join(map(str, command))}\n")
        out.flush()
        _starting.append(title)
        try:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            _starting.clear()
        try:
            while True:
                if _caught:
                    _raise(_caught[0])
                try:
                    process.wait(0.2)
                    break
                except subprocess.TimeoutExpired:
                    pass
                spent = time.monotonic() - start
                if terminal:
                    width = shutil.get_terminal_size().columns
                    line = f"  {title:<24} {clock(spent)}  {last_line(log)}"
                    print("\r\033[K" + line[: width - 1], end="", flush=True)
                elif spent - shown >= 30:
                    shown = spent
                    print(f"  {title:<24} {clock(spent)}  {last_line(log)[:60]}", flush=True)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    took = clock(time.monotonic() - start)
    clear = "\r\033[K" if terminal else ""
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        print(f"{clear}  {title:<24} {took}  FAILED", flush=True)
        raise Failure(f"{title} failed; the end of {log}:\n{tail}")
    print(f"{clear}  {title:<24} {took}", flush=True)


# -- git and patches --------------------------------------------------------------------------


def git(*args: str | Path, cwd: Path) -> str:
    """Run git without the user's settings, and with fixed names and dates, so that results are
    equal everywhere."""
    who = {"NAME": "mpich-topo authors", "EMAIL": "topo@localhost", "DATE": "2022-04-07T12:00:00Z"}
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ["core.abbrev=12", "diff.algorithm=myers", "core.autocrlf=false", "gc.auto=0"]
    return run(["git", *(w for s in settings for w in ("-c", s)), *args], cwd=cwd, env=env)


def git_tree(tree: Path, patches: Iterable[Path]) -> None:
    """Make a git repository of the files in TREE, tag them `upstream`, and make every patch a
    commit upon them."""
    git("init", "-q", "-b", "topo", cwd=tree)
    # leave out bundled packages: they are large, and no patch edits them
    (tree / ".git/info/exclude").write_text("/modules/\n")
    git("add", "-A", cwd=tree)
    git("commit", "-q", "-m", "upstream", cwd=tree)
    git("tag", "upstream", cwd=tree)
    for patch in patches:
        git("am", "-q", "--keep-cr", patch, cwd=tree)


FORMAT_PATCH = ["format-patch", "-q", "--zero-commit", "--no-signature", "-N", "--stat=72"]


def apply_patches(
    tree: Path, patches: Iterable[Path], strict: bool = False, reverse: bool = False
) -> None:
    """Apply patch files to the files in TREE: no fuzz, no rejects, no backups. Hunks may be at an
    offset, since a user's tree may differ; STRICT forbids that."""
    options = ["-p1", "--fuzz=0", "--no-backup-if-mismatch", "-r", "-"]
    options.append("-R" if reverse else "-N")
    for patch in patches:
        result = subprocess.run(
            ["patch", *options, "-i", patch],
            cwd=tree,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if result.returncode or (strict and " offset " in result.stdout):
            raise Failure(f"{patch.name} does not apply:\n{result.stdout.rstrip()}")
