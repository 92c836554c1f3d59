# Copyright (C) by the mpich-topo authors. See LICENSE.
#
# Not tried with Spack itself: no command of Spack has run on this file. It was read beside the
# package mpich of spack-packages of 2026-07-01 (package API 2.2). By hand: the three patches which
# that package has for 4.0.2, then maint/apply on the same tree. All apply. It installs no tools.

import os

from spack.package import Executable, Prefix, Spec, conflicts, depends_on, run_before, which
from spack_repo.builtin.packages.mpich.package import Mpich

# The clone of mpich-topo that this file is in. What Spack installs follows its state: `spack
# uninstall` before another one is installed.
CLONE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))


class MpichTopo(Mpich):
    """MPICH with topology-aware algorithms for collectives: a release of MPICH, with all variants of
    the package mpich, and the patches of mpich-topo."""

    # `spack external find` would take each MPICH for this one
    executables = ()

    conflicts("@:3,4.1:4.2,5.1:,develop", msg="mpich-topo has patches for 4.0, 4.3 and 5.0")

    # configure and the bindings are made anew from what the patches edit
    depends_on("autoconf@2.69:", type="build")
    depends_on("automake@1.15:", type="build")
    depends_on("libtool@2.4.4:", type="build")
    depends_on("m4", type="build")
    depends_on("perl", type="build")
    depends_on("python@3.11:", type="build")

    @run_before("autoreconf")
    def apply_series(self) -> None:
        python = which("python3", required=True)
        python(os.path.join(CLONE, "maint", "apply"), self.stage.source_path)

    def autoreconf(self, spec: Spec, prefix: Prefix) -> None:
        # libfabric and UCX are packages of Spack
        Executable("./autogen.sh")("-without-ofi", "-without-ucx")
