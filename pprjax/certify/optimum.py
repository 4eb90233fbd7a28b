"""The certified optimum of Eq. 5, and a path that attains it, for finite deterministic worlds.

Since 1 / (d + 1) falls as d grows,

    max_τ R(τ) = max_e [ max { R_goal(τ) + λ_policy·R_policy(τ) : d(τ, τ₀) ≤ e } + λ_path / (e + 1) ]

and the inner maximum F(e) is a longest path through the product of the world, unrolled over time, with the Levenshtein
automaton of τ₀ (regular-language-constrained paths: Barrett, Jacob and Marathe, SIAM J. Comput. 30(3), 2000).

Most of that product can't hold the optimum. Two paths are cheap to find: the best of all, F(∞) at its distance d∞, and
the best that spells τ₀, F(0). Any better one has w ≤ d, with w the cheapest edit, so it earns at least
R - λ_path / (w + 1); states that no such path visits, and budgets e whose bound F(∞) + λ_path / (e + 1) is too low,
are left out. The bounds are float64; ties and rounding fall on the side of keeping a state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from flax import struct
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from pprjax import devices, edit_distance, goals, metrics
from pprjax.certify import n_best
from pprjax.certify.tables import UNAVAILABLE, Tables, tabulate
from pprjax.config import Config
from pprjax.constraints import kept_symbols
from pprjax.edit_distance import EditCosts
from pprjax.metrics import Scores
from pprjax.paths import PAD, Paths
from pprjax.task import Task

MAX_LAYER = 20_000
"""The most nodes in a layer of the unrolled world: states, or pairs (state, R_goal so far) where the goal reads it."""

MAX_BYTES = 2**30
"""The most memory that the values of one original may take."""


class TooLargeError(ValueError):
    """A certificate would take more memory than it may."""


_BLOCK_FLOATS = 2**23  # of bounds held at once: originals are worked through in blocks
_SIZES = sorted({2**k for k in range(3, 40)} | {3 * 2**k for k in range(4, 39)})  # few, so that programs are shared


@struct.dataclass
class Optimum:
    """The optimum of Eq. 5 for B originals: R rows, the originals in their order, and for each the best path first.

    Without n_recourses there is one row an original, R = B. Arrays on the host.
    """

    path: np.ndarray  # int32[R], which original the row answers
    rank: np.ndarray  # int32[R], 1 for the best
    reward: np.ndarray  # float[R], R; -inf where no path is feasible
    paths: Paths  # symbols and actions of a path that attains it; the start alone where none does
    scores: Scores  # NaN, and distance and violations -1, where no path is feasible
    status: np.ndarray  # str[R]: see `pprjax.metrics.status`; or "infeasible"
    diversity: np.ndarray  # float[B], mean edit distance between its paths; NaN where there is one

    def to_frame(self) -> pl.DataFrame:
        """One row a path; `path` is the number of its original."""
        sequences = {"optimal": self.paths.to_lists(), "actions": self.paths.actions_to_lists()}
        return pl.DataFrame(
            {
                "path": self.path,
                "rank": self.rank,
                "status": self.status.tolist(),
                "reward": self.reward,
                "s_goal": self.scores.goal,
                "s_path": self.scores.path,
                "s_policy": self.scores.policy,
                "distance": self.scores.distance,
                "violations": self.scores.violations,
                "diversity": self.diversity[self.path],
                **{name: pl.Series(name, rows, dtype=pl.List(pl.Int32)) for name, rows in sequences.items()},
            }
        )


def exact(task: Task, originals: Paths, config: Config, *, n_recourses: int = 1, min_distance: int = 1) -> Optimum:
    """The best path there is for each original (Eq. 5), with proof: a bound that the returned path attains.

    A path starts at the world's start, takes at most task.horizon actions, and ends where the world ends it, at the
    horizon, or where no action is available. With a goal only paths that meet it count, and with constraints only paths
    that keep them; each other sequence of kept steps unrolls the world anew. R_goal, and an original's own
    R_goal, are summed in float64 and then rounded to the goal's precision.

    Args:
        task: a finite deterministic world, and a P_A without memory.
        originals: B paths from the world's start. Their actions, if given, tell which way an original went.
        config: lambda_path and lambda_policy, one number or float[B]; w_ins, w_del and w_sub, whole numbers.
        n_recourses: how many paths an original gets: the best, and again and again the best of all that are far enough
            from those before. There are fewer rows where there are no more such paths.
        min_distance: δ ≥ 1, the edit distance (of unit costs) between any two of them, at least.

    Returns:
        status is "unchanged" at distance 0; else "reached_goal" where the path meets the goal (without one: the world's
        own); else "ended" by the world; else "cut" by the horizon or a dead end. "infeasible": no path meets the goal
        and keeps the constraints.

    Raises:
        ValueError: the world isn't finite or not deterministic, P_A has a memory, an original is empty or does not
            start where the world does, a λ is negative, NaN or of the wrong shape, an edit cost is no whole number, an
            original is too short for a kept step, a layer of the unrolled world has more than 20,000 nodes, one
            original needs more than 1 GiB, or more than 100,000 prefixes of paths rank before its last recourse.

    Source: Eq. 5 of arXiv 2312.08724; the dynamic programme as in this module's head.
    """
    costs = _whole_costs(config)
    for name, least in {"n_recourses": n_recourses, "min_distance": min_distance}.items():
        if least < 1:
            raise ValueError(f"{name}: expected at least 1, got {least}")
    size = len(originals)
    lambda_path = _weights("lambda_path", config.lambda_path, size)
    lambda_policy = _weights("lambda_policy", config.lambda_policy, size)
    tables = tabulate(task, habit=config.habit)
    symbols, lengths = _check_originals(originals, tables)
    actions = np.full((size, 1), PAD) if originals.actions is None else np.asarray(originals.actions)
    reads_reward = task.goal is not None and task.goal.uses_reward
    constraints = task.constraints
    free = (
        tabulate(task.replace(constraints=None), habit=config.habit)
        if reads_reward and constraints is not None
        else tables
    )
    limit = np.inf if constraints is None or constraints.max_distance is None else float(constraints.max_distance)
    kept = kept_symbols(constraints, originals)
    kept = np.zeros((size, 0), np.int32) if kept is None else kept
    sequences, whose = np.unique(kept, axis=0, return_inverse=True)

    blocks, path = [], []
    for k, sequence in enumerate(sequences):  # without kept steps there is one, the empty one
        graph = _unroll(tables, task, reads_reward, sequence[sequence != PAD])
        mine = np.flatnonzero(whose.ravel() == k)
        block = max(1, _BLOCK_FLOATS // max(graph.row.size, tables.following.size))
        for low in range(0, len(mine), block):
            at = mine[low : low + block]
            own = np.zeros(len(at))
            if reads_reward:
                own = _own_reward(free, symbols[at], lengths[at], actions[at])
            problem = symbols[at], lengths[at], own, lambda_path[at], lambda_policy[at]
            if n_recourses == 1:
                graded, answers = _solve(task, tables, graph, costs, limit, *problem), np.arange(len(at))
            else:
                graded, answers = _several(task, tables, graph, costs, limit, *problem, n_recourses, min_distance)
            blocks.append(graded)
            path.append(at[answers])
    path = np.concatenate(path)
    order = np.argsort(path, kind="stable")
    best = jax.tree.map(lambda *parts: np.concatenate(parts)[order], *blocks)
    return _as_optimum(task, tables, best, path[order].astype(np.int32), size)


WholeCosts = n_best.Costs


@struct.dataclass
class _Graph:
    """The world unrolled over T = horizon steps, W the widest layer: layer t holds what t actions reach.

    A node is a row of the tables; where the goal reads R_goal, with the R_goal so far; and where steps must stay, with
    the number of them that were visited.
    """

    row: np.ndarray  # int32[T + 1, W], of the tables; 0 in padding
    earned: np.ndarray  # float64[T + 1, W], R_goal so far; 0 where the goal does not read it
    following: np.ndarray  # int32[T + 1, W, A], node of the next layer; W where there is none
    stops: np.ndarray  # bool[T + 1, W], a path ends here, every kept step visited and no forbidden one


def _unroll(tables: Tables, task: Task, reads_reward: bool, kept: Int[np.ndarray, " K"]) -> _Graph:
    horizon, wanted = task.horizon, np.append(kept, PAD)
    rows, earned, visited = [np.zeros(1, np.int32)], [np.zeros(1)], [np.array([wanted[0] == tables.symbol[0]], int)]
    edges = []
    for _ in range(horizon):
        targets = tables.following[rows[-1]]
        there = targets != UNAVAILABLE
        sums = np.where(reads_reward, earned[-1][:, None] + tables.reward[rows[-1]], 0.0)[there] + 0.0
        progress = visited[-1][:, None] + (tables.symbol[targets] == wanted[visited[-1]][:, None])
        parts = [targets[there], sums, *([progress[there]] if kept.size else [])]
        nodes, index = np.unique(np.stack(parts), axis=1, return_inverse=True)
        if nodes.shape[1] > MAX_LAYER:
            what = "pairs of state and R_goal so far: the goal reads R_goal, which takes" if reads_reward else "states:"
            what = f"{what} with {kept.size} steps that must stay," if kept.size else what
            raise TooLargeError(f"task: more than {MAX_LAYER} {what} too many for a certificate")
        edge = np.full(targets.shape, UNAVAILABLE, np.int32)
        edge[there] = index.ravel()
        edges.append(edge)
        rows.append(nodes[0].astype(np.int32))
        earned.append(nodes[1])
        visited.append(nodes[2].astype(int) if kept.size else np.zeros(len(nodes[0]), int))
    edges.append(np.full((len(rows[-1]), tables.num_actions), UNAVAILABLE, np.int32))

    width = _size_of(max(map(len, rows)))
    shape = (horizon + 1, width)
    graph = _Graph(
        row=np.zeros(shape, np.int32),
        earned=np.zeros(shape),
        following=np.full((*shape, tables.num_actions), width, np.int32),
        stops=np.zeros(shape, bool),
    )
    startable = task.constraints is None or not bool(task.constraints.forbids(tables.symbol[0]))
    for t, (row, sums, seen, edge) in enumerate(zip(rows, earned, visited, edges, strict=True)):
        graph.row[t, : len(row)] = row
        graph.earned[t, : len(row)] = sums
        graph.following[t, : len(row)] = np.where(edge == UNAVAILABLE, width, edge)
        graph.stops[t, : len(row)] = (edge == UNAVAILABLE).all(1) & (seen == kept.size) & startable
    return graph


def _solve(
    task: Task,
    tables: Tables,
    graph: _Graph,
    costs: WholeCosts,
    limit: float,
    symbols: Int[np.ndarray, "B N"],
    lengths: Int[np.ndarray, " B"],
    own: Float[np.ndarray, " B"],
    lambda_path: Float[np.ndarray, " B"],
    lambda_policy: Float[np.ndarray, " B"],
) -> _Graded:
    """The optimum of a block of originals, among the paths of at most `limit` edits."""
    pairs, problem = np.unique(np.stack([lambda_policy, own]), axis=1, return_inverse=True)
    problem = problem.ravel()  # of each original: the originals with one λ_policy and one goal share their bounds
    ending = _ending_values(task, tables, graph, pairs[1])
    togo = _togo(tables, graph, pairs[0], ending)
    so_far = _so_far(tables, graph, pairs[0])
    spells, last = _spelling(tables, graph, symbols, lengths)
    spelled = _togo(tables, graph, lambda_policy, np.where(last, ending[problem], -np.inf), spells)

    def grade(actions):
        return _grade(tables, costs, symbols, lengths, lambda_path, lambda_policy, actions)

    free = grade(_follow(tables, graph, pairs[0], togo)[problem])
    unchanged = grade(_follow(tables, graph, lambda_policy, spelled))
    bound = togo[problem, 0, 0]
    best = _where((bound > -np.inf) & (free.distance <= limit), free, _nothing(free))
    best = _where((spelled[:, 0, 0] > -np.inf) & (unchanged.reward >= best.reward), unchanged, best)

    budget = _open_budgets(best.reward, bound, free.distance, lambda_path, costs, limit)
    floor = best.reward - lambda_path / (min(costs) + 1) - 1e-9 * (1 + np.abs(best.reward))

    def problems():
        for b in np.flatnonzero(budget > 0).tolist():
            through = so_far[problem[b]] + togo[problem[b], :, :-1]
            alive = (through >= floor[b]) & (through > -np.inf)
            pruned = _prune(tables, graph, ending[problem[b]], alive, lambda_policy[b])
            budgets = _num_budgets(int(budget[b]))
            needs = _check_bytes(pruned, int(lengths[b]), symbols.shape[1], budgets)
            largest = np.int32(min(limit, budgets))
            inputs = (pruned, *_align(symbols[b], int(lengths[b])), np.float32(lambda_path[b]), largest)
            yield (budgets, pruned.symbol.shape[1], needs), (b, inputs)

    whose, value, actions = _edit_all(problems(), len(graph.row) - 1, costs)
    if whose.size:
        edited, feasible = np.full_like(best.actions, PAD), np.zeros(len(lengths), bool)
        edited[whose], feasible[whose] = actions, value > -np.inf
        graded = grade(edited)
        best = _where(feasible & (graded.reward > best.reward), graded, best)
    return best


def _several(
    task: Task,
    tables: Tables,
    graph: _Graph,
    costs: WholeCosts,
    limit: float,
    symbols: Int[np.ndarray, "B N"],
    lengths: Int[np.ndarray, " B"],
    own: Float[np.ndarray, " B"],
    lambda_path: Float[np.ndarray, " B"],
    lambda_policy: Float[np.ndarray, " B"],
    n_recourses: int,
    min_distance: int,
) -> tuple[_Graded, Int[np.ndarray, " R"]]:
    """The best paths of each of a block of originals, and which original each answers; one row where there is none."""
    ending = _ending_values(task, tables, graph, own)
    through = _so_far(tables, graph, lambda_policy) + _togo(tables, graph, lambda_policy, ending)[:, :, :-1]
    horizon = len(graph.row) - 1
    found, feasible, whose = [], [], []
    for b, length in enumerate(lengths):
        best = []
        if through[b, 0, 0] > -np.inf:
            pruned = _prune(tables, graph, ending[b], through[b] > -np.inf, lambda_policy[b])
            budgets = _num_budgets(int(min(limit, n_best.largest_distance(int(length), horizon + 1, costs))))
            _check_bytes(pruned, int(length), symbols.shape[1], budgets)
            aligned, _ = _align(symbols[b], int(length))
            value = np.asarray(_all_values(pruned, aligned, budgets=budgets, costs=costs))
            ranked = n_best.ranked(pruned, value, symbols[b, :length], lambda_path[b], limit, costs)
            best = n_best.distinct(ranked, partial(_symbols_of, tables), n_recourses, min_distance)
        rows = np.full((max(len(best), 1), horizon), PAD, np.int32)
        for row, actions in zip(rows, best, strict=False):
            row[: len(actions)] = actions
        found.append(rows)
        feasible += [bool(best)] * len(rows)
        whose += [b] * len(rows)
    at = np.array(whose)
    graded = _grade(tables, costs, symbols[at], lengths[at], lambda_path[at], lambda_policy[at], np.concatenate(found))
    return _where(np.array(feasible), graded, _nothing(graded)), at


def _symbols_of(tables: Tables, actions: list[int]) -> Int[np.ndarray, " T"]:
    rows = [0]
    for action in actions:
        rows.append(tables.following[rows[-1], action])
    return tables.symbol[rows]


def _open_budgets(
    reward: Float[np.ndarray, " B"],
    bound: Float[np.ndarray, " B"],
    distance: Int[np.ndarray, " B"],
    lambda_path: Float[np.ndarray, " B"],
    costs: WholeCosts,
    limit: float,
) -> Int[np.ndarray, " B"]:
    """The largest e with F(∞) + λ_path / (e + 1) above the reward at hand, of those below d∞; 0: none is open.

    Where d∞ is above the limit, of those up to the limit.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = reward - bound
        largest = np.where(gap > 0, np.ceil(lambda_path / gap - 1e-6) - 2, np.inf)
    too_far = distance > limit
    largest = np.minimum(largest, np.where(too_far, np.floor(limit), distance - 1))
    is_open = (bound > -np.inf) & ((lambda_path > 0) | too_far) & (largest >= min(costs))
    return np.where(is_open, largest, 0).astype(np.int64)


