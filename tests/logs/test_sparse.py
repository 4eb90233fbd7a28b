"""Logs of many states: nothing takes more than their distinct steps, and what is not proved says so."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from log_walks import NAMED, WALKS, job

import pprjax
from pprjax.certify.limits import TooLargeError
from pprjax.logs import chunks, jobs
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import LOG_CONFIG, Search, recourse_frame
from pprjax.logs.read import read_log

PAGES = 9_000


@pytest.fixture(scope="module")
def hub():
    """Visits of three pages each, after one start page; every fifth ends with an order."""
    rows = []
    for visit in range(PAGES // 3):
        pages = [f"page{3 * visit + i}" for i in range(3)]
        states = [state for page in pages for state in ("start", page)]
        rows += [(visit, state) for state in [*states, "start", "leave" if visit % 5 else "order"]]
    return read_log(pl.DataFrame(rows, {"path": pl.Int32, "state": pl.String}, orient="row"))


def test_a_state_with_thousands_of_successors_makes_nothing_dense_of_the_others(hub):
    fitted = fit_log(hub, "state=order")
    assert len(fitted.states) == PAGES + 3
    for values in (fitted.steps.state, fitted.steps.reward, fitted.steps.shared, fitted.probs(0)):
        assert values.shape == (2 * PAGES + 2,)
    few = next(hub.frames()).filter(pl.col("states").list.last() == "leave").sort("path")[:20]
    found = recourse_frame(fitted, few, pprjax.Config(lambda_path=10.0, lambda_policy=0.01))
    assert set(found["status"]) == {"reached_goal"}
    assert set(found["gap"]) == {0.0}
    assert set(found["edits"]) == {"=======~"}  # as rare as each page is, its likes are no better
    with pytest.raises(TooLargeError, match=r"9,003 states and 9,002 actions, .* takes 0.3 GiB"):
        fitted.env  # noqa: B018
    learned = recourse_frame(fitted, few[:2], search=Search("learn"))
    assert set(learned["status"]) == {"failed"}
    assert learned["reason"].str.contains("GiB").all()


def test_rare_steps_of_a_path_are_kept_for_nothing(hub):
    """By default; charged, each page is too rare to be kept, and the best path is another one."""
    fitted = fit_log(hub, "state=order")
    few = next(hub.frames()).filter(pl.col("states").list.last() == "leave").sort("path")[:20]
    found, charged = (
        recourse_frame(fitted, few, dataclasses.replace(LOG_CONFIG, own_steps=own)) for own in ("free", "charged")
    )
    assert recourse_frame(fitted, few).equals(found)
    assert set(found["edits"]) == {"=======~"}
    assert set(charged["edits"].str.count_matches("=")) == {1}
    assert found["gap"].to_list() == charged["gap"].to_list() == [0.0] * len(few)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "rules", "habit", "own_steps"),
    [
        ("state=garden", (), "regret", "charged"),
        ("state=garden", (), "regret", "free"),
        ("visits=cellar, state=garden", ("response(attic, hall)",), "link", "charged"),
        ("visits=cellar, state=garden", ("response(attic, hall)",), "regret", "free"),
        (None, ("absence(den)",), "regret", "charged"),
        (None, ("absence(den)",), "regret", "free"),
    ],
)
def test_the_graph_of_a_log_answers_as_its_world_does(goal, rules, habit, own_steps):
    """Beside the dynamic programme over a table of the world, with what goals and rules remember."""
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, goal, deterministic=True, rules=rules)
    config = pprjax.Config(lambda_path=2.0, lambda_policy=0.3, habit=habit, own_steps=own_steps)
    found = recourse_frame(fitted, pl.concat(list(log.frames())), config).filter(pl.col("status") != "met")
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    for agent, mine in found.group_by("agent"):
        rows = mine.sort("path")[:8]
        originals = pprjax.Paths.from_lists([[number[s] for s in states] for states in rows["original"]])
        task = fitted.task(fitted.agents.tolist().index(agent[0]), number["attic"])
        best = pprjax.exact(task, originals, config)
        np.testing.assert_allclose(rows["reward"].fill_null(-np.inf).to_numpy(), best.reward, atol=1e-5)
        assert rows["status"].to_list() == best.status.tolist()
        np.testing.assert_allclose(
            rows["s_policy"].fill_null(np.nan).to_numpy(),
            np.where(best.reward > -np.inf, best.scores.policy, np.nan),
            atol=1e-5,
        )


def test_a_path_that_is_not_proved_says_how_much_better_another_may_be():
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, "state=garden", deterministic=True)
    paths = pl.concat(list(log.frames()))
    proved = recourse_frame(fitted, paths).filter(pl.col("status") != "met")
    found = recourse_frame(fitted, paths, search=Search(calls=30)).filter(pl.col("status") != "met")
    optimum, reward = proved["reward"].to_numpy(), found["reward"].fill_null(-np.inf).to_numpy()
    gap = found["gap"].fill_null(np.inf).to_numpy()
    assert set(found["method"]) == {"exact", "search"}
    assert ((gap == 0) == (found["method"].to_numpy() == "exact")).all()
    assert (reward <= optimum + 1e-6).all()
    there = np.isfinite(reward)
    assert (reward[there] + gap[there] * (reward[there] / (1 - gap[there])) >= optimum[there] - 1e-6).all()
    strict = recourse_frame(fitted, paths, search=Search("exact", calls=30)).filter(pl.col("status") != "met")
    failed = (strict["status"] == "failed").to_numpy()
    assert (failed == (gap > 0)).all()
    assert strict.filter(status="failed")["recourse"].list.len().max() == 0
    assert strict.filter(status="failed")["reason"].str.contains("not proved within 30 steps").all()


def test_chunks_hold_fewer_paths_where_they_are_long(tmp_path, monkeypatch):
    jobs.run(job(tmp_path, "all.parquet", chunk=1000))
    monkeypatch.setattr(chunks, "STATES", 40)
    layout = dataclasses.replace(job(tmp_path, "layout.parquet"), chunk=1000)
    chunks.begin(layout)
    assert len(list((layout.work / "chunks").iterdir())) > 5
    jobs.run(job(tmp_path, chunk=1000))
    every, cut = (pl.read_parquet(tmp_path / f"{name}.parquet").sort("agent", "path") for name in ("all", "out"))
    assert every.equals(cut)
