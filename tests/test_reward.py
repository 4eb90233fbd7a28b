"""Eq. 1, 4 and 5: by hand, against float64, and h's conditions for every size of the action set."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax import Config, Paths, TablePolicy, TabularMDP, Task, exact, reached
from pprjax.reward import PROBABILITY_FLOOR, link, regret, similarity, total

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


@pytest.mark.parametrize("num_actions", [2, 10**5, 10**6, 10**7, 10**9])
def test_what_is_never_done_is_punished_however_many_actions_there_are(num_actions):
    assert float(link(0.0, num_actions)) <= math.log(0.1) + 1e-5
    assert float(link(0.5 / num_actions, num_actions)) == pytest.approx(math.log(0.5), abs=1e-5)


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


def test_a_regret_is_what_an_action_is_less_likely_than_the_favourite():
    with np.errstate(divide="ignore"):
        logs = np.log([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0]])
    expected = [[0.0, np.log(0.5), np.log(0.5)], [np.log(1 / 9), 0.0, np.log(1e-30 / 0.9)]]
    np.testing.assert_allclose(regret(logs), expected, rtol=1e-5)


def test_a_favourite_is_one_of_the_actions_that_there_are():
    logs = np.log([[0.5, 0.25, 0.125, 0.125]])
    got = regret(logs, np.array([[False, True, True, False]]))
    np.testing.assert_allclose(got, [[0.0, 0.0, np.log(0.5), 0.0]], rtol=1e-6)
    assert np.isfinite(regret(logs, np.zeros((1, 4), bool))).all()  # a dead end


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), lambda_policy=st.sampled_from([0.0, 0.3, 1.0, 30.0]))
def test_no_path_gains_from_a_tour_that_returns_to_where_it_was(seed, lambda_policy):
    """Where only the end pays, the best of all paths earns what the best of those earns that see no state twice."""
    rng = np.random.default_rng(seed)
    size, num_actions, horizon = 5, 3, 7
    next_state = rng.integers(0, size, (size, num_actions))
    probs = rng.dirichlet(np.full(num_actions, 0.5), size).astype(np.float32)
    env = TabularMDP(next_state, np.zeros((size, num_actions)), np.arange(size) == size - 1, 0, horizon)
    task = Task(env, TablePolicy(probs), goal=reached)
    logs = np.log(np.maximum(probs.astype(float), 1e-30))
    charges = logs - logs.max(1, keepdims=True)
    simple, open_paths = [], [((0,), 0.0)]
    while open_paths:
        states, charged = open_paths.pop()
        if states[-1] == size - 1:
            simple.append(charged)
            continue
        for action, after in enumerate(next_state[states[-1]].tolist()):
            if after not in states:
                open_paths.append(((*states, after), charged + charges[states[-1], action]))
    best = exact(task, Paths.from_lists([[0]]), Config(lambda_path=0.0, lambda_policy=lambda_policy))
    expected = lambda_policy * max(simple) if simple else -np.inf
    np.testing.assert_allclose(best.reward, [expected], rtol=1e-5, atol=1e-5)


def test_the_link_pays_for_tours():
    """Two rooms, a likely way round between them, and a door: the published habit goes round until time is up."""
    env = TabularMDP([[1, 2], [0, 0], [-1, -1]], np.zeros((3, 2)), [False, False, True], 0, 9)
    task = Task(env, TablePolicy(np.array([[0.8, 0.2], [0.9, 0.1], [0.5, 0.5]], np.float32)), goal=reached)
    lengths = {}
    for habit in ("link", "regret"):
        best = exact(task, Paths.from_lists([[0, 2]]), Config(lambda_path=0.1, lambda_policy=0.1, habit=habit))
        lengths[habit] = int(best.paths.lengths[0])
    assert lengths == {"link": 10, "regret": 2}
