"""Finite worlds and originals as a planner over a path's own steps sees them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool

from pprjax.baselines.padded import Padded, padded
from pprjax.errors import UserError
from pprjax.finite_world import UNAVAILABLE, FiniteWorld, tabulate
from pprjax.paths import PAD, Paths
from pprjax.policy import TablePolicy
from pprjax.rollout import trace
from pprjax.successors import successors
from pprjax.task import Task


class Moves(NamedTuple):
    """What the actions of a world of N rows do in a plan, in which every path goes on."""

    next_state: Any  # int32[A, N], where they lead; where one is not available it stays
    reward: Any  # float[A, N]: 0 where a path stops, else -inf where an action is not available
    stops: Any  # bool[N], no action is available


def moves(world: FiniteWorld) -> Moves:
    next_state, reward = jnp.asarray(world.next_state).T, jnp.asarray(world.reward).T
    usable = next_state != UNAVAILABLE
    stops = ~usable.any(0)
    return Moves(
        next_state=jnp.where(usable, next_state, jnp.arange(len(stops), dtype=next_state.dtype)),
        reward=jnp.where(stops, 0.0, jnp.where(usable, reward, -jnp.inf)),
        stops=stops,
    )


@struct.dataclass
class Observed:
    """B originals as the world sees them, over T steps. PAD after the end, and everywhere where not valid."""

    states: Any  # int32[B, T + 1], in [0, N)
    actions: Any  # int32[B, T]
    valid: Any  # bool[B]
    symbols: Any  # int32[B, T + 1]


def deterministic_world(task: Task) -> FiniteWorld:
    if task.num_states is None:
        raise UserError("task.env: expected a finite world, one with `state_id` and `num_states`")
    # P_A has no part in this, so that it may well remember the path
    uniform = TablePolicy(jnp.full((task.num_states, task.num_actions), 1.0 / task.num_actions))
    return tabulate(task.replace(policy=uniform))


@jax.jit
def stochastic_world(task: Task) -> tuple[FiniteWorld, Padded] | None:
    """All states of a world, row i is state i, and where chance leads; for an agent that does one thing as likely as
    another. None where the world turns out to be deterministic."""
    chances = successors(task.env, task.params)
    if chances is None:
        return None
    if chances.by_step:
        raise UserError("task.params: expected the same chances at each step, for what was observed tells of the noise")
    table, ids = padded(chances), jnp.arange(chances.shape[0], dtype=jnp.int32)
    states = jax.vmap(lambda i: task.env.state_from_id(i, task.params))(ids)
    ended = jax.vmap(lambda state: task.env.is_terminated(state, task.params))(states)
    usable = jax.vmap(task.available)(states) & ~ended[:, None]
    likeliest = jnp.take_along_axis(table.states, table.probs.argmax(-1)[..., None], axis=-1)[..., 0]
    earned, actions = partial(task.step, jax.random.key(0)), jnp.arange(task.num_actions)
    world = FiniteWorld(
        next_state=jnp.where(usable, likeliest, UNAVAILABLE),
        reward=jax.vmap(lambda state: jax.vmap(lambda action: earned(state, action)[1])(actions))(states),
        habit=jnp.zeros(usable.shape),
        log_prob=jnp.full(usable.shape, -np.log(task.num_actions)),
        ended=ended,
        symbol=jax.vmap(task.symbol)(states),
        state_id=ids,
        states=states,
    )
    return world, _staying(table, ~usable.any(1))


def _staying(chances: Padded, stops: Bool[Array, " N"]) -> Padded:
    """The same chances, but for states that surely lead to themselves."""
    first = jnp.arange(chances.states.shape[-1]) == 0
    here = jnp.arange(len(stops), dtype=jnp.int32)[:, None, None]
    stay = stops[:, None, None]
    return Padded(
        jnp.where(stay, here, chances.states), jnp.where(stay, first.astype(chances.probs.dtype), chances.probs)
    )


def observed_in_deterministic(task: Task, world: FiniteWorld, originals: Paths) -> Observed:
    """The originals of a deterministic world, with their actions where these were not given."""
    original = jax.device_get(_traces(task, originals.symbols, originals.lengths, originals.actions))
    lengths = np.asarray(originals.lengths)
    valid = original.followed & (lengths - 1 <= task.horizon)
    width = originals.symbols.shape[1] - 1
    actions = np.full((len(lengths), width), PAD, np.int32)
    kept = min(width, original.actions.shape[1])
    actions[:, :kept] = np.where(valid[:, None], original.actions[:, :kept], PAD)
    states, next_state = [np.zeros(len(lengths), np.int32)], np.asarray(moves(world).next_state)
    for t in range(width):
        states.append(np.where(actions[:, t] == PAD, PAD, next_state[actions[:, t], states[-1]]))
    return Observed(
        states=np.stack(states, axis=1), actions=actions, valid=valid, symbols=np.asarray(originals.symbols)
    )


@jax.jit
def _traces(task: Task, symbols, lengths, actions):
    key = jax.random.key(0)
    return jax.vmap(lambda symbols, length, actions: trace(task, symbols, length, key, actions))(
        symbols, lengths, actions
    )


def observed_in_stochastic(task: Task, world: FiniteWorld, chances: Padded, originals: Paths) -> Observed:
    """The originals of a stochastic world: each symbol is a state, and each transition must have a chance."""
    if originals.actions is None:
        raise UserError("originals: expected actions, which a stochastic world does not give away; got none")
    symbols, actions = np.asarray(originals.symbols), np.asarray(originals.actions)
    symbol, next_state, leads, probs = map(np.asarray, (world.symbol, world.next_state, chances.states, chances.probs))
    order = np.argsort(symbol)
    states = order[np.minimum(np.searchsorted(symbol, symbols, sorter=order), len(order) - 1)].astype(np.int32)
    lengths = np.asarray(originals.lengths)[:, None]
    on_path = np.arange(symbols.shape[1]) < lengths
    known = (symbol[states] == symbols) | ~on_path
    here, present, taken = states[:, :-1], states[:, 1:], np.clip(actions, 0, task.num_actions - 1)
    possible = ((leads[here, taken] == present[..., None]) & (probs[here, taken] > 0)).any(-1)
    possible &= (taken == actions) & (next_state[here, taken] != UNAVAILABLE)
    valid = known.all(1) & (possible | ~on_path[:, 1:]).all(1) & (lengths[:, 0] - 1 <= task.horizon)
    return Observed(
        states=np.where(on_path & valid[:, None], states, PAD),
        actions=np.where(on_path[:, 1:] & valid[:, None], actions, PAD),
        valid=valid,
        symbols=symbols,
    )
