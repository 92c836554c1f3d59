# Copyright (C) by the mpich-topo authors. See LICENSE.
from topo_tune.cli import main

main()
