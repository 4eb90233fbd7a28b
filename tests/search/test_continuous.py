"""Search and learning where symbols are vectors, against every path there is."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from continuous import SCALE, SLEDGE, best_by_bin, best_reward, every_path, originals, real_table, task

import pprjax
from pprjax.constraints import Constraints
from pprjax.ladder import Wanted
from pprjax.metrics import real_edits
from pprjax.search.points import search_points

WORLDS = [(0.25, 1.5), (0.35, 0.5), (0.5, 3.0)]
CONFIG = pprjax.Config(distance="real", scale=SCALE, lambda_path=2.0, lambda_policy=0.3)
LEARNED = CONFIG.replace(iterations=30, num_paths=64, num_best=8, width=32)
ORIGINALS = originals()


@pytest.mark.parametrize("world", WORLDS)
def test_the_frontier_has_the_best_path_of_each_bin_and_proves_it(world):
    front = pprjax.frontier(task(*world), ORIGINALS, CONFIG)
    assert set(front.method) == {"search"}
    for i, original in enumerate(ORIGINALS):
        best = best_by_bin(np.array(original), *world, CONFIG.lambda_policy, front.limit.shape[1])
        below = np.append(-np.inf, np.maximum.accumulate(best)[:-1])
        rows = front.index == i
        np.testing.assert_array_equal(front.rung[rows], np.flatnonzero(best > below + 1e-5))
        np.testing.assert_allclose(front.value[rows], best[front.rung[rows]], atol=1e-5)
        np.testing.assert_allclose(front.bound[rows], front.value[rows], atol=1e-5)
        for row in np.flatnonzero(rows):
            path = np.array(front.paths.to_lists()[row])
            assert front.distance[row] == pytest.approx(real_table(np.array(original), path)[-1, -1], abs=1e-5)


@pytest.mark.parametrize("lambda_path", [0.1, 2.0, 20.0])
@pytest.mark.parametrize("world", WORLDS)
def test_the_best_at_one_weight_is_proved_and_a_frontier_says_what_its_bins_may_cost(world, lambda_path):
    config = CONFIG.replace(lambda_path=lambda_path)
    found = pprjax.recourse(task(*world), ORIGINALS, config)
    best = [best_reward(np.array(original), *world, lambda_path, config.lambda_policy) for original in ORIGINALS]
    np.testing.assert_allclose(found.reward, best, rtol=1e-5)
    np.testing.assert_array_equal(found.gap, 0.0)
    scores = pprjax.score(task(*world), ORIGINALS, found.paths, config)
    worth = scores.goal + lambda_path * scores.path + config.lambda_policy * scores.r_policy
    np.testing.assert_allclose(found.reward, worth, rtol=1e-5)
    rows = pprjax.frontier(task(*world), ORIGINALS, config).at(lambda_path)
    assert (rows.reward <= np.array(best) + 1e-5).all() and (rows.bound >= np.array(best) - 1e-5).all()
    rung = rows.scores.distance.astype(int)
    assert (rows.gap >= lambda_path / (rung + 1) - lambda_path / (rows.scores.distance + 1) - 1e-5).all()


def test_within_a_bin_the_nearest_may_be_better_than_the_best():
    """What a search at one λ_path is for: a frontier keeps another path of the same bin."""
    config = CONFIG.replace(lambda_path=20.0)
    found = [pprjax.recourse(task(*world), ORIGINALS, config) for world in WORLDS]
    rows = [pprjax.frontier(task(*world), ORIGINALS, config).at(20.0) for world in WORLDS]
    assert max((one.reward - other.reward).max() for one, other in zip(found, rows, strict=True)) > 0.1


def test_a_beam_alone_never_claims_more_than_is_so():
    for calls in (0, 30):
        found = pprjax.recourse(task(*WORLDS[0]), ORIGINALS, CONFIG, calls=calls)
        best = [best_reward(np.array(original), *WORLDS[0], 2.0, 0.3) for original in ORIGINALS]
        assert (found.bound >= np.array(best) - 1e-5).all() and (found.reward <= np.array(best) + 1e-5).all()


def fewest(state, params):
    """Pushed on all the way, after how many steps it is beyond 1."""
    place, speed, steps = state.place, state.speed, jnp.int32(1)
    for _ in range(4):
        speed = params.drag * speed + params.push
        place = place + speed
        steps += place <= 1
    return steps


@pytest.mark.slow
def test_what_is_still_to_come_bounds_more():
    """A narrow beam alone knows nothing of what it dropped. By what may be earned it does, and by the steps more."""
    best = [best_reward(np.array(original), *WORLDS[0], 2.0, 0.3) for original in ORIGINALS]
    world = task(*WORLDS[0])
    told = task(*WORLDS[0], steps_to_go=fewest)
    wanted = Wanted(num_distances=8)
    options = dict(wanted=wanted, calls=10_000, width=1)
    alone, helped = (search_points(which, ORIGINALS, CONFIG.objective, **options) for which in (world, told))
    close = 2.0 / (1 + np.arange(8))
    for points in (alone, helped):
        np.testing.assert_allclose((points.limit + close).max(1), best, rtol=1e-5)
    assert (helped.calls <= alone.calls).all() and helped.calls.sum() < alone.calls.sum()
    options |= dict(calls=0)
    unknown = search_points(task(*WORLDS[0], goal_to_go=None), ORIGINALS, CONFIG.objective, **options)
    known = search_points(world, ORIGINALS, CONFIG.objective, **options)
    assert np.isposinf(unknown.limit).any(1).all() and not np.isposinf(known.limit).any()


@pytest.mark.parametrize(
    "said",
    [
        {"goal_to_go": lambda state, params: 0.5},
        pytest.param({"steps_to_go": lambda state, params: 4}, marks=pytest.mark.slow),
    ],
)
def test_what_may_not_come_and_comes_is_named(said):
    with pytest.raises(
        ValueError, match=r"^goal_to_go, steps_to_go: a path that was found for originals\[0\] earns more"
    ):
        pprjax.recourse(task(*WORLDS[0], **said), ORIGINALS, CONFIG)


@pytest.mark.slow
def test_learning_finds_the_best_or_stays_below_it():
    best = np.array([best_reward(np.array(original), *WORLDS[0], 2.0, 0.3) for original in ORIGINALS])
    found = pprjax.recourse(task(*WORLDS[0]), ORIGINALS, LEARNED, method="learn", key=jax.random.key(1))
    assert (found.reward <= best + 1e-5).all()
    np.testing.assert_allclose(found.reward, best, rtol=1e-3)  # 64 · 30 paths, of 22 that arrive


@pytest.mark.parametrize("method", ["search", "learn"])
def test_a_world_that_loses_its_numbers_is_named(method):
    broken = task(params=SLEDGE.default_params.replace(broken=0.6))
    with pytest.raises(ValueError, match=r"^symbol: expected finite numbers, got NaN as number 0 of step \d of a"):
        pprjax.recourse(broken, ORIGINALS, LEARNED, method=method, key=jax.random.key(0))


def test_results_are_saved_with_their_vectors(tmp_path):
    found = pprjax.recourse(task(), ORIGINALS, CONFIG)
    found.save(tmp_path / "found.parquet")
    saved = pl.read_parquet(tmp_path / "found.parquet")
    assert saved["recourse"].to_list() == found.paths.to_lists()
    np.testing.assert_array_equal(saved["distance"], found.scores.distance)
    found.save(tmp_path / "found.csv")
    first = pl.read_csv(tmp_path / "found.csv")["recourse"][0].split(" ")
    np.testing.assert_array_equal(
        np.float32([step.split(":") for step in first]), np.float32(found.paths.to_lists()[0])
    )


@pytest.mark.slow
def test_learning_keeps_the_best_of_each_bin():
    front = pprjax.frontier(task(*WORLDS[0]), ORIGINALS, LEARNED, method="learn", key=jax.random.key(1))
    proved = pprjax.frontier(task(*WORLDS[0]), ORIGINALS, CONFIG)
    np.testing.assert_array_equal(front.rung, proved.rung)
    np.testing.assert_allclose(front.value, proved.value, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["search", "learn"])
def test_several_recourses_are_apart_by_real_edits(method):
    options = dict(n_recourses=3, min_distance=2, method=method, key=jax.random.key(0))
    found = pprjax.recourse(task(*WORLDS[1]), ORIGINALS, LEARNED, **options)
    assert (np.bincount(found.index) > 1).any()
    for i in range(len(ORIGINALS)):
        paths = [np.array(found.paths.to_lists()[row]) for row in np.flatnonzero(found.index == i)]
        apart = [float(real_edits(a, b, SCALE)) for k, a in enumerate(paths) for b in paths[:k]]
        assert all(d >= 2 for d in apart)
        assert not apart or found.diversity[i] == pytest.approx(np.mean(apart), rel=1e-5)


@pytest.mark.slow
def test_a_largest_distance_is_kept_to():
    near = task(*WORLDS[0], constraints=Constraints(max_distance=1.5))
    found = pprjax.recourse(near, ORIGINALS, CONFIG)
    for i, original in enumerate(ORIGINALS):
        inside = [
            d
            for d in (real_table(np.array(original), states)[-1, -1] for states, *_ in every_path(0.25, 1.5))
            if d <= 1.5
        ]
        assert (found.status[i] == "infeasible") == (not inside)
        assert found.scores.distance[i] <= 1.5


@pytest.mark.slow
def test_the_same_actions_are_unchanged():
    freely, own = task(*WORLDS[0], goal=None), ORIGINALS[0]
    assert own.lengths[0] == freely.horizon + 1
    for method in ("search", "learn"):
        config = CONFIG.replace(lambda_path=1e3, lambda_policy=0.0, iterations=3, num_paths=32, num_best=4)
        found = pprjax.recourse(freely, own, config, method=method, key=jax.random.key(0))
        assert found.status[0] == "unchanged"
        assert found.scores.distance[0] < 1e-3
        assert found.paths.actions_to_lists() == [[2, 1, 0, 1, 1]]
