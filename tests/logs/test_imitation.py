"""P_A from demonstrations: everyone's habits as a prior, weighed as held-out paths say."""

import collections

import numpy as np
import pytest
from log_walks import NAMED, WALKS, walks

from pprjax.logs.fit import fit_log
from pprjax.logs.imitation import SMOOTHINGS, held_out_log_likelihood, shared_policy, smoothed
from pprjax.logs.log import held_out
from pprjax.logs.read import read_log


def test_the_smoothing_of_the_highest_held_out_likelihood_is_chosen():
    fitted = fit_log(read_log(walks(400, 1), NAMED), "state=garden")
    assert set(fitted.likelihoods) == set(SMOOTHINGS)
    assert fitted.likelihoods[fitted.smoothing] == max(fitted.likelihoods.values())
    assert fit_log(read_log(WALKS, NAMED), smoothing=7.0).smoothing == 7.0


def test_an_agent_with_few_steps_acts_like_everyone_and_one_with_many_like_itself():
    state = np.array([0, 0, 1])
    shared = shared_policy(np.array([50, 50, 10]), state)
    np.testing.assert_allclose(shared, [0.5, 0.5, 1.0])
    np.testing.assert_allclose(smoothed(np.zeros(3, int), np.zeros(3, int), shared, 3.0), shared)
    own = smoothed(np.array([3000, 0, 0]), np.array([3000, 3000, 0]), shared, 3.0)
    assert own[0] == pytest.approx((3000 + 1.5) / 3003)
    mean = held_out_log_likelihood(np.array([3]), np.array([4]), np.array([0.5]), np.array([7]), 2.0)
    assert mean == pytest.approx(np.log(4 / 6))


def test_everyone_counts_one_step_more_spread_over_the_actions_taken_there():
    shared = shared_policy(np.array([3, 1, 2]), np.array([0, 0, 4]))
    np.testing.assert_allclose(shared, [3.5 / 5, 1.5 / 5, 1.0])


def test_a_smoothing_is_judged_by_paths_that_it_was_not_counted_from():
    log = read_log(walks(200, 1), NAMED)
    fitted = fit_log(log)
    own, all_agents, held = collections.Counter(), collections.Counter(), []
    for frame in log.frames():
        for path in frame.with_columns(held=held_out()).iter_rows(named=True):
            for step in zip(path["states"], path["actions"], strict=False):
                if path["held"]:
                    held.append((path["agent"], *step))
                else:
                    own[path["agent"], *step] += 1
                    all_agents[step] += 1
    assert 50 < len(held) < 200
    for m, likelihood in fitted.likelihoods.items():
        logs = []
        for agent, state, action in held:
            valid = {a: n for (s, a), n in all_agents.items() if s == state}
            if action not in valid:
                continue
            prior = (valid[action] + 1 / len(valid)) / (sum(valid.values()) + 1)
            rows = sum(own[agent, state, a] for a in valid)
            logs.append(np.log((own[agent, state, action] + m * prior) / (rows + m)))
        assert likelihood == pytest.approx(np.mean(logs))


def test_what_nobody_else_did_and_what_was_not_held_out_say_nothing():
    trained, total = np.array([3, 0, 0]), np.array([4, 4, 4])
    shared, held = np.array([0.5, 0.0, 0.25]), np.array([2, 5, 0])
    found = held_out_log_likelihood(trained, total, shared, held, 1.0)
    assert found == pytest.approx(np.log((3 + 0.5) / (4 + 1)))
