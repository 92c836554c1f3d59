# Copyright (C) by the mpich-topo authors. See LICENSE.
import os
import sys
from typing import Any

# this folder has a bench.py and a site.py, and the current one may have anything
sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# topo_bench_py; where they are installed, it is beside this package
sys.path.append(os.path.join(sys.path[0], "../bench"))

from topo_common.start import main


def load() -> Any:
    from topo_tune.cli import cli

    return cli


main("topo-tune", load)
