"""The certified frontier, against every path there is."""

import functools

import jax
import numpy as np
import pytest
from brute_force import GOALS, HORIZON, UNEVEN, Mdp, edit, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import gridworld

from pprjax.certify.frontier import exact_frontier
from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.constraints import Constraints
from pprjax.goals import at_least, reached
from pprjax.paths import Paths

pytestmark = pytest.mark.usefixtures("optimized")


@functools.cache
def grid():
    task = gridworld.task("newbie", goal=None)
    return task, gridworld.bad_paths(task.env, 24)


def ladder(mdp, goal, original, lambda_policy, costs, most):
    """{e: F(e)} where F rises, by looking at every path."""
    best = {}
    for states, earned, habit, _ in mdp.paths:
        distance = edit(original, mdp.symbols[list(states)], costs)
        if distance <= most and mdp.meets(goal, states[-1], earned, original):
            best[distance] = max(best.get(distance, -np.inf), earned + lambda_policy * habit)
    rungs, top = {}, -np.inf
    for distance in sorted(best):
        if best[distance] > top + 1e-5 * (1 + abs(best[distance])):
            rungs[distance] = top = best[distance]
    return rungs


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    lambda_policy=st.tuples(*[lambdas] * 3),
    max_edits=st.sampled_from([None, 0, 2]),
    max_distance=st.sampled_from([None, 3]),
)
def test_every_rung_is_the_best_there_is(seed, goal, costs, lambda_policy, max_edits, max_distance):
    mdp = Mdp(seed)
    task = mdp.task(GOALS[goal]).replace(constraints=Constraints(max_distance=max_distance))
    config = Config(lambda_policy=np.array(lambda_policy), habit=mdp.habit, **costs)
    found = exact_frontier(task, Paths.from_lists(mdp.originals), config, max_edits=max_edits)
    most = min(x for x in (max_edits, max_distance, np.inf) if x is not None)
    symbols, actions = found.paths.to_lists(), found.paths.actions_to_lists()
    for b, original in enumerate(mdp.originals):
        rows = np.flatnonzero(found.index == b)
        expected = ladder(mdp, goal, original, lambda_policy[b], costs, most)
        assert found.scores.distance[rows].tolist() == list(expected)
        np.testing.assert_allclose(found.value[rows], list(expected.values()), rtol=1e-5, atol=1e-5)
        at_most = [
            max((v for d, v in expected.items() if d <= e), default=-np.inf) for e in range(found.limit.shape[1])
        ]
        np.testing.assert_allclose(found.limit[b], at_most, rtol=1e-5, atol=1e-5)
        for i in rows:
            states = [0]
            for a in actions[i]:
                states.append(int(mdp.next_state[states[-1], a]))
            assert symbols[i] == mdp.symbols[states].tolist()
            assert edit(original, symbols[i], costs) == found.scores.distance[i]
            assert len(actions[i]) <= HORIZON
    assert np.all(np.diff(found.index) >= 0)


@pytest.mark.parametrize("goal", [None, reached])
def test_the_best_at_each_lambda_path_is_on_it(goal):
    task, originals = grid()
    task, originals = task.replace(goal=goal), originals[list(range(8))]
    found = exact_frontier(task, originals, Config(lambda_policy=0.1))
    for lambda_path in (0.0, 0.1, 1.0, 10.0, 100.0, 1e4):
        best = exact(task, originals, Config(lambda_path=lambda_path, lambda_policy=0.1))
        reward = np.full(len(originals), -np.inf)
        np.maximum.at(reward, found.index, found.value + lambda_path / (found.scores.distance + 1))
        np.testing.assert_allclose(reward, best.reward, rtol=1e-6)


def test_no_path_no_row():
    task, originals = grid()
    found = exact_frontier(task.replace(goal=at_least(1e6)), originals, Config())
    assert len(found.index) == len(found.value) == len(found.paths) == 0
    with pytest.raises(ValueError, match="max_edits: expected at least 0, got -1"):
        exact_frontier(task, originals, Config(), max_edits=-1)


@pytest.mark.slow
def test_an_original_alone_has_the_same_frontier():
    task, originals = grid()
    together = exact_frontier(task, originals, Config())
    alone = exact_frontier(task, originals[5], Config())
    rows = np.flatnonzero(together.index == 5)
    np.testing.assert_array_equal(alone.value, together.value[rows])
    for one, other in zip(jax.tree.leaves(alone.scores), jax.tree.leaves(together.scores), strict=True):
        np.testing.assert_array_equal(one, other[rows])
