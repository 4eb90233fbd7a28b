"""The best paths for each number of edits, as they are kept while paths are found: what a `Frontier` is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax import edit_distance
from pprjax.edit_distance import EditCosts, RealCosts
from pprjax.objective import Objective
from pprjax.paths import PAD, Paths, fill_of
from pprjax.result import Frontier
from pprjax.tally import Tally, frontier_of
from pprjax.task import Task


@dataclass(frozen=True)
class Wanted:
    """What is kept of the paths that are found, beside the best."""

    n_recourses: int = 1
    min_distance: int = 1  # δ between any two of them
    num_distances: int = 0  # E of the ladder; 0: no frontier is wanted
    runs: int = 0  # fresh runs of the policy that is learned; 0: how reliable it is need not be known


@struct.dataclass
class Ladder:
    """The best complete path for each distance e = 0 … E - 1. It meets the goal and keeps the constraints.

    Where symbols are vectors, that is each e ≤ d < e + 1; at one λ_path v is then lower by λ_path / (e + 1) -
    λ_path / (d + 1), so that v + λ_path / (e + 1) is R.

    Where n > 1 are wanted of each distance, after E comes an axis of 2n places: the best first, any two δ edits apart.
    """

    value: jax.Array  # float[E], v = R_goal + λ_policy·R_policy; -inf where none was found
    goal: jax.Array  # float[E], R_goal
    r_policy: jax.Array  # float[E], R_policy
    log_prob: jax.Array  # float[E], Σ log P_A
    reached: jax.Array  # bool[E], the world's own goal is reached
    terminated: jax.Array  # bool[E], ended by the world and not by the horizon or a dead end
    symbols: jax.Array  # int32[E, T + 1], PAD after the end; or float32[E, T + 1, k], inf after it
    actions: jax.Array  # int32[E, T], PAD after the end
    distance: jax.Array | None = None  # float[E], d where symbols are vectors; None: it is e
    min_distance: jax.Array | None = None  # int32[], δ; None where one path of each distance is enough

    @property
    def first(self) -> Any:
        """F(e), v of the best path for each distance: float[E]."""
        return self.value if self.min_distance is None else self.value[..., 0]


def empty(task: Task, wanted: Wanted) -> Ladder:
    """What is known before the search: no path. Twice as many places as recourses are wanted, since a path that comes
    may be near one that stays, and then the next one takes its place."""
    several = wanted.n_recourses > 1
    shape = (wanted.num_distances, 2 * wanted.n_recourses) if several else (wanted.num_distances,)
    zeros, no = jnp.zeros(shape, jnp.result_type(float)), jnp.zeros(shape, bool)
    symbol = task.symbol_type
    return Ladder(
        value=zeros - jnp.inf,
        goal=zeros,
        r_policy=zeros,
        log_prob=zeros,
        reached=no,
        terminated=no,
        symbols=jnp.full((*shape, task.horizon + 1, *symbol.shape), fill_of(symbol), symbol.dtype),
        actions=jnp.full((*shape, task.horizon), PAD, jnp.int32),
        distance=zeros if symbol.shape else None,
        min_distance=jnp.int32(wanted.min_distance) if several else None,
    )


def extend(
    ladder: Ladder, paths: Ladder, distance: Int[Array, " N"], apart: EditCosts | RealCosts = EditCosts()
) -> Ladder:
    """The ladder after N paths at these e; v is -inf of those that do not count. Of equals the older stays.

    Args:
        apart: what δ counts.
    """
    if ladder.min_distance is not None:
        return _extend_each(ladder, paths, distance, ladder.min_distance, apart)
    each = jnp.where(distance == jnp.arange(len(ladder.value))[:, None], paths.value, -jnp.inf)  # [E, N]
    first = jnp.argmax(each, axis=1)
    value = jnp.take_along_axis(each, first[:, None], axis=1)[:, 0]
    better = value > ladder.value

    def choose(new, old):
        return jnp.where(better.reshape(-1, *[1] * (old.ndim - 1)), new[first], old)

    return jax.tree.map(choose, paths, ladder).replace(value=jnp.where(better, value, ladder.value))


def _extend_each(
    ladder: Ladder,
    paths: Ladder,
    distance: Int[Array, " N"],
    min_distance: Int[Array, ""],
    costs: EditCosts | RealCosts,
) -> Ladder:
    """Of each distance the best path is kept, and what is less than δ from it is dropped; then the best of the rest,
    and so on."""
    num_distances, places = ladder.value.shape
    old = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), replace(ladder, min_distance=None))
    pool = jax.tree.map(lambda *parts: jnp.concatenate(parts), old, paths)
    rung = jnp.append(jnp.repeat(jnp.arange(num_distances), places), distance)
    own, lengths = rung == jnp.arange(num_distances)[:, None], (pool.actions != PAD).sum(1) + 1
    between = jax.vmap(partial(edit_distance.between, costs=costs))

    def pick(value, _):
        first = jnp.argmax(jnp.where(own, value, -jnp.inf), axis=1)
        rival = first[rung.clip(max=num_distances - 1)]
        apart = between(pool.symbols[rival], lengths[rival], pool.symbols, lengths)
        best = jnp.max(jnp.where(own, value, -jnp.inf), axis=1)
        return jnp.where(apart >= min_distance, value, -jnp.inf), (first, best)

    _, (order, value) = jax.lax.scan(pick, pool.value, length=places)
    kept = jax.tree.map(lambda x: x[order.T], pool)
    return replace(kept, value=value.T, min_distance=min_distance)


@struct.dataclass
class Points:
    """What is known of B originals, for e = 0 … E - 1. Arrays on the host."""

    best: Ladder  # leading axis of B
    limit: np.ndarray  # float[B, E], no path of at most e edits has a larger v; inf where nothing is known
    unseen: np.ndarray  # float[B, E], no path of e edits that was not seen and may be among the n best has a larger v
    calls: np.ndarray  # int[B], steps of the world
    original_goal: np.ndarray  # float[B], R_goal of the original; -inf where the world can't follow it


def frontier(
    points: Points,
    originals: Paths,
    objective: Objective,
    *,
    goal: Any,
    answered_by: str,
) -> Frontier:
    """The frontier of B originals, and beside each of its paths the next best of as many edits, where they are wanted.

    Args:
        goal: the task's; None: it has none.
        answered_by: the method.
    """
    value, first = np.asarray(points.best.value), np.asarray(points.best.first)
    rises = first > tolerated(_below(first))
    if value.ndim == 3:
        value = value[..., : value.shape[2] // 2]
        rises = rises[..., None] & (value > -np.inf)
    return listed(points, originals, objective, np.nonzero(rises), goal=goal, answered_by=answered_by)


def listed(
    points: Points,
    originals: Paths,
    objective: Objective,
    rows: tuple[Int[np.ndarray, " F"], ...],
    *,
    goal: Any,
    answered_by: str,
) -> Frontier:
    """These rows of the ladders: original, e, and place where there is more than one."""
    path, rung, *place = rows
    chosen = jax.tree.map(lambda x: np.asarray(x)[rows], replace(points.best, min_distance=None))
    num_actions = (chosen.actions != PAD).sum(1).astype(np.int32)
    bound = np.minimum(points.limit, points.unseen)[path, rung] if place else points.limit[path, rung]
    distance, value = rung.astype(np.int32), chosen.value
    if chosen.distance is not None:
        distance, value = chosen.distance, objective.of(path).value(chosen.goal, chosen.r_policy)
    found = Tally(
        index=path,
        paths=Paths(chosen.symbols, num_actions + 1, chosen.actions),
        value=value,
        goal=chosen.goal,
        r_policy=chosen.r_policy,
        log_prob=chosen.log_prob,
        distance=distance,
        reached=chosen.reached,
        terminated=chosen.terminated,
        met=None if goal is None else np.ones(len(path), bool),
    )
    return frontier_of(
        found,
        originals,
        objective,
        rank=place[0] + 1 if place else None,
        bound=bound,
        limit=points.limit,
        original_goal=points.original_goal,
        answered_by=answered_by,
    )


def _below(value: Float[np.ndarray, "B E"]) -> Float[np.ndarray, "B E"]:
    """The best v of fewer than e edits."""
    none = np.full((len(value), 1), -np.inf)
    return np.concatenate([none, np.maximum.accumulate(value, axis=1)[:, :-1]], axis=1)


def tolerated(value: Any) -> Any:
    """What a v must exceed to be larger than this one, by more than rounding can tell: a millionth of its size."""
    xp: Any = jnp if isinstance(value, jax.Array) else np
    return value + 1e-6 * (1.0 + xp.where(xp.isfinite(value), abs(value), 0.0))
