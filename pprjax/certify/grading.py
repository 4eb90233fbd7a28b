"""What action sequences are worth: Eq. 5, added up in float64."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from flax import struct
from jaxtyping import Bool, Int

from pprjax import edit_distance, limits
from pprjax.certify.problem import Block, Problem
from pprjax.edit_distance import EditCosts
from pprjax.paths import PAD
from pprjax.reward import closeness


@struct.dataclass
class Graded:
    """B paths and what they are worth. Arrays on the host."""

    actions: np.ndarray  # int32[B, T]
    symbols: np.ndarray  # int32[B, T + 1]
    num_actions: np.ndarray  # int32[B]
    row: np.ndarray  # int32[B], of the tables, where it ends
    goal: np.ndarray  # float64[B], R_goal
    r_policy: np.ndarray  # float64[B], R_policy
    log_prob: np.ndarray  # float64[B], Σ log P_A
    distance: np.ndarray  # int32[B], d
    value: np.ndarray  # float64[B], R_goal + λ_policy·R_policy
    reward: np.ndarray  # float64[B], Eq. 5

    def __getitem__(self, rows) -> Graded:
        return jax.tree.map(lambda x: x[rows], self)


def grade(problem: Problem, block: Block, actions: Int[np.ndarray, "B T"]) -> Graded:
    """Take the actions, PAD after the end, for each original of the block; the cost does not depend on the goal."""
    tables, weights = problem.tables, block.weights
    size, horizon = actions.shape
    row = np.zeros(size, np.int32)
    passed = np.full((size, horizon + 1), PAD, np.int32)
    passed[:, 0] = tables.symbol[0]
    goal, habit, log_prob = np.zeros((3, size))
    for t in range(horizon):
        moves, action = actions[:, t] != PAD, np.maximum(actions[:, t], 0)
        goal += np.where(moves, tables.reward[row, action], 0.0)
        habit += np.where(moves, weights.habit[weights.which, row, action], 0.0)
        log_prob += np.where(moves, tables.log_prob[row, action], 0.0)
        row = np.where(moves, tables.next_state[row, action], row)
        passed[:, t + 1] = np.where(moves, tables.symbol[row], PAD)
    num_actions = (actions != PAD).sum(1).astype(np.int32)
    index = np.resize(np.arange(size), limits.size_of(size))
    as_floats = EditCosts(*map(float, problem.costs))  # of which the unit costs have the fast form
    distance = _distances(
        block.symbols[index], block.lengths[index], passed[index], num_actions[index], costs=as_floats
    )
    distance = np.rint(np.asarray(distance)[:size]).astype(np.int32)
    value = goal + weights.lambda_policy * habit
    return Graded(
        actions=actions,
        symbols=passed,
        num_actions=num_actions,
        row=row,
        goal=goal,
        r_policy=habit,
        log_prob=log_prob,
        distance=distance,
        value=value,
        reward=value + closeness(distance, block.lambda_path),
    )


@partial(jax.jit, static_argnames="costs")
def _distances(symbols, lengths, passed, num_actions, *, costs: EditCosts):
    return jax.vmap(partial(edit_distance.between, costs=costs))(symbols, lengths, passed, num_actions + 1)


def where(chosen: Bool[np.ndarray, " B"], this: Graded, other: Graded) -> Graded:
    """Row by row, this where chosen, else the other."""
    return jax.tree.map(lambda a, b: np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b), this, other)


def no_path(like: Graded) -> Graded:
    """In every row no path: the start alone, worth -inf."""
    symbols = np.full_like(like.symbols, PAD)
    symbols[:, 0] = like.symbols[:, 0]
    nan, worst = np.full_like(like.goal, np.nan), np.full_like(like.reward, -np.inf)
    return Graded(
        actions=np.full_like(like.actions, PAD),
        symbols=symbols,
        num_actions=np.zeros_like(like.num_actions),
        row=np.zeros_like(like.row),
        goal=nan,
        r_policy=nan,
        log_prob=nan,
        distance=np.full_like(like.distance, -1),
        value=worst,
        reward=worst,
    )
