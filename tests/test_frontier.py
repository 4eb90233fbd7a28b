"""The front door: each method where it suits, one result for all, and a frontier that answers every λ_path."""

import numpy as np
import polars as pl
import pytest
from ring_road import CONFIG, KEY, ORIGINALS, ring
from search_worlds import ALL, L, sequences

import pprjax
from pprjax import Config, Paths

ROWS = Paths.from_lists(ORIGINALS)
LAMBDAS = (0.0, 0.3, 2.0, 50.0)


@pytest.mark.parametrize("habit", ["regret", "link"])
def test_the_certified_frontier_answers_every_lambda_path(habit):
    config = CONFIG.replace(habit=habit)
    front = pprjax.frontier(ring(), ROWS, config)
    assert set(front.method) == {"exact"} and (front.bound == front.value).all()
    for lambda_path in LAMBDAS:
        chosen, best = front.at(lambda_path), pprjax.exact(ring(), ROWS, config.replace(lambda_path=lambda_path))
        np.testing.assert_allclose(chosen.reward, best.reward, rtol=1e-5)
        assert (chosen.gap == 0).all() and (best.gap == 0).all()
        np.testing.assert_array_equal(chosen.original_goal, best.original_goal)
    own = np.array([0.0, 2.0, 50.0])
    each = [front.at(x).reward[i] for i, x in enumerate(own.tolist())]
    np.testing.assert_array_equal(front.at(own).reward, each)


def test_search_proves_what_the_certificate_says():
    """The ring road is a table, and is searched here as if it were none: the beam holds all of its paths."""
    certified, searched = (pprjax.frontier(ring(), ROWS, CONFIG, method=m) for m in ("exact", "search"))
    np.testing.assert_array_equal(certified.index, searched.index)
    np.testing.assert_array_equal(certified.distance, searched.distance)
    np.testing.assert_allclose(certified.value, searched.value, rtol=1e-5)
    for name in ("goal", "path", "r_policy", "policy", "distance", "violations"):
        np.testing.assert_allclose(getattr(certified.scores, name), getattr(searched.scores, name), rtol=1e-5)
    assert certified.status.tolist() == searched.status.tolist()


def test_auto_takes_the_first_method_that_suits():
    assert set(pprjax.recourse(ring(), ROWS, CONFIG).method) == {"exact"}
    task = sequences(0)
    originals = task.env.paths(ALL[[3, 99]])
    found = pprjax.recourse(task, originals, Config(lambda_path=2.0))
    assert set(found.method) == {"search"} and (found.gap <= 1e-5).all()
    with pytest.raises(ValueError, match='key: method "learn" needs one'):
        pprjax.recourse(ring(), ROWS, CONFIG, method="learn")


@pytest.fixture(scope="module")
def learned():
    return pprjax.frontier(ring(), ROWS, CONFIG, method="learn", key=KEY, progress=False)


@pytest.mark.slow
def test_a_learned_frontier_has_what_recourse_finds(learned):
    chosen = pprjax.recourse(ring(), ROWS, CONFIG, method="learn", key=KEY, progress=False)
    np.testing.assert_allclose(learned.at(CONFIG.lambda_path).reward, chosen.reward, rtol=1e-6)
    assert set(chosen.method) == {"learn"} and np.isposinf(chosen.gap).all()


def test_a_learned_frontier_has_true_values_and_none_above_the_certified_one(learned):
    assert set(learned.method) == {"learn"} and np.isposinf(learned.bound).all()
    scores = pprjax.score(ring(), ROWS[learned.index], learned.paths, CONFIG)
    np.testing.assert_array_equal(scores.distance, learned.distance)
    np.testing.assert_allclose(scores.goal + CONFIG.lambda_policy * scores.r_policy, learned.value, rtol=1e-5)
    certified = pprjax.frontier(ring(), ROWS, CONFIG)
    for b in range(len(ROWS)):
        best = [certified.value[(certified.index == b) & (certified.distance <= e)].max() for e in learned.distance]
        rows = learned.index == b
        assert (learned.value[rows] <= np.array(best)[rows] + 1e-5).all()
        assert (np.diff(learned.value[rows]) > 0).all() and (np.diff(learned.distance[rows]) > 0).all()
    assert len(np.unique(learned.index)) == len(ROWS) and len(learned) > len(ROWS)  # a ladder, not one rung


@pytest.mark.parametrize("max_edits", [0, 1, 3])
def test_no_more_edits_than_asked_for(max_edits):
    every, few = (pprjax.frontier(ring(), ROWS, CONFIG, max_edits=m) for m in (None, max_edits))
    near = every.distance <= max_edits
    assert near.any() or not len(few)
    np.testing.assert_array_equal(few.distance, every.distance[near])
    np.testing.assert_allclose(few.value, every.value[near], rtol=1e-6)


def test_an_original_that_nothing_answers_has_no_row_and_is_infeasible():
    task = ring(forbidden_states=(4,), max_distance=0)
    front = pprjax.frontier(task, ROWS, CONFIG)
    chosen = front.at(1.0)
    lost = np.setdiff1d(np.arange(len(ROWS)), front.index)
    assert lost.size
    assert set(chosen.method) == {"exact"}
    assert (chosen.status[lost] == "infeasible").all() and (chosen.reward[lost] == -np.inf).all()
    assert (chosen.gap[lost] == 0).all()  # that there is none is proved
    assert [chosen.paths.to_lists()[i] for i in lost] == [[0]] * lost.size


def test_files_and_a_picture(tmp_path):
    front = pprjax.frontier(ring(), ROWS, CONFIG)
    front.save(tmp_path / "frontier.parquet")
    table = pl.read_parquet(tmp_path / "frontier.parquet")
    assert table.equals(front.to_frame())
    axes = front.plot()
    assert [line.get_xdata().tolist() for line in axes[0].lines] == [
        front.distance[front.index == p].tolist() for p in np.unique(front.index)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_edits": -1}, "max_edits: expected at least 0, got -1"),
        ({"calls": -1}, "calls: expected at least 0, got -1"),
        ({"method": "learn"}, 'key: method "learn" needs one'),
        ({"method": "guess"}, "method: expected one of auto, exact, search, learn, got 'guess'"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        pprjax.frontier(ring(), ROWS, CONFIG, **arguments)


def test_no_weight_below_zero():
    front = pprjax.frontier(ring(), ROWS, CONFIG)
    with pytest.raises(ValueError, match="lambda_path: expected a number of at least 0"):
        front.at(-1.0)


def test_the_answer_of_a_search_does_not_depend_on_the_batch():
    task, config = sequences(2), Config(lambda_policy=0.3)
    originals = task.env.paths(ALL[[3, 99, 120]])
    together = pprjax.frontier(task, originals, config, max_edits=L)
    for i in range(3):
        alone = pprjax.frontier(task, originals[i], config, max_edits=L)
        rows = together.index == i
        np.testing.assert_array_equal(alone.value, together.value[rows])
        assert alone.paths.to_lists() == [p for p, m in zip(together.paths.to_lists(), rows, strict=True) if m]
