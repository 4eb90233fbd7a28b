"""The n best paths with proof, two by two at least δ edits apart: best-first search with a perfect bound.

With G_t[w, i, e] from `pprjax.certify.optimum` and the Levenshtein column c of a prefix that ends in node w of layer t,
the best path that goes on from there is worth

    R(prefix) + max_{i, e} G_t[w, i, e] + λ_path / (c_i + e + 1).

So prefixes are opened in the order of the best path behind each, paths come out best first, and no prefix is opened
that none of them shares. Bounds are float32: paths that it can't tell apart may come in any order.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

MAX_OPENED = 100_000
"""The most prefixes that are opened for an original."""


class Costs(NamedTuple):
    """Of edits, in whole numbers."""

    insert: int
    delete: int
    substitute: int


UNIT = Costs(1, 1, 1)


def distinct(ranked: Iterator[list[int]], symbols_of: Any, count: int, min_distance: int) -> list[list[int]]:
    """The first of the ranked action sequences, and after it each next one that is far enough from all before it.

    Args:
        symbols_of: the symbols that actions pass.
    """
    chosen, passed = [], []
    for actions in ranked:
        symbols = symbols_of(actions)
        if all(levenshtein(symbols, other) >= min_distance for other in passed):
            chosen.append(actions)
            passed.append(symbols)
        if len(chosen) == count:
            break
    return chosen


def ranked(
    pruned: Any,
    value: Float[np.ndarray, "layers W positions E"],
    original: Int[np.ndarray, " N"],
    lambda_path: float,
    limit: float,
    costs: Costs,
) -> Iterator[list[int]]:
    """The actions of every path of at most `limit` edits, best first.

    Args:
        pruned: what is left of the unrolled world, as in `pprjax.certify.optimum`.
        value: G of it. The positions of τ₀ count from the end of the last axis but one.
        original: τ₀, without padding.

    Raises:
        ValueError: more than MAX_OPENED prefixes were opened.
    """
    length, width = len(original), pruned.symbol.shape[1]
    value = value[:, :, value.shape[2] - length - 1 :]
    budget = np.arange(value.shape[3])

    def best(t, node, column):
        edits = column[:, None] + budget
        onward = value[t, node] + lambda_path / (edits + 1)
        return float(np.max(onward, where=edits <= limit, initial=-np.inf))

    empty = costs.delete * np.arange(length + 1)
    column = appended(empty, original, pruned.symbol[0, 0], costs)
    order = itertools.count()  # of equal ones the deeper, then the older
    heap = [(-best(0, 0, column), 0, next(order), False, 0.0, 0, column, [])]
    opened = 0
    while heap:
        bound, depth, _, complete, earned, node, column, actions = heapq.heappop(heap)
        if bound == np.inf:
            return
        if complete:
            yield actions
            continue
        opened += 1
        if opened > MAX_OPENED:
            raise ValueError(
                f"n_recourses: no certificate, for more than {MAX_OPENED} prefixes of paths rank before the last one; "
                "ask for fewer, for a smaller min_distance, or `recourse` for some without proof"
            )
        t = -depth
        if pruned.ending[t, node] == 0 and column[-1] <= limit:
            worth = earned + lambda_path / (float(column[-1]) + 1)
            heapq.heappush(heap, (-worth, depth - 1, next(order), True, earned, node, column, actions))
        for action in np.flatnonzero(pruned.following[t, node] < width):
            after = int(pruned.following[t, node, action])
            reward = earned + float(pruned.edges[t, node, action])
            longer = appended(column, original, pruned.symbol[t + 1, after], costs)
            entry = (-(reward + best(t + 1, after, longer)), depth - 1, next(order), False, reward, after, longer)
            heapq.heappush(heap, (*entry, [*actions, int(action)]))


def appended(
    column: Int[np.ndarray, " positions"], original: Int[np.ndarray, " N"], symbol: int, costs: Costs
) -> Int[np.ndarray, " positions"]:
    """The Levenshtein column after one more symbol of the path."""
    longer = column + costs.insert
    longer[1:] = np.minimum(longer[1:], column[:-1] + np.where(original == symbol, 0, costs.substitute))
    drops = costs.delete * np.arange(len(column))
    return np.minimum.accumulate(longer - drops) + drops


def levenshtein(original: Int[np.ndarray, " N"], path: Int[np.ndarray, " T"]) -> int:
    """The distance of unit costs between two sequences without padding."""
    column = np.arange(len(original) + 1)
    for symbol in path:
        column = appended(column, original, symbol, UNIT)
    return int(column[-1])


def largest_distance(length: int, longest: int, costs: Costs) -> int:
    """The most that any path of 1 to `longest` symbols can cost as an edit of one of `length`."""
    path = np.arange(1, longest + 1)
    anew = costs.delete * length + costs.insert * path
    aligned = costs.substitute * np.minimum(length, path) + np.where(
        path < length, costs.delete * (length - path), costs.insert * (path - length)
    )
    return int(np.minimum(anew, aligned).max())
