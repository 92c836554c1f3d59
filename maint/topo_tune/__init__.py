# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune: from the measurements of a site to a tuning file for MPICH.

site.py   site.json: load, check, medians, write
racks.py  which hosts share a leaf switch: Slurm, ibnetdiscover, a list, or clustering
model.py  predicted time of every algorithm
predict.py  the same in tables, and beside measurements
bench.py  what topo-bench measured
rules.py  from times to rules
draw.py   matrix and racks, as picture and on the terminal

grammar.py  tuning.json: its grammar, what is wrong with one, what it selects
reach.py    which of its rules can be reached
explain.py  what it selects, in words
mpich-*.json  what MPICH has: algorithms and its built-in selection; from `make refresh`

cli.py    the commands
"""
