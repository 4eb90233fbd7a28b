"""The clinic: its published returns, its patients, and what may be said of their recourse."""

import importlib.util

import jax
import numpy as np
import pytest
from pprjax_envs import clinic

import pprjax


def test_the_published_returns_are_reproduced():
    returns = clinic.published_returns()
    for name, published in {"random": 0.78, "clinicians": 0.78, "optimal": 0.88}.items():
        assert abs(returns[name] - published) < 0.01
    assert (clinic.survival(clinic.optimal()) >= clinic.survival(clinic.tables().clinicians.astype(float)) - 1e-9).all()


def test_patients_are_walks_that_end_as_they_should():
    chances = clinic.tables().chances
    for died in (True, False):
        found = clinic.patients(6, seed=3, died=died)
        ends = [states[-2] for states in found.to_lists()]
        assert set(ends) == {clinic.DIED} if died else clinic.SURVIVED in ends
        for states, actions in zip(found.to_lists(), found.actions_to_lists(), strict=True):
            assert states[-1] == clinic.DISCHARGED
            for s, a, after in zip(states, actions, states[1:], strict=False):
                assert chances.prob(s, a, after) > 0
                assert clinic.tables().clinicians[s, a] > 0


@pytest.mark.slow
def test_fresh_runs_of_the_clinicians_survive_as_often_as_the_model_says():
    task = clinic.task(445)
    found = pprjax.reliability(task, policy=task.policy, key=jax.random.key(0), runs=500)
    likely, ever = (clinic.survival(clinic.tables().clinicians, steps=steps)[445] for steps in (task.horizon, None))
    assert abs(found.share[0] - likely) <= 4 * found.error[0]
    assert likely < ever < likely + 0.1


@pytest.fixture
def short(monkeypatch):
    """Paths of at most 4 steps, which take less."""
    monkeypatch.setattr(clinic, "MAX_STEPS", 4)
    clinic.env.cache_clear()
    yield
    clinic.env.cache_clear()


@pytest.mark.slow
def test_with_its_own_noise_a_path_goes_where_it_went(short):
    original = clinic.patients(1, seed=1)
    start, key = int(np.asarray(original.symbols)[0, 0]), jax.random.key(0)
    fresh = pprjax.reliability(clinic.task(start), original, key=key)
    own = pprjax.reliability(clinic.task(start, observed=original), original, key=key)
    assert own.share[0] == 0
    assert fresh.share[0] > 0.02  # others who come and are treated so live


def test_changed_treatments_are_counted_step_by_step():
    assert clinic.changed_treatments(np.array([3, 4, 5, 0]), np.array([3, 9, 5, 0])) == 1
    assert clinic.changed_treatments(np.array([3, 4, 5, 0, -1]), np.array([3, 4, 5, 7, 8, 0])) == 2
    assert clinic.changed_treatments(np.array([3, 0]), np.array([3, 0])) == 0


def test_a_missing_extra_is_named(monkeypatch):
    clinic.tables.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="expected the extra `icu`"):
        clinic.tables()


@pytest.mark.parametrize("start", [-1, 713, 9999, np.array([3])])
def test_a_start_that_is_no_patients_state_is_named(start):
    with pytest.raises(ValueError, match=r"^start: expected a patient's state in \[0, 712\], got"):
        clinic.task(start)


def test_what_was_observed_is_one_path_that_begins_there():
    paths = clinic.patients(2)
    start = int(np.asarray(paths.symbols)[0, 0])
    for observed in (paths, paths[:1].replace(actions=None), paths[:1].to_lists()):
        with pytest.raises(ValueError, match=rf"^observed: expected one path with treatments that begins in {start}"):
            clinic.task(start, observed=observed)
    with pytest.raises(ValueError, match=rf"begins in {start + 1}, got"):
        clinic.task(start + 1, observed=paths[:1])


@pytest.mark.parametrize("num", [0, -1, 2.5])
def test_a_number_of_patients_is_at_least_one(num):
    with pytest.raises(ValueError, match=r"^num: expected an integer of at least 1, got"):
        clinic.patients(num)
