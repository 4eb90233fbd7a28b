"""Edit distance: the bit-parallel columns and `levenshtein` against the dynamic programme and rapidfuzz."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from pprjax import edit_distance
from pprjax.edit_distance import EditCosts, euclidean, levenshtein, manhattan
from pprjax.paths import PAD

ROOM = 70  # more than two words
LARGEST = 2**31 - 1
UNIT = EditCosts()
UNEQUAL = EditCosts(insert=1.5, delete=0.5, substitute=1.75)  # exact in float32


def table(original, path, costs=UNIT):
    """D[i, t] by its definition, the whole of it."""
    n, m = len(original), len(path)
    d = np.zeros((n + 1, m + 1))
    d[:, 0] = costs.delete * np.arange(n + 1)
    d[0] = costs.insert * np.arange(m + 1)
    for i in range(1, n + 1):
        for t in range(1, m + 1):
            d[i, t] = min(
                d[i - 1, t] + costs.delete,
                d[i, t - 1] + costs.insert,
                d[i - 1, t - 1] + costs.substitute * (original[i - 1] != path[t - 1]),
            )
    return d


def padded(rows, room):
    out = np.full((len(rows), room), PAD, np.int32)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def sequences(high=3, size=ROOM):
    return st.lists(st.integers(0, high), max_size=size)


def word(text):
    return np.array([ord(letter) for letter in text], np.int32)


def one(original, path, costs=UNIT, room=ROOM):
    """d of two lists, in arrays of one size, so that it compiles once for each set of costs."""
    a, b = padded([original], room)[0], padded([path], room)[0]
    return float(levenshtein(a, b, w_ins=costs.insert, w_del=costs.delete, w_sub=costs.substitute))


@pytest.mark.parametrize(("a", "b", "d"), [("LRLRL", "LRLRR", 1), ("LRLRL", "LRRLLR", 3), ("kitten", "sitting", 3)])
def test_the_papers_examples(a, b, d):
    assert levenshtein(word(a), word(b)) == d
    assert levenshtein(word(b), word(a)) == d


@settings(max_examples=60, deadline=None)
@given(sequences(), sequences())
def test_equals_rapidfuzz(a, b):
    assert one(a, b) == Levenshtein.distance(a, b)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 63, 64, 65, 70])
def test_carries_run_through_all_words(n):
    """One symbol repeated makes the addition carry through every bit, and a single change moves in at each end."""
    same, other = [5] * n, [6] * n
    for path in (same, other, [6, *same[1:]], [*same[1:], 6], same[1:], [5, *same][:ROOM], [], [6] + [5] * (ROOM - 1)):
        assert one(same, path) == Levenshtein.distance(same, path)


@settings(max_examples=40, deadline=None)
@given(sequences(size=12), sequences(size=12))
def test_weighted_is_the_dynamic_programme(a, b):
    got = one(a, b, UNEQUAL, room=12)
    assert got == table(a, b, UNEQUAL)[-1, -1]
    assert got == Levenshtein.distance(a, b, weights=(6, 2, 7)) / 4  # it takes whole numbers only


@settings(max_examples=40, deadline=None)
@given(sequences(size=12), sequences(size=12), sequences(size=12))
def test_is_a_metric(a, b, c):
    assert one(a, a) == 0
    assert one(a, b) == one(b, a)
    assert (one(a, b) == 0) == (a == b)
    assert one(a, c) <= one(a, b) + one(b, c)
    assert abs(len(a) - len(b)) <= one(a, b) <= max(len(a), len(b))


def test_to_insert_is_to_add_to_the_original():
    original, longer, other = np.array([1, 2]), np.array([1, 7, 2]), np.array([1, 3])
    costs = {"w_ins": 3.0, "w_del": 0.5, "w_sub": 2.0}
    assert levenshtein(original, longer, **costs) == 3.0
    assert levenshtein(longer, original, **costs) == 0.5
    assert levenshtein(original, other, **costs) == 2.0
    assert levenshtein(original, other, w_ins=0.5, w_del=0.5, w_sub=2.0) == 1.0  # cheaper to drop and to add


SHAPES = [(1, 5), (24, 32), (32, 33), (32, 70), (40, 8)]  # one word and two; one, two and three unrolled pieces


@pytest.mark.parametrize(("n", "room"), SHAPES)
@pytest.mark.parametrize("scale", [1, 2**29], ids=["narrow", "wide"])
def test_many_paths_at_once(n, room, scale):
    rng = np.random.default_rng(n * room)
    symbols = np.array([0, 1, 2, 3]) * scale + (scale > 1) * (LARGEST - 3 * scale)  # the largest is 2³¹ - 1
    original = rng.choice(symbols, n).astype(np.int32)
    count = edit_distance.BULK + 1
    paths = rng.choice(symbols, (count, room)).astype(np.int32)
    paths[rng.random(paths.shape) < 0.05] = rng.integers(0, LARGEST)  # a symbol that the original has not
    lengths = rng.integers(0, room + 1, count)
    lengths[:3] = 0, 1, room
    shared = min(n, room)
    paths[1:3, :shared] = original[:shared]
    got = np.asarray(levenshtein(original, paths, lengths))
    assert got.dtype == np.int32
    expected = [Levenshtein.distance(original.tolist(), p[:k].tolist()) for p, k in zip(paths, lengths, strict=True)]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("low", [0, 1000, LARGEST - 300])
def test_symbols_outside_the_originals_range_are_all_alike_but_match_nothing(low):
    original = np.array([0, 254, 7], np.int32) + low
    paths = np.tile(original, (edit_distance.BULK, 1))
    paths[0, 1] += 1
    paths[1, 0] = max(low - 1, 0) if low else 256
    paths[2] = [low + 254 + 1, low + 254 + 2, low + 7]
    got = np.asarray(levenshtein(original, paths))
    np.testing.assert_array_equal(got[:4], [1, 1, 2, 0])


@pytest.mark.parametrize(("n", "room"), SHAPES[1:4])
@pytest.mark.parametrize("outside", [0, 253, 254, 255, 300])
def test_paths_of_bytes(n, room, outside):
    """The same distances as the same paths in int32, whether or not the original's symbols are bytes."""
    rng = np.random.default_rng(n * room)
    original = rng.choice([0, 7, 253, outside], n)
    paths = rng.choice([0, 7, 253, 255], (edit_distance.BULK, room))
    lengths = rng.integers(0, room + 1, len(paths))
    got = levenshtein(original, jnp.asarray(paths, jnp.uint8), lengths)
    np.testing.assert_array_equal(got, levenshtein(original, paths, lengths))
    whole = levenshtein(original, jnp.asarray(paths, jnp.uint8))  # no byte is a PAD
    np.testing.assert_array_equal(whole, levenshtein(original, paths, np.full(len(paths), room)))


