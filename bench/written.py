"""How the pages write numbers: of several runs the median (lowest–highest) where that can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Line = dict[str, Any]
"""The figures of one run, or of several: where they differ a number is float[runs]."""


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [header, ("---",) * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines] + [""]


def spread(x: Any, show: Callable[[float], str]) -> str:
    """A number, or of several runs the median (lowest–highest) where that can be seen."""
    values = np.ravel(x)
    middle, low, high = (show(value) for value in (np.median(values), values.min(), values.max()))
    return middle if low == high else f"{middle} ({low}–{high})"


def runs(line: Line) -> str:
    return "one run" if line["runs"] == 1 else f"{line['runs']} runs"


def number(x: Any) -> str:
    return spread(x, lambda x: f"{x / 1e6:.3g} million" if x >= 1e6 else f"{x:,.0f}" if x >= 100 else f"{x:.3g}")


def seconds(x: Any) -> str:
    return spread(x, lambda x: f"{x:.3g} s" if x >= 1 else f"{1e3 * x:.3g} ms")


def percent(x: Any, digits: int = 4) -> str:
    return spread(x, lambda x: f"{100 * x:.{digits}g} %")


def ratio(x: Any) -> str:
    return spread(x, lambda x: f"{x:,.0f}" if x >= 100 else f"{x:.2g}")


def gib(x: Any) -> str:
    return spread(x, lambda x: f"{x:.2g} GiB")


def shares(run: dict[str, float]) -> str:
    return f"{percent(run['within_1'])} ({percent(run['greedy_within_5'])})"
