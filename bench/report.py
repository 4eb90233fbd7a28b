"""What all measurements share: fair timing, a table for people, and one JSON line for machines, printed last."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
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
        "processor": platform.processor() or platform.machine(),
        "device": str(jax.devices()[0].device_kind),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
    line = {"bench": name, "date": datetime.date.today().isoformat(), **figures, "machine": machine}
    sys.stderr.flush()
    print(json.dumps(line), flush=True)
