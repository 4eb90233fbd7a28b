"""P_A: how the agent whose path is edited acts."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

Carry = Any
"""What a policy remembers of the path so far: () for a table, an LSTM's state, a key/value cache."""


@runtime_checkable
class Policy(Protocol):
    """P_A, unbatched and pure; a pytree, so that its weights are traced. A step is O(1) in the length of the path."""

    def init(self) -> Carry:
        """The carry before the first state."""
        ...

    def step(self, carry: Carry, state: Any) -> tuple[Carry, Float[Array, " A"]]:
        """The carry after `state`, and log P_A(· | path so far) for each of the A actions."""
        ...


@struct.dataclass
class TablePolicy:
    """P_A as a table over the states of a finite world, looked up by the world's `state_id`."""

    probs: jax.Array  # float[S, A], each row sums to 1

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: Int[Array, ""]) -> tuple[Carry, Float[Array, " A"]]:
        """`state` is the state's id."""
        return carry, jnp.log(self.probs)[state]  # a table that a scan computes once


def softmax(
    values: Float[Array, "S A"], *, temperature: float = 1.0, available: Bool[Array, "S A"] | None = None
) -> Float[Array, "S A"]:
    """P_A(s, a) ∝ exp(Q(s, a) / temperature), zero where an action is not available.

    Args:
        values: Q(s, a).
        temperature: above 0, in the unit of Q; small is greedy.
        available: which actions exist in each state, at least one a state; default all.
    """
    where = jnp.ones_like(values, bool) if available is None else available
    return jax.nn.softmax(values / temperature, axis=-1, where=where)
