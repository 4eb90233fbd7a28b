"""The steps that are an original's own, on the host: `pprjax.reward.is_own` of many originals and many steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify.graph import Weighed, best_to_come, ranges
from pprjax.certify.tables import Tables
from pprjax.paths import PAD
from pprjax.reward import OwnSteps


def pairs(before: Int[np.ndarray, "*b"], after: Int[np.ndarray, "*b"]) -> Int[np.ndarray, "*b"]:
    """A number for each two symbols, int64; negative where the second is padding."""
    return (np.asarray(before, np.int64) << 32) | np.asarray(after, np.int64)


def habits_of(
    tables: Tables, symbols: Int[np.ndarray, "B N"], own_steps: OwnSteps
) -> tuple[Int[np.ndarray, " B"], Float[np.ndarray, "H N A"]]:
    """Which table of habits each original has, and the tables: one for all, or one for each other original where its
    own steps are free."""
    if own_steps == "charged":
        return np.zeros(len(symbols), np.int64), tables.habit[None]
    moves, kind = np.unique(pairs(tables.symbol[:, None], tables.symbol[tables.following]), return_inverse=True)
    different, which = np.unique(symbols, axis=0, return_inverse=True)
    wanted = pairs(different[:, :-1], different[:, 1:])
    place = np.minimum(np.searchsorted(moves, wanted), len(moves) - 1)
    own = np.zeros((len(different), len(moves)), bool)
    whose, at = np.nonzero(moves[place] == wanted)
    own[whose, place[whose, at]] = True
    return which.ravel(), np.where(own[:, kind.reshape(tables.habit.shape)], np.float32(0), tables.habit)


def steps_taken(
    weighed: Weighed, original: list[int], symbols: Int[np.ndarray, " T+1"], steps: list[int], own_steps: OwnSteps
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

    def weights(self, weighed: Weighed, whose: Int[np.ndarray, " M"], step: Int[np.ndarray, " M"]) -> np.ndarray:
        """What steps are worth for these originals: float64[M]."""
        weight = weighed.weight[step]
        if len(self.key):
            wanted = whose * len(weighed.row) + step
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
        whose, place = np.nonzero((symbols >= 0) & (symbols < len(first) - 1))
        symbol = symbols[whose, place]
        count = first[symbol + 1] - first[symbol]
        row = by_symbol[ranges(first[symbol], count)]
        at = np.repeat(whose, count), np.repeat(place, count)
        np.maximum.at(most, at, self.to_come[at[0] * weighed.graph.num_rows + row])
        return most

    def favourite(self, weighed: Weighed, original: int, start: int) -> list[int] | None:
        """The steps of a path that attains to_come of this original from a row; None where the horizon decides."""
        steps, row, size = [], start, weighed.graph.num_rows
        while not weighed.graph.ends[row]:
            at = np.searchsorted(self.best[:, 0], original * size + row)
            eased = at < len(self.best) and self.best[at, 0] == original * size + row
            step = int(self.best[at, 1] if eased else weighed.best[row])
            if step < 0 or len(steps) == weighed.graph.horizon or not self.settled:
                return None
            steps.append(step)
            row = int(weighed.target[step])
        return steps


def ease(weighed: Weighed, symbols: Int[np.ndarray, "B N"]) -> Eased:
    """The graph with the own steps of each original free.

    to_come is raised from what it is in the shared graph, step by step backwards, until nothing changes. Where the
    horizon decides what can come, it is counted anew for each original.
    """
    rows, own = weighed.graph.num_rows, _own(weighed, symbols)
    if weighed.converged:
        value, best, settled = _raised(weighed, own, len(symbols))
    else:
        value, best, settled = _counted(weighed, own, len(symbols))
    further = _further(weighed, own, best[:, 0])
    whose, step = np.divmod(further, max(len(weighed.row), 1))
    return Eased(own, value, best, further, whose * rows + weighed.row[step], settled)


def _counted(
    weighed: Weighed, own: Int[np.ndarray, " K"], size: int
) -> tuple[Float[np.ndarray, " BR"], Int[np.ndarray, "I 2"], bool]:
    """to_come of `size` originals, where it is more than in the shared graph, and False."""
    value = np.empty((size, weighed.graph.num_rows))
    owner, step = np.divmod(own, max(len(weighed.row), 1))
    for to_come, mine in zip(value, np.split(step, np.searchsorted(owner, np.arange(1, size))), strict=True):
        weight = weighed.weight.copy()
        weight[mine] = weighed.own_weight[mine]
        to_come[:] = best_to_come(weighed.graph, weighed.row, weighed.target, weight)[0]
    value = value.ravel()
    raised = np.flatnonzero(value > np.tile(weighed.to_come, size))
    return value, np.column_stack([raised, np.full(len(raised), -1)]), False


def _raised(
    weighed: Weighed, own: Int[np.ndarray, " K"], size: int
) -> tuple[Float[np.ndarray, " BR"], Int[np.ndarray, "I 2"], bool]:
    """to_come of `size` originals, where it is more than in the shared graph and the step that attains it there, and
    whether these steps lead to an end."""
    rows = weighed.graph.num_rows
    owner, step = np.divmod(own, max(len(weighed.row), 1))
    value = np.tile(weighed.to_come, size)
    first, to = weighed.steps_to
    own_tail, own_head = owner * rows + weighed.row[step], owner * rows + weighed.target[step]
    own_weight = weighed.own_weight[step]
    raised, settled = [np.zeros((0, 2), np.int64)], False
    tail, worth, taken = own_tail, own_weight + value[own_head], step
    for _ in range(weighed.graph.horizon):
        better = worth > value[tail] + 1e-12 * (1 + np.abs(worth))
        settled = not better.any()
        if settled:
            break
        tail, worth, taken = tail[better], worth[better], taken[better]
        np.maximum.at(value, tail, worth)
        attains = worth == value[tail]
        place, index = np.unique(tail[attains], return_index=True)
        raised.append(np.column_stack([place, taken[attains][index]]))
        whose, row = np.divmod(place, rows)
        count = first[row + 1] - first[row]
        before = to[ranges(first[row], count)]
        tail = np.append(own_tail, np.repeat(whose, count) * rows + weighed.row[before])
        worth = np.append(own_weight + value[own_head], weighed.weight[before] + np.repeat(value[place], count))
        taken = np.append(step, before)
    best = np.concatenate(raised)[::-1]  # of each row the last step that raised it
    best = best[np.unique(best[:, 0], return_index=True)[1]]
    return value, best, settled and not weighed.graph.cut.any()


def _own(weighed: Weighed, symbols: Int[np.ndarray, "B N"]) -> Int[np.ndarray, " K"]:
    """original · E' + step of every own step."""
    first, by_symbol = weighed.rows_of
    known = np.where(symbols < len(first) - 1, symbols, PAD).astype(np.int64)
    whose, place = np.nonzero((known[:, :-1] != PAD) & (known[:, 1:] != PAD))
    before, after = known[whose, place], known[whose, place + 1]
    count = first[before + 1] - first[before]
    step = weighed.leads_to(by_symbol[ranges(first[before], count)], np.repeat(after, count))
    return np.unique((np.repeat(whose, count) * len(weighed.row) + step)[step >= 0])


def _further(weighed: Weighed, own: Int[np.ndarray, " K"], raised: Int[np.ndarray, " I"]) -> Int[np.ndarray, " X"]:
    """original · E' + step of what may be worth more than in the shared graph: own steps, steps to what is raised, and
    steps to rows that own steps leave, of those that another one stands for in the shared graph."""
    rows, size = weighed.graph.num_rows, len(weighed.row)
    first, to = weighed.steps_to

    def leading_to(place: Int[np.ndarray, " P"]) -> tuple[Int[np.ndarray, " X"], Int[np.ndarray, " X"]]:
        whose, row = np.divmod(place, rows)
        count = first[row + 1] - first[row]
        return np.repeat(whose, count), to[ranges(first[row], count)]

    whose, step = leading_to(raised)
    owner, taken = np.divmod(own, max(size, 1))
    stood_for = np.ones(size, bool)
    stood_for[weighed.free] = False
    beside, to_own = leading_to(np.unique(owner * rows + weighed.row[taken]) if stood_for.any() else own[:0])
    hidden = stood_for[to_own]
    return np.unique(np.concatenate([own, whose * size + step, beside[hidden] * size + to_own[hidden]]))
