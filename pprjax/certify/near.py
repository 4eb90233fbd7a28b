"""The best paths near each original, of a graph: `pprjax.exact` and its frontier where the world is large and sparse.

Originals are worked through in batches, which halve until they fit. One that does not fit alone is answered with what
was found, and a bound on the rest.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.certify.edits import WholeCosts, largest_distance, levenshtein, whole_costs
from pprjax.certify.edits_to_go import edits_to_go
from pprjax.certify.graph import Weighed, symbols_to_come
from pprjax.certify.layers import ROOT, Batch, Layers
from pprjax.certify.own_steps import ease, steps_taken
from pprjax.ladder import tolerated
from pprjax.limits import TooLargeError
from pprjax.objective import Objective
from pprjax.paths import PAD, Paths
from pprjax.result import Frontier, Recourse
from pprjax.reward import closeness
from pprjax.tally import Tally, frontier_of

PLACES = 2**24
"""Pairs (original, row) of a batch, roughly; where time counts, triples with it."""

MAX_PLACES = 2**28
"""The most of one original, a GiB."""

TOGETHER = 2048
"""Originals of a batch."""

LONG = 100
"""Symbols from which on it pays to know for each original what can be earned on the way to each row."""

CALLS = 2**22
"""Steps that are looked at for one original, at most."""

LADDER_CALLS = 2**24
"""The same where the whole frontier is wanted: each number of edits is looked at, not only those that may be best."""

FIRST = 4
"""One of so many of CALLS may be taken before it pays to know the fewest edits to go."""

MAX_GUIDED = 2**25
"""Steps times symbols of an original, up to which that is known."""

FAVOURITE = -3
"""The last node of the path that is worth most, whatever its edits."""


@dataclasses.dataclass(frozen=True)
class Found:
    """F paths, original by original, and of each the fewest edits first."""

    index: np.ndarray  # int64[F]
    steps: list[list[int]]  # F, of the weighed graph
    limit: np.ndarray  # float64[B, D + 1], no path of at most so many edits is worth more
    proved: np.ndarray  # bool[B], nothing was dropped


@dataclasses.dataclass(frozen=True)
class _Part:
    """Originals that are still to be worked through."""

    rows: np.ndarray  # int64[b], their numbers
    timed: bool  # whether the actions so far count: some path was longer than the horizon
    alone: bool = False  # it was tried with others, and was not proved

    def split(self, count: int) -> list[_Part]:
        """The first ones and the others, the first ones last."""
        return [dataclasses.replace(self, rows=rows) for rows in (self.rows[count:], self.rows[:count])]


def near(
    weighed: Weighed,
    originals: Paths,
    start: Int[np.ndarray, " B"],
    objective: Objective,
    *,
    calls: int | None = None,
) -> Frontier:
    """For each original the best path of each number of edits, or at one λ_path only what decides that.

    Args:
        originals: B paths.
        start: the row of the first symbol of each.
        objective: that for which the graph was weighed; its λ_path is one number, or None for the whole frontier.
        calls: steps that are looked at for one original, at most; default CALLS, for the frontier LADDER_CALLS.

    Returns:
        A row is proved where its bound is its value: `calls` sufficed. An original without rows has no path at all
        where its `limit` is -inf, else none was found. `answered_by` is "exact" where all is proved, else "search".
        `original_goal` is NaN: nobody asks for it here.

    Raises:
        TooLargeError: an original takes more than MAX_PLACES.
    """
    lengths, costs = np.asarray(originals.lengths, np.int64), whole_costs(objective.costs)
    order = np.argsort(lengths, kind="stable")
    size, most = len(lengths), largest_distance(lengths, weighed.graph.horizon + 1, costs)
    limit, proved = np.full((size, most + 1), -np.inf), np.ones(size, bool)
    rows: list[tuple[int, list[int]]] = []
    to_come = symbols_to_come(weighed, int(max(np.max(originals.symbols), weighed.graph.symbol.max())) + 1)
    first = (CALLS if calls is None else calls) // FIRST
    if calls is None:
        calls = LADDER_CALLS if objective.lambda_path is None else CALLS
    waiting = [_Part(order, timed=bool(weighed.graph.cut.any()))]
    while waiting:
        part = waiting.pop()
        index = part.rows
        together = min(TOGETHER, PLACES // _places(weighed, int(lengths[index].max()), part.timed))
        if len(index) > max(1, together):
            waiting += part.split(max(1, together))
            continue
        batch = _batch(weighed, originals, start, index, to_come, objective)
        if part.alone and len(weighed.row) * batch.symbols.shape[1] <= MAX_GUIDED:
            batch = batch._replace(to_go=edits_to_go(weighed, batch.symbols[0], costs))
        try:
            found = _solve(weighed, batch, costs, part.timed, calls if part.alone else first)
        except TooLargeError:
            if len(index) == 1:
                raise
            waiting += part.split(len(index) // 2)
            continue
        again = _again(weighed, part, found)
        waiting += again.values()
        rows += [(int(index[i]), steps) for i, steps in zip(found.index, found.steps, strict=True) if i not in again]
        limit[index, : found.limit.shape[1]] = found.limit
        limit[index, found.limit.shape[1] :] = found.limit[:, -1:]
        proved[index] = found.proved
    rows.sort(key=lambda row: row[0])
    return _described(weighed, originals, rows, limit, proved, objective)


def _again(weighed: Weighed, part: _Part, found: Found) -> dict[int, _Part]:
    """Which originals of a part are to be worked through again: with time, as a path of theirs is longer than it may
    be; or alone, as not all was proved."""
    steps = zip(found.index.tolist(), found.steps, strict=True)
    long = set() if part.timed else {i for i, path in steps if len(path) > weighed.graph.horizon}
    again = long if part.alone else long.union(np.flatnonzero(~found.proved).tolist())
    return {i: _Part(part.rows[[i]], timed=part.timed or i in long, alone=i not in long) for i in sorted(again)}


def _places(weighed: Weighed, length: int, timed: bool) -> int:
    """How many rows, or rows with a time, there are for one original.

    Raises:
        TooLargeError: more than MAX_PLACES.
    """
    rows = weighed.graph.num_rows
    places = rows * (weighed.graph.horizon + length + 1 if timed else 1)
    if places > MAX_PLACES:
        raise TooLargeError(
            f"task: an original of {length:,} symbols takes {places * 4 / 2**30:.1f} GiB, more than "
            f"{MAX_PLACES * 4 / 2**30:.1f}: {rows:,} states{f' at {places // rows:,} times' if timed else ''}; allow "
            f"{'more' if weighed.graph.ends.any() and not weighed.graph.cut.any() else 'fewer'} steps (--max-steps)"
        )
    return places


def merged(every: Frontier, best: Recourse) -> Frontier:
    """A frontier with the best path at one λ_path of each original, which may be proved where the frontier is not."""
    valid = np.flatnonzero(best.reward > -np.inf)
    distance, value = best.scores.distance, best.scores.goal + best.lambda_policy * best.scores.r_policy
    known = best.scores.distance[every.index], value[every.index]
    beaten = (every.distance >= known[0]) & (every.value <= known[1]) & (best.reward[every.index] > -np.inf)
    kept = np.flatnonzero(~beaten)
    path = np.concatenate([every.index[kept], valid]).astype(np.int32)
    order = np.lexsort((np.concatenate([every.distance[kept], distance[valid]]), path))

    def joined(one: Any, other: Any) -> Any:
        return np.concatenate([one[kept], other[valid]])[order]

    width = max(every.paths.symbols.shape[1], best.paths.symbols.shape[1])
    one, other = every.paths.padded_to(width), best.paths.padded_to(width)
    limit = every.limit[np.arange(len(value)), np.clip(distance, 0, every.limit.shape[1] - 1)]
    bound = np.where(best.gap == 0, value, np.fmax(limit, value))
    return dataclasses.replace(
        every,
        index=path[order],
        distance=joined(every.distance, distance),
        value=joined(every.value, value),
        bound=joined(every.bound, bound),
        paths=jax.tree.map(joined, one, other),
        scores=jax.tree.map(joined, every.scores, best.scores),
        status=joined(every.status, best.status),
    )


def _batch(
    weighed: Weighed,
    originals: Paths,
    start: Int[np.ndarray, " B"],
    rows: Int[np.ndarray, " b"],
    to_come: Float[np.ndarray, " symbols"],
    objective: Objective,
) -> Batch:
    """Some of the originals."""
    lengths = np.asarray(originals.lengths, np.int64)[rows]
    symbols = np.asarray(originals.symbols)[rows, : int(lengths.max())]
    eased = ease(weighed, symbols) if objective.own_steps == "free" else None
    through = np.where(symbols == PAD, np.inf, to_come[symbols] if eased is None else eased.through(weighed, symbols))
    if not weighed.monotone:
        through[through > -np.inf] = np.inf
    for i in np.flatnonzero(lengths > LONG):
        passing = np.full(len(to_come), -np.inf)
        weight, after = (weighed.weight, weighed.to_come) if eased is None else eased.of(weighed, int(i))
        np.maximum.at(passing, weighed.graph.symbol, weighed.so_far(int(start[rows[i]]), weight) + after)
        through[i] = np.where(symbols[i] == PAD, np.inf, passing[symbols[i]])
    return Batch(symbols, lengths, np.asarray(start, np.int64)[rows], through, objective.lambda_path, eased=eased)


def _solve(weighed: Weighed, batch: Batch, costs: WholeCosts, timed: bool, calls: int) -> Found:
    """The best paths of a batch.

    Raises:
        TooLargeError: it is too large, and more than one original.
    """
    last = largest_distance(batch.lengths, weighed.graph.horizon + 1, costs)
    layers = Layers.begin(weighed, batch, costs, last, timed, calls)
    favourites = _favourites(weighed, batch)
    for i, steps in enumerate(favourites):
        if steps is not None:
            symbols = weighed.graph.symbol[[batch.start[i], *weighed.target[steps]]]
            distance = levenshtein(batch.symbols[i, : batch.lengths[i]], symbols, costs)
            layers.end_value[i, distance] = layers.worth(i, steps)
            layers.end_node[i, distance] = FAVOURITE
    layers.run()
    value = layers.end_value
    limit = np.maximum.accumulate(np.maximum(value, layers.dropped), axis=1)
    if batch.lambda_path is None:
        before = np.maximum.accumulate(np.pad(value, ((0, 0), (1, 0)), constant_values=-np.inf)[:, :-1], axis=1)
        index, distance = np.nonzero(value > tolerated(before))
    else:
        worth = value + closeness(np.arange(last + 1), batch.lambda_path)
        distance = worth.argmax(1)
        index = np.flatnonzero(worth.max(1) > -np.inf)
        distance = distance[index]
    steps = _paths(layers, layers.end_node[index, distance])
    steps = [
        favourites[i] or [] if node == FAVOURITE else path
        for i, node, path in zip(index, layers.end_node[index, distance], steps, strict=True)
    ]
    return Found(index, steps, limit, ~(layers.dropped > layers.need).any(1))


def _favourites(weighed: Weighed, batch: Batch) -> list[list[int] | None]:
    """For each original the steps of a path that is worth most, whatever its edits; None where the horizon decides."""
    if batch.eased is not None:
        return [batch.eased.favourite(weighed, i, int(row)) for i, row in enumerate(batch.start)]
    favourites = {int(row): weighed.favourite(int(row)) for row in np.unique(batch.start)}
    return [favourites[int(row)] for row in batch.start]


def _paths(layers: Layers, last: Int[np.ndarray, " F"]) -> list[list[int]]:
    """The steps of the paths that end in these nodes."""
    parent, step = np.concatenate(layers.parent), np.concatenate(layers.step)
    node, columns = np.maximum(last, 0), []
    while (step[node] != ROOT).any():
        columns.append(step[node])
        node = np.where(step[node] == ROOT, node, parent[node])
    table = np.stack(columns[::-1], axis=1) if columns else np.full((len(last), 0), -1)
    return [row[row >= 0].tolist() for row in table]


def _described(
    weighed: Weighed,
    originals: Paths,
    rows: list[tuple[int, list[int]]],
    limit: Float[np.ndarray, "B E"],
    proved: Bool[np.ndarray, " B"],
    objective: Objective,
) -> Frontier:
    """The paths and what they are worth, counted anew."""
    graph, costs = weighed.graph, whole_costs(objective.costs)
    path = np.array([i for i, _ in rows], np.int32)
    lengths = np.array([len(steps) + 1 for _, steps in rows], np.int32)
    width = int(lengths.max(initial=1))
    symbols, actions = np.full((len(rows), width), PAD, np.int32), np.full((len(rows), width - 1), PAD, np.int32)
    sums, distance, ended = np.zeros((3, len(rows))), np.zeros(len(rows), np.int32), np.zeros(len(rows), bool)
    logged = originals.to_lists()
    for k, (i, steps) in enumerate(rows):
        symbols[k, 0] = logged[i][0]
        symbols[k, 1 : lengths[k]] = graph.symbol[weighed.target[steps]]
        taken, habit = steps_taken(weighed, logged[i], symbols[k, : lengths[k]], steps, objective.own_steps)
        actions[k, : lengths[k] - 1] = graph.action[taken]
        sums[:, k] = graph.reward[taken].sum(), habit.sum(), graph.log_prob[taken].sum()
        distance[k] = levenshtein(logged[i], symbols[k, : lengths[k]], costs)
        ended[k] = not steps or graph.ends[graph.target[taken[-1]]]
    goal, habit, log_prob = sums
    value = objective.value(goal, habit)
    known = np.full(limit.shape, -np.inf)
    known[path, distance] = value
    known = np.maximum.accumulate(known, axis=1)
    limit = np.where(proved[:, None], known, np.maximum(known, limit))
    paths = Paths(symbols, lengths, actions)
    return frontier_of(
        Tally(path, paths, value, goal, habit, log_prob, distance, reached=ended, terminated=ended, met=None),
        originals,
        objective,
        bound=limit[path, distance],
        limit=limit,
        original_goal=np.full(len(originals), np.nan),
        answered_by=np.where(proved, "exact", "search"),
    )
