# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Suites: lists of comparisons with limits, and verdicts on them. short.toml explains their
form."""

import itertools
import math
import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.progress import Progress
from topo_common import files, schema
from topo_common.files import Failure, InputError
from topo_common.text import one_line, short, size_text

from .files import FORMAT, Record, Result, read_schema
from .measure import Measurement, Plan, dry_run, no_facts, provenance, series_name
from .settings import Bench, Setting, library_setting
from .show import ms, new_table, range_text, stdout_console
from .sites import (
    OF_VCLUSTER,
    Site,
    complaint,
    find_program,
    run_program,
    split_words,
    vcluster_site,
)
from .stats import bootstrap_break_even, bootstrap_ratios, break_even, interval

Table = dict[str, Any]  # of TOML
Row = dict[str, Any]

DEFAULT_SUITES = sorted(Path(__file__).resolve().parents[1].glob("*.toml"))
SHARED_KEYS = ("vcluster", "prepare", "libraries", "settings")
LIMITS = ("max_ratio", "max_mean_ratio", "max_to_bound", "max_break_even")  # by placement
PLAN_KEYS = (  # same as options of `topo-bench run`
    *(
        "collective",
        "pattern",
        "graph",
        "repetitions",
        "min_repetitions",
        "seconds",
        "warmup",
        "first",
    ),
    *("calls", "in_place", "root", "background", "ppn", "ranks"),
)


LINKS = "the links"  # candidates are also compared with the bound by links
BREAK_EVEN = "break-even calls"


class Undefined(Exception):
    """A case needs a {name} that the user did not define."""


def read_suite(path: str | os.PathLike[str]) -> Table:
    """The suite in a file. Raises InputError for the first error in it."""
    suite = files.read_toml(path)
    if isinstance(suite.get("like"), str):
        other = files.read_toml(Path(path).parent / suite["like"])
        suite = {key: other[key] for key in SHARED_KEYS if key in other} | suite
    defaults, cases = suite.get("defaults"), suite.get("case")
    if isinstance(defaults, dict) and isinstance(cases, list):
        suite["case"] = [defaults | case if isinstance(case, dict) else case for case in cases]
    schema.check(suite, read_schema("suite"), path)
    tables = {"$": suite} | {f"$.case[{i}]": case for i, case in enumerate(suite["case"])}
    for where, table in tables.items():
        for key, number in table.items():
            if key in LIMITS:
                continue
            if isinstance(number, float) and not (key == "seconds" and math.isfinite(number)):
                expected = "a finite number" if key == "seconds" else "integer"
                raise InputError(path, f"found {number}, expected {expected}", f"{where}.{key}")
    names = [case["name"] for case in suite["case"]]
    for i, case in enumerate(suite["case"]):
        where = f"$.case[{i}]"
        if case["name"] in names[:i]:
            text = f"found {short(case['name'])} twice, expected a name for each case"
            raise InputError(path, text, f"{where}.name")
        for k, placement in enumerate(case["placements"]):
            if not re.fullmatch(OF_VCLUSTER, placement):
                text = f"found {short(placement)}, expected one of topo-vcluster run --placement"
                raise InputError(path, text, f"{where}.placements[{k}]")
        if "max_break_even" in case and not case.get("first"):
            text = "found max_break_even without first calls to time, expected the key 'first'"
            raise InputError(path, text, where)
        for key in set(LIMITS) & set(case):
            if not isinstance(case[key], dict):
                case[key] = dict.fromkeys(case["placements"], case[key])
            for placement, limit in case[key].items():
                if placement not in case["placements"] or not math.isfinite(limit):
                    known = ", ".join(case["placements"])
                    text = f"found {limit!r}, expected a number for one of {known}"
                    raise InputError(path, text, f"{where}.{key}.{placement}")
    return suite


def fill_in(text: str, definitions: dict[str, str]) -> str:
    """Replaces {name}; unlike str.format it leaves other braces alone."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in definitions:
            raise Undefined(f"needs --define {match[1]}=PATH")
        return definitions[match[1]]

    return re.sub(r"\{(\w+)\}", value, text)


