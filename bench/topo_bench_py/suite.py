# Copyright (C) by the mpich-topo authors. See LICENSE.
"""A list of comparisons with limits, and the verdict on them. Form of the file: allgather.toml."""

import itertools
import math
import os
import re
import tempfile
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from rich.table import Table

from .files import Failure, size_text
from .measure import (
    Plan,
    Setting,
    dry_run,
    library_setting,
    measure,
    no_facts,
    provenance,
    series_name,
)
from .show import ms, stdout_console
from .sites import complaint, find_program, run_program, split_words, vcluster_site
from .stats import bootstrap_break_even, bootstrap_ratios, break_even, interval

DEFAULT_SUITES = sorted(Path(__file__).resolve().parents[1].glob("*.toml"))
SUITE_KEYS = {"title", "vcluster", "ppn", "ranks", "prepare", "settings", "libraries", "case"}
LIMITS = ("max_ratio", "max_mean_ratio", "max_to_bound", "max_break_even")  # by placement
PLAN_KEYS = (  # as options of `topo-bench run`
    *("collective", "pattern", "repetitions", "min_repetitions", "seconds", "warmup", "first"),
    *("in_place", "root", "background"),
)
CASE_KEYS = {
    *("name", "sizes", "candidate", "baseline", "placements", "same", "rounds"),
    *LIMITS,
    *PLAN_KEYS,
}


class Undefined(Exception):
    """A case needs a {name} that the user did not define."""


def read_suite(path):
    try:
        suite = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise Failure(f"{path}: {e}") from None

    def check_keys(table, known, where):
        if not isinstance(table, dict):
            raise Failure(f"{path}: {where}: expected a table")
        for key in table:
            if key not in known:
                raise Failure(f"{path}: {where}: unknown key '{key}': expected {sorted(known)}")

    check_keys(suite, SUITE_KEYS, "the file")
    if not suite.get("case") or not isinstance(suite["case"], list):
        raise Failure(f"{path}: no [[case]]")
    for case in suite["case"]:
        check_keys(case, CASE_KEYS, "case")
        for key in ("name", "candidate", "baseline", "sizes", "placements"):
            if key not in case:
                raise Failure(f"{path}: case {case.get('name', '?')}: key '{key}' is missing")
        if "max_break_even" in case and not case.get("first"):
            raise Failure(f"{path}: case {case['name']}: max_break_even needs the key 'first'")
        for key in LIMITS:
            for placement, limit in case.get(key, {}).items():
                if placement not in case["placements"] or not isinstance(limit, int | float):
                    raise Failure(
                        f"{path}: case {case['name']}: {key}.{placement} = {limit!r}: expected "
                        f"a number for one of {', '.join(case['placements'])}"
                    )
    for step in suite.get("prepare", []):
        check_keys(step, {"run", "on"}, "prepare")
    return suite


def fill_in(text, definitions):
    """Replaces {name}; unlike str.format it leaves other braces alone."""

    def value(match):
        if match[1] not in definitions:
            raise Undefined(f"needs --define {match[1]}=PATH")
        return definitions[match[1]]

    return re.sub(r"\{(\w+)\}", value, text)


def suite_setting(suite, name, definitions):
    """A setting of the suite by name: variables, or another library."""
    if name in suite.get("libraries", {}):
        return library_setting(name, fill_in(suite["libraries"][name], definitions))
    if name in suite.get("settings", {}):
        variables = suite["settings"][name].items()
        return Setting(name, {k: fill_in(str(v), definitions) for k, v in variables})
    raise Failure(f"there is no [settings.{name}] nor a library of that name in the suite")


def case_plan(suite, case, definitions, seed):
    """The plan that compares baseline and candidate, each [SETTING/]ALGORITHM: in one launch if
    they differ by the algorithm only. Also the candidate's name among the series."""
    (base_setting, _, base), (setting, _, algorithm) = (
        case[side].rpartition("/") for side in ("baseline", "candidate")
    )
    settings = tuple(
        suite_setting(suite, name, definitions) if name else Setting("default")
        for name in dict.fromkeys([base_setting, setting])
    )
    plan = Plan(
        algorithms=",".join(dict.fromkeys([base, algorithm])),
        settings=settings,
        seed=seed,
        sizes=case["sizes"],
        placements=tuple(case["placements"]),
        baseline=series_name(base_setting or "default", base, settings),
        rounds=case.get("rounds", 3 if len(settings) > 1 else 1),
    )
    plan = replace(plan, **{k: case[k] for k in PLAN_KEYS if k in case})
    return plan, series_name(setting or "default", algorithm, settings)


