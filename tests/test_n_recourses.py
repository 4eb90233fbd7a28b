"""Several recourses: the certified n best against every path there is, and what recourse finds of them."""

import itertools

import numpy as np
import pytest
from brute_force import GOALS, UNEVEN, Mdp, edit, feasible, greedy, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_road import CONFIG, KEY, ORIGINALS, ring

from pprjax.certify import n_best
from pprjax.certify.optimum import exact
from pprjax.constraints import Constraints
from pprjax.paths import Paths
from pprjax.solve import recourse

ROWS = Paths.from_lists(ORIGINALS)
WIDE = CONFIG.replace(num_paths=256)  # enough to see all paths of so small a world


def assert_apart_and_in_order(found, min_distance):
    """Row by row: rank counts up, R falls, any two are δ apart, and diversity is the mean of their distances."""
    paths = found.paths.to_lists()
    for b in range(len(found.diversity)):
        rows = np.flatnonzero(found.index == b)
        assert found.rank[rows].tolist() == list(range(1, len(rows) + 1))
        assert (np.diff(found.reward[rows]) <= 1e-5).all()
        apart = [edit(paths[i], paths[j], {}) for i, j in itertools.combinations(rows, 2)]
        assert min(apart, default=min_distance) >= min_distance
        if apart:
            assert found.diversity[b] == pytest.approx(np.mean(apart))
        else:
            assert np.isnan(found.diversity[b])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    rules=st.sampled_from([{}, {"max_distance": 4}, {"keep": (0,), "max_length": 5}]),
    count=st.integers(2, 5),
    min_distance=st.integers(1, 3),
    lambda_path=lambdas,
    lambda_policy=lambdas,
)
def test_the_certified_n_best_are_the_best_there_are(
    seed, goal, costs, rules, count, min_distance, lambda_path, lambda_policy
):
    mdp = Mdp(seed)
    mdp.reward += np.random.default_rng(seed).normal(size=mdp.reward.shape) / 8  # few ties
    task = mdp.task(GOALS[goal]).replace(constraints=Constraints(**rules))
    config = CONFIG.replace(lambda_path=lambda_path, lambda_policy=lambda_policy, habit=mdp.habit, **costs)
    best = exact(task, Paths.from_lists(mdp.originals), config, n_recourses=count, min_distance=min_distance)
    assert_apart_and_in_order(best, min_distance)
    for b, original in enumerate(mdp.originals):
        ranked = feasible(mdp, goal, rules, rules.get("keep", ()), original, lambda_path, lambda_policy, costs)
        rows = np.flatnonzero(best.index == b)
        if not ranked:
            assert best.status[rows].tolist() == ["infeasible"]
            continue
        expected = greedy(ranked, count, min_distance)
        values = np.array([value for value, _ in ranked])
        gaps = -np.diff(values)
        if min_distance == 1 or (not ((gaps > 0) & (gaps < 1e-4)).any() and len(set(values)) == len(values)):
            np.testing.assert_allclose(best.reward[rows], [value for value, _ in expected], rtol=1e-5, atol=1e-4)
        everything = {symbols for _, symbols in ranked}
        assert {tuple(path) for path in np.array(best.paths.to_lists(), object)[rows]} <= everything


def solve(task=None, **changes):
    return recourse(task or ring(), ROWS, WIDE, method="learn", key=KEY, progress=False, **changes)


@pytest.fixture(scope="module")
def three():
    return solve(n_recourses=3, min_distance=2)


@pytest.mark.slow
def test_recourses_are_apart_feasible_and_the_best_first(three):
    assert_apart_and_in_order(three, 2)
    assert np.bincount(three.index).tolist() == [3, 3, 3]
    assert set(three.status) == {"reached_goal"}
    assert three.scores.violations.tolist() == [0] * 9


@pytest.mark.slow
def test_they_are_the_certified_ones(three):
    best = exact(ring(), ROWS, CONFIG, n_recourses=3, min_distance=2)
    assert_apart_and_in_order(best, 2)
    np.testing.assert_allclose(three.reward, best.reward, atol=1e-4)
    np.testing.assert_allclose(best.reward[best.rank == 1], exact(ring(), ROWS, CONFIG).reward, atol=1e-5)


@pytest.mark.slow
def test_the_first_is_what_one_alone_would_be(three):
    one = solve()
    first = three.rank == 1
    assert one.rank.tolist() == [1, 1, 1]
    assert one.index.tolist() == [0, 1, 2]
    assert np.isnan(one.diversity).all()
    np.testing.assert_array_equal(three.reward[first], one.reward)
    assert [p for p, is_first in zip(three.paths, first, strict=True) if is_first] == one.paths.to_lists()
    np.testing.assert_array_equal(three.curve, one.curve)


def test_the_frame_names_the_original_of_each_row(tmp_path):
    three = exact(ring(), ROWS, CONFIG, n_recourses=3, min_distance=2)
    frame = three.to_frame()
    assert frame["path"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert frame["rank"].to_list() == [1, 2, 3] * 3
    assert frame["original"].to_list() == [ORIGINALS[b] for b in three.index]
    assert frame["diversity"].to_list() == three.diversity[three.index].tolist()
    three.save(tmp_path / "several.csv")


@pytest.mark.slow
def test_where_there_are_no_more_there_are_fewer_rows():
    task = ring(max_length=5)  # 0 1 3 4 6, 0 1 2 3 6, 0 1 3 6 and others
    ranked = exact(task, ROWS, CONFIG, n_recourses=1000)
    found = solve(task, n_recourses=20)
    for b in range(3):
        rows = ranked.index == b
        assert rows.sum() < 20
        assert (found.index == b).sum() == rows.sum()
        np.testing.assert_allclose(found.reward[found.index == b], ranked.reward[rows], atol=1e-4)
    far = exact(task, ROWS, CONFIG, n_recourses=3, min_distance=50)
    assert far.index.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_none_is_infeasible():
    task = ring(forbidden_states=(6,))
    for found in (solve(task, n_recourses=3), exact(task, ROWS, CONFIG, n_recourses=3)):
        assert found.index.tolist() == [0, 1, 2]
        assert found.status.tolist() == ["infeasible"] * 3


def test_too_many_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(n_best, "MAX_OPENED", 20)
    with pytest.raises(ValueError, match="n_recourses: no certificate, for more than 20 prefixes"):
        exact(ring(), ROWS, CONFIG, n_recourses=10)


@pytest.mark.parametrize("name", ["n_recourses", "min_distance"])
def test_mistakes_are_named(name):
    for front_door in (solve, lambda **changes: exact(ring(), ROWS, CONFIG, **changes)):
        with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
            front_door(**{name: 0})
