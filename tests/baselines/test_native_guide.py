"""Native Guide against wildboar's values, its definition, and the cases where there is nothing to find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pprjax.baselines import native_guide


def above(threshold):
    return lambda series: (np.asarray(series).sum(1) > threshold).astype(int)


QUERY = np.zeros((1, 3))
REFERENCES = np.array([[0.0, 0, 1], [3, 2, 1], [9, 9, 9]])


def test_agrees_with_wildboar(oracle):
    for case in oracle("native_guide"):
        weights, intercept = np.array(case["coef"]), case["intercept"]

        def classify(series, weights=weights, intercept=intercept):
            return (series @ weights + intercept > 0).astype(int)

        found = native_guide(np.array([case["q"]]), np.array(case["X"]), classify, np.array([case["importance"]]))
        np.testing.assert_array_equal(classify(np.array(case["X"])), case["pred"])
        assert (found.start[0], found.length[0]) == (case["start"], case["length"])
        np.testing.assert_allclose(found.sequences[0], case["cf"], rtol=1e-9)
        assert found.found[0]


def test_takes_the_shortest_important_window_of_the_nearest_unlike_neighbour():
    found = native_guide(QUERY, REFERENCES, above(4), np.array([[1.0, 5, 2]]))
    assert found.neighbour == 1  # the first is nearer, but of the same class; the last is farther
    # length 1: [0 2 0]; length 2, importance 1 + 5 < 5 + 2: [0 2 1]; length 3: [3 2 1]
    assert (found.start, found.length) == (0, 3)
    np.testing.assert_array_equal(found.sequences, [[3, 2, 1]])
    shorter = native_guide(QUERY, REFERENCES, above(2), np.array([[1.0, 5, 2]]))
    assert (shorter.start, shorter.length) == (1, 2)
    np.testing.assert_array_equal(shorter.sequences, [[0, 2, 1]])


@pytest.mark.parametrize("references", [REFERENCES[:1], np.zeros((0, 3))])
def test_says_not_found_where_no_reference_is_unlike(references):
    found = native_guide(QUERY, references, above(4), np.ones((1, 3)))
    assert not found.found[0]
    assert (found.neighbour, found.start, found.length) == (-1, -1, -1)
    np.testing.assert_array_equal(found.sequences, QUERY)


def test_only_the_wanted_class_counts():
    def thirds(series):
        return np.minimum(np.asarray(series).sum(1) // 6, 2).astype(int)

    any_other = native_guide(QUERY, REFERENCES, thirds, np.ones((1, 3)))
    wanted = native_guide(QUERY, REFERENCES, thirds, np.ones((1, 3)), wanted=2)
    assert (any_other.neighbour, wanted.neighbour) == (1, 2)
    np.testing.assert_array_equal(thirds(wanted.sequences), 2)
    missing = native_guide(QUERY, REFERENCES, thirds, np.ones((1, 3)), wanted=7)
    assert not missing.found[0]


def test_importance_may_be_read_off_the_neighbours():
    seen = []

    def importance(queries, neighbours):
        seen.append((queries, neighbours))
        return np.abs(neighbours - queries)

    found = native_guide(np.concatenate([QUERY, REFERENCES[:2]]), REFERENCES, above(2), importance)
    queries, neighbours = seen[0]
    np.testing.assert_array_equal(queries, np.concatenate([QUERY, REFERENCES[:2]]))
    np.testing.assert_array_equal(neighbours, REFERENCES[found.neighbour])
    np.testing.assert_array_equal(found.sequences[0], [3, 0, 0])


small = st.integers(0, 4)


@settings(max_examples=60, deadline=None)
@given(
    queries=arrays(np.int64, (3, 5), elements=small),
    references=arrays(np.int64, (6, 5), elements=small),
    importance=arrays(np.float64, (3, 5), elements=st.floats(0, 9)),
    threshold=st.integers(0, 20),
)
def test_is_what_a_plain_search_finds(queries, references, importance, threshold):
    classify = above(threshold)
    found = native_guide(queries, references, classify, importance)
    for i, query in enumerate(queries):
        unlike = [r for r in references if classify(r[None])[0] != classify(query[None])[0]]
        assert found.found[i] == bool(unlike)
        if not unlike:
            continue
        guide = min(unlike, key=lambda r: ((r - query) ** 2).sum())
        for length in range(1, 6):
            sums = [importance[i, s : s + length].sum() for s in range(6 - length)]
            start = int(np.argmax(sums))
            edited = query.copy()
            edited[start : start + length] = guide[start : start + length]
            if classify(edited[None])[0] == classify(guide[None])[0]:
                break
        np.testing.assert_array_equal(found.sequences[i], edited)
        assert found.length[i] == length


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(importance=np.array([[1.0, np.nan, 2]])), r"importance\[0, 1\].*nan"),
        (dict(importance=np.ones((1, 4))), "importance.*one number a value"),
        (dict(references=np.ones((2, 4))), "references.*3 values"),
        (dict(queries=np.ones(3)), "queries.*B, T"),
        (dict(classify=lambda series: 1), "classify.*one class"),
    ],
)
def test_says_what_does_not_fit(arguments, message):
    default = dict(queries=QUERY, references=REFERENCES, classify=above(2), importance=np.ones((1, 3)))
    with pytest.raises(ValueError, match=message):
        native_guide(**default | arguments)
