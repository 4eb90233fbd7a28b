"""A training that ends early: when, for whom, and that nobody else's answer changes."""

import jax
import numpy as np
import pytest
from ring_road import CONFIG, KEY, ORIGINALS, ring

import pprjax
from pprjax import Paths
from pprjax.learn import batches
from pprjax.learn.stopping import Stop, kept_where

ROWS = Paths.from_lists(ORIGINALS)
CURVE = np.array([[1.0, 2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0, 3.0], [-1.0, 0.0, 1.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("patience", "ends"),
    [(1, [True, False, True]), (2, [True, False, True]), (3, [True, False, False]), (4, [False, False, False])],
)
def test_patience_is_the_iterations_since_the_best_path_changed(patience, ends):
    assert Stop(patience=patience).reached(CURVE, np.ones(3, bool)).tolist() == ends
    assert Stop(patience=patience).reached(CURVE[:, :1], np.ones(3, bool)).tolist() == [False] * 3


def test_a_certified_path_ends_its_training_if_it_meets_the_goal():
    stop = Stop(bound=np.array([2.0, 3.1, 1.0]))
    assert stop.reached(CURVE, np.array([True, True, False])).tolist() == [True, False, False]
    assert stop.of([2, 0]).reached(CURVE[[2, 0]], np.ones(2, bool)).tolist() == [True, True]
    assert not Stop().reached(CURVE, np.ones(3, bool)).any() and Stop().never


def test_what_has_ended_stays():
    old, new = {"a": np.zeros((3, 2)), "b": np.zeros(3)}, {"a": np.ones((3, 2)), "b": np.ones(3)}
    found = kept_where(np.array([True, False, True]), old, new)
    assert np.asarray(found["a"]).tolist() == [[0, 0], [1, 1], [0, 0]] and found["b"].tolist() == [0, 1, 0]


@pytest.fixture
def trained(monkeypatch):
    """A function that solves the ring road, and how many iterations each call of the program was asked for."""
    asked, program = [], batches._train

    def counted(*args, start, stop, mesh):
        asked.append((int(start), int(stop)))
        return program(*args, start=start, stop=stop, mesh=mesh)

    def solve(**options):
        asked.clear()
        options = dict(method="learn", key=KEY, progress=False) | options
        return pprjax.recourse(ring(), ROWS, CONFIG, **options), list(asked)

    monkeypatch.setattr(batches, "_train", counted)
    return solve


def test_a_training_ends_at_the_certificate_and_every_path_is_harvested(trained):
    whole, all_rounds = trained()
    certified, rounds = trained(stop="certified")
    best = pprjax.exact(ring(), ROWS, CONFIG).reward
    np.testing.assert_allclose(certified.reward, best, rtol=1e-5)
    harvest = (CONFIG.iterations, CONFIG.iterations + 1)
    assert rounds.count(harvest) == all_rounds.count(harvest) == len(ROWS)
    spent = sum(stop - start for start, stop in rounds)
    assert spent < sum(stop - start for start, stop in all_rounds)
    for i in range(len(ROWS)):  # one curve, up to where it ends
        until = np.flatnonzero(certified.curve[i] >= best[i] * (1 - 1e-6))[0]
        np.testing.assert_array_equal(certified.curve[i, : until + 1], whole.curve[i, : until + 1])
        assert (certified.curve[i, until:] == certified.curve[i, until]).all()


@pytest.mark.slow
def test_who_is_trained_beside_it_does_not_matter(trained):
    alone, together = (trained(stop=3, chunk=chunk)[0] for chunk in (1, 3))
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one, other)
    endless = trained(stop=CONFIG.iterations)[0]
    np.testing.assert_array_equal(endless.curve, trained()[0].curve)


@pytest.mark.parametrize("stop", [0, -1, "soon"])
def test_what_it_is_not_is_named(stop):
    with pytest.raises(ValueError, match='stop: expected "certified" or a number of iterations, at least 1, got'):
        pprjax.recourse(ring(), ROWS, CONFIG, method="learn", key=KEY, stop=stop)
