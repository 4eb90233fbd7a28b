"""What a path is worth: Eq. 1-5 of Personalized Path Recourse (arXiv 2312.08724)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, Shaped

PROBABILITY_FLOOR = 1e-6
"""Probabilities are clipped to [1e-6, 1 - 1e-6] before h, which is infinite at 0 and 1."""


def similarity(distance: Num[Array, "*b"] | np.ndarray | float) -> Float[Array, "*b"]:
    """R_path = s_path = 1 / (d + 1), in (0, 1] (Eq. 1).

    Args:
        distance: edit distance to the original path, d ≥ 0.
    """
    return 1.0 / (jnp.asarray(distance, jnp.result_type(float)) + 1.0)


def link(prob: Shaped[Array, "*b"] | np.ndarray | float, num_actions: int | Int[Array, ""]) -> Float[Array, "*b"]:
    """h(p) = log((p - 2/A + 1) / (1 - p)) if p ≥ 1/A, else log(A·p) (Eq. 4).

    Zero at the uniform p = 1/A, and rising with p: what the agent prefers is rewarded, what it avoids punished.
    p is clipped to [1e-6, 1 - 1e-6], so h is finite everywhere.

    Args:
        prob: P_A(s, a), in [0, 1].
        num_actions: A ≥ 1, the size of the whole action set, available or not.
    """
    prob = jnp.asarray(prob, jnp.result_type(float))
    p = jnp.clip(prob, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
    rest = jnp.clip(1.0 - prob, PROBABILITY_FLOOR, 1.0)  # not 1 - p, which has lost its digits where p is near 1
    liked = jnp.log(2.0 - 2.0 / num_actions - rest) - jnp.log(rest)
    return jnp.where(p >= 1.0 / num_actions, liked, jnp.log(num_actions * p))


def total(
    reward_goal: Float[Array, "*b"] | np.ndarray,
    reward_path: Float[Array, "*b"] | np.ndarray,
    reward_policy: Float[Array, "*b"] | np.ndarray,
    *,
    lambda_path: Num[Array, "*b"] | np.ndarray | float,
    lambda_policy: Num[Array, "*b"] | np.ndarray | float,
) -> Float[Array, "*b"]:
    """R = R_goal + λ_path·R_path + λ_policy·R_policy, undiscounted (Eq. 5).

    Args:
        reward_goal: R_goal, the sum of the environment's rewards.
        reward_path: R_path = 1 / (d + 1).
        reward_policy: R_policy = Σ_t h(P_A(s_t, a_t)), the sum of the link over the actions taken.
    """
    return jnp.asarray(reward_goal) + lambda_path * reward_path + lambda_policy * reward_policy
