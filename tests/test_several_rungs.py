"""Several paths for each number of edits, and several by search: against every path there is."""

import itertools
from typing import Any

import numpy as np
import pytest
from brute_force import GOALS, UNEVEN, Mdp, edit, feasible, greedy, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_road import CONFIG, KEY, ORIGINALS, ring
from search_worlds import ALL, sequences

import pprjax
from pprjax import Config, Paths
from pprjax.certify.frontier import exact_frontier
from pprjax.constraints import Constraints

ROWS = Paths.from_lists(ORIGINALS)
RULES = [{}, {"max_distance": 4}, {"keep": (0,), "max_length": 5}]


def few_ties(seed):
    mdp = Mdp(seed)
    mdp.reward += np.random.default_rng(seed).normal(size=mdp.reward.shape) / 8
    return mdp


def rungs(ranked, original, costs):
    """{e: (v, symbols) of every path of e edits, the best first} of the e whose best exceeds that of all fewer."""
    by_distance, top = {}, -np.inf
    for value, symbols in ranked:
        by_distance.setdefault(int(edit(original, symbols, costs)), []).append((value, symbols))
    found = {}
    for distance, paths in sorted(by_distance.items()):
        if paths[0][0] > top + 1e-5 * (1 + abs(paths[0][0])):
            found[distance], top = paths, paths[0][0]
    return found


def assert_the_best_of_as_many_edits(front, mdp, goal, rules, costs, lambda_policy, count, min_distance):
    """Row by row of each original: the rungs of brute force, and on each of them its best that are far enough apart."""
    paths = front.paths.to_lists()
    for b, original in enumerate(mdp.originals):
        ranked = feasible(mdp, goal, rules, rules.get("keep", ()), original, 0.0, lambda_policy, costs)
        rows, expected = np.flatnonzero(front.index == b), rungs(ranked, original, costs)
        assert sorted(set(front.distance[rows].tolist())) == list(expected)
        for distance, those in expected.items():
            here = rows[front.distance[rows] == distance]
            assert front.rank[here].tolist() == list(range(1, len(here) + 1))
            apart = [edit(paths[i], paths[j], {}) for i, j in itertools.combinations(here, 2)]
            assert min(apart, default=min_distance) >= min_distance
            assert {tuple(paths[i]) for i in here} <= {symbols for _, symbols in those}
            if min_distance == 1 or not near_ties(those):
                best = [value for value, _ in greedy(those, count, min_distance)]
                np.testing.assert_allclose(front.value[here], best, rtol=1e-5, atol=1e-4)
                np.testing.assert_allclose(front.bound[here], best, rtol=1e-5, atol=1e-4)


def near_ties(ranked):
    """Whether some are so near each other that which of them comes first is open, and with it what is far from it."""
    return bool((np.diff([value for value, _ in ranked]) > -1e-4).any())


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    rules=st.sampled_from(RULES),
    count=st.integers(2, 4),
    min_distance=st.integers(1, 3),
    lambda_policy=lambdas,
)
def test_beside_each_rung_stand_the_certified_best_of_as_many_edits(
    seed, goal, costs, rules, count, min_distance, lambda_policy
):
    mdp = few_ties(seed)
    task = mdp.task(GOALS[goal]).replace(constraints=Constraints(**rules))
    config = Config(lambda_policy=lambda_policy, habit=mdp.habit, **costs)
    options: dict[str, Any] = dict(n_recourses=count, min_distance=min_distance)
    front = exact_frontier(task, Paths.from_lists(mdp.originals), config, **options)
    assert_the_best_of_as_many_edits(front, mdp, goal, rules, costs, lambda_policy, count, min_distance)


