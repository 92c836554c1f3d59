# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Compares collectives by algorithm, message size, placement and setting, on a real MPI.

How it measures.  topo-bench-mpi (topo_bench.c) times the algorithms of one launch in turns, checks
every byte, and prints every sample.  What differs by more than an algorithm - CVARs in the
environment ("--setting"), another MPI library ("--library") - needs launches of its own; these are
interleaved too: --rounds times each, in an order that turns round every time (A B, B A, ...). All
begin with the same environment: ours, without what steers collectives (settings.py).

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
  background_*_mbps      with --background: what the hosts beside those that are measured sent each
                         other, in the second before a size (alone) and while it was measured
                         (during); one figure a setting and size, since algorithms take turns
"""
