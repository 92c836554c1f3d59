# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The manifest of algorithms, and the five lists in MPICH's tree that it fills.

Each list has an `add_` function and a `read_` function. `add_` takes the text of a file, and
returns it with the new rows behind the existing rows of the collective. `read_` reads the list as
its reader in MPICH does, and returns the (collective, name) pairs. `make refresh` uses the first,
`make patches-check` the second."""

import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from common import (
    CVAR_BLOCKS,
    FORMAT_PATCH,
    GENERATED_PATCH,
    MANIFEST,
    OVERLAY,
    TOPO,
    VERSION_HEADER,
    Failure,
    Row,
    git,
    git_tree,
    is_generated,
    scratch,
    series,
    series_folder,
    topo_version,
    touched,
)
from sources import Source

Found = set[tuple[str, str]]  # collective, name
Add = Callable[[str, list[Row]], str]
Read = Callable[[str], Found]

TOPO_ALGOS_H = OVERLAY / TOPO / "topo_algos.h"
TOPO_VERSION_H = OVERLAY / VERSION_HEADER

REQUIRED = {"collective": str, "name": str, "help": str}
OPTIONAL = {
    "use": str,
    "baseline": bool,
    "file": str,
    "family": str,
    "shape": str,
    "k": int,
    "selects": bool,
    "restrictions": list,
    "params": list,
    "segmented": bool,
    "radix": bool,
    "tests": list,
    "nonblocking": bool,
}

# {key of a row: name of the parameter in the algorithm's functions}
PARAMS = {"segmented": "segments", "radix": "radix"}

# The CVAR of an algorithm that is segmented, or has a radix
PARAM_CVAR = """\
    - name        : MPIR_CVAR_{name}
      category    : COLLECTIVE
      type        : int
      default     : 0
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
{text}
"""


def load_manifest(path: Path = MANIFEST) -> list[Row]:
    """The rows of the manifest, checked."""
    try:
        with open(path, "rb") as file:
            rows = tomllib.load(file).get("algorithm", [])
    except tomllib.TOMLDecodeError as err:
        raise Failure(f"{path}: {err}") from None
    seen = set()
    for number, row in enumerate(rows, 1):
        where = f"{path}: algorithm {number} ({row.get('name', 'no name')})"
        for key, value in row.items():
            kind = (REQUIRED | OPTIONAL).get(key)
            if not kind:
                known = ", ".join(REQUIRED | OPTIONAL)
                raise Failure(f'{where}: unknown key "{key}"; known: {known}')
            if not isinstance(value, kind):
                raise Failure(f'{where}: "{key}" must be a {kind.__name__}')
        for key in REQUIRED.keys() - row.keys():
            raise Failure(f'{where}: "{key}" is missing')
        for key in ("collective", "name"):
            if not re.fullmatch(r"[a-z][a-z0-9_]*", row[key]):
                raise Failure(f'{where}: "{key}" must be a lower-case word: {row[key]!r}')
        if ("file" in row) == row.get("selects", False):
            raise Failure(f'{where}: needs either "file", or "selects" = true')
        folder = Path("src/mpi/coll") / row["collective"]
        if "file" in row and not re.fullmatch(rf"{folder}/[^/]+\.c", row["file"]):
            raise Failure(f'{where}: "file" must be a C file in {folder}/: {row["file"]}')
        if ("shape" in row) != (row.get("family") in ("tree", "block_tree")):
            raise Failure(f'{where}: "shape" is for the families tree and block_tree')
        if ("use" in row) == bool(row.get("baseline") or row.get("selects") or "k" in row):
            raise Failure(f'{where}: needs either "use", or "baseline" or "selects" = true, or "k"')
        for key in ("help", "use"):
            if re.search(r'["\\\n|]', row.get(key, "")) or len(row.get(key, "")) > 90:
                raise Failure(f'{where}: "{key}" must be one line up to 90 characters, no quotes')
        for param in row.get("params", []):
            if not isinstance(param, dict) or {"name", "cvar"} - param.keys():
                raise Failure(f'{where}: a row of "params" needs "name" and "cvar"')
        if row.get("segmented"):
            row["params"] = [
                {"name": "segment_bytes", "cvar": f"{row['name'].upper()}_SEGMENT_BYTES"},
                *row.get("params", []),
            ]
        if row.get("radix"):
            row["params"] = [
                *row.get("params", []),
                {"name": "k", "cvar": f"{row['name'].upper()}_KVAL"},
            ]
        if row["collective"].startswith("ineighbor_"):  # a blocking call runs the nonblocking form
            row["of"] = row["collective"].removeprefix("i")
        if (row["collective"], row["name"]) in seen:
            raise Failure(f"{where}: named twice")
        seen.add((row["collective"], row["name"]))
    return rows + [nonblocking(row) for row in rows if row.get("nonblocking")]


def nonblocking(row: Row) -> Row:
    """The row of the nonblocking form of a row; its key "of" names that row."""
    return {
        **{key: row[key] for key in ("file", "help", "params", "selects") if key in row},
        "collective": f"i{row['collective']}",
        "name": f"tsp_{row['name']}",
        "restrictions": [] if row.get("selects") else [*row.get("restrictions", []), "placed"],
        "of": row["collective"],
    }


def has_own_file(row: Row) -> bool:
    """False for the nonblocking form of another row, which is in the file of that row."""
    return Path(row.get("file", "")).parent.name == row["collective"]


def segment_cvar(row: Row) -> str:
    """The CVAR of an algorithm that is segmented"""
    is_lanes = row["name"] == "rack_lanes"
    what = f"{row['name']} {row['collective']}"
    what = (
        f"Chunk length of {what}, in bytes; each lane takes a part of a chunk."
        if is_lanes
        else f"Segment length of {what}, in bytes."
    )
    most = "" if is_lanes else ", at most MPIR_CVAR_COLL_TOPO_SEGMENT_BYTES"
    return param_cvar(
        row,
        "segment_bytes",
        f"{what} 0: the library chooses it from the length of the message and the links of the "
        f"site{most}. The value of rank 0 of MPI_COMM_WORLD applies to all ranks. A parameter "
        "segment_bytes in a tuning file overrides this CVAR.",
    )


def radix_cvar(row: Row) -> str:
    """The CVAR of an algorithm that has a radix"""
    return param_cvar(
        row,
        "k",
        f"Radix of {row['name']} {row['collective']} at each level of the topology: hosts, racks and "
        "so on. 0: the library chooses it for each level from the latency and the message rate of the "
        "site. The value of rank 0 of MPI_COMM_WORLD applies to all ranks. A parameter k in a tuning "
        "file overrides this CVAR.",
    )


def param_cvar(row: Row, name: str, text: str) -> str:
    indent = " " * 8
    return PARAM_CVAR.format(
        name=f"{row['collective'].upper()}_{cvar_of(row, name)}",
        text=textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent),
    )


def cvar_of(row: Row, name: str) -> str:
    return next(param["cvar"] for param in row["params"] if param["name"] == name)


def cvar_blocks(rows: list[Row]) -> str:
    """The text of all our CVARs: cvars.txt from its first entry on, then CVARs of algorithms"""
    if not CVAR_BLOCKS.is_file():
        return ""
    text = CVAR_BLOCKS.read_text()
    match = re.search(r"^    - name +: ", text, re.MULTILINE)
    if not match:
        raise Failure(f'{CVAR_BLOCKS}: no entry, which would start with "    - name        : "')
    blocks = [segment_cvar(row) for row in rows if row.get("segmented")]
    blocks += [radix_cvar(row) for row in rows if row.get("radix")]
    return "\n".join([text[match.start() :].rstrip() + "\n", *blocks])


def function(row: Row) -> str:
    return f"MPIR_{row['collective'].capitalize()}_intra_{row['name']}"


def insert_after_last(lines: list[str], pattern: str, new: list[str], where: str) -> None:
    """Insert NEW behind the last line that PATTERN matches."""
    for i in range(len(lines) - 1, -1, -1):
        if re.search(pattern, lines[i]):
            lines[i + 1 : i + 1] = new
            return
    raise Failure(f"{where}: no line like {pattern!r}, behind which to add")


def section(lines: list[str], heading: str, indent: int, where: str) -> tuple[int, int]:
    """The range of lines below HEADING that are indented deeper than INDENT."""
    try:
        start = lines.index(" " * indent + heading) + 1
    except ValueError:
        raise Failure(f'{where}: no line "{heading}"') from None
    end = start
    while end < len(lines) and re.match(rf" {{{indent + 1},}}\S", lines[end]):
        end += 1
    return start, end


# -- <collective>/Makefile.mk -----------------------------------------------------------------


def add_makefile(text: str, rows: list[Row]) -> str:
    lines = text.split("\n")
    for row in rows:
        pattern = rf"^    src/mpi/coll/{row['collective']}/\w+_(intra|allcomm)_\w+\.c"
        last = max((i for i, line in enumerate(lines) if re.match(pattern, line)), default=None)
        if last is None:
            raise Failure(f"{row['collective']}/Makefile.mk: no line like {pattern!r}")
        if lines[last].endswith("\\"):
            lines.insert(last + 1, f"    {row['file']} \\")
        else:
            lines[last] += " \\"
            lines.insert(last + 1, f"    {row['file']}")
    return "\n".join(lines)


def read_makefile(text: str) -> Found:
    joined = text.replace("\\\n", " ")
    found = set()
    for files in re.findall(r"^mpi_core_sources\s*\+=(.*)", joined, re.MULTILINE):
        for name in files.split():
            match = re.fullmatch(r"src/mpi/coll/(\w+)/(\w+?)_intra_(\w+)\.c", name)
            if match and match[1] == match[2]:
                found.add((match[1], match[3]))
    return found


# -- coll_algorithms.txt ------------------------------------------------------------------------


# A restriction of all our algorithms, in versions of MPICH with communicators whose ranks are
# threads
NO_THREADS = "no-threadcomm"
# A restriction of MPICH's own reductions whose order of additions depends on the nodes, on a
# topology, or on the order of arrival (see MPIR_CVAR_COLL_TOPO_FIXED_ORDER)
ANY_ORDER = "any-order"
ORDER_OF_PLACES = {
    *("smp", "sched_smp", "tree", "tsp_tree", "ccl", "tsp_recexch_multiple_buffer"),
}


def restrict_order(lines: list[str]) -> None:
    is_reduction = False
    for i, line in enumerate(lines):
        if re.match(r"\S", line):
            is_reduction = bool(re.match(r"i?(reduce|allreduce|scan)-intra:", line))
        elif is_reduction and line.strip() in ORDER_OF_PLACES:
            if re.match(r"\s+restrictions:", lines[i + 1]):
                lines[i + 1] += f", {ANY_ORDER}"
            else:
                lines.insert(i + 1, f"        restrictions: {ANY_ORDER}")


def add_algorithms(text: str, rows: list[Row]) -> str:
    lines = text.split("\n")
    restrict_order(lines)
    for row in rows:
        start, end = section(lines, f"{row['collective']}-intra:", 0, "coll_algorithms.txt")
        if any("allcomm:" in line for line in lines[start:end]):
            end = start  # gen_coll.py takes all rows behind an allcomm row for allcomm rows
        new = [f"    {row['name']}"]
        restrictions = row.get("restrictions", []) + [NO_THREADS] * (NO_THREADS in text)
        if row.get("selects"):
            new.append("        selects: yes")  # for coll_select.py
        elif restrictions:
            new.append(f"        restrictions: {', '.join(restrictions)}")
        if row.get("params"):
            new.append(f"        extra_params: {', '.join(p['name'] for p in row['params'])}")
            new.append(f"        cvar_params: {', '.join(p['cvar'] for p in row['params'])}")
        lines[end:end] = new
    return "\n".join(lines)


def read_algorithms(text: str) -> Found:
    # same rules as load_coll_algos() of maint/gen_coll.py
    found, collective = set(), None
    for line in text.split("\n"):
        if match := re.match(r"(\w+)-(intra|inter):", line):
            collective = match[1] if match[2] == "intra" else None
        elif (match := re.match(r"\s+(\w+)\s*$", line)) and collective:
            found.add((collective, match[1]))
    return found


# -- cvars.txt ------------------------------------------------------------------------------------


def add_cvars(text: str, rows: list[Row]) -> str:
    lines = text.split("\n")
    for row in rows:
        name = f"MPIR_CVAR_{row['collective'].upper()}_INTRA_ALGORITHM"
        start, end = cvar_block(lines, name)
        last = max(i for i in range(start, end) if re.match(r"\s+\w+\s+-\s", lines[i]))
        # align the dashes of the new rows, if possible with upstream's
        names = [r["name"] for r in rows if r["collective"] == row["collective"]]
        width = max(len(lines[last].split("-")[0].lstrip()) - 1, *map(len, names))
        lines.insert(last + 1, f"        {row['name']:<{width}} - {row['help']}")
    blocks = cvar_blocks(rows)
    if blocks:
        end = lines.index("=== END_MPI_T_CVAR_INFO_BLOCK ===")
        lines[end:end] = blocks.split("\n")
    return "\n".join(lines)


def cvar_block(lines: list[str], name: str) -> tuple[int, int]:
    entry = re.compile(rf"\s*- name\s*: {name}$")
    start = next((i for i, line in enumerate(lines) if entry.match(line)), None)
    if start is None:
        raise Failure(f"cvars.txt: no entry for {name}")
    end = start + 1
    while end < len(lines) and lines[end].strip():
        end += 1
    return start, end


def read_cvars(text: str) -> Found:
    # same rules as maint/extractcvars: a leading word followed by " - " is a value
    found = set()
    for block in re.split(r"^    - name\s*: ", text, flags=re.MULTILINE)[1:]:
        if match := re.match(r"MPIR_CVAR_(\w+)_INTRA_ALGORITHM\n", block):
            values = re.findall(r"^\s*(\w+)\s+-\s", block, re.MULTILINE)
            found |= {(match[1].lower(), value) for value in values}
    return found


def read_cvar_names(text: str) -> set[str]:
    return set(re.findall(r"^    - name\s*: (\w+)$", text, re.MULTILINE))


# -- csel_container.h -------------------------------------------------------------------------------

TYPE = "MPII_CSEL_CONTAINER_TYPE__ALGORITHM__"


def add_container_h(text: str, rows: list[Row]) -> str:
    lines = text.split("\n")
    for row in rows:
        stem = function(row).split("_intra_")[0] + "_(?:intra|allcomm)_"
        new = [f"    {TYPE}{function(row)},"]
        insert_after_last(lines, rf"^    {TYPE}{stem}\w+,$", new, "csel_container.h")
    for collective in dict.fromkeys(row["collective"] for row in rows if row.get("params")):
        structs = []
        for row in rows:
            if row["collective"] == collective and row.get("params"):
                ints = [f"                int {param['name']};" for param in row["params"]]
                structs += ["            struct {", *ints, f"            }} intra_{row['name']};"]
        if f"        }} {collective};" in lines:
            at = lines.index(f"        }} {collective};")
            lines[at:at] = structs
        else:
            at = lines.index("    } u;")
            lines[at:at] = ["        struct {", *structs, f"        }} {collective};"]
    return "\n".join(lines)


def read_container_h(text: str) -> Found:
    enum = text.partition("typedef enum {")[2].partition("}")[0]
    found = re.findall(rf"^\s*{TYPE}MPIR_(\w+?)_intra_(\w+),$", enum, re.MULTILINE)
    return {(collective.lower(), name) for collective, name in found}


# -- test/mpi/maint/coll_cvars.txt --------------------------------------------------------------------


def add_tests(text: str, rows: list[Row]) -> str:
    where = "coll_cvars.txt"
    lines = text.split("\n")
    for row in rows:
        kind = "intra-nonblocking:" if "of" in row else "intra-blocking:"
        for heading, new in (("tests:", row.get("tests", [])), ("algorithms:", [row["name"]])):
            if not new:
                continue
            top, _ = section(lines, heading, 0, where)
            start, _ = section(lines[top:], f"{row.get('of', row['collective'])}:", 4, where)
            inner, end = section(lines[top + start :], kind, 8, where)
            inner, end = top + start + inner, top + start + end
            present = {line.strip() for line in lines[inner:end]}
            extra = []
            if heading == "algorithms:":
                extra = [
                    f"                .MPIR_CVAR_{row['collective'].upper()}_{p['cvar']}={p['test']}"
                    for p in row.get("params", [])
                    if p.get("test")
                ]
            lines[end:end] = [" " * 12 + line for line in new if line not in present] + extra
    return "\n".join(lines)


# {part of the list: prefix of the collective's name}
PREFIXES = {"intra-blocking": "", "intra-nonblocking": "i"}


def read_tests(text: str) -> Found:
    # same rules as load_config() of test/mpi/maint/gen_coll_cvar.py
    found: Found = set()
    algorithms, collective, kind = False, "", ""
    for line in text.split("\n"):
        if re.match(r"(tests|algorithms):", line):
            algorithms = line.startswith("algorithms")
        elif match := re.match(r"    (\w+):", line):
            collective = match[1]
        elif match := re.match(r"\s+((?:intra|inter)-(?:non)?blocking|persistent):", line):
            kind = match[1]
        elif (match := re.match(r"\s+(\w+)$", line)) and algorithms and kind in PREFIXES:
            found.add((PREFIXES[kind] + collective, match[1]))
    return found


# -- all of them ------------------------------------------------------------------------------------

# (path, add, read); the name of the collective replaces {} in the path
LISTS = [
    ("src/mpi/coll/{}/Makefile.mk", add_makefile, read_makefile),
    ("src/mpi/coll/coll_algorithms.txt", add_algorithms, read_algorithms),
    ("src/mpi/coll/cvars.txt", add_cvars, read_cvars),
    ("src/mpi/coll/include/csel_container.h", add_container_h, read_container_h),
    ("test/mpi/maint/coll_cvars.txt", add_tests, read_tests),
]


def per_file(rows: list[Row]) -> Iterator[tuple[str, list[Row], Add, Read]]:
    """(path, rows that belong into it, add, read) for each file to be edited."""
    for path, add, read in LISTS:
        if "{}" not in path:
            yield path, rows, add, read
            continue
        with_file = [row for row in rows if has_own_file(row)]
        for collective in dict.fromkeys(row["collective"] for row in with_file):
            own = [row for row in with_file if row["collective"] == collective]
            yield path.format(collective), own, add, read


def catalog_row(row: Row) -> tuple[str, str]:
    """(family of an algorithm's schedules, argument that selects a schedule of the family): see
    topo_catalog.h"""
    of_lanes = row["collective"].removesuffix("v").removesuffix("_block").upper()
    arg = {
        "lanes": f"MPII_TOPO_LANES__{of_lanes}",
        "halving": str(int(row["collective"] == "allreduce")),
        "spread": str(int(row["collective"].startswith("reduce_scatter"))),
        "prefix": str(int(row["collective"] == "scan")),
        "ring": "1",
    }.get(row["family"], "0")
    return row["family"], f"MPII_TOPO_SHAPE__{row['shape'].upper()}" if "shape" in row else arg


def topo_algos_h(rows: list[Row]) -> str:
    """The tables of our algorithms in C."""
    algos, autos = ["#define MPIR_TOPO_ALGOS(X)"], ["#define MPIR_TOPO_AUTOS(X)"]
    segmented = ["#define MPIR_TOPO_SEGMENTED(X)"]
    radices = ["#define MPIR_TOPO_RADICES(X)"]
    catalog = ["#define MPIR_TOPO_ROWS(X)"]
    fronts = []
    for row in rows:
        collective, name = row["collective"], row["name"]
        if "family" in row and "of" not in row:
            (family, arg), k = catalog_row(row), row.get("k", 0)
            what = f"{collective.upper()}, {name}, {family.upper()}, {arg}, {k}"
            catalog.append(f"    X({what}, {str(row.get('baseline', False)).lower()})")
            params = [word for key, word in PARAMS.items() if row.get(key)]
            what = f"{collective}, {name}, {family}, {arg}, {'_'.join(params) or 'none'}, {k}"
            fronts.append(
                f"#define MPII_TOPO_ROW_{collective}_{name}(X, Coll) \\\n    X(Coll, {what})"
            )
        names = f"{collective.upper()}, {collective.capitalize()}, {collective}, {name}"
        if row.get("selects"):
            autos.append(f"    X({names})")
        else:
            algos += textwrap.wrap(
                f"X({names},", 98, initial_indent="    ", subsequent_indent="      "
            )
            *parts, last = textwrap.wrap(row["help"], 88)
            algos += [*(f'      "{part} "' for part in parts), f'      "{last}")']
        for key, param, table in ("segmented", "segment_bytes", segmented), ("radix", "k", radices):
            if row.get(key):
                cvar = f"MPIR_CVAR_{collective.upper()}_{cvar_of(row, param)}"
                table.append(f"    X({collective}, {name}, {cvar})")
    algos_text, autos_text, segments_text, radices_text, catalog_text = map(
        " \\\n".join, (algos, autos, segmented, radices, catalog)
    )
    fronts_text = "\n".join(fronts)
    return f"""\
/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

/* Generated by `make refresh` of mpich-topo from cvars/algorithms.toml; do not edit. */

#ifndef TOPO_ALGOS_H_INCLUDED
#define TOPO_ALGOS_H_INCLUDED

/* All algorithms: X(COLLECTIVE, Collective, collective, algorithm, "description") */
{algos_text}

/* Algorithms that select another algorithm: X(COLLECTIVE, Collective, collective, algorithm) */
{autos_text}

/* Algorithms that cut messages into segments: X(collective, algorithm, control variable) */
{segments_text}

/* Algorithms that have a radix: X(collective, algorithm, control variable) */
{radices_text}

/* Rows of the catalog (topo_catalog.h):
 * X(COLLECTIVE, algorithm, FAMILY, arg, radix, is_baseline) */
{catalog_text}

/* Functions of the algorithms that are schedules (topo_front.h):
 * X(Collective, collective, algorithm, family, arg, parameters, k) */
{fronts_text}

#endif /* TOPO_ALGOS_H_INCLUDED */
"""


def topo_version_h() -> str:
    """topo_version.h, by which a library shows that it is patched; patching.py adds the commit."""
    return f"""\
/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

/* Generated by `make refresh` of mpich-topo; `make apply` adds the commit. */

#ifndef TOPO_VERSION_H_INCLUDED
#define TOPO_VERSION_H_INCLUDED

#define MPII_TOPO_VERSION "mpich-topo {topo_version()}"

#endif /* TOPO_VERSION_H_INCLUDED */
"""


# -- what `make refresh` writes ---------------------------------------------------------------------


def algorithms_table(rows: list[Row]) -> str:
    """README.md's table of algorithms. Collectives with the same algorithms share a line. topo_auto,
    baselines, and rows with a fixed k are left out."""
    of: dict[str, dict[str, str]] = {}
    for row in rows:
        if "use" in row:
            of.setdefault(row["collective"], {})[row["name"]] = row["use"]
    lines: dict[str, list[str]] = {}
    for collective, uses in of.items():
        found = "; ".join(f"`{name}`: {use}" for name, use in uses.items())
        lines.setdefault(found, []).append(collective)
    text = "| collective | value: what it is preferred for |\n|---|---|\n"
    return text + "".join(f"| {', '.join(same)} | {found} |\n" for found, same in lines.items())


MESSAGE = """coll: list topo algorithms

MPICH knows a collective algorithm by five lists that are kept by hand:
the makefile, coll_algorithms.txt, cvars.txt, csel_container.h, and
coll_cvars.txt of the tests. Add the algorithms of mpich-topo to all of
them, its control variables, and the restriction any-order to reductions
of MPICH's own.

Generated by `make refresh` from cvars/; edit there, not here.
"""


def generated_patch(source: Source, rows: list[Row], work: Path) -> tuple[str, bytes]:
    """(name, content) of the generated patch, which is made in the empty folder WORK"""
    hand = [patch for patch in series(source.row) if not is_generated(patch)]
    wanted = {path for path, *_ in per_file(rows)}
    for patch in hand:
        wanted |= set(touched(patch.read_text(errors="replace")))
    source.copy(work, only=sorted(wanted))
    git_tree(work, hand)
    for path, own, add, _ in per_file(rows):
        file = work / path
        text = file.read_bytes().decode()
        file.write_bytes(add(text, own).encode())
    git("commit", "-q", "-a", "-m", MESSAGE, cwd=work)
    number = len(hand) + 1
    out = work / ".git/patch"
    git(*FORMAT_PATCH, f"--start-number={number}", "-1", "-o", str(out), cwd=work)
    (patch,) = out.iterdir()
    name = f"{number:04d}-{GENERATED_PATCH}"
    assert patch.name == name, patch.name
    return name, patch.read_bytes()


def generate(source: Source) -> dict[Path, bytes]:
    """{path in the repository: content} of all generated files"""
    rows = load_manifest()
    with scratch("refresh-") as work:
        name, patch = generated_patch(source, rows, work)
    return {
        series_folder(source.row) / name: patch,
        TOPO_ALGOS_H: topo_algos_h(rows).encode(),
        TOPO_VERSION_H: topo_version_h().encode(),
    }
