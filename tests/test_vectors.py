"""Symbols that are vectors: paths, distances between them, and what does not go with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from continuous import SCALE, SLEDGE, lazy, originals, real_table, replaced, task, walk, warped
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

import pprjax
from pprjax import edit_distance
from pprjax.constraints import Constraints
from pprjax.edit_distance import RealCosts
from pprjax.metrics import dynamic_time_warping, real_edits
from pprjax.paths import Paths
from pprjax.rollout import trace

COSTS = RealCosts(SCALE)
CONFIG = pprjax.Config(distance="real", scale=SCALE, lambda_path=2.0, lambda_policy=0.3)
ROOM = 7
few = settings(deadline=None, max_examples=60)
number = st.integers(-8, 8).map(lambda x: x / 8)
vectors = st.integers(1, ROOM).flatmap(lambda n: some.arrays(np.float32, (n, 2), elements=number))


def between(one, other):
    """d of two paths, in arrays of one size."""
    both = Paths.from_lists([one, other]).padded_to(ROOM)
    lengths = dict(original_length=both.lengths[0], lengths=both.lengths[1])
    return float(real_edits(*both.symbols, SCALE, **lengths))


@given(st.lists(vectors, min_size=1, max_size=4), st.integers(0, 3))
@few
def test_paths_of_vectors_come_back_and_what_fills_them_is_no_symbol(rows, extra):
    paths = Paths.from_lists(rows)
    longest = max(map(len, rows))
    for same in (paths, paths.padded_to(longest + extra), paths[:]):
        assert same.to_lists() == [row.tolist() for row in rows]
        assert same.symbols.dtype == np.float32 and same.vector_size == 2
        behind = np.arange(same.symbols.shape[1]) >= same.lengths[:, None]
        np.testing.assert_array_equal(np.isfinite(same.symbols).all(-1), ~behind)
    assert Paths.from_lists([[1, 2]]).vector_size is None


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (
            [[[0.5, 1.0]], [[0.5]]],
            r"^symbols\[1\]: expected vectors of 2 numbers, as in symbols\[0\], got .* \(1, 1\)$",
        ),
        ([[[0.5, 1.0]], [3]], r"^symbols\[1\]: expected vectors of 2 numbers.* \(1,\)$"),
        ([[[0.5, 1.0], [0.5]]], r"^symbols\[0\]: expected .* vectors of one size, got rows of unequal length$"),
        (
            [[[0.5, 1.0]], [[0.0, 1.0], [np.nan, 0.5]]],
            r"^symbols\[1\]\[1\]: expected finite numbers, got \[nan, 0.5\]$",
        ),
        ([[[0.5, 1e300]]], r"^symbols\[0\]\[0\]: expected finite numbers, got \[0.5, 1e\+300\]$"),
        ([[[0.5, 1.0]], [["a", "b"]]], r"^symbols\[1\]: expected vectors of numbers, got <U1$"),
        ([np.zeros((0, 2))], r"^symbols\[0\]: .* got an empty path$"),
        ([[3], [[0.5, 1.0]]], r"^symbols\[1\]: expected a list of integers, got an array of shape \(1, 2\)$"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_is_no_path_of_vectors_is_named(symbols, message):
    with pytest.raises(ValueError, match=message):
        Paths.from_lists(symbols)


@given(vectors, vectors)
@few
def test_the_distance_is_that_of_its_definition(one, other):
    assert between(one, other) == pytest.approx(real_table(one, other)[-1, -1], abs=1e-5)


@given(some.arrays(np.float32, (5, 2), elements=number), some.arrays(np.float32, (3, 2), elements=number))
@few
def test_warping_is_that_of_its_definition(one, other):
    assert float(dynamic_time_warping(one, other, SCALE)) == pytest.approx(warped(one, other), abs=1e-4)


@given(vectors, vectors, vectors)
@few
def test_the_distance_is_a_metric(one, other, third):
    d = between(one, other)
    assert d == between(other, one) >= 0
    assert (d == 0) == np.array_equal(one, other)
    assert between(one, third) <= d + between(other, third) + 1e-5


def test_warping_is_no_metric_for_waiting_costs_nothing():
    waits = np.float32([[0, 0], [0, 0], [1, 1]])
    assert dynamic_time_warping(waits, waits[1:], SCALE) == 0 < between(waits, waits[1:]) == 1
    with pytest.raises(ValueError, match=r"^paths: expected vectors of as many numbers as scale has, 2, .* \(3, 1\)$"):
        real_edits(waits, waits[:, :1], SCALE)


@given(vectors, vectors)
@few
def test_no_path_that_goes_on_ends_nearer_than_the_smallest_entry(one, other):
    """To the bit: what a search leaves out rests on it."""
    original = jnp.asarray(Paths.from_lists([one]).padded_to(ROOM).symbols[0])
    column, lengths, before = edit_distance.start(original, COSTS), jnp.int32(len(one)), 0.0
    for symbol in jnp.asarray(other):
        column = _append(column, original, symbol)
        smallest, position = edit_distance.alignment(column, original, lengths, COSTS)
        assert before <= smallest <= edit_distance.distance(column, lengths, COSTS)
        assert column[position] == smallest
        before = float(smallest)
    assert not np.isnan(column[: len(one) + 1]).any()


@jax.jit
def _append(column, original, symbol):
    return edit_distance.append(column, edit_distance.matches(original, symbol, COSTS), COSTS)


def test_a_long_path_is_as_exact_as_a_short_one():
    """600 places down a column of whole numbers leave nothing of a thousandth in float32, where they are subtracted."""
    path = np.zeros((600, 2), np.float32)
    moved = path + np.float32([SCALE[0] / 2**10, 0])
    assert real_edits(path, moved, SCALE) == 600 / 2**10


def test_a_symbol_that_is_no_number_is_like_none():
    costs = edit_distance.matches(jnp.float32([[0, 0], [np.inf, np.inf]]), jnp.float32([np.nan, 0]), COSTS)
    np.testing.assert_array_equal(costs, 1.0)


def test_the_original_is_followed_by_the_actions_that_lead_nearest():
    paths = originals()
    traced = jax.vmap(lambda row, n: trace(task(), row, n, jax.random.key(0)))(paths.symbols, paths.lengths)
    np.testing.assert_array_equal(traced.followed, [True, True, True, False])
    np.testing.assert_array_equal(traced.actions, [[2, 1, 0, 1, 1], [0, 1, 2, -1, -1], [2, 2, 1, -1, -1], [-1] * 5])
    np.testing.assert_allclose(traced.r_goal, [-0.2, -0.2, 0.8, -np.inf], atol=1e-6)
    near = paths.symbols + 4e-4  # as float32 may tell it elsewhere
    followed = jax.vmap(lambda row, n: trace(task(), row, n, jax.random.key(0)).followed)(near, paths.lengths)
    np.testing.assert_array_equal(followed, traced.followed)


def test_scores_are_those_of_the_definition_and_of_the_environment():
    rows = [[2, 2, 1], [1, 2, 2, 2, 1], [0, 1, 2, 2, 2], [2, 0]]
    paths = Paths.from_lists([walk(row)[0] for row in rows], [row[: len(walk(row)[0]) - 1] for row in rows])
    scores = pprjax.score(task(), originals(), paths, CONFIG)
    expected = [real_table(np.array(a), b)[-1, -1] for a, b in zip(originals(), paths, strict=True)]
    np.testing.assert_allclose(scores.distance, expected, rtol=1e-5)
    for i in range(2):
        env = pprjax.RecourseEnv(task(goal=None), originals()[i], CONFIG)
        _, state = env.reset(jax.random.key(0))
        total = 0.0
        for action in paths.actions_to_lists()[i]:
            _, state, reward, *_, info = jax.jit(env.step_env)(jax.random.key(0), state, action, env.default_params)
            total += reward
        worth = scores.goal[i] + CONFIG.lambda_path * scores.path[i] + CONFIG.lambda_policy * scores.r_policy[i]
        assert total == pytest.approx(worth, abs=1e-5)
        assert info["distance"] == pytest.approx(expected[i], rel=1e-5)


def other_size(seen):
    return jnp.append(seen, 0.0)


NAN = Paths(np.float32([[[0, 0], [np.nan, 0]]]), np.int32([2]))


@pytest.mark.parametrize(
    ("changes", "paths", "options", "message"),
    [
        (
            {},
            [[0, 1]],
            {},
            r"^originals: expected symbols as the world's `symbol` gives them, float\[2\], got integers$",
        ),
        ({}, [[[0.0, 0.0, 0.0]]], {}, r"^originals: expected symbols .*, float\[2\], got float\[3\]$"),
        ({}, [[[0.5, 0.0]]], {}, r"^originals\[0\]: expected the world's start, symbol \[0. 0.\], got \[0.5 0. \]$"),
        ({}, NAN, {}, r"^symbol: expected finite numbers, got NaN as number 0 of step 1 of originals\[0\]$"),
        (
            {},
            None,
            dict(distance="edit", scale=None),
            r"^distance: symbols are vectors, float\[2\], so expected \"real\"",
        ),
        ({}, None, dict(scale=(1.0,)), r"^scale: expected 2 numbers, one a coordinate of float\[2\], got \(1.0,\)$"),
        ({}, None, dict(scale=None), r"^scale: distance \"real\" needs a tuple .*, got None$"),
        ({}, None, dict(scale=[1.0, 1.0]), r"^scale: expected a tuple of numbers above 0, one a coordinate, got \["),
        ({}, None, dict(scale=(1.0, 0.0)), r"^scale\[1\]: expected a finite number above 0, got 0.0$"),
        ({}, None, dict(distance="edit"), r"^scale: expected None with distance 'edit'; it belongs to \"real\"$"),
        ({}, None, dict(w_ins=2.0), r"^w_ins, w_del, w_sub: with distance \"real\" expected 1"),
        (
            {},
            None,
            dict(own_steps="free"),
            r"^own_steps: no step between vectors .*; expected \"charged\", got \"free\"$",
        ),
        ({"constraints": Constraints(forbidden_states=[3])}, None, {}, r"^constraints.forbidden_states: names symbols"),
        (
            {"constraints": Constraints(keep=[1])},
            None,
            {},
            r"^constraints.keep: names symbols, which are integers, but",
        ),
        (
            {"policy": pprjax.ObservationPolicy(lambda w, seen: seen, ())},
            None,
            {},
            r"^policy.step: expected 3 log-probabilities, one an action, got shape \(2,\)$",
        ),
    ],
)
def test_what_does_not_go_with_vectors_is_named(changes, paths, options, message):
    if not isinstance(paths, Paths):
        paths = originals() if paths is None else Paths.from_lists(paths)
    config = pprjax.Config(**dict(distance="real", scale=SCALE) | options)
    with pytest.raises(ValueError, match=message):
        pprjax.recourse(task(**changes), paths, config, method="search")


def test_integers_are_not_compared_as_vectors():
    numbered = pprjax.Task(SLEDGE, task().policy, symbol=lambda state, params: state.time, deterministic=True)
    with pytest.raises(
        ValueError, match=r'^distance: "real" compares vectors, but symbols are integers; expected "edit"$'
    ):
        pprjax.recourse(numbered, Paths.from_lists([[0, 1]]), CONFIG)


def test_a_certificate_needs_integers():
    finite = dict(state_id=lambda state, params: state.time, num_states=6)
    with pytest.raises(ValueError, match=r'^distance: a certificate counts edits, so expected "edit", got \'real\'$'):
        pprjax.exact(pprjax.Task(SLEDGE, task().policy, **finite), originals(), CONFIG)


def test_the_agent_reads_the_same_states():
    """What the definitions of this file's world are compared with: the world itself."""
    states = walk([2, 1, 0, 2, 2])[0]
    state = task().reset(jax.random.key(0))
    for expected, action in zip(states[1:], [2, 1, 0, 2, 2], strict=True):
        state = task().step(jax.random.key(0), state, action)[0]
        np.testing.assert_allclose(task().symbol(state), expected, rtol=1e-6)
    assert lazy(1.0, states[0]).shape == (3,)
    assert replaced([0, 0], [10, 0]) == 1.0