def _ending_values(
    task: Task, tables: Tables, graph: _Graph, own: Float[np.ndarray, " K"]
) -> Float[np.ndarray, "K layers W"]:
    """What it is worth to end in a node: 0, or -inf where no path ends there or the goal of a problem isn't met."""
    values = np.where(np.broadcast_to(graph.stops, (len(own), *graph.stops.shape)), 0.0, -np.inf)
    if task.goal is None or not graph.stops.any():
        return values
    ends, index = np.unique(np.stack([graph.row[graph.stops], graph.earned[graph.stops]]), axis=1, return_inverse=True)
    met = judge(task, task.goal, tables, ends[0].astype(np.int32), ends[1], own)[:, index.ravel()]
    values[:, graph.stops] = np.where(met, 0.0, -np.inf)
    return values


def judge(
    task: Task,
    goal: Any,
    tables: Tables,
    row: Int[np.ndarray, " L"],
    earned: Float[np.ndarray, " L"],
    own: Float[np.ndarray, " K"],
) -> Bool[np.ndarray, "K L"]:
    """Whether a path that ends in a row with an R_goal meets the goal, for originals that earned `own` themselves."""
    at = np.resize(np.arange(len(row)), _size_of(len(row)))
    whose = np.resize(np.arange(len(own)), _size_of(len(own)))
    states = jax.tree.map(lambda x: x[row[at]], tables.states)
    met = _judgements(task, goal, states, tables.ended[row[at]], earned[at], own[whose])
    return np.asarray(met)[: len(own), : len(row)]


