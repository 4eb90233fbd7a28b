"""Config: every knob of Algorithm 1, and what each one does."""

from __future__ import annotations

from typing import Literal

import numpy as np
from flax import struct

from pprjax.edit_distance import Costs, EditCosts, Norm, RealCosts
from pprjax.errors import UserError
from pprjax.objective import Objective, check_own_steps
from pprjax.reward import Habit, OwnSteps


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
    habit: Habit = _static("regret")
    """How R_policy charges an action: "regret", by how much less likely it is than the agent's favourite; or "link",
    h(P_A) of Eq. 4, which pays for every action likelier than 1/A, and so for long paths."""
    own_steps: OwnSteps = _static("charged")
    """Whether R_policy charges what the original path τ₀ did itself. "free": a step from symbol x to symbol y costs
    nothing where y follows x anywhere in τ₀, so R_policy(τ₀) = 0 and no rare step has to be paid for to be kept;
    "charged": all steps alike. The first symbol of a path is no step. "free" goes with habit "regret"."""
    gamma: float = 1.0
    """γ in [0, 1]: the discount in the Q-learning target. Eq. 5 is undiscounted, so 1; the paper trains with 0.99."""
    learning_rate: float = 2e-3
    """Adam's step size over the first half of the iterations; it then falls linearly to a twentieth."""
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
    num_best: int = _static(32)
    """k ≤ b: the best paths of an iteration that go into the replay buffer."""

    epsilon_from: Literal["uniform", "policy"] = _static("uniform")
    """Where an exploring action comes from: evenly, or P_A, which suits worlds with many actions."""
    target: Literal["td", "return", "published"] = _static("td")
    """What Q is regressed on: "td": r + γ·max Q′; "return": the discounted return; "published": return + γ·max Q′."""
    target_period: int = _static(1)
    """C: iterations between synchronizations of the target network."""
    double: bool = _static(False)
    """Choose the bootstrap action by the online network (double DQN)."""
    dueling: bool = _static(False)
    """Q = V + A - mean A (dueling network)."""
    prioritized: bool = _static(False)
    """Replay tuples in proportion to their last TD error rather than evenly."""
    updates: int = _static(8)
    """Minibatch updates in each iteration."""
    batch_size: int = _static(256)
    """Tuples in a minibatch."""
    memory: int = _static(64)
    """Iterations whose paths the replay buffer holds."""
    width: int = _static(128)
    """Units of each layer of the Q-network."""
    depth: int = _static(0)
    """Hidden layers after the embeddings."""

    alignment_aware: bool = _static(True)
    """Q sees (state, position in τ₀ of the best alignment, steps taken), not the bare state."""
    telescoped: bool = _static(True)
    """Pay R_path where the edit is made, not on the last step."""
    mixed_lanes: bool = _static(True)
    """Some paths follow Q and then P_A, τ₀ and then Q, the best path so far and then Q; else all are ε-greedy on Q."""
    edited_lanes: bool = _static(False)
    """With mixed_lanes, some follow τ₀ with one edit, tried in turn, or the best path so far with an edit or two: for
    worlds where any symbol may follow any other. In a grid world, where an edit moves all that follows it, they add
    nothing."""
    mixed_replay: bool = _static(True)
    """Half of the replayed tuples come from random paths; else all come from the k best of each iteration."""

    distance: Literal["edit", "manhattan", "euclidean", "real"] = _static("edit")
    """d of R_path = 1 / (d + 1): the edit distance; or, where symbols are numbers and all paths have one length,
    Σ|τ₀_i - τ_i| or √Σ(τ₀_i - τ_i)²; or "real", where symbols are vectors, the edit distance in which a replacement
    costs min(1, |(x - y) / scale|) and all else 1. `exact` takes the first alone; a search no "euclidean", for d is its
    number of edits; "learn" any."""
    scale: tuple[float, ...] | None = _static(None)
    """Of distance "real", which needs it: for each number of a vector the difference that makes an altogether other
    state, above 0."""
    w_ins: float = _static(1.0)
    """Edit cost of an inserted symbol."""
    w_del: float = _static(1.0)
    """Edit cost of a deleted symbol."""
    w_sub: float = _static(1.0)
    """Edit cost of a replaced symbol."""

    @property
    def objective(self) -> Objective:
        """What is asked of a path, without the learner's settings."""
        return Objective(
            lambda_path=self.lambda_path,
            lambda_policy=self.lambda_policy,
            habit=self.habit,
            own_steps=self.own_steps,
            costs=self._costs,
        )

    @property
    def _costs(self) -> Costs:
        if self.distance == "real":
            return RealCosts(() if self.scale is None else self.scale)
        if self.distance != "edit":
            return Norm(1 if self.distance == "manhattan" else 2)
        return EditCosts(self.w_ins, self.w_del, self.w_sub)