def test_the_length_of_the_original():
    """Every prefix of the original, also the empty one, by padding and by number."""
    rng = np.random.default_rng(0)
    original, paths = rng.integers(0, 4, 24), rng.integers(0, 4, (edit_distance.BULK, 16))
    for length in (0, 1, 13, 24):
        expected = np.array([Levenshtein.distance(original[:length].tolist(), p.tolist()) for p in paths])
        np.testing.assert_array_equal(levenshtein(original, paths, original_length=length), expected)
        np.testing.assert_array_equal(levenshtein(padded([original[:length]], 24)[0], paths), expected)
        few = levenshtein(original, paths[:5], original_length=length)
        np.testing.assert_array_equal(few, expected[:5])


@pytest.mark.parametrize("costs", [{}, {"w_ins": 2.0}])
def test_batches_jit_and_vmap_give_the_same(costs):
    rng = np.random.default_rng(1)
    originals, paths = rng.integers(0, 3, (4, 6), np.int32), rng.integers(0, 3, (4, 5, 7), np.int32)
    lengths = rng.integers(0, 8, (4, 5), np.int32)

    def distances(original, paths, lengths):
        return levenshtein(original, paths, lengths, **costs)

    vmapped = jax.jit(jax.vmap(distances))(originals, paths, lengths)
    for i, original in enumerate(originals):
        row = distances(original, paths[i], lengths[i])
        np.testing.assert_array_equal(vmapped[i], row)
        np.testing.assert_array_equal(row, distances(jnp.asarray(original), jnp.asarray(paths[i]), lengths[i]))
        np.testing.assert_array_equal(distances(original, paths, lengths)[i], row)
        alone = [distances(original, path, length) for path, length in zip(paths[i], lengths[i], strict=True)]
        np.testing.assert_array_equal(row, alone)


def test_without_lengths_a_path_ends_at_its_first_pad():
    original, paths = np.array([1, 2, 3]), padded([[], [1, 2, 3], [1, 3], [9] * 4], 4)
    np.testing.assert_array_equal(levenshtein(original, paths), [3, 0, 1, 4])
    paths[2, 3] = 2  # after a PAD
    np.testing.assert_array_equal(levenshtein(original, paths), [3, 0, 1, 4])


