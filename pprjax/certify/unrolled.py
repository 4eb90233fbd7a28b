"""The world unrolled over time: which states can be reached in how many steps, and bounds on what is earned there."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pprjax import limits
from pprjax.constraints import Constraints
from pprjax.finite_world import UNAVAILABLE, FiniteWorld
from pprjax.paths import PAD
from pprjax.ruled import accepted
from pprjax.task import Task


class Earned(NamedTuple):
    """What paths earned. float64."""

    reward: np.ndarray  # R_goal = Σ r_t
    magnitude: np.ndarray  # Σ|r_t|, to which thresholds on R_goal are relative


@dataclasses.dataclass(frozen=True)
class Unrolled:
    """The world unrolled over T = horizon steps, W the widest layer: layer t holds what t actions reach.

    A node is a row of the tables; where the goal reads R_goal, with the R_goal so far; and where steps must stay, with
    the number of them that were visited.
    """

    tables: FiniteWorld
    row: np.ndarray  # int32[T + 1, W], of the tables; 0 in padding
    earned: Earned  # float64[T + 1, W] each, so far, Σ|r_t| the largest of all ways; 0 where the goal does not read it
    next_state: np.ndarray  # int32[T + 1, W, A], node of the next layer; W where there is none
    stops: np.ndarray  # bool[T + 1, W], a path ends here, every kept step visited, every rule kept, nothing forbidden

    @property
    def horizon(self) -> int:
        return len(self.row) - 1


class Weights(NamedTuple):
    """What K originals are charged for their habits. Each has one of H tables: with own steps free its own, else all
    have the same one."""

    lambda_policy: np.ndarray  # float64[K]
    which: np.ndarray  # int64[K], the table of each
    habit: np.ndarray  # float32[H, N, A], what each action adds to R_policy

    def of(self, index: Any) -> Weights:
        """Those of some of the originals."""
        return Weights(self.lambda_policy[index], self.which[index], self.habit)

    def charges(self, rows: Int[np.ndarray, "one_or_K W"]) -> Float[np.ndarray, "K W A"]:
        """λ_policy times what each action in these rows adds to R_policy; one line of rows is that of all originals."""
        habit = self.habit[0][rows] if len(self.habit) == 1 else self.habit[self.which[:, None], rows]
        return self.lambda_policy[:, None, None] * habit


def unroll(tables: FiniteWorld, task: Task, reads_reward: bool, kept: Int[np.ndarray, " K"]) -> Unrolled:
    """Layer after layer, from the start.

    Args:
        reads_reward: whether the goal reads R_goal.
        kept: the symbols that every path must visit, in this order.

    Raises:
        TooLargeError: a layer has more than MAX_LAYER nodes, or all have more than MAX_EDGES edges.
    """
    wanted = np.append(kept, PAD)
    rows, visited = [np.zeros(1, np.int32)], [np.array([wanted[0] == tables.symbol[0]], int)]
    earned, magnitude = [np.zeros(1)], [np.zeros(1)]
    reward = tables.reward.astype(float) if reads_reward else np.zeros(tables.reward.shape)
    edges = []
    for _ in range(task.horizon):
        targets = tables.next_state[rows[-1]]
        valid = targets != UNAVAILABLE
        sums = (earned[-1][:, None] + reward[rows[-1]])[valid] + 0.0  # + 0.0: -0.0 and 0.0 are one node
        sizes = (magnitude[-1][:, None] + np.abs(reward[rows[-1]]))[valid]
        progress = visited[-1][:, None] + (tables.symbol[targets] == wanted[visited[-1]][:, None])
        parts = [targets[valid], sums, *([progress[valid]] if kept.size else [])]
        nodes, index = np.unique(np.stack(parts), axis=1, return_inverse=True)
        _check_width(nodes.shape[1], reads_reward, kept.size, task.constraints)
        limits.check_edges(task.horizon + 1, nodes.shape[1], tables.num_actions)
        edge = np.full(targets.shape, UNAVAILABLE, np.int32)
        edge[valid] = index.ravel()
        edges.append(edge)
        rows.append(nodes[0].astype(np.int32))
        earned.append(nodes[1])
        magnitude.append(np.zeros(nodes.shape[1]))
        np.maximum.at(magnitude[-1], index.ravel(), sizes)
        visited.append(nodes[2].astype(int) if kept.size else np.zeros(len(nodes[0]), int))
    edges.append(np.full((len(rows[-1]), tables.num_actions), UNAVAILABLE, np.int32))

    width = limits.size_of(max(map(len, rows)), finely=True)
    shape = (task.horizon + 1, width)
    unrolled = Unrolled(
        tables=tables,
        row=np.zeros(shape, np.int32),
        earned=Earned(np.zeros(shape), np.zeros(shape)),
        next_state=np.full((*shape, tables.num_actions), width, np.int32),
        stops=np.zeros(shape, bool),
    )
    keeps_rules = np.broadcast_to(accepted(task, tables.states), tables.num_rows)
    startable = task.constraints is None or not bool(task.constraints.forbids(tables.symbol[0]))
    for t, (row, seen, edge) in enumerate(zip(rows, visited, edges, strict=True)):
        unrolled.row[t, : len(row)] = row
        unrolled.earned.reward[t, : len(row)] = earned[t]
        unrolled.earned.magnitude[t, : len(row)] = magnitude[t]
        unrolled.next_state[t, : len(row)] = np.where(edge == UNAVAILABLE, width, edge)
        unrolled.stops[t, : len(row)] = (edge == UNAVAILABLE).all(1) & (seen == kept.size) & startable
        unrolled.stops[t, : len(row)] &= keeps_rules[row]
    return unrolled


def _check_width(num_nodes: int, reads_reward: bool, num_kept: int, constraints: Constraints | None) -> None:
    if num_nodes > limits.MAX_LAYER:
        what = "pairs of state and R_goal so far: the goal reads R_goal, which takes" if reads_reward else "states:"
        what = f"{what} with {num_kept} steps that must stay," if num_kept else what
        if constraints is not None and constraints.rules:
            what += f" with what {len(constraints.rules)} rules remember,"
        raise limits.TooLargeError(f"task: more than {limits.MAX_LAYER} {what} too many for a certificate")


def ending_values(task: Task, unrolled: Unrolled, own: Earned) -> Float[np.ndarray, "K layers W"]:
    """What it is worth to end in a node: 0, or -inf where no path ends there or the goal isn't met.

    Args:
        own: float64[K] each, what the originals earned, which their goals may ask for.
    """
    stops = unrolled.stops
    values = np.where(np.broadcast_to(stops, (len(own.reward), *stops.shape)), 0.0, -np.inf)
    if task.goal is None or not stops.any():
        return values
    ends = np.stack([unrolled.row[stops], *(x[stops] for x in unrolled.earned)])
    (row, *earned), index = np.unique(ends, axis=1, return_inverse=True)
    met = goal_met(task, task.goal, unrolled.tables, row.astype(np.int32), Earned(*earned), own)[:, index.ravel()]
    values[:, stops] = np.where(met, 0.0, -np.inf)
    return values


def goal_met(
    task: Task,
    goal: Any,
    tables: FiniteWorld,
    row: Int[np.ndarray, " L"],
    earned: Earned,
    own: Earned,
) -> Bool[np.ndarray, "K L"]:
    """Whether a path that ends in row[l] and earned earned[l] meets the goal, for originals that earned own[k]."""
    rows = np.resize(np.arange(len(row)), limits.size_of(len(row)))
    index = np.resize(np.arange(len(own.reward)), limits.size_of(len(own.reward)))
    states = jax.tree.map(lambda x: x[row[rows]], tables.states)
    paths, originals = jax.tree.map(lambda x: x[rows], earned), jax.tree.map(lambda x: x[index], own)
    met = _goals_met(task, goal, states, tables.ended[row[rows]], paths, originals)
    return np.asarray(met)[: len(own.reward), : len(row)]


@jax.jit
def _goals_met(task: Task, goal: Any, states, ended, earned: Earned, own: Earned) -> Bool[Array, "K L"]:
    def one(original: Earned):
        own_goal = goal.of(*original)
        return jax.vmap(lambda state, ended, path: own_goal(task.outcome(state, ended, *path)))(states, ended, earned)

    return jax.vmap(one)(own)


def best_to_come(
    unrolled: Unrolled,
    weights: Weights,
    ending: Float[np.ndarray, "K layers W"],
    within: Bool[np.ndarray, "K layers W"] | None = None,
) -> Float[np.ndarray, "K layers targets"]:
    """The best R_goal + λ_policy·R_policy to come from each node; `within`: of the paths inside these."""
    value = np.full((*ending.shape[:-1], ending.shape[-1] + 1), -np.inf)  # the last: where no edge leads
    for t in reversed(range(ending.shape[1])):
        here = ending[:, t]
        if t + 1 < ending.shape[1]:
            onward = _edges(unrolled, weights, t) + value[:, t + 1][:, unrolled.next_state[t]]
            here = np.where(unrolled.stops[t], here, onward.max(-1))
        value[:, t, :-1] = here if within is None else np.where(within[:, t], here, -np.inf)
    return value


def best_so_far(unrolled: Unrolled, weights: Weights) -> Float[np.ndarray, "K layers W"]:
    """The best R_goal + λ_policy·R_policy on the way to each node."""
    num_layers, width = unrolled.row.shape
    value = np.full((len(weights.lambda_policy), num_layers, width), -np.inf)
    value[:, 0, 0] = 0.0
    for t in range(num_layers - 1):
        targets = unrolled.next_state[t].ravel()
        order = np.argsort(targets, kind="stable")
        nodes, first = np.unique(targets[order], return_index=True)
        arriving = (value[:, t, :, None] + _edges(unrolled, weights, t)).reshape(len(value), -1)
        best = np.maximum.reduceat(arriving[:, order], first, axis=1)
        value[:, t + 1, nodes[nodes < width]] = best[:, nodes < width]
    return value


def _edges(unrolled: Unrolled, weights: Weights, t: int) -> Float[np.ndarray, "K W A"]:
    rows = unrolled.row[t]
    return unrolled.tables.reward[rows] + weights.charges(rows[None])


def follow(
    unrolled: Unrolled, weights: Weights, to_come: Float[np.ndarray, "K layers targets"]
) -> Int[np.ndarray, "K T"]:
    """The actions that attain to_come[:, 0, 0], PAD after the end; of equally good ones the first."""
    size, horizon = len(to_come), unrolled.horizon
    actions = np.full((size, horizon), PAD, np.int32)
    node, index = np.zeros(size, np.int64), np.arange(size)
    for t in range(horizon):
        index = index[(to_come[index, t, node[index]] > -np.inf) & ~unrolled.stops[t, node[index]]]
        here = node[index]
        rows = unrolled.row[t, here]
        edges = unrolled.tables.reward[rows] + weights.of(index).charges(rows[:, None])[:, 0]
        onward = edges + to_come[index[:, None], t + 1, unrolled.next_state[t, here]]
        action = onward.argmax(-1)
        actions[index, t] = action
        node[index] = unrolled.next_state[t, here, action]
    return actions


def spelling(
    unrolled: Unrolled, symbols: Int[np.ndarray, "B N"], lengths: Int[np.ndarray, " B"]
) -> tuple[Bool[np.ndarray, "B layers W"], Bool[np.ndarray, "B layers W"]]:
    """The nodes of each layer that look like that symbol of the original, and those of them that look like its last."""
    layers = unrolled.horizon + 1
    wanted = np.full((len(symbols), layers), PAD)
    wanted[:, : symbols.shape[1]] = symbols[:, :layers]
    spells = unrolled.tables.symbol[unrolled.row] == wanted[:, :, None]
    return spells, spells & (np.arange(layers)[:, None] == (lengths - 1)[:, None, None])