@pytest.mark.slow
@pytest.mark.parametrize("habit", [0, 1], ids=["regret", "link"])
@settings(max_examples=25, deadline=None)
@given(half=st.integers(0, 2**31 - 1), lambda_path=lambdas, lambda_policy=lambdas)
def test_a_search_that_holds_all_paths_has_the_best_there_are(habit, half, lambda_path, lambda_policy):
    """As many edits as a beam has room for all: 6 · 16 prefixes of a layer, of which a small world has 3⁴ at most."""
    mdp, rules = few_ties(2 * half + habit), {"max_distance": 5}
    task = mdp.task(GOALS["reached"]).replace(constraints=Constraints(max_distance=5))
    config = Config(lambda_path=lambda_path, lambda_policy=lambda_policy, habit=mdp.habit)
    originals = Paths.from_lists(mdp.originals).padded_to(8)
    options: dict[str, Any] = dict(method="search", n_recourses=3)
    front = pprjax.frontier(task, originals, config, **options)
    assert_the_best_of_as_many_edits(front, mdp, "reached", rules, {}, lambda_policy, 3, 1)
    found = pprjax.recourse(task, originals, config, **options)
    for b, original in enumerate(mdp.originals):
        ranked = feasible(mdp, "reached", rules, (), original, lambda_path, lambda_policy, {})
        best = [value for value, _ in greedy(ranked, 3, 1)]
        np.testing.assert_allclose(found.reward[found.index == b], best or [-np.inf], rtol=1e-5, atol=1e-4)
        assert (found.status[found.index == b] == "infeasible").all() == (not best)
    assert (found.gap <= 1e-5).all()


def assert_apart_feasible_and_no_better(front, min_distance):
    """Of the ring road: each rung's rows fall, are apart and what is said, and none is better than the certified."""
    scores = pprjax.score(ring(), ROWS[front.index], front.paths, CONFIG)
    np.testing.assert_array_equal(scores.distance, front.distance)
    np.testing.assert_allclose(scores.goal + CONFIG.lambda_policy * scores.r_policy, front.value, rtol=1e-5)
    assert set(front.status) <= {"reached_goal", "unchanged"}
    every = exact_frontier(ring(), ROWS, CONFIG, n_recourses=3)
    top = {(b, e, k): v for b, e, k, v in zip(every.index, every.distance, every.rank, every.value, strict=True)}
    paths, several = front.paths.to_lists(), 0
    for b, e in {*zip(front.index.tolist(), front.distance.tolist(), strict=True)}:
        here = np.flatnonzero((front.index == b) & (front.distance == e))
        assert front.rank[here].tolist() == list(range(1, len(here) + 1)) and len(here) <= 3
        assert (np.diff(front.value[here]) <= 0).all()
        apart = [edit(paths[i], paths[j], {}) for i, j in itertools.combinations(here, 2)]
        assert min(apart, default=min_distance) >= min_distance
        known = [front.value[i] <= top.get((b, e, k), np.inf) + 1e-5 for k, i in enumerate(here, start=1)]
        assert all(known)
        several += len(here) > 1
    assert several


@pytest.mark.slow
def test_search_keeps_them_apart_and_takes_what_is_proved():
    apart = pprjax.frontier(ring(), ROWS, CONFIG, method="search", n_recourses=3, min_distance=2)
    assert_apart_feasible_and_no_better(apart, 2)
    front, certified = (
        pprjax.frontier(ring(), ROWS, CONFIG, method=method, n_recourses=3) for method in ("search", "exact")
    )
    np.testing.assert_array_equal(front.rank, certified.rank)
    np.testing.assert_array_equal(front.distance, certified.distance)
    np.testing.assert_allclose(front.value, certified.value, rtol=1e-5)
    np.testing.assert_allclose(front.bound, certified.value, rtol=1e-5)
    one = pprjax.frontier(ring(), ROWS, CONFIG)
    np.testing.assert_allclose(certified.value[certified.rank == 1], one.value, rtol=1e-6)
    np.testing.assert_array_equal(certified.distance[certified.rank == 1], one.distance)


