"""The fewest edits that are still to be made from each position and row on, whatever they are worth."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from pprjax.certify.edits import WholeCosts
from pprjax.certify.graph import Weighed

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
    least[size, weighed.graph.ends | weighed.graph.cut] = 0
    for i in range(size, -1, -1):
        here = least[i]
        if i < size:
            after = least[i + 1]
            here[:] = np.minimum(after + costs.delete, NEVER)
            if len(row):
                replaced = np.minimum.reduceat(after[target], first) + costs.substitute
                here[leaving] = np.minimum(here[leaving], replaced)
            kept = by_symbol[bounds[0, i] : bounds[1, i]]
            np.minimum.at(here, row[kept], after[target[kept]])
        while True:
            inserted = here[target] + costs.insert
            shorter = np.flatnonzero(inserted < here[row])
            if not shorter.size:
                break
            np.minimum.at(here, row[shorter], inserted[shorter])
    return least
