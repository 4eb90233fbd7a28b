"""No step of a recourse costs more than it may: beside every path that the log knows."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from log_walks import NAMED, SMALL, WALKS, regrets_of, walks

import pprjax
from pprjax.cli import main
from pprjax.edit_distance import levenshtein
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import Search, recourse_frame
from pprjax.logs.read import read_log

CONFIG = pprjax.Config(lambda_path=2.0, lambda_policy=0.3)
LOG = read_log(WALKS.drop("action", "reward"))
MOST = 1.0


def ways(costs, path, goal, left, most):
    """Every way on to the goal, with what it costs."""
    if path[-1] == goal:
        yield path, 0.0
    elif left:
        for (state, next_state), cost in costs.items():
            if state == path[-1] and -cost <= most:
                for way, rest in ways(costs, (*path, next_state), goal, left - 1, most):
                    yield way, cost + rest


def best_reward(fitted, row, most):
    """R of the best path that the log knows, by trying all."""
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    original = [number[s] for s in row["original"]]
    costs = regrets_of(fitted, fitted.agents.tolist().index(row["agent"]))
    rewards = [
        CONFIG.lambda_path / (1 + int(levenshtein(original, list(way)))) + CONFIG.lambda_policy * cost
        for way, cost in ways(costs, (original[0],), number["garden"], fitted.max_steps, most)
    ]
    return max(rewards, default=None)


@pytest.mark.parametrize("method", ["auto", "search"])
@pytest.mark.parametrize("most", [0.5, MOST, 1.7, 2.5])
def test_the_best_of_all_paths_without_dear_steps_is_found(most, method):
    fitted = fit_log(LOG, "state=garden", smoothing=1.0, max_regret=most, max_steps=6)  # few enough to try all
    paths = pl.concat(list(LOG.frames())).sort("agent", "path")[::3]  # of both agents
    found = recourse_frame(fitted, paths, CONFIG, Search(method)).filter(pl.col("status") != "met")
    assert found.height > 5
    assert (found["status"] == "infeasible").any() == (most < 1.6)  # none at all, where the door is too dear
    for row in found.iter_rows(named=True):
        best = best_reward(fitted, row, most)
        assert row["reward"] == (None if best is None else pytest.approx(best, abs=1e-5))
        assert row["gap"] == (None if best is None else 0.0)
        if best is None:
            assert row["status"] == "infeasible"
            assert row["reason"] == (
                "no path of this world reaches the goal from here, in at most 6 steps, each at least "
                f"{np.exp(-most):.2g} times as likely as what its agent does most there"
            )


def test_the_bound_changes_answers_and_none_is_no_bound():
    paths = pl.concat(list(LOG.frames()))
    free, bounded, loose = (
        recourse_frame(fit_log(LOG, "state=garden", smoothing=1.0, max_regret=most), paths, CONFIG)
        for most in (None, MOST, 100.0)
    )
    assert free.equals(loose)
    assert not free["recourse"].equals(bounded["recourse"])


@pytest.mark.slow
def test_a_learned_recourse_takes_no_dear_step():
    """Where chance decides as well, and with several agents, each of which has its own habits."""
    sometimes = (pl.int_range(pl.len()) % 7 == 0) & pl.col("action").is_not_null()
    chance = walks(80, 3).with_columns(pl.when(sometimes).then(pl.lit("forth")).otherwise("action").alias("action"))
    for log in (LOG, read_log(chance, NAMED)):
        fitted = fit_log(log, "state=garden", smoothing=1.0, max_regret=MOST)
        paths = pl.concat(list(log.frames())).sort("path")[:8]
        small = dataclasses.replace(SMALL, habit="regret")
        found = recourse_frame(fitted, paths, small, Search("learn")).filter(pl.col("status") != "met")
        state, action = ({n: i for i, n in enumerate(names.tolist())} for names in (fitted.states, fitted.actions))
        steps, checked = fitted.steps, 0
        for row in found.iter_rows(named=True):
            probs = fitted.probs(fitted.agents.tolist().index(row["agent"]))
            for name, done in zip(row["recourse"], row["actions"], strict=False):
                rows = int(steps.numbers(np.array([state[name]]), np.array([action[done]]))[0])
                favourite = probs[steps.state == state[name]].max()
                assert np.log(favourite / probs[rows]) <= MOST + 1e-4
                checked += 1
        assert checked > 5


def test_free_own_steps_and_a_bound_are_an_error_that_names_both(tmp_path, capsys):
    said = 'own_steps, max_regret: "free", the default for logs, .* expected own_steps "charged" with it'
    fitted = fit_log(LOG, "state=garden", max_regret=MOST)
    with pytest.raises(pprjax.UserError, match=said):
        pprjax.recourse_log(fitted, LOG)
    with pytest.raises(pprjax.UserError, match="max_regret: expected a number of at least 0, got -1"):
        fit_log(LOG, max_regret=-1.0)
    WALKS.drop("action", "reward").write_csv(tmp_path / "log.csv")
    command = ["recourse", str(tmp_path / "log.csv"), "-o", str(tmp_path / "out.parquet"), "--goal", "state=garden"]
    assert main([*command, "--max-regret", "1"]) != 0
    assert "--own-steps charged" in capsys.readouterr().err
    assert main([*command, "--max-regret", "1", "--own-steps", "charged", "--lambda-path", "2"]) == 0
    fitted = fit_log(LOG, "state=garden", max_regret=MOST)
    expected = recourse_frame(fitted, pl.concat(list(LOG.frames())), CONFIG)
    found = pl.read_parquet(tmp_path / "out.parquet").sort("agent", "path")
    assert found["recourse"].to_list() == expected["recourse"].to_list()
