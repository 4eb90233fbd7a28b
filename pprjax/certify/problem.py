"""What is to be solved: originals in blocks, each with the paths that may answer it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from pprjax import limits
from pprjax.certify.edits import WholeCosts, whole_costs
from pprjax.certify.own_steps import habits_of
from pprjax.certify.unrolled import Earned, Unrolled, Weights, unroll
from pprjax.checks import check_symbols
from pprjax.constraints import kept_symbols
from pprjax.errors import UserError
from pprjax.finite_world import UNAVAILABLE, FiniteWorld, tabulate
from pprjax.objective import Objective, check_own_steps
from pprjax.paths import PAD, Paths
from pprjax.rollout import trace
from pprjax.ruled import without_rules
from pprjax.task import Task


@dataclasses.dataclass(frozen=True)
class Problem:
    """The paths that there are, and how edits of an original into one of them are counted."""

    task: Task
    unrolled: Unrolled
    costs: WholeCosts
    max_distance: float  # the most edits, inf where no constraint says so
    original_reward: np.ndarray  # float64[all], R_goal of every original, not only of a block; -inf: not followed

    @property
    def tables(self) -> FiniteWorld:
        return self.unrolled.tables


@dataclasses.dataclass(frozen=True)
class Block:
    """B originals that are worked through together, padded to N symbols. Arrays on the host."""

    symbols: np.ndarray  # int32[B, N], PAD after the end
    lengths: np.ndarray  # int32[B]
    own_reward: np.ndarray  # float64[B], R_goal of the original, 0 where the goal does not read it
    own_magnitude: np.ndarray  # float64[B], Σ|r_t| of it, 0 likewise
    lambda_path: np.ndarray  # float64[B]
    weights: Weights  # of the B originals

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: Int[np.ndarray, " R"]) -> Block:
        symbols, lengths, own_reward, own_magnitude, lambda_path, weights = (
            getattr(self, field.name) for field in dataclasses.fields(self)
        )
        return Block(
            symbols[rows], lengths[rows], own_reward[rows], own_magnitude[rows], lambda_path[rows], weights.of(rows)
        )


def blocks(
    task: Task, originals: Paths, objective: Objective
) -> Iterator[tuple[Int[np.ndarray, " B"], Problem, Block]]:
    """The originals in blocks, with their places among all: those with the same kept steps share an unrolled world.

    Raises:
        ValueError: as `pprjax.exact`.
    """
    costs = whole_costs(objective.costs)
    check_symbols(task, originals, objective)
    check_own_steps(objective, task.constraints)
    size = len(originals)
    lambda_path = _weights("lambda_path", 0.0 if objective.lambda_path is None else objective.lambda_path, size)
    lambda_policy = _weights("lambda_policy", objective.lambda_policy, size)
    tables = tabulate(task, habit=objective.habit)
    symbols, lengths = _checked(originals, tables)
    reads_reward = task.goal is not None and task.goal.uses_reward
    constraints = task.constraints
    free = tables if constraints is None else tabulate(_unbound(task), habit=objective.habit)
    own = earned_by(task, free, dataclasses.replace(originals, symbols=symbols, lengths=lengths))
    asked = own if reads_reward else Earned(*np.zeros((2, size)))
    limit = np.inf if constraints is None or constraints.max_distance is None else float(constraints.max_distance)
    kept = kept_symbols(constraints, originals)
    kept = np.zeros((size, 0), np.int32) if kept is None else kept
    sequences, owner = np.unique(kept, axis=0, return_inverse=True)
    for k, sequence in enumerate(sequences):  # without kept steps there is one, the empty one
        unrolled = unroll(tables, task, reads_reward, sequence[sequence != PAD])
        rows = np.flatnonzero(owner.ravel() == k)
        together = max(1, limits.BLOCK_FLOATS // max(unrolled.row.size, tables.next_state.size))
        for low in range(0, len(rows), together):
            index = rows[low : low + together]
            asked_at = asked.reward[index], asked.magnitude[index]
            weights = Weights(lambda_policy[index], *habits_of(tables, symbols[index], objective.own_steps))
            block = Block(symbols[index], lengths[index], *asked_at, lambda_path[index], weights)
            yield index, Problem(task, unrolled, costs, limit, own.reward), block


def earned_by(task: Task, tables: FiniteWorld, originals: Paths) -> Earned:
    """What the originals earned, float64[B]; R_goal is -inf where the world can't follow one.

    Where their actions are not known they went as `pprjax.rollout.trace` says, which the learner asks as well.

    Args:
        tables: of the task without constraints, which bind no original.
        originals: their symbols padded as in a Block.
    """
    symbols, lengths = np.asarray(originals.symbols), np.asarray(originals.lengths)
    actions = originals.actions
    actions = _likeliest_actions(task, symbols, lengths) if actions is None else np.asarray(actions)
    row = np.zeros(len(symbols), np.int64)
    earned, magnitude = np.zeros((2, len(symbols)))
    follows = symbols[:, 0] == tables.symbol[0]
    for t in range(min(symbols.shape[1] - 1, actions.shape[1])):
        moves = follows & (t + 1 < lengths)
        action = np.maximum(actions[:, t], 0)
        after = np.where(actions[:, t] < 0, UNAVAILABLE, tables.next_state[row, action])
        leads = moves & (after != UNAVAILABLE) & (tables.symbol[after] == symbols[:, t + 1])
        paid = np.where(leads, tables.reward[row, action], 0.0)
        earned += paid
        magnitude += np.abs(paid)
        row = np.where(leads, after, row)
        follows &= leads | ~moves
    return Earned(np.where(follows, earned, -np.inf), magnitude)


def _likeliest_actions(
    task: Task, symbols: Int[np.ndarray, "B N"], lengths: Int[np.ndarray, " B"]
) -> Int[np.ndarray, "B N"]:
    size, length = symbols.shape
    task = _unbound(task).replace(goal=None, horizon=length)
    together = max(8, limits.BLOCK_FLOATS // (length * task.env.num_states))
    parts = []
    for low in range(0, size, together):
        index = np.arange(low, min(low + together, size))
        rows = np.resize(index, limits.size_of(len(index)))
        parts.append(np.asarray(_traced(task, symbols[rows], lengths[rows]))[: len(index)])
    return np.concatenate(parts)


def _unbound(task: Task) -> Task:
    """The task as an original met it: without constraints."""
    return without_rules(task).replace(constraints=None)


@jax.jit
def _traced(task: Task, symbols, lengths) -> Int[Array, "B N"]:
    return jax.vmap(lambda s, n: trace(task, s, n, jax.random.key(0)).actions)(symbols, lengths)


def _weights(name: str, value, size: int) -> Float[np.ndarray, " B"]:
    weights = np.asarray(value, np.float64)
    if weights.shape not in ((), (size,)):
        raise UserError(f"{name}: expected one number, or one for each of {size} originals, got shape {weights.shape}")
    bad = weights[~(np.isfinite(weights) & (weights >= 0))]
    if bad.size:
        raise UserError(f"{name}: expected finite numbers, at least 0, got {bad[0]}")
    return np.broadcast_to(weights, size).copy()


def _checked(originals: Paths, tables: FiniteWorld) -> tuple[Int[np.ndarray, "B N"], Int[np.ndarray, " B"]]:
    """Symbols, padded to a width that few programs share, and lengths."""
    lengths = np.asarray(originals.lengths, np.int32)
    if lengths.size == 0:
        raise UserError("originals: expected at least one path, got none")
    if lengths.min() < 1 or lengths.max() > np.shape(originals.symbols)[1]:
        bad = np.flatnonzero((lengths < 1) | (lengths > np.shape(originals.symbols)[1]))[0]
        raise UserError(
            f"originals[{bad}]: a path needs at least its start, and room for it, got length {lengths[bad]}"
        )
    symbols = originals.padded().symbols.copy()
    inside = np.arange(symbols.shape[1]) < lengths[:, None]
    bad = np.argwhere(inside & (symbols < 0))
    if bad.size:
        b, i = bad[0]
        raise UserError(f"originals[{b}]: expected symbols of at least 0, got {symbols[b, i]} at position {i}")
    bad = np.flatnonzero(symbols[:, 0] != tables.symbol[0])
    if bad.size:
        got = symbols[bad[0], 0]
        raise UserError(f"originals[{bad[0]}]: expected a path from the start, symbol {tables.symbol[0]}, got {got}")
    symbols[~inside] = PAD
    return symbols, lengths
