# Copyright (C) by the mpich-topo authors. See LICENSE.
import os
import sys
from typing import Any

# this folder and the current one may have modules, such as site.py, that would hide others
sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# for topo_bench_py: an installed one is beside this package, and needs no other folder
sys.path.append(os.path.join(sys.path[0], "../bench"))

from topo_common.start import main


def load() -> Any:
    from topo_tune.cli import cli

    return cli


main("topo-tune", load)