def plan_cases(suite, cases, definitions, seed, program):
    """Plans of the cases; [(name, reason)] of those that lack a definition, and of those that this
    MPI library cannot run."""
    plans, skipped, failed = [], [], []
    for case in cases:
        try:
            plan, candidate = case_plan(suite, case, definitions, seed)
            dry_run(plan, program)
        except Undefined as e:
            skipped.append((case["name"], str(e)))
        except click.UsageError as e:  # the other cases are still worth having
            failed.append((case["name"], e.message))
        else:
            plans.append((case, plan, candidate))
    if not plans:
        reasons = "; ".join(f"{name}: {why}" for name, why in [*failed, *skipped])
        raise Failure(f"no case can run: {reasons}")
    return plans, skipped, failed


def run_suite(path, suite, cases, definitions, cluster, seed, program, progress):
    """The result of some cases of a suite, as in a file. Prints the verdicts."""
    started, facts = time.time(), no_facts()
    with tempfile.TemporaryDirectory(prefix="topo-bench-") as folder:
        values = {"dir": folder, **default_definitions(), **definitions}
        plans, skipped, failed = plan_cases(suite, cases, values, seed, program)
        slots = suite.get("ppn", 1), suite.get("ranks")
        records, rows = [], []
        with vcluster_site(suite.get("vcluster", ""), cluster, *slots) as where:
            prepare(suite, where, values)
            for case, plan, candidate in plans:
                try:
                    got = measure(plan, where, program, progress, facts)
                except Failure as e:
                    failed.append((case["name"], e.message))
                    continue
                records += got
                rows += judge(case, plan, candidate, got)
    print_verdicts(suite.get("title", str(path)), rows, skipped, failed)
    return {
        "provenance": {"suite": str(path)} | provenance(where, seed, started, facts),
        "failed": [{"case": name, "reason": reason} for name, reason in failed],
        "skipped": [{"case": name, "reason": reason} for name, reason in skipped],
        "verdicts": rows,
        "records": records,
    }


def judge(case, plan, candidate, records):
    """Rows of the verdict: for each placement and size against the baseline, and against what the
    links allow where that has a limit; and one for the mean over sizes."""
    rng = np.random.default_rng(plan.seed)
    rows = []
    for placement in plan.placements:
        limits = {k: case.get(k, {}).get(placement) for k in LIMITS}
        here = [r for r in records if r["placement"] == placement]
        bases = {r["bytes"]: r for r in here if r["series"] == plan.baseline}
        logs = []  # per size: log of the ratio, then of its bootstrap draws
        for r in (r for r in here if r["series"] == candidate):
            base, size = bases[r["bytes"]], size_text(r["bytes"])
            paired = r["setting"] == base["setting"]
            draws = bootstrap_ratios(r["samples_us"], base["samples_us"], paired, rng)
            logs.append(np.log([r["ratio"], *draws]))
            times = {"against_us": base["median_us"], "candidate_us": r["median_us"]}
            against = case, placement, size, plan.baseline
            rows.append(ratio_verdict(*against, logs[-1], limits["max_ratio"], times))
            if limits["max_to_bound"] is not None and r["bound_us"]:
                bound = [[r["bound_us"]]] * len(r["samples_us"])
                draws = bootstrap_ratios(r["samples_us"], bound, False, rng)
                times["against_us"] = r["bound_us"]
                against = case, placement, size, "the links"
                to_bound = np.log([r["ratio_to_bound"], *draws])
                rows.append(ratio_verdict(*against, to_bound, limits["max_to_bound"], times))
            if "first_us" in r:
                times = {"against_us": base["median_us"], "candidate_us": r["first_us"]}
                calls = break_even(r["first_us"], r["median_us"], base["median_us"])
                draws = bootstrap_break_even(
                    r["first_samples_us"], r["samples_us"], base["samples_us"], paired, rng
                )
                cut = len(draws) // 40  # 2.5 %; no interpolation: whole numbers, or infinite ones
                low, high = draws[cut], draws[-1 - cut]
                against = case, placement, size, f"{plan.baseline}: break-even calls"
                rows.append(verdict(*against, (calls, low, high), limits["max_break_even"], times))
        limit = "CI has 1" if case.get("same") else limits["max_mean_ratio"]
        if limit is not None or len(logs) > 1:
            against = case, placement, "geom. mean", plan.baseline
            rows.append(ratio_verdict(*against, np.mean(logs, axis=0), limit, {}))
    return rows


