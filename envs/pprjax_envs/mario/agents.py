"""Two players of Mario: one who likes coins and one who avoids them, trained by search and imitation."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.errors import UserError
from pprjax.learn.networks import QNetwork
from pprjax.policy import Carry, TablePolicy, softmax
from pprjax_envs import weights
from pprjax_envs.mario.explorer import DONE, ROOT, UNKNOWN, Explorer, Nodes, Step
from pprjax_envs.mario.fitted import PIXELS, SCALE, Training, backed_up, check, fit, labels, taken_mask
from pprjax_envs.mario.play import Games, beams, failures, games, look
from pprjax_envs.mario.table import MarioTable, reached
from pprjax_envs.mario.world import MarioEnv, MarioState

COIN_REWARDS = {"seeker": 100.0, "dodger": -100.0}
"""What a coin is worth to either player, on top of the game's own reward."""

JUMP = 1
"""The action that holds A."""

TRIALS, ENOUGH = 20, 16
"""Games that try a temperature, and how many of them have to get beyond the goal alive."""

SHARP = 0.25
"""The entropy of P_A in these games at most, as a share of that of an even choice."""

BACK = (2, 8, 20)
"""Steps before a failure from which a player looks for what would have been better."""


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

    def charges(self, nodes: Nodes, ids: Int[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        """How much less likely each action is than the likeliest, in nats: what "regret" charges."""
        log_probs = np.log(_in_blocks(nodes, ids, lambda seen: _probs(self, seen)))
        return log_probs.max(1, keepdims=True) - log_probs

    def table(self, world: MarioTable) -> TablePolicy:
        """The same policy over the states of the explored part."""
        probs = _in_blocks(world.nodes, np.arange(world.num_states), lambda seen: _probs(self, seen))
        return TablePolicy(jnp.asarray(probs))


_BLOCK = 1024  # states whose policy is computed at once


def _in_blocks(nodes: Nodes, ids: Int[np.ndarray, " S"], function: Any) -> Float[np.ndarray, "S ..."]:
    """A function of what is observed in these states, a block at a time, so that one program is compiled."""
    found = []
    for low in range(0, len(ids), _BLOCK):
        block = ids[np.minimum(np.arange(low, low + _BLOCK), len(ids) - 1)]
        found.append(np.asarray(function(jnp.asarray(_observed(nodes, block)))))
    return np.concatenate(found)[: len(ids)] if found else np.zeros(0, np.float32)


@jax.jit
def _probs(policy: NetworkPolicy, observations: Float[Array, "S ..."]) -> Float[Array, "S A"]:
    return jnp.exp(jax.vmap(policy.log_probs)(observations))


@jax.jit
def _values(policy: NetworkPolicy, observations: Float[Array, "S ..."]) -> Float[Array, "S A"]:
    return jax.vmap(policy.values)(observations)


def _observed(nodes: Nodes, ids: Int[np.ndarray, " S"]) -> Float[np.ndarray, "S ..."]:
    """What is observed in these states: pictures where there are any, else features."""
    return nodes.observations(ids).astype(np.float32) / 255 if nodes.pictures else nodes.features[ids]


def train(env: MarioEnv, player: str, training: Training | None = None, *, seed: int = 0) -> NetworkPolicy:
    """A player, trained in the game by search and imitation; whatever is found there the environment remembers.

    A beam from the start finds a first way. Then each round plays games by the player's own policy, looks by short
    beams for what would have been better before each failure, and fits Q to all steps that this player has taken
    (expert iteration: Anthony, Tian and Barber, NeurIPS 2017; in the states that the learner itself comes to: Ross,
    Gordon and Bagnell, AISTATS 2011). What others explored makes it faster and changes nothing. `sharpened` then
    chooses the temperature.

    Args:
        player: "seeker" or "dodger".
        training: default `Training()`, or `PIXELS` where the environment shows pixels.
        seed: of the network, the games and the updates.

    Raises:
        ValueError: there is no such player, or a setting is out of range.
    """
    training = _settings(env, training)
    taste = Taste(_coin_reward(player), training.effort)
    goal_x, horizon = int(env.default_params.goal_x), int(env.default_params.max_steps_in_episode)
    policy, key, rng = untrained(env, training, seed=seed), jax.random.key(seed), np.random.default_rng(seed)
    look_ahead = partial(beams, env.explorer, goal_x=goal_x)
    free = Taste(taste.coin, 0.0)  # a narrow beam that charged effort would drop the long jumps first
    learn = partial(_fitted, env, taste=taste, training=training)
    taken = look_ahead(np.array([ROOT]), taste.of_step, width=training.first_width, steps=horizon)
    policy = learn(policy, taken, key=jax.random.fold_in(key, training.rounds), trusted=False)
    for number in range(training.rounds):
        played = trials(env, policy, rng, training.num_paths, warm=training.warm)
        roots = _roots(env.explorer, played, goal_x, training.beams, rng)
        taken |= played.steps() | look_ahead(roots, free.of_step, width=training.width, steps=training.depth)
        env.check()
        last = number == training.rounds - 1
        policy = learn(policy, taken, key=jax.random.fold_in(key, number), final=last)
    return sharpened(env, policy, training.temperatures, rng, warm=training.warm)


@dataclasses.dataclass(frozen=True)
class Taste:
    """What a player earns beside the game's reward."""

    coin: float  # for each coin
    effort: float  # that it costs to hold A for a step

    def worth(self, reward: np.ndarray, coins: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Of steps, elementwise."""
        return reward + self.coin * coins - self.effort * (actions == JUMP)

    def of_step(self, after: Step, actions: Int[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """Of steps that these actions made."""
        return self.worth(after.reward, after.coins, actions)

    def of_nodes(self, nodes: Nodes) -> Float[np.ndarray, "N A"]:
        """Of every step from every node."""
        return self.worth(nodes.reward, nodes.coins, np.arange(nodes.reward.shape[1]))


def trials(
    env: MarioEnv, policy: NetworkPolicy, rng: np.random.Generator, num: int = TRIALS, *, warm: int = Training.warm
) -> Games:
    """Games by this policy, each after so many even actions, so that no two start alike."""

    def choose(seen: Step, t: int) -> Int[np.ndarray, " B"]:
        probs = _acting(env, policy, seen)
        if t < warm:
            probs = np.full_like(probs, 1 / env.num_actions)
        return np.minimum((np.cumsum(probs, 1) < rng.random((num, 1))).sum(1), env.num_actions - 1)

    params = env.default_params
    steps = int(params.max_steps_in_episode)
    return games(env.explorer, choose, np.full(num, ROOT), goal_x=int(params.goal_x), steps=steps)


def favourites(env: MarioEnv, policy: NetworkPolicy) -> Callable[[Step, int], Int[np.ndarray, " B"]]:
    """A choice for `play.games`: the likeliest action, of equals the first."""
    return lambda seen, t: _acting(env, policy, seen).argmax(1)


def _acting(env: MarioEnv, policy: NetworkPolicy, seen: Step) -> Float[np.ndarray, "B A"]:
    """P_A in the states that are seen."""
    pictures = env.explorer.observations(seen.node) if env.view == "pixels" else None
    observed = seen.features if pictures is None else pictures.astype(np.float32) / 255
    return np.asarray(_probs(policy, jnp.asarray(observed)))


def sharpened(
    env: MarioEnv,
    policy: NetworkPolicy,
    temperatures: tuple[float, ...],
    rng: np.random.Generator,
    *,
    warm: int = Training.warm,
) -> NetworkPolicy:
    """The policy at the softest of these temperatures at which it gets through and has made up its mind.

    Both are asked of `TRIALS` games: `ENOUGH` of them get beyond the goal alive, and the mean entropy of P_A, over the
    states that they act in, is at most `SHARP` of an even choice's. Where none does both, of those that have made up
    their mind the one with the most such games, of equals the softest; where none has, of all.

    Args:
        temperatures: in the order in which they are tried, from the highest on.
    """
    best, most = policy, (False, -1)
    for temperature in temperatures:
        policy = dataclasses.replace(policy, temperature=jnp.float32(temperature))
        played = trials(env, policy, rng, warm=warm)
        alive = int(reached(look(env.explorer, played.nodes[-1]), int(env.default_params.goal_x)).sum())
        sharp = mean_entropy(acted(env, policy, played)) <= SHARP * np.log(env.num_actions)
        if (sharp, alive) > most:
            best, most = policy, (sharp, alive)
        if sharp and alive >= ENOUGH:
            break
    env.check()
    return best


def acted(env: MarioEnv, policy: NetworkPolicy, played: Games) -> Float[np.ndarray, "M A"]:
    """P_A in the states that these games act in, each as often as they do."""
    charges = policy.charges(env.explorer.nodes, played.nodes[:-1][played.actions >= 0])
    return np.exp(-charges) / np.exp(-charges).sum(1, keepdims=True)


def mean_entropy(probs: Float[np.ndarray, "M A"]) -> float:
    """In nats."""
    return float(-(probs * np.log(probs)).sum(1).mean())


def _roots(explorer: Explorer, played: Games, goal_x: int, num: int, rng: np.random.Generator) -> np.ndarray:
    """Where the short beams of a round start: three quarters before failures, and the others anywhere in the games."""
    failed = failures(explorer, played, goal_x, BACK)
    failed = [failed[i] for i in rng.permutation(len(failed))[: num - num // 4]]
    seen = list(dict.fromkeys(node for node, _ in played.steps()))
    others = [seen[i] for i in rng.integers(0, len(seen), num - len(failed))]
    return np.array(failed + others, np.int64)


def _fitted(
    env: MarioEnv,
    policy: NetworkPolicy,
    taken: dict[tuple[int, int], None],
    *,
    taste: Taste,
    training: Training,
    key: jax.Array,
    trusted: bool = True,
    final: bool = False,
) -> NetworkPolicy:
    """The policy after updates on all steps taken.

    Args:
        trusted: where nothing was taken the network says what is to come, less its doubt; else it is nothing. What it
            says itself of such steps it does not learn to tell from others.
    """
    nodes, goal_x = env.explorer.nodes, int(env.default_params.goal_x)
    mask, beyond, leaves = taken_mask(nodes, taken), np.zeros(len(nodes.x)), np.zeros(0, np.int64)
    if trusted:
        after = dict.fromkeys(int(nodes.next_state[step]) for step in taken)
        ended = reached(nodes, goal_x) | (nodes.flags & DONE > 0)
        leaves = np.array([n for n in after if n != UNKNOWN and not (mask[n].any() or ended[n])], np.int64)
        beyond[leaves] = _in_blocks(nodes, leaves, lambda seen: _values(policy, seen).max(1)) - training.doubt
    q = backed_up(nodes, mask, taste.of_nodes(nodes), beyond, goal_x=goal_x, gamma=training.gamma)
    guessed = np.isin(nodes.next_state, leaves)
    states = np.array(list(dict.fromkeys(node for node, _ in taken)), np.int64)
    known = labels(nodes, states[(q[states] > -np.inf).any(1)], q, guessed)
    return dataclasses.replace(policy, params=fit(policy.network, policy.params, known, training, key, final=final))


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
            width=training.units,
            depth=training.layers,
            alignment_aware=False,
        )
    observation, zero = jnp.zeros(env.observation_space().shape), jnp.int32(0)
    return NetworkPolicy(
        params=network.init(jax.random.key(seed), observation, zero, zero),
        temperature=jnp.float32(training.temperature),
        epsilon=jnp.float32(training.slip),
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
    world: MarioTable, player: str, *, temperature: float = 5.0, gamma: float = 0.9, effort: float = 0.0
) -> TablePolicy:
    """The player who knows the explored part by heart: P_A(s, a) ∝ exp(Q(s, a) / temperature), with the exact Q there.

    Q(s, a) = r + coin_reward·coins - effort + γ·max Q(s', ·), the effort where the action holds A, without a horizon,
    on the steps that were explored; where none was all actions are alike.
    """
    nodes, taste = world.nodes, Taste(_coin_reward(player), effort)
    everything, nothing = nodes.next_state >= 0, np.zeros(world.num_states)
    q = backed_up(nodes, everything, taste.of_nodes(nodes), nothing, goal_x=world.goal_x, gamma=gamma)
    tried = q > -np.inf
    shown = jnp.asarray(np.where(tried, q, 0.0), jnp.float32)
    available = tried | ~tried.any(1, keepdims=True)
    return TablePolicy(softmax(shown, temperature=temperature, available=jnp.asarray(available)))


def _settings(env: MarioEnv, training: Training | None) -> Training:
    """The training, by default that of the environment's view; every setting in its range."""
    if training is None:
        training = PIXELS if env.view == "pixels" else Training()
    return check(training)


def _coin_reward(player: str) -> float:
    if player not in COIN_REWARDS:
        raise UserError(f"player: expected one of {', '.join(COIN_REWARDS)}, got {player!r}")
    return COIN_REWARDS[player]
