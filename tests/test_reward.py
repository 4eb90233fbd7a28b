"""Eq. 1, 4 and 5: by hand, against float64, and h's conditions for every size of the action set."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax.reward import PROBABILITY_FLOOR, link, similarity, total

NUM_ACTIONS = st.integers(2, 50_000)
GRID = np.unique(np.concatenate([np.geomspace(1e-6, 0.5, 200), 1 - np.geomspace(1e-6, 0.5, 200)]))
few = settings(deadline=None, max_examples=60)


def eq4(p, num_actions):
    """h as printed, in float64."""
    p = np.clip(np.asarray(p, np.float64), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    with np.errstate(invalid="ignore"):
        return np.where(p >= 1 / num_actions, np.log((p - 2 / num_actions + 1) / (1 - p)), np.log(num_actions * p))


@pytest.mark.parametrize(
    ("p", "num_actions", "argument"),
    [
        (0.25, 4, 1.0),  # uniform
        (0.5, 4, 1.0 / 0.5),
        (0.9, 4, 1.4 / 0.1),
        (0.1, 4, 0.4),
        (0.75, 2, 0.75 / 0.25),
        (0.25, 2, 0.5),
        (0.01, 50, 0.5),
    ],
)
def test_link_by_hand(p, num_actions, argument):
    assert link(p, num_actions) == pytest.approx(math.log(argument), abs=2e-6)


@given(NUM_ACTIONS)
@few
def test_link_is_eq_4(num_actions):
    got = np.asarray(link(GRID, num_actions), np.float64)
    np.testing.assert_allclose(got, eq4(GRID.astype(np.float32), num_actions), rtol=2e-6, atol=2e-6)


@given(NUM_ACTIONS)
@few
def test_link_is_zero_at_uniform(num_actions):
    assert abs(float(link(1 / num_actions, num_actions))) < 1e-6


@given(NUM_ACTIONS)
@few
def test_link_rises(num_actions):
    grid = np.union1d(GRID, 1 / num_actions * np.array([0.9, 0.99, 1.0, 1.01, 1.1]))
    grid = grid[grid <= 1 - PROBABILITY_FLOOR]
    rise = np.diff(np.asarray(link(grid, num_actions), np.float64))
    exact_rise = np.diff(eq4(grid, num_actions))
    assert (exact_rise > 0).all()
    assert (rise >= -1e-6).all()
    assert (rise[exact_rise > 2e-6] > 0).all()


@given(NUM_ACTIONS, st.floats(0, 0.999), st.floats(0, 1))
@few
def test_link_punishes_what_is_rarer_than_uniform_and_rewards_the_rest(num_actions, share, beyond):
    below = share / num_actions
    above = 1 / num_actions + 1e-5 + beyond * (1 - 1 / num_actions - 1e-5)
    assert link(below, num_actions) < 0 < link(above, num_actions)


@given(NUM_ACTIONS)
@few
def test_link_is_finite_at_the_ends(num_actions):
    never, always = np.asarray(link(np.array([0.0, 1.0]), num_actions))
    assert never == pytest.approx(math.log(1e-6 * num_actions), abs=1e-5)
    assert always == pytest.approx(math.log((2 - 2 / num_actions - 1e-6) / 1e-6), abs=1e-5)


def test_link_of_a_single_action_is_nothing():
    assert float(link(1.0, 1)) == pytest.approx(0, abs=2e-6)


def test_link_has_finite_slopes():
    """A softmax that is trained through h must not meet NaN from the branch that is not taken."""
    slope = jax.vmap(jax.grad(lambda p: link(p, 4)))(np.float32([0.0, 1e-7, 0.1, 0.25, 0.5, 1.0]))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize(("distance", "expected"), [(0, 1.0), (1, 0.5), (3, 0.25), (0.5, 2 / 3), (999_999, 1e-6)])
def test_similarity(distance, expected):
    assert similarity(distance) == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=2, unique=True))
@few
def test_similarity_falls_within_0_and_1(distances):
    nearer, further = np.asarray(similarity(np.array(sorted(distances))))
    assert 0 < further < nearer <= 1


def test_total_is_eq_5():
    goal, path, policy = np.array([95.0, -4.0]), np.array([0.25, 1.0]), np.array([-2.0, 8.0])
    np.testing.assert_allclose(total(goal, path, policy, lambda_path=10.0, lambda_policy=0.5), [96.5, 10.0])


def test_a_weight_of_zero_switches_its_term_off():
    goal, path, policy = np.array([1.0]), np.array([0.3]), np.array([1e6])
    assert total(goal, path, policy, lambda_path=0.0, lambda_policy=0.0) == goal
    assert total(goal, path, policy, lambda_path=0.0, lambda_policy=1.0) == goal + policy
