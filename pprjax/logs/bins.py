"""Numbers as states: the bins of a column, between edges that are given or are quantiles of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from pprjax.errors import UserError

Edges = dict[str, list[float]]
"""Of each column that is binned, where its bins meet, in ascending order."""


def find_edges(wanted: Sequence[str], state: Sequence[str], frames: Iterable[pl.LazyFrame]) -> Edges:
    """The edges of the bins that are asked for.

    Args:
        wanted: "column=k", k bins with as many rows in each as may be; or "column=1,5,10", the edges themselves.
        state: the columns of the state, which alone can be binned.
        frames: the rows of the log.

    Raises:
        ValueError: one of them is neither, is not ascending, or names a column that is not the state's or has no
            numbers.
    """
    edges, frames = {}, list(frames)
    for text in wanted:
        column, _, spec = text.rpartition("=")
        if column not in state:
            raise UserError(f"bins: expected a column of the state, {' or '.join(map(repr, state))}, got {column!r}")
        parts = [part for part in spec.split(",") if part.strip()]
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            numbers = []
        if not numbers or not np.isfinite(numbers).all():
            raise UserError(f"bins: expected {column}=k or {column}=1,5,10, got {text!r}")
        edges[column] = numbers if "," in spec else _quantiles(column, numbers[0], frames)
        if any(low >= high for low, high in itertools.pairwise(edges[column])):
            raise UserError(f"bins: expected ascending edges, got {text!r}")
    return edges


def _quantiles(column: str, bins: float, frames: list[pl.LazyFrame]) -> list[float]:
    if bins != int(bins) or bins < 2:
        raise UserError(f"bins: expected a whole number of at least 2, or edges with commas, got {column}={bins:g}")
    values = pl.concat([frame.select(_number(column)) for frame in frames]).filter(pl.col(column).is_finite())
    shares = [pl.col(column).quantile(i / int(bins), "linear").alias(str(i)) for i in range(1, int(bins))]
    (row,) = values.select(shares).collect(engine="streaming").rows()
    if None in row:
        raise UserError(f"bins: column {column!r} has no numbers")
    return sorted(set(row))


def binned(column: str, edges: Sequence[float]) -> pl.Expr:
    """The bin of each value, as "[1, 5)"; of what is not a number, none."""
    bounds = ["-inf", *(f"{edge:.15g}" for edge in edges), "inf"]
    labels = [f"{'[' if i else '('}{low}, {high})" for i, (low, high) in enumerate(itertools.pairwise(bounds))]
    value = _number(column).fill_nan(None)
    passed = pl.sum_horizontal((value >= edge).cast(pl.UInt32) for edge in edges)
    return pl.when(value.is_not_null()).then(passed.replace_strict(dict(enumerate(labels)), return_dtype=pl.String))


def _number(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Float64, strict=False)
