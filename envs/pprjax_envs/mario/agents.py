"""Two players of Mario: one who likes coins and one who avoids them, trained by double DQN."""

from __future__ import annotations

import dataclasses
import os
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.config import Config
from pprjax.learn.networks import QNetwork
from pprjax.policy import Carry, TablePolicy, softmax
from pprjax.rollout import Behaviour, rollout, trace
from pprjax.task import Task
from pprjax_envs import weights
from pprjax_envs.mario.double_dqn import PIXELS, SCALE, Training, check, fit, steps_of
from pprjax_envs.mario.explorer import ROOT, Nodes
from pprjax_envs.mario.table import MarioTable
from pprjax_envs.mario.world import MarioEnv, MarioState, always_right

COIN_REWARDS = {"seeker": 100.0, "dodger": -100.0}
"""What a coin is worth to either player, on top of the game's own reward."""


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


def _settings(env: MarioEnv, training: Training | None) -> Training:
    """The training, by default that of the environment's view; every setting in its range."""
    if training is None:
        training = PIXELS if env.view == "pixels" else Training()
    return check(training)


def _coin_reward(player: str) -> float:
    if player not in COIN_REWARDS:
        raise ValueError(f"player: expected one of {', '.join(COIN_REWARDS)}, got {player!r}")
    return COIN_REWARDS[player]
