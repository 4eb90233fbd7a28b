"""Two players of Mario: one who likes coins and one who avoids them, trained by double DQN."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import rlax
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.config import Config
from pprjax.learn import learner
from pprjax.learn.networks import QNetwork
from pprjax.learn.replay import Tuples
from pprjax.policy import Carry, TablePolicy, softmax
from pprjax.rollout import Behaviour, rollout, trace
from pprjax.task import Task
from pprjax_envs import weights
from pprjax_envs.mario.explorer import DONE, ROOT, Nodes
from pprjax_envs.mario.table import MarioTable, reached
from pprjax_envs.mario.world import MarioEnv, MarioState, always_right

COIN_REWARDS = {"seeker": 100.0, "dodger": -100.0}
"""What a coin is worth to either player, on top of the game's own reward."""

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


class PixelNetwork(nn.Module):
    """Q of three pictures of 84×84: three convolutions and two layers, as in PyTorch's Mario tutorial."""

    num_actions: int

    @nn.compact
    def __call__(self, observation: Array, position: Array, time: Array, action: Array | None = None) -> Array:
        """Pixels of [3, 84, 84] in [0, 1]. Q of all actions, or of one; it sees neither position nor time."""
        del position, time
        x = jnp.moveaxis(observation, 0, -1)
        for channels, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = nn.relu(nn.Conv(channels, (size, size), (stride, stride), padding="VALID")(x))
        values = nn.Dense(self.num_actions)(nn.relu(nn.Dense(512)(x.ravel())))
        return values if action is None else values[action]


@struct.dataclass
class NetworkPolicy:
    """P_A(s, a) ∝ exp(Q(s, a) / temperature), with Q a network of what the environment observes."""

    params: Any
    temperature: jax.Array  # float[], in units of reward
    epsilon: jax.Array  # float[], the chance of an even action
    env: MarioEnv = struct.field(pytree_node=False)
    network: Any = struct.field(pytree_node=False)

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: MarioState) -> tuple[Carry, Float[Array, " A"]]:
        return carry, self.log_probs(self.env.observe(jax.random.key(0), state, None, self.env.default_params))

    def values(self, observation: Float[Array, "..."]) -> Float[Array, " A"]:
        """Q(s, ·), in units of reward."""
        zero = jnp.int32(0)
        return self.network.apply(self.params, observation, zero, zero) / SCALE

    def log_probs(self, observation: Float[Array, "..."]) -> Float[Array, " A"]:
        """log P_A(s, ·)."""
        greedy = jax.nn.log_softmax(self.values(observation) / self.temperature)
        even = -jnp.log(float(self.network.num_actions))
        return jnp.logaddexp(greedy + jnp.log1p(-self.epsilon), even + jnp.log(self.epsilon))

    def table(self, world: MarioTable) -> TablePolicy:
        """The same policy over the states of the explored part."""
        blocks = []
        for low in range(0, world.num_states, _BLOCK):
            ids = np.minimum(np.arange(low, low + _BLOCK), world.num_states - 1)
            blocks.append(np.asarray(_probs(self, jnp.asarray(_observed(world.nodes, ids)))))
        return TablePolicy(jnp.asarray(np.concatenate(blocks)[: world.num_states]))


_BLOCK = 1024  # states whose policy is computed at once


@jax.jit
def _probs(policy: NetworkPolicy, observations: Float[Array, "S ..."]) -> Float[Array, "S A"]:
    return jnp.exp(jax.vmap(policy.log_probs)(observations))


def _observed(nodes: Nodes, ids: Int[np.ndarray, " S"]) -> Float[np.ndarray, "S ..."]:
    """What is observed in these states: pictures where there are any, else features."""
    return nodes.observations(ids).astype(np.float32) / 255 if nodes.pictures else nodes.features[ids]


def train(env: MarioEnv, player: str, training: Training | None = None, *, seed: int = 0) -> NetworkPolicy:
    """A player, trained in the game by double DQN; whatever it finds there the environment remembers.

    Each round plays games by the player's own softmax policy, with a falling share of even actions, and then updates Q
    on steps drawn evenly from all that this player has taken, always walking right among them. The error is the
    learner's (`td_error`); the next action is the best of those that it tried. What others explored makes it faster
    and changes nothing.

    Args:
        player: "seeker" or "dodger".
        training: default `Training()`, or `PIXELS` where the environment shows pixels.
        seed: of the network, the games and the updates.

    Raises:
        ValueError: there is no such player, or a setting is out of range.
    """
    training = _settings(env, training)
    coin_reward = _coin_reward(player)
    policy = untrained(env, training, seed=seed)
    key_play, key_fit = jax.random.split(jax.random.key(seed))
    original = always_right(env)
    path, taken = (
        jax.tree.map(jnp.asarray, original),
        _taken(env, np.array(original.actions_to_lists()), original.lengths - 1),
    )
    goal_x = int(env.default_params.goal_x)
    for number, epsilon in enumerate(np.linspace(training.epsilon_start, training.epsilon_end, training.rounds)):
        key = jax.random.fold_in(key_play, number)
        played = dataclasses.replace(policy, epsilon=jnp.float32(epsilon))
        games = _games(Task(env, played), path, key, num=training.num_paths)
        actions, counts = np.asarray(games.actions), np.asarray(games.num_actions)
        env.check()
        taken |= _taken(env, actions, counts)
        steps = steps_of(env.explorer.nodes, list(taken), coin_reward, goal_x)
        last = number == training.rounds - 1
        key = jax.random.fold_in(key_fit, number)
        params = fit(policy.network, policy.params, steps, training, key, final=last)
        policy = dataclasses.replace(policy, params=params)
    return policy


