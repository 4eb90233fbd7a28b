"""Scores of paths, the words for how they ended, and comparisons between them."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int, Num
from numpy.typing import ArrayLike

from pprjax import edit_distance
from pprjax.edit_distance import EditCosts, RealCosts
from pprjax.errors import UserError
from pprjax.paths import Paths
from pprjax.reward import closeness

SAME = 1e-3
"""The distance up to which a path of vectors counts as unchanged: what float32 may make of the same actions."""


@struct.dataclass
class Scores:
    """What the paths are worth, term by term. B paths."""

    goal: np.ndarray  # float[B], s_goal = R_goal, the sum of the environment's rewards
    path: np.ndarray  # float[B], s_path = R_path = 1 / (d + 1)
    r_policy: np.ndarray  # float[B], R_policy, the sum of regrets, or of h(P_A)
    policy: np.ndarray  # float[B], s_policy = mean log P_A over the actions taken; 0 where none is
    distance: np.ndarray  # int32[B], d; float under edit costs other than 1, and of vectors
    violations: np.ndarray  # int32[B], of the task's constraints: 0 where there are none


def scores(*, goal: Any, r_policy: Any, log_prob: Any, num_actions: Any, distance: Any) -> Scores:
    """The scores of B paths that keep the constraints, from their sums.

    Args:
        goal, r_policy, log_prob: float[B], R_goal, R_policy and Σ log P_A.
        num_actions: int[B].
        distance: int[B] or float[B], d.
    """
    return Scores(
        goal=goal,
        path=closeness(distance),
        r_policy=r_policy,
        policy=log_prob / np.maximum(num_actions, 1),
        distance=distance,
        violations=np.zeros(np.shape(distance), np.int32),
    )


def status(
    *,
    distance: ArrayLike,
    reached: ArrayLike,
    terminated: ArrayLike,
    met: ArrayLike | None,
    same: float = 0.0,
) -> np.ndarray:
    """How each of B paths ended, in a word: str[B].

    "unchanged" at distance 0, of vectors up to 0.001 (and the goal, if there is one, met); else "reached_goal": the
    goal is met, or without a goal the world's own; else "ended" by the world; else "cut" by the horizon or a dead end.

    Args:
        met: bool[B], the task's goal is met; None: the task has none.
        same: the largest distance of an unchanged path.
    """
    distance, terminated = np.asarray(distance), np.asarray(terminated)
    unchanged = (distance >= 0) & (distance <= same) & (True if met is None else np.asarray(met))
    fine = np.asarray(reached if met is None else met)
    return np.select([unchanged, fine, terminated], ["unchanged", "reached_goal", "ended"], "cut")


def real_edits(
    original: Float[ArrayLike, "n k"],
    paths: Float[ArrayLike, "*batch T k"],
    scale: tuple[float, ...],
    *,
    original_length: Int[ArrayLike, ""] | int | None = None,
    lengths: Int[ArrayLike, "*batch"] | None = None,
) -> Float[Array, "*batch"]:
    """d(τ₀, τ) of paths of vectors, as `Config(distance="real")` counts it: see `edit_distance.RealCosts`. A metric.

    Args:
        original: τ₀.
        paths: one path or an array of them.
        scale: for each of the k numbers the difference that makes an altogether other state; above 0.
        original_length: symbols in the original; default n.
        lengths: symbols in each path; default T.

    Raises:
        ValueError: a shape does not fit, or a scale is not a finite number above 0.
    """
    original, paths, costs = _vectors(original, paths, scale)
    *batch, room, size = paths.shape
    lengths = jnp.broadcast_to(jnp.asarray(room if lengths is None else lengths, jnp.int32), batch)
    own = jnp.int32(len(original) if original_length is None else original_length)
    flat = (paths.reshape(-1, room, size), lengths.reshape(-1))
    return _from_one(original, own, *flat, costs=costs).reshape(batch)


def dynamic_time_warping(
    original: Float[ArrayLike, "n k"], path: Float[ArrayLike, "T k"], scale: tuple[float, ...]
) -> Float[Array, ""]:
    """The least Σ |(x - y) / scale| over all ways to walk along both paths in step or with waits (Sakoe and Chiba, IEEE
    Trans. ASSP 26(1), 1978). For comparison: it is no metric, and a path that waits is no farther away.

    Args:
        original, path: at least one symbol each.
        scale: as of `real_edits`.

    Raises:
        ValueError: as of `real_edits`.
    """
    return _warped(*_vectors(original, path, scale))


@partial(jax.jit, static_argnums=2)
def _warped(original: Float[Array, "n k"], path: Float[Array, "T k"], costs: RealCosts) -> Float[Array, ""]:
    apart = jnp.linalg.norm((original[:, None] - path) / jnp.asarray(costs.scale), axis=-1)

    def step(column, gap):  # column: the least cost of having walked to each symbol of the original
        arrived = jnp.minimum(column, jnp.append(jnp.inf, column[:-1]))

        def wait(before, x):
            here = jnp.minimum(before, x[0]) + x[1]
            return here, here

        return jax.lax.scan(wait, jnp.inf, (arrived, gap))[1], None

    first = jnp.cumsum(apart[:, 0])
    return jax.lax.scan(step, first, apart[:, 1:].T)[0][-1]


def _vectors(original: Any, paths: Any, scale: tuple[float, ...]) -> tuple[Array, Array, RealCosts]:
    costs = RealCosts(tuple(scale)).check()
    original, paths = (jnp.asarray(x, jnp.result_type(float)) for x in (original, paths))
    size = len(costs.scale)
    if original.ndim != 2 or paths.ndim < 2 or not original.shape[-1] == paths.shape[-1] == size:
        raise UserError(
            f"paths: expected vectors of as many numbers as scale has, {size}, [n, {size}] and [..., T, {size}], got "
            f"{original.shape} and {paths.shape}"
        )
    return original, paths, costs


def relative_gap(reward: ArrayLike, optimum: ArrayLike) -> np.ndarray:
    """(R* - R) / |R*|, how far paths fall short of the certified optimum; 0 where no path meets the goal, R* = -inf."""
    reward, optimum = np.asarray(reward, float), np.asarray(optimum, float)
    possible = np.isfinite(optimum)
    best = np.where(possible, optimum, 1.0)
    return np.where(possible, best - reward, 0.0) / np.maximum(np.abs(best), 1e-12)


def diversity(
    paths: Paths,
    original: Int[np.ndarray, " R"],
    num_originals: int,
    costs: EditCosts | RealCosts = EditCosts(),
) -> Float[np.ndarray, " B"]:
    """The mean edit distance between any two of the R paths that answer the same of B originals; NaN where one does.

    Args:
        original: which original a path answers, in [0, B).
        costs: of an edit.
    """
    if np.unique(original).size == len(original):
        return np.full(num_originals, np.nan)
    groups = [np.flatnonzero(original == b) for b in range(num_originals)]
    pairs = [list(itertools.combinations(group, 2)) for group in groups]
    counts = np.array([len(group) for group in pairs])
    one, other = np.concatenate([np.reshape(group, (-1, 2)) for group in pairs]).astype(int).T
    symbols, lengths = jnp.asarray(paths.symbols), jnp.asarray(paths.lengths)
    both = symbols[one], lengths[one], symbols[other], lengths[other]
    distances = np.asarray(_between(*both, costs=costs), float)
    sums = np.bincount(np.repeat(np.arange(num_originals), counts), distances, num_originals)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@partial(jax.jit, static_argnames="costs")
def _from_one(original: Array, length: Array, paths: Array, lengths: Array, *, costs: RealCosts):
    return jax.vmap(partial(edit_distance.between, original, length, costs=costs))(paths, lengths)


@partial(jax.jit, static_argnames="costs")
def _between(*both: Array, costs: EditCosts | RealCosts) -> Num[Array, " P"]:
    return jax.vmap(partial(edit_distance.between, costs=costs))(*both)
