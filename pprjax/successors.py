"""Successors: where chance leads, stored as what occurs."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.errors import UserError

MAX_NUMBERS = 2**27
"""The most numbers of one table of successors: half a GiB of them."""


@struct.dataclass
class Successors:
    """P(s' | s, a) of S states and A actions as what occurs: S·A·K numbers in place of S·A·S.

    K is the most states that one step may lead to. `TabularMDP(transition=…)` takes it, and so may a world of yours
    give it: `successors(params)`.
    """

    states: Any  # int32[S, A, K], the states that a step may lead to, each once; any where probs is 0
    probs: Any  # float[*T, S, A, K], how likely; a row sums to 1, or to 0 where the action is not available. T: by step

    @classmethod
    def from_steps(
        cls,
        state: Int[np.ndarray, " E"],
        action: Int[np.ndarray, " E"],
        next_state: Int[np.ndarray, " E"],
        prob: Float[np.ndarray, " E"],
        *,
        num_states: int | None = None,
        num_actions: int | None = None,
    ) -> Successors:
        """From a list of what may happen, a row each, such as the columns of a table. What stands there twice adds up.

        Args:
            prob: how likely `action` in `state` leads to `next_state`; rows of 0 are left out.
            num_states: S; default one more than the largest number.
            num_actions: A; default the same.

        Raises:
            ValueError: lengths differ, a number is out of range, a probability is negative, or S·A·K is above 2²⁷.
        """
        numbers = [np.asarray(x) for x in (state, action, next_state)]
        prob = np.asarray(prob, np.float64)
        if any(x.shape != prob.shape or x.ndim != 1 for x in numbers):
            shapes = ", ".join(str(x.shape) for x in (*numbers, prob))
            raise UserError(f"state, action, next_state, prob: expected four lists of one length, got shapes {shapes}")
        state, action, next_state = numbers
        if num_states is None:
            num_states = int(max(state.max(initial=0), next_state.max(initial=0))) + 1
        num_actions = int(action.max(initial=0)) + 1 if num_actions is None else num_actions
        for name, values, size in zip(
            ("state", "action", "next_state"), numbers, (num_states, num_actions, num_states), strict=True
        ):
            bad = np.flatnonzero((values < 0) | (values >= size))
            if values.dtype.kind not in "iu" or bad.size:
                got = values.dtype if values.dtype.kind not in "iu" else values[bad[0]]
                raise UserError(f"{name}: expected integers in [0, {size - 1}], got {got}")
        bad = np.flatnonzero(~(prob >= 0))
        if bad.size:
            raise UserError(f"prob[{bad[0]}]: expected a probability, got {prob[bad[0]]}")
        kept = prob != 0
        pair = state[kept].astype(np.int64) * num_actions + action[kept]
        keys, place = np.unique(pair * num_states + next_state[kept], return_inverse=True)
        return _packed(keys, np.bincount(place, prob[kept], len(keys)), num_states, num_actions)

    @classmethod
    def of(cls, transition: Float[Array | np.ndarray, "*T S A S"]) -> Successors:
        """From a table of P(s' | s, a). On the host.

        Raises:
            ValueError: it has another shape, or S·A·K is above 2²⁷.
        """
        table = np.asarray(transition)
        if table.ndim not in (3, 4) or table.shape[-3] != table.shape[-1]:
            raise UserError(f"transition: expected float[S, A, S], or a table for each step, got shape {table.shape}")
        num_states, num_actions = table.shape[-3:-1]
        occurs = (table != 0) if table.ndim == 3 else (table != 0).any(0)
        found = _packed(np.flatnonzero(occurs), None, num_states, num_actions)
        pairs = np.ogrid[:num_states, :num_actions]
        probs = np.where(found.probs != 0, table[..., pairs[0][..., None], pairs[1][..., None], found.states], 0)
        return cls(found.states, probs)

    @classmethod
    def every(cls, transition: Float[Array, "*T S A S"]) -> Successors:
        """The same with K = S, for tables that are traced or dense."""
        size = transition.shape[-1]
        return cls(jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), transition.shape[-3:]), transition)

    def table(self) -> Float[np.ndarray, "*T S A S"]:
        """P(s' | s, a) of all S next states, S·A·S numbers: for small worlds, to look at. On the host."""
        states, probs = np.asarray(self.states), np.asarray(self.probs)
        s, a, k = np.nonzero(probs if probs.ndim == 3 else probs.any(0))
        table = np.zeros((*probs.shape[:-1], len(states)), probs.dtype)
        table[..., s, a, states[s, a, k]] = probs[..., s, a, k]
        return table


def successors(env: Any, params: Any) -> Successors | None:
    """Those of a finite world of chance that tells them, by `successors` or `transition_probs`; None of any other."""
    if hasattr(env, "successors"):
        return env.successors(params)
    probs = env.transition_probs(params) if hasattr(env, "transition_probs") else None
    return None if probs is None else Successors.every(jnp.asarray(probs))


@partial(jax.jit, static_argnums=0)  # so that no table is made to be counted
def most_successors(env: Any, params: Any) -> Int[Array, ""] | None:
    """How many states a step may lead to at most; None where the world does not tell, or says that it rolls no dice."""
    chances = successors(env, params)
    return None if chances is None else jnp.max(jnp.sum(chances.probs > 0, axis=-1))


def tells_chances(env: Any) -> bool:
    """Whether the world tells where chance leads."""
    return hasattr(env, "successors") or hasattr(env, "transition_probs")


def _packed(keys: Int[np.ndarray, " E"], probs: Any, num_states: int, num_actions: int) -> Successors:
    """Of sorted numbers (s·A + a)·S + s', each once; without probs they are 1 where something occurs."""
    pair, following = np.divmod(keys, num_states)
    first = np.searchsorted(pair, np.arange(num_states * num_actions + 1))
    width = max(int(np.diff(first).max(initial=0)), 1)
    check_size("transition:", num_states, num_actions, width)
    rank = np.arange(len(keys)) - first[pair]
    states = np.zeros((num_states * num_actions, width), np.int32)
    table = np.zeros(states.shape, np.float64 if probs is not None else bool)
    states[pair, rank] = following
    table[pair, rank] = True if probs is None else probs
    shape = (num_states, num_actions, width)
    return Successors(states.reshape(shape), table.reshape(shape))


def check_size(where: str, num_states: int, num_actions: int, width: int) -> None:
    """Raise a ValueError, that begins with `where`, if S·A·K is above 2²⁷."""
    if num_states * num_actions * width > MAX_NUMBERS:
        raise UserError(
            f"{where} {num_states:,} states × {num_actions:,} actions × {width:,} next states, as many as the step "
            f"with the most has, take {num_states * num_actions * width * 8 / 2**30:.1f} GiB; expected at most "
            f"{MAX_NUMBERS * 8 / 2**30:.0f} GiB"
        )
