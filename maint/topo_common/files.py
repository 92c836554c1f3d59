# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reads files that may be wrong, writes files completely or not at all, and locks folders."""

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import stat
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from topo_common.text import short, step

# A matrix of 512 hosts takes 2 MB. A file larger than this is no file of these tools.
SIZE_LIMIT = 256 * 1024 * 1024
MAX_NESTING = 64
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a surrogate pair in JSON
# exit status if the command line, or a file that it names, is wrong
WRONG = 2
# errors of the system that do not depend on the path
RUNNING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}
RUNNING |= {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE}
NOTHING = "nothing was written"


class Failure(Exception):
    """An error. The text is one line and has all that the user needs; `status` is the exit status
    of the tool."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


class InputError(Failure):
    """An error in a file of the command line: it is missing, or its content is wrong. The text is
    one line: file, place, what was found and what is expected."""

    def __init__(self, path: object, text: str, where: str | None = None) -> None:
        parts = [str(path), where, text] if where else [str(path), text]
        super().__init__(": ".join(parts), WRONG)


def refused(path: object, error: OSError, kept: str = "") -> Failure:
    """The Failure for an error of the system with a path: an InputError, unless a disk is full or
    the like. kept: a text on results that exist"""
    text = f"{error.strerror or error}" + (f"; {kept}" if kept else "")
    return Failure(f"{path}: {text}") if error.errno in RUNNING else InputError(path, text)


def json_type(value: Any) -> str:
    """The name of the type of a JSON value, as the library prints it"""
    names = {bool: "boolean", int: "int", float: "double", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises InputError if there is no such file, or if it cannot be read, is empty or too long."""
    try:
        # O_NONBLOCK: opening a FIFO would wait for a writer
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(path, "found something that is not a regular file")
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError(path, error.strerror or str(error)) from None
    except ValueError:
        raise InputError(short(path), "found a NUL byte in the file's name") from None
    if not data.strip():
        raise InputError(path, "the file is empty")
    if len(data) > limit:
        raise InputError(path, f"the file is longer than {limit} bytes")
    return data


def read_text(path: str | os.PathLike[str], limit: int | None = None) -> str:
    """The text of a file in UTF-8, of at most `limit` bytes (default SIZE_LIMIT), without the byte order mark
    that some editors put before it. Raises InputError."""
    return _decoded(path, limit).removeprefix("\ufeff")


def _decoded(path: str | os.PathLike[str], limit: int | None) -> str:
    data = read_bytes(path, SIZE_LIMIT if limit is None else limit)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, "found bytes that are not UTF-8", f"line {line}") from None


class _Refused(Exception):
    """A word of JSON that these tools do not accept"""

    def __init__(self, text: str, pattern: str, count: int = 1) -> None:
        super().__init__(text)
        self.pattern, self.count = pattern, count  # match number `count` outside strings


def read_json(path: str | os.PathLike[str], limit: int | None = None) -> Any:
    """The value in a file of JSON, by parse_json()"""
    return parse_json(_decoded(path, limit), path)


def parse_json(text: str, path: object) -> Any:
    """The value of the JSON text of a file, as by json.loads. It refuses values that JSON does not
    have, or that cannot be written again: NaN, Infinity, numbers that overflow, a key twice in one
    object, halves of surrogate pairs, and more than MAX_NESTING levels.

    Raises InputError, with the place, for such a value, and for a file that ends early or is not
    JSON."""

    def refuse(word: str) -> NoReturn:
        raise _Refused(f"found {word[:24]}, expected a finite number", re.escape(word))

    def to_float(word: str) -> float:
        value = float(word)
        return value if math.isfinite(value) else refuse(word)

    def to_int(word: str) -> int:
        # a number beyond the range of a double would overflow later, where no file can be named
        return int(word) if len(word) < 300 else refuse(word)

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            text = f"found the key {short(twice)} twice in one object, expected it once"
            raise _Refused(text, re.escape(json.dumps(twice)) + r"\s*:", 2)
        return result

    if text.startswith("\ufeff"):
        raise InputError(path, "found a byte order mark, expected UTF-8 without one", "line 1")
    try:
        value = json.loads(
            text,
            parse_constant=refuse,
            parse_float=to_float,
            parse_int=to_int,
            object_pairs_hook=to_object,
        )
        if _is_too_deep(value):
            raise RecursionError
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        what = "the file ends early" if cut else "not JSON"
        raise InputError(path, f"{what}: {error.msg}", where) from None
    except RecursionError:
        raise InputError(path, f"found more than {MAX_NESTING} levels of nesting") from None
    except _Refused as error:
        raise InputError(path, str(error), _line_of(text, error)) from None
    if SURROGATE.search(text) and (half := _half_pair(value)):
        where, name = half
        found = f"found {short(name)}, half of a surrogate pair, expected text"
        raise InputError(path, found, where)
    return value


def _half_pair(value: Any, where: str = "$") -> tuple[str, str] | None:
    """(place, text) of the first text with half of a surrogate pair, which UTF-8 cannot encode"""
    if isinstance(value, str):
        return (where, value) if re.search("[\ud800-\udfff]", value) else None
    if isinstance(value, dict):
        places = [(where, key) for key in value]
        places += [(where + step(key), each) for key, each in value.items()]
    elif isinstance(value, list):
        places = [(where + step(i), each) for i, each in enumerate(value)]
    else:
        return None
    found = (_half_pair(each, place) for place, each in places)
    return next((half for half in found if half), None)


