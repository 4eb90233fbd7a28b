"""Which symbols of an original a path keeps, replaces, inserts and deletes."""

from __future__ import annotations

import numpy as np

from pprjax.paths import Paths

KEPT, REPLACED, INSERTED, DELETED = "=", "~", "+", "-"


def alignments(originals: Paths, paths: Paths) -> list[str]:
    """For each pair a cheapest edit (unit costs) of originals[i] into paths[i], one character an edit, in order.

    "=" keeps a symbol, "~" replaces one, "+" inserts one of the path's, "-" deletes one of the original's. Of equally
    cheap edits the one that keeps and replaces latest is taken.

    Raises:
        ValueError: there are not as many paths as originals.
    """
    if len(originals) != len(paths):
        raise ValueError(f"paths: expected one for each of {len(originals)} originals, got {len(paths)}")
    one, other = np.asarray(originals.symbols), np.asarray(paths.symbols)
    n, m = np.asarray(originals.lengths), np.asarray(paths.lengths)
    size, rows, columns = len(n), one.shape[1] + 1, other.shape[1] + 1
    table = np.zeros((rows, columns, size), np.int16)  # D[i, j] = distance of the first i and the first j symbols
    table[:, 0], table[0] = np.arange(rows)[:, None], np.arange(columns)[:, None]
    for i in range(1, rows):
        for j in range(1, columns):
            substituted = table[i - 1, j - 1] + (one[:, i - 1] != other[:, j - 1])
            table[i, j] = np.minimum(np.minimum(table[i - 1, j], table[i, j - 1]) + 1, substituted)

    i, j, each = n.astype(int), m.astype(int), np.arange(size)
    edits = np.full((size, rows + columns - 2), "", "U1")
    for k in reversed(range(edits.shape[1])):
        here = table[i, j, each]
        same = (i > 0) & (j > 0) & (one[each, i - 1] == other[each, j - 1])
        diagonal = (i > 0) & (j > 0) & (table[i - 1, j - 1, each] + ~same == here)
        drops = ~diagonal & (i > 0) & (table[i - 1, j, each] + 1 == here)
        adds = ~diagonal & ~drops & (j > 0)
        edits[:, k] = np.select([diagonal & same, diagonal, drops, adds], [KEPT, REPLACED, DELETED, INSERTED], "")
        i, j = i - (diagonal | drops), j - (diagonal | adds)
    return ["".join(row) for row in edits]
