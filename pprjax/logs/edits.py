"""Which symbols of an original a path keeps, replaces, inserts and deletes."""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein

from pprjax.errors import UserError
from pprjax.paths import Paths

KEPT = "="
SIGNS = {"replace": "~", "insert": "+", "delete": "-"}


def alignments(originals: Paths, paths: Paths) -> list[str]:
    """For each pair a cheapest edit (unit costs) of originals[i] into paths[i], one character an edit, in order.

    "=" keeps a symbol, "~" replaces one, "+" inserts one of the path's, "-" deletes one of the original's.

    Raises:
        ValueError: there are not as many paths as originals.
    """
    if len(originals) != len(paths):
        raise UserError(f"paths: expected one for each of {len(originals)} originals, got {len(paths)}")
    return [_spelled(one, other) for one, other in zip(originals.to_lists(), paths.to_lists(), strict=True)]


def _spelled(original: list[int], path: list[int]) -> str:
    edits, done = [], 0  # symbols of the original that are dealt with
    for edit in Levenshtein.editops(original, path):
        edits += [KEPT * (edit.src_pos - done), SIGNS[edit.tag]]
        done = edit.src_pos + (edit.tag != "insert")
    return "".join([*edits, KEPT * (len(original) - done)])