def test_nothing_to_compare():
    none = np.zeros(0, np.int32)
    assert levenshtein(none, none) == 0
    assert levenshtein(none, np.array([1, 2])) == 2
    assert levenshtein(np.array([1, 2]), none) == 2
    assert levenshtein(none, np.array([1, 2]), w_ins=1.5) == 3.0
    assert levenshtein(np.array([1, 2]), np.zeros((0, 3), np.int32)).shape == (0,)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (([1.0], [1]), {}, TypeError, "original: expected integers, got float64"),
        (([1], [1.5]), {}, TypeError, "paths: expected integers, got float64"),
        (([[1]], [1]), {}, ValueError, "original: expected one sequence, int[n], got shape (1, 1)"),
        (([1], 1), {}, ValueError, "paths: expected int[..., T], got a single number"),
        (([1], [2**31]), {}, ValueError, "paths: expected integers in [0, 2147483647] or PAD (-1), got 2147483648"),
        (([-2], [1]), {}, ValueError, "original: expected integers in [0, 2147483647] or PAD (-1), got -2"),
        (([1], [[1], [2]], [1]), {}, ValueError, "lengths: expected one for each sequence, shape (2,), got shape (1,)"),
        (([1], [[1], [2]], [1, 2]), {}, ValueError, "lengths: expected lengths in [0, 1], got 1 to 2"),
        (([1], [[1], [2]], [1, -1]), {}, ValueError, "lengths: expected lengths in [0, 1], got -1 to 1"),
        (([1], [1]), {"original_length": 2}, ValueError, "original_length: expected lengths in [0, 1], got 2"),
        (([1], [1]), {"w_ins": 0.0}, ValueError, "w_ins: expected a finite cost above 0, got 0.0"),
        (([1], [1]), {"w_del": -1.0}, ValueError, "w_del: expected a finite cost above 0, got -1.0"),
        (([1], [1]), {"w_sub": float("nan")}, ValueError, "w_sub: expected a finite cost above 0, got nan"),
    ],
)
def test_errors_name_the_argument(args, kwargs, error, message):
    args = tuple(np.asarray(a) for a in args)
    with pytest.raises(error, match=re.escape(message)):
        levenshtein(*args, **kwargs)


@pytest.mark.parametrize("costs", [UNIT, UNEQUAL, EditCosts(1.0, 1.0, 3.0)], ids=str)
@pytest.mark.parametrize("n", [1, 8, 33, 66])
def test_every_column_on_the_way(n, costs):
    """Each appended symbol gives the table's next column: its end, its minimum, and the last place of that."""
    rng = np.random.default_rng(n)
    original, path = rng.integers(0, 3, n).astype(np.int32), rng.integers(0, 3, n + 5).astype(np.int32)
    length = max(1, n - 2)
    expected = table(original, path, costs)[: length + 1]

    @jax.jit
    def columns(original, path, length):
        def step(column, symbol):
            column = edit_distance.append(column, edit_distance.matches(original, symbol, costs), costs)
            return column, measured(column)

        def measured(column):
            best = edit_distance.alignment(column, original, length, costs)
            return (edit_distance.distance(column, length, costs), *best)

        first = edit_distance.start(original, costs)
        return measured(first), jax.lax.scan(step, first, path)[1]

    first, rest = columns(original, path, length)
    distances, smallest, positions = (np.r_[a, b] for a, b in zip(first, rest, strict=True))
    np.testing.assert_array_equal(distances, expected[-1])
    np.testing.assert_array_equal(smallest, expected.min(0))
    np.testing.assert_array_equal(positions, length - expected[::-1].argmin(0))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, LARGEST), st.integers(0, LARGEST)), min_size=4, max_size=4))
def test_distances_of_sequences_of_numbers(pairs):
    a, b = np.array(pairs, np.int64).T
    gap = np.abs(a - b).astype(float)
    np.testing.assert_allclose(
        manhattan(a.astype(np.int32), b[None].astype(np.int32)), [gap.sum()], rtol=1e-5, atol=1e3
    )
    expected = [np.sqrt((gap**2).sum())]
    np.testing.assert_allclose(euclidean(a.astype(np.int32), b[None].astype(np.int32)), expected, rtol=1e-5, atol=1e3)


def test_distances_of_numbers_by_hand():
    a, paths = np.array([0, 0]), np.array([[3, 4], [0, -2]])
    np.testing.assert_array_equal(manhattan(a, paths), [7, 2])
    np.testing.assert_array_equal(euclidean(a, paths), [5, 2])
    assert jax.jit(euclidean)(a, paths[0]) == 5


@pytest.mark.parametrize("measure", [manhattan, euclidean])
@pytest.mark.parametrize("paths", [np.zeros((2, 3)), np.zeros((2, 1)), np.float32(1)])
def test_unequal_lengths_are_an_error(measure, paths):
    with pytest.raises(ValueError, match="paths: expected sequences as long as the original"):
        measure(np.zeros(2), paths)
