# Copyright (C) by the mpich-topo authors. See LICENSE.
"""What the library's reader of site files and topo-tune's both hold to: test/corpus/site.txt, hosts.txt."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).resolve().parent / "corpus"
NAMES = {"names": ["r0", "r1"], "of_host": [0, 1]}
UPLINKS = {"uplink_mbps": [100, 100], "source": "measured", "confidence": 1}
PODS = {"name": "pod", "groups": ["p0", "p1"], "of_group": [0, 1]}
# every key that a site file may have, but those of large sites
SITE: dict[str, Any] = {
    "format": 1,
    "created": "2026-01-31T12:00:00Z",
    "mpich": "4.0.2",
    "provenance": {"program": "by hand"},
    "hosts": ["n0", "n1"],
    "racks": {**NAMES, "source": "given", "confidence": 1},
    "latency_us": [[0, 1.5], [1.5, 0]],
    "bandwidth_mbps": [[0, 100], [100, 0]],
    "latency_spread": [[0, 0.1], [0.1, 0]],
    "bandwidth_spread": [[0, 0.1], [0.1, 0]],
    "rack_join_bytes": 1024,
    "costs": {
        "overhead_us": 1, "inside_overhead_us": 1, "inside_us": 1, "inside_mbps": 1, "reduce_mbps": 1,
        "header_bytes": 1, "memory_mbps": 1, "gap_us": 1, "host_mbps": 1, "eager_bytes": 1,
        "message": [{"most_bytes": 1, "latency_us": 1, "mbps": 1}, {"most_bytes": 2, "latency_us": 1, "mbps": 0}],
        "inside_message": [{"most_bytes": 1, "latency_us": 1, "mbps": 1}],
        "shared_us": 1, "shared_mbps": 1, "burst_bytes": 1, "duplex_bytes": 1, "cold_us": 1,
    },
    "sweep": [],
    "message_rate": {},
    "warnings": [],
}  # fmt: skip
RACKS: dict[str, Any] = {"name": "rack", "groups": ["r0", "r1"], "of_group": [0, 1], **UPLINKS}
LEVELS: dict[str, Any] = {**SITE, "format": 2, "levels": [RACKS, PODS]}
del LEVELS["racks"]
BY_RACK = {
    f"rack_{key}" if key.startswith(("latency", "bandwidth")) else key: value
    for key, value in SITE.items()
}


def _rows(name: str) -> Iterator[list[str]]:
    for line in (CORPUS / name).read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split(" | ")


def host_names() -> list[tuple[list[str], str, str]]:
    """[(hosts of a site, a name, the host it means, or "-")]"""
    return [(known.split(), name, found) for known, name, found in _rows("hosts.txt")]


def site_files() -> list[tuple[str, str, str]]:
    """[(place, text of a site file that is changed there, who refuses it)]"""
    return [(place, _changed(place, text), who) for place, text, who in _rows("site.txt")]


def _changed(place: str, text: str) -> str:
    site: Any = json.loads(json.dumps(LEVELS if place.startswith("levels") else SITE))
    *steps, last = (int(n) if n else key for key, n in re.findall(r"([A-Za-z_]+)|\[(\d+)\]", place))
    inner = site
    for step in steps:
        inner = inner[step]
    if text == "-":
        del inner[last]
    else:
        inner[last] = "HERE"
    return json.dumps(site).replace('"HERE"', text)
