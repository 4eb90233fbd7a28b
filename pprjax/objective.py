"""Objective: what is asked of a path, whoever looks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from flax import struct
from jaxtyping import Int

from pprjax.edit_distance import Costs, EditCosts, RealCosts
from pprjax.errors import UserError
from pprjax.reward import Habit, OwnSteps, closeness, total


def _static(default: Any = None) -> Any:
    return struct.field(pytree_node=False, default=default)


@struct.dataclass(kw_only=True)
class Objective:
    """R = R_goal + λ_path·R_path + λ_policy·R_policy (Eq. 5), with what R_path counts and what R_policy charges.

    It is taken from a `Config` (`config.objective`), whose other settings are the learner's. A pytree: the two λ are
    traced; what shapes a program is static, so that configs which differ in the learner's settings share theirs.
    """

    lambda_path: Any = 0.1  # λ_path ≥ 0, one number or float[B]; None: every λ_path at once, the frontier
    lambda_policy: Any = 0.1  # λ_policy ≥ 0, one number or float[B]
    habit: Habit = _static("regret")
    own_steps: OwnSteps = _static("charged")
    costs: Costs = _static(EditCosts())  # what d counts

    @property
    def whole(self) -> bool:
        """Whether d is a whole number: it counts edits, and each costs a whole number."""
        return isinstance(self.costs, EditCosts) and all(cost == int(cost) for cost in self.costs)

    @property
    def apart(self) -> EditCosts | RealCosts:
        """What δ counts between two recourses: edits of unit costs, of vectors real costs."""
        return self.costs if isinstance(self.costs, RealCosts) else EditCosts()

    @property
    def for_frontier(self) -> Objective:
        """The same for every λ_path at once."""
        return replace(self, lambda_path=None)

    def of(self, rows: Int[np.ndarray, " R"]) -> Objective:
        """That of each of these originals, by their number: λ are float64[] still, or float64[R]. On the host."""
        weights = jax.tree.map(lambda weight: np.asarray(weight, float), self)
        return jax.tree.map(lambda weight: weight[rows] if weight.ndim else weight, weights)

    def value(self, r_goal: Any, r_policy: Any) -> Any:
        """v = R_goal + λ_policy·R_policy, [*b] of NumPy or JAX: R without what it says of closeness."""
        return r_goal + self.lambda_policy * r_policy

    def reward(self, r_goal: Any, r_policy: Any, distance: Any) -> Any:
        """R (Eq. 5) of paths at distances d, [*b] of NumPy or JAX."""
        weights = dict(lambda_path=self.lambda_path, lambda_policy=self.lambda_policy)
        return total(r_goal, closeness(distance), r_policy, **weights)


def check_own_steps(objective: Objective, limits: Any = None) -> None:
    """Raise a ValueError where own steps are to be free of a habit that pays, or of a limit that may forbid them.

    Args:
        limits: what has the `max_regret` of a task's constraints; None: nothing is forbidden.
    """
    if objective.own_steps == "free" and limits is not None and limits.max_regret is not None:
        raise UserError(
            'own_steps, max_regret: "free", the default for logs, lets a path keep whatever the original did, but '
            'max_regret forbids some of it; expected own_steps "charged" with it (--own-steps charged)'
        )
    if objective.own_steps == "free" and objective.habit == "link":
        raise UserError(
            'own_steps: "free" takes away what steps of the original cost, but habit "link" pays for steps; expected '
            'own_steps "charged", or habit "regret"'
        )
