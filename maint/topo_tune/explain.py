# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Explains what a tuning file selects for some calls, and why: as text, and as JSON."""

import itertools
from typing import Any

from topo_common.text import counted, folded, one_line, size_text

from topo_tune.grammar import Call, Selection, algorithm, quoted, strip


def to_text(
    name: str, calls: dict[int, Call], results: dict[int, Selection], knows_racks: bool = True
) -> list[str]:
    """Lines that explain the selection. For one call in {bytes: Call}, every key that is tried; for
    several, the algorithm in each range of sizes. `name`: of the file."""
    call = next(iter(calls.values()))
    sizes = list(calls) if call.total_count or len(calls) > 1 else []
    lines = [about(call, sizes, knows_racks)]
    if len(results) == 1:
        (result,) = results.values()
        lines += ["", f"{one_line(name)}:", *_steps(result)]
        if result.builtin:
            lines += ["", "built-in selection:", *_steps(result.builtin)]
        return [*lines, "", folded(f"{_algorithm(result)}: {reason(result)}")]
    rows = []
    for what, group in itertools.groupby(
        results.items(), lambda item: (_algorithm(item[1]), reason(item[1]))
    ):
        found = [size for size, _ in group]
        ends = dict.fromkeys((size_text(found[0]), size_text(found[-1])))
        rows.append((" to ".join(ends), *what))
    width = max(len(row[0]) for row in rows)
    shown = ([f"{a:<{width}}  {b}", folded(f"    {c}")] for a, b, c in rows)
    return [*lines, "", *itertools.chain(*shown)]


def asks_for(name: str, result: Selection) -> bool:
    """Whether a condition on the groups `name` of the communicator, such as racks, was tried"""
    return any(strip(path[-1]).startswith(f"comm_{name}<") for path, _, _ in result.steps)


def to_json(calls: dict[int, Call], results: dict[int, Selection]) -> dict[str, Any]:
    """The same as an object for json.dumps: everything for every size."""

    def steps(selection: Selection) -> list[dict[str, Any]]:
        return [{"path": p, "sees": seen, "holds": held} for p, seen, held in selection.steps]

    rows = []
    for size, result in results.items():
        row = {
            "bytes": size,
            "algorithm": result.algorithm,
            "params": result.params,
            "by": "rule" if result.from_rule else "built-in",
            "path": result.path,
            "steps": steps(result),
        }
        if result.declined:
            row["declined"] = dict(zip(("algorithm", "restriction"), result.declined, strict=True))
        if result.builtin:
            row["builtin"] = {"path": result.builtin.path, "steps": steps(result.builtin)}
        rows.append(row)
    return {"call": vars(next(iter(calls.values()))), "results": rows}


def about(call: Call, sizes: list[int], knows_racks: bool = True) -> str:
    """A line that describes a call, and the sizes that are asked for."""
    parts = [call.collective + (" between groups" if call.comm_type == "inter" else "")]
    parts.append(counted(call.ranks, "rank"))
    if call.hosts and call.comm_type == "intra":
        parts.append(counted(call.hosts, "host"))
        if knows_racks:
            parts.append(counted(call.racks, "rack"))
        parts.append(
            f"up to {call.ppn} a host" if call.ranks % call.hosts else f"{call.ppn} a host"
        )
    if sizes:
        ends = dict.fromkeys((size_text(sizes[0]), size_text(sizes[-1])))
        parts.append(" to ".join(ends) + " bytes")
    return ", ".join(parts)


def _steps(result: Selection) -> list[str]:
    rows = []
    for path, seen, held in result.steps:
        # leave out keys of other collectives
        if held or not strip(path[-1]).startswith("collective="):
            key = "  " * (len(path) - 1) + path[-1]
            rows.append(("yes" if held else "no", key, "unknown" if seen is None else str(seen)))
    if result.path and strip(result.path[-1]).startswith("algorithm="):
        rows.append(("", "  " * (len(result.path) - 1) + result.path[-1], ""))
    else:
        what = "{}" if result.is_empty else "(nothing holds)"
        rows.append(("", "  " * len(result.path) + what, ""))
    width = max((len(key) for _, key, seen in rows if seen), default=0)
    return [f"  {held:<3}  {key:<{width}}  {seen}".rstrip() for held, key, seen in rows]


def _algorithm(result: Selection) -> str:
    rows = (algorithm(result.algorithm or "", result.version) or {}).get("params", {})
    params = {
        name: rows[name]["values"][value] if "values" in rows[name] else value
        for name, value in result.params.items()
    }
    shown = ", ".join(f"{name}={value}" for name, value in params.items())
    return (result.algorithm or "") + (f" ({shown})" if shown else "")


def reason(result: Selection) -> str:
    """Why the algorithm of a Selection runs."""
    if result.from_rule:
        return f"rule {quoted(result.path)}"
    if result.declined:
        name, restriction = result.declined
        rule = f"{name} (needs {restriction}) from rule {quoted(result.path)}"
        return f"built-in, since {rule} cannot be applied"
    if result.is_empty:
        return f"built-in, since {quoted(result.path)} selects nothing"
    if result.path:
        return f"built-in, since nothing holds below {quoted(result.path)}"
    return "built-in, since no rule is for it"
