# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Texts for messages."""

import difflib
import json
import re
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

# Characters that no name may have: control characters, characters without width, characters that
# change the direction of text, U+FFFD, which replaces a lost character, and bytes that are not
# UTF-8. Same as topo_json.c.
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffd"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
# Placements of ranks, as topo-vcluster and topo-bench study name them
PLACES = {
    "block": "ranks in the order of hosts",
    "cyclic": "ranks dealt over the hosts in turns",
    "random": "hosts shuffled",
    "ranks": "ranks shuffled over the hosts",
    "host": "hosts filled one after the other",
    "rack": "ranks dealt over the hosts of a rack",
    "site": "ranks dealt over the racks",
}
SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def short(value: Any, width: int = 48) -> str:
    """`value` as one line of JSON, cut to `width` characters."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def step(key: int | str) -> str:
    """A step of a JSON path, as one line even if the key has line breaks"""
    if isinstance(key, str) and key.isprintable():
        return f".{key}"
    return f"[{short(key)}]"


def one_line(text: str) -> str:
    """`text` for a terminal, without line breaks and control characters"""
    text = re.sub(r"\s*\n\s*", " ", text.strip())
    return "".join(c if c.isprintable() else "?" for c in text)


def folded(line: str) -> str:
    """`line` folded to the width of the terminal, or to 80 columns without one. Words are not
    broken."""
    width = max(shutil.get_terminal_size().columns, 40)
    return textwrap.fill(
        line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def size_text(size: int) -> str:
    """A size with a suffix if it is a whole multiple, such as 1K for 1024"""
    for suffix, factor in reversed(SUFFIXES.items()):
        if size and size % factor == 0:
            return f"{size // factor}{suffix}"
    return str(size)


def place_text(placement: str) -> str:
    """A placement in words; an unknown one keeps its name."""
    name, _, seed = placement.partition(":")
    if seed and not (name in ("random", "ranks") and seed.isdigit()):
        return placement
    return PLACES.get(name, placement) + (f" (seed {seed})" if seed else "")


def counted(number: int, what: str) -> str:
    """1 launch, 2 launches"""
    plural = "es" if what.endswith(("ch", "s")) else "s"
    return f"{number} {what}{'' if number == 1 else plural}"


def hint(name: str, known: Iterable[str]) -> str:
    """'; did you mean "X"?' if `known` has a similar name, else ''"""
    near = difflib.get_close_matches(name, list(known), 1)
    return f'; did you mean "{near[0]}"?' if near else ""
