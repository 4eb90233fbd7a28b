"""A finite deterministic world as a graph: only the steps that there are, and what is still to come from each state."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

MOST_ALIKE = 8
"""Steps of a row that may be like another, at most."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """R rows, the states of a world, and E steps between them, row after row. Arrays on the host.

    What follows a row is told apart by its symbol: two steps of one row that lead to the same symbol lead to one row.
    """

    first: np.ndarray  # int64[R + 1], the steps of row r are first[r] … first[r + 1] - 1
    target: np.ndarray  # int32[E], the row that each leads to
    reward: np.ndarray  # float64[E]
    habit: np.ndarray  # float64[E], what each adds to R_policy
    log_prob: np.ndarray  # float64[E], log P_A
    action: np.ndarray  # int32[E], as the caller numbers them
    symbol: np.ndarray  # int32[R]
    ends: np.ndarray  # bool[R], a path ends here and counts; nothing follows
    cut: np.ndarray  # bool[R], a path that is here after `horizon` actions counts
    horizon: int  # T, the largest number of actions

    @property
    def num_rows(self) -> int:
        return len(self.symbol)


@dataclasses.dataclass(frozen=True)
class Weighed:
    """A graph at one λ_policy: the E' steps that may lead to an end, the most promising ones of each row first."""

    graph: Graph
    lambda_policy: float
    step: np.ndarray  # int64[E'], of the graph
    own_step: np.ndarray  # int64[E'], of the graph: what is best from row to target where habits cost nothing
    row: np.ndarray  # int32[E'], that it leaves
    target: np.ndarray  # int32[E']
    weight: np.ndarray  # float64[E'], r + λ_policy·h
    to_come: np.ndarray  # float64[R], the most R_goal + λ_policy·R_policy that can come; -inf: no end can be reached
    converged: bool  # whether no longer path could bring more than to_come
    hops: np.ndarray  # int64[R], the fewest actions to an end
    best: np.ndarray  # int64[R], the step that attains to_come, -1 at ends and where the horizon decides
    free_first: np.ndarray  # int64[R + 1], of row r in `free`
    free: np.ndarray  # int64[F], the steps that may replace or insert a symbol: of those to rows alike the best
    onward: np.ndarray  # float64[F], the most that can come with such a step and after it; falling in each row
    by_symbol: np.ndarray  # int64[E'], the steps by their row and the symbol that they lead to
    key: np.ndarray  # int64[E'], row · (largest symbol + 1) + symbol, of by_symbol

    @cached_property
    def own_weight(self) -> Float[np.ndarray, " E"]:
        """What each step is worth as one that the original took, if that is free: r."""
        return self.graph.reward[self.own_step]

    @cached_property
    def monotone(self) -> bool:
        """Whether nothing is earned on the way."""
        return bool((self.weight <= 0).all() and (self.own_weight <= 0).all())

    @cached_property
    def rows_of(self) -> tuple[Int[np.ndarray, " symbols+1"], Int[np.ndarray, " R"]]:
        """The rows by their symbol, and where those of each symbol begin."""
        symbol = self.graph.symbol
        order = np.argsort(symbol, kind="stable")
        return np.searchsorted(symbol[order], np.arange(int(symbol.max()) + 2)), order

    @cached_property
    def is_free(self) -> Bool[np.ndarray, " E"]:
        """Which steps are `free`."""
        return np.isin(np.arange(len(self.row)), self.free)

    @cached_property
    def stands(self) -> Bool[np.ndarray, " R"]:
        """Which rows a path may be in that neither keeps their symbol nor starts there: no other stands for them."""
        stands = np.diff(self.first) > MOST_ALIKE
        stands[self.target[self.free]] = True
        return stands

    @cached_property
    def first(self) -> Int[np.ndarray, " R+1"]:
        """Where the steps of each row begin."""
        return np.searchsorted(self.row, np.arange(self.graph.num_rows + 1))

    @cached_property
    def steps_to(self) -> tuple[Int[np.ndarray, " R+1"], Int[np.ndarray, " F"]]:
        """The steps from rows that stand for themselves, by the row that they lead to; where those to each begin."""
        steps = np.flatnonzero(self.stands[self.row])
        order = steps[np.argsort(self.target[steps], kind="stable")]
        return np.searchsorted(self.target[order], np.arange(self.graph.num_rows + 1)), order

    def leads_to(self, row: Int[np.ndarray, " M"], symbol: Int[np.ndarray, " M"]) -> Int[np.ndarray, " M"]:
        """The step from a row to a symbol, -1 where there is none."""
        if not len(self.key):
            return np.full(len(row), -1)
        wanted = row * (int(self.graph.symbol.max()) + 1) + symbol
        place = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[place] == wanted, self.by_symbol[place], -1)

    def so_far(self, start: int, weight: Float[np.ndarray, " E"]) -> Float[np.ndarray, " R"]:
        """The most that can be earned on the way from a row to each, where steps are worth `weight`."""
        value = np.full(self.graph.num_rows, -np.inf)
        value[start] = 0.0
        for _ in range(self.graph.horizon):
            longer = value.copy()
            np.maximum.at(longer, self.target, value[self.row] + weight)
            if (longer <= value + 1e-12).all():
                break
            value = longer
        return value

    def favourite(self, start: int) -> list[int] | None:
        """The steps of a path that attains to_come from a row; None where the horizon decides."""
        steps, row = [], start
        while not self.graph.ends[row]:
            step = int(self.best[row])
            if step < 0 or len(steps) == self.graph.horizon:
                return None
            steps.append(step)
            row = int(self.target[step])
        return steps


