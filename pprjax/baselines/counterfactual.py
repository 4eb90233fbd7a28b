"""What would have happened: transition probabilities in the counterfactual MDP of an observed path.

The world is a Gumbel-max structural causal model (Oberst and Sontag 2019; Tsirtsis, De and Gomez-Rodriguez 2021): at
each step s' = argmax_i log P(i | s, a) + G_i with Gumbel noise G. What was observed at step t tells something about its
noise, and P_cf(s' | t, a, s) is the chance that the same noise leads from s under a to s'.

With E_i = exp(-G_i), an Exp(1) variable, the argmax is a race: i arrives at time E_i / P(i | s, a), and the first one
is s'. Write p = P(· | s_t, a_t). The winner's time M is Exp(1) whoever wins, and after it the others have to wait anew,
since exponential times have no memory. So the posterior (the top-down truncated Gumbels of the papers) is

    E_i = p_i·M for the observed i = s_{t+1},    E_i = p_i·M + Exp(1) for all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.baselines.padded import Padded
from pprjax.errors import UserError
from pprjax.paths import PAD
from pprjax.successors import Successors

SMALL = 2**22
"""Numbers of a table of cells up to which they are not told apart by their lengths: each length compiles anew."""

_SAMPLED = 2**11  # successors whose samples are drawn at once, so that those of one batch fit a cache

_SOONEST = 1e-30  # a time of 0 would win with an infinite strength, and 0·∞ is not a number


@overload
def counterfactual_probabilities(
    transition: Successors,
    states: Int[Array | np.ndarray, " n"],
    actions: Int[Array | np.ndarray, " T"],
    *,
    num_samples: int | None = None,
    key: jax.Array | None = None,
) -> Successors: ...


@overload
def counterfactual_probabilities(
    transition: Float[Array | np.ndarray, "A S S"],
    states: Int[Array | np.ndarray, " n"],
    actions: Int[Array | np.ndarray, " T"],
    *,
    num_samples: int | None = None,
    key: jax.Array | None = None,
) -> Float[Array, "T A S S"]: ...


def counterfactual_probabilities(
    transition: Float[Array | np.ndarray, "A S S"] | Successors,
    states: Int[Array | np.ndarray, " n"],
    actions: Int[Array | np.ndarray, " T"],
    *,
    num_samples: int | None = None,
    key: jax.Array | None = None,
) -> Float[Array, "T A S S"] | Successors:
    """P_cf[t, a, s, s']: the chance that action a in state s would have led to s' at step t of the observed path.

    Args:
        transition: P[a, s, s'], each row sums to 1, or to 0 where the action is not available; so then does P_cf. Or
            the same as `pprjax.Successors`, as which P_cf is then given: nothing else than what occurs in the world
            would have occurred, so that its states are the same and its probs float[T, N].
        states: s_0 … s_T, n = T + 1 of them. PAD where it was not observed: that noise keeps its prior, P_cf[t] = P.
        actions: a_0 … a_{T-1}; PAD after the end.
        num_samples: estimate each row as a histogram of so many samples of the noise, as published, in float32. None:
            its limit, exactly. In the race, i ≠ s_{t+1} starts at r_i·M with r_i = p_i / q_i and q = P(· | s, a), and
            runs at rate q_i until s_{t+1} arrives at r·M. With L(u) = 1 + Σ_j q_j·max(u - r_j, 0),

                P_cf(i) = q_i ∫ du / L(u)² from r_i to r,    P_cf(s_{t+1}) = 1 / L(r),

            a sum of as many fractions as there are states.
        key: consumed by sampling.

    Raises:
        ValueError: the shapes do not fit, num_samples is below 1, or samples are wanted and there is no key.
    """
    states, actions = jnp.asarray(states), jnp.asarray(actions)
    if not isinstance(transition, Successors):
        transition = jnp.asarray(transition)
        if transition.ndim != 3 or transition.shape[1] != transition.shape[2]:
            raise UserError(f"transition: expected float[A, S, S], got shape {transition.shape}")
    elif transition.by_step:
        raise UserError(f"transition: expected the same chances at each step, got probs {transition.probs.shape}")
    if actions.ndim != 1 or states.shape != (actions.shape[0] + 1,):
        raise UserError(f"states, actions: expected int[T + 1] and int[T], got {states.shape} and {actions.shape}")
    check_num_samples(num_samples)
    if num_samples is not None and key is None:
        raise UserError("key: sampling needs one, got None")
    if isinstance(transition, Successors):
        return _sparse(transition, np.asarray(states), np.asarray(actions), key, num_samples)
    likely = jnp.where((actions == PAD)[:, None], 0.0, transition[actions, states[:-1]])
    every = jnp.arange(transition.shape[1])  # all steps may lead to all states, in their order
    return _probabilities(every, transition, likely, states[1:], key, num_samples=num_samples)


def _sparse(
    chances: Successors, states: Int[np.ndarray, " n"], actions: Int[np.ndarray, " T"], key: Any, num_samples: Any
) -> Successors:
    """P_cf of what occurs, on the host; table after table of cells that are about as long."""
    given = jax.tree.map(lambda x: np.asarray(jnp.asarray(x)), chances)  # in the precision of the device
    likely = np.stack([_likely(given, s, a) for s, a in zip(states[:-1], actions, strict=True)])
    probs = np.zeros((len(actions), len(given.states)), given.probs.dtype)
    for index, valid in _alike(np.diff(given.first), given.first):
        rows = given.states[index], np.where(valid, given.probs[index], 0.0)
        found = _probabilities(*rows, likely, states[1:], key, num_samples=num_samples)
        probs[:, index[valid]] = np.asarray(found)[:, valid]
    return given.replace(probs=probs)


def _likely(chances: Successors, s: int, a: int) -> Float[np.ndarray, " S"]:
    """P(· | s, a), nothing where they are PAD."""
    likely = np.zeros(chances.shape[0], chances.probs.dtype)
    if a != PAD:
        begin, end = chances.first[chances.cell(s, a)], chances.first[chances.cell(s, a) + 1]
        likely[chances.states[begin:end]] = chances.probs[begin:end]
    return likely


def _alike(
    lengths: Int[np.ndarray, " C"], first: Int[np.ndarray, " C+1"]
) -> Iterator[tuple[Int[np.ndarray, "c K"], Bool[np.ndarray, "c K"]]]:
    """The places of the successors of all cells, in tables of cells that are about as long, and which there are."""
    table = (lengths > 0).sum() * lengths.max(initial=0)
    size = np.ceil(np.log2(np.maximum(lengths, 1))).astype(int) // 2 if table > SMALL else lengths * 0
    for alike in np.unique(size[lengths > 0]):
        cells = np.flatnonzero((size == alike) & (lengths > 0))
        ranks = np.arange(lengths[cells].max())
        valid = ranks < lengths[cells][:, None]
        yield np.where(valid, first[cells][:, None] + ranks, first[cells][:, None]), valid


def check_num_samples(num_samples: int | None) -> None:
    """Raise a ValueError if there are none."""
    if num_samples is not None and num_samples < 1:
        raise UserError(f"num_samples: expected at least 1, or None for the exact probabilities, got {num_samples}")


@struct.dataclass
class ObservedStep:
    """One step of an observed path, and what is needed to ask what else might have come of it."""

    likely: Any  # float[S], P(· | s_t, a_t)
    next_state: Any  # int32[], s_{t+1}; PAD: not observed
    key: Any  # of its noise, where that is sampled; else None


def observed_step(chances: Padded, state, action, next_state, key=None) -> ObservedStep:
    """The step that led from `state` under `action` to `next_state`; PAD each where it was not observed."""
    likely = jnp.zeros(chances.states.shape[0], chances.probs.dtype)
    return ObservedStep(likely.at[chances.states[state, action]].add(chances.probs[state, action]), next_state, key)


def step_probabilities(
    states: Int[Array, "*#B K"], probs: Float[Array, "*B K"], observed: ObservedStep, num_samples: int | None
) -> Float[Array, "*B K"]:
    """P_cf at one step for any rows of successors: the states that they lead to, or that all lead to, and P of each."""
    if num_samples is None:
        return _limit(states, probs, observed)
    return _histogram(states, probs, observed, num_samples)


@partial(jax.jit, static_argnames="num_samples")
def _probabilities(
    leads: Int[Array, "*#B K"],
    probs: Float[Array, "*B K"],
    likely: Float[Array, "T S"],
    next_state,
    key,
    *,
    num_samples,
) -> Float[Array, "T *B K"]:
    keys = None if num_samples is None else jax.random.split(key, len(next_state))

    def one(x):
        return step_probabilities(leads, probs, ObservedStep(*x), num_samples)

    # one step after another: side by side, the samples of all steps would not fit a cache, nor what is sorted a memory
    return jax.lax.map(one, (likely, next_state, keys))


def _limit(states: Int[Array, "*#B K"], probs: Float[Array, "*B K"], observed: ObservedStep) -> Float[Array, "*B K"]:
    """P_cf at one step: the integral of 1 / L² in closed form, from each start of an arrival to the next."""
    p, next_state = observed.likely, observed.next_state
    seen = states == next_state
    seen &= probs > 0  # what fills a row up may have any number
    q = jnp.where(seen, 0.0, probs)
    until = _ratio(p[next_state], jnp.sum(jnp.where(seen, probs, 0.0), axis=-1, keepdims=True))  # r
    starts = _ratio(p[states], q)  # r_i

    order = jnp.argsort(starts, axis=-1)
    starts, rates = (jnp.take_along_axis(x, order, axis=-1) for x in (starts, q))
    low = jnp.minimum(starts, until)
    high = jnp.minimum(jnp.concatenate([starts[..., 1:], jnp.full_like(until, jnp.inf)], axis=-1), until)
    width = jnp.where(low < high, high - low, 0.0)
    rate = jnp.cumsum(rates, axis=-1)  # of all that have started
    after = 1.0 + jnp.cumsum(rate * width, axis=-1)  # L at the end of each piece
    before = jnp.concatenate([jnp.ones_like(until), after[..., :-1]], axis=-1)
    # ∫ du / L² over a piece is width / (before·after), written so that the last width may be ∞
    piece = jnp.where(width > 0, 1.0 / (before * (before / width + rate)), 0.0)
    wins = rates * jax.lax.cumsum(piece, axis=piece.ndim - 1, reverse=True)

    wins = jnp.take_along_axis(wins, jnp.argsort(order, axis=-1), axis=-1)
    wins = jnp.where(seen, 1.0 / after[..., -1:], wins)
    possible = probs.any(axis=-1, keepdims=True)
    return jnp.where(next_state == PAD, probs, jnp.where(possible, wins, 0.0))


def _ratio(p: Float[Array, "*#dims"], q: Float[Array, "*#dims"]) -> Float[Array, "*#dims"]:
    """p / q, and ∞ where q is 0: whatever p is, it never arrives."""
    return jnp.where(q > 0, p / jnp.where(q > 0, q, 1.0), jnp.inf)


def _histogram(
    states: Int[Array, "*#B K"], probs: Float[Array, "*B K"], observed: ObservedStep, num_samples: int
) -> Float[Array, "*B K"]:
    """P_cf at one step: how often each state wins the race, over samples of the noise."""
    p = observed.likely.astype(jnp.float32)
    num_states = p.shape[0]
    noise = jax.random.exponential(observed.key, (num_states + 1, num_samples), jnp.float32)
    first, waiting = noise[0], noise[1:]
    ahead = jnp.arange(num_states)[:, None] == observed.next_state
    times = jnp.where(observed.next_state == PAD, waiting, p[:, None] * first + jnp.where(ahead, 0.0, waiting))
    strength = 1.0 / jnp.maximum(times, _SOONEST)

    def shares(x):
        states, probs = x
        # samples come last, so that the race is run for a vector of them at a time
        winner = jnp.argmax(probs.astype(jnp.float32)[..., None] * strength[states], axis=-2)
        wins = jnp.sum(winner[..., None, :] == jnp.arange(probs.shape[-1])[:, None], axis=-1)
        return jnp.where(probs.any(axis=-1, keepdims=True), wins / num_samples, 0.0).astype(probs.dtype)

    if states.ndim < 2:
        return shares((states, probs))
    batch = max(1, _SAMPLED // states.shape[-1]) if states.ndim == 2 else None
    return jax.lax.map(shares, (states, probs), batch_size=batch)
