"""The fewest edits that are still to be made from each position and row on, whatever they are worth."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from pprjax.certify.edits import WholeCosts
from pprjax.certify.graph import Weighed, ranges

NEVER = 2**30
"""Edits from where no end can be reached."""


def edits_to_go(weighed: Weighed, original: Int[np.ndarray, " N"], costs: WholeCosts) -> Int[np.ndarray, "N+1 R"]:
    """h(i, r): no path that has read i symbols of τ₀ and is in row r ends with fewer edits more.

    h(N, r) = 0 at ends
    h(i, r) = min of  h(i + 1, r) + w_del,    h(i, q) + w_ins        for each q that follows r,
                      h(i + 1, q) + w_sub,    h(i + 1, q)            the last where symbol(q) = τ₀[i]
    """
    row, target, size = weighed.row, weighed.target, len(original)
    leaving, first = np.unique(row, return_index=True)
    symbol = weighed.graph.symbol[target]
    by_symbol = np.argsort(symbol, kind="stable")
    bounds = np.searchsorted(symbol[by_symbol], np.stack([original, np.asarray(original) + 1]))
    least = np.full((size + 1, weighed.graph.num_rows), NEVER, np.int32)
    ends = np.flatnonzero(weighed.graph.ends | weighed.graph.cut)
    least[size, ends] = 0
    insert = _Insert(weighed, costs.insert)
    insert.before(ends, least[size])
    for i in range(size - 1, -1, -1):
        here, after = least[i], least[i + 1]
        here[:] = np.minimum(after + costs.delete, NEVER)
        if len(row):
            here[leaving] = np.minimum(here[leaving], np.minimum.reduceat(after[target], first) + costs.substitute)
        kept = by_symbol[bounds[0, i] : bounds[1, i]]
        kept = kept[after[target[kept]] < here[row[kept]]]
        np.minimum.at(here, row[kept], after[target[kept]])
        insert.before(np.unique(row[kept]), here)  # no insertion pays that did not pay at i + 1, but before these
    return least


class _Insert:
    """What insertions make of h(i, ·)."""

    def __init__(self, weighed: Weighed, cost: int):
        self.row, self.target, self.cost = weighed.row, weighed.target, cost
        self.by_target = np.argsort(weighed.target, kind="stable")
        self.first = np.searchsorted(weighed.target[self.by_target], np.arange(weighed.graph.num_rows + 1))

    def before(self, rows: Int[np.ndarray, " M"], here: Int[np.ndarray, " R"]) -> None:
        """Lower h of what leads to these rows, and to what leads there, in place."""
        while rows.size:
            step = self.by_target[ranges(self.first[rows], self.first[rows + 1] - self.first[rows])]
            inserted = here[self.target[step]] + self.cost
            shorter = inserted < here[self.row[step]]
            rows = self.row[step[shorter]]
            np.minimum.at(here, rows, inserted[shorter])
            rows = np.unique(rows)
