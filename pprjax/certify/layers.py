"""The dynamic programme over edits, of the states near an original and no others.

A node is (i, r, e): i symbols of τ₀ are read, the path is in row r, and e edits were made. Its value is the best
R_goal + λ_policy·R_policy of a prefix that comes there:

    V(i, r, e) = max of  V(i - 1, q, e)         + w(q, r)    keep: symbol(r) = τ₀[i]
                         V(i - 1, q, e - w_sub) + w(q, r)    replace τ₀[i]
                         V(i, q, e - w_ins)     + w(q, r)    insert
                         V(i - 1, r, e - w_del)              delete τ₀[i]

Layer e is made of those before it: forward, so that only rows that e edits can reach are there. A node goes on only if
it could lead to what is needed: with U(r) the most that can come after r, and m the fewest edits with which a path
through it can end, V + U(r) must exceed what a path of m edits must be worth (`need`). m counts the symbols of τ₀ still
to be read that no path worth so much visits, the actions that an end is still away, and one edit where τ₀ stops short
of an end; or it is looked up, where the fewest edits to go are known.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.certify.edits import WholeCosts
from pprjax.certify.graph import Weighed, count_above, ranges
from pprjax.certify.own_steps import Eased
from pprjax.limits import TooLargeError
from pprjax.reward import closeness

MAX_CELLS = 2**25
"""The most values (i, r) that are held at once."""

MAX_NODES = 2**23
"""The most nodes that the originals of one batch may have together."""

SLICE = 2**21
"""Steps that are taken at once."""

SHARE = 4
"""One of so many of the steps that are left may be taken in a layer; less where more layers are sure to come."""

WAVE = 64
"""Steps that it counts as, that an original keeps one more symbol in some of its paths."""

AHEAD = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024, 2048)
"""How many edits more than e are looked at, to count what no path worth so much visits."""

ROOT = -2
"""The step of a first node."""


class Batch(NamedTuple):
    """B originals."""

    symbols: np.ndarray  # int32[B, N], PAD after the end
    lengths: np.ndarray  # int64[B]
    start: np.ndarray  # int64[B], the row of the first symbol
    through: np.ndarray  # float64[B, N], no path that visits that symbol of τ₀ is worth more
    lambda_path: float | None  # None: the frontier is wanted
    to_go: np.ndarray | None = None  # int32[N + 1, R], of one original: the fewest edits from there on, if known
    eased: Eased | None = None  # where own steps are free: what that changes


class Nodes(NamedTuple):
    """M nodes of a layer."""

    number: np.ndarray  # int64[M], of all nodes
    index: np.ndarray  # int64[M], the original
    read: np.ndarray  # int64[M], i
    place: np.ndarray  # int64[M], r; where time counts r + R·(t - i + N)
    value: np.ndarray  # float64[M]

    def __getitem__(self, rows) -> Nodes:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Nodes(*(x[rows] for x in tuple(self)))


def joined(parts: list[Nodes]) -> Nodes:
    """All of them."""
    return Nodes(*(np.concatenate(x) for x in zip(*map(tuple, parts), strict=True)))


@dataclasses.dataclass
class Layers:
    """The work on a batch. D: the most edits that there can be."""

    weighed: Weighed
    batch: Batch
    costs: WholeCosts
    timed: bool  # whether the actions so far count: where a path may be longer than the horizon
    end_value: np.ndarray  # float64[B, D + 1], the best of the paths that were found
    end_node: np.ndarray  # int64[B, D + 1], their last nodes
    dropped: np.ndarray  # float64[B, D + 1], the most that a path is worth that was not looked at
    need: np.ndarray  # float64[B, D + 1], what a path of so many edits must exceed
    last_edit: np.ndarray  # int64[B], the least to be paid by a path that has not read all of τ₀: 0 if τ₀ may be an end
    least: np.ndarray  # int64[B, N + 1], the fewest edits with which a path can end that has read so many symbols
    spent: np.ndarray  # int64[B], steps
    calls: int  # steps at most, of one original
    cell: np.ndarray  # int32[B·places], the number of a pair (original, place), -1: not met
    best: np.ndarray  # float64[pairs·(N + 1)]
    parent: list[np.ndarray]  # int64, of each node; node 0 is none
    step: list[np.ndarray]  # int64, that leads to each; -1 is a deletion, ROOT none
    num_nodes: int = 1
    num_pairs: int = 0

    @classmethod
    def begin(cls, weighed: Weighed, batch: Batch, costs: WholeCosts, last: int, timed: bool, calls: int) -> Layers:
        """Before the first layer; `last` is D."""
        size, width = batch.symbols.shape
        places = weighed.graph.num_rows * (weighed.graph.horizon + width + 1 if timed else 1)
        nothing = np.full((size, last + 1), -np.inf)
        final = weighed.graph.symbol[weighed.graph.ends | weighed.graph.cut]
        may_end = np.isin(batch.symbols[np.arange(size), batch.lengths - 1], final)
        return cls(
            weighed=weighed,
            batch=batch,
            costs=costs,
            timed=timed,
            end_value=nothing,
            end_node=np.full((size, last + 1), -1),
            dropped=nothing.copy(),
            need=nothing.copy(),
            last_edit=np.where(may_end, 0, min(costs)),
            least=np.zeros((size, width + 1), np.int64),
            spent=np.zeros(size, np.int64),
            calls=calls,
            cell=np.full(size * places, -1, np.int32),
            best=np.full(1024 * (width + 1), -np.inf),
            parent=[np.zeros(1, np.int64)],
            step=[np.full(1, ROOT)],
        )

    @property
    def places(self) -> int:
        """How many there are of an original."""
        return len(self.cell) // len(self.batch.lengths)

    def run(self) -> None:
        """Layer after layer, until nothing is left that could be better.

        Raises:
            TooLargeError: several originals have too many nodes together.
        """
        last, layers = self.end_value.shape[1] - 1, {}
        for e in range(last + 1):
            self._look_ahead(e)
            waves = [self._first()] if e == 0 else self._edited(layers, e)
            wave = joined(waves)
            while len(wave.number):
                self.spent[np.unique(wave.index)] += WAVE
                self._spend(wave.index)
                wave = self._kept(wave, e)
                waves.append(wave)
            layers[e] = self._current(joined(waves), e)
            layers.pop(e - max(self.costs), None)
            if not any(len(nodes.number) for nodes in layers.values()):
                break
        self.need = self._needed()

    def _needed(self) -> Float[np.ndarray, "B E"]:
        """`need`, of the paths found so far."""
        edits = np.arange(self.need.shape[1])
        if self.batch.lambda_path is None:
            need = np.maximum.accumulate(self.end_value, axis=1)
        else:
            close = closeness(edits, self.batch.lambda_path)
            need = (self.end_value + close).max(1, keepdims=True) - close
        return need + 1e-9 * (1 + np.where(np.isfinite(need), np.abs(need), 0.0))

    def _look_ahead(self, e: int) -> None:
        """`need`; and `least`, by the symbols that no path worth it visits."""
        self.need = self._needed()
        last = self.need.shape[1] - 1
        least = np.where(np.arange(self.least.shape[1]) < self.batch.lengths[:, None], e + self.last_edit[:, None], e)
        cheapest = min(self.costs.delete, self.costs.substitute)
        for ahead in AHEAD:
            further = least >= e + ahead
            if e + ahead > last or not further.any():
                break
            lost = self.batch.through <= self.need[:, [e + ahead]]
            count = np.zeros(least.shape, np.int64)
            count[:, :-1] = lost[:, ::-1].cumsum(1)[:, ::-1]
            least = np.where(further, np.maximum(least, e + cheapest * count), least)
        self.least = np.minimum(least, last)

    def _first(self) -> Nodes:
        size, width = self.batch.symbols.shape
        place = self.batch.start + (self.weighed.graph.num_rows * (width - 1) if self.timed else 0)
        one, nothing = np.ones(size, np.int64), np.full((2, size), ROOT)
        return self._accept(np.arange(size), one, place, np.zeros(size), nothing, 0)

    def _edited(self, layers: dict[int, Nodes], e: int) -> list[Nodes]:
        """What one edit leads to."""
        found, shift = [], self.weighed.graph.num_rows if self.timed else 0
        for cost, reads, moved in ((self.costs.substitute, 1, 0), (self.costs.insert, 0, shift)):
            if e - cost in layers:
                found += self._steps(layers[e - cost], e - cost, e, reads, moved)
        if e - self.costs.delete in layers:
            nodes = layers[e - self.costs.delete]
            nodes = nodes[nodes.read < self.batch.lengths[nodes.index]]
            origin = np.stack([nodes.number, np.full(len(nodes.number), -1)])
            found.append(self._accept(nodes.index, nodes.read + 1, nodes.place - shift, nodes.value, origin, e))
        nothing = np.zeros(0, np.int64)
        return [Nodes(nothing, nothing, nothing, nothing, np.zeros(0)), *found]

    def _steps(self, nodes: Nodes, made: int, e: int, reads: int, moved: int) -> list[Nodes]:
        """The nodes of layer e after every step that may matter. Replacing a symbol reads it, inserting does not."""
        if reads:
            nodes = nodes[nodes.read < self.batch.lengths[nodes.index]]
        row = nodes.place % self.weighed.graph.num_rows
        least = self.least[nodes.index, nodes.read + reads]
        shared = count_above(self.weighed, row, self.need[nodes.index, least] - nodes.value)
        begin, further = self._further(nodes.index, row)
        kept = self._within_budget(nodes, made, least, shared + further)
        nodes, row = nodes[kept], row[kept]
        shared, begin, further = shared[kept], begin[kept], further[kept]
        self._spend(nodes.index, shared + further)
        found, low, end = [], 0, np.cumsum(shared + further)
        while low < len(end):
            high = max(low + 1, int(np.searchsorted(end, (end[low - 1] if low else 0) + SLICE)))
            part = slice(low, high)
            step = self.weighed.free[ranges(self.weighed.free_first[row[part]], shared[part])]
            rows = np.repeat(np.arange(low, high), shared[part])
            if self.batch.eased is not None:
                more = self.batch.eased.further[ranges(begin[part], further[part])] % len(self.weighed.row)
                step = np.append(step, more)
                rows = np.append(rows, np.repeat(np.arange(low, high), further[part]))
            place = nodes.place[rows] - row[rows] + self.weighed.target[step] + moved
            value = nodes.value[rows] + self._weights(nodes.index[rows], step)
            origin = np.stack([nodes.number[rows], step])
            found.append(self._accept(nodes.index[rows], nodes.read[rows] + reads, place, value, origin, e))
            low = high
        return found

    def worth(self, original: int, steps: list[int]) -> float:
        """What a path is worth for an original."""
        return float(self._weights(np.full(len(steps), original), np.array(steps, np.int64)).sum())

    def _further(
        self, index: Int[np.ndarray, " M"], row: Int[np.ndarray, " M"]
    ) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " M"]]:
        """Where the steps begin that own steps make worth more, from these rows, and how many there are."""
        if self.batch.eased is None:
            return np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
        place = index * self.weighed.graph.num_rows + row
        begin, end = (np.searchsorted(self.batch.eased.further_row, place, side) for side in ("left", "right"))
        return begin, end - begin

    def _weights(self, index: Int[np.ndarray, " M"], step: Int[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """What these steps are worth for these originals."""
        eased = self.batch.eased
        return self.weighed.weight[step] if eased is None else eased.weights(self.weighed, index, step)

    def _to_come(self, index: Int[np.ndarray, " M"], row: Int[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """The most that can come after these rows for these originals."""
        eased = self.batch.eased
        rows = row if eased is None else index * self.weighed.graph.num_rows + row
        return (self.weighed if eased is None else eased).to_come[rows]

    def _spend(self, index: Int[np.ndarray, " M"], count: Int[np.ndarray, " M"] | None = None) -> None:
        self.spent += np.bincount(index, count, len(self.spent)).astype(np.int64)

    def _within_budget(
        self, nodes: Nodes, made: int, least: Int[np.ndarray, " M"], count: Int[np.ndarray, " M"]
    ) -> Bool[np.ndarray, " M"] | slice:
        """Which nodes may go on that ask for so many steps: of too many those from which most can come; where the
        frontier is wanted, those of the fewest edits.

        Args:
            made: edits so far.
        """
        to_go = self.batch.to_go
        fewest = 0
        if to_go is not None and self.batch.lambda_path is None:
            fewest = int(to_go[1, self.batch.start[0]])
        room = np.maximum((self.calls - self.spent) // max(SHARE, fewest - made), 0)
        wanted = np.bincount(nodes.index, count, len(room))
        if (wanted <= room).all():
            return slice(None)
        row = nodes.place % self.weighed.graph.num_rows
        bound = nodes.value + self._to_come(nodes.index, row)
        if to_go is not None:
            least = np.minimum(np.maximum(least, made + to_go[nodes.read, row]), self.need.shape[1] - 1)
        if self.batch.lambda_path is None:
            order = np.lexsort((-bound, least, nodes.index))
        else:
            order = np.lexsort((-bound - closeness(least, self.batch.lambda_path), nodes.index))
        index, total = nodes.index[order], np.cumsum(count[order])
        before = np.concatenate([[0], np.cumsum(wanted)])[index]
        kept = np.zeros(len(order), bool)
        kept[order] = total - before <= room[index]
        self._drop(nodes.index[~kept], least[~kept], bound[~kept])
        return kept

    def _drop(self, index: Int[np.ndarray, " M"], least: Int[np.ndarray, " M"], bound: Float[np.ndarray, " M"]) -> None:
        np.maximum.at(self.dropped, (index, least), bound)

    def _kept(self, nodes: Nodes, e: int) -> Nodes:
        """What reading the next symbol as it is leads to."""
        nodes = nodes[nodes.read < self.batch.lengths[nodes.index]]
        row = nodes.place % self.weighed.graph.num_rows
        step = self.weighed.leads_to(row, self.batch.symbols[nodes.index, nodes.read].astype(np.int64))
        valid = step >= 0
        nodes, row, step = nodes[valid], row[valid], step[valid]
        place = nodes.place - row + self.weighed.target[step]
        value = nodes.value + self._weights(nodes.index, step)
        return self._accept(nodes.index, nodes.read + 1, place, value, np.stack([nodes.number, step]), e)

    def _accept(
        self,
        index: Int[np.ndarray, " M"],
        read: Int[np.ndarray, " M"],
        place: Int[np.ndarray, " M"],
        value: Float[np.ndarray, " M"],
        origin: Int[np.ndarray, "2 M"],
        e: int,
    ) -> Nodes:
        """Those that may lead to something that is needed and are better than what was there; ends are noted.

        Args:
            origin: the node before, and the step from it.
        """
        weighed, graph = self.weighed, self.weighed.graph
        row, left = place % graph.num_rows, self.batch.lengths[index] - read
        ends, hops = graph.ends[row], weighed.hops[row]
        least = np.maximum(self.least[index, read], e + self.costs.insert * np.maximum(hops - left, 0))
        least = np.where(ends, e + self.costs.delete * left, least)
        if self.batch.to_go is not None:
            least = np.maximum(least, e + self.batch.to_go[read, row])
        taken = read - 1 - e // self.costs.delete
        if self.timed:
            taken = place // graph.num_rows + read - self.batch.symbols.shape[1]
        bound = value + self._to_come(index, row)
        hopeful = (taken + hops <= graph.horizon) & (least < self.need.shape[1])
        hopeful[hopeful] = bound[hopeful] > self.need[index[hopeful], least[hopeful]]
        index, read, place, value, least = (x[hopeful] for x in (index, read, place, value, least))
        cell, room = self._cells(index, read, place)
        if not room.all():
            self._drop(index[~room], least[~room], bound[hopeful][~room])
        better = room.copy()
        better[room] = value[room] > self.best[cell[room]]
        chosen = np.flatnonzero(better)
        np.maximum.at(self.best, cell[chosen], value[chosen])
        chosen = chosen[value[chosen] == self.best[cell[chosen]]]
        chosen = np.sort(chosen[np.unique(cell[chosen], return_index=True)[1]])
        nodes = Nodes(self.num_nodes + np.arange(len(chosen)), *(x[chosen] for x in (index, read, place, value)))
        self.num_nodes += len(chosen)
        if self.num_nodes > MAX_NODES and len(self.spent) > 1:
            raise TooLargeError(f"task: {len(self.spent)} originals have more than {MAX_NODES} nodes together")
        parent, step = origin[:, np.flatnonzero(hopeful)[chosen]]
        self.parent.append(parent)
        self.step.append(step)
        self._note(nodes, e)
        return nodes

    def _cells(
        self, index: Int[np.ndarray, " M"], read: Int[np.ndarray, " M"], place: Int[np.ndarray, " M"]
    ) -> tuple[Int[np.ndarray, " M"], Bool[np.ndarray, " M"]]:
        """Where the best value of each (original, place, i) is held, and whether there is room for it."""
        width = self.least.shape[1]
        pair = index * self.places + place
        new = np.unique(pair[self.cell[pair] < 0])
        fits = max(0, MAX_CELLS // width - self.num_pairs)
        if len(new) > fits and len(self.spent) > 1:
            raise TooLargeError(f"task: {len(self.spent)} originals need more than {MAX_CELLS} values together")
        new = new[:fits]
        self.cell[new] = self.num_pairs + np.arange(len(new))
        self.num_pairs += len(new)
        if self.num_pairs * width > len(self.best):
            more = max(2 * len(self.best), self.num_pairs * width) - len(self.best)
            self.best = np.concatenate([self.best, np.full(more, -np.inf)])
        number = self.cell[pair].astype(np.int64)
        return number * width + read, number >= 0

    def _note(self, nodes: Nodes, e: int) -> None:
        """The paths that end in these nodes."""
        graph = self.weighed.graph
        row = nodes.place % graph.num_rows
        complete = graph.ends[row]
        if self.timed:
            taken = nodes.place // graph.num_rows + nodes.read - self.batch.symbols.shape[1]
            complete = complete | (graph.cut[row] & (taken == graph.horizon))
        nodes = nodes[complete]
        distance = e + self.costs.delete * (self.batch.lengths[nodes.index] - nodes.read)
        inside = distance < self.end_value.shape[1]
        nodes, distance = nodes[inside], distance[inside]
        rows = nodes.index, distance
        better = nodes.value > self.end_value[rows]
        np.maximum.at(self.end_value, rows, nodes.value)
        chosen = np.flatnonzero(better & (nodes.value == self.end_value[rows]))[::-1]
        self.end_node[nodes.index[chosen], distance[chosen]] = nodes.number[chosen]

    def _current(self, nodes: Nodes, e: int) -> Nodes:
        """Those that no better one of the same layer took the place of, where paths go on, as many as may."""
        cell, room = self._cells(nodes.index, nodes.read, nodes.place)
        going = room & ~self.weighed.graph.ends[nodes.place % self.weighed.graph.num_rows]
        nodes = nodes[going & (self.best[cell] == nodes.value)]
        one = np.ones(len(nodes.number), np.int64)
        return nodes[self._within_budget(nodes, e, self.least[nodes.index, nodes.read], one)]
