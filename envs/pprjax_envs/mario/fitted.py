"""Fitted Q on the steps that a player has taken: what each is worth, known as far as it was played, and the updates.

The game is deterministic, so the steps taken are a graph, and Q of each follows exactly from what came after it:

    Q(s, a) = r + γ·V(s'),    V(s) = max of Q(s, a) over the actions a that were taken there

Where nothing was taken V is what the network says (fitted Q iteration: Ernst, Geurts and Wehenkel, JMLR 6, 2005; with
backups as long as the games, where one of double DQN has a single step), less a doubt. Without it the best of thousands
of ways is one of whose end the network thinks too well, and a player hops where hops serve nothing (pessimism: Jin,
Yang and Wang, ICML 2021).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax_envs.mario.explorer import DONE, UNKNOWN, Nodes
from pprjax_envs.mario.table import reached

SCALE = 0.1
"""Rewards are multiplied by it: a coin is 10, what Huber loss and Adam's step are made for."""

WIDEST = 1.0
"""Scaled: a difference between two actions need not be fitted better than that it is beyond this. At the temperatures
tried that is a matter of course either way."""

GAPS = 10.0
"""How much an error of a difference between actions counts, beside one of a value: P_A has differences alone."""


@dataclasses.dataclass(frozen=True)
class Training:
    """How a player is trained: a beam from the start, then rounds of games, of beams from where they failed, and of
    updates on all steps taken."""

    rounds: int = 6
    num_paths: int = 16  # games of a round, side by side
    warm: int = 8  # even actions before each
    first_width: int = 24  # nodes of a layer of the beam from the start
    beams: int = 8  # of a round, at most half of them from where no game failed
    width: int = 8  # nodes of a layer of these
    depth: int = 26  # layers of these
    updates: int = 4000  # of a round; three times as many after the last
    batch_size: int = 256
    gamma: float = 0.95
    learning_rate: float = 3e-3  # falls linearly to a twentieth
    effort: float = 4.0  # what a step costs that holds A: who has no reason to jump walks
    doubt: float = 40.0  # by which less is to come than the network says where nothing was taken, in units of reward
    temperature: float = 0.5  # of the softmax in the rounds, in units of reward
    temperatures: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125)  # tried in this order after the rounds
    slip: float = 0.02  # chance of an even action
    units: int = 128  # of each layer of the network
    layers: int = 2  # hidden ones after the first


PIXELS = Training(rounds=4, updates=200, batch_size=32, learning_rate=2.5e-4)
"""For the view "pixels": an update of the convolutions takes some forty milliseconds of one core."""


def check(training: Training) -> Training:
    """The same, or a ValueError that names the setting that is out of range."""
    for name in ("rounds", "num_paths", "first_width", "beams", "width", "depth", "updates", "batch_size", "units"):
        if getattr(training, name) < 1:
            raise UserError(f"{name}: expected at least 1, got {getattr(training, name)}")
    for name in ("learning_rate", "temperature"):
        if not getattr(training, name) > 0:
            raise UserError(f"{name}: expected a number above 0, got {getattr(training, name)}")
    for name in ("gamma", "slip"):
        if not 0 <= getattr(training, name) <= 1:
            raise UserError(f"{name}: expected a number in [0, 1], got {getattr(training, name)}")
    if not training.temperatures or not min(training.temperatures) > 0:
        raise UserError(f"temperatures: expected numbers above 0, got {training.temperatures}")
    return training


def taken_mask(nodes: Nodes, taken: Iterable[tuple[int, int]]) -> Bool[np.ndarray, "N A"]:
    """Which steps were taken."""
    mask = np.zeros(nodes.next_state.shape, bool)
    rows = np.array(list(taken), np.int64).reshape(-1, 2)
    mask[rows[:, 0], rows[:, 1]] = True
    return mask


def backed_up(
    nodes: Nodes,
    taken: Bool[np.ndarray, "N A"],
    reward: Float[np.ndarray, "N A"],
    beyond: Float[np.ndarray, " N"],
    *,
    goal_x: int,
    gamma: float,
) -> Float[np.ndarray, "N A"]:
    """Q of the steps that were taken, -inf of all others and of those from where a game is over.

    Args:
        reward: what each step earns.
        beyond: V where nothing was taken.
    """
    ended = reached(nodes, goal_x) | (nodes.flags & DONE > 0)
    known = taken & ~ended[:, None] & (nodes.next_state != UNKNOWN)
    values, before = np.where(ended, 0.0, beyond), None
    leaf, leaves = values, ~known.any(1)
    q = np.where(known, 0.0, -np.inf)
    while before is None or np.abs(values - before).max() > 1e-3:
        before = values
        q = np.where(known, reward + gamma * values[nodes.next_state], -np.inf)
        values = np.where(leaves, leaf, q.max(1))
    return q


