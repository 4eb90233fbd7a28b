"""Steps that the original took, charged or free: every method against every path there is, under both settings."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import GOALS, HORIZON, UNEVEN, Mdp, edit, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_road import CONFIG, KEY, NEXT_STATE, ORIGINALS, PROBS, REWARD, ring
from search_worlds import ALL, L, sequences

import pprjax
from pprjax.certify.frontier import exact_frontier
from pprjax.certify.optimum import exact
from pprjax.ladder import Wanted
from pprjax.reward import is_own, spared
from pprjax.search.points import search_points

FREE = CONFIG.replace(own_steps="free")
BOTH = pytest.mark.parametrize("own_steps", ["charged", "free"])


def regretful(seed):
    """A small random world under habit "regret"."""
    return Mdp(2 * seed)


def rungs(mdp, original, goal, config, own_steps):
    """{e: F(e)}, by looking at every path."""
    costs = dict(w_ins=config.w_ins, w_del=config.w_del, w_sub=config.w_sub)
    best = {}
    for states, earned, habit, _ in mdp.paths_beside(original, own_steps):
        if mdp.meets(goal, states[-1], earned, original):
            distance = int(edit(original, mdp.symbols[list(states)], costs))
            best[distance] = max(best.get(distance, -np.inf), earned + config.lambda_policy * habit)
    return best


def test_a_pair_of_symbols_is_free_wherever_and_however_often_it_is_gone():
    original = np.array([4, 7, 7, 2, -1, -1])
    before, after = np.array([4, 7, 7, 2, 7, 2, 4]), np.array([7, 7, 2, 4, 4, -1, 2])
    own = [True, True, True, False, False, True, False]  # nothing is in padding, so what "leads" there does not matter
    assert is_own(original, before, after).tolist() == own
    habits = -np.arange(1.0, 8.0)
    assert spared(habits, original, before, after, "free").tolist() == [0, 0, 0, -4, -5, 0, -7]
    assert spared(habits, original, before, after, "charged").tolist() == habits.tolist()
    assert not is_own(np.array([4]), before, after).any()  # a start alone has no step


def test_what_pays_can_not_be_free():
    task, paths = ring(), pprjax.Paths.from_lists(ORIGINALS)
    config = FREE.replace(habit="link")
    for solve in (pprjax.recourse, pprjax.frontier, exact, exact_frontier):
        with pytest.raises(ValueError, match='own_steps: "free" takes away .* habit "link" pays'):
            solve(task, paths, config)
    with pytest.raises(ValueError, match="own_steps"):
        pprjax.score(task, paths, paths, config)
    with pytest.raises(ValueError, match="own_steps: expected one of charged, free, got 'cheap'"):
        pprjax.recourse(task, paths, CONFIG.replace(own_steps="cheap"))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    lambda_policy=lambdas,
    lambda_path=lambdas,
)
def test_certificates_are_those_of_all_paths_and_free_steps_never_worth_less(
    seed, goal, costs, lambda_policy, lambda_path
):
    mdp = regretful(seed)
    task, paths = mdp.task(GOALS[goal]), pprjax.Paths.from_lists(mdp.originals)
    front = {}
    for own_steps in ("charged", "free"):
        config = pprjax.Config(lambda_path=lambda_path, lambda_policy=lambda_policy, own_steps=own_steps, **costs)
        found, best = exact_frontier(task, paths, config), exact(task, paths, config)
        for b, original in enumerate(mdp.originals):
            truth = rungs(mdp, original, goal, config, own_steps)
            rows = np.flatnonzero(found.path == b)
            assert len(rows) or not truth
            front[own_steps, b] = np.full(40, -np.inf)
            front[own_steps, b][found.distance[rows]] = found.value[rows]
            for e in range(40):
                most = max((v for d, v in truth.items() if d <= e), default=-np.inf)
                np.testing.assert_allclose(front[own_steps, b][: e + 1].max(), most, rtol=1e-5, atol=1e-5)
            expected = max((v + lambda_path / (d + 1) for d, v in truth.items()), default=-np.inf)
            np.testing.assert_allclose(best.reward[b], expected, rtol=1e-5, atol=1e-5)
        if (best.reward > -np.inf).all():
            scores = pprjax.score(task, paths, best.paths, config)
            np.testing.assert_allclose(scores.r_policy, best.scores.r_policy, rtol=1e-4, atol=1e-4)
    for b in range(len(mdp.originals)):
        charged, free = (np.maximum.accumulate(front[own_steps, b]) for own_steps in ("charged", "free"))
        assert (free >= charged - 1e-5 * (1 + np.abs(np.where(np.isfinite(charged), charged, 0)))).all()
