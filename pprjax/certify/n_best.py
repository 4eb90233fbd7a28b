"""The n best paths with proof, two by two at least δ edits apart: best-first search with a perfect bound.

With G_t[w, i, e] from `pprjax.certify.budgets` and the Levenshtein column c of a prefix that ends in node w of layer t,
the best path that goes on from there is worth

    R(prefix) + max_{i, e} G_t[w, i, e] + λ_path / (c_i + e + 1).

So prefixes are opened in the order of the best path through each, paths come out best first, and no prefix is opened
that none of them shares. Bounds are float32: paths that it can't tell apart may come in any order.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify import grading
from pprjax.certify.bounds import bounds
from pprjax.certify.budgets import Pruned, all_values, pose, prune
from pprjax.certify.edits import WholeCosts, append, largest_distance, levenshtein
from pprjax.certify.grading import Graded, grade
from pprjax.certify.problem import Block, Problem
from pprjax.certify.tables import Tables
from pprjax.paths import PAD

MAX_OPENED = 100_000
"""The most prefixes that are opened for an original."""


def n_best_paths(
    problem: Problem, block: Block, *, n_recourses: int, min_distance: int
) -> tuple[Graded, Int[np.ndarray, " R"]]:
    """The best paths of each original, and which original each answers; one row, and no path, where there is none."""
    unrolled, costs, limit = problem.unrolled, problem.costs, problem.max_distance
    bound = bounds(problem, block)
    found, feasible, whose = [], [], []
    for b, length in enumerate(block.lengths.tolist()):
        best = []
        if bound.best()[b] > -np.inf:
            pruned = prune(unrolled, bound.ending[bound.kind[b]], bound.through(b) > -np.inf, block.lambda_policy[b])
            largest = min(limit, largest_distance(length, unrolled.horizon + 1, costs))
            (budgets, *_), (_, aligned, _) = pose(pruned, block, b, int(largest))
            value = np.asarray(all_values(pruned, aligned, budgets=budgets, costs=costs))
            ordered = ranked(pruned, value, block.symbols[b, :length], block.lambda_path[b], limit, costs)
            best = distinct(ordered, partial(_symbols_of, problem.tables), n_recourses, min_distance)
        rows = np.full((max(len(best), 1), unrolled.horizon), PAD, np.int32)
        for row, actions in zip(rows, best, strict=False):
            row[: len(actions)] = actions
        found.append(rows)
        feasible += [bool(best)] * len(rows)
        whose += [b] * len(rows)
    at = np.array(whose)
    graded = grade(problem, block[at], np.concatenate(found))
    return grading.where(np.array(feasible), graded, grading.no_path(graded)), at


def _symbols_of(tables: Tables, actions: list[int]) -> Int[np.ndarray, " T"]:
    rows = [0]
    for action in actions:
        rows.append(tables.following[rows[-1], action])
    return tables.symbol[rows]


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
    pruned: Pruned,
    value: Float[np.ndarray, "layers W positions E"],
    original: Int[np.ndarray, " N"],
    lambda_path: float,
    limit: float,
    costs: WholeCosts,
) -> Iterator[list[int]]:
    """The actions of every path of at most `limit` edits, best first.

    Args:
        pruned: what is left of the unrolled world, as in `pprjax.certify.budgets`.
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
    column = append(empty, original, int(pruned.symbol[0, 0]), costs)
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
            longer = append(column, original, int(pruned.symbol[t + 1, after]), costs)
            entry = (-(reward + best(t + 1, after, longer)), depth - 1, next(order), False, reward, after, longer)
            heapq.heappush(heap, (*entry, [*actions, int(action)]))