@jax.jit
def _judgements(task: Task, goal: Any, states, ended, earned, own) -> Bool[Array, "K L"]:
    def one(original_reward_goal):
        own_goal = goal.of(original_reward_goal)
        return jax.vmap(lambda *end: own_goal(task.outcome(*end)))(states, ended, earned)

    return jax.vmap(one)(own)


def _own_reward(
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


def _togo(
    tables: Tables,
    graph: _Graph,
    lambda_policy: Float[np.ndarray, " K"],
    ending: Float[np.ndarray, "K layers W"],
    within: Bool[np.ndarray, "K layers W"] | None = None,
) -> Float[np.ndarray, "K layers targets"]:
    """The best R_goal + λ_policy·R_policy to come from each node; `within`: of the paths inside these."""
    value = np.full((*ending.shape[:-1], ending.shape[-1] + 1), -np.inf)  # the last: where no edge leads
    for t in reversed(range(ending.shape[1])):
        here = ending[:, t]
        if t + 1 < ending.shape[1]:
            onward = _edges(tables, graph, lambda_policy, t) + value[:, t + 1][:, graph.following[t]]
            here = np.where(graph.stops[t], here, onward.max(-1))
        value[:, t, :-1] = here if within is None else np.where(within[:, t], here, -np.inf)
    return value


def _spelling(
    tables: Tables, graph: _Graph, symbols: Int[np.ndarray, "B N"], lengths: Int[np.ndarray, " B"]
) -> tuple[Bool[np.ndarray, "B layers W"], Bool[np.ndarray, "B layers W"]]:
    """The nodes of each layer that look like that symbol of the original, and those of them that look like its last."""
    layers = len(graph.row)
    wanted = np.full((len(symbols), layers), PAD)
    wanted[:, : symbols.shape[1]] = symbols[:, :layers]
    spells = tables.symbol[graph.row] == wanted[:, :, None]
    return spells, spells & (np.arange(layers)[:, None] == (lengths - 1)[:, None, None])


def _so_far(tables: Tables, graph: _Graph, lambda_policy: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K layers W"]:
    """The best R_goal + λ_policy·R_policy on the way to each node."""
    num_layers, width = graph.row.shape
    value = np.full((len(lambda_policy), num_layers, width), -np.inf)
    value[:, 0, 0] = 0.0
    for t in range(num_layers - 1):
        targets = graph.following[t].ravel()
        order = np.argsort(targets, kind="stable")
        nodes, first = np.unique(targets[order], return_index=True)
        arriving = (value[:, t, :, None] + _edges(tables, graph, lambda_policy, t)).reshape(len(value), -1)
        best = np.maximum.reduceat(arriving[:, order], first, axis=1)
        value[:, t + 1, nodes[nodes < width]] = best[:, nodes < width]
    return value


def _edges(tables: Tables, graph: _Graph, lambda_policy: Float[np.ndarray, " K"], t: int) -> Float[np.ndarray, "K W A"]:
    rows = graph.row[t]
    return tables.reward[rows] + lambda_policy[:, None, None] * tables.habit[rows]


def _follow(
    tables: Tables, graph: _Graph, lambda_policy: Float[np.ndarray, " K"], togo: Float[np.ndarray, "K layers targets"]
) -> Int[np.ndarray, "K T"]:
    """The actions that attain togo[:, 0, 0], PAD behind the end; of equally good ones the first."""
    size, horizon = len(togo), togo.shape[1] - 1
    actions = np.full((size, horizon), PAD, np.int32)
    node, whose = np.zeros(size, np.int64), np.arange(size)
    for t in range(horizon):
        whose = whose[(togo[whose, t, node[whose]] > -np.inf) & ~graph.stops[t, node[whose]]]
        here = node[whose]
        rows = graph.row[t, here]
        edges = tables.reward[rows] + lambda_policy[whose, None] * tables.habit[rows]
        onward = edges + togo[whose[:, None], t + 1, graph.following[t, here]]
        action = onward.argmax(-1)
        actions[whose, t] = action
        node[whose] = graph.following[t, here, action]
    return actions


@struct.dataclass
class Pruned:
    """What is left of the unrolled world for one original, W' nodes a layer; on the host, or traced."""

    symbol: np.ndarray | jax.Array  # int32[T + 1, W']
    following: np.ndarray | jax.Array  # int32[T + 1, W', A], W' where there is none
    edges: np.ndarray | jax.Array  # float32[T + 1, W', A], r + λ_policy·h
    ending: np.ndarray | jax.Array  # float32[T + 1, W'], 0 where a path may end, else -inf


def _prune(
    tables: Tables,
    graph: _Graph,
    ending: Float[np.ndarray, "layers W"],
    alive: Bool[np.ndarray, "layers W"],
    lambda_policy: float,
) -> Pruned:
    width = min(_size_of(int(alive.sum(1).max())), alive.shape[1])
    kept = np.argsort(~alive, axis=1, kind="stable")[:, :width]  # the living first, in their order
    layers = np.arange(len(kept))[:, None]
    there = alive[layers, kept]
    rank = np.full((len(kept) + 1, alive.shape[1] + 1), width, np.int32)  # node -> its place among the kept
    rank[:-1, :-1] = np.where(alive, np.cumsum(alive, 1) - 1, width)
    rows = graph.row[layers, kept]
    return Pruned(
        symbol=tables.symbol[rows],
        following=np.where(there[..., None], rank[layers[..., None] + 1, graph.following[layers, kept]], width),
        edges=(tables.reward[rows] + lambda_policy * tables.habit[rows]).astype(np.float32),
        ending=np.where(there, ending[layers, kept], -np.inf).astype(np.float32),
    )


def _edit_all(
    problems: Iterable[tuple[tuple[int, int, int], tuple[int, tuple]]], horizon: int, costs: WholeCosts
) -> tuple[Int[np.ndarray, " M"], Float[np.ndarray, " M"], Int[np.ndarray, "M T"]]:
    """`_edit` of problems (kind, (whose, its inputs)): whose they are, their values and actions.

    One a device, of one kind side by side. A kind is the budgets, nodes a layer and bytes.
    """
    mesh = devices.local_mesh()
    width = 1 if mesh is None else mesh.size
    whose, found, num_bytes = [], [], 0
    for (budgets, _, needs), group in devices.grouped(problems, width):
        if num_bytes + needs > MAX_BYTES:  # they are dispatched without waiting, and run side by side
            jax.block_until_ready(found)
            num_bytes = 0
        num_bytes += needs
        numbers, inputs = zip(*group, strict=True)
        whose.append(np.array(numbers))
        if mesh is None:
            found.append(_edit(*inputs[0], budgets=budgets, costs=costs))
        else:
            filled = [inputs[i % len(inputs)] for i in range(width)]
            batch = jax.tree.map(lambda *parts: np.stack(parts), *filled)
            found.append(_edit_sharded(batch, mesh=mesh, budgets=budgets, costs=costs))
    if not found:
        return np.zeros(0, int), np.zeros(0), np.zeros((0, horizon), np.int32)
    values, actions = zip(*jax.device_get(found), strict=True)
    values = [np.reshape(x, -1)[: len(at)] for x, at in zip(values, whose, strict=True)]
    actions = [np.reshape(x, (-1, horizon))[: len(at)] for x, at in zip(actions, whose, strict=True)]
    return np.concatenate(whose), np.concatenate(values), np.concatenate(actions)


def _num_budgets(largest: int) -> int:
    return _size_of(max(largest + 1, 16))


def _check_bytes(pruned: Pruned, length: int, padded_length: int, budgets: int) -> int:
    num_bytes = 4 * pruned.symbol.size * (padded_length + 1) * budgets
    if num_bytes > MAX_BYTES:
        raise TooLargeError(
            f"task: the certificate of an original of {length} symbols would need {num_bytes / 2**30:.1f} GiB, more "
            f"than {MAX_BYTES / 2**30:.1f}: {pruned.symbol.shape[1]} nodes a layer, {budgets} edit budgets"
        )
    return num_bytes


def _align(symbols: Int[np.ndarray, " N"], length: int) -> tuple[Int[np.ndarray, " N"], np.int32]:
    """τ₀ with its padding in front, so that every original ends at N, and the position behind its first symbol.

    The start is that symbol, and to match it is best: d(s·x, s·y) = d(x, y).
    """
    return np.roll(symbols, len(symbols) - length), np.int32(len(symbols) - length + 1)


@partial(jax.jit, static_argnames=("budgets", "costs"))
def _edit(
    pruned: Pruned,
    original: Int[Array, " N"],
    first: Int[Array, ""],
    lambda_path: Float[Array, ""],
    largest: Int[Array, ""],
    *,
    budgets: int,
    costs: WholeCosts,
) -> tuple[Float[Array, ""], Int[Array, " T"]]:
    """max F(e) + λ_path / (e + 1) over e < budgets, e ≤ largest, in the pruned world, and the actions for it."""
    value = edit_values(pruned, original, budgets, costs)
    budget = jnp.arange(budgets)
    by_budget = jnp.where(budget <= largest, value[0, 0, first] + lambda_path / (1.0 + budget), -jnp.inf)
    start = jnp.argmax(by_budget).astype(jnp.int32)
    return by_budget[start], _edit_actions(pruned, original, value, first, start, costs)


@partial(jax.jit, static_argnames=("budgets", "costs"))
def _all_values(pruned: Pruned, original: Int[Array, " N"], *, budgets: int, costs: WholeCosts):
    return edit_values(pruned, original, budgets, costs)


@partial(jax.jit, static_argnames=("mesh", "budgets", "costs"))
def _edit_sharded(batch: tuple, *, mesh: Mesh, budgets: int, costs: WholeCosts) -> tuple[Array, Array]:
    """`_edit` of one problem a device."""

    def own(_, part):
        found = _edit(*jax.tree.map(lambda x: x[0], part), budgets=budgets, costs=costs)
        return jax.tree.map(lambda x: x[None], found)

    return devices.sharded(own, mesh)((), batch)


def edit_values(
    pruned: Pruned, original: Int[Array, " N"], budgets: int, costs: WholeCosts
) -> Float[Array, "layers W positions E"]:
    """G_t[w, i, e]: the best to come from node w of layer t with i symbols of τ₀ read and at most e edits left.

    G_t[w, i, e] = max of  max_a r(w, a) + H_{t+1}[w'(w, a), i, e]
                           G_t[w, i + 1, e - w_del]                          drop a symbol of τ₀
                           0, if a path may end in w and i = N
    H_t[w, i, e] = max of  G_t[w, i + 1, e - w_sub·(symbol(w) ≠ τ₀[i])]      read one for this node's symbol
                           G_t[w, i, e - w_ins]                              the node's symbol is inserted
    """
    num_nodes, length = pruned.symbol.shape[1], original.shape[0]

    def shifted(x, positions: int, edits: int):
        """x[:, i + positions, e - edits], -inf outside."""
        inside = x[:, positions:, : max(budgets - edits, 0)]
        return jax.lax.pad(inside, -jnp.inf, ((0, 0, 0), (0, positions, 0), (min(edits, budgets), 0, 0)))

    def layer(arriving, x):
        symbol, following, edges, ending = x
        value = jnp.full((num_nodes, length + 1, budgets), -jnp.inf, edges.dtype).at[:, length].set(ending[:, None])
        for a in range(edges.shape[-1]):
            value = jnp.maximum(value, edges[:, a, None, None] + arriving[following[:, a]])
        drops = 1  # doubling: after k rounds, up to 2^k - 1 symbols dropped
        while drops * costs.delete < budgets and drops <= length:
            value = jax.lax.optimization_barrier(value)  # one kernel a round: fused, each would redo those before
            value = jnp.maximum(value, shifted(value, drops, drops * costs.delete))
            drops *= 2
        value = jax.lax.optimization_barrier(value)
        matches = (symbol[:, None] == jnp.append(original, PAD))[..., None]
        read = jnp.where(matches, shifted(value, 1, 0), shifted(value, 1, costs.substitute))
        arriving = jnp.maximum(read, shifted(value, 0, costs.insert))
        return jnp.pad(arriving, ((0, 1), (0, 0), (0, 0)), constant_values=-jnp.inf), value

    nowhere = jnp.full((num_nodes + 1, length + 1, budgets), -jnp.inf, pruned.edges.dtype)
    xs = (pruned.symbol, pruned.following, pruned.edges, pruned.ending)
    return jax.lax.scan(layer, nowhere, xs, reverse=True)[1]


def _edit_actions(
    pruned: Pruned,
    original: Int[Array, " N"],
    value: Float[Array, "layers W positions E"],
    first: Int[Array, ""],
    budget: Int[Array, ""],
    costs: WholeCosts,
) -> Int[Array, " T"]:
    """The actions that attain value[0, 0, first, budget]: one of the options of `edit_values` after the other."""
    horizon = pruned.symbol.shape[0] - 1
    num_nodes, length, num_actions = pruned.symbol.shape[1], original.shape[0], pruned.edges.shape[-1]

    def look(t, node, i, e):
        there = (node < num_nodes) & (i <= length) & (e >= 0) & (t <= horizon)
        return jnp.where(there, value[t, node, i, e], -jnp.inf)  # an index out of bounds is clamped

    def step(lane):
        t, node, i, e, actions, _ = lane
        following = pruned.following[t, node]
        reads = jnp.append(original, PAD)[i] == pruned.symbol[jnp.minimum(t + 1, horizon), following]
        after_read = e - jnp.where(reads, 0, costs.substitute)
        options = jnp.concatenate(
            [
                jnp.where(i == length, pruned.ending[t, node], -jnp.inf)[None],
                look(t, node, i + 1, e - costs.delete)[None],
                pruned.edges[t, node] + look(t + 1, following, i + 1, after_read),
                pruned.edges[t, node] + look(t + 1, following, i, e - costs.insert),
            ]
        )
        choice = jnp.argmax(options)
        action, inserts = (choice - 2) % num_actions, choice >= 2 + num_actions
        acts = choice >= 2
        ended = (choice == 0) | (options[choice] == -jnp.inf)
        edits = jnp.where(inserts, costs.insert, e - after_read[action])
        moved = (
            jnp.where(acts, t + 1, t),
            jnp.where(acts, following[action], node),
            jnp.where(inserts, i, i + 1),
            e - jnp.where(acts, edits, costs.delete),
            actions.at[jnp.where(acts & ~ended, t, horizon)].set(action.astype(jnp.int32), mode="drop"),
            ended,
        )
        return moved

    zero = jnp.int32(0)
    lane = (zero, zero, first, budget, jnp.full(horizon, PAD, jnp.int32), jnp.bool_(False))
    return jax.lax.while_loop(lambda lane: ~lane[-1], step, lane)[4]


@struct.dataclass
class _Graded:
    """B paths and what they are worth."""

    actions: np.ndarray  # int32[B, T]
    symbols: np.ndarray  # int32[B, T + 1]
    num_actions: np.ndarray  # int32[B]
    row: np.ndarray  # int32[B], the last
    goal: np.ndarray  # float64[B]
    r_policy: np.ndarray  # float64[B]
    log_prob: np.ndarray  # float64[B]
    distance: np.ndarray  # int32[B]
    reward: np.ndarray  # float64[B], Eq. 5


def _grade(
    tables: Tables,
    costs: WholeCosts,
    symbols: Int[np.ndarray, "B N"],
    lengths: Int[np.ndarray, " B"],
    lambda_path: Float[np.ndarray, " B"],
    lambda_policy: Float[np.ndarray, " B"],
    actions: Int[np.ndarray, "B T"],
) -> _Graded:
    """Take the actions, and add up Eq. 5 in float64."""
    size, horizon = actions.shape
    row = np.zeros(size, np.int32)
    passed = np.full((size, horizon + 1), PAD, np.int32)
    passed[:, 0] = tables.symbol[0]
    goal, habit, log_prob = np.zeros((3, size))
    for t in range(horizon):
        moves, action = actions[:, t] != PAD, np.maximum(actions[:, t], 0)
        goal += np.where(moves, tables.reward[row, action], 0.0)
        habit += np.where(moves, tables.habit[row, action], 0.0)
        log_prob += np.where(moves, tables.log_prob[row, action], 0.0)
        row = np.where(moves, tables.following[row, action], row)
        passed[:, t + 1] = np.where(moves, tables.symbol[row], PAD)
    num_actions = (actions != PAD).sum(1).astype(np.int32)
    whose = np.resize(np.arange(size), _size_of(size))
    as_floats = EditCosts(*map(float, costs))  # of which the unit costs have the fast form
    distance = _distances(symbols[whose], lengths[whose], passed[whose], num_actions[whose], costs=as_floats)
    distance = np.rint(np.asarray(distance)[:size]).astype(np.int32)
    return _Graded(
        actions=actions,
        symbols=passed,
        num_actions=num_actions,
        row=row,
        goal=goal,
        r_policy=habit,
        log_prob=log_prob,
        distance=distance,
        reward=goal + lambda_policy * habit + lambda_path / (distance + 1.0),
    )


@partial(jax.jit, static_argnames="costs")
def _distances(symbols, lengths, passed, num_actions, *, costs: EditCosts):
    return jax.vmap(partial(edit_distance.between, costs=costs))(symbols, lengths, passed, num_actions + 1)


def _where(chosen: Bool[np.ndarray, " B"], this: _Graded, other: _Graded) -> _Graded:
    return jax.tree.map(lambda a, b: np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b), this, other)


def _nothing(like: _Graded) -> _Graded:
    """No path: the start alone, worth -inf."""
    symbols = np.full_like(like.symbols, PAD)
    symbols[:, 0] = like.symbols[:, 0]
    nan = np.full_like(like.goal, np.nan)
    return _Graded(
        actions=np.full_like(like.actions, PAD),
        symbols=symbols,
        num_actions=np.zeros_like(like.num_actions),
        row=np.zeros_like(like.row),
        goal=nan,
        r_policy=nan,
        log_prob=nan,
        distance=np.full_like(like.distance, -1),
        reward=np.full_like(like.reward, -np.inf),
    )


def _as_optimum(task: Task, tables: Tables, best: _Graded, path: Int[np.ndarray, " R"], size: int) -> Optimum:
    feasible = best.reward > -np.inf
    if task.goal is None:
        everywhere = np.arange(tables.num_rows, dtype=np.int32)
        nothing = np.zeros(tables.num_rows)
        reached = judge(task, goals.reached, tables, everywhere, nothing, nothing[:1])[0, best.row]
    else:
        reached = feasible
    ended = metrics.status(distance=best.distance, reached=reached, terminated=tables.ended[best.row], met=None)
    status = np.where(feasible, ended, "infeasible")
    paths = Paths(symbols=best.symbols, lengths=best.num_actions + 1, actions=best.actions)
    return Optimum(
        path=path,
        rank=(np.arange(len(path)) - np.searchsorted(path, path) + 1).astype(np.int32),
        reward=best.reward,
        paths=paths,
        scores=Scores(
            goal=best.goal,
            path=np.where(feasible, 1.0 / (np.maximum(best.distance, 0) + 1.0), np.nan),
            r_policy=best.r_policy,
            policy=best.log_prob / np.maximum(best.num_actions, 1),
            distance=best.distance,
            violations=np.where(feasible, 0, -1).astype(np.int32),
        ),
        status=status,
        diversity=metrics.diversity(paths, path, size),
    )


def _size_of(count: int) -> int:
    """The smallest of a few sizes that is at least `count`."""
    return next(size for size in _SIZES if size >= count)


def _whole_costs(config: Config) -> WholeCosts:
    costs = config.costs.check()
    for name, cost in zip(("w_ins", "w_del", "w_sub"), costs, strict=True):
        if cost != math.floor(cost):
            raise ValueError(f"{name}: a certificate counts edits in whole numbers, got {cost}")
    return WholeCosts(*map(int, costs))


def _weights(name: str, value, size: int) -> Float[np.ndarray, " B"]:
    weights = np.asarray(value, np.float64)
    if weights.shape not in ((), (size,)):
        raise ValueError(f"{name}: expected one number, or one for each of {size} originals, got shape {weights.shape}")
    bad = weights[~(np.isfinite(weights) & (weights >= 0))]
    if bad.size:
        raise ValueError(f"{name}: expected finite numbers, at least 0, got {bad[0]}")
    return np.broadcast_to(weights, size).copy()


def _check_originals(originals: Paths, tables: Tables) -> tuple[Int[np.ndarray, "B N"], Int[np.ndarray, " B"]]:
    """Symbols, padded to a width that few programmes share, and lengths."""
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
