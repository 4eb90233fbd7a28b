"""Logs of many states: nothing takes more than their distinct steps, and what is not proved says so."""

import dataclasses

import jax
import numpy as np
import polars as pl
import pytest
from log_walks import NAMED, SMALL, WALKS, job

import pprjax
from pprjax.logs import chunks, jobs, steps
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import LOG_CONFIG, Search, recourse_frame
from pprjax.logs.read import read_log
from pprjax.ragged import Ragged

PAGES = 9_000


def visits(num_pages):
    """Visits of three pages each, after one start page; every fifth ends with an order."""
    rows = []
    for visit in range(num_pages // 3):
        pages = [f"page{3 * visit + i}" for i in range(3)]
        states = [state for page in pages for state in ("start", page)]
        rows += [(visit, state) for state in [*states, "start", "leave" if visit % 5 else "order"]]
    return read_log(pl.DataFrame(rows, {"path": pl.Int32, "state": pl.String}, orient="row"))


@pytest.fixture(scope="module")
def hub():
    return visits(PAGES)


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
    task = fitted.task(0, fitted.states.tolist().index("start"))
    assert task.num_actions == PAGES + 2
    assert sum(np.asarray(x).nbytes for x in jax.tree.leaves(task)) < 2**20  # a table of states and actions has 309 MiB


def luck(num_pages):
    """Visits in which chance decides: a search leads from the start to any page, and "on" from there back or away."""
    rows = []
    for visit in range(num_pages // 3):
        pages = [f"page{3 * visit + i}" for i in range(3)]
        states = [state for page in pages for state in ("start", page)]
        rows += [(visit, state, "search" if state == "start" else "on") for state in states]
        rows += [(visit, "leave" if visit % 5 else "order", None)]
        rows += [(num_pages + visit, "start", "search"), (num_pages + visit, pages[2], "on")]
        rows += [(num_pages + visit, "start", None)]
    return read_log(pl.DataFrame(rows, {"path": pl.Int32, "state": str, "action": str}, orient="row"), ACTED)


ACTED = pprjax.Columns(action="action")


@pytest.mark.parametrize("small_table", [2**20, 0], ids=["dense", "ragged"])
def test_where_chance_decides_memory_counts_what_occurs(small_table, monkeypatch):
    """One step leads to 3,000 states, the others to one or two."""
    monkeypatch.setattr(steps, "SMALL_TABLE", small_table)
    pages = 3_000
    log = luck(pages)
    fitted = fit_log(log, "visits=page5, state=order")
    occurs = pages + 2 * pages // 3 + 2 * pages // 3  # of the search, of two pages of each visit, and of the last ones
    assert len(fitted.successors.states) == occurs
    task = fitted.task(0, fitted.states.tolist().index("start"))
    assert not task.deterministic
    assert len(task.params.successors.states) == 2 * occurs  # as it remembers the page or not
    assert sum(np.asarray(x).size for x in jax.tree.leaves(task)) < 20 * occurs  # a table of K each: 72 million


@pytest.mark.slow
def test_where_chance_decides_a_hub_is_learned_in(monkeypatch):
    monkeypatch.setattr(steps, "SMALL_TABLE", 0)
    log = luck(3_000)
    fitted = fit_log(log, "state=order")
    assert isinstance(fitted.env.default_params.next_state, Ragged)
    few = next(log.frames()).filter(pl.col("states").list.last() == "leave").sort("path")[:1]
    tiny = dataclasses.replace(SMALL, own_steps="free", habit="regret", iterations=2, num_paths=8, num_best=2)
    found = recourse_frame(fitted, few, tiny, Search("learn")).row(0, named=True)
    assert len(found["recourse"]) > 1
    shares = dict(zip(zip(*fitted_steps(fitted), strict=True), fitted.steps.chances["share"], strict=True))
    here = zip(found["recourse"], found["actions"], found["recourse"][1:], strict=False)
    assert found["probability"] == pytest.approx(np.prod([shares[step] for step in here]), rel=1e-5)


def fitted_steps(fitted):
    """State, action and next state of all that chance may do, by name."""
    step, target = (fitted.steps.chances[c].to_numpy() for c in ("step", "target"))
    return (
        fitted.states[fitted.steps.state[step]].tolist(),
        fitted.actions[fitted.steps.action[step]].tolist(),
        fitted.states[target].tolist(),
    )


@pytest.mark.slow
def test_a_hub_is_learned_in_and_searched_in():
    log = visits(1_200)
    fitted = fit_log(log, "state=order")
    assert isinstance(fitted.world_probs(0), Ragged)
    few = next(log.frames()).filter(pl.col("states").list.last() == "leave").sort("path")[:1]
    tiny = dataclasses.replace(SMALL, own_steps="free", habit="regret", iterations=2, num_paths=8, num_best=2)
    learned = recourse_frame(fitted, few, tiny, search=Search("learn"))
    assert set(learned["status"]) <= {"reached_goal", "missed_goal", "cut"}
    for row in learned.iter_rows(named=True):
        assert row["actions"] == row["recourse"][1:]
    searched = recourse_frame(fitted, few, LOG_CONFIG, search=Search("search", calls=20_000))
    assert set(searched["edits"]) == {"=======~"}


UNACTED = read_log(WALKS.drop("action", "reward"))


@pytest.mark.parametrize(
    ("log", "goal", "rules", "method"),
    [
        pytest.param(read_log(WALKS, NAMED), "reward>=4", (), "search", id="reward"),
        *(
            pytest.param(log, *asked, id=name, marks=pytest.mark.slow)
            for name, log, *asked in (
                ("rule", read_log(WALKS, NAMED), "visits=cellar, state=garden", ("response(attic, hall)",), "learn"),
                ("visits", UNACTED, "visits=cellar, state=garden", (), "learn"),
                ("searched rule", UNACTED, "state=garden", ("absence(den)",), "search"),
            )
        ),
    ],
)
def test_a_log_that_is_ragged_is_answered_as_a_dense_one(log, goal, rules, method, monkeypatch):
    """To the bit, but where a column of actions becomes one of ranks: there the learner's network is another."""
    fitted = fit_log(log, goal, deterministic=True, rules=rules)
    config = dataclasses.replace(SMALL, own_steps="free", habit="regret")
    paths = pl.concat(list(log.frames())).sort("agent", "path")[:6]
    dense = recourse_frame(fitted, paths, config, Search(method))
    monkeypatch.setattr(steps, "SMALL_TABLE", 0)
    fitted = fit_log(log, goal, deterministic=True, rules=rules)
    assert isinstance(fitted.world_probs(0), Ragged)
    ragged = recourse_frame(fitted, paths, config, Search(method))
    same = ["status", "reward", "gap"] if log.acted else ragged.columns
    if method == "search" or not log.acted:
        assert ragged.select(same).equals(dense.select(same))
    listed = (x.tolist() for x in (fitted.steps.state, fitted.steps.action, fitted.steps.target))
    known = {(s, a): t for s, a, t in zip(*listed, strict=True)}
    state, action = ({name: i for i, name in enumerate(names.tolist())} for names in (fitted.states, fitted.actions))
    for row in ragged.filter(pl.col("status") != "met").iter_rows(named=True):
        here = [state[s] for s in row["recourse"]]
        assert [known[s, action[a]] for s, a in zip(here, row["actions"], strict=False)] == here[1:]


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
    for agent, members in found.group_by("agent"):
        rows = members.sort("path")[:8]
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
    valid = np.isfinite(reward)
    assert (reward[valid] + gap[valid] * (reward[valid] / (1 - gap[valid])) >= optimum[valid] - 1e-6).all()
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
