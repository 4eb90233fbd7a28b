"""The certified frontier: for each original, what every further edit buys, whatever λ_path is.

    F(e) = max { R_goal(τ) + λ_policy·R_policy(τ) : d(τ, τ₀) = e, the goal met, the constraints kept }

A path is on the frontier if it is worth more than every path of fewer edits. Where the best of at most e edits is worth
more than that of at most e - 1, it has exactly e, so that one run of the dynamic programme over edit budgets holds the
whole frontier. Whatever λ_path is, the best path is on it: max_τ R = max_e F(e) + λ_path / (e + 1).
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.certify.bounds import best_of_all, best_unchanged, bounds
from pprjax.certify.budgets import Pruned, every_budget, on_devices, pose, prune
from pprjax.certify.grading import Graded, grade
from pprjax.certify.n_best import n_best_beside
from pprjax.certify.optimum import solved, tallied
from pprjax.certify.problem import Block, Problem
from pprjax.config import Config
from pprjax.errors import UserError
from pprjax.ladder import tolerated
from pprjax.paths import Paths
from pprjax.result import Frontier
from pprjax.tally import frontier_of
from pprjax.task import Task

KEPT = 64
"""Worlds with different nodes left out that are kept for the next originals."""


def exact_frontier(
    task: Task,
    originals: Paths,
    config: Config,
    *,
    max_edits: int | None = None,
    n_recourses: int = 1,
    min_distance: int = 1,
) -> Frontier:
    """The frontier of each original, with proof: no path of at most so many edits is worth more.

    Args:
        task: as in `pprjax.exact`.
        originals: as in `pprjax.exact`.
        config: lambda_policy, one number or float[B]; w_ins, w_del and w_sub, whole numbers. λ_path is not looked at.
        max_edits: the most edits, at least 0; default: as many as buy something.
        n_recourses: how many paths of each number of edits on the frontier: the best, and then each
            time the best that is far enough from those before. Fewer, where no other path is far enough.
        min_distance: δ ≥ 1, the edit distance (of unit costs) between any two of as many edits, at least.

    Raises:
        ValueError: as `pprjax.exact`, or max_edits is below 0.

    Source: Eq. 5 of arXiv 2312.08724 without R_path; the dynamic programme as in `pprjax.certify.budgets`.
    """
    if max_edits is not None and max_edits < 0:
        raise UserError(f"max_edits: expected at least 0, got {max_edits}")
    limit = np.inf if max_edits is None else float(max_edits)

    def solve(problem: Problem, block: Block) -> tuple[Graded, Int[np.ndarray, " F"]]:
        problem = dataclasses.replace(problem, max_distance=min(problem.max_distance, limit))
        found = frontiers(problem, block)
        if n_recourses == 1:
            return found
        return n_best_beside(problem, block, *found, n_recourses=n_recourses, min_distance=min_distance)

    objective = config.objective.for_frontier
    graded, path, problem = solved(task, originals, objective, solve)
    found = tallied(problem, graded, path)
    return frontier_of(
        found,
        originals,
        objective,
        rank=_ranks(path, graded.distance),
        bound=graded.value,
        limit=_limits(path, graded, len(originals)),
        original_goal=problem.original_reward,
        answered_by="exact",
    )


def _ranks(path: Int[np.ndarray, " F"], distance: Int[np.ndarray, " F"]) -> Int[np.ndarray, " F"]:
    """The place of each row among those of as many edits of its original, which stand together."""
    begins = np.append(True, (np.diff(path) != 0) | (np.diff(distance) != 0))[: len(path)]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(path)), 0))
    return (np.arange(len(path)) - first + 1).astype(np.int32)


def _limits(path: Int[np.ndarray, " F"], graded: Graded, size: int) -> Float[np.ndarray, "B E"]:
    """The best v of at most e edits."""
    limits = np.full((size, int(graded.distance.max(initial=0)) + 1), -np.inf)
    np.maximum.at(limits, (path, graded.distance), graded.value)
    return np.maximum.accumulate(limits, axis=1)


def frontiers(problem: Problem, block: Block) -> tuple[Graded, Int[np.ndarray, " F"]]:
    """The paths on the frontier of each original, the fewest edits first, and which original each answers."""
    bound = bounds(problem, block)
    free, unchanged = best_of_all(problem, block, bound), best_unchanged(problem, block, bound)
    largest = np.minimum(free.distance, problem.max_distance)
    floor = unchanged.value - 1e-9 * (1 + np.abs(unchanged.value))  # who edits wants more than the original

    @lru_cache(maxsize=KEPT)  # most originals leave out the same nodes
    def pruned(kind: int, alive: bytes) -> Pruned:
        living = np.frombuffer(alive, bool).reshape(problem.unrolled.row.shape)
        return prune(problem.unrolled, bound.ending[kind], living, bound.weights.of([kind]))

    def problems():
        for b in np.flatnonzero(bound.best() > -np.inf).tolist():
            through = bound.through(b)
            alive = (through >= floor[b]) & (through > -np.inf)
            left = pruned(int(bound.kind[b]), alive.tobytes())
            kind, posed = pose(left, block, b, int(largest[b]))
            yield kind, (b, posed)

    actions, index = [free.actions[:0]], [np.zeros(0, int)]
    for b, (value, found) in on_devices(every_budget, problems(), problem.costs):
        rising = np.flatnonzero(value > np.maximum.accumulate(np.append(-np.inf, value[:-1])))
        actions.append(found[rising])
        index.append(np.full(len(rising), b))
    index = np.concatenate(index)
    if not index.size:
        return free[:0], index
    graded = grade(problem, block[index], np.concatenate(actions))
    order = np.lexsort((-graded.value, graded.distance, index))
    order = order[graded.distance[order] <= problem.max_distance]
    order = order[_rises(graded.value[order], index[order])]
    return graded[order], index[order]


def _rises(value: Float[np.ndarray, " F"], index: Int[np.ndarray, " F"]) -> Bool[np.ndarray, " F"]:
    """Which rows are worth more than all rows of the same original before them."""
    rises, least = np.zeros(len(value), bool), {}
    for i, (b, v, more) in enumerate(zip(index.tolist(), value.tolist(), tolerated(value).tolist(), strict=True)):
        rises[i] = v > least.get(b, -np.inf)
        if rises[i]:
            least[b] = more
    return rises
