"""Edits in whole numbers, counted on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike
from rapidfuzz.distance import Levenshtein

from pprjax.edit_distance import Costs, EditCosts
from pprjax.errors import UserError


class WholeCosts(NamedTuple):
    """What an edit costs, in whole numbers."""

    insert: int
    delete: int
    substitute: int


UNIT = WholeCosts(1, 1, 1)


def whole_costs(costs: Costs) -> WholeCosts:
    """Edit costs as whole numbers.

    Raises:
        ValueError: one of them is no whole number, or below 1; or the distance is no edit distance.
    """
    if not isinstance(costs, EditCosts):
        raise UserError(f'distance: a certificate counts edits, so expected "edit", got {costs.distance!r}')
    for name, cost in zip(("w_ins", "w_del", "w_sub"), costs.check(), strict=True):
        if cost != math.floor(cost):
            raise UserError(f"{name}: a certificate counts edits in whole numbers, got {cost}")
    return WholeCosts(*map(int, costs))


def append(
    column: Int[np.ndarray, "*b positions"],
    original: Int[np.ndarray, " N"],
    symbol: int | np.integer | Int[np.ndarray, "*b"],
    costs: WholeCosts,
) -> Int[np.ndarray, "*b positions"]:
    """The Levenshtein columns after one more symbol of each path, in the columns' own type."""
    longer = column + costs.insert
    replaced = column.dtype.type(costs.substitute) * (original != np.asarray(symbol)[..., None])
    longer[..., 1:] = np.minimum(longer[..., 1:], column[..., :-1] + replaced)
    drops = costs.delete * np.arange(column.shape[-1], dtype=column.dtype)
    return np.minimum.accumulate(longer - drops, axis=-1) + drops


def levenshtein(original: ArrayLike, path: ArrayLike, costs: WholeCosts = UNIT) -> int:
    """The edit distance between two sequences of symbols, int[N] and int[T], without padding."""
    weights = (costs.insert, costs.delete, costs.substitute)
    return Levenshtein.distance(np.asarray(original).tolist(), np.asarray(path).tolist(), weights=weights)


def distinct[T](
    ranked: Iterable[T],
    symbols_of: Callable[[T], Any],
    count: int,
    min_distance: int,
    between: Callable[[Any, Any], Any] = levenshtein,
) -> list[T]:
    """The first of what is ranked, and after it each next one that is far enough from all before it.

    Args:
        symbols_of: the symbols of its path.
        between: the distance between the symbols of two paths.
    """
    chosen, passed = [], []
    for one in ranked:
        symbols = symbols_of(one)
        if all(between(symbols, other) >= min_distance for other in passed):
            chosen.append(one)
            passed.append(symbols)
        if len(chosen) == count:
            break
    return chosen


def largest_distance(
    lengths: int | Int[np.ndarray, " B"], longest: int, costs: WholeCosts, *, shortest: int = 1
) -> int:
    """The most that any path of `shortest` to `longest` symbols can cost as an edit of an original of one of these
    lengths."""
    length, path = np.unique(lengths)[:, None], np.arange(shortest, longest + 1)
    anew = costs.delete * length + costs.insert * path
    aligned = costs.substitute * np.minimum(length, path) + np.where(
        path < length, costs.delete * (length - path), costs.insert * (path - length)
    )
    return int(np.minimum(anew, aligned).max())
