# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-pingpong: its site file, its racks, its manners with bad input."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from kinds import Env, Launch
from under_test import mpich_device

measures = pytest.mark.alone  # times

REPO = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((REPO / "maint/topo_tune/site.schema.json").read_text())

# a site is its racks, each a list of hosts; the order within the file is that of the ranks
SHAPES = {"even": [4, 4, 4, 4], "unequal": [3, 5, 2], "pairs": [2, 2, 2], "lone": [5, 1, 4]}


@pytest.fixture
def pingpong(
    bindir: Path, run_mpi: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Launch:
    """pingpong(n, *options): in tmp_path, on n ranks in cliques that stand for hosts."""
    monkeypatch.chdir(tmp_path)

    def run(
        n: int,
        *options: Any,
        cliques: Any = None,
        env: Env | None = None,
        prefix: Sequence[Any] = (),
    ) -> Any:
        env = {"MPIR_CVAR_NUM_CLIQUES": cliques or n, **(env or {})}
        return run_mpi(bindir / "topo-pingpong", *options, n=n, env=env, prefix=prefix)

    return run


def load(path: Path) -> Any:
    """Read a site file and check what its schema says, and what a schema cannot say."""

    def no_constant(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    site = json.loads(Path(path).read_text(), parse_constant=no_constant)
    jsonschema.validate(site, SCHEMA)
    levels = site.get("levels") or [
        {"groups": site["racks"]["names"], "of_group": site["racks"]["of_host"]}
    ]
    below = len(site["hosts"])
    of_host = list(range(below))
    for level in levels:
        assert len(level["of_group"]) == below
        of_host = [level["of_group"][group] for group in of_host]
        for group, carried in enumerate(level.get("uplink_mbps", [])):
            for i, row in enumerate(site.get("bandwidth_mbps", []) if carried else []):
                for j, rate in enumerate(row):
                    assert rate <= carried or (of_host[i] == group) == (of_host[j] == group)
        below = len(level["groups"])
        assert sorted(set(level["of_group"])) == list(range(below))
    num_racks = len(levels[0]["groups"])
    for key in ("latency_us", "bandwidth_mbps", "latency_spread", "bandwidth_spread"):
        if key in site:
            assert [len(row) for row in site[key]] == [len(site["hosts"])] * len(site["hosts"])
    for key in ("rack_latency_us", "rack_bandwidth_mbps"):
        if key in site:
            assert [len(row) for row in site[key]] == [num_racks] * num_racks
    return site


def off_diagonal(matrix: Any) -> list[Any]:
    return [v for i, row in enumerate(matrix) for j, v in enumerate(row) if i != j]


# -- the site file --


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_measures_all_pairs(pingpong: Launch, tmp_path: Path, n: int) -> None:
    run = pingpong(n, "-o", "site.json", *(["--single"] if n == 1 else []))
    assert run.returncode == 0, run.stderr
    assert f"topo-pingpong: site.json: {n} host{'s' if n > 1 else ''} in " in run.stderr
    assert "(confidence " in run.stderr
    site = load(tmp_path / "site.json")
    assert site["hosts"] == ([f"clique{k}" for k in range(n)] if n > 1 else site["hosts"])
    latency = site["latency_us"]
    assert all(v > 0 for v in off_diagonal(latency) + off_diagonal(site["bandwidth_mbps"]))
    assert latency == [list(column) for column in zip(*latency, strict=True)]
    for key in ("latency_spread", "bandwidth_spread"):
        assert all(v > 0 for v in off_diagonal(site[key])) and len(site[key]) == n
    assert site["provenance"]["complete"] is True
    assert site["provenance"]["pairs_measured"] == n * (n - 1) // 2
    assert site["provenance"]["ranks"] == n
    assert site["provenance"]["mpi_device"] == mpich_device()
    assert [p.name for p in tmp_path.iterdir()] == ["site.json"]


def test_one_host_has_its_inner_pair(pingpong: Launch, tmp_path: Path) -> None:
    assert pingpong(3, env={"MPIR_CVAR_NUM_CLIQUES": "1"}).returncode == 0
    site = load(tmp_path / "site.json")
    assert site["hosts"] == [os.uname().nodename]
    assert site["latency_us"][0][0] > 0 and site["bandwidth_mbps"][0][0] > 0
    assert site["racks"]["confidence"] == 1


@pytest.mark.parametrize("by_block", ["0", "1"])
def test_cliques_are_those_of_mpich(pingpong: Launch, tmp_path: Path, by_block: Any) -> None:
    # 4 ranks, 3 cliques: 0 1 2 0, by block 0 0 1 2; only clique 0 has an inner pair
    env = {"MPIR_CVAR_CLIQUES_BY_BLOCK": by_block}
    assert pingpong(4, cliques=3, env=env).returncode == 0
    site = load(tmp_path / "site.json")
    assert [site["latency_us"][h][h] > 0 for h in range(3)] == [True, False, False]


def test_rack_tables_on_large_sites(pingpong: Launch, tmp_path: Path) -> None:
    assert pingpong(4, "--full-matrix-hosts", "3").returncode == 0
    site = load(tmp_path / "site.json")
    assert "latency_us" not in site and "bandwidth_mbps" not in site
    assert len(site["hosts"]) == 4
    assert "latency_spread" not in site
    # noise may part the hosts of one machine, and find levels: a rack of one host has no pair in it
    racks = site.get("racks") or site["levels"][0]
    rack_of, names = (
        racks.get(old) or racks[new] for old, new in (("of_host", "of_group"), ("names", "groups"))
    )
    for i, j in itertools.product(range(len(names)), repeat=2):
        has_pair = i != j or rack_of.count(i) > 1
        for what in ("latency_us", "bandwidth_mbps", "latency_spread", "bandwidth_spread"):
            assert (site[f"rack_{what}"][i][j] > 0) == has_pair


def test_output_replaces_a_file_and_follows_a_link(pingpong: Launch, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    assert pingpong(2, "--force", "-o", "link.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    load(tmp_path / "real.json")


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
def test_output_to_standard_output(pingpong: Launch, tmp_path: Path, output: str) -> None:
    run = pingpong(2, "-o", output)
    assert run.returncode == 0 and not list(tmp_path.iterdir())
    (tmp_path / "site.json").write_text(run.stdout)
    assert load(tmp_path / "site.json")["hosts"] == ["clique0", "clique1"]


def test_host_names(
    bindir: Path, run_mpi: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ['quo"te', "back\\slash", "grüße-主机"]
    monkeypatch.chdir(tmp_path)
    command: list[str | Path] = []
    for name in names:
        command += [":", "-n", "1", "-env", "MPIR_CVAR_COLL_TOPOLOGY_HOST", name]
        command += [bindir / "topo-pingpong"]
    assert run_mpi(*command[1:]).returncode == 0
    assert load(tmp_path / "site.json")["hosts"] == names


@pytest.mark.parametrize("name", [b"bell\a", b"latin\xe9", b"x" * 256, b"x" * 5000])
def test_impossible_host_names(pingpong: Launch, tmp_path: Path, name: str) -> None:
    run = pingpong(1, "--single", env={"MPIR_CVAR_COLL_TOPOLOGY_HOST": os.fsdecode(name)})
    assert run.returncode == 1
    assert "rank 0: its host name" in run.stderr
    assert not list(tmp_path.iterdir())


@measures
def test_costs_of_messages(pingpong: Launch, tmp_path: Path) -> None:
    # 3 ranks on 2 hosts; the switch to rendezvous is found wherever it is
    env = {"MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": 5000}
    run = pingpong(3, "--time-limit", "20", cliques=2, env=env)
    assert run.returncode == 0, run.stderr
    costs = load(tmp_path / "site.json")["costs"]
    assert 4900 < costs["eager_bytes"] <= 5000 and costs["gap_us"] > 0
    for key in ("message", "inside_message"):
        ends = [piece["most_bytes"] for piece in costs[key]]
        assert ends == sorted(ends) and ends[-1] in (2**k for k in range(13, 19))
        assert any(4900 < end <= 5000 for end in ends)


# -- the time limit --


@measures
def test_time_limit_cuts_repetitions(pingpong: Launch, tmp_path: Path) -> None:
    begin = time.monotonic()
    many = ["--latency-reps", "1M", "--bandwidth-reps", "1M", "--time-limit", "3"]
    # of two hosts: one round a pass, which no noise of the machine can leave out
    assert pingpong(2, *many).returncode == 0
    assert time.monotonic() - begin < 10
    provenance = load(tmp_path / "site.json")["provenance"]
    assert provenance["complete"] is True
    assert 3 <= provenance["bandwidth_repetitions"] < 2**20


@measures
def test_time_limit_leaves_pairs_out(pingpong: Launch, tmp_path: Path) -> None:
    options = ["--bandwidth-bytes", "16M", "--latency-warmup", "10K", "--time-limit", "0.6"]
    assert pingpong(7, *options).returncode == 0
    site = load(tmp_path / "site.json")
    assert site["provenance"]["complete"] is False
    assert site["provenance"]["latency_repetitions"] == 3
    assert 0 < site["provenance"]["pairs_measured"] < 21
    assert all(v > 0 for v in off_diagonal(site["latency_us"]))  # estimated where not measured
    assert 0 in off_diagonal(site["bandwidth_mbps"])
    assert any("left out" in w for w in site["warnings"])


# -- bad input --


def test_help_and_version(pingpong: Launch) -> None:
    version = tomllib.loads((REPO / "maint/versions.toml").read_text())["topo"]
    about = f"topo-pingpong {version} of mpich-topo, MPICH Version:"
    for option, text in (("--help", "Usage: mpiexec"), ("--version", about)):
        run = pingpong(3, option)
        assert run.returncode == 0 and run.stderr == ""
        assert run.stdout.count(text) == 1
        assert max(map(len, run.stdout.splitlines())) <= 80 or option == "--version"


@pytest.mark.parametrize(
    "options",
    [
        ["--no-such"],
        ["--" + "x" * 5000],
        ["stray"],
        ["-o"],
        ["--output="],
        ["--time-limit", "-1"],
        ["--time-limit", "nan"],
        ["--latency-bytes", "8x"],
        ["--bandwidth-bytes", "0"],
        ["--bandwidth-bytes", "2G"],
        ["--bandwidth-bytes", "99999999999999999999"],
        ["--bandwidth-reps", "2"],
        ["--progress", "maybe"],
        ["--single=3"],
    ],
)
def test_misuse(pingpong: Launch, tmp_path: Path, options: Any) -> None:
    run = pingpong(3, *options)
    assert run.returncode == 2
    assert run.stdout.count("topo-pingpong:") == 0
    assert run.stderr.count("topo-pingpong: ") == 1
    assert "(help: topo-pingpong --help)" in run.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--ouput=x", "--output"),
        ("--latency-rep", "--latency-reps"),
        ("--versoin", "--version"),
        ("--quiet", None),
    ],
)
def test_misspelt_options(pingpong: Launch, option: Any, meant: Any) -> None:
    run = pingpong(1, option)
    hint = f'; did you mean "{meant}"?' if meant else ""
    assert f"topo-pingpong: {option}: no such option{hint} (help: " in run.stderr


@pytest.mark.parametrize("option", ["--help", "--output=-"])
def test_full_standard_output(bindir: Path, run_mpi: Launch, option: str) -> None:
    full = ["sh", "-c", f"{bindir}/topo-pingpong --single {option} >/dev/full"]
    run = run_mpi(*full, n=1)
    assert run.returncode == 1
    assert "topo-pingpong: standard output: No space left on device" in run.stderr


def test_output_that_cannot_be_written(pingpong: Launch, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for output in ("missing/site.json", "folder", "/sys/site.json", "/dev/full", "fifo"):
        run = pingpong(2, "-o", output)
        assert run.returncode == 2, output
        assert run.stderr.count(f"topo-pingpong: {output}: ") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fifo", "folder"]


def test_older_file_stays(pingpong: Launch, tmp_path: Path) -> None:
    (tmp_path / "site.json").write_text("old")
    run = pingpong(2)
    assert run.returncode == 2
    assert "topo-pingpong: site.json: is there already; --force writes over it" in run.stderr
    assert (tmp_path / "site.json").read_text() == "old"
    assert pingpong(2, "--force").returncode == 0
    load(tmp_path / "site.json")


def test_one_process_has_to_be_asked_for(bindir: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [bindir / "topo-pingpong"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2 and not list(tmp_path.iterdir())
    assert "found one process, expected at least one on every host" in run.stderr
    assert "--single" in run.stderr


def test_full_disk_keeps_the_old_file(pingpong: Launch, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    fill = "mount -t tmpfs -o size=16k none disk && echo old >disk/site.json && " \
        "{ cat /dev/zero >disk/fill || true; } 2>/dev/null"  # fmt: skip
    unshare = ["unshare", "-rm", "sh", "-c"]
    tried = subprocess.run([*unshare, fill], cwd=tmp_path, check=False, capture_output=True)
    if tried.returncode:
        pytest.skip("cannot mount a small disk (no user namespaces)")
    run = pingpong(
        2, "--force", "-o", "disk/site.json",
        prefix=[*unshare, f'{fill}; "$@"; rc=$?; ls disk; cat disk/site.json; exit $rc', "sh"],
    )  # fmt: skip
    assert run.returncode == 1
    assert "disk/site.json: cannot write: No space left on device" in run.stderr
    assert run.stdout.split()[-3:] == ["fill", "site.json", "old"]


def test_interrupt_leaves_nothing(bindir: Path, mpiexec: Path, tmp_path: Path) -> None:
    command = [mpiexec, "-n", "2", bindir / "topo-pingpong"]
    command += ["--latency-reps", "100M", "--time-limit", "0"]
    process = subprocess.Popen(
        [str(c) for c in command], cwd=tmp_path, stderr=subprocess.PIPE,
        env={**os.environ, "MPIR_CVAR_NUM_CLIQUES": "2"}, start_new_session=True,
    )  # fmt: skip
    time.sleep(1)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)  # the exit status is mpiexec's, which may be 0
    assert not list(tmp_path.iterdir())


def test_progress(pingpong: Launch) -> None:
    assert "round" not in pingpong(2).stderr
    run = pingpong(3, "--force", "--progress", "always")
    assert "round 10 of 10" in run.stderr


# -- racks from distances --


@pytest.fixture(scope="session")
def grouper(mpicc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """racks.h as a filter: distances in, racks and confidence out."""
    folder = tmp_path_factory.mktemp("racks")
    (folder / "racks.c").write_text(
        r"""
#include <stdio.h>
#include "racks.h"
int main(void)
{
    int n, racks;
    double noise, confidence;
    if (scanf("%d %lf", &n, &noise) != 2)
        return 1;
    float *d = malloc(sizeof(float) * n * n);
    int *rack = malloc(sizeof(int) * n);
    for (int i = 0; i < n * n; i++) {
        if (scanf("%f", &d[i]) != 1)
            return 1;
    }
    racks = racks_from_distances(n, d, noise, rack, &confidence);
    printf("%d %f", racks, confidence);
    for (int i = 0; i < n; i++)
        printf(" %d", rack[i]);
    return 0;
}
"""
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2"]
    command = [mpicc, *flags, "-I", REPO / "bench", "-o", "racks", "racks.c", "-lm"]
    subprocess.run([str(c) for c in command], cwd=folder, check=True)

    def run(distance: Any, noise: float = 0.05) -> Any:
        n = len(distance)
        text = f"{n} {noise}\n" + "\n".join(" ".join(map(str, row)) for row in distance)
        out = subprocess.run(
            [folder / "racks"], input=text, capture_output=True, text=True, check=True
        ).stdout.split()
        assert int(out[0]) == len(set(out[2:]))
        return [int(r) for r in out[2:]], float(out[1])

    return run


def canonical(racks: Any) -> list[Any]:
    """Racks numbered by their first host."""
    seen = {}
    return [seen.setdefault(r, len(seen)) for r in racks]


def shuffled_racks(shape: Any, seed: int) -> Any:
    racks = [r for r, size in enumerate(shape) for _ in range(size)]
    random.Random(seed).shuffle(racks)
    return canonical(racks)


def distances(n: int, distance_of: Any) -> Any:
    """A symmetric matrix of distance_of(i, j), i < j."""
    matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            matrix[i][j] = matrix[j][i] = distance_of(i, j)
    return matrix


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_racks_by_shared_uplinks(grouper: Callable[..., Any], shape: Any, seed: int) -> None:
    # log of: 400 Mbit/s within 20 %, and 25 to 100 Mbit/s between racks
    rng = random.Random(seed)
    racks = shuffled_racks(shape, seed)
    near, far = (0, 0.2), (1.4, 2.8)
    found, confidence = grouper(
        distances(len(racks), lambda i, j: rng.uniform(*(near if racks[i] == racks[j] else far)))
    )
    assert found == racks
    assert confidence > 0.7


@pytest.mark.parametrize("n", [2, 3, 4, 8, 16, 40])
def test_no_racks_in_noise(grouper: Callable[..., Any], n: int) -> None:
    for seed in range(10):
        noise = partial(random.Random(seed).gauss, 0, 0.1)
        found, confidence = grouper(distances(n, lambda i, j, noise=noise: noise()), noise=0.1)
        assert found == [0] * n
        assert confidence <= 0.5


def test_one_host(grouper: Callable[..., Any]) -> None:
    assert grouper([[0]]) == ([0], 1)


def test_racks_are_the_leaf_switches(grouper: Callable[..., Any]) -> None:
    # 1.2 us in the rack, 1.8 in the pod, 2.3 beyond: logs, with 3 % noise
    rng = random.Random(1)
    racks = shuffled_racks([4] * 16, 1)

    def distance(i: Any, j: Any) -> Any:
        far = 0.18 if racks[i] == racks[j] else 0.59 if racks[i] // 4 == racks[j] // 4 else 0.83
        return rng.gauss(far, 0.03)

    found, confidence = grouper(distances(64, distance))
    assert found == racks
    assert confidence > 0.8


# -- levels beside them --


@pytest.fixture(scope="session")
def leveller(mpicc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """levels.h behind racks.h, as topo-pingpong has them: of each matrix of distances, for each level
    ([group of each host], confidence)."""
    folder = tmp_path_factory.mktemp("levels")
    (folder / "levels.c").write_text(
        r"""
#include <stdio.h>
#include "levels.h"
int main(void)
{
    int n;
    metric_t metric;
    while (scanf("%d %lf", &n, &metric.noise) == 2) {
        level_t levels[LEVELS_MAX];
        metric.distance = malloc(sizeof(float) * n * n);
        for (int i = 0; i < n * n; i++) {
            if (scanf("%f", &metric.distance[i]) != 1)
                return 1;
        }
        for (int i = 0; i < LEVELS_MAX; i++)
            levels[i].of = malloc(sizeof(int) * n);
        levels[0].num = racks_from_distances(n, metric.distance, metric.noise, levels[0].of,
                                             &levels[0].confidence);
        int count = levels_find(n, &metric, 1, levels);
        for (int i = 0; i < count; i++) {
            printf("%f", levels[i].confidence);
            for (int h = 0; h < n; h++)
                printf(" %d", levels[i].of[h]);
            printf(i < count - 1 ? ";" : "\n");
        }
        for (int i = 0; i < LEVELS_MAX; i++)
            free(levels[i].of);
        free(metric.distance);
    }
    return 0;
}
"""
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover"]
    command = [mpicc, *flags, "-I", REPO / "bench", "-o", "levels", "levels.c", "-lm"]
    subprocess.run([str(c) for c in command], cwd=folder, check=True)

    def run(matrices: Sequence[np.ndarray], noise: float = 0.05) -> list[Any]:
        lines = []
        for matrix in matrices:
            upper = np.triu(matrix, 1)
            values = " ".join(f"{value:.6g}" for value in np.ravel(upper + upper.T))
            lines.append(f"{len(matrix)} {noise} {values}")
        out = subprocess.run(
            [folder / "levels"], input="\n".join(lines), capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert len(out) == len(matrices)
        words = [[level.split() for level in line.split(";")] for line in out]
        return [[([int(g) for g in of], float(sure)) for sure, *of in line] for line in words]

    return run


# -- what uplinks carry --


@pytest.fixture(scope="session")
def uplinks(mpicc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[float]]:
    """uplinks.h as a filter. uplinks("rounds", n): in each round the opponent of each host;
    uplinks("x", n, text=racks, rates by the mean, rates by the median): of each rack, 0: not known."""
    folder = tmp_path_factory.mktemp("uplinks")
    (folder / "uplinks.c").write_text(
        r"""
#include <stdio.h>
#include "uplinks.h"
int main(int argc, char **argv)
{
    int n = atoi(argv[2]), num = 0;
    if (argc > 3) {
        for (int r = 0; r < n - 1 + n % 2; r++) {
            for (int h = 0; h < n; h++)
                printf("%d ", uplinks_opponent(n, h, r));
        }
        return 0;
    }
    float *rate = malloc(sizeof(float) * 2 * n * n);
    int *rack = malloc(sizeof(int) * n);
    double *mbps = malloc(sizeof(double) * n);
    for (int i = 0; i < n; i++) {
        if (scanf("%d", &rack[i]) != 1)
            return 1;
        num = rack[i] >= num ? rack[i] + 1 : num;
    }
    for (int i = 0; i < 2 * n * n; i++) {
        if (scanf("%f", &rate[i]) != 1)
            return 1;
    }
    if (uplinks_find(n, rate, rate + n * n, rack, num, NULL, mbps) < 0)
        return 1;
    for (int g = 0; g < num; g++)
        printf("%f ", mbps[g]);
    free(rate);
    free(rack);
    free(mbps);
    return 0;
}
"""
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2"]
    flags += ["-fsanitize=undefined,address", "-fno-sanitize-recover"]
    command = [mpicc, *flags, "-I", REPO / "bench", "-o", "uplinks", "uplinks.c", "-lm"]
    subprocess.run([str(c) for c in command], cwd=folder, check=True)

    def run(*words: Any, text: str = "") -> list[float]:
        out = subprocess.run(
            [str(folder / "uplinks"), *map(str, words)],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        return [float(word) for word in out.stdout.split()]

    return run


def shared_fairly(ways: list[tuple[Any, ...]], rates: dict[Any, float]) -> list[float]:
    """What each way over these links gets, when none can get more without another one getting less."""
    left, got = dict(rates), [0.0] * len(ways)
    users: dict[Any, set[int]] = {}  # of each link, those that have not got theirs
    for w, way in enumerate(ways):
        for link in way:
            users.setdefault(link, set()).add(w)
    while users:
        full = min(users, key=lambda link: left[link] / len(users[link]))
        share = left[full] / len(users[full])
        for w in list(users[full]):
            got[w] = share
            for link in ways[w]:
                left[link] -= share
                users[link].discard(w)
        users = {link: those for link, those in users.items() if those}
    return got


@pytest.mark.parametrize(
    "shape",
    [
        [5] * 3,
        [4] * 4,
        [8] * 8,
        [4, 4],
        [6, 3, 4],
        [2] * 8,
        [3] * 5,
        [16] * 3,
        [7, 2, 5, 4],
        [2, 3, 2],
        [8, 4, 4],
        [5, 4, 3, 2, 2],
    ],
)
@pytest.mark.parametrize("order", ["block", "cyclic", "random"])
def test_rates_of_uplinks(
    uplinks: Callable[..., list[float]], shape: list[int], order: str
) -> None:
    """On a simulated network of full-duplex links those that limit what goes over them, within 12 %; but
    one may be hidden behind those of other racks, where these are smaller or larger. per_host 0: all have one rate."""
    n, rng = sum(shape), np.random.default_rng(len(shape))
    racks = [r for r, size in enumerate(shape) for _ in range(size)]
    if order == "random":
        rng.shuffle(racks)
    elif order == "cyclic":
        racks = [r for k in range(max(shape)) for r, size in enumerate(shape) if k < size]
    rounds = np.array(uplinks("x", n, "rounds"), int).reshape(-1, n)
    assert all(sorted(h for h in row if h >= 0) == sorted(set(row) - {-1}) for row in rounds)
    met = {(h, other) for row in rounds for h, other in enumerate(row) if other >= 0}
    assert len(met) == n * (n - 1)

    for per_host in (0.2, 0.5, 0.0, None):
        part = 2 if per_host is None else per_host
        true = {r: 400 * size * part if part else 150.0 for r, size in enumerate(shape)}
        rates = {("host", h, way): 400.0 for h in range(n) for way in "io"}
        rates |= {("rack", r, way): true[r] for r in true for way in "io"}
        found = np.zeros((n, n))
        for row in rounds:
            for first in (True, False):
                pairs = [(h, o) for h, o in enumerate(row) if o >= 0 and (h < o) == first]
                ways: list[tuple[Any, ...]] = []
                for h, o in pairs:
                    up = [("rack", racks[h], "o"), ("rack", racks[o], "i")]
                    apart = racks[h] != racks[o]
                    ways.append((("host", h, "o"), ("host", o, "i"), *(up if apart else [])))
                for (h, o), rate in zip(pairs, shared_fairly(ways, rates), strict=True):
                    found[o, h] = rate * rng.normal(1, 0.03)
        text = " ".join(map(str, [*racks, *found.ravel(), *found.ravel()]))
        result = uplinks("x", n, text=text)
        for r, mbps in enumerate(result):
            least = 0.88 if min(shape) == max(shape) else 0.8 if per_host == 0 else 0.6
            assert mbps == 0 or least < mbps / true[r] < 1.12, (r, per_host, result)
        if per_host is None:
            assert not any(result)
        elif per_host in (0.2, 0.0):
            assert all(result)


@pytest.mark.parametrize("groups", [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 2, 2]])
def test_uplinks_carry_what_a_pair_had(
    uplinks: Callable[..., list[float]], groups: list[int]
) -> None:
    """Racks, or groups of any level: a pair crosses the uplinks of the two that it is in, if these differ."""
    of = np.array(groups)
    together = np.where(of[:, None] == of, 400.0, 25.0)  # all at once were disturbed
    for i, j in itertools.permutations(range(6), 2):
        pairs = together.copy()
        pairs[i, j] = 900
        plain, raised = (
            uplinks("x", 6, text=" ".join(map(str, [*of, *together.ravel(), *medians.ravel()])))
            for medians in (together, pairs)
        )
        assert min(plain) > 0 and max(plain) < 100
        ends = {of[i], of[j]} if of[i] != of[j] else set()
        assert raised == [900 if g in ends else mbps for g, mbps in enumerate(plain)]


# racks of hosts; a site of 40 hosts is as sure as one of 10
TWO_LEVELS = [[4] * 4, [3, 5, 2], [2] * 4, [5, 1, 4], [4] * 8, [3, 2, 4, 2, 3, 2], [2] * 16]


def made_up(kind: str, rack: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Distances of a site with racks, and nothing above."""
    n, num = len(rack), max(rack) + 1
    own, noise = rng.uniform(0, 1, num)[rack], rng.normal(0, 0.05, (n, n))
    far = {
        "shared uplinks": rng.uniform(1.4, 2.8, (n, n)),
        "latencies": 0.4 + noise,
        "unequal uplinks": 0.6 + np.maximum(own[:, None], own) + noise,
        "long cables": 0.6 + own[:, None] + own + noise,
        "now and then late": 1 + rng.exponential(0.3, (n, n)),
        "no racks": noise,
    }[kind]
    near = rng.uniform(0, 0.2, (n, n)) if kind == "shared uplinks" else noise
    return np.where(rack[:, None] == rack, near, far)


@pytest.mark.parametrize(
    "kind",
    [
        *("shared uplinks", "latencies", "unequal uplinks", "long cables"),
        *("now and then late", "no racks"),
    ],
)
def test_no_level_in_noise(leveller: Callable[..., Any], kind: str) -> None:
    matrices = []
    for shape in TWO_LEVELS:
        for seed in range(40):
            rng = np.random.default_rng(seed)
            rack = rng.permutation(np.repeat(np.arange(len(shape)), shape))
            matrices.append(made_up(kind, rack, rng))
    assert {len(levels) for levels in leveller(matrices)} == {1}


PODS = {"even": ([4] * 4, [2, 2]), "unequal": ([3, 2, 4, 3, 2, 4], [2, 4])}
PODS |= {"three": ([2] * 9, [4, 2, 3]), "one alone": ([3] * 7, [3, 3, 1])}


@pytest.mark.parametrize("pods", PODS)
def test_pods(leveller: Callable[..., Any], pods: str) -> None:
    """Hosts in any order; uplinks that are shared by one pair or by four, and latencies."""
    shape, racks_of_pod = PODS[pods]
    matrices, truth = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rack = rng.permutation(np.repeat(np.arange(len(shape)), shape))
        pod = np.repeat(np.arange(len(racks_of_pod)), racks_of_pod)[rack]
        pairs = (len(rack), len(rack))
        same_rack, same_pod = (of[:, None] == of for of in (rack, pod))
        far = np.where(same_pod, rng.uniform(1.4, 2.1, pairs), rng.uniform(2.8, 4.2, pairs))
        matrices.append(np.where(same_rack, rng.uniform(0, 0.2, pairs), far))
        # 1.2, 1.9 and 2.8 us
        steps = np.where(same_rack, 0.18, np.where(same_pod, 0.64, 1.03))
        matrices.append(steps + rng.normal(0, 0.04, pairs))
        truth += [(canonical(rack), canonical(pod))] * 2
    found = leveller(matrices)
    whole = 0
    for (racks, pods_of_hosts), levels in zip(truth, found, strict=True):
        assert levels[0][0] == racks and levels[0][1] > 0.5
        assert len(levels) <= 2  # it may be in doubt, but never another one
        if len(levels) == 2:
            assert levels[1][0] == pods_of_hosts and levels[1][1] > 0.7
            whole += 1
    assert whole > 0.75 * len(truth)


def test_racks_in_pods_that_are_far_apart(leveller: Callable[..., Any]) -> None:
    # so far that a single cut takes them for racks; and one more level above
    rng = np.random.default_rng(1)
    rack = rng.permutation(np.repeat(np.arange(16), 2))
    distance = rng.normal(0, 0.02, (32, 32))
    for size, step in ((1, 0.5), (4, 3), (8, 1)):
        group = rack // size
        distance += step * (group[:, None] != group)
    ((racks, pods, sites),) = leveller([distance])
    for (found, sure), size in ((racks, 1), (pods, 4), (sites, 8)):
        assert found == canonical(rack // size) and sure > 0.7


# -- slow links, and pieces of the time of a message --


@pytest.fixture(scope="session")
def judge(mpicc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """slow.h and sweep.h as a filter of numbers."""
    folder = tmp_path_factory.mktemp("judge")
    (folder / "judge.c").write_text(
        r"""
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include "slow.h"
#include "sweep.h"
static float number(void)
{
    double value;
    if (scanf("%lf", &value) != 1)
        exit(1);
    return value;
}
static float *numbers(int n)
{
    float *all = malloc(sizeof(float) * n);
    for (int i = 0; i < n; i++)
        all[i] = number();
    return all;
}
int main(void)
{
    int n = number(), racks = number(), is_rate = number();
    if (n == 0) {
        sweep_t sweep = {.num = racks,.eager_bytes = is_rate};
        piece_t piece[SWEEP_SIZES];
        for (int i = 0; i < racks; i++)
            sweep.us[i] = number();
        int num = sweep_pieces(&sweep, piece);
        for (int i = 0; i < num; i++)
            printf("%d %d %f %f\n", piece[i].first, piece[i].last, piece[i].latency_us, piece[i].mbps);
        return (void) sweep_pair, (void) measure_gap, 0;
    }
    int *rack = malloc(sizeof(int) * n);
    for (int i = 0; i < n; i++)
        rack[i] = number();
    float *value = numbers(n * n), *spread = numbers(n * n), *usual = numbers(racks * racks);
    slow_t slow[3];
    int found = slow_links(n, value, spread, is_rate, rack, racks, usual, 3, slow);
    printf("%d\n", found);
    for (int i = 0; i < found && i < 3; i++)
        printf("%d %d %d %d %f\n", slow[i].from, slow[i].to, slow[i].inside, slow[i].alone, slow[i].times);
    return 0;
}
"""
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2"]
    command = [mpicc, *flags, "-I", REPO / "bench", "-o", "judge", "judge.c", "-lm"]
    subprocess.run([str(c) for c in command], cwd=folder, check=True)

    def run(*values: Any) -> list[list[float]]:
        text = " ".join(str(v) for v in np.hstack([np.ravel(v) for v in values]))
        done = subprocess.run(
            [folder / "judge"], input=text, capture_output=True, text=True, check=True
        )
        return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]

    return run


def rates(shape: Sequence[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Racks of hosts, and Mbit/s: 400 in racks, and what is left of uplinks that others use, too."""
    rng = np.random.default_rng(seed)
    racks = np.repeat(np.arange(len(shape)), shape)
    pairs = (len(racks), len(racks))
    values = np.where(racks[:, None] == racks, 400, rng.uniform(25, 100, pairs))
    return racks, values * rng.lognormal(0, 0.1, pairs)


def slow(
    judge: Callable[..., Any], racks: np.ndarray, values: np.ndarray, spread: float = 0.1
) -> tuple[int, list[tuple[int, ...]], list[float]]:
    """(how many are slow, (from, to, inside, alone) of the first, how many times) of rates"""
    of = range(max(racks) + 1)
    usual = [[np.median(v) if len(v := block(values, racks, a, b)) else 0 for b in of] for a in of]
    spreads = np.full(values.shape, spread)
    (count,), *rows = judge(len(racks), len(of), 1, racks, values, spreads, usual)
    return int(count), [tuple(map(int, row[:4])) for row in rows], [row[4] for row in rows]


def block(values: np.ndarray, racks: np.ndarray, a: int, b: int) -> np.ndarray:
    pairs = np.outer(racks == a, racks == b) & ~np.eye(len(racks), dtype=bool)
    return values[pairs & (values > 0)]


@pytest.mark.parametrize("shape", [[1], [2], [6], [2, 2, 2], [3, 5, 2], [4] * 4, [1] * 5, [8, 8]])
def test_none_is_slow_on_a_healthy_site(judge: Callable[..., Any], shape: Any) -> None:
    for seed in range(5):
        assert slow(judge, *rates(shape, seed)) == (0, [], [])


def test_slow_hosts(judge: Callable[..., Any]) -> None:
    racks, values = rates([4] * 4, 1)
    values[6] = np.minimum(values[6], 60)  # what it receives; sends and others are as before
    count, rows, times = slow(judge, racks, values)
    assert (count, rows) == (1, [(6, -1, 1, 0)]) and 5 < times[0] < 9
    assert slow(judge, racks, values.T)[:2] == (1, [(6, -1, 1, 0)])
    values[11] /= 20  # the worst first
    assert slow(judge, racks, values)[1] == [(11, -1, 1, 0), (6, -1, 1, 0)]
    values[values < 6] = 0  # not measured: nothing is known of it
    assert (11, -1, 0, 0) not in slow(judge, racks, values)[1]


def test_partners_of_a_slow_host_are_not_slow(judge: Callable[..., Any]) -> None:
    racks, values = rates([3, 3], 1)
    values[1] /= 6
    values[:, 1] /= 6  # of two partners in its rack, hosts 0 and 2 have one that is as usual
    assert slow(judge, racks, values)[:2] == (1, [(1, -1, 1, 0)])


def test_a_slow_host_may_look_like_a_rack(judge: Callable[..., Any]) -> None:
    racks, values = rates([4] * 4, 1)
    values[6] = np.minimum(values[6], 60)
    racks[6] = 4
    count, rows, times = slow(judge, racks, values)
    assert (count, rows) == (1, [(6, -1, 1, 1)]) and 5 < times[0] < 9


def test_slow_pairs(judge: Callable[..., Any]) -> None:
    racks, values = rates([4] * 4, 1)
    values[1, 2] /= 3
    count, rows, times = slow(judge, racks, values)
    assert (count, rows) == (1, [(1, 2, 1, 0)]) and 2.4 < times[0] < 3.8
    assert slow(judge, racks, values, spread=4)[0] == 0  # its repetitions scatter more than that
    for i, j in ((4, 5), (9, 8), (12, 15)):
        values[i, j] /= 9
    count, rows, _ = slow(judge, racks, values)
    assert count == 4 and set(rows) == {(4, 5, 1, 0), (8, 9, 1, 0), (12, 15, 1, 0)}


def line(sizes: range, latency_us: float, mbps: float) -> list[float]:
    return [latency_us + 2**i * 8 / mbps for i in sizes]


def test_pieces_of_the_time_of_a_message(judge: Callable[..., Any]) -> None:
    # both protocols have one piece
    us = line(range(13), 20, 400) + line(range(13, 19), 60, 390)
    pieces = judge(0, 19, 2**12, us)
    assert np.allclose(pieces, [[0, 13, 20, 400], [13, 19, 60, 390]], rtol=1e-3)
    # no other protocol; sizes that the time was too short for
    assert np.allclose(judge(0, 12, 2**11, us[:12]), [[0, 12, 20, 400]], rtol=1e-3)
    assert judge(0, 1, -1, us[:1]) == []
    # what is passed on at once, and what is not
    us = line(range(12), 20, 10000) + line(range(12, 19), 100, 100)
    pieces = judge(0, 19, 2**18, us)
    assert np.allclose(pieces, [[0, 12, 20, 10000], [12, 19, 100, 100]], rtol=1e-3)
    # the same time for all sizes
    assert judge(0, 8, 2**7, [5] * 8) == [[0, 8, 5, 0]]


# -- on a virtual cluster --


def on_vcluster(bindir: Path, output: Path, *shape: str) -> Any:
    """The site file of a virtual cluster."""
    vcluster: list[str | Path] = [sys.executable, REPO / "bench/topo-vcluster"]
    if subprocess.run([*vcluster, "check"], check=False, capture_output=True).returncode:
        pytest.skip("no virtual clusters on this machine")
    program: list[str | Path] = [bindir / "topo-pingpong", "-o", output]
    env = {**os.environ, "TOPO_BIN": str(bindir)}
    options, ours = shape[: shape.index("--")], shape[shape.index("--") + 1 :]
    command = [*vcluster, "run", *options, "--", *program, "--time-limit", "40", *ours]
    subprocess.run(command, env=env, check=True, timeout=120)
    return load(output)


@measures
def test_racks_of_a_virtual_cluster(bindir: Path, tmp_path: Path) -> None:
    # slow links, so that it is the links and not busy cores that set the pace
    shape = ["--racks", "3", "--hosts", "3,4,3", "--placement", "random:1"]
    shape += ["--host-rate", "200mbit", "--uplink-rate", "40mbit"]
    # without headers 38.2. Where pairs that have their rate stop, what the others get is added to it: 48. On
    # a busy machine pairs may miss each other, and gaps grow, so it may take some runs.
    for _ in range(3):
        site = on_vcluster(
            bindir, tmp_path / "site.json", *shape, "--", "--bandwidth-bytes", "128K"
        )
        [racks], costs = site["levels"], site["costs"]
        pieces = costs["message"]
        to_mate = site["latency_us"][0][racks_mate(racks["of_group"])]
        measured: list[tuple[float, float, float]] = [
            *((rate, 34, 44) for rate in racks["uplink_mbps"]),
            (costs["gap_us"], 35, 80),  # 0.1 us of a packet on a link, slowed down by 500
            (pieces[-1]["mbps"], 150, 220),
            (pieces[0]["latency_us"] / to_mate, 0.8, 1.2),
        ]
        off = [(value, low, high) for value, low, high in measured if not low < value < high]
        if not off:
            break
    assert off == []
    assert site["provenance"]["seconds"] < 45
    assert racks["of_group"] == canonical([h.split("h")[0] for h in site["hosts"]])
    assert racks["confidence"] > 0.7
    assert costs["reduce_mbps"] > 1000
    assert 130000 < costs["eager_bytes"] < 131072  # that of ch3


@measures
def test_no_eager_limit_from_few_sizes(bindir: Path, tmp_path: Path) -> None:
    """Round trips of 80 ms leave time for few sizes, all of them eager: the limit is unknown."""
    shape = ["--racks", "1", "--hosts", "2", "--slow", "20000", "--latency", "2us"]
    site = on_vcluster(bindir, tmp_path / "site.json", *shape, "--", "--time-limit", "6")
    assert site["latency_us"][0][1] > 35000
    assert "eager_bytes" not in site["costs"]


def racks_mate(of_host: list[int]) -> int:
    """Another host in the rack of host 0"""
    return of_host.index(of_host[0], 1)


@measures
def test_pods_of_a_virtual_cluster(bindir: Path, tmp_path: Path) -> None:
    shape = ["--pods", "2,3", "--hosts", "2", "--placement", "random:2"]
    shape += ["--host-rate", "400mbit", "--uplink-rate", "160mbit", "--pod-rate", "40mbit"]
    site = on_vcluster(bindir, tmp_path / "site.json", *shape, "--", "--bandwidth-bytes", "64K")
    assert site["format"] == 2 and "racks" not in site
    racks, pods = site["levels"]
    of_host = [host.split("h")[0] for host in site["hosts"]]
    assert racks["of_group"] == canonical(of_host)
    assert (racks["name"], pods["name"]) == ("rack", "level3")
    pod_of_rack = {"r0": 0, "r1": 0}
    in_order = list(dict.fromkeys(of_host))
    assert pods["of_group"] == canonical([pod_of_rack.get(rack, 1) for rack in in_order])
    for level in (racks, pods):
        assert level["source"] == "measured" and level["confidence"] > 0.7
    assert 20 < max(filter(None, pods["uplink_mbps"])) < 50