def untrained(env: MarioEnv, training: Training | None = None, *, seed: int = 0) -> NetworkPolicy:
    """A player as it is before its training."""
    training = _settings(env, training)
    if env.view == "pixels":
        network = PixelNetwork(env.num_actions)
    else:
        network = QNetwork(
            num_actions=env.num_actions,
            num_states=None,
            num_positions=1,
            num_times=1,
            width=training.width,
            depth=training.depth,
            alignment_aware=False,
        )
    observation, zero = jnp.zeros(env.observation_space().shape), jnp.int32(0)
    return NetworkPolicy(
        params=network.init(jax.random.key(seed), observation, zero, zero),
        temperature=jnp.float32(training.temperature),
        epsilon=jnp.float32(0),
        env=env,
        network=network,
    )


def trained(
    env: MarioEnv,
    player: str,
    training: Training | None = None,
    *,
    seed: int = 0,
    folder: str | os.PathLike | None = None,
) -> tuple[NetworkPolicy, bool]:
    """What `train` gives, read back if it was trained before on this game with these settings; and whether it was."""
    training = _settings(env, training)
    what = (env.game, env.default_params, player, training, seed)
    name = f"mario-{player}-{weights.digest(*map(repr, what))}"
    make = partial(train, env, player, training, seed=seed)
    return weights.remembered(name, make, like=partial(untrained, env, training), folder=folder)


def planner(
    world: MarioTable, player: str, *, temperature: float = Training.temperature, gamma: float = Training.gamma
) -> TablePolicy:
    """The player who knows the explored part by heart: P_A(s, a) ∝ exp(Q(s, a) / temperature), with the exact Q there.

    Q(s, a) = r + coin_reward·coins + γ·max Q(s', ·), without a horizon, on the steps that were explored; where none was
    all actions are alike.
    """
    nodes = world.nodes
    reward = nodes.reward + _coin_reward(player) * nodes.coins
    tried = nodes.following >= 0
    q, values, before = reward, np.zeros(world.num_states), None
    while before is None or np.abs(values - before).max() > 1e-3:
        before = values
        q = np.where(tried, reward + gamma * values[nodes.following], -np.inf)
        values = np.where(tried.any(1), q.max(1), 0.0)
    shown = jnp.asarray(np.where(tried, q, 0.0), jnp.float32)
    available = tried | ~tried.any(1, keepdims=True)
    return TablePolicy(softmax(shown, temperature=temperature, available=jnp.asarray(available)))


@partial(jax.jit, static_argnames="num")
def _games(task: Task, path: Any, key: jax.Array, *, num: int) -> Any:
    """`num` games by the task's policy."""
    original = trace(task, path.symbols[0], path.lengths[0], key, path.actions[0])
    lanes = Behaviour(
        forced=jnp.full((num, task.horizon), -1, jnp.int32),
        explore=jnp.ones((num, task.horizon), bool),
        from_policy=jnp.ones(num, bool),
        uniform=jax.random.uniform(key, (num, task.horizon)),
    )
    keys = jax.random.split(key, num)
    return jax.vmap(lambda lane, k: rollout(task, original, lane, Config(), k))(lanes, keys)


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


def _taken(
    env: MarioEnv, actions: Int[np.ndarray, "G T"], counts: Int[np.ndarray, " G"]
) -> dict[tuple[int, int], None]:
    """The different steps (node, action) of G games, in the order in which they are first taken."""
    nodes, taken = np.full(len(actions), ROOT), {}
    for t, column in enumerate(actions.T):
        acts = np.where(t < counts, column, -1)
        taken |= dict.fromkeys((int(n), int(a)) for n, a in zip(nodes, acts, strict=True) if a >= 0)
        nodes = env.explorer.step(nodes, acts).node
    return taken


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
            return jnp.mean(rlax.huber_loss(error))

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


def _settings(env: MarioEnv, training: Training | None) -> Training:
    """The training, by default that of the environment's view; every setting in its range."""
    if training is None:
        training = PIXELS if env.view == "pixels" else Training()
    _check(training)
    return training


def _coin_reward(player: str) -> float:
    if player not in COIN_REWARDS:
        raise ValueError(f"player: expected one of {', '.join(COIN_REWARDS)}, got {player!r}")
    return COIN_REWARDS[player]


def _check(training: Training) -> None:
    for name in ("rounds", "num_paths", "updates", "batch_size", "target_period", "width"):
        if getattr(training, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {getattr(training, name)}")
    for name in ("learning_rate", "temperature"):
        if not getattr(training, name) > 0:
            raise ValueError(f"{name}: expected a number above 0, got {getattr(training, name)}")
    for name in ("gamma", "epsilon_start", "epsilon_end"):
        if not 0 <= getattr(training, name) <= 1:
            raise ValueError(f"{name}: expected a number in [0, 1], got {getattr(training, name)}")
