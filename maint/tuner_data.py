# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Makes topo-tune's data on MPICH: its algorithms, and its built-in selection.

It reads MPICH's source and cvars/, and makes maint/topo_tune/mpich-<version>.json, so that no such
list is kept by hand."""

import json
import re
from pathlib import Path

from common import REPO, Failure, Row, apply_patches, is_generated, scratch, series, touched
from lists import NO_THREADS, add_algorithms, cvar_blocks
from sources import Source

ALGORITHMS = "src/mpi/coll/coll_algorithms.txt"
CVARS = [  # files with the CVARs that set parameters
    "src/mpi/coll/cvars.txt",
    "src/mpi/coll/alltoall/alltoall_intra_k_brucks.c",
    "src/mpi/coll/ialltoall/ialltoall_tsp_brucks.c",
    "src/mpi/coll/ialltoall/ialltoall_tsp_scattered.c",
]
BUILTIN = "maint/tuning/coll/mpir/generic.json"
READER = "src/mpi/coll/src/csel.c"  # reads selection files
PARAMETERS = "src/mpi/coll/src/csel_container.c"
TYPES = "src/mpi/coll/include/coll_types.h"
NAMES = "src/mpi/coll/src/coll_impl.c"  # has the names of values of parameters
SOURCES = [ALGORITHMS, BUILTIN, READER, PARAMETERS, TYPES, NAMES, *CVARS]
# conditions for which 4.0 accepts "=any"; later versions accept it for all
ANY = ("comm_size", "comm_hierarchy", "avg_msg_size", "total_msg_size", "count")


def path_for(series: str) -> Path:
    return REPO / f"maint/topo_tune/mpich-{series}.json"


def read_algorithms(text: str, cvars: dict[str, str]) -> dict[str, dict[str, Row]]:
    """{collective: {name of the function: its row}} from coll_algorithms.txt, by the rules of
    maint/gen_coll.py"""
    result: dict[str, dict[str, Row]] = {}
    rows: list[tuple[str, str, str, dict[str, str]]] = []
    for line in text.split("\n"):
        if match := re.match(r"(\w+)-(intra|inter):", line):
            collective, kind = match.groups()
            found = result.setdefault(collective, {})
            # gen_coll.py assumes this algorithm, which the file does not list
            if not collective.startswith("i"):
                found[function(collective, "allcomm", "nb")] = {}
        elif match := re.match(r"\s+(\w+)\s*$", line):
            rows.append((collective, kind, match[1], {}))
        elif match := re.match(r"\s+(\w+):\s*(.+)", line):
            rows[-1][3][match[1]] = match[2]
    for collective, kind, name, keys in rows:
        row: Row = {}
        # topo-tune knows no communicators whose ranks are threads
        if restrictions := [
            w for w in words(keys.get("restrictions", NO_THREADS)) if w != NO_THREADS
        ]:
            row["restrictions"] = restrictions
        if "extra_params" in keys:
            pairs = zip(words(keys["extra_params"]), words(keys["cvar_params"]), strict=True)
            # leave out constants, param=value, since a file cannot set them
            row["params"] = {
                param: default(collective, cvar, cvars) for param, cvar in pairs if cvar != "-"
            }
        result[collective][function(collective, "allcomm" if "allcomm" in keys else kind, name)] = (
            row
        )
    return result


def function(collective: str, kind: str, name: str) -> str:
    return f"MPIR_{collective.capitalize()}_{kind}_{name}"


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def default(collective: str, cvar: str, cvars: dict[str, str]) -> Row:
    """The CVAR that sets a parameter if a file does not, and its default"""
    # all collectives share the CVAR THROTTLE; the blocking and the nonblocking form share our
    # segments and radix
    if cvar == "THROTTLE":
        collective = "alltoall"
    elif re.fullmatch(r"\w+_SEGMENT_BYTES|(TOPO_\w+|RECURSIVE_DOUBLING)_KVAL", cvar):
        collective = collective.removeprefix("i")
    name = f"MPIR_CVAR_{collective.upper()}_{cvar}"
    if name not in cvars:
        raise Failure(f"{CVARS[0]}: no entry for {name}, which {ALGORITHMS} names for {collective}")
    value = {"true": "1", "false": "0"}.get(cvars[name], cvars[name])
    return {"cvar": name, "default": int(value) if value.lstrip("-").isdigit() else value}


def read_cvars(text: str) -> dict[str, str]:
    """{name: default} of CVAR blocks"""
    entry = r"^\s+- name\s*: (\w+)\n(?:\s+\w+\s*:.*\n)*?\s+default\s*: (.*)$"
    return dict(re.findall(entry, text, re.MULTILINE))


def add_values(rows: dict[str, dict[str, Row]], types: str, names: str) -> None:
    """Add the names of values to parameters whose values have names."""
    trees = [name.lower() for name in re.findall(r"^    MPIR_TREE_TYPE_(\w+)", types, re.M)]
    plain = [name for name in trees if not name.startswith("topology")]
    topology = re.findall(r"_from_string_with_topo\((\w+)\)", names)
    ccls = re.findall(r"ccl = MPIR_CVAR_ALLREDUCE_CCL_(\w+);", names)
    for algorithms in rows.values():
        for row in algorithms.values():
            for name, param in row.get("params", {}).items():
                if name == "tree_type":
                    param["values"] = trees if param["cvar"] in topology else plain
                elif name == "ccl":
                    param["values"] = ccls


def add_wave(rows: dict[str, dict[str, Row]], parameters: str, cvars: dict[str, str]) -> None:
    """Add the parameters of topology_wave, which coll_algorithms.txt does not list."""
    for collective, member, param in re.findall(r"cnt->u\.(\w+)\.(\w+)\.(topo_\w+) =", parameters):
        row = rows[collective][f"MPIR_{collective.capitalize()}_{member}"]
        row["params"][param] = default(collective, param.upper(), cvars)


def read_grammar(reader: str, parameters: str) -> Row:
    """The grammar of selection files that the reader of a version accepts: see topo_tune.grammar"""
    found = re.findall(r'!(strn?cmp)\(ckey, "(\w+)(<=|<|=)(\w*)"', reader)
    forms: dict[str, list[str]] = {}
    for compare, name, op, value in sorted(found, key=lambda row: ["<=", "<", "="].index(row[2])):
        number = "NAME" if name == "collective" else "N"
        forms.setdefault(name, []).append(op + (value if compare == "strcmp" else number))
    is_any = "key_is_any" in reader
    if is_any:
        for name in ANY:
            forms[name].append("=any")
    return {
        "conditions": {
            name: " ".join(forms[name])
            for name in forms
            if name not in ("algorithm", "composition")
        },
        "any": is_any,
        "hierarchy": "flags" if "MPIR_COMM_ATTR__HIERARCHY" in reader else "kinds",
        "stock_values": "names" if "get_tree_type_from_string" in parameters else "numbers",
    }


def generate(source: Source, rows: list[Row]) -> dict[Path, bytes]:
    """{path in the repository: content} of the data file for the version of a Source; `rows` of the
    manifest."""
    hand = [patch for patch in series(source.row) if not is_generated(patch)]
    patched = {name for patch in hand for name in touched(patch.read_text(errors="replace"))}
    with scratch("tuner-") as work:
        source.copy(work, only=sorted(patched.union(SOURCES)))
        stock_text = (work / ALGORITHMS).read_text()
        parameters, types, names = (
            (work / name).read_text() for name in (PARAMETERS, TYPES, NAMES)
        )
        grammar = read_grammar((work / READER).read_text(), parameters)
        apply_patches(work, hand)
        text = (work / ALGORITHMS).read_text()
        builtin = json.loads((work / BUILTIN).read_text())
        cvars = read_cvars(
            "\n".join(
                [
                    *((work / name).read_text() for name in CVARS if (work / name).exists()),
                    cvar_blocks(rows),
                ]
            )
        )
    stock = read_algorithms(stock_text, cvars)
    collectives = read_algorithms(add_algorithms(text, rows), cvars)
    add_wave(collectives, parameters, cvars)
    add_values(collectives, types, names)
    for collective, algorithms in collectives.items():
        for name, row in algorithms.items():
            if name not in stock[collective]:
                row["patched"] = True
    lines = [
        "{",
        ' "generated": "by make refresh, from cvars/ and the source of MPICH; do not edit",',
        f' "version": "{source.version}",',
        ' "grammar": {',
        ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in grammar.items()),
        " },",
        ' "collectives": {',
        ",\n".join(
            f'  "{collective}": {{\n'
            + ",\n".join(
                f'   "{name}": {json.dumps(row)}'
                for name, row in sorted(collectives[collective].items())
            )
            + "\n  }"
            for collective in sorted(collectives)
        ),
        " },",
        ' "builtin": {',
        ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in sorted(builtin.items())),
        " }",
        "}",
    ]
    return {path_for(source.row["series"]): ("\n".join(lines) + "\n").encode()}