@struct.dataclass
class Labels:
    """What M states are worth, padded so that few programs are compiled."""

    features: jax.Array  # float[N', F]; or uint8[N', 84, 84], pictures
    stack: jax.Array | None  # int32[M', 3], the states whose pictures are observed; None with features
    value: jax.Array  # float[M', A], Q scaled; 0 where it is not known
    known: jax.Array  # bool[M', A]
    guessed: jax.Array  # bool[M', A], of those the ones of which the network said what comes after them
    count: jax.Array  # int32[], M


def labels(
    nodes: Nodes, states: Int[np.ndarray, " M"], q: Float[np.ndarray, "N A"], guessed: Bool[np.ndarray, "N A"]
) -> Labels:
    """Q at these states, in this order.

    Args:
        guessed: the steps of which the network said what comes after them.
    """
    shown, stack = states, None
    if nodes.pictures:
        shown, rows = np.unique(nodes.stack(states), return_inverse=True)
        stack = rows.reshape(-1, 3).astype(np.int32)
    known = q[states] > -np.inf
    return Labels(
        features=_padded(nodes.frames(shown) if nodes.pictures else nodes.features[shown]),
        stack=None if stack is None else _padded(stack),
        value=_padded((SCALE * np.where(known, q[states], 0.0)).astype(np.float32)),
        known=_padded(known),
        guessed=_padded(guessed[states] & known),
        count=jnp.int32(len(states)),
    )


def _padded(x: np.ndarray) -> Array:
    size = 4 ** max(6, int(np.ceil(np.log(len(x)) / np.log(4))))
    return jnp.asarray(np.concatenate([x, np.zeros((size - len(x), *x.shape[1:]), x.dtype)]))


def fit(network: Any, params: Any, known: Labels, training: Training, key: jax.Array, *, final: bool = False) -> Any:
    """The weights after `training.updates` minibatches of these states, or three times as many where they are `final`.

    Adam, its step falling linearly to a twentieth, on the Huber loss of Q and of the differences between actions.
    """
    num, rate = training.updates * (3 if final else 1), jnp.float32(training.learning_rate)
    start = params, _ADAM.init(params)
    update = partial(_updated, network, known, key, num=jnp.int32(num), rate=rate, batch_size=training.batch_size)
    if known.stack is None:
        return update(start, (jnp.int32(0), jnp.int32(num)))[0]
    for number in range(num):  # convolutions in a loop of XLA's take ten times as long on a CPU
        start = update(start, (jnp.int32(number), None))
    return start[0]


_ADAM = optax.scale_by_adam()


@partial(jax.jit, static_argnames=("network", "batch_size"))
def _updated(
    network: Any,
    known: Labels,
    key: jax.Array,
    carry: tuple[Any, Any],
    span: tuple[Array, Array | None],
    *,
    num: Array,
    rate: Array,
    batch_size: int,
) -> tuple[Any, Any]:
    """Weights and optimizer after the updates of `span`, from its first to its last, or after its first where the last
    is None."""
    first, last = span

    def update(number, carry):
        params, optimizer = carry
        rows = jax.random.randint(jax.random.fold_in(key, number), (batch_size,), 0, known.count)
        direction, optimizer = _ADAM.update(jax.grad(_loss)(params, network, known, rows), optimizer)
        step = rate * (1.0 - 0.95 * number / num)
        return jax.tree.map(lambda p, u: p - step * u, params, direction), optimizer

    return update(first, carry) if last is None else jax.lax.fori_loop(first, last, update, carry)


def _loss(params: Any, network: Any, known: Labels, rows: Int[Array, " M"]) -> Float[Array, ""]:
    """Mean Huber loss of Q where it is known; and of Q less the first action's, where both are known and not guessed:
    else its own errors are what it is taught to act on."""
    zero = jnp.int32(0)
    values = jax.vmap(lambda seen: network.apply(params, seen, zero, zero))(_observed(known, rows))
    valid, wanted = known.known[rows], known.value[rows]
    own = (optax.huber_loss(values, wanted) * valid).sum() / valid.sum()
    sure = valid & ~known.guessed[rows]
    both = sure[:, 1:] & sure[:, :1]
    gap, gap_wanted = values[:, 1:] - values[:, :1], wanted[:, 1:] - wanted[:, :1]
    beyond = (jnp.abs(gap_wanted) >= WIDEST) & (gap * jnp.sign(gap_wanted) >= WIDEST)
    between = optax.huber_loss(gap, jnp.clip(gap_wanted, -WIDEST, WIDEST)) * (both & ~beyond)
    return own + GAPS * between.sum() / jnp.maximum(both.sum(), 1)


def _observed(known: Labels, rows: Int[Array, " M"]) -> Float[Array, "M ..."]:
    if known.stack is None:
        return known.features[rows]
    return known.features[known.stack[rows]].astype(jnp.float32) / 255
