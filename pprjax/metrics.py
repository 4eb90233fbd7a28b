"""Scores of paths, the words for how they ended, and comparisons between them."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from pprjax import edit_distance
from pprjax.paths import Paths


@struct.dataclass
class Scores:
    """What the paths are worth, term by term. B paths."""

    goal: np.ndarray  # float[B], s_goal = R_goal, the sum of the environment's rewards
    path: np.ndarray  # float[B], s_path = R_path = 1 / (d + 1)
    r_policy: np.ndarray  # float[B], R_policy, the sum of regrets, or of h(P_A)
    policy: np.ndarray  # float[B], s_policy = mean log P_A over the actions taken; 0 where none is
    distance: np.ndarray  # int32[B], d; float under edit costs other than 1
    violations: np.ndarray  # int32[B], of the task's constraints: 0 where there are none


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


def diversity(paths: Paths, original: Int[np.ndarray, " R"], num_originals: int) -> Float[np.ndarray, " B"]:
    """The mean edit distance between any two of the R paths that answer the same of B originals; NaN where one does.

    Args:
        original: which original a path answers, in [0, B).
    """
    if np.unique(original).size == len(original):
        return np.full(num_originals, np.nan)
    groups = [np.flatnonzero(original == b) for b in range(num_originals)]
    pairs = [list(itertools.combinations(group, 2)) for group in groups]
    counts = np.array([len(group) for group in pairs])
    one, other = np.concatenate([np.reshape(group, (-1, 2)) for group in pairs]).astype(int).T
    symbols, lengths = jnp.asarray(paths.symbols), jnp.asarray(paths.lengths)
    distances = np.asarray(_between(symbols[one], lengths[one], symbols[other], lengths[other]), float)
    sums = np.bincount(np.repeat(np.arange(num_originals), counts), distances, num_originals)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


_between = jax.jit(jax.vmap(edit_distance.between))
