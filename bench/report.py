"""What all measurements share: fair timing, a table for people, and one JSON line for machines, printed last."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table


def median_seconds(*functions: Callable[[], Any], rounds: int = 11) -> list[float]:
    """The median seconds of each function, called in turn so that a drifting machine hits all alike; one warm-up call
    apart, and every result waited for."""
    for function in functions:
        jax.block_until_ready(function())
    seconds = np.zeros((rounds, len(functions)))
    for r in range(rounds):
        for f, function in enumerate(functions):
            started = time.perf_counter()
            jax.block_until_ready(function())
            seconds[r, f] = time.perf_counter() - started
    return np.median(seconds, axis=0).tolist()


def copy_bandwidth(mebibytes: int = 256) -> float:
    """Bytes a second that a large copy on the default device reads and writes."""
    block = jnp.zeros(mebibytes * 2**18, jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    return 2 * block.nbytes / median_seconds(lambda: copy(block))[0]


def beside_floor(seconds: float, moved: float) -> dict[str, float]:
    """How many times as long as copying the least bytes that must be moved; where a cache holds them it is no floor."""
    bandwidth = copy_bandwidth()
    return {"copy_bytes_per_s": bandwidth, "floor_bytes": moved, "times_floor": seconds / (moved / bandwidth)}


def table(title: str, rows: list[dict[str, Any]]) -> None:
    """The rows on stderr."""
    shown = Table(title=title)
    for name in rows[0]:
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(*(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row.values()))
    Console(stderr=True).print(shown)


def finish(name: str, figures: dict[str, Any]) -> None:
    """One JSON line on stdout: the figures, and the machine that they hold for."""
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "platform": jax.default_backend(),
        "device": str(jax.devices()[0].device_kind),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
    line = {"bench": name, "date": datetime.date.today().isoformat(), **figures, "machine": machine}
    sys.stderr.flush()
    print(json.dumps(line), flush=True)


def _processor() -> str:
    """The processor's name, where Linux tells it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