def suite_setting(suite: Table, name: str, definitions: dict[str, str]) -> Setting:
    """A setting of the suite by name: variables, or another library."""
    if name in suite.get("libraries", {}):
        return library_setting(name, fill_in(suite["libraries"][name], definitions))
    if name in suite.get("settings", {}):
        variables = suite["settings"][name].items()
        return Setting(name, {k: fill_in(str(v), definitions) for k, v in variables})
    text = f"there is no [settings.{name}] nor a library of that name in the suite"
    raise Failure(text, files.WRONG)


def case_plan(
    suite: Table, case: Table, definitions: dict[str, str], seed: int
) -> tuple[Plan, str]:
    """The plan that compares baseline and candidate, each [SETTING/]ALGORITHM: in one launch if
    they differ by the algorithm only. Also the candidate's name among the series."""
    (base_setting, _, base), (setting, _, algorithm) = (
        case[side].rpartition("/") for side in ("baseline", "candidate")
    )
    # a launch runs only the algorithms that are compared: another one might affect them
    of: dict[str, list[str]] = {}
    for name, what in ((base_setting, base), (setting, algorithm)):
        of.setdefault(name, []).append(what)
    settings = tuple(
        replace(
            suite_setting(suite, name, definitions) if name else Setting("default"),
            algorithms=",".join(dict.fromkeys(names)),
        )
        for name, names in of.items()
    )
    plan = Plan(
        settings=settings,
        seed=seed,
        sizes=case["sizes"],
        placements=tuple(case["placements"]),
        baseline=series_name(base_setting or "default", base, settings),
        rounds=case.get("rounds", 3 if len(settings) > 1 else 1),
    )
    plan = replace(plan, **{k: case[k] for k in PLAN_KEYS if k in case})
    return plan, series_name(setting or "default", algorithm, settings)


