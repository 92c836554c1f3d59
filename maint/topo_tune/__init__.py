# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune: from the measurements of a site to a tuning file for MPICH.

files.py  reading JSON that may be bad, writing files that are whole or not there
site.py   site.json: load, check, medians, write
racks.py  which hosts share a leaf switch: Slurm, ibnetdiscover, a list, or clustering
model.py  predicted time of every algorithm
bench.py  what topo-bench measured
rules.py  from times to rules; the grammar of tuning.json and its evaluation
draw.py   matrix and racks, as picture and on the terminal
cli.py    the commands
"""
