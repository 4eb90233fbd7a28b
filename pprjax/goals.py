"""Goals as conditions: what a recourse must satisfy, whatever else it earns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError

TOLERANCE = 1e-6
"""Of thresholds on R_goal, as a share of Σ|r_t|: sums of rounded rewards that differ by less count as equal."""


@struct.dataclass
class Outcome:
    """How a path ended."""

    state: Any  # the world's final state
    reached: jax.Array  # bool[], the world's own `reached_goal` there
    r_goal: jax.Array  # float[], R_goal of the path, Σ r_t
    magnitude: jax.Array | None = None  # float[], Σ|r_t|; None: |R_goal|, as where no reward is negative
    state_id: jax.Array | None = None  # int32[], the number of the final state, where the world numbers its states
    class_probs: jax.Array | None = None  # float[C], what the world's classifier thinks of the path, where it has one

    @property
    def tolerance(self) -> Float[Array, ""]:
        """What R_goal must differ by to differ."""
        return TOLERANCE * (jnp.abs(self.r_goal) if self.magnitude is None else self.magnitude)


@runtime_checkable
class Goal(Protocol):
    """A condition on how a path ended; a pytree, so that thresholds are traced."""

    uses_reward: ClassVar[bool]
    """Whether the condition reads R_goal: a certificate must then tell paths apart by what they earned."""

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]: ...

    def of(self, original_goal: Float[Array, ""], magnitude: Float[Array, ""] | float = 0.0, /) -> Goal:
        """The goal for an original path that earned this R_goal = Σ r_t, with magnitude = Σ|r_t|."""
        ...


@struct.dataclass
class Reached:
    """The world's own goal, `reached_goal`."""

    uses_reward: ClassVar[bool] = False

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]:
        return outcome.reached

    def of(self, *earned) -> Reached:
        del earned
        return self


@struct.dataclass
class AtLeast:
    """R_goal ≥ x, to within the tolerance."""

    x: jax.Array  # float[]
    uses_reward: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]:
        return outcome.r_goal >= self.x - outcome.tolerance

    def of(self, *earned) -> AtLeast:
        del earned
        return self


@struct.dataclass
class Improved:
    """The world's own goal, with a higher R_goal than the original path's, by more than the tolerance of either."""

    above: jax.Array | float = -float("inf")  # float[], R_goal of the original, and the tolerance of it
    uses_reward: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]:
        return outcome.reached & (outcome.r_goal > self.above + outcome.tolerance)

    def of(self, original_goal, magnitude=0.0, /) -> Improved:
        return Improved(original_goal + TOLERANCE * magnitude)


@struct.dataclass
class Condition:
    """Any jittable function of the final state and R_goal."""

    function: Callable[[Any, Float[Array, ""]], Bool[Array, ""]] = struct.field(pytree_node=False)
    uses_reward: ClassVar[bool] = True

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]:
        met = self.function(outcome.state, outcome.r_goal)
        if met is False or jnp.shape(met) != () or jnp.result_type(met) != jnp.bool_:
            raise UserError(
                f"goal: expected a function of (state, R_goal) that gives a bool[], got {met!r}; a state is compared "
                "by its fields"
            )
        return jnp.asarray(met)

    def of(self, *earned) -> Condition:
        del earned
        return self


reached = Reached()
"""The world's own goal: `reached_goal`, or natural termination where a world does not say."""

improved = Improved()
"""The world's own goal, with a higher R_goal than the original path's, by more than a millionth of Σ|r_t| of both.

Where the original's actions are not known, its R_goal is that of the likeliest way along its symbols: see
`pprjax.rollout.trace`.
"""


def at_least(x: float) -> AtLeast:
    """The goal R_goal ≥ x, to within a millionth of Σ|r_t|, the summed magnitudes of the rewards.

    Raises:
        ValueError: x is NaN.
    """
    if not isinstance(x, Tracer) and np.isnan(x).any():
        raise UserError(f"x: expected a number, got {x}")
    return AtLeast(jnp.asarray(x, jnp.result_type(float)))


@struct.dataclass
class ClassIs:
    """The world's `class_probs` of the path gives class c more than one half."""

    c: jax.Array  # int32[]
    uses_reward: ClassVar[bool] = False

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]:
        return _told("class_is", "class_probs", outcome.class_probs)[self.c] > 0.5

    def of(self, *earned) -> ClassIs:
        del earned
        return self


def class_is(c: int) -> ClassIs:
    """The goal that a classifier gives class c more than half of the probability of the path.

    For worlds that say what their classifier thinks of the path so far: `class_probs(state, params)`, float[C].
    """
    return ClassIs(jnp.asarray(c, jnp.int32))


def _told(goal: str, name: str, value: Array | None) -> Array:
    """What a goal asks of the world; a UserError where the world does not say it."""
    if value is None:
        raise UserError(f"goal: {goal} needs a world that has `{name}(state, params)`, got one without")
    return value


@struct.dataclass
class EndsIn:
    """The path ends in one of these states."""

    states: jax.Array  # bool[S], or their numbers, int32[n]
    uses_reward: ClassVar[bool] = False

    def __call__(self, outcome: Outcome) -> Bool[Array, ""]:
        number = _told("ends_in", "state_id", outcome.state_id)
        return self.states[number] if self.states.dtype == bool else jnp.isin(number, self.states)

    def of(self, *earned) -> EndsIn:
        del earned
        return self


def ends_in(states: Bool[Array | np.ndarray, " S"] | Int[Array | np.ndarray, " n"] | Sequence[int]) -> EndsIn:
    """The goal that the path ends in one of these states. For worlds that number theirs: `state_id(state, params)`.

    Args:
        states: their numbers; or bool[S], true for each of them.

    Raises:
        ValueError: states are neither, or a number stands there twice, as in a mask of integers.
    """
    array = np.asarray(states)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "bui":
        raise UserError(f"states: expected the numbers of states, or bool[S], got {states!r}")
    if array.dtype != bool and array.min() < 0:
        raise UserError(f"states: expected numbers of states, at least 0, got {array.min()}")
    if array.dtype != bool and len(np.unique(array)) < len(array):
        raise UserError(f"states: expected each number once, or a mask bool[S], got {array.tolist()}")
    return EndsIn(jnp.asarray(array, bool if array.dtype == bool else jnp.int32))
