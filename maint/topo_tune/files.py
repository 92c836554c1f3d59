# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Reading files that may be bad, and writing files that are whole or not there."""

import json
import math
import os
import stat
import sys
import tempfile

# A matrix of 512 hosts takes 2 MB; more than this is no site file, and would only fill memory.
SIZE_LIMIT = 256 * 1024 * 1024


class InputError(Exception):
    """A file says something that it may not say. The text is one line: file, place, what was found
    and what is expected."""

    def __init__(self, path, text, where=None):
        parts = [str(path), where, text] if where else [str(path), text]
        super().__init__(": ".join(parts))


def short(value, width=48):
    """`value` as one line of JSON, cut to `width` characters: for messages."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def json_type(value):
    """The name of a JSON value's type, as the library prints it."""
    names = {bool: "boolean", int: "int", float: "double", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def read_bytes(path, limit):
    """The content of a regular file of at most `limit` bytes.

    Raises InputError where there is none, it may not be read, is empty or too long."""
    try:
        # O_NONBLOCK: opening a FIFO would wait for a writer
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(path, "found something that is not a regular file")
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError(path, error.strerror) from None
    except ValueError:
        raise InputError(short(path), "found a NUL byte in the file's name") from None
    if not data.strip():
        raise InputError(path, "the file is empty")
    if len(data) > limit:
        raise InputError(path, f"the file is longer than {limit} bytes")
    return data


def read_text(path, limit=None):
    """The text of a file in UTF-8, of at most `limit` bytes (default SIZE_LIMIT). Raises InputError."""
    data = read_bytes(path, SIZE_LIMIT if limit is None else limit)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, "found bytes that are not UTF-8", f"line {line}") from None


def read_json(path, limit=None):
    """What json.loads gives for a file, and nothing that JSON does not have: NaN, Infinity, numbers
    that overflow, and a key twice in one object are refused.

    Raises InputError, with line and column for a file that ends early or is not JSON."""
    text = read_text(path, limit)

    def refuse(word):
        raise InputError(path, f"found {word[:24]}, expected a finite number")

    def to_float(word):
        value = float(word)
        return value if math.isfinite(value) else refuse(word)

    def to_int(word):
        # a number beyond double precision's range would overflow later, far from the file
        return int(word) if len(word) < 300 else refuse(word)

    def to_object(pairs):
        result = dict(pairs)
        if len(result) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InputError(path, f"the key {short(twice)} is there twice in one object")
        return result

    try:
        return json.loads(
            text,
            parse_constant=refuse,
            parse_float=to_float,
            parse_int=to_int,
            object_pairs_hook=to_object,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        text = "the file ends early" if cut else "not JSON"
        raise InputError(path, f"{text}: {error.msg}", where) from None
    except RecursionError:
        raise InputError(path, "nested too deeply") from None


def dump_json(value):
    """JSON text of `value`: indented, but a row of a matrix is one line."""

    def dump(value, indent):
        inner = indent + "  "
        if isinstance(value, dict) and value:
            rows = [f"{inner}{json.dumps(k)}: {dump(v, inner)}" for k, v in value.items()]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
        if isinstance(value, list) and any(isinstance(v, (list, dict)) for v in value):
            return "[\n" + ",\n".join(inner + dump(v, inner) for v in value) + f"\n{indent}]"
        return json.dumps(value)

    return dump(value, "") + "\n"


def write(path, data):
    """Write `data`, str or bytes, so that `path` holds all of it or what it held before: a new file
    beside it takes its place when it is complete. "-" is standard output; what is not a regular
    file (/dev/null, a pipe) is written to directly.

    Raises InputError where that fails: no permission, disk full."""
    data = data.encode() if isinstance(data, str) else data
    try:
        if path == "-":
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        target = os.path.realpath(path)
        if os.path.isdir(target):
            raise InputError(path, "Is a directory")
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb", buffering=0) as file:
                file.write(data)
            return
        _replace(target, data)
    except OSError as error:
        raise InputError("standard output" if path == "-" else path, error.strerror) from None
    except ValueError:
        raise InputError(short(path), "found a NUL byte in the file's name") from None


def _replace(target, data):
    # mkstemp makes a file that only the owner reads; a tuning file is for everyone that umask allows
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
