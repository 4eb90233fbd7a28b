"""What a path is worth: Eq. 1-5 of Personalized Path Recourse (arXiv 2312.08724)."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, Shaped

PROBABILITY_FLOOR = 1e-6
"""Probabilities are clipped to [1e-6, 1 - 1e-6] before h, which is infinite at 0 and 1; of more than 100,000 actions to
0.1/A, for 1e-6 is not little beside 1/A there."""

LOG_FLOOR = float(np.log(1e-30))
"""log P_A is at least this in a regret, so that what the agent never does costs 69 nats and not infinitely much."""

Habit = Literal["regret", "link"]
"""How R_policy charges an action: by its regret, or by the link h(p) of Eq. 4."""

OwnSteps = Literal["charged", "free"]
"""Whether R_policy charges the steps that the original path took as well."""


def similarity(distance: Num[Array, "*b"] | np.ndarray | float | int) -> Float[Array, "*b"]:
    """R_path = s_path = 1 / (d + 1), in (0, 1] (Eq. 1).

    Args:
        distance: edit distance to the original path, d ≥ 0.
    """
    return closeness(jnp.asarray(distance, jnp.result_type(float)))


def closeness(distance: Any, weight: Any = 1.0) -> Any:
    """λ_path·R_path = λ_path / (d + 1) (Eq. 1), of what `distance` and `weight` are: NumPy's, JAX's, or columns.

    Args:
        distance: edit distance to the original path, d ≥ 0.
        weight: λ_path.
    """
    return weight / (1.0 + distance)


def link(
    prob: Shaped[Array, "*b"] | np.ndarray | np.floating | float, num_actions: int | Int[Array, ""]
) -> Float[Array, "*b"]:
    """h(p) = log((p - 2/A + 1) / (1 - p)) if p ≥ 1/A, else log(A·p) (Eq. 4).

    Zero at the uniform p = 1/A, and rising with p: what the agent prefers is rewarded, what it avoids punished.
    p is clipped to [min(1e-6, 0.1/A), 1 - 1e-6], so h is finite everywhere.

    Args:
        prob: P_A(s, a), in [0, 1].
        num_actions: A ≥ 1, the size of the whole action set, available or not.
    """
    prob = jnp.asarray(prob, jnp.result_type(float))
    p = jnp.clip(prob, jnp.minimum(PROBABILITY_FLOOR, 0.1 / num_actions), 1.0 - PROBABILITY_FLOOR)
    rest = jnp.clip(1.0 - prob, PROBABILITY_FLOOR, 1.0)  # not 1 - p, which has lost its digits where p is near 1
    liked = jnp.log(2.0 - 2.0 / num_actions - rest) - jnp.log(rest)
    return jnp.where(p >= 1.0 / num_actions, liked, jnp.log(num_actions * p))


def regret(
    log_probs: Float[Array, "*b A"] | np.ndarray, available: Bool[Array, "*b A"] | np.ndarray | None = None
) -> Float[Array, "*b A"]:
    """log P_A(s, a) - max_b log P_A(s, b) ≤ 0, in nats, of every action a; b runs over the actions that there are.

    The agent's favourite is free, and any other action costs how much less likely it is. Nothing is earned by going on,
    so no path gains by growing longer (greedy regularization of decoding: Meister, Cotterell and Vieira, arXiv
    2010.02650). It is 0 for an action that is not available.

    Args:
        log_probs: log P_A of all A actions; below log 1e-30 it counts as that.
        available: which actions the world offers; default all.
    """
    floored = jnp.maximum(jnp.asarray(log_probs, jnp.result_type(float)), LOG_FLOOR)
    offered = jnp.ones(floored.shape, bool) if available is None else jnp.asarray(available)
    favourite = jnp.max(floored, axis=-1, keepdims=True, where=offered, initial=LOG_FLOOR)
    return jnp.where(offered, floored - favourite, 0.0)


def spared[T: (Array, np.ndarray)](habits: T, original: Any, before: Any, after: Any, own_steps: OwnSteps) -> T:
    """What steps add to R_policy as edits of τ₀: their habits, but with own_steps "free" 0 of what τ₀ did itself.

    A step is τ₀'s own where its symbols (x_t, x_{t+1}) stand side by side somewhere in τ₀, wherever it is taken and
    however often. The first symbol of a path is no step: a path starts in it, so nothing is charged for it.

    Args:
        habits: [*b], the regrets of the actions taken, at most 0. So all terms stay at most 0.
        original: int[n], the symbols of τ₀, PAD after the end.
        before: int[*b], the symbol of the state in which the action is taken.
        after: int[*b], the symbol of the state that it leads to.
    """
    if own_steps == "charged":
        return habits
    xp: Any = jnp if isinstance(habits, jax.Array) else np
    return xp.where(is_own(original, before, after), xp.zeros_like(habits), habits)


def is_own(original: Any, before: Any, after: Any) -> Any:
    """Whether τ₀, int[*b, n], has the symbols `before` and `after`, int[*b], side by side: bool[*b]."""
    return ((original[..., :-1] == before[..., None]) & (original[..., 1:] == after[..., None])).any(-1)


def total(r_goal: Any, r_path: Any, r_policy: Any, *, lambda_path: Any, lambda_policy: Any) -> Any:
    """R = R_goal + λ_path·R_path + λ_policy·R_policy, undiscounted (Eq. 5), [*b] of NumPy or JAX.

    Args:
        r_goal: R_goal, the sum of the environment's rewards.
        r_path: R_path = 1 / (d + 1).
        r_policy: R_policy, the sum over the actions taken of their regrets, or of their links (Eq. 4); see
            `spared` for steps that the original took.
    """
    return r_goal + lambda_path * r_path + lambda_policy * r_policy
