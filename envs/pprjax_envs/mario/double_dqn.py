"""Double DQN on the steps that a player has taken: the steps as arrays, and the updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.learn import learner
from pprjax.learn.replay import Tuples
from pprjax_envs.mario.explorer import DONE, Nodes
from pprjax_envs.mario.table import reached

SCALE = 0.1
"""Rewards are multiplied by it: a coin is 10, what Huber loss and Adam's step are made for."""


@dataclasses.dataclass(frozen=True)
class Training:
    """How a player is trained: rounds of games played, each followed by updates on all steps that it has taken."""

    rounds: int = 12
    num_paths: int = 24  # games of a round, side by side
    updates: int = 1500  # of a round; ten times as many after the last
    batch_size: int = 256
    gamma: float = 0.9
    learning_rate: float = 1e-3
    target_period: int = 100  # updates between synchronizations of the target network
    epsilon_start: float = 1.0  # chance of an even action, falling linearly over the rounds
    epsilon_end: float = 0.1
    temperature: float = 5.0  # of the softmax, in units of reward: a twentieth of a coin
    width: int = 128
    depth: int = 1  # hidden layers


PIXELS = Training(rounds=8, updates=100, batch_size=32, learning_rate=2.5e-4)
"""For the view "pixels": an update of the convolutions takes some fifty milliseconds on two cores."""


def check(training: Training) -> Training:
    """The same, or a ValueError that names the setting that is out of range."""
    for name in ("rounds", "num_paths", "updates", "batch_size", "target_period", "width"):
        if getattr(training, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {getattr(training, name)}")
    for name in ("learning_rate", "temperature"):
        if not getattr(training, name) > 0:
            raise ValueError(f"{name}: expected a number above 0, got {getattr(training, name)}")
    for name in ("gamma", "epsilon_start", "epsilon_end"):
        if not 0 <= getattr(training, name) <= 1:
            raise ValueError(f"{name}: expected a number in [0, 1], got {getattr(training, name)}")
    return training


@struct.dataclass
class Steps:
    """M steps between N states, padded so that few programs are compiled."""

    features: jax.Array  # float[N', F]; or uint8[N', 84, 84], pictures
    stack: jax.Array | None  # int32[N', 3], the states whose pictures are observed; None with features
    tried: jax.Array  # bool[N', A]
    before: jax.Array  # int32[M'], a state
    action: jax.Array  # int32[M']
    after: jax.Array  # int32[M'], a state
    reward: jax.Array  # float[M']
    last: jax.Array  # bool[M'], nothing follows
    count: jax.Array  # int32[], M


def steps_of(nodes: Nodes, taken: Sequence[tuple[int, int]], coin_reward: float, goal_x: int) -> Steps:
    """These steps (node, action), without those from beyond the goal, and their states numbered as they appear.

    No value of a step depends on what else was explored, or in which order.
    """
    over = reached(nodes, goal_x) | (nodes.flags & DONE > 0)
    before, action = np.array([step for step in taken if not over[step[0]]], np.int64).reshape(-1, 2).T
    after = nodes.following[before, action]
    shown = nodes.stack(np.stack([before, after], 1).ravel()) if nodes.pictures else np.stack([before, after], 1)
    states, first = np.unique(shown, return_index=True)
    states = states[np.argsort(first)]
    number = np.full(len(nodes.x), -1, np.int32)
    number[states] = np.arange(len(states))
    tried = np.zeros((len(states), nodes.following.shape[1]), bool)
    tried[number[before], action] = True

    def padded(x):
        size = 4 ** max(7, int(np.ceil(np.log(len(x)) / np.log(4))))
        return jnp.asarray(np.concatenate([x, np.zeros((size - len(x), *x.shape[1:]), x.dtype)]))

    return Steps(
        features=padded(nodes.frames(states) if nodes.pictures else nodes.features[states]),
        stack=padded(number[nodes.stack(states)]) if nodes.pictures else None,
        tried=padded(tried),
        before=padded(number[before]),
        action=padded(action.astype(np.int32)),
        after=padded(number[after]),
        reward=padded((nodes.reward + coin_reward * nodes.coins)[before, action].astype(np.float32)),
        last=padded(over[after] | ~tried[number[after]].any(1)),
        count=jnp.int32(len(before)),
    )


def fit(network: Any, params: Any, steps: Steps, training: Training, key: jax.Array, *, final: bool = False) -> Any:
    """The weights after `training.updates` minibatches of these steps, or ten times as many where they are `final`.

    Adam, its step falling linearly to a twentieth where the updates are final, on the Huber loss of the learner's
    double-DQN error.
    """
    num = training.updates * (10 if final else 1)
    rates = training.learning_rate * np.linspace(1.0, 0.05 if final else 1.0, num, dtype=np.float32)
    return _fit(network, params, steps, training, key, jnp.asarray(rates))


@partial(jax.jit, static_argnames=("network", "training"))
def _fit(network: Any, params: Any, steps: Steps, training: Training, key: jax.Array, rates: Array) -> Any:
    adam = optax.scale_by_adam()

    def update(carry, inputs):
        params, target, optimizer = carry
        number, rate = inputs
        chosen = jax.random.randint(jax.random.fold_in(key, number), (training.batch_size,), 0, steps.count)
        tuples = _tuples(steps, chosen)

        def loss(params):
            error = learner.td_error(
                network,
                params,
                target,
                tuples,
                target="td",
                double=True,
                gamma=training.gamma,
                scale=SCALE,
                penalty=0.0,
            )
            return jnp.mean(optax.huber_loss(error))

        direction, optimizer = adam.update(jax.grad(loss)(params), optimizer)
        params = jax.tree.map(lambda p, u: p - rate * u, params, direction)
        sync = (number + 1) % training.target_period == 0
        target = jax.tree.map(lambda new, old: jnp.where(sync, new, old), params, target)
        return (params, target, optimizer), None

    start = params, params, adam.init(params)
    (params, _, _), _ = jax.lax.scan(update, start, (jnp.arange(len(rates)), rates))
    return params


def _tuples(steps: Steps, chosen: Int[Array, " M"]) -> Tuples:
    after, last = steps.after[chosen], steps.last[chosen]
    nothing = jnp.zeros_like(chosen)
    return Tuples(
        observation_tm1=_observation(steps, steps.before[chosen]),
        position_tm1=nothing,
        time_tm1=nothing,
        action_tm1=steps.action[chosen],
        reward_t=steps.reward[chosen],
        return_t=steps.reward[chosen],
        observation_t=_observation(steps, after),
        position_t=nothing,
        available_t=steps.tried[after],
        to_go=jnp.where(last, 0, 1),
        missed=jnp.zeros_like(last),
        weight=jnp.ones_like(steps.reward[chosen]),
        place=nothing,
    )


def _observation(steps: Steps, at: Int[Array, " M"]) -> Float[Array, "M ..."]:
    if steps.stack is None:
        return steps.features[at]
    return steps.features[steps.stack[at]].astype(jnp.float32) / 255
