"""BL2: the most important window of the nearest unlike neighbour, grown until the class flips.

Delaney, Greene and Keane, Instance-Based Counterfactual Explanations for Time Series Classification, ICCBR 2021.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flax import struct
from jaxtyping import Bool, Float, Int, Num

from pprjax.errors import UserError

NONE = -1
"""In `NativeGuide.neighbour`, `start` and `length`: there is none."""


@struct.dataclass
class NativeGuide:
    """The edits of B series of T values. Arrays on the host."""

    sequences: np.ndarray  # [B, T], as the queries; the query itself where nothing was found
    found: np.ndarray  # bool[B], the class of `sequences` is the wanted one
    neighbour: np.ndarray  # int32[B], the row of the references that the window is from; NONE: no unlike one
    start: np.ndarray  # int32[B], where the window begins; NONE where nothing was found
    length: np.ndarray  # int32[B], values in it, T for a swap of the whole series; NONE where nothing was found

    def __len__(self) -> int:
        return len(self.found)


def native_guide(
    queries: Num[np.ndarray, "B T"],
    references: Num[np.ndarray, "N T"],
    classify: Callable[[np.ndarray], np.ndarray],
    importance: Callable[[np.ndarray, np.ndarray], np.ndarray] | Float[np.ndarray, "#B T"],
    *,
    wanted: int | None = None,
    values: Callable[[np.ndarray], np.ndarray] | None = None,
) -> NativeGuide:
    """Replace a window of each query by the same window of its nearest unlike neighbour.

    The neighbour is the closest reference (Euclidean; the first of equals) that the classifier gives another class. For
    each length from 1 to T the window with the largest sum of importance (the first of equals) is tried; the first that
    gets the neighbour's class from the classifier is kept. Where there is no such window, `found` is false and the
    query stays as it is.

    Args:
        queries, references: series, or sequences of symbols; of one length.
        classify: [M, T] -> int[M], the classes of any number of series. It alone decides which references are unlike.
        importance: of each value, float[B, T] or float[1, T]; or a function of (queries, neighbours), both [B', T],
            that gives it, called with those queries that have an unlike neighbour.
        wanted: a class; references and edits of no other count. Default: any but the query's own.
        values: what distances are measured between, [M, T] -> float[M, ...]; default the series themselves.

    Raises:
        ValueError: shapes do not fit, or an importance is not a finite number.
    """
    queries, references = np.asarray(queries), np.asarray(references)
    _check_series(queries, references)
    size, horizon = queries.shape
    own, theirs = _classes("queries", classify, queries), _classes("references", classify, references)
    unlike = (theirs != own[:, None]) if wanted is None else np.broadcast_to(theirs == wanted, (size, len(theirs)))
    measure = (lambda x: x) if values is None else values
    neighbour = _nearest(np.asarray(measure(queries), float), np.asarray(measure(references), float), unlike)

    result = NativeGuide(
        sequences=queries.copy(),
        found=np.zeros(size, bool),
        neighbour=neighbour,
        start=np.full(size, NONE, np.int32),
        length=np.full(size, NONE, np.int32),
    )
    index = np.flatnonzero(neighbour != NONE)
    if index.size == 0:
        return result
    guides = references[neighbour[index]]
    weight = importance(queries[index], guides) if callable(importance) else np.asarray(importance)
    if not callable(importance) and weight.shape[:1] == (size,):
        weight = weight[index]
    starts = _windows(_check_importance(weight, (index.size, horizon)))
    lengths = np.arange(1, horizon + 1)
    steps = np.arange(horizon)
    inside = (steps >= starts[:, :, None]) & (steps < (starts + lengths)[:, :, None])
    edited = np.where(inside, guides[:, None], queries[index, None])  # [B', length - 1, T]
    got = _classes("edits", classify, edited.reshape(-1, horizon)).reshape(edited.shape[:2])
    flips = got == theirs[neighbour[index]][:, None]

    found, first = flips.any(1), flips.argmax(1)
    rows, chosen = index[found], first[found]
    result.sequences[rows] = edited[found, chosen]
    result.found[rows] = True
    result.start[rows] = starts[found, chosen]
    result.length[rows] = lengths[chosen]
    return result


def _nearest(
    queries: Float[np.ndarray, "B ..."], references: Float[np.ndarray, "N ..."], allowed: Bool[np.ndarray, "B N"]
) -> Int[np.ndarray, " B"]:
    """The allowed reference at the smallest Euclidean distance, NONE where none is allowed."""
    if len(references) == 0:
        return np.full(len(queries), NONE, np.int32)
    flat = references.reshape(len(references), -1)
    squares = np.array([np.square(flat - query.ravel()).sum(1) for query in queries])
    nearest = np.where(allowed, squares, np.inf).argmin(1)
    return np.where(allowed.any(1), nearest, NONE).astype(np.int32)


def _windows(importance: Float[np.ndarray, "B T"]) -> Int[np.ndarray, "B T"]:
    """Where the most important window of each length 1 … T begins."""
    horizon = importance.shape[1]
    windows = [np.lib.stride_tricks.sliding_window_view(importance, n, axis=1).sum(-1) for n in range(1, horizon + 1)]
    return np.stack([sums.argmax(1) for sums in windows], 1)


def _check_series(queries: np.ndarray, references: np.ndarray) -> None:
    if queries.ndim != 2 or queries.shape[1] == 0:
        raise UserError(f"queries: expected an array of shape [B, T], got {queries.shape}")
    if references.ndim != 2 or references.shape[1] != queries.shape[1]:
        raise UserError(f"references: expected series of {queries.shape[1]} values, got shape {references.shape}")


def _check_importance(weight: np.ndarray, shape: tuple[int, int]) -> Float[np.ndarray, "B T"]:
    weight = np.asarray(weight, float)
    if weight.ndim != 2 or weight.shape[1] != shape[1] or weight.shape[0] not in (1, shape[0]):
        raise UserError(f"importance: expected one number a value, shape {shape}, got {weight.shape}")
    bad = np.argwhere(~np.isfinite(weight))
    if bad.size:
        raise UserError(f"importance{bad[0].tolist()}: expected a finite number, got {weight[tuple(bad[0])]}")
    return np.broadcast_to(weight, shape)


def _classes(name: str, classify: Callable[[np.ndarray], np.ndarray], series: np.ndarray) -> Int[np.ndarray, " M"]:
    if len(series) == 0:
        return np.zeros(0, int)
    classes = np.asarray(classify(series))
    if classes.shape != (len(series),):
        raise UserError(f"classify: expected one class for each of {len(series)} {name}, got shape {classes.shape}")
    return classes