def _line_of(text: str, refused: _Refused) -> str | None:
    """The line of the refused word; None if it is not certain"""
    words = re.compile(rf'({refused.pattern})|"(?:[^"\\]|\\.)*"', re.DOTALL)
    found = [match for match in words.finditer(text) if match[1]]
    if refused.count > 1 and len(found) != refused.count:
        return None
    line = text.count("\n", 0, found[refused.count - 1].start()) + 1 if found else None
    return f"line {line}" if line else None


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file. Raises InputError if it is not TOML."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for numbers of thousands of digits
        raise InputError(path, f"not TOML: {error}") from None
    except RecursionError:
        raise InputError(path, "found too many levels of nesting") from None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_NESTING):
        groups = [v.values() if isinstance(v, dict) else v for v in level if v and is_container(v)]
        level = [v for group in groups for v in group if is_container(v)]
        if not level:
            return False
    return True


def is_container(value: Any) -> bool:
    return isinstance(value, dict | list)


def dump_json(value: Any, step: str = "  ", width: int = 0) -> str:
    """JSON text of `value`, indented by `step`s. A row of a matrix is one line or, with a `width`,
    as many lines as it needs."""

    def dump(value: Any, indent: str, column: int) -> str:
        inner = indent + step
        if isinstance(value, dict) and value:
            heads = [f"{inner}{json.dumps(key)}: " for key in value]
            rows = zip(heads, value.values(), strict=True)
            lines = [head + dump(each, inner, len(head)) for head, each in rows]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        if isinstance(value, list) and any(is_container(v) for v in value):
            lines = [inner + dump(each, inner, len(inner)) for each in value]
            return "[\n" + ",\n".join(lines) + f"\n{indent}]"
        text = json.dumps(value)
        if isinstance(value, list) and 0 < width <= column + len(text):
            return f"[\n{fill(value, inner)}\n{indent}]"
        return text

    def fill(values: list[Any], indent: str) -> str:
        lines = [""]
        for word in [*(f"{json.dumps(value)}," for value in values[:-1]), json.dumps(values[-1])]:
            if lines[-1] and len(indent) + len(lines[-1]) + 1 + len(word) > width:
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
        return "\n".join(indent + line for line in lines)

    return dump(value, "", 0) + "\n"


# paths of files that are already open: they are written directly
OPEN = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]{1,9})")
STANDARD = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}


def _open_number(path: str | os.PathLike[str]) -> int | None:
    """The number of the open file that a path such as /dev/stdout means; None for all others."""
    name = os.fspath(path)
    match = OPEN.fullmatch(name)
    return int(match[1]) if match else STANDARD.get(name)


def check_target(path: str | os.PathLike[str]) -> None:
    """Raises InputError if write() would fail. Called before long computations or measurements."""
    if _open_number(path) is not None:
        return
    try:
        target = _target(path)
    except OSError as error:
        raise refused(path, error) from None
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise InputError(path, f"there is no folder {folder}")
    if target != os.devnull and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(path, f"no permission to write in {folder}")


def _target(path: str | os.PathLike[str]) -> str:
    """The path to which links at `path` lead: a regular file, a file that does not exist yet, or
    /dev/null. Raises InputError for other kinds: opening a FIFO would wait for its reader."""
    try:
        target = os.path.realpath(path)
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target
    except ValueError:
        raise InputError(short(path), "found a NUL byte in the file's name") from None
    if not stat.S_ISREG(mode) and target != os.devnull:
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
        what = kinds.get(stat.S_IFMT(mode), "a device or socket")
        raise InputError(path, f"found {what}, expected a regular file")
    return target


@contextlib.contextmanager
def launches_folder(folder: Path, busy: str) -> Iterator[None]:
    """Create or find a folder with `launches` in it, and lock it while the block runs. Its files
    must be regular, so that reading and writing does not wait. busy: error text if another process
    has the lock"""
    try:
        (folder / "launches").mkdir(parents=True, exist_ok=True)
        for path in (*folder.iterdir(), *(folder / "launches").iterdir()):
            if not path.is_dir():
                _target(path)
        lock = open(folder / "lock", "a+")  # noqa: SIM115 - closed below
    except OSError as error:
        raise refused(folder, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f"{folder}: {busy}") from None
        yield


def write(path: str | os.PathLike[str], data: str | bytes, kept: str = NOTHING) -> None:
    """Write `data` so that `path` holds either all of it or its old content: a new file beside it
    takes its place when it is complete. "-" is standard output; /dev/stdout and the like are open
    files.

    Raises Failure if that fails: no regular file, no permission, disk full. Its text ends with
    `kept`, which says what there is."""
    data = data.encode() if isinstance(data, str) else data
    number = _open_number(path)
    if number == 1:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        if number is not None:
            with open(os.dup(number), "wb") as file:
                file.write(data)
        elif (target := _target(path)) != os.devnull:
            _replace(target, data)
    except OSError as error:
        raise refused(path, error, kept) from None


def _replace(target: str, data: bytes) -> None:
    # mkstemp makes a file that only the owner can read; allow all that umask allows
    umask = os.umask(0)
    os.umask(umask)
    folder, name = os.path.split(target)
    temp = None
    try:
        fd, temp = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
        with open(fd, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~umask)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, target)
        temp = None
    finally:
        if temp:
            os.unlink(temp)
