"""Two players of Mario: one who likes coins and one who avoids them, trained with the learner's own double DQN."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float

from pprjax import learner
from pprjax.config import Config
from pprjax.networks import QNetwork
from pprjax.policy import Carry, TablePolicy
from pprjax.rollout import trace
from pprjax.task import Task
from pprjax_envs import weights
from pprjax_envs.mario import MarioEnv, always_right
from pprjax_envs.mario_table import MarioTable

COIN_REWARDS = {"seeker": 100.0, "dodger": -100.0}
"""What a coin is worth to either player, on top of the game's own reward."""

TRAINING = Config(
    lambda_path=0.0,
    lambda_policy=0.0,
    gamma=0.99,
    c_e=0.0,
    double=True,
    alignment_aware=False,
    telescoped=False,
    iterations=120,
    num_paths=16,
    num_best=4,
    updates=16,
    batch_size=256,
    depth=1,
)
"""Double DQN: the learner with neither a path to stay close to nor habits, on the observation alone."""

TEMPERATURE = 10.0
"""Of a player's softmax, in units of reward: a tenth of a coin."""


@struct.dataclass
class NetworkPolicy:
    """P_A(s, a) ∝ exp(Q(s, a) / temperature), with Q a network of what is observed."""

    params: Any
    scale: jax.Array  # float[], what Q's rewards were multiplied with
    temperature: jax.Array  # float[], in units of reward
    network: QNetwork = struct.field(pytree_node=False)

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: Any) -> tuple[Carry, Float[Array, " A"]]:
        return carry, self.log_probs(state.features)

    def values(self, features: Float[Array, " F"]) -> Float[Array, " A"]:
        """Q(s, ·), in units of reward."""
        zero = jnp.int32(0)
        return jnp.asarray(self.network.apply(self.params, features, zero, zero)) / self.scale

    def log_probs(self, features: Float[Array, " F"]) -> Float[Array, " A"]:
        """log P_A(s, ·)."""
        return jax.nn.log_softmax(self.values(features) / self.temperature)

    def table(self, world: MarioTable) -> TablePolicy:
        """The same policy over the states of the explored part."""
        return TablePolicy(jnp.exp(jax.jit(jax.vmap(self.log_probs))(jnp.asarray(world.features()))))


@struct.dataclass
class _Even:
    """All actions alike."""

    num_actions: int = struct.field(pytree_node=False)

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: Any) -> tuple[Carry, Float[Array, " A"]]:
        del state
        return carry, jnp.full(self.num_actions, -np.log(self.num_actions))


def train(
    env: MarioEnv,
    player: str,
    training: Config = TRAINING,
    *,
    temperature: float = TEMPERATURE,
    seed: int = 0,
) -> NetworkPolicy:
    """A player, trained from nothing in the game; whatever it finds there the environment remembers.

    Args:
        player: "seeker" or "dodger".
        training: the learner's settings.
        temperature: of the softmax, in units of reward, above 0.

    Raises:
        ValueError: an argument is none of those possible.
    """
    if player not in COIN_REWARDS:
        raise ValueError(f"player: expected one of {', '.join(COIN_REWARDS)}, got {player!r}")
    if not temperature > 0:
        raise ValueError(f"temperature: expected a number above 0, got {temperature}")
    params = env.default_params.replace(coin_reward=COIN_REWARDS[player])
    aim = Task(env, _Even(env.num_actions), params=params)
    key_init, key_train = jax.random.split(jax.random.key(seed))
    path = jax.tree.map(jnp.asarray, always_right(env))
    original = jax.jit(trace)(aim, path.symbols[0], path.lengths[0], key_init, path.actions[0])
    state = jax.jit(learner.init)(aim, original, training, key_init)
    state, _ = jax.jit(partial(learner.train, count=training.iterations))(
        aim, original, training, state, key_train, start=0
    )
    env.check()
    return NetworkPolicy(
        params=state.params,
        scale=state.scale,
        temperature=jnp.asarray(temperature, jnp.float32),
        network=learner.network(aim, training, original),
    )


def trained(
    env: MarioEnv,
    player: str,
    training: Config = TRAINING,
    *,
    temperature: float = TEMPERATURE,
    seed: int = 0,
    folder: str | os.PathLike | None = None,
) -> tuple[NetworkPolicy, bool]:
    """What `train` gives, read back if it was trained before on this game with these settings; and whether it was."""
    what = (env.game, env.default_params, player, training, temperature, seed)
    name = f"mario-{player}-{weights.digest(*map(repr, what))}"
    make = partial(train, env, player, training, temperature=temperature, seed=seed)
    return weights.remembered(name, make, folder=folder)
