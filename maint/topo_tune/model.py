# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Predicted time of algorithms of collectives on a site: rounds.py tells how."""

import functools
from collections.abc import Callable

import numpy as np

from topo_tune import blocks, exchanges, vectors
from topo_tune.exchanges import PLAN_MAX_BYTES as PLAN_MAX_BYTES
from topo_tune.exchanges import rack_join_bytes as rack_join_bytes
from topo_tune.rounds import CONTENTION as CONTENTION
from topo_tune.rounds import LEVELS as LEVELS
from topo_tune.rounds import PLACEMENTS as PLACEMENTS
from topo_tune.rounds import RANDOM_DRAWS, Costing, place, total
from topo_tune.rounds import Cost as Cost
from topo_tune.rounds import Network as Network
from topo_tune.rounds import network as network
from topo_tune.rounds import one_rack as one_rack


def cost(net: Network, hosts: np.ndarray, algorithm: str, collective: str = "allgather") -> Cost:
    """The Cost of an algorithm (the end of its name, such as "topo_ring", but see PARTS) for ranks on
    `hosts`, an array as place() gives it; a root is rank 0. recursive_doubling here takes any number
    of ranks, like topo_recursive_doubling without its renumbering. Raises KeyError for an unknown
    name."""
    return _COSTS[collective][algorithm](net, hosts)


def can_plan(hosts: np.ndarray) -> bool:
    """Whether planned is of any use to ranks on `hosts`: there are two hosts, one with two ranks."""
    return 1 < len(set(hosts)) < len(hosts)


def time_us(
    cost_of: Callable[[str], Cost],
    collective: str,
    algorithm: str,
    num_bytes: float,
    builtin: str,
    rack_block: float,
) -> float:
    """Time of a call with blocks of `num_bytes`. `cost_of` gives the Cost of a name in PARTS; `builtin`
    is what MPICH selects by itself, to which planned leaves long blocks. `rack_block` is that of
    rack_block()."""
    if algorithm != "planned":
        return cost_of(algorithm).time_us(num_bytes)
    if num_bytes > PLAN_MAX_BYTES:
        agreement = cost_of("agreement").time_us(0) if collective == "alltoallv" else 0
        return cost_of(builtin).time_us(num_bytes) + agreement
    return cost_of(plan_for(num_bytes, rack_block)).time_us(num_bytes)


def rack_block(net: Network, per_host: float) -> float:
    """The longest block (bytes) that planned joins by rack, for so many ranks a host on average."""
    return rack_join_bytes(net) / per_host**2


def plan_for(num_bytes: float, rack_block: float) -> str:
    """The name in PARTS of how planned sends blocks of `num_bytes`."""
    return "planned_by_rack" if num_bytes <= rack_block else "planned_by_host"


def placed_cost(
    net: Network, num_hosts: int, ppn: int, kind: str, algorithm: str, collective: str = "allgather"
) -> Cost:
    """The Cost for a placement of PLACEMENTS; for random the mean of several draws."""
    return _placed_cost(_COSTS[collective][algorithm], net, num_hosts, ppn, kind)


# collectives share some
@functools.lru_cache(maxsize=8192)
def _placed_cost(costing: Costing, net: Network, num_hosts: int, ppn: int, kind: str) -> Cost:
    draws = RANDOM_DRAWS if kind == "random" else 1
    places = [place(net, num_hosts, ppn, kind, seed) for seed in range(draws)]
    return total(costing(net, hosts) for hosts in places) * (1 / draws)


# Not all versions of MPICH have all of them. Those with a parameter k as it is by default, 2.
_COSTS: dict[str, dict[str, Costing]] = {
    "allgather": {
        "brucks": blocks.brucks,
        "k_brucks": blocks.brucks,
        "recursive_doubling": blocks.recursive_doubling,
        "recexch_doubling": blocks.recursive_doubling,
        "recexch_halving": functools.partial(blocks.recursive_doubling, far_first=True),
        "ring": blocks.ring,
        "topo_ring": blocks.topo_ring,
        "topo_recursive_doubling": blocks.topo_recursive_doubling,
        "gather_bcast": blocks.gather_bcast,
        "rack_lanes": vectors.lanes_allgather,
    },
    "allgatherv": {
        "brucks": blocks.brucks,
        "recursive_doubling": blocks.recursive_doubling,
        "ring": blocks.ring,
        "topo_ring": blocks.topo_ring,
        "rack_lanes": vectors.lanes_allgather,
    },
    **{
        collective: {
            name: functools.partial(tree, collective=collective)
            for name, tree in (
                ("binomial", blocks.binomial),
                ("topo_binomial", blocks.topo_binomial),
                ("rack_leader", blocks.rack_leader),
            )
        }
        for collective in ("gather", "scatter")
    },
    "alltoall": {
        "brucks": exchanges.brucks,
        "k_brucks": exchanges.brucks,
        "scattered": exchanges.scattered,
        "pairwise": exchanges.pairwise,
        "planned_by_rack": exchanges.planned_by_rack,
        "planned_by_host": exchanges.planned_by_host,
    },
    "alltoallv": {
        "scattered": exchanges.scattered,
        "agreement": exchanges.agreement,
        "planned_by_rack": exchanges.with_agreement(exchanges.planned_by_rack),
        "planned_by_host": exchanges.with_agreement(exchanges.planned_by_host),
    },
    "bcast": {
        "binomial": vectors.bcast_binomial,
        "scatter_recursive_doubling_allgather": vectors.bcast_doubling,
        "scatter_ring_allgather": vectors.bcast_ring,
        **vectors.trees("down"),
        "rack_lanes": vectors.lanes_bcast,
    },
    "reduce": {
        "binomial": vectors.reduce_binomial,
        "reduce_scatter_gather": vectors.reduce_halving,
        **{name: vectors.trees("up")[name] for name in ("topo_chain", "topo_binomial")},
        "rack_lanes": vectors.lanes_reduce,
    },
    "allreduce": {
        "recursive_doubling": vectors.allreduce_doubling,
        "reduce_scatter_allgather": vectors.allreduce_halving,
        "topo_recursive_doubling": vectors.allreduce_leaders,
        "topo_reduce_scatter_allgather": vectors.topo_allreduce_halving,
        "rack_lanes": vectors.lanes_allreduce,
    },
    **{
        collective: {
            "recursive_halving": vectors.halving_far_first,
            "pairwise": vectors.pairwise,
            "recursive_doubling": vectors.reduce_scatter_doubling,
            "noncommutative": vectors.halving_near_first,
            "topo_recursive_halving": vectors.topo_halving,
            "rack_lanes": vectors.lanes_reduce_scatter,
        }
        for collective in ("reduce_scatter", "reduce_scatter_block")
    },
    "barrier": {
        "dissemination": vectors.dissemination,
        "k_dissemination": vectors.dissemination,
        "smp": vectors.barrier_smp,
        "linear": vectors.barrier_linear,
        "topo_tree": vectors.barrier_leaders,
        "recursive_doubling": vectors.barrier_doubling,
    },
}
ALLTOALLS = ("alltoall", "alltoallv")

# What cost() takes; and what MPIR_CVAR_<COLLECTIVE>_INTRA_ALGORITHM does. The one differs from the other
# by planned, of which time_us() knows the parts.
PARTS = {collective: tuple(costs) for collective, costs in _COSTS.items()}
ALGORITHMS = {
    **PARTS,
    "alltoall": ("brucks", "k_brucks", "scattered", "pairwise", "planned"),
    "alltoallv": ("scattered", "planned"),
}
