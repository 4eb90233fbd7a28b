"""Scores of paths, the words for how they ended, and comparisons between them."""

from __future__ import annotations

import numpy as np
from flax import struct
from numpy.typing import ArrayLike


@struct.dataclass
class Scores:
    """What the paths are worth, term by term. B paths."""

    goal: np.ndarray  # float[B], s_goal = R_goal, the sum of the environment's rewards
    path: np.ndarray  # float[B], s_path = R_path = 1 / (d + 1)
    link: np.ndarray  # float[B], R_policy = Σ h(P_A)
    policy: np.ndarray  # float[B], s_policy = mean log P_A over the actions taken; 0 where none is
    distance: np.ndarray  # int32[B], d; float under edit costs other than 1


def status(
    *,
    distance: ArrayLike,
    reached: ArrayLike,
    terminated: ArrayLike,
    met: ArrayLike | None,
) -> np.ndarray:
    """How each of B paths ended, in a word: str[B].

    "unchanged" at distance 0 (and the goal, if there is one, met); else "reached_goal": the goal is met, or without a
    goal the world's own; else "ended" by the world; else "cut" by the horizon or a dead end.

    Args:
        met: bool[B], the task's goal is met; None: the task has none.
    """
    distance, terminated = np.asarray(distance), np.asarray(terminated)
    unchanged = (distance == 0) & (True if met is None else np.asarray(met))
    fine = np.asarray(reached if met is None else met)
    return np.select([unchanged, fine, terminated], ["unchanged", "reached_goal", "ended"], "cut")


def relative_gap(reward: ArrayLike, optimum: ArrayLike) -> np.ndarray:
    """(R* - R) / |R*|, how far paths fall short of the certified optimum; 0 where no path meets the goal, R* = -inf."""
    reward, optimum = np.asarray(reward, float), np.asarray(optimum, float)
    possible = np.isfinite(optimum)
    best = np.where(possible, optimum, 1.0)
    return np.where(possible, best - reward, 0.0) / np.maximum(np.abs(best), 1e-12)
