# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune: from the measurements of a site to a tuning file for MPICH.

site.py   site.json: load, check, medians, write
racks.py  which hosts share a leaf switch: Slurm, ibnetdiscover, a list, or clustering
predictor.py  how long algorithms take, as the library predicts it (predictor.c: its face for Python)
placements.py  placements of ranks, and what is predicted there
predict.py  the same in tables, and beside measurements
bench.py  what topo-bench measured
rules.py  from times to rules
draw.py   matrix and racks, as picture and on the terminal
compare_sites.py  what is different between two site files
run_report.py     what the library reports of a run; compare_reports.py: what differs between two

grammar.py  tuning.json: its grammar, what is wrong with one, what it selects
reach.py    which of its rules can be reached
explain.py  what it selects, in words
advise.py   what a run would have gained
mpich-*.json  what MPICH has: algorithms and its built-in selection; from `make refresh`

points.py  times that others have measured; pico.py: those of PICO
smooth.py  what times tell of other sizes and numbers of hosts
fit.py     rules from them, and their regret; tree.py: choices as conditions

sampling.py    what is worth measuring next
campaign.py    launches, and their files
measuring.py   until a budget is spent
constants.py   costs of a site, corrected
exceptions.py  where measurements contradict predictions: the tuning file
compare.py     default and tuned; page.py: a page of all

patterns.py  who sends how many bytes to whom: grids, files
order.py     which rank should run on which host

cli.py    the commands; fit_command.py, measure_commands.py, order_command.py
"""
