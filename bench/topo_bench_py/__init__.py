# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Compares collectives by algorithm, message size, placement and setting, on a real MPI.

How it measures.  topo-bench-mpi (bench/main.c) times the algorithms of one launch in turns, checks
every byte, and prints every sample.  Settings that differ by more than the algorithm, that is by
CVARs in the environment ("--setting") or by the MPI library ("--library"), need separate launches.
These take turns, too: --rounds times each, in an order that is reversed every time (A B, B A, ...).
All start with the environment of topo-bench, without variables that steer collectives
(settings.py).

Studies (plans.py, study.py) launch all combinations of a plan, `launches` times each in an order that
is drawn anew for each round of launches; report.py makes a page of them.

What it reports.  For each series (setting, algorithm) and size, over the samples of all rounds:
  median_us              each sample is the maximum over the ranks
  ci95_low/high_us       confidence interval of the median from order statistics; it assumes no
                         distribution.  Below 6 samples it is just their range
  p99_us                 nearest-rank 99th percentile; below 100 samples the largest one
  ratio                  median / median of the baseline, with a 95 % bootstrap interval that draws
                         rounds, and repetitions within them, so that it covers what differs
                         from launch to launch; samples of one launch are drawn in pairs
  bound_us               see bounds.py; needs a known cluster; background traffic is not in it
  selected               what ran: calls on rank 0 by algorithm, as the library counts them
  background_*_mbps      with --background: rate between the hosts that make traffic, in the second
                         before a size (alone) and while it was measured (during); one value for
                         each setting and size, since algorithms take turns
"""