def weigh(graph: Graph, lambda_policy: float, *, endless: bool = False) -> Weighed:
    """The steps that count, and bounds on what they can earn.

    Args:
        endless: where nothing is earned on the way, count what could come on paths of any length. It is no less than
            what can come within the horizon, and the same for all originals but near their own steps.
    """
    weight = graph.reward + lambda_policy * graph.habit
    row = np.repeat(np.arange(graph.num_rows), np.diff(graph.first))
    number = np.arange(len(row))
    step = np.lexsort((number, -weight, graph.target, row))  # of steps to one row the best
    same = np.zeros(len(step), bool)
    same[1:] = (row[step[1:]] == row[step[:-1]]) & (graph.target[step[1:]] == graph.target[step[:-1]])
    own_step = np.lexsort((number, -weight, -graph.reward, graph.target, row))[~same] if same.any() else step
    step = step[~same]
    by_number = np.argsort(step)
    step, own_step = step[by_number], own_step[by_number]
    row, target, weight = row[step], graph.target[step], weight[step]
    rounds = graph.num_rows if endless and (weight <= 0).all() else graph.horizon
    to_come, best, converged = best_to_come(graph, row, target, weight, rounds)
    settled = converged and not graph.cut.any()
    onward = weight + to_come[target]
    order = np.lexsort((-onward, row))
    order = order[onward[order] > -np.inf]
    place = np.full(len(step) + 1, -1)
    place[order] = np.arange(len(order))
    row, target = row[order].astype(np.int64), target[order].astype(np.int64)
    key = row * (int(graph.symbol.max()) + 1) + graph.symbol[target]
    by_symbol = np.argsort(key, kind="stable")
    first, weight = np.searchsorted(row, np.arange(graph.num_rows + 1)), weight[order]
    alike = _alike(graph, first, target[by_symbol], weight[by_symbol])
    free = np.sort(np.unique(row * graph.num_rows + alike[target], return_index=True)[1])
    return Weighed(
        graph=graph,
        lambda_policy=lambda_policy,
        step=step[order],
        own_step=own_step[order],
        row=row,
        target=target,
        weight=weight,
        to_come=to_come,
        converged=converged,
        hops=_hops(graph, row, target),
        best=place[best] if settled else np.full(graph.num_rows, -1),
        free_first=np.searchsorted(row[free], np.arange(graph.num_rows + 1)),
        free=free,
        onward=onward[order][free],
        by_symbol=by_symbol,
        key=key[by_symbol],
    )


