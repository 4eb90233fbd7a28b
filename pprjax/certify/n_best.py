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

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify import grading
from pprjax.certify.bounds import Bounds, bounds
from pprjax.certify.budgets import Pruned, all_values, pose, prune
from pprjax.certify.edits import WholeCosts, append, distinct, largest_distance
from pprjax.certify.grading import Graded, grade
from pprjax.certify.problem import Block, Problem
from pprjax.errors import UserError
from pprjax.finite_world import FiniteWorld
from pprjax.paths import PAD
from pprjax.reward import closeness

MAX_OPENED = 100_000
"""The most prefixes that are opened for an original."""


def n_best_paths(
    problem: Problem, block: Block, *, n_recourses: int, min_distance: int
) -> tuple[Graded, Int[np.ndarray, " R"]]:
    """The best paths of each original, and which original each answers; one row, and no path, where there is none."""
    bound = bounds(problem, block)
    symbols_of = partial(_symbols_of, problem.tables)
    found, feasible, index = [], [], []
    for b, length in enumerate(block.lengths.tolist()):
        best = []
        if bound.best()[b] > -np.inf:
            pruned, value = _all_paths(problem, block, bound, b)
            original, limits = block.symbols[b, :length], (0, problem.max_distance)
            ordered = ranked(pruned, value, original, block.lambda_path[b], limits, problem.costs)
            best = distinct(ordered, symbols_of, n_recourses, min_distance)
        feasible += [bool(best)] * max(len(best), 1)
        index += [b] * max(len(best), 1)
        found += best if best else [[]]
    rows = np.array(index)
    graded = grade(problem, block[rows], _rows(found, problem.unrolled.horizon))
    return grading.where(np.array(feasible), graded, grading.no_path(graded)), rows


def n_best_beside(
    problem: Problem, block: Block, first: Graded, index: Int[np.ndarray, " F"], *, n_recourses: int, min_distance: int
) -> tuple[Graded, Int[np.ndarray, " R"]]:
    """For each path of the frontiers the n best of as many edits, of which it is one, and which original each answers.

    Args:
        first: the paths on the frontiers, each the best of its number of edits, in the order of the originals.
        index: which original each answers.
    """
    bound = bounds(problem, block)
    symbols_of = partial(_symbols_of, problem.tables)
    found, answers, solved = [], [], -1
    for b, edits in zip(index.tolist(), first.distance.tolist(), strict=True):
        if b != solved:
            (pruned, value), solved = _all_paths(problem, block, bound, b), b
        original = block.symbols[b, : block.lengths[b]]
        ordered = ranked(pruned, value, original, 0.0, (edits, edits), problem.costs)
        best = distinct(ordered, symbols_of, n_recourses, min_distance)
        found += best
        answers += [b] * len(best)
    rows = np.array(answers, int)
    return (grade(problem, block[rows], _rows(found, problem.unrolled.horizon)) if found else first), rows


def _all_paths(
    problem: Problem, block: Block, bound: Bounds, b: int
) -> tuple[Pruned, Float[np.ndarray, "layers W positions E"]]:
    """What is left of the unrolled world for original b where every path matters that counts, and G of it."""
    unrolled, costs = problem.unrolled, problem.costs
    pruned = prune(unrolled, bound.ending[bound.kind[b]], bound.through(b) > -np.inf, block.weights.of([b]))
    largest = min(problem.max_distance, largest_distance(int(block.lengths[b]), unrolled.horizon + 1, costs))
    (budgets, *_), (_, aligned, _) = pose(pruned, block, b, int(largest))
    return pruned, np.asarray(all_values(pruned, aligned, budgets=budgets, costs=costs))


def _rows(found: list[list[int]], horizon: int) -> Int[np.ndarray, "R T"]:
    rows = np.full((len(found), horizon), PAD, np.int32)
    for row, actions in zip(rows, found, strict=True):
        row[: len(actions)] = actions
    return rows


def _symbols_of(tables: FiniteWorld, actions: list[int]) -> Int[np.ndarray, " T"]:
    rows = [0]
    for action in actions:
        rows.append(tables.next_state[rows[-1], action])
    return tables.symbol[rows]


def ranked(
    pruned: Pruned,
    value: Float[np.ndarray, "layers W positions E"],
    original: Int[np.ndarray, " N"],
    lambda_path: float,
    limits: tuple[float | int, float | int],
    costs: WholeCosts,
) -> Iterator[list[int]]:
    """The actions of every path of so many edits, best first.

    Args:
        pruned: what is left of the unrolled world, as in `pprjax.certify.budgets`.
        value: G of it. The positions of τ₀ count from the end of the last axis but one.
        original: τ₀, without padding.
        limits: the fewest edits and the most.

    Raises:
        ValueError: more than MAX_OPENED prefixes were opened.
    """
    length, width = len(original), pruned.symbol.shape[1]
    least, limit = limits
    value = value[:, :, value.shape[2] - length - 1 :]
    budget = np.arange(value.shape[3])

    def best(t, node, column):
        edits = column[:, None] + budget
        onward = value[t, node] + closeness(edits, lambda_path)
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
            raise UserError(
                f"n_recourses: no certificate, for more than {MAX_OPENED} prefixes of paths rank before the last one; "
                "ask for fewer, for a smaller min_distance, or `recourse` for some without proof"
            )
        t = -depth
        if pruned.ending[t, node] == 0 and least <= column[-1] <= limit:
            worth = earned + closeness(float(column[-1]), lambda_path)
            heapq.heappush(heap, (-worth, depth - 1, next(order), True, earned, node, column, actions))
        for action in np.flatnonzero(pruned.next_state[t, node] < width):
            after = int(pruned.next_state[t, node, action])
            reward = earned + float(pruned.edges[t, node, action])
            longer = append(column, original, int(pruned.symbol[t + 1, after]), costs)
            entry = (-(reward + best(t + 1, after, longer)), depth - 1, next(order), False, reward, after, longer)
            heapq.heappush(heap, (*entry, [*actions, int(action)]))
