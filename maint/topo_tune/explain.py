# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What a tuning file selects for some calls, and why: as text, and for programs."""

import itertools

from topo_common.text import size_text

from topo_tune import grammar
from topo_tune.grammar import TREE_TYPES, quoted, strip


def to_text(tuning, name, calls, version="4.0"):
    """Lines for a call, {bytes: Call} of one, which tell all that is tried; or for several, which tell
    what is selected in which range of sizes. `name`: of the file."""
    results = {size: grammar.select(tuning, call, version) for size, call in calls.items()}
    call = next(iter(calls.values()))
    lines = [about(call, list(calls) if call.total_count or len(calls) > 1 else [])]
    if len(results) == 1:
        (result,) = results.values()
        lines += ["", f"{name}:", *_steps(result)]
        if result.builtin:
            lines += ["", "built-in selection:", *_steps(result.builtin)]
        return [*lines, "", f"{_algorithm(result)}: {reason(result)}"]
    rows = []
    for what, group in itertools.groupby(
        results.items(), lambda item: (_algorithm(item[1]), reason(item[1]))
    ):
        found = [size for size, _ in group]
        ends = dict.fromkeys((size_text(found[0]), size_text(found[-1])))
        rows.append((" to ".join(ends), *what))
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return [*lines, "", *(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows)]


def to_json(tuning, calls, version="4.0"):
    """The same as an object for json.dumps: everything for every size."""

    def steps(selection):
        return [{"path": p, "sees": seen, "holds": held} for p, seen, held in selection.steps]

    results = []
    for size, call in calls.items():
        result = grammar.select(tuning, call, version)
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
        results.append(row)
    return {"call": vars(next(iter(calls.values()))), "results": results}


def about(call, sizes):
    """A line that describes a call, and the sizes that are asked for."""
    parts = [call.collective + (" between groups" if call.comm_type == "inter" else "")]
    parts.append(_count(call.ranks, "rank"))
    if call.hosts and call.comm_type == "intra":
        parts += [_count(call.hosts, "host"), _count(call.racks, "rack")]
        parts.append(
            f"up to {call.ppn} a host" if call.ranks % call.hosts else f"{call.ppn} a host"
        )
    if sizes:
        ends = dict.fromkeys((size_text(sizes[0]), size_text(sizes[-1])))
        parts.append(" to ".join(ends) + " bytes")
    return ", ".join(parts)


def _count(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


def _steps(result):
    rows = []
    for path, seen, held in result.steps:
        # the other collectives tell nothing
        if held or not strip(path[-1]).startswith("collective="):
            key = "  " * (len(path) - 1) + path[-1]
            rows.append(("yes" if held else "no", key, "unknown" if seen is None else str(seen)))
    if result.path and strip(result.path[-1]).startswith("algorithm="):
        rows.append(("", "  " * (len(result.path) - 1) + result.path[-1], ""))
    else:
        rows.append(("", "  " * len(result.path) + "(nothing holds)", ""))
    width = max(len(key) for _, key, _ in rows)
    return [f"  {held:<3}  {key:<{width}}  {seen}".rstrip() for held, key, seen in rows]


def _algorithm(result):
    params = dict(result.params)
    if "tree_type" in params:
        params["tree_type"] = TREE_TYPES[params["tree_type"]]
    shown = ", ".join(f"{name}={value}" for name, value in params.items())
    return result.algorithm + (f" ({shown})" if shown else "")


def reason(result):
    """Why the algorithm of a Selection runs."""
    if result.from_rule:
        return f"rule {quoted(result.path)}"
    if result.declined:
        name, restriction = result.declined
        rule = f"{name} (needs {restriction}) from rule {quoted(result.path)}"
        return f"built-in, since {rule} cannot be applied"
    if result.path:
        return f"built-in, since nothing holds below {quoted(result.path)}"
    return "built-in, since no rule is for it"
