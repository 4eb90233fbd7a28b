"""What the originals of a block could earn at best, edits aside, and the two paths that are cheap to find."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from pprjax.certify import grading
from pprjax.certify.grading import Graded, grade
from pprjax.certify.problem import Block, Problem
from pprjax.certify.unrolled import Earned, Weights, best_so_far, best_to_come, ending_values, follow, spelling


@dataclasses.dataclass(frozen=True)
class Bounds:
    """On R_goal + λ_policy·R_policy in the unrolled world: K kinds, for originals with one λ_policy, one goal and one
    table of habits share them. float64, and -inf where no path leads that meets the goal."""

    kind: np.ndarray  # int[B], of each original
    weights: Weights  # of the K kinds
    ending: np.ndarray  # float64[K, T + 1, W], 0 where a path may end
    so_far: np.ndarray  # float64[K, T + 1, W], the best on the way to a node
    to_come: np.ndarray  # float64[K, T + 1, W + 1], the best from a node on; W: where no edge leads

    def best(self) -> Float[np.ndarray, " B"]:
        """F(∞), of all paths."""
        return self.to_come[self.kind, 0, 0]

    def through(self, b: int) -> Float[np.ndarray, "layers W"]:
        """Of original b, the best of all paths through a node."""
        return self.so_far[self.kind[b]] + self.to_come[self.kind[b], :, :-1]


def bounds(problem: Problem, block: Block) -> Bounds:
    """The bounds of a block."""
    lambda_policy, which, _ = block.weights
    (*_, own_reward, own_magnitude), first, kind = np.unique(
        np.stack([lambda_policy, which, block.own_reward, block.own_magnitude]),
        axis=1,
        return_index=True,
        return_inverse=True,
    )
    weights = block.weights.of(first)
    ending = ending_values(problem.task, problem.unrolled, Earned(own_reward, own_magnitude))
    return Bounds(
        kind=kind.ravel(),
        weights=weights,
        ending=ending,
        so_far=best_so_far(problem.unrolled, weights),
        to_come=best_to_come(problem.unrolled, weights, ending),
    )


def best_of_all(problem: Problem, block: Block, bound: Bounds) -> Graded:
    """A path that attains F(∞), of whatever distance, for each original; where there is none, not one to be used."""
    return grade(problem, block, follow(problem.unrolled, bound.weights, bound.to_come)[bound.kind])


def best_unchanged(problem: Problem, block: Block, bound: Bounds) -> Graded:
    """A path that attains F(0), the best that spells the original; no path where none does and meets the goal."""
    unrolled, weights = problem.unrolled, block.weights
    spells, last = spelling(unrolled, block.symbols, block.lengths)
    ending = np.where(last, bound.ending[bound.kind], -np.inf)
    to_come = best_to_come(unrolled, weights, ending, spells)
    found = grade(problem, block, follow(unrolled, weights, to_come))
    return grading.where(to_come[:, 0, 0] > -np.inf, found, grading.no_path(found))
