"""An alignment rewrites the original into the path, in as few edits as there are."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax.logs.edits import alignments
from pprjax.paths import Paths


@functools.cache
def distance(one, other):
    """By its definition."""
    if not one or not other:
        return len(one) + len(other)
    substituted = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(substituted, 1 + distance(one[1:], other), 1 + distance(one, other[1:]))


rows = st.lists(st.integers(0, 4), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=6))
def test_it_spells_the_path_in_as_few_edits_as_the_distance(pairs):
    originals, paths = map(Paths.from_lists, zip(*pairs, strict=True))
    for (original, path), edits in zip(pairs, alignments(originals, paths), strict=True):
        left, spelled = list(original), []
        ahead = list(path)
        for edit in edits:
            if edit != "-":
                spelled.append(ahead.pop(0))
            if edit != "+":
                symbol = left.pop(0)
                if edit != "-":
                    assert (symbol == spelled[-1]) == (edit == "=")
        assert not left
        assert spelled == path
        assert sum(edit != "=" for edit in edits) == distance(tuple(original), tuple(path))


def test_each_edit_has_its_sign():
    originals = Paths.from_lists([[1, 2, 3], [1, 2, 3], [1, 2], [5]])
    paths = Paths.from_lists([[1, 9, 3], [1, 3], [1, 7, 2], [5]])
    assert alignments(originals, paths) == ["=~=", "=-=", "=+=", "="]


def test_unequal_batches_are_named():
    with pytest.raises(ValueError, match="one for each of 1 originals, got 2"):
        alignments(Paths.from_lists([[1]]), Paths.from_lists([[1], [2]]))
