"""P_A: how the agent whose path is edited acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.ragged import Ragged, logarithm, row_of

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

    probs: Any  # float[S, A], each row sums to 1; or a `pprjax.Ragged`, a row for the actions that there are

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: Int[Array, ""]) -> tuple[Carry, Float[Array, " A"]]:
        """`state` is the state's id."""
        return carry, row_of(logarithm(self.probs), state, -jnp.inf)  # a table that a scan computes once


def ragged_of(policy: Any) -> Ragged | None:
    """The table of a policy, where it is a ragged one: it then says which steps each state has."""
    table = policy.probs if isinstance(policy, TablePolicy) else None
    return table if isinstance(table, Ragged) else None


@struct.dataclass
class ObservationPolicy:
    """P_A(s, a) ∝ exp(f(weights, observation)_a / temperature): a trained agent, as a function of what it observes.

    f gives logits, or values Q(s, ·) with the temperature in their unit. It reads what the environment's `observe`
    gives, unbatched: `model.apply` of a Flax module, any function that JAX traces, or one made by `on_host`.
    """

    function: Callable[[Any, Any], Array] = struct.field(pytree_node=False)  # (weights, observation) -> float[A]
    weights: Any = ()  # the first argument of the function, traced
    temperature: float = 1.0  # above 0; small is greedy

    def __post_init__(self):
        _check_temperature(self.temperature)

    def init(self) -> Carry:
        return ()

    def step(self, carry: Carry, state: Any) -> tuple[Carry, Float[Array, " A"]]:
        """`state` is the observation."""
        return carry, jax.nn.log_softmax(jnp.asarray(self.function(self.weights, state)) / self.temperature)


def on_host(function: Callable[[np.ndarray], Any], num_actions: int) -> Callable[[Any, Array], Float[Array, " A"]]:
    """A function on the host, of NumPy arrays, as the function of an `ObservationPolicy`: a PyTorch network is one.

    Args:
        function: float[n, …] observations to float[n, A] logits or values. The same observation must always give the
            same answer.
        num_actions: A.
    """

    def asked(weights: Any, observation: Array) -> Float[Array, " A"]:
        del weights
        shape, answer = jnp.shape(observation), jax.ShapeDtypeStruct((num_actions,), jnp.result_type(float))

        def answered(observations):
            batch = np.shape(observations)[: np.ndim(observations) - len(shape)]
            flat = np.asarray(observations).reshape(-1, *shape)
            values = np.asarray(function(flat), answer.dtype)
            if values.shape != (len(flat), num_actions):
                raise UserError(f"on_host: expected float[{len(flat)}, {num_actions}], got shape {values.shape}")
            return values.reshape(*batch, num_actions)

        return jax.pure_callback(answered, answer, observation, vmap_method="broadcast_all")

    return asked


def _check_temperature(temperature: Any) -> None:
    """Raise a ValueError for a number that is no temperature; what JAX traces is not looked at."""
    if isinstance(temperature, float | int | np.number) and not 0 < temperature < np.inf:
        raise UserError(f"temperature: expected a finite number above 0, got {temperature}")


def softmax(
    values: Float[Array, "S A"], *, temperature: float = 1.0, available: Bool[Array, "S A"] | None = None
) -> Float[Array, "S A"]:
    """P_A(s, a) ∝ exp(Q(s, a) / temperature), zero where an action is not available.

    Args:
        values: Q(s, a).
        temperature: above 0, in the unit of Q; small is greedy.
        available: which actions exist in each state, at least one a state; default all.

    Raises:
        ValueError: temperature is not above 0, or not finite.
    """
    _check_temperature(temperature)
    where = jnp.ones_like(values, bool) if available is None else available
    return jax.nn.softmax(values / temperature, axis=-1, where=where)