def _alike(
    graph: Graph, first: Int[np.ndarray, " R+1"], target: Int[np.ndarray, " E"], weight: Float[np.ndarray, " E"]
) -> Int[np.ndarray, " R"]:
    """A number for each row, the same where the same may follow: of a symbol that is put in, only that counts.

    Rows of more than MOST_ALIKE steps are like no other. Where no row has many steps, there is nothing to win.
    """
    alike, degree = np.arange(graph.num_rows), np.diff(first)
    if degree.max(initial=0) <= MOST_ALIKE:
        return alike
    for count in range(MOST_ALIKE + 1):
        rows = np.flatnonzero(degree == count)
        if rows.size:
            places = first[rows][:, None] + np.arange(count)
            what = np.column_stack([graph.ends[rows], graph.cut[rows], target[places], weight[places]])
            _, index, same = np.unique(what, axis=0, return_index=True, return_inverse=True)
            alike[rows] = rows[index][same.ravel()]
    return alike


def best_to_come(
    graph: Graph,
    row: Int[np.ndarray, " E"],
    target: Int[np.ndarray, " E"],
    weight: Float[np.ndarray, " E"],
    rounds: int,
) -> tuple[Float[np.ndarray, " R"], Int[np.ndarray, " R"], bool]:
    """The most to come within `rounds` steps, the step that attains it, and whether no longer path could bring more.

    V_0(r) = 0 at ends, else -inf;  V_k(r) = max of V_{k-1}(r) and max over the steps of r of weight + V_{k-1}(target).
    """
    value = np.where(graph.ends | graph.cut, 0.0, -np.inf)
    best = np.full(graph.num_rows, -1)
    if not len(row):
        return value, best, True
    leaving, first = np.unique(row, return_index=True)
    where = np.repeat(np.arange(len(leaving)), np.diff(np.append(first, len(row))))
    for _ in range(rounds):
        longer = weight + value[target]
        most = np.maximum.reduceat(longer, first)
        better = most > value[leaving] + 1e-12 * (1 + np.abs(np.where(most > -np.inf, most, 0.0)))
        if not better.any():
            return value, best, True
        value[leaving[better]] = most[better]
        attains = np.flatnonzero(better[where] & (longer == most[where]))[::-1]
        best[row[attains]] = attains  # of equal ones the first stays
    return value, best, False


def _hops(graph: Graph, row: Int[np.ndarray, " E"], target: Int[np.ndarray, " E"]) -> Int[np.ndarray, " R"]:
    """The fewest actions to an end, by breadth-first search against the steps; more than T where there is none."""
    hops = np.full(graph.num_rows, graph.horizon + 1)
    hops[graph.ends | graph.cut] = 0
    order = np.argsort(target, kind="stable")
    first = np.searchsorted(target[order], np.arange(graph.num_rows + 1))
    reached, count = np.flatnonzero(hops == 0), 0
    while reached.size and count < graph.horizon:
        count += 1
        before = np.unique(row[order[ranges(first[reached], first[reached + 1] - first[reached])]])
        reached = before[hops[before] > graph.horizon]
        hops[reached] = count
    return hops


def ranges(first: Int[np.ndarray, " N"], count: Int[np.ndarray, " N"]) -> Int[np.ndarray, " M"]:
    """first[0] … first[0] + count[0] - 1, then those of the next."""
    return np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())


def symbols_to_come(weighed: Weighed, size: int) -> Float[np.ndarray, " symbols"]:
    """The most that can come after each of `size` symbols, whatever the way to it."""
    most = np.full(size, -np.inf)
    np.maximum.at(most, weighed.graph.symbol, weighed.to_come)
    return most


def count_above(weighed: Weighed, row: Int[np.ndarray, " N"], least: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """How many `free` steps of each row can lead to more than `least`: they come first."""
    low, high = weighed.free_first[row], weighed.free_first[row + 1]
    begin = low
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = np.minimum((low + high) // 2, len(weighed.onward) - 1)
        above = (weighed.onward[middle] > least) & (low < high)
        low, high = np.where(above, middle + 1, low), np.where(above, high, np.minimum(middle, high))
    return low - begin
