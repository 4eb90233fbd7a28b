"""Paths: nothing is lost by padding, and what can't be a path is named."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax.paths import PAD, Paths

LARGEST = 2**31 - 1
SYMBOL = st.integers(0, LARGEST)
RAGGED = st.lists(st.lists(SYMBOL, min_size=1, max_size=9), min_size=1, max_size=6)
few = settings(deadline=None, max_examples=60)


@st.composite
def with_actions(draw):
    symbols = draw(RAGGED)
    return symbols, [draw(st.lists(SYMBOL, min_size=len(row) - 1, max_size=len(row) - 1)) for row in symbols]


@given(with_actions(), st.integers(0, 5))
@few
def test_round_trip(rows, extra):
    symbols, actions = rows
    paths = Paths.from_lists(symbols, actions)
    longest = max(map(len, symbols))
    assert paths.symbols.shape == (len(symbols), longest)
    assert paths.actions.shape == (len(symbols), longest - 1)
    assert paths.symbols.dtype == paths.actions.dtype == paths.lengths.dtype == np.int32
    for same in (paths, paths.padded_to(longest + extra)):
        assert same.to_lists() == list(same) == symbols
        assert same.actions_to_lists() == actions
        assert len(same) == len(symbols)


@given(with_actions(), st.integers(0, 5))
@few
def test_padding_is_everywhere_after_the_end_and_nowhere_else(rows, extra):
    symbols, actions = rows
    width = max(map(len, symbols)) + extra
    paths = Paths.from_lists(symbols, actions).padded_to(width)
    assert paths.symbols.shape == (len(symbols), width)
    assert paths.actions.shape == (len(symbols), width - 1)
    after = np.arange(width) >= paths.lengths[:, None]
    np.testing.assert_array_equal(paths.symbols == PAD, after)
    np.testing.assert_array_equal(paths.actions == PAD, after[:, 1:])


@given(RAGGED, st.data())
@few
def test_indexing_is_that_of_a_list(symbols, data):
    paths = Paths.from_lists(symbols)
    i = data.draw(st.integers(-len(symbols), len(symbols) - 1))
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(symbols))] * 2)))
    chosen = data.draw(st.lists(st.integers(0, len(symbols) - 1), min_size=1, max_size=8))
    assert paths[i].to_lists() == [symbols[i]]
    assert paths[low:high].to_lists() == symbols[low:high]
    assert paths[chosen].to_lists() == [symbols[j] for j in chosen]


def test_indexing_takes_the_actions_along():
    paths = Paths.from_lists([[5, 6], [7], [8, 9, 8]], [[1], [], [0, 1]])
    assert paths[[2, 1]].actions_to_lists() == [[0, 1], []]
    with pytest.raises(IndexError):
        paths[3]


def test_a_padded_array_can_be_cut_to_its_longest_path():
    paths = Paths.from_lists([[1, 2, 3], [4]], [[0, 1], []])
    assert paths.padded_to(9).padded_to(3).symbols.tolist() == [[1, 2, 3], [4, PAD, PAD]]
    with pytest.raises(ValueError, match=r"^length: expected at least 3, the longest path, got 2$"):
        paths.padded_to(2)


def test_a_row_may_be_an_array_and_rows_may_come_one_at_a_time():
    rows = (np.arange(n, dtype=np.uint8) for n in (2, 3))
    assert Paths.from_lists(rows).to_lists() == [[0, 1], [0, 1, 2]]


def test_paths_are_a_pytree():
    paths = Paths.from_lists([[1, 2], [3]])
    assert len(jax.tree.leaves(paths)) == 2
    assert jax.jit(lambda p: p)(paths).to_lists() == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([], r"^symbols: expected at least one path, got none$"),
        ([[1], []], r"^symbols\[1\]: .*an empty path$"),
        ([[1], [2, -3]], r"^symbols\[1\]\[1\]: expected an integer in \[0, 2147483647\], got -3$"),
        ([[1], [LARGEST + 1]], r"^symbols\[1\]\[0\]: expected an integer in .*, got 2147483648$"),
        ([[2**64]], r"^symbols\[0\]: expected integers, got object$"),
        ([[1], [2], [0.5]], r"^symbols\[2\]: expected integers, got float64$"),
        ([[True]], r"^symbols\[0\]: expected integers, got bool$"),
        (["ab"], r"^symbols\[0\]: expected a list of integers, got an array of shape \(\)$"),
        ([[[1, 2]]], r"^symbols\[0\]: expected a list of integers, got an array of shape \(1, 2\)$"),
    ],
)
def test_what_is_no_path_is_named(symbols, message):
    with pytest.raises(ValueError, match=message):
        Paths.from_lists(symbols)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([[0]], r"^actions: expected one row for each of 2 paths, got 1$"),
        ([[0], [1]], r"^actions\[1\]: expected 2, one fewer than symbols, got 1$"),
        ([[0, 1], [1, 1]], r"^actions\[0\]: expected 1, one fewer than symbols, got 2$"),
        ([[-1], [1, 1]], r"^actions\[0\]\[0\]: expected an integer in"),
        ([[0], [1, 0.5]], r"^actions\[1\]: expected integers, got float64$"),
    ],
)
def test_actions_that_do_not_fit_are_named(actions, message):
    with pytest.raises(ValueError, match=message):
        Paths.from_lists([[1, 2], [3, 4, 5]], actions)


def test_paths_without_actions_say_so():
    with pytest.raises(ValueError, match=r"^actions: these paths have none$"):
        Paths.from_lists([[1, 2]]).actions_to_lists()
