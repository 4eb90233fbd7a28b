"""Tally: what paths add up to, however they were found; and the one place where it becomes a `Frontier`."""

from __future__ import annotations

import numpy as np
from flax import struct
from jaxtyping import Float, Int

from pprjax import metrics
from pprjax.metrics import SAME
from pprjax.objective import Objective
from pprjax.paths import Paths
from pprjax.result import Frontier, Recourse, ranks


@struct.dataclass
class Tally:
    """F paths of B originals, original by original, that count: they keep the constraints. Arrays on the host."""

    index: np.ndarray  # int32[F], which original each answers
    paths: Paths  # F, symbols and actions
    value: np.ndarray  # float[F], v = R_goal + λ_policy·R_policy
    goal: np.ndarray  # float[F], R_goal
    r_policy: np.ndarray  # float[F], R_policy
    log_prob: np.ndarray  # float[F], Σ log P_A
    distance: np.ndarray  # int32[F], d; float[F] where symbols are vectors
    reached: np.ndarray  # bool[F], the world's own goal is reached
    terminated: np.ndarray  # bool[F], ended by the world and not by the horizon or a dead end
    met: np.ndarray | None  # bool[F], the task's goal is met; None: it has none

    def __len__(self) -> int:
        return len(self.index)


def frontier_of(
    tally: Tally,
    originals: Paths,
    objective: Objective,
    *,
    bound: Float[np.ndarray, " F"],
    limit: Float[np.ndarray, "B E"],
    original_goal: Float[np.ndarray, " B"],
    answered_by: np.ndarray | str,
    rank: Int[np.ndarray, " F"] | None = None,
) -> Frontier:
    """These paths as a frontier.

    Args:
        bound: on v of what may stand in the place of each; v itself where it is above.
        limit, original_goal, rank: as in `Frontier`; default rank 1.
        answered_by: the method, one for all originals or str[B].
    """
    size, paths = len(originals), tally.paths
    return Frontier(
        originals=originals,
        index=tally.index.astype(np.int32),
        rank=np.ones(len(tally), np.int32) if rank is None else rank.astype(np.int32),
        distance=tally.distance if paths.vector_size else tally.distance.astype(np.int32),
        value=tally.value.astype(float),
        bound=np.maximum(bound, tally.value).astype(float),
        paths=paths,
        scores=metrics.scores(
            goal=tally.goal,
            r_policy=tally.r_policy,
            log_prob=tally.log_prob,
            num_actions=np.asarray(paths.lengths) - 1,
            distance=tally.distance,
        ),
        status=metrics.status(
            distance=tally.distance,
            reached=tally.reached,
            terminated=tally.terminated,
            met=tally.met,
            same=0.0 if paths.vector_size is None else SAME,
        ),
        answered_by=np.broadcast_to(np.asarray(answered_by), size),
        limit=limit.astype(float),
        original_goal=np.asarray(original_goal, float),
        lambda_policy=np.broadcast_to(np.asarray(objective.lambda_policy, float), size),
        apart=objective.apart,
    )


def recourse_of(
    tally: Tally,
    originals: Paths,
    objective: Objective,
    *,
    proved: bool,
    original_goal: Float[np.ndarray, " B"],
    method: str,
) -> Recourse:
    """These paths, the best of each original first, as recourses; where an original has none, it is "infeasible".

    Args:
        proved: each is the best in its place, and where there is none there is none; else nothing is known of better
            ones.
    """
    size = len(originals)
    unknown = np.full(size, -np.inf if proved else np.inf)
    bound = np.full(len(tally), unknown.max())
    every = frontier_of(
        tally,
        originals,
        objective,
        bound=bound,
        limit=unknown[:, None],
        original_goal=original_goal,
        answered_by=method,
        rank=ranks(tally.index),
    )
    weights = np.broadcast_to(np.asarray(objective.lambda_path, float), size)
    return every.rows_at(np.arange(len(tally)), weights, bound, unknown)
