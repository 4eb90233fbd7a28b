"""Config: every knob of Algorithm 1, and what each one does."""

from __future__ import annotations

from typing import Literal

import numpy as np
from flax import struct

from pprjax.edit_distance import EditCosts


def _static(default):
    return struct.field(pytree_node=False, default=default)


@struct.dataclass(kw_only=True)
class Config:
    """The knobs of Algorithm 1. Immutable: `config.replace(lambda_path=10.0)` gives another.

    A pytree: the settings of the reward and of the optimizer are traced and may be swept over with `vmap`; those that
    shape the program are static. In `recourse` and `exact`, lambda_path and lambda_policy may be one number for all
    originals or float[B], one for each.
    """

    lambda_path: float = 0.1
    """λ_path ≥ 0: the weight of staying close to the original path."""
    lambda_policy: float = 0.1
    """λ_policy ≥ 0: the weight of acting as the agent would."""
    gamma: float = 1.0
    """γ in [0, 1]: the discount in the Q-learning target. Eq. 5 is undiscounted, so 1; the paper trains with 0.99."""
    learning_rate: float = 2e-3
    """Adam's step size."""
    c_e: float = 1.0
    """c_e ≥ 0: the weight of the UCB bonus √(ln t / N(s, a)), in units of the scaled reward."""
    epsilon_start: float = 1.0
    """ε of the first iteration: the chance of an exploring action."""
    epsilon_end: float = 0.05
    """ε from halfway on."""

    iterations: int = _static(300)
    """Iterations of Algorithm 1."""
    num_paths: int = _static(256)
    """b: paths sampled in each iteration."""
    num_best: int = _static(8)
    """k ≤ b: the best paths of an iteration that go into the replay buffer."""

    w_ins: float = _static(1.0)
    """Edit cost of an inserted symbol."""
    w_del: float = _static(1.0)
    """Edit cost of a deleted symbol."""
    w_sub: float = _static(1.0)
    """Edit cost of a replaced symbol."""

    @property
    def costs(self) -> EditCosts:
        return EditCosts(self.w_ins, self.w_del, self.w_sub)
