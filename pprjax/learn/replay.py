"""Replay: the tuples that Q is trained on, kept as whole paths in a ring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.rollout import Trajectory

PRIORITY_EXPONENT = 0.6
"""α of prioritized replay (Schaul et al. 2016)."""

IMPORTANCE_EXPONENT = 0.4
"""β of prioritized replay (Schaul et al. 2016)."""


@struct.dataclass
class Replay:
    """P paths of at most T actions. Empty places have num_actions 0."""

    observations: jax.Array  # [P, T + 1, ...]
    available: Any  # bool[P, T + 1, A]; None where the task `recalls`
    positions: jax.Array  # int32[P, T + 1]
    actions: jax.Array  # int32[P, T]
    rewards: jax.Array  # float[P, T]
    num_actions: jax.Array  # int32[P]
    met: jax.Array  # bool[P]
    priorities: jax.Array | None  # float[P, T] with prioritized replay


@struct.dataclass
class Tuples:
    """M transitions; `tm1` is before the action, `t` after it."""

    observation_tm1: jax.Array
    position_tm1: jax.Array
    time_tm1: jax.Array
    action_tm1: jax.Array
    reward_t: jax.Array
    return_t: jax.Array  # the discounted return from here to the end of the path
    observation_t: jax.Array
    position_t: jax.Array
    available_t: Any  # bool[A], None where the task `recalls`
    to_go: jax.Array  # int32, actions from t to the end of the path
    missed: jax.Array  # bool, the path misses the goal
    weight: jax.Array  # of the loss
    place: jax.Array  # int32, path·T + step


def empty(like: Trajectory, num_paths: int, *, prioritized: bool) -> Replay:
    """A ring for num_paths paths shaped like `like`, which has no leading axis."""

    def zeros(x):
        return jnp.zeros((num_paths, *x.shape), x.dtype)

    return Replay(
        observations=zeros(like.observations),
        available=jax.tree.map(zeros, like.available),
        positions=zeros(like.positions),
        actions=zeros(like.actions),
        rewards=zeros(like.rewards),
        num_actions=zeros(like.num_actions),
        met=zeros(like.met),
        priorities=zeros(like.rewards) if prioritized else None,
    )


def store(replay: Replay, lanes: Trajectory, iteration: Int[Array, ""]) -> Replay:
    """The ring after the k paths of `lanes` (a leading axis of k) took the place of the oldest."""
    k = lanes.num_actions.shape[0]
    begin = iteration % (replay.num_actions.shape[0] // k) * k

    def put(ring, new):
        return jax.lax.dynamic_update_slice_in_dim(ring, new.astype(ring.dtype), begin, 0)

    priorities = replay.priorities
    if priorities is not None:
        fresh = jnp.maximum(priorities.max(), 1.0)
        taken = jnp.arange(lanes.rewards.shape[1]) < lanes.num_actions[:, None]
        priorities = put(priorities, jnp.where(taken, fresh, 0.0))
    return Replay(
        observations=put(replay.observations, lanes.observations),
        available=jax.tree.map(put, replay.available, lanes.available),
        positions=put(replay.positions, lanes.positions),
        actions=put(replay.actions, jnp.maximum(lanes.actions, 0)),
        rewards=put(replay.rewards, lanes.rewards),
        num_actions=put(replay.num_actions, lanes.num_actions),
        met=put(replay.met, lanes.met),
        priorities=priorities,
    )


def sample(replay: Replay, uniform: Float[Array, " M"], gamma: Float[Array, ""] | float) -> Tuples:
    """M tuples, evenly over all in the ring, or in proportion to their priorities to the power α."""
    num_paths, horizon = replay.actions.shape
    if replay.priorities is None:
        ends = jnp.cumsum(replay.num_actions)
        chosen = jnp.minimum((uniform * ends[-1]).astype(jnp.int32), ends[-1] - 1)
        path = jnp.minimum(jnp.searchsorted(ends, chosen, side="right"), num_paths - 1).astype(jnp.int32)
        step = chosen - (ends[path] - replay.num_actions[path])
        weight = jnp.ones_like(uniform)
    else:
        mass = jnp.where(replay.priorities > 0, replay.priorities, 0.0).ravel() ** PRIORITY_EXPONENT
        ends = jnp.cumsum(mass)
        place = jnp.searchsorted(ends, uniform * ends[-1], side="right").astype(jnp.int32)
        path, step = jnp.divmod(jnp.minimum(place, num_paths * horizon - 1), horizon)
        prob = mass[path * horizon + step] / ends[-1]
        weight = (replay.num_actions.sum() * prob) ** -IMPORTANCE_EXPONENT
        weight = weight / weight.max()
    powers = gamma ** jnp.arange(horizon)
    ahead = jnp.clip(step[:, None] + jnp.arange(horizon), 0, horizon - 1)
    inside = step[:, None] + jnp.arange(horizon) < replay.num_actions[path][:, None]
    returns = jnp.sum(jnp.where(inside, powers * replay.rewards[path[:, None], ahead], 0.0), axis=1)
    return Tuples(
        observation_tm1=replay.observations[path, step],
        position_tm1=replay.positions[path, step],
        time_tm1=step,
        action_tm1=replay.actions[path, step],
        reward_t=replay.rewards[path, step],
        return_t=returns,
        observation_t=replay.observations[path, step + 1],
        position_t=replay.positions[path, step + 1],
        available_t=jax.tree.map(lambda x: x[path, step + 1], replay.available),
        to_go=replay.num_actions[path] - step - 1,
        missed=~replay.met[path],
        weight=weight,
        place=path * horizon + step,
    )


def reprioritize(replay: Replay, place: Int[Array, " M"], td_error: Float[Array, " M"]) -> Replay:
    """The ring with the priorities of these tuples set to |TD error|; unchanged without prioritized replay."""
    if replay.priorities is None:
        return replay
    flat = replay.priorities.ravel().at[place].set(jnp.abs(td_error) + 1e-3)
    return replace(replay, priorities=flat.reshape(replay.priorities.shape))
