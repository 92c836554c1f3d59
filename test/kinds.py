# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Types of what the fixtures of several files give."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = subprocess.CompletedProcess[str]
Launch = Callable[..., Job]  # (*words, n=, env=, timeout=, ...)
RunParts = Callable[..., dict[Any, Job]]
Env = dict[str, Any]  # settings, before they are text
Cluster = Callable[..., Env]  # (kind, n, seed)
Build = Callable[..., Path]  # (source, *flags)
Json = dict[str, Any]
MakeSite = Callable[..., Json]  # (hosts, of_host, ...)
WriteJson = Callable[[str, object], Path]
Require = Callable[[str], str]
