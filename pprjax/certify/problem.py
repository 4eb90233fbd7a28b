"""What is to be solved: originals in blocks, each with the paths that may answer it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify import limits
from pprjax.certify.edits import WholeCosts, whole_costs
from pprjax.certify.tables import UNAVAILABLE, Tables, tabulate
from pprjax.certify.unrolled import Unrolled, unroll
from pprjax.config import Config
from pprjax.constraints import kept_symbols
from pprjax.paths import PAD, Paths
from pprjax.task import Task


@dataclasses.dataclass(frozen=True)
class Problem:
    """The paths that there are, and how edits of an original into one of them are counted."""

    task: Task
    unrolled: Unrolled
    costs: WholeCosts
    max_distance: float  # the most edits, inf where no constraint says so
    free: Tables  # of the world without constraints: an original went its way before there were any

    @property
    def tables(self) -> Tables:
        return self.unrolled.tables


@dataclasses.dataclass(frozen=True)
class Block:
    """B originals that are worked through together, padded to N symbols. Arrays on the host."""

    symbols: np.ndarray  # int32[B, N], PAD behind the end
    lengths: np.ndarray  # int32[B]
    own_reward: np.ndarray  # float64[B], R_goal of the original, 0 where the goal does not read it
    lambda_path: np.ndarray  # float64[B]
    lambda_policy: np.ndarray  # float64[B]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: Int[np.ndarray, " R"]) -> Block:
        return Block(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))


def blocks(task: Task, originals: Paths, config: Config) -> Iterator[tuple[Int[np.ndarray, " B"], Problem, Block]]:
    """The originals in blocks, with their places among all: those with the same kept steps share an unrolled world.

    Raises:
        ValueError: as `pprjax.exact`.
    """
    costs = whole_costs(config)
    size = len(originals)
    lambda_path = _weights("lambda_path", config.lambda_path, size)
    lambda_policy = _weights("lambda_policy", config.lambda_policy, size)
    tables = tabulate(task, habit=config.habit)
    symbols, lengths = _checked(originals, tables)
    actions = np.full((size, 1), PAD) if originals.actions is None else np.asarray(originals.actions)
    reads_reward = task.goal is not None and task.goal.uses_reward
    constraints = task.constraints
    free = tables if constraints is None else tabulate(task.replace(constraints=None), habit=config.habit)
    limit = np.inf if constraints is None or constraints.max_distance is None else float(constraints.max_distance)
    kept = kept_symbols(constraints, originals)
    kept = np.zeros((size, 0), np.int32) if kept is None else kept
    sequences, whose = np.unique(kept, axis=0, return_inverse=True)
    for k, sequence in enumerate(sequences):  # without kept steps there is one, the empty one
        unrolled = unroll(tables, task, reads_reward, sequence[sequence != PAD])
        mine = np.flatnonzero(whose.ravel() == k)
        together = max(1, limits.BLOCK_FLOATS // max(unrolled.row.size, tables.following.size))
        for low in range(0, len(mine), together):
            at = mine[low : low + together]
            own = own_reward(free, symbols[at], lengths[at], actions[at]) if reads_reward else np.zeros(len(at))
            block = Block(symbols[at], lengths[at], own, lambda_path[at], lambda_policy[at])
            yield at, Problem(task, unrolled, costs, limit, free), block


def original_rewards(problem: Problem, originals: Paths) -> Float[np.ndarray, " B"]:
    """R_goal of each original; -inf where the world can't follow it."""
    tables, symbols, lengths = problem.free, np.asarray(originals.symbols), np.asarray(originals.lengths)
    if originals.actions is not None:
        return _rewards_along(tables, symbols, lengths, np.asarray(originals.actions))
    together = max(1, limits.BLOCK_FLOATS // tables.following.size)
    nothing = np.full((len(symbols), 1), PAD)
    parts = [slice(low, low + together) for low in range(0, len(symbols), together)]
    return np.concatenate([own_reward(tables, symbols[at], lengths[at], nothing[at]) for at in parts])


def _rewards_along(
    tables: Tables, symbols: Int[np.ndarray, "B N"], lengths: Int[np.ndarray, " B"], actions: Int[np.ndarray, "B M"]
) -> Float[np.ndarray, " B"]:
    """R_goal along these actions; -inf where they do not lead along the symbols."""
    row, earned = np.zeros(len(symbols), np.int64), np.zeros(len(symbols))
    follows = symbols[:, 0] == tables.symbol[0]
    for t in range(symbols.shape[1] - 1):
        moves = follows & (t + 1 < lengths)
        action = np.maximum(actions[:, t], 0)
        after = np.where(actions[:, t] < 0, UNAVAILABLE, tables.following[row, action])
        leads = moves & (after != UNAVAILABLE) & (tables.symbol[after] == symbols[:, t + 1])
        earned += np.where(leads, tables.reward[row, action], 0.0)
        row = np.where(leads, after, row)
        follows &= leads | ~moves
    return np.where(follows, earned, -np.inf)


def own_reward(
    tables: Tables, symbols: Int[np.ndarray, "B N"], lengths: Int[np.ndarray, " B"], actions: Int[np.ndarray, "B M"]
) -> Float[np.ndarray, " B"]:
    """R_goal of each original: of the best-rewarded way to trace its symbols, -inf where there is none."""
    size, length = symbols.shape
    choices = np.arange(tables.num_actions)
    value = np.full((size, tables.num_rows + 1), -np.inf)  # row -1, UNAVAILABLE, is the last
    for t in reversed(range(length)):
        q = tables.reward + value[:, tables.following]
        if t < actions.shape[1]:
            taken = actions[:, t, None, None]
            q = np.where((taken == PAD) | (taken == choices), q, -np.inf)
        last = lengths[:, None] - 1
        here = np.where(t == last, 0.0, np.where(t < last, q.max(-1), -np.inf))
        value[:, :-1] = np.where(tables.symbol == symbols[:, t, None], here, -np.inf)
    return value[:, 0]


def _weights(name: str, value, size: int) -> Float[np.ndarray, " B"]:
    weights = np.asarray(value, np.float64)
    if weights.shape not in ((), (size,)):
        raise ValueError(f"{name}: expected one number, or one for each of {size} originals, got shape {weights.shape}")
    bad = weights[~(np.isfinite(weights) & (weights >= 0))]
    if bad.size:
        raise ValueError(f"{name}: expected finite numbers, at least 0, got {bad[0]}")
    return np.broadcast_to(weights, size).copy()


def _checked(originals: Paths, tables: Tables) -> tuple[Int[np.ndarray, "B N"], Int[np.ndarray, " B"]]:
    """Symbols, padded to a width that few programs share, and lengths."""
    lengths = np.asarray(originals.lengths, np.int32)
    if lengths.size == 0:
        raise ValueError("originals: expected at least one path, got none")
    if lengths.min() < 1 or lengths.max() > np.shape(originals.symbols)[1]:
        bad = np.flatnonzero((lengths < 1) | (lengths > np.shape(originals.symbols)[1]))[0]
        raise ValueError(
            f"originals[{bad}]: a path needs at least its start, and room for it, got length {lengths[bad]}"
        )
    symbols = originals.padded_to(8 * -(-np.shape(originals.symbols)[1] // 8)).symbols.copy()
    inside = np.arange(symbols.shape[1]) < lengths[:, None]
    bad = np.argwhere(inside & (symbols < 0))
    if bad.size:
        b, i = bad[0]
        raise ValueError(f"originals[{b}]: expected symbols of at least 0, got {symbols[b, i]} at position {i}")
    bad = np.flatnonzero(symbols[:, 0] != tables.symbol[0])
    if bad.size:
        got = symbols[bad[0], 0]
        raise ValueError(f"originals[{bad[0]}]: expected a path from the start, symbol {tables.symbol[0]}, got {got}")
    symbols[~inside] = PAD
    return symbols, lengths
