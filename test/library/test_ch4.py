# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The device ch4, with a lock for each VCI: a short part of the other tests, for results and not for
time, since it spins: few ranks.

TOPO_CH4_BIN names the programs of a patched MPICH for ch4. Without it one is built, which takes ten
minutes once, where there is what it links with.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPO = HERE.parents[1]

CONFIGURE = """--with-device=ch4:ofi --with-libfabric=/usr --with-datatype-engine=dataloop
--enable-thread-cs=per-vci --disable-fortran --disable-cxx --disable-romio --with-hwloc=/usr"""
LIBRARIES = ["fabric", "psm2", "psm_infinipath", "rdmacm", "ibverbs", "efa"]

# file, and what of it (pytest's -k)
PARTS = {
    "test_selection.py": "test_rules_come_before_a_device",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def ch4(scratch: Path) -> Path:
    """The folder of the programs."""
    if "TOPO_CH4_BIN" in os.environ:
        return Path(os.environ["TOPO_CH4_BIN"]).absolute()
    cc = os.environ.get("CC", "cc")
    words: list[str | Path] = [
        "-x",
        "c",
        "-",
        "-o",
        scratch / "links",
        *(f"-l{name}" for name in LIBRARIES),
    ]
    text = "#include <rdma/fabric.h>\nint main(void) { return 0; }\n"
    job = subprocess.run([cc, *words], input=text, text=True, capture_output=True, check=False)
    if job.returncode:
        pytest.skip(f"ch4:ofi needs libfabric and lib{', lib'.join(LIBRARIES[1:])} to link with")
    job = subprocess.run(
        [sys.executable, REPO / "maint/build", "--cache"],
        env={**os.environ, "MPICH_CONFIGURE": " ".join(CONFIGURE.split())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return Path(job.stdout.splitlines()[-1]) / "bin"


@pytest.mark.parametrize("file", PARTS)
def test_part(ch4: Path, file: str) -> None:
    source = ch4.resolve().parent / "share/mpich-topo/mpich-src"
    env = {**os.environ, "TOPO_BIN": str(ch4)}
    if source.is_dir():
        env["MPICH_SOURCE"] = str(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-ra"]
    job = subprocess.run(
        [*command, HERE / file, "-k", PARTS[file]],
        env=env,
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    print(job.stdout[-5000:])
    assert job.returncode == 0 and " passed" in job.stdout