PAPER = Config(habit="link", gamma=0.99, learning_rate=1e-3)
"""What the paper's experiments have in common: h(p) as habit, λ 0.1/0.1, γ 0.99 and learning rate 1e-3."""

CHOICES = {
    "habit": ("regret", "link"),
    "own_steps": ("charged", "free"),
    "epsilon_from": ("uniform", "policy"),
    "target": ("td", "return", "published"),
    "distance": ("edit", "manhattan", "euclidean", "real"),
}


def check_config(config: Config, num_originals: int) -> None:
    """Raise a ValueError that names the first setting out of range, what it is and what it should be."""
    for name in ("lambda_path", "lambda_policy"):
        value = np.asarray(getattr(config, name), float)
        if value.shape not in ((), (num_originals,)):
            one = f"one number, or one for each original, float[{num_originals}]"
            raise UserError(f"{name}: expected {one}, got shape {value.shape}")
        bad = value[~((value >= 0) & np.isfinite(value))]
        if bad.size:
            raise UserError(f"{name}: expected a finite number of at least 0, got {bad.flat[0]}")
    for name in ("gamma", "epsilon_start", "epsilon_end"):
        if not 0 <= getattr(config, name) <= 1:
            raise UserError(f"{name}: expected a number in [0, 1], got {getattr(config, name)}")
    for name, low in {"learning_rate": 0, "c_e": 0}.items():
        value = getattr(config, name)
        if not (value >= low and np.isfinite(value)):
            raise UserError(f"{name}: expected a finite number of at least {low}, got {value}")
    for name in ("iterations", "num_paths", "num_best", "target_period", "updates", "batch_size", "memory", "width"):
        if getattr(config, name) < 1:
            raise UserError(f"{name}: expected at least 1, got {getattr(config, name)}")
    if config.depth < 0:
        raise UserError(f"depth: expected at least 0, got {config.depth}")
    if config.num_best > config.num_paths:
        raise UserError(f"num_best: expected k ≤ b = {config.num_paths}, got {config.num_best}")
    if config.edited_lanes and not config.mixed_lanes:
        raise UserError("edited_lanes: expected mixed_lanes with it, some of which they replace")
    if config.mixed_replay and config.batch_size < 2:
        raise UserError(f"batch_size: expected at least 2 with mixed_replay, got {config.batch_size}")
    for name, choices in CHOICES.items():
        if getattr(config, name) not in choices:
            raise UserError(f"{name}: expected one of {', '.join(choices)}, got {getattr(config, name)!r}")
    check_own_steps(config.objective)
    EditCosts(config.w_ins, config.w_del, config.w_sub).check()
    check_scale(config)


def check_scale(config: Config) -> None:
    """Raise a ValueError where a distance lacks its scale, or a scale its distance."""
    if config.distance == "real":
        if config.scale is None:
            raise UserError('scale: distance "real" needs a tuple of numbers above 0, one a coordinate, got None')
        config.objective.costs.check()
        if (config.w_ins, config.w_del, config.w_sub) != (1.0, 1.0, 1.0):
            raise UserError('w_ins, w_del, w_sub: with distance "real" expected 1, for scale says what a state costs')
    elif config.scale is not None:
        raise UserError(f'scale: expected None with distance {config.distance!r}; it belongs to "real"')
