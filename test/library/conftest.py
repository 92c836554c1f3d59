# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Fixtures of the library tests: the allgather program, and what selects an algorithm."""

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds import Build, Cluster, Env, Job, Json, Launch, MakeSite, Require, RunParts, WriteJson

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def allgather_program(build_mpi: Build) -> Path:
    return build_mpi(HERE / "allgather.c")


@pytest.fixture(scope="session")
def counters_library(build_mpi: Build) -> Path:
    """To be preloaded: prints the algorithms' counters at the end of any MPI program."""
    return build_mpi(HERE / "print_counters.c", "-shared", "-fPIC")


@pytest.fixture
def tuning() -> Callable[..., Json]:
    """tuning({"total_msg_size<=N": algorithm, ...}): tuning.json with these allgather rules."""

    def make(rules: Any, **more: Any) -> dict[str, Any]:
        rules = {key: {f"algorithm=MPIR_Allgather_intra_{name}": {}} for key, name in rules.items()}
        return {**more, "comm_type=intra": {"collective=allgather": {"comm_size=any": rules}}}

    return make


@pytest.fixture(scope="session")
def run_allgather(run_mpi: Launch, allgather_program: Path) -> Launch:
    """run_allgather(*arguments, n=, env=, ...): runs allgather.c; all its checks must hold."""

    def run(*arguments: Any, check: bool = True, **how: Any) -> Any:
        job = run_mpi(allgather_program, *arguments, **how)
        if check:
            assert job.returncode == 0, job.stdout + job.stderr
            assert job.stdout.splitlines()[-1].startswith("OK "), job.stdout + job.stderr
        return job

    return run


@pytest.fixture(scope="session")
def run_parts(run_mpi: Launch) -> RunParts:
    """run_parts(program, parts={name: words}, n=, env=, ...): runs all parts in one launch, which
    takes longer than most of them; each part's checks must hold. Returns {name: job}."""

    def run(*program: Any, parts: Any, **how: Any) -> dict[str, Any]:
        words = [word for part in parts.values() for word in ("+", *part)]
        job = run_mpi(*program, *words[1:], **how)
        # rank 0 ends each part with its result
        outputs = re.findall(r"(?:.*\n)*?(?:OK|FAILED) \d.*\n", job.stdout)
        wrong = [
            name for name, out in zip(parts, outputs, strict=False) if "\nOK " not in "\n" + out
        ]
        wrong += [f"{name} (not run to its end)" for name in list(parts)[len(outputs) :]]
        assert not wrong and job.returncode == 0, f"{wrong}\n{job.stdout}{job.stderr}"
        return {
            name: subprocess.CompletedProcess(job.args, 0, out, job.stderr)
            for name, out in zip(parts, outputs, strict=True)
        }

    return run


@pytest.fixture(scope="session")
def run_every_allgather(
    run_parts: RunParts, allgather_program: Path, algorithms: list[str]
) -> RunParts:
    """run_every_allgather(*cases, n=, env=): these cases of allgather.c, by one algorithm after the
    other, which has to run."""

    def run(*cases: Any, **how: Any) -> Any:
        parts = {name: ["--algorithm", name, "--expect", name, *cases] for name in algorithms}
        return run_parts(allgather_program, parts=parts, **how)

    return run


@pytest.fixture
def cluster(site: MakeSite, write_json: WriteJson) -> Cluster:
    """cluster(kind, n, seed): the environment of n ranks on a cluster of that kind."""

    def make(kind: str, n: int, seed: int = 1) -> dict[str, Any]:
        if kind == "no_topology":
            return {"MPIR_CVAR_NUM_CLIQUES": max(n // 3, 1)}
        pick = random.Random(f"{kind} {n} {seed}")
        # cyclic and unequal: ranks of a host or rack do not follow each other
        hosts = {"one_rank_a_host": n, "unequal": (2 * n + 2) // 3}.get(kind, n // 2)
        hosts = max(hosts, 2)
        names = [f"clique{i}" for i in range(hosts)]
        of_host = [pick.randrange(min(4, hosts)) for _ in names]
        if kind == "unknown_hosts":
            names, of_host = names[::2], of_host[::2]
        above: list[list[int]] = []
        if kind == "levels":  # racks in three pods, which are in two sites
            of_host = [pick.randrange(min(6, hosts)) for _ in names]
            above = [[i % 3 for i in range(max(of_host) + 1)]]
            above.append([i % 2 for i in range(max(above[0]) + 1)])
        return {
            "MPIR_CVAR_NUM_CLIQUES": hosts,
            "MPIR_CVAR_CLIQUES_BY_BLOCK": int(kind == "block"),
            "MPIR_CVAR_COLL_TOPOLOGY_FILE": write_json(
                "site.json", site(names, of_host, seed, above=above)
            ),
        }

    return make


@pytest.fixture
def run_valgrind(run_parts: RunParts, require: Require, tmp_path: Path) -> RunParts:
    """run_valgrind(program, parts, n=, env=, ours=): runs the parts under valgrind; no error and
    nothing left in memory may have in its stack a function that `ours`, a regular expression,
    matches. Returns {name: job}."""

    def run(program: Any, parts: Any, n: int, env: Env, ours: Any) -> dict[Any, Job]:
        jobs = run_parts(
            require("valgrind"),
            "--leak-check=full",
            "--show-leak-kinds=all",
            "--num-callers=30",
            f"--log-file={tmp_path / 'valgrind.%p'}",
            program,
            parts=parts,
            n=n,
            timeout=300,
            env=env,
        )
        logs = list(tmp_path.glob("valgrind.*"))
        assert len(logs) == n
        for file in logs:
            text = re.sub(r"^==\d+== ?", "", file.read_text(), flags=re.MULTILINE)
            # ch3 sends the padding of its packet headers, whoever asked it to send
            reports = [
                block
                for block in text.split("\n\n")
                if re.search(ours, block, re.IGNORECASE)
                and not block.startswith(("Memcheck,", "Syscall param write"))
            ]
            assert not reports, reports[0]
        return jobs

    return run


def counters(job: Job) -> Any:
    """{algorithm: (least, most calls of a rank)} out of the COUNTER lines of a job."""
    found = {}
    for line in (job.stdout + job.stderr).splitlines():
        if line.startswith("COUNTER coll_topo_allgather_"):
            _, name, least, most = line.split()
            name = name.removeprefix("coll_topo_allgather_").removesuffix("_calls")
            found[name] = (int(least.split("=")[1]), int(most.split("=")[1]))
    return found


@pytest.fixture(name="counters")
def counters_fixture() -> Callable[..., Any]:
    return counters
