# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-vcluster: shapes, rates, placements, errors, and that nothing is left behind."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from inprocess import load_program, run_tool
from kinds import Build, Job

measures = pytest.mark.alone  # rates and times

SOURCE = str(Path(__file__).resolve().parents[2] / "bench/topo-vcluster")
TOOL = [sys.executable, SOURCE]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp"]
NAMES = (f"test-{os.getpid()}-{i}" for i in itertools.count())
NAMESPACES = "for kind in mnt net pid uts; do readlink /proc/self/ns/$kind; done"


def call(*words: Any, prefix: Sequence[Any] = (), **options: Any) -> Job:
    line = [*prefix, *TOOL, *map(str, words)]
    return subprocess.run(line, check=False, capture_output=True, text=True, timeout=60, **options)


def output_of(*words: Any, **options: Any) -> Any:
    result = call(*words, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def wait_until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def in_use(namespaces: Any) -> bool:
    """Whether a process lives in one of the namespaces ("net:[4026531992]" each)."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # that process has ended
            for link in Path("/proc", pid, "ns").iterdir():
                if os.readlink(link) in namespaces:
                    return True
    return False


@contextlib.contextmanager
def cluster_up(*options: Any, prefix: Sequence[Any] = ()) -> Iterator[Any]:
    name = next(NAMES)
    output_of("up", name, *options, prefix=prefix)
    try:
        yield name
    finally:
        output_of("down", name, prefix=prefix)


@pytest.fixture(scope="module")
def allowed() -> None:
    """Skips where this machine forbids namespaces."""
    result = call("check")
    if result.returncode == 77:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module", params=["self", "ordinary user"])
def user(request: pytest.FixtureRequest, allowed: None, bindir: Path) -> list[str]:
    """What to put before a command to run it as oneself, or as a user without rights."""
    if request.param == "self":
        return []
    if os.geteuid() != 0:
        pytest.skip("not root: the tests as oneself are those of an ordinary user")
    for command in ["test", "-x", str(bindir / "mpiexec")], [*TOOL, "check"]:
        result = subprocess.run(
            [*NOBODY, *command], check=False, cwd="/", capture_output=True, text=True
        )
        if result.returncode != 0:
            pytest.skip(f"as user 65534: '{' '.join(command)}' fails: {result.stderr.strip()}")
    return NOBODY


@pytest.fixture(scope="module")
def cluster(allowed: None) -> Iterator[str]:
    """Two racks, of two hosts and of one."""
    with cluster_up("--hosts", "2,1", "--host-rate", "40mbit", "--uplink-rate", "10mbit") as name:
        yield name


@pytest.fixture(scope="module")
def pods(allowed: None) -> Iterator[str]:
    """Two pods, of one rack and of two, three hosts in all, each in a group of its own."""
    shape = ["--pods", "1,2/2", "--hosts", "1", "--host-rate", "80mbit"]
    with cluster_up(*shape, "--uplink-rate", "40mbit", "--pod-rate", "10mbit,20mbit") as name:
        yield name


@pytest.fixture(scope="module")
def who(build_mpi: Build) -> Any:
    """An MPI program that prints the host of each rank, in rank order."""
    return build_mpi(Path(__file__).with_name("who.c"))


@pytest.fixture(scope="module")
def module() -> Any:
    return load_program(Path(SOURCE))


@pytest.fixture(scope="module")
def in_process(module: Any) -> Callable[..., Any]:
    """in_process(*words): the tool in this process, for what ends before a cluster is raised."""
    return lambda *words: run_tool("topo-vcluster", module.main, *words)


def refused(result: Any, status: Any, message: str) -> None:
    assert result.returncode == status, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("topo-vcluster: ")
    assert message in line


@pytest.fixture(scope="module")
def slots(in_process: Any) -> Callable[..., Any]:
    """slots(*options): the host of each slot, as --dry-run prints them."""

    def dry_run(*options: Any) -> list[Any]:
        result = in_process("run", *options, "--dry-run")
        assert (result.returncode, result.stderr) == (0, "")
        pairs = (line.split(":") for line in result.stdout.split())
        return [host for host, count in pairs for _ in range(int(count))]

    return dry_run


# ---- placement ----


def test_block_and_cyclic(slots: Any) -> None:
    assert slots("--racks", 2, "--hosts", 2) == ["r0h0", "r0h1", "r1h0", "r1h1"]
    assert slots("--racks", 2, "--hosts", 2, "-n", 3) == ["r0h0", "r0h1", "r1h0"]
    assert slots("--hosts", "1,1", "--ppn", 2) == ["r0h0", "r0h0", "r1h0", "r1h0"]
    assert slots("--hosts", "1,1", "--ppn", 2, "--placement", "cyclic") == ["r0h0", "r1h0"] * 2
    unequal = ["--hosts", "1,2", "--ppn", "3x1,1x2"]
    assert slots(*unequal) == ["r0h0", "r0h0", "r0h0", "r1h0", "r1h1"]
    cyclic = ["r0h0", "r1h0", "r1h1", "r0h0", "r0h0"]
    assert slots(*unequal, "--placement", "cyclic") == cyclic
    assert slots(*unequal, "--placement", "random:1").count("r0h0") == 3
    assert sorted(slots(*unequal, "--placement", "ranks:1")) == sorted(slots(*unequal))
    cyclic = slots("--hosts", "3,1,2", "--placement", "cyclic")
    assert cyclic == ["r0h0", "r1h0", "r2h0", "r0h1", "r2h1", "r0h2"]


@pytest.mark.parametrize("kind", ["random", "ranks"])
def test_shuffles(slots: Any, kind: str) -> None:
    block = slots("--ppn", 4)
    shuffled = slots("--ppn", 4, "--placement", f"{kind}:1")
    assert sorted(shuffled) == sorted(block)
    assert shuffled != block
    assert shuffled == slots("--ppn", 4, "--placement", f"{kind}:1")
    assert shuffled != slots("--ppn", 4, "--placement", f"{kind}:2")
    runs = [host for host, _ in itertools.groupby(shuffled)]
    assert (len(runs) == 16) == (kind == "random")


def test_host_file(slots: Any, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# mine\nr1h0:2\n\nr0h1  # once\nr1h0\n")
    expected = ["r1h0", "r1h0", "r0h1", "r1h0"]
    assert slots("--racks", 2, "--placement", f"file:{file}") == expected


# ---- bad input ----


@pytest.mark.parametrize(
    "words, message",
    [
        ("up a/b", "found 'a/b', expected at most 32 letters, digits, - and _"),
        ("up x --racks 0", "0 is not in the range"),
        ("up x --hosts 3,,2", "found '3,,2', expected 1 to 250, or one a rack"),
        ("up x --hosts 3,2 --racks 3", "found 2 numbers, expected 1 or 3"),
        ("up x --hosts 251 --racks 1", "found '251', expected"),
        (f"up x --hosts {'9' * 5000}", "', expected 1 to 250, or one a rack"),
        ("up x --hosts 100", "found 400 hosts, expected at most 250"),
        ("up x --host-rate 400", "found '400', expected a rate"),
        ("up x --uplink-rate -1mbit", "found '-1mbit', expected a rate"),
        ("up x --latency 5", "found '5', expected 0 or a time"),
        ("up x --gap -1us", "found '-1us', expected 0 or a time"),
        ("up x --slow 0.5", "0.5 is not in the range"),
        ("up x --like 1gbit --slow 9 --host-rate 1mbit", "expected two of them at most"),
        ("up x --oversubscription 2 --uplink-rate 1mbit", "expected one of them"),
        ("up x --pod-latency 1us", "found --pod-latency, but no --pods"),
        ("up x --pods 0", "found '0', expected how many, or the racks of each, as 2,1"),
        ("up x --pods 2,x", "found '2,x', expected how many"),
        ("up x --pods 3", "found 3 for 4 racks, expected a divisor, or the racks of each"),
        ("up x --pods 2,1 --racks 4", "found 3 racks in them, expected 4"),
        ("up x --pods 2,1 --hosts 1,1", "found 3 racks in them, expected 2"),
        ("up x --pod-rate 10mbit", "found --pod-rate, but no --pods"),
        ("up x --pods 2/3", "found 3 for 2 pods, expected a divisor, or the pods of each"),
        ("up x --pods 2/1,2", "found 3 pods in them, expected 2"),
        ("up x --pods 2/", "found '2/', expected how many"),
        ("up x --pods 1/1/1/1/1/1/1", "found 7 levels in"),
        ("up x --pods 2 --pod-rate 1mbit,2mbit", "found 2 values, expected at most 1"),
        ("down", "found neither, expected NAME or --all"),
        ("down x --all", "found both, expected NAME or --all"),
        ("down no-such", "found no cluster 'no-such', expected one that is up"),
        ("describe no-such", "found no cluster 'no-such'"),
        ("exec no-such r0h0 -- true", "found no cluster 'no-such'"),
        ("run no-such -- true", "found no cluster 'no-such'"),
        ("run", "found no program, expected -- PROGRAM at the end"),
        ("run true", "found no program, expected -- PROGRAM at the end"),
        ("run -n 17 -- true", "found 17, expected at most 16"),
        ("run --ppn 0 -- true", 'found "0", expected 1 to 4096 ranks a host'),
        ("run --ppn 4x3,2 -- true", 'found "4x3,2", expected 1 to 4096 ranks a host'),
        ("run --ppn 4x3,2x12 -- true", "found 15 hosts in 4x3,2x12, expected 16"),
        ("run --placement random -- true", "found 'random', expected block, cyclic, random:SEED"),
        ("run --placement random:x -- true", "found 'random:x', expected"),
        (f"run --placement ranks:{10**18} -- true", "SEED (up to 18 digits)"),
        ("run --placement file:x --ppn 2 -- true", "expected HOST:COUNT in the file"),
        ("run --mpiexec /no/such -- true", "/no/such"),
        ("rum -- true", 'rum: no such command; did you mean "run"?'),
        ("up x --host 3", '--host: no such option; did you mean "--hosts"?'),
    ],
)
def test_bad_options(in_process: Any, words: Any, message: str) -> None:
    refused(in_process(*words.split()), 2, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"r0h0\nr9h0\n", "line 2: found 'r9h0', expected HOST or HOST:COUNT"),
        (b"r0h0\nr0h0:0", "line 2: found 'r0h0:0', expected"),
        (b"r0h0:x", "line 1: found 'r0h0:x', expected"),
        (b"r0h0 r0h1", "line 1: found 'r0h0 r0h1', expected"),
        (b"r0h0 slots=2", "line 1: found 'r0h0 slots=2', expected"),
        (b"# none", "found no host, expected one a line"),
        (b"", "the file is empty"),
        (b"\xff", "line 1: found bytes that are not UTF-8"),
        (None, "No such file"),
    ],
)
def test_bad_host_file(in_process: Any, tmp_path: Path, content: Any, message: str) -> None:
    file = tmp_path / "hosts"
    if content is not None:
        file.write_bytes(content)
    result = in_process("run", "--placement", f"file:{file}", "--", "true")
    refused(result, 2, f"{file}: {message}")
    refused(in_process("run", "--placement", "file:/dev/zero", "--", "true"), 2, "regular file")


def test_no_mpiexec(in_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("TOPO_BIN", raising=False)
    refused(in_process("run", "--", "true"), 2, "found no mpiexec in $TOPO_BIN or PATH")


def test_help(in_process: Any) -> None:
    for words in [], ["up"], ["run"], ["exec"], ["down"]:
        result = in_process(*words, "--help")
        assert (result.returncode, result.stderr) == (0, "")
    assert "77" in in_process("--help").stdout


def test_cluster_of_another_version(in_process: Any) -> None:
    name = next(NAMES)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0topo-vcluster/{os.geteuid()}/{name}")
        listener.listen()
        answer = threading.Thread(target=lambda: listener.accept()[0].sendall(b'{"name": "x"}'))
        answer.start()
        refused(in_process("describe", name), 1, "another version")
        answer.join()


@pytest.mark.parametrize(
    "words, message",
    [
        ("up CLUSTER", "found a cluster 'CLUSTER', expected a new name"),
        ("exec CLUSTER r0h9 -- true", "found host 'r0h9', expected r0h0 ... r1h0 or front"),
        ("run CLUSTER --racks 2 -- true", "found NAME and --racks, expected one of them"),
    ],
)
def test_bad_use_of_cluster(in_process: Any, cluster: str, words: Any, message: str) -> None:
    result = in_process(*words.replace("CLUSTER", cluster).split())
    refused(result, 2, message.replace("CLUSTER", cluster))


def test_forbidden(allowed: None) -> None:
    """Where namespaces are forbidden: exit status 77 and one line, which tells what it takes."""
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    result = call("check", prefix=["unshare", "-Ur", "sh", "-c", forbid, "sh"])
    assert result.returncode == 77
    assert "cannot build a virtual cluster on this machine: unshare" in result.stderr
    assert "docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_missing_tool(allowed: None, tmp_path: Path) -> None:
    """Without iproute2: exit status 77, and the package to install."""
    hide = f'mount --bind {tmp_path}/empty "$(command -v ip)" && exec "$@"'
    (tmp_path / "empty").touch(mode=0o644)
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    prefix = ["env", f"PATH={path}", "unshare", "-Urm", "sh", "-c", hide, "sh"]
    result = call("check", prefix=prefix)
    assert result.returncode == 77
    assert "found no program 'ip', expected it from the package iproute2" in result.stderr


# ---- clusters ----


def test_describe(cluster: str) -> None:
    assert cluster in output_of("list").split()
    assert "rack 1: r1h0" in output_of("describe", cluster)
    assert json.loads(output_of("describe", cluster, "--json")) == {
        "format": 1,
        "name": cluster,
        "racks": [["r0h0", "r0h1"], ["r1h0"]],
        "slow": 2500,
        "host_mbps": 40,
        "uplink_mbps": 10,
        "latency_us": 3250,
        "uplink_latency_us": 1500,
        "gap_us": 250,
    }
    assert "host links: 40 Mbit/s, 3250 us in a rack; stands for 100 Gbit/s, 1.3 us in a rack" in (
        output_of("describe", cluster)
    )


def test_describe_pods(pods: str) -> None:
    facts = json.loads(output_of("describe", pods, "--json"))
    assert facts["racks"] == [["r0h0"], ["r1h0"], ["r2h0"]]
    assert [level["groups"] for level in facts["above"]] == [[[0], [1, 2]], [[0], [1]]]
    assert [facts["uplink_mbps"], *(level["uplink_mbps"] for level in facts["above"])] == [
        40,
        10,
        20,
    ]
    said = output_of("describe", pods)
    assert "pod 1: rack 1 rack 2\n" in said and "pod uplinks: 10 Mbit/s" in said
    assert "level 4 1: pod 1\n" in said and "level 4 uplinks: 20 Mbit/s" in said


def test_slowed(module: Any) -> None:
    """A real cluster by its own figures, or links with a rate that stand for those of one."""
    for options, slow, rates, latencies in (
        ({}, 2500, (40, 10), (3250, 1500, 250)),
        ({"slow": 1000, "oversubscription": 2}, 1000, (100, 200), (1300, 600, 100)),
        ({"host_rate": 400}, 250, (400, 100), (325, 150, 25)),
        ({"like": 200_000, "host_rate": 50, "latency": 1}, 4000, (50, 12.5), (4000, 2400, 400)),
        ({"slow": 1, "host_rate": 8, "gap": 0}, 1, (8, 2), (1.3, 0.6, 0)),
    ):
        c = module.make_cluster("x", **options)
        assert (c.slow, c.host_mbps, c.uplink_mbps) == (slow, *rates)
        assert (c.latency_us, c.uplink_latency_us, c.gap_us) == latencies


def test_shapes_of_pods(module: Any) -> None:
    for options, hosts, pods in (
        ({"pods": [[2]]}, [4] * 4, [[[0, 1], [2, 3]]]),
        ({"pods": [[3]], "racks": 6, "hosts": [1]}, [1] * 6, [[[0, 1], [2, 3], [4, 5]]]),
        ({"pods": [[1, 2]]}, [4] * 3, [[[0], [1, 2]]]),
        ({"pods": [[1, 2]], "hosts": [3, 5, 2]}, [3, 5, 2], [[[0], [1, 2]]]),
        ({"pods": [[1, 2, 1], [2, 1]]}, [4] * 4, [[[0], [1, 2], [3]], [[0, 1], [2]]]),
        ({}, [4] * 4, []),
    ):
        cluster = module.make_cluster("x", **options)
        assert (cluster.hosts_of_rack, cluster.pods) == (hosts, pods)


def test_side_by_side(user: list[str]) -> None:
    """Two clusters with the same addresses do not see each other, and both go without a trace."""
    shape = ["--racks", 2, "--hosts", 2]
    mounts = Path("/proc/self/mountinfo").read_text()
    namespaces = []
    with cluster_up(*shape, prefix=user) as a, cluster_up(*shape, prefix=user) as b:
        for name in a, b:
            script = f"hostname; getent hosts r1h1; {NAMESPACES}; touch /dev/shm/{name}"
            words = output_of("exec", name, "r0h1", "--", "sh", "-c", script, prefix=user).split()
            assert words[:3] == ["r0h1", "10.0.1.2", "r1h1"]
            namespaces.append(set(words[3:]))
            assert not Path(f"/dev/shm/{name}").exists()
            subprocess.Popen([*user, *TOOL, "exec", name, "r0h0", "--", "sleep", "1000"])
        assert not namespaces[0] & namespaces[1]
        for host in "r0h0", "r1h1", "front":
            ping = ["ping", "-q", "-c", 1, "-W", 5, host]
            output_of("exec", a, "r1h0", "--", *ping, prefix=user)
        assert call("exec", a, "r0h0", "--", "sh", "-c", "exit 7", prefix=user).returncode == 7
        assert Path("/proc/self/mountinfo").read_text() == mounts
    assert wait_until(lambda: not in_use(namespaces[0] | namespaces[1]))
    assert not {a, b} & set(output_of("list", prefix=user).split())


# ---- the network ----


def python(cluster: str, host: str, *code: Any) -> Any:
    line = [*TOOL, "exec", cluster, host, "--", sys.executable, "-c", *map(str, code)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


def shortest_ping(cluster: str, a: str, b: str) -> float:
    """Milliseconds of a round trip."""
    said = output_of("exec", cluster, a, "--", "ping", "-c", 20, "-i", 0.02, b)
    return float(re.search(r"= ([\d.]+)/", said)[1])


@pytest.fixture(scope="module")
def levels(allowed: None) -> Iterator[str]:
    """Three pods, two of them in a group; 5 ms within a rack, 2 to another, 1 to another pod, and 3 to another
    group of pods, 2 a message."""
    costs = ["--slow", 1000, "--latency", "5us", "--uplink-latency", "2us"]
    costs += ["--pod-latency", "1us,3us"]
    shape = ["--pods", "2,1,1/2,1", "--hosts", "3,1,1,1", "--gap", "2us", "--host-rate", "80mbit"]
    with cluster_up(*shape, *costs) as name:
        yield name


@measures
@pytest.mark.parametrize(
    "pair, ms",
    [
        (("r0h0", "r0h1"), 10),
        (("r0h0", "r1h0"), 14),
        (("r2h0", "r0h0"), 16),
        (("r3h0", "r0h0"), 22),
    ],
)
def test_latency(levels: str, pair: tuple[str, str], ms: float) -> None:
    """Of a round trip; packets of ping pass a link in less than 0.02 ms."""
    assert any(0.98 * ms < shortest_ping(levels, *pair) < 1.02 * ms for _ in range(5))


HEAR = """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS: when the kernel had it
s.bind(("", 5001))
print("ready", flush=True)
for _ in range(20):
    seconds, ns = struct.unpack("qq", s.recvmsg(9, 99)[1][0][2])
    print(f"{seconds}.{ns:09d}")
"""
SAY = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
time.sleep(max(float(sys.argv[3]) - time.time(), 0))
for _ in range(int(sys.argv[2])):
    s.sendto(b"x", (sys.argv[1], 5001))
"""


@measures
@pytest.mark.parametrize("senders", [["r1h0"], ["r0h1", "r0h2"]], ids=["from one", "to one"])
def test_gap(levels: str, senders: list[str]) -> None:
    """Messages of one host, and those to one host, are 2 ms apart."""

    def gaps() -> list[float]:
        receiver = python(levels, "r0h0", HEAR)
        assert receiver.stdout.readline() == "ready\n"
        start = time.time() + len(senders)
        each = [python(levels, host, SAY, "r0h0", 20 // len(senders), start) for host in senders]
        assert [sender.wait(timeout=30) for sender in each] == [0] * len(each)
        times = sorted(float(t) for t in receiver.communicate(timeout=30)[0].split())
        return [1000 * (b - a) for a, b in itertools.pairwise(times)]

    def are_right(found: list[float]) -> bool:
        """On a busy machine one or two messages are late, and each spoils two gaps."""
        return sum(1.9 < gap < 2.1 for gap in found) >= 15 and 36.1 < sum(found) < 39.9

    assert any(are_right(gaps()) for _ in range(6))


ORDER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "hear":
    s.bind(("", 5001))
    print("ready", flush=True)
    print(*(int(s.recv(9000)[:2]) for _ in range(40)))
else:
    for i in range(40):
        s.sendto(b"%02d" % i + bytes((i * 3001) % 8000), (sys.argv[1], 5001))
"""


@measures
def test_order(levels: str) -> None:
    """What is sent first comes first, whatever its length."""
    receiver = python(levels, "r2h0", ORDER, "hear")
    assert receiver.stdout.readline() == "ready\n"
    assert python(levels, "r0h0", ORDER, "r2h0").wait(timeout=30) == 0
    assert receiver.communicate(timeout=30)[0].split() == [str(i) for i in range(40)]


SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as peer:
    peer.sendall(bytes(int(sys.argv[2])))
"""
RECEIVE = """
import socket, time
with socket.create_server(("", 5000)) as server:
    print("ready", flush=True)
    peer = server.accept()[0]
    first = len(peer.recv(1 << 20))
    print(time.monotonic(), first)
    while peer.recv(1 << 20):
        end = time.monotonic()
    print(end)
"""


def measure(cluster: str, limit: float, *pairs: Any) -> Any:
    """Megabit per second of data from senders to receivers, all pairs together."""
    size = round(limit * 1e6 / 8 * 0.4)  # bytes, for 0.4 s
    receivers = [python(cluster, receiver, RECEIVE) for _, receiver in pairs]
    for receiver in receivers:
        assert receiver.stdout.readline() == "ready\n"
    senders = [python(cluster, sender, SEND, receiver, size) for sender, receiver in pairs]
    told = [
        [float(x) for x in receiver.communicate(timeout=30)[0].split()] for receiver in receivers
    ]
    assert all(sender.wait(timeout=30) == 0 for sender in senders)
    start, first, _ = min(told)
    return 8e-6 * (size * len(pairs) - first) / (max(end for *_, end in told) - start)


def has_rate(cluster: str, limit: float, pairs: Any) -> bool:
    """Of a link, for data: headers take 1 percent. A busy machine may be wrong, once or twice."""
    return any(0.96 * limit < measure(cluster, limit, *pairs) < 1.01 * limit for _ in range(6))


@measures
@pytest.mark.parametrize(
    "pairs, limit",
    [
        ([("r0h0", "r0h1")], 40),
        ([("r0h0", "r1h0")], 10),
        ([("r1h0", "r0h1")], 10),
        ([("r0h0", "r1h0"), ("r0h1", "front")], 10),
    ],
    ids=["in a rack", "up", "down", "uplink shared"],
)
def test_rates(cluster: str, pairs: Any, limit: int) -> None:
    assert has_rate(cluster, limit, pairs)


@measures
@pytest.mark.parametrize(
    "pairs, limit",
    [
        ([("r1h0", "r2h0")], 40),
        ([("r0h0", "r1h0")], 10),
        ([("r2h0", "r0h0")], 10),
        ([("r1h0", "front"), ("r2h0", "r0h0")], 10),
    ],
    ids=["in a pod", "down", "up", "uplink shared"],
)
def test_rates_of_pods(pods: str, pairs: Any, limit: int) -> None:
    assert has_rate(pods, limit, pairs)


@contextlib.contextmanager
def switch_of(cluster: str) -> Iterator[int]:
    """The process of the cluster's switch, stopped meanwhile."""
    own = output_of("exec", cluster, "front", "--", "readlink", "/proc/self/ns/mnt").strip()

    def belongs(pid: str) -> bool:
        with contextlib.suppress(OSError):
            name = Path("/proc", pid, "comm").read_text().strip()
            return name == "topo-vswitch" and os.readlink(f"/proc/{pid}/ns/mnt") == own
        return False

    (pid,) = (int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if belongs(pid))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_lateness_is_told(allowed: None) -> None:
    """A switch that cannot run says how late it was, and what the kernel had no place for."""
    with cluster_up("--racks", 1, "--hosts", 2) as name:
        output_of("exec", name, "r0h0", "--", "ping", "-c", 1, "r0h1")
        before = json.loads(output_of("lateness", name, "--json"))
        assert before["frames"] == 2 and before["lost"] == 0
        assert before["tolerance_us"] == 325
        with switch_of(name):
            words = ["exec", name, "r0h0", "--", "ping", "-c", 1, "-W", 1, "r0h1"]
            assert call(*words).returncode == 1
        assert wait_until(lambda: json.loads(output_of("lateness", name, "--json"))["frames"] == 4)
        after = json.loads(output_of("lateness", name, "--json"))
        assert after["late"] >= 1 and after["max_us"] > 500_000 and after["lost"] == 0
        assert json.loads(output_of("lateness", name, "--since", 60, "--json"))["max_us"] > 500_000
        assert "max_us" in output_of("lateness", name)
        flood = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        flood += "for _ in range(3000): s.sendto(b'x', ('r0h1', 5001))"
        with switch_of(name):
            output_of("exec", name, "r0h0", "--", sys.executable, "-c", flood)
        assert wait_until(lambda: json.loads(output_of("lateness", name, "--json"))["lost"] > 900)


def test_no_cluster_without_its_switch(allowed: None) -> None:
    name = next(NAMES)
    output_of("up", name, "--racks", 1, "--hosts", 2)
    with switch_of(name) as pid:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: name not in output_of("list").split())


def test_connections_know_no_slow_start(cluster: str) -> None:
    read = ["cat", "/proc/sys/net/ipv4/tcp_slow_start_after_idle"]
    for host in "r1h0", "front":
        assert output_of("exec", cluster, host, "--", *read).split()[0] == "0"
        route = output_of("exec", cluster, host, "--", "ip", "route", "show", "dev", "eth0")
        window, first = (
            int(re.search(rf"{word} (\d+)", route)[1]) for word in ("window", "initcwnd")
        )
        assert first * 8948 >= window >= 128 << 10
        neighbours = output_of("exec", cluster, host, "--", "ip", "neighbour").splitlines()
        assert len(neighbours) == 3 and all("PERMANENT" in line for line in neighbours)


def test_congestion_is_that_of_any_machine(cluster: str) -> None:
    """Times are not those of what this kernel takes by default."""
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    if "cubic" not in known.read_text().split():
        pytest.skip("this kernel has no cubic")
    words = ["--", "ip", "-4", "route", "show", "table", "all", "dev", "eth0"]
    routes = output_of("exec", cluster, "r1h0", *words).splitlines()
    kept = [line for line in routes if not line.startswith("broadcast")]
    assert len(kept) == 2 and all("congctl cubic" in line for line in kept), routes


# ---- MPI programs ----


def test_run(user: list[str], who: str, mpiexec: Path, slots: Any) -> None:
    run = ["run", "--mpiexec", mpiexec]
    with cluster_up("--hosts", "2,1,3", prefix=user) as name:
        for placement, ranks in ("block", 12), ("cyclic", 11), ("random:3", 7), ("ranks:3", 12):
            options = ["--ppn", 2, "--placement", placement, "-n", ranks]
            seen = output_of(*run, name, *options, "--", who, prefix=user).split()
            assert seen == slots("--hosts", "2,1,3", *options)
        options = ["-n", 1, "--", "sh", "-c", 'cat "$TOPO_VCLUSTER"']
        seen = output_of(*run, name, *options, prefix=user)
        assert seen == output_of("describe", name, "--json", prefix=user)
        options[-1] = "echo $TOPO_VCLUSTER_SLOW"
        assert output_of(*run, name, *options, prefix=user) == "2500\n"
        for order in "block", "ranks:3":
            options = ["--placement", order, "--ppn", 2, "-n", 4, "--", "sh", "-c", "exit 3"]
            assert call(*run, name, *options, prefix=user).returncode == 3


def test_nodes_are_hosts(cluster: str, mpiexec: Path, bindir: Path, tmp_path: Path) -> None:
    """MPICH takes its algorithm by nodes for a barrier of three nodes of two ranks, in any order."""
    file = tmp_path / "hosts"
    file.write_text("r0h0\nr0h1\nr1h0\nr0h1\nr0h0\nr1h0\n")
    bench = [bindir.parent / "libexec/mpich-topo/topo-bench-mpi", "-c", "barrier", "-n", 1, "-w", 0]
    run = ["run", "--mpiexec", mpiexec, cluster, "--placement", f"file:{file}", "--"]
    (cell,) = (
        json.loads(line) for line in output_of(*run, *bench).splitlines() if "selected" in line
    )
    assert cell["selected"].get("smp", 0) >= 1  # more where the machine was late: repeated
    result = call(*run, "true", ":", "true")
    refused(result, 2, "found ':', expected one program")


def test_run_without_cluster(allowed: None, who: str, mpiexec: Path, tmp_path: Path) -> None:
    run = ["run", "--mpiexec", os.path.relpath(mpiexec, tmp_path), "--racks", 2, "--hosts", 1]
    assert output_of(*run, "--", who, cwd=tmp_path).split() == ["r0h0", "r1h0"]
    result = call(*run, "-n", 1, "--", "sh", "-c", "pwd; exit 5", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (5, f"{tmp_path}\n")
    assert "run-" not in output_of("list")


WAITER = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int MPI_Get_library_version(char *version, int *len)
{
    return strcpy(version, "MPICH Device: " DEVICE) && (*len = strlen(version)) < 0;
}

int main(int argc, char **argv)
{
    int fds[2], ep = epoll_create1(0), by_poll = argc > 1 && argv[1], num = 0;
    struct epoll_event event = {.events = EPOLLIN };
    char byte = 0;

    if (pipe(fds) || epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &event))
        return 1;
    if (fork() == 0)
        return usleep(200000) || write(fds[1], &byte, 1) != 1;
    struct pollfd fd = {.fd = fds[0],.events = POLLIN };
    while ((by_poll ? poll(&fd, 1, 0) : epoll_wait(ep, &event, 1, 0)) == 0)
        num++;
    return printf("%d\n", num) < 0 || read(fds[0], &byte, 1) != 1;
}
"""
ONE_PROCESSOR = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]


@pytest.mark.parametrize("device", ["ch3:sock", "ch4:ofi"])
def test_idle_ranks_sleep(
    cluster: str, mpiexec: Path, build_unit: Build, tmp_path: Path, device: str
) -> None:
    """A rank of ch4 that waits for 0.2 s polls seldom, where ranks are more than processors or the
    user wants it so; of another device, all the time."""
    source = tmp_path / "waiter.c"
    source.write_text(WAITER)
    waiter = build_unit(source, f'-DDEVICE="{device}"', "-rdynamic")

    def polls(*options: Any, words: Sequence[str] = (), prefix: Sequence[str] = ()) -> list[int]:
        line = ["run", "--mpiexec", mpiexec, cluster, *options, "--", waiter, *words]
        return sorted(map(int, output_of(*line, prefix=prefix).split()))

    for options, words in (["-n", 2], []), (["-n", 4, "--ppn", 2], ["poll"]):
        found = polls("--idle-sleep", *options, words=words)
        assert found[-1] < 10000 if device == "ch4:ofi" else found[0] > 10000, found
    assert polls("-n", 2, "--no-idle-sleep")[0] > 10000
    if device == "ch4:ofi":
        assert polls("-n", 2, prefix=ONE_PROCESSOR)[-1] < 10000
        assert polls("-n", 1, prefix=ONE_PROCESSOR)[0] > 10000


def start_run(words: Any, user: list[str], ranks: int) -> Any:
    """Start a run that sleeps on each rank; returns it and the namespaces of each rank."""
    line = [*user, *TOOL, "run", *map(str, words), "-n", str(ranks), "--"]
    line += ["sh", "-c", f"echo $({NAMESPACES}); sleep 1000"]
    job = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return job, [job.stdout.readline().split() for _ in range(ranks)]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killed_run_leaves_nothing(user: list[str], mpiexec: Path, sign: Any) -> None:
    job, namespaces = start_run(["--racks", 2, "--hosts", 1, "--mpiexec", mpiexec], user, 2)
    seen = set(itertools.chain(*namespaces))
    assert len(seen) == 6  # both ranks have the same mount and PID namespace
    assert in_use(seen)
    job.send_signal(sign)
    assert job.wait(timeout=10) == -sign
    assert wait_until(lambda: not in_use(seen))
    assert f"run-{job.pid}" not in output_of("list", prefix=user).split()


def test_ignored_interrupt_stays_ignored(cluster: str, mpiexec: Path) -> None:
    """As a shell starts what is to go on in the background."""
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    job, _ = start_run([cluster, "--mpiexec", mpiexec], background, 1)
    status = Path(f"/proc/{job.pid}/status").read_text()
    job.terminate()
    assert job.wait(timeout=10) == -signal.SIGTERM
    assert int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16) >> (signal.SIGINT - 1) & 1


def test_killed_run_spares_the_cluster(cluster: str, mpiexec: Path) -> None:
    job, namespaces = start_run([cluster, "--mpiexec", mpiexec], [], 3)
    # mount and PID namespace are the run's own
    own = {name for name in itertools.chain(*namespaces) if name.startswith(("mnt", "pid"))}
    assert in_use(own)
    job.kill()
    job.wait(timeout=10)
    assert wait_until(lambda: not in_use(own))
    assert output_of("exec", cluster, "r0h0", "--", "hostname") == "r0h0\n"


def test_down_ends_a_run(allowed: None, mpiexec: Path) -> None:
    with cluster_up("--racks", 1, "--hosts", 2) as name:
        job, namespaces = start_run([name, "--mpiexec", mpiexec], [], 2)
    assert job.wait(timeout=10) != 0
    assert wait_until(lambda: not in_use(set(itertools.chain(*namespaces))))


def test_killed_up_leaves_nothing(allowed: None) -> None:
    name = next(NAMES)

    def holders() -> Any:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # that process has ended
                words = Path("/proc", pid, "cmdline").read_bytes()
                found += [pid] if b"_hold" in words and name.encode() in words else []
        return found

    job = subprocess.Popen([*TOOL, "up", name, "--racks", "8", "--hosts", "8"])
    assert wait_until(holders)
    job.kill()
    job.wait(timeout=10)
    assert wait_until(lambda: not holders(), 30)
    assert name not in output_of("list").split()
