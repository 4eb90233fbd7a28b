"""The best path for each number of edits, as it is kept while paths are found: what a `Frontier` is made of."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax import metrics
from pprjax.metrics import Scores
from pprjax.paths import PAD, Paths
from pprjax.result import Frontier
from pprjax.task import Task


@struct.dataclass
class Ladder:
    """The best complete path for each distance e = 0 … E - 1. It meets the goal and keeps the constraints."""

    value: jax.Array  # float[E], v = R_goal + λ_policy·R_policy; -inf where none was found
    goal: jax.Array  # float[E], R_goal
    r_policy: jax.Array  # float[E], R_policy
    log_prob: jax.Array  # float[E], Σ log P_A
    reached: jax.Array  # bool[E], the world's own goal is reached
    terminated: jax.Array  # bool[E], ended by the world and not by the horizon or a dead end
    symbols: jax.Array  # int32[E, T + 1], PAD after the end
    actions: jax.Array  # int32[E, T], PAD after the end


def empty(task: Task, num_distances: int) -> Ladder:
    """What is known before the search: no path."""
    zeros, no = jnp.zeros(num_distances, jnp.result_type(float)), jnp.zeros(num_distances, bool)
    return Ladder(
        value=zeros - jnp.inf,
        goal=zeros,
        r_policy=zeros,
        log_prob=zeros,
        reached=no,
        terminated=no,
        symbols=jnp.full((num_distances, task.horizon + 1), PAD, jnp.int32),
        actions=jnp.full((num_distances, task.horizon), PAD, jnp.int32),
    )


def extend(ladder: Ladder, paths: Ladder, distance: Int[Array, " N"]) -> Ladder:
    """The ladder after N paths at these distances; v is -inf of those that do not count. Of equals the older stays."""
    each = jnp.where(distance == jnp.arange(len(ladder.value))[:, None], paths.value, -jnp.inf)  # [E, N]
    first = jnp.argmax(each, axis=1)
    value = jnp.take_along_axis(each, first[:, None], axis=1)[:, 0]
    better = value > ladder.value

    def choose(new, old):
        return jnp.where(better.reshape(-1, *[1] * (old.ndim - 1)), new[first], old)

    return jax.tree.map(choose, paths, ladder).replace(value=jnp.where(better, value, ladder.value))


def frontier(
    ladder: Ladder,
    originals: Paths,
    *,
    goal: Any,
    limit: Float[np.ndarray, "B E"],
    original_goal: Float[np.ndarray, " B"],
    lambda_policy: Any,
    answered_by: str,
) -> Frontier:
    """The frontier of B originals from their ladders, whose leading axis is B.

    Args:
        goal: the task's; None: it has none.
        limit: no path of at most e edits has a larger v; inf: not known.
        answered_by: the method.
    """
    ladder = jax.tree.map(np.asarray, ladder)
    value = np.asarray(ladder.value)
    path, distance = np.nonzero(value > tolerated(_below(value)))
    at = jax.tree.map(lambda x: x[path, distance], ladder)
    num_actions = (at.actions != PAD).sum(1).astype(np.int32)
    return Frontier(
        originals=originals,
        path=path.astype(np.int32),
        distance=distance.astype(np.int32),
        value=at.value.astype(float),
        bound=np.maximum(limit[path, distance], at.value).astype(float),
        paths=Paths(at.symbols, num_actions + 1, at.actions),
        scores=Scores(
            goal=at.goal,
            path=1.0 / (distance + 1.0),
            r_policy=at.r_policy,
            policy=at.log_prob / np.maximum(num_actions, 1),
            distance=distance.astype(np.int32),
            violations=np.zeros(len(path), np.int32),
        ),
        status=metrics.status(
            distance=distance,
            reached=at.reached,
            terminated=at.terminated,
            met=None if goal is None else np.ones(len(path), bool),
        ),
        answered_by=np.full(len(originals), answered_by),
        limit=limit.astype(float),
        original_goal=np.asarray(original_goal, float),
        lambda_policy=np.broadcast_to(np.asarray(lambda_policy, float), len(originals)),
    )


def _below(value: Float[np.ndarray, "B E"]) -> Float[np.ndarray, "B E"]:
    """The best v of fewer than e edits."""
    none = np.full((len(value), 1), -np.inf)
    return np.concatenate([none, np.maximum.accumulate(value, axis=1)[:, :-1]], axis=1)


def tolerated(value: Any) -> Any:
    """What a v must exceed to be larger than this one, by more than rounding can tell: a millionth of its size."""
    xp: Any = jnp if isinstance(value, jax.Array) else np
    return value + 1e-6 * (1.0 + xp.where(xp.isfinite(value), abs(value), 0.0))
