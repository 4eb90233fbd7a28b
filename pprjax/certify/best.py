"""The best path of each original.

Most of the product of world and edits can't hold it. Two paths are cheap to find: the best of all, F(∞) at its distance
d∞, and the best that spells τ₀, F(0). Any better one has w ≤ d, with w the cheapest edit, so it earns at least
R - λ_path / (w + 1); states that no such path visits, and budgets e whose bound F(∞) + λ_path / (e + 1) is too low,
are left out. The bounds are float64; ties and rounding fall on the side of keeping a state.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify import grading
from pprjax.certify.bounds import best_of_all, best_unchanged, bounds
from pprjax.certify.budgets import best_budget, on_devices, pose, prune
from pprjax.certify.grading import Graded, grade
from pprjax.certify.problem import Block, Problem
from pprjax.paths import PAD


def best_paths(problem: Problem, block: Block) -> tuple[Graded, Int[np.ndarray, " B"]]:
    """The best path of each original, among those of at most max_distance edits, and which original it answers."""
    limit, costs = problem.max_distance, problem.costs
    bound = bounds(problem, block)
    free, unchanged = best_of_all(problem, block, bound), best_unchanged(problem, block, bound)
    best = grading.where((bound.best() > -np.inf) & (free.distance <= limit), free, grading.no_path(free))
    best = grading.where((unchanged.reward > -np.inf) & (unchanged.reward >= best.reward), unchanged, best)

    largest = open_budgets(best.reward, bound.best(), free.distance, problem, block)
    floor = best.reward - block.lambda_path / (min(costs) + 1) - 1e-9 * (1 + np.abs(best.reward))

    def problems():
        for b in np.flatnonzero(largest > 0).tolist():
            through = bound.through(b)
            alive = (through >= floor[b]) & (through > -np.inf)
            pruned = prune(problem.unrolled, bound.ending[bound.kind[b]], alive, block.weights.of([b]))
            kind, posed = pose(pruned, block, b, int(largest[b]))
            yield kind, (b, (*posed, np.float32(block.lambda_path[b]), np.int32(min(limit, kind[0]))))

    solved = on_devices(best_budget, problems(), costs)
    if solved:
        edited, feasible = np.full_like(best.actions, PAD), np.zeros(len(block), bool)
        for b, (value, actions) in solved:
            edited[b], feasible[b] = actions, value > -np.inf
        graded = grade(problem, block, edited)
        best = grading.where(feasible & (graded.reward > best.reward), graded, best)
    return best, np.arange(len(block))


def open_budgets(
    reward: Float[np.ndarray, " B"],
    bound: Float[np.ndarray, " B"],
    distance: Int[np.ndarray, " B"],
    problem: Problem,
    block: Block,
) -> Int[np.ndarray, " B"]:
    """The largest e with F(∞) + λ_path / (e + 1) above the reward at hand, of those below d∞; 0: none is open.

    Where d∞ is above the limit, of those up to the limit.

    Args:
        reward: R at hand, -inf where there is none.
        bound: F(∞).
        distance: d∞.
    """
    limit, lambda_path = problem.max_distance, block.lambda_path
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = reward - bound
        largest = np.where(gap > 0, np.ceil(lambda_path / gap - 1e-6) - 2, np.inf)
    too_far = distance > limit
    largest = np.minimum(largest, np.where(too_far, np.floor(limit), distance - 1))
    is_open = (bound > -np.inf) & ((lambda_path > 0) | too_far) & (largest >= min(problem.costs))
    return np.where(is_open, largest, 0).astype(np.int64)
