# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune: from the measurements of a site to a tuning file for MPICH.

site.py   site.json: load, check, medians, write
racks.py  which hosts share a leaf switch: Slurm, ibnetdiscover, a list, or clustering
predictor.py  times of algorithms, as the library predicts them (predictor.c: C part of it)
placements.py  placements of ranks, and predicted times for them
predict.py  tables of predictions, and of predictions beside measurements
bench.py  reads the results of topo-bench
rules.py  from times to rules
draw.py   matrix and racks, as picture and on the terminal
compare_sites.py  differences between two site files
run_report.py  reads the library's report of a run; compare_reports.py: compares two reports

grammar.py  tuning.json: its grammar, its errors, the algorithm that it selects
reach.py    finds rules of a tuning.json that no call can reach
explain.py  explains in words which rule applies to a call
advise.py   what a run would have gained by other algorithms
mpich-*.json  algorithms and built-in selection of each MPICH version; from `make refresh`

points.py  times that others have measured; pico.py: measurements of PICO
smooth.py  estimates losses at sizes and numbers of hosts that were not measured
fit.py     rules from such times, and their regret; tree.py: choices as conditions

sampling.py    chooses the next launch to measure
campaign.py    launches, and their files
measuring.py   measures until a budget is spent
constants.py   corrects the costs of a site
exceptions.py  tuning file with exceptions where measurements contradict predictions
compare.py     compares times with and without a tuning file; page.py: a page of all results

patterns.py  bytes that ranks send to each other: grids, files
order.py     which rank should run on which host

cli.py    the commands; fit_command.py, measure_commands.py, order_command.py
"""