class SuiteRun:
    """Some cases of a suite under way. Its result can be asked for at any time."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        suite: Table,
        cases: list[Table],
        definitions: dict[str, str],
        seed: int,
        bench: Bench,
    ) -> None:
        self.path, self.suite, self.cases, self.bench = path, suite, cases, bench
        self.definitions, self.seed = definitions, seed
        self.rows: list[Row] = []
        self.failed: list[tuple[str, str]] = []  # case, reason
        self.skipped: list[tuple[str, str]] = []
        self.started = time.time()
        self._facts = no_facts()
        self._site: Site | None = None
        self._finished: list[Record] = []  # records of finished cases
        self._current: Measurement | None = None

    def run(
        self, cluster: str | None, progress: Progress, after_launch: Callable[[], None]
    ) -> None:
        slots = self.suite.get("ppn", 1), self.suite.get("ranks")
        with tempfile.TemporaryDirectory(prefix="topo-bench-") as folder:
            values = {"dir": folder, **default_definitions(), **self.definitions}
            plans = self._plans(values)
            with vcluster_site(self.suite.get("vcluster", ""), cluster, *slots) as self._site:
                prepare(self.suite, self._site, values, self.bench)
                for case, plan, candidate in plans:
                    self._run_case(case, plan, candidate, progress, after_launch)

    def _plans(self, values: dict[str, str]) -> list[tuple[Table, Plan, str]]:
        """(case, plan, name of the candidate) of the cases that can run here"""
        plans = []
        for case in self.cases:
            try:
                plan, candidate = case_plan(self.suite, case, values, self.seed)
                dry_run(plan, self.bench)
            except Undefined as e:
                self.skipped.append((case["name"], str(e)))
            except click.UsageError as e:  # the other cases still run
                self.failed.append((case["name"], e.message))
            else:
                plans.append((case, plan, candidate))
        if not plans:
            reasons = "; ".join(f"{name}: {why}" for name, why in [*self.failed, *self.skipped])
            raise InputError(self.path, f"no case can run: {reasons}")
        return plans

    def _run_case(
        self,
        case: Table,
        plan: Plan,
        candidate: str,
        progress: Progress,
        after_launch: Callable[[], None],
    ) -> None:
        assert self._site
        self._current = Measurement(plan, self.bench)
        self._current.facts = self._facts
        try:
            self._current.run(self._site, progress, after_launch)
        except Failure as e:
            self.failed.append((case["name"], str(e)))
        else:
            self.rows += judge(case, plan, candidate, self._current.records())
        self.failed += [
            (case["name"], f"{each['series']}, {size_text(each['bytes'])}: {each['reason']}")
            for each in self._current.failed
        ]
        self._finished += self._current.records()
        self._current = None

    def result(self, intervals: bool = True) -> Result:
        """The result so far, as in a file. A case under way has records, but no verdict."""
        about = provenance(self._site, self.bench, self.seed, self.started, self._facts)
        current = self._current.records(intervals) if self._current else []
        return {
            "provenance": {"suite": str(self.path)} | about,
            "failed": [{"case": name, "reason": reason} for name, reason in self.failed],
            "skipped": [{"case": name, "reason": reason} for name, reason in self.skipped],
            "verdicts": self.rows,
            "records": self._finished + current,
        }

    def print(self) -> None:
        title = self.suite.get("title", str(self.path))
        print_verdicts(title, self.rows, self.skipped, self.failed)


def joined(runs: list[SuiteRun], complete: bool, intervals: bool = True) -> Result:
    """The result of several suites, as in a file."""
    results = [run.result(intervals) for run in runs]
    about = [result["provenance"] for result in results]
    lists = ("verdicts", "failed", "skipped", "records")
    return {
        "format": FORMAT,
        "complete": complete,
        "provenance": about[0] if len(about) == 1 else about[0] | {"suites": about},
        **{key: [row for result in results for row in result[key]] for key in lists},
    }


def judge(case: Table, plan: Plan, candidate: str, records: list[Record]) -> list[Row]:
    """Rows of the verdict for each placement and size: against the baseline and, if there is a
    limit, against the bound of the network; and a row for the mean over sizes."""
    rng = np.random.default_rng(plan.seed)
    baseline = str(plan.baseline)
    rows = []
    for placement in plan.placements:
        limits = {k: case.get(k, {}).get(placement) for k in LIMITS}
        here = [r for r in records if r["placement"] == placement]
        bases = {r["bytes"]: r for r in here if r["series"] == baseline}
        logs: list[np.ndarray] = []  # per size: log of the ratio, then of its bootstrap draws
        for r in (r for r in here if r["series"] == candidate):
            base, size = bases.get(r["bytes"]), size_text(r["bytes"])
            if base is None:  # the baseline could not be measured
                continue
            paired = r["setting"] == base["setting"]
            draws = bootstrap_ratios(r["samples_us"], base["samples_us"], paired, rng)
            logs.append(np.log([r["ratio"], *draws]))
            times = {"against_us": base["median_us"], "candidate_us": r["median_us"]}
            where = case, placement, size
            rows.append(ratio_verdict(*where, baseline, logs[-1], limits["max_ratio"], times))
            if limits["max_to_bound"] is not None:
                rows.append(bound_verdict(*where, r, limits["max_to_bound"], rng))
            if "first_us" in r:
                times = {"against_us": base["median_us"], "candidate_us": r["first_us"]}
                calls = break_even(r["first_us"], r["median_us"], base["median_us"])
                calls_drawn = bootstrap_break_even(
                    r["first_samples_us"], r["samples_us"], base["samples_us"], paired, rng
                )
                cut = (
                    len(calls_drawn) // 40
                )  # quantiles 2.5 % and 97.5 % without interpolation, since numbers may be infinite
                low, high = calls_drawn[cut], calls_drawn[-1 - cut]
                values = calls, low, high
                limit = limits["max_break_even"]
                rows.append(verdict(*where, BREAK_EVEN, values, limit, times))
        limit = "CI has 1" if case.get("same") else limits["max_mean_ratio"]
        if logs and (limit is not None or len(logs) > 1):
            where = case, placement, "geom. mean"
            rows.append(ratio_verdict(*where, baseline, np.mean(logs, axis=0), limit, {}))
    return rows


def bound_verdict(
    case: Table, placement: str, size: str, r: Record, limit: float, rng: np.random.Generator
) -> Row:
    """The verdict against the bound of the network. If the bound is not known, the limit is
    missed."""
    times = {"against_us": r["bound_us"], "candidate_us": r["median_us"]}
    if r["bound_us"] is None:
        return verdict(case, placement, size, LINKS, (math.inf,) * 3, limit, times)
    bound = [[r["bound_us"]]] * len(r["samples_us"])
    draws = bootstrap_ratios(r["samples_us"], bound, False, rng)
    logs = np.log([r["ratio_to_bound"], *draws])
    return ratio_verdict(case, placement, size, LINKS, logs, limit, times)


def ratio_verdict(
    case: Table,
    placement: str,
    size: str,
    against: str,
    logs: np.ndarray,
    limit: float | str | None,
    times: dict[str, float],
) -> Row:
    """The verdict on a ratio of times. logs: log of the ratio, then those of its bootstrap draws"""
    values = math.exp(logs[0]), *interval(np.exp(logs[1:]))
    return verdict(case, placement, size, against, values, limit, times)


def verdict(
    case: Table,
    placement: str,
    size: str,
    against: str,
    values: tuple[float, float, float],
    limit: float | str | None,
    times: dict[str, float],
) -> Row:
    """A row of the verdict. values: ratio or number of calls, and its interval; infinity becomes
    None"""
    ratio, low, high = values
    passed = None
    if limit is not None:
        passed = low <= 1 <= high if isinstance(limit, str) else ratio <= limit
    return {
        "case": case["name"],
        "candidate": case.get("candidate"),
        "baseline": case.get("baseline"),
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


def rounded(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 4)


def value_text(value: float | None) -> str:
    return "never" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


def limit_text(limit: float | str | None) -> str:
    return "" if limit is None else limit if isinstance(limit, str) else f"<= {limit:.4g}"


def print_verdicts(
    title: str,
    rows: list[Row],
    skipped: list[tuple[str, str]],
    failed: list[tuple[str, str]],
) -> None:
    console = stdout_console()
    console.print(one_line(title), style="bold", soft_wrap=True)
    for case, group in itertools.groupby(rows, key=lambda row: row["case"]):
        of_case = list(group)
        sides = " against ".join(str(of_case[0][side]) for side in ("candidate", "baseline"))
        columns = ("placement", "bytes", "ms", "against", "ratio", "95 % CI", "limit", "")
        table = new_table(f"{case}: {sides}", *columns)
        for row in of_case:
            what = {LINKS: " to links", BREAK_EVEN: " break-even"}.get(row["against"], "")
            ratio = value_text(row["ratio"])
            ci = range_text(*(value_text(row[f"ratio_ci95_{end}"]) for end in ("low", "high")))
            if row["against"] == LINKS and row["ratio"] is None:
                ratio, ci = "unknown", ""
            table.add_row(
                row["placement"],
                row["size"] + what,
                ms(row["candidate_us"]),
                ms(row["against_us"]),
                ratio,
                ci,
                limit_text(row["limit"]),
                {True: "reached", False: "MISSED", None: ""}[row["passed"]],
            )
        console.print(table)
    for what, cases in (("skipped", skipped), ("failed", failed)):
        for name, reason in cases:
            console.print(one_line(f"{what}: {name}: {reason}"), soft_wrap=True)
    judged = [row["passed"] for row in rows if row["passed"] is not None]
    console.print(
        f"{sum(judged)} of {len(judged)} limits reached, "
        f"{len({name for name, _ in failed})} cases failed, {len(skipped)} skipped"
    )


def default_definitions() -> dict[str, str]:
    """{stock}: the MPICH without patches, where `make` has built one beside the patched one."""
    stock = Path(os.environ.get("TOPO_BIN", ".")).parent / "stock"
    return {"stock": str(stock)} if (stock / "lib").is_dir() else {}


def prepare(what: Table, where: Site, values: dict[str, str], bench: Bench) -> None:
    """Steps before the cases: on = "cluster" starts an MPI program with one rank a host; setting = NAME gives
    it the environment of that setting."""
    for step in what.get("prepare", []):
        command = split_words("prepare", fill_in(step["run"], values))
        command[0] = find_program(command[0])
        if step.get("on") == "cluster":
            command = [*where.prefix("block", None, None), *command]
        environment = bench.environment
        if "setting" in step:
            environment = bench.with_setting(suite_setting(what, step["setting"], values))
        status, err = run_program(command, 600, environment=environment)
        if status:
            raise Failure(f"prepare: {complaint(status, err)}")