@pytest.mark.slow
@pytest.mark.parametrize("min_distance", [1, 3])
def test_the_learner_keeps_them_apart_and_none_is_better_than_the_certified(min_distance):
    options: dict[str, Any] = dict(n_recourses=3, min_distance=min_distance, progress=False)
    front = pprjax.frontier(ring(), ROWS, CONFIG, method="learn", key=KEY, **options)
    assert_apart_feasible_and_no_better(front, min_distance)
    assert np.isposinf(front.bound).all()
    alone = pprjax.frontier(ring(), ROWS, CONFIG, method="learn", key=KEY, progress=False)
    np.testing.assert_array_equal(front.value[front.rank == 1], alone.value)


@pytest.mark.slow
def test_a_search_has_the_certified_n_best():
    choices: list[dict[str, Any]] = [dict(n_recourses=3), dict(n_recourses=3, min_distance=3)]
    for options in choices:
        found, best = (pprjax.recourse(ring(), ROWS, CONFIG, method=m, **options) for m in ("search", "exact"))
        np.testing.assert_array_equal(found.rank, best.rank)
        np.testing.assert_array_equal(found.index, best.index)
        assert set(found.method) == {"search"}
        if options == dict(n_recourses=3):
            np.testing.assert_allclose(found.reward, best.reward, rtol=1e-5)
            np.testing.assert_allclose(found.diversity, best.diversity)
            assert (found.gap <= 1e-5).all()
        else:
            assert (found.reward <= best.reward + 1e-4).all()
            np.testing.assert_allclose(found.reward[found.rank == 1], best.reward[best.rank == 1], rtol=1e-5)
            assert (found.bound >= best.reward - 1e-4).all()


@pytest.mark.slow
@pytest.mark.parametrize("calls", [0, 10_000])
def test_bounds_hold_of_each_place_where_not_all_was_seen(calls):
    task, config = sequences(7), Config(lambda_path=2.0, lambda_policy=0.3)
    originals = task.env.paths(ALL[[5, 77, 200]])
    found = pprjax.recourse(task, originals, config, method="search", calls=calls, n_recourses=4)
    for b, original in enumerate(ALL[[5, 77, 200]]):
        scores = pprjax.score(task, task.env.paths([original] * len(ALL)), task.env.paths(ALL), config)
        close = config.lambda_path / (1.0 + scores.distance)
        worth = np.sort(np.where(scores.goal > 0.5, scores.goal + 0.3 * scores.r_policy + close, -np.inf))[::-1][:4]
        rows = found.index == b
        assert (found.reward[rows] <= worth[: rows.sum()] + 1e-4).all()
        assert (found.bound[rows] >= worth[: rows.sum()] - 1e-4).all()
        if calls:
            np.testing.assert_allclose(found.reward[rows], worth, rtol=1e-4)
            assert (found.gap[rows] <= 1e-5).all()


def test_at_a_weight_the_paths_of_the_chosen_rung_follow_the_best():
    front = exact_frontier(ring(), ROWS, CONFIG, n_recourses=3)
    chosen, one = front.at(CONFIG.lambda_path), exact_frontier(ring(), ROWS, CONFIG).at(CONFIG.lambda_path)
    first = chosen.rank == 1
    np.testing.assert_array_equal(chosen.reward[first], one.reward)
    assert len(chosen) > len(one) and (chosen.gap == 0).all()
    for b in range(len(ROWS)):
        rows = chosen.index == b
        assert len(set(chosen.scores.distance[rows].tolist())) == 1
        assert (np.diff(chosen.reward[rows]) <= 0).all()
    assert front.to_frame()["rank"].to_list() == front.rank.tolist()
    drawn = front.plot()[0].lines
    assert sum(len(line.get_xdata()) for line in drawn) == (front.rank == 1).sum()


@pytest.mark.parametrize("method", ["exact", "search", "learn"])
@pytest.mark.parametrize("name", ["n_recourses", "min_distance"])
def test_mistakes_are_named(name, method):
    wrong: dict[str, Any] = {name: 0}
    for solve in (pprjax.frontier, pprjax.recourse):
        with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
            solve(ring(), ROWS, CONFIG, method=method, key=KEY, **wrong)