def ratio_verdict(case, placement, size, against, logs, limit, times):
    """logs: of the ratio, then of its bootstrap draws."""
    values = math.exp(logs[0]), *interval(np.exp(logs[1:]))
    return verdict(case, placement, size, against, values, limit, times)


def verdict(case, placement, size, against, values, limit, times):
    """A row. values: the ratio or number of calls, and its interval; infinite ones become None."""
    ratio, low, high = values
    passed = None
    if limit is not None:
        passed = low <= 1 <= high if isinstance(limit, str) else ratio <= limit
    return {
        "case": case["name"],
        "placement": placement,
        "size": size,
        "against": against,
        "against_us": times.get("against_us"),
        "candidate_us": times.get("candidate_us"),
        "ratio": rounded(ratio),
        "ratio_ci95_low": rounded(low),
        "ratio_ci95_high": rounded(high),
        "limit": limit,
        "passed": passed,
    }


def rounded(value):
    return None if math.isinf(value) else round(value, 4)


def value_text(value):
    return "never" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


def limit_text(limit):
    if isinstance(limit, float):
        return f"<= {limit:.2f}"
    return "" if limit is None else limit if isinstance(limit, str) else f"<= {limit}"


def print_verdicts(title, rows, skipped, failed):
    table = Table(title=title, title_justify="left")
    for column in ("case", "placement"):
        table.add_column(column)
    table.add_column("bytes", justify="right")
    table.add_column("against")
    for column in ("ms", "candidate ms", "ratio", "95 % CI", "limit"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for case, of_case in itertools.groupby(rows, key=lambda row: row["case"]):
        group = list(of_case)
        for i, row in enumerate(group):
            table.add_row(
                case if i == 0 else "",
                row["placement"],
                row["size"],
                row["against"],
                ms(row["against_us"]),
                ms(row["candidate_us"]),
                value_text(row["ratio"]),
                " - ".join(value_text(row[f"ratio_ci95_{end}"]) for end in ("low", "high")),
                limit_text(row["limit"]),
                {True: "reached", False: "[bold]MISSED[/bold]", None: ""}[row["passed"]],
                end_section=i + 1 == len(group),
            )
    console = stdout_console()
    console.print(table)
    for what, cases in (("skipped", skipped), ("failed", failed)):
        for name, reason in cases:
            console.print(f"{what}: {name}: {reason}", soft_wrap=True, markup=False)
    judged = [row["passed"] for row in rows if row["passed"] is not None]
    console.print(
        f"{sum(judged)} of {len(judged)} limits reached, {len(failed)} cases failed, "
        f"{len(skipped)} skipped"
    )


def default_definitions():
    """{stock}: the MPICH without patches, where `make` has built one beside the patched one."""
    stock = Path(os.environ.get("TOPO_BIN", ".")).parent / "stock"
    return {"stock": str(stock)} if (stock / "lib").is_dir() else {}


def prepare(what, where, values):
    """Steps before the cases: on = "cluster" starts an MPI program with one rank a host."""
    for step in what.get("prepare", []):
        command = split_words("prepare", fill_in(step["run"], values))
        command[0] = find_program(command[0])
        if step.get("on") == "cluster":
            command = [*where.prefix("block"), *command]
        status, err = run_program(command, {}, 600)
        if status:
            raise Failure(f"prepare: {complaint(status, err)}")
