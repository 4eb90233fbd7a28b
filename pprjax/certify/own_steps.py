"""The steps that are an original's own, on the host: `pprjax.reward.is_own` of many originals and many steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify.graph import Weighed, best_to_come, ranges
from pprjax.finite_world import FiniteWorld
from pprjax.paths import PAD
from pprjax.reward import OwnSteps


def pairs(before: Int[np.ndarray, "*#b"], after: Int[np.ndarray, "*#b"]) -> Int[np.ndarray, "..."]:
    """A number for each two symbols, int64; negative where the second is padding."""
    return (np.asarray(before, np.int64) << 32) | np.asarray(after, np.int64)


def habits_of(
    tables: FiniteWorld, symbols: Int[np.ndarray, "B N"], own_steps: OwnSteps
) -> tuple[Int[np.ndarray, " B"], Float[np.ndarray, "H rows A"]]:
    """Which table of habits each original has, and the tables: one for all, or one for each other original where its
    own steps are free."""
    if own_steps == "charged":
        return np.zeros(len(symbols), np.int64), tables.habit[None]
    moves, kind = np.unique(pairs(tables.symbol[:, None], tables.symbol[tables.next_state]), return_inverse=True)
    different, which = np.unique(symbols, axis=0, return_inverse=True)
    wanted = pairs(different[:, :-1], different[:, 1:])
    place = np.minimum(np.searchsorted(moves, wanted), len(moves) - 1)
    own = np.zeros((len(different), len(moves)), bool)
    index, rows = np.nonzero(moves[place] == wanted)
    own[index, place[index, rows]] = True
    return which.ravel(), np.where(own[:, kind.reshape(tables.habit.shape)], np.float32(0), tables.habit)


def steps_taken(
    weighed: Weighed, original: list[int], symbols: Int[np.ndarray, " N"], steps: list[int], own_steps: OwnSteps
) -> tuple[Int[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """The steps of the graph that a path takes, and what they add to R_policy.

    Args:
        symbols: of the path, without padding.
        steps: of the weighed graph.
    """
    step, graph = np.array(steps, np.int64), weighed.graph
    if own_steps == "charged":
        return weighed.step[step], graph.habit[weighed.step[step]]
    logged = np.array(original, np.int64)
    own = np.isin(pairs(symbols[:-1], symbols[1:]), pairs(logged[:-1], logged[1:]))
    taken = np.where(own, weighed.own_step[step], weighed.step[step])
    return taken, np.where(own, 0.0, graph.habit[taken])


class Eased(NamedTuple):
    """A weighed graph of R rows and E' steps for B originals, of each of which the own steps are free.

    What leads to an own step may be worth more than it is in the graph that all share: `further` are the steps of which
    that may be so. All others are worth what they are there.
    """

    key: np.ndarray  # int64[K], rising: original · E' + step, of every own step
    to_come: np.ndarray  # float64[B·R], the most that can come, as `Weighed.to_come`
    best: np.ndarray  # int64[I, 2], rising: original · R + row where more can come, and the step that attains it
    further: np.ndarray  # int64[X], rising: original · E' + step
    further_row: np.ndarray  # int64[X], original · R + row of these
    settled: bool  # whether `best` leads along paths that attain to_come: the horizon decides nothing

    def weights(self, weighed: Weighed, index: Int[np.ndarray, " M"], step: Int[np.ndarray, " M"]) -> np.ndarray:
        """What steps are worth for these originals: float64[M]."""
        weight = weighed.weight[step]
        if len(self.key):
            wanted = index * len(weighed.row) + step
            own = self.key[np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)] == wanted
            weight[own] = weighed.own_weight[step[own]]
        return weight

    def of(self, weighed: Weighed, original: int) -> tuple[Float[np.ndarray, " E"], Float[np.ndarray, " R"]]:
        """What each step is worth for one original, and the most that can come after each row."""
        step = np.arange(len(weighed.row))
        rows = weighed.graph.num_rows
        after = self.to_come[original * rows : (original + 1) * rows]
        return self.weights(weighed, np.full(len(step), original), step), after

    def through(self, weighed: Weighed, symbols: Int[np.ndarray, "B N"]) -> Float[np.ndarray, "B N"]:
        """The most that can come after each symbol of each original, whatever the way to it; -inf: nothing can."""
        first, by_symbol = weighed.rows_of
        most = np.full(symbols.shape, -np.inf)
        index, place = np.nonzero((symbols >= 0) & (symbols < len(first) - 1))
        symbol = symbols[index, place]
        count = first[symbol + 1] - first[symbol]
        row = by_symbol[ranges(first[symbol], count)]
        rows = np.repeat(index, count), np.repeat(place, count)
        np.maximum.at(most, rows, self.to_come[rows[0] * weighed.graph.num_rows + row])
        return most

    def favourite(self, weighed: Weighed, original: int, start: int) -> list[int] | None:
        """The steps of a path that attains to_come of this original from a row; None where the horizon decides."""
        steps, row, size = [], start, weighed.graph.num_rows
        while not weighed.graph.ends[row]:
            rows = np.searchsorted(self.best[:, 0], original * size + row)
            eased = rows < len(self.best) and self.best[rows, 0] == original * size + row
            step = int(self.best[rows, 1] if eased else weighed.best[row])
            if step < 0 or len(steps) == weighed.graph.horizon or not self.settled:
                return None
            steps.append(step)
            row = int(weighed.target[step])
        return steps


def ease(weighed: Weighed, symbols: Int[np.ndarray, "B N"]) -> Eased:
    """The graph with the own steps of each original free.

    to_come is raised from what it is in the shared graph, step by step backwards, until nothing changes. Where the
    horizon decides what can come, it is counted anew for each original. Rows that another row stands for are looked at
    where τ₀ has their symbol: no path that is looked at is in any other.
    """
    size = max(len(weighed.row), 1)
    own, beside = _own(weighed, symbols)
    if weighed.converged:
        value, best, settled = _raised(weighed, own, beside, len(symbols))
    else:
        value, best, settled = _counted(weighed, own, len(symbols))
    index, step = _leading_to(weighed, best[:, 0])
    owner, left = np.divmod(own, size)
    from_own, hidden = _leading_to(weighed, np.unique(owner * weighed.graph.num_rows + weighed.row[left]))
    raised, stood_for = weighed.is_free[step], ~weighed.is_free[hidden]
    parts = own, beside, (index * size + step)[raised], (from_own * size + hidden)[stood_for]
    further = np.unique(np.concatenate(parts))
    index, step = np.divmod(further, size)
    return Eased(own, value, best, further, index * weighed.graph.num_rows + weighed.row[step], settled)


def _own(weighed: Weighed, symbols: Int[np.ndarray, "B N"]) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " L"]]:
    """original · E' + step of every own step, and of every step from a row that has a symbol of τ₀ and that another row
    stands for."""
    size, (first, by_symbol) = len(weighed.row), weighed.rows_of
    known = np.where(symbols < len(first) - 1, symbols, PAD).astype(np.int64)
    index, place = np.nonzero(known != PAD)
    symbol, after = known[index, place], np.pad(known, ((0, 0), (0, 1)), constant_values=PAD)[index, place + 1]
    count = first[symbol + 1] - first[symbol]
    row, index, after = by_symbol[ranges(first[symbol], count)], np.repeat(index, count), np.repeat(after, count)
    step = np.where(after == PAD, -1, weighed.leads_to(row, after))
    hidden = ~weighed.stands[row]
    count = (weighed.first[row + 1] - weighed.first[row])[hidden]
    beside = np.repeat(index[hidden] * size, count) + ranges(weighed.first[row[hidden]], count)
    return np.unique((index * size + step)[step >= 0]), np.unique(beside)


def _leading_to(weighed: Weighed, place: Int[np.ndarray, " P"]) -> tuple[Int[np.ndarray, " X"], Int[np.ndarray, " X"]]:
    """The steps to these original · R + row, and whose they are."""
    first, to = weighed.steps_to
    index, row = np.divmod(place, weighed.graph.num_rows)
    count = first[row + 1] - first[row]
    return np.repeat(index, count), to[ranges(first[row], count)]


def _counted(
    weighed: Weighed, own: Int[np.ndarray, " K"], size: int
) -> tuple[Float[np.ndarray, " BR"], Int[np.ndarray, "I 2"], bool]:
    """to_come of `size` originals, where it is more than in the shared graph, and False."""
    value = np.empty((size, weighed.graph.num_rows))
    owner, step = np.divmod(own, max(len(weighed.row), 1))
    for to_come, rows in zip(value, np.split(step, np.searchsorted(owner, np.arange(1, size))), strict=True):
        weight = weighed.weight.copy()
        weight[rows] = weighed.own_weight[rows]
        to_come[:] = best_to_come(weighed.graph, weighed.row, weighed.target, weight, weighed.graph.horizon)[0]
    value = value.ravel()
    raised = np.flatnonzero(value > np.tile(weighed.to_come, size))
    return value, np.column_stack([raised, np.full(len(raised), -1)]), False


def _raised(
    weighed: Weighed, own: Int[np.ndarray, " K"], beside: Int[np.ndarray, " L"], size: int
) -> tuple[Float[np.ndarray, " BR"], Int[np.ndarray, "I 2"], bool]:
    """to_come of `size` originals, where it is more than in the shared graph and the step that attains it there, and
    whether these steps lead to an end."""
    rows, value = weighed.graph.num_rows, np.tile(weighed.to_come, size)
    owner, always = np.divmod(np.append(own, beside), max(len(weighed.row), 1))
    weight = np.append(weighed.own_weight[always[: len(own)]], weighed.weight[always[len(own) :]])
    leaving, reached = owner * rows + weighed.row[always], owner * rows + weighed.target[always]
    raised, settled = [np.zeros((0, 2), np.int64)], False
    tail, worth, step = leaving, weight + value[reached], always
    for _ in range(weighed.graph.horizon):
        better = worth > value[tail] + 1e-12 * (1 + np.abs(worth))
        settled = not better.any()
        if settled:
            break
        tail, worth, step = tail[better], worth[better], step[better]
        np.maximum.at(value, tail, worth)
        attains = worth == value[tail]
        place, index = np.unique(tail[attains], return_index=True)
        raised.append(np.column_stack([place, step[attains][index]]))
        original_index, before = _leading_to(weighed, place)
        tail = np.append(leaving, original_index * rows + weighed.row[before])
        after = value[original_index * rows + weighed.target[before]]
        worth = np.append(weight + value[reached], weighed.weight[before] + after)
        step = np.append(always, before)
    best = np.concatenate(raised)[::-1]  # of each row the last step that raised it
    best = best[np.unique(best[:, 0], return_index=True)[1]]
    return value, best, settled and not weighed.graph.cut.any()
