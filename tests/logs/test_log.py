"""Logs: read whole, in any order and form; bad rows cost their own path; the answer is certified or learned."""

import dataclasses
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import log_walks
import numpy as np
import pandas
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_walks import CONFIG, NAMED, ROOMS, SMALL, WALKS, answers
from pprjax_envs import gridworld

import pprjax
from pprjax.commands import show
from pprjax.finite_world import tabulate
from pprjax.logs import chunks, jobs
from pprjax.logs.chunks import Job
from pprjax.logs.fit import ROOM, fit_log
from pprjax.logs.frames import Search, recourse_frame, recourse_log
from pprjax.logs.read import Columns, read_log


def answer(frame, goal="state=garden", config=CONFIG, **names):
    log = read_log(frame, dataclasses.replace(NAMED, **names))
    return recourse_log(fit_log(log, goal, deterministic=True), log, config)


@pytest.fixture(scope="module")
def expected():
    return answer(WALKS)


def test_a_recourse_reaches_the_goal_and_is_the_certified_best(expected):
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, "state=garden", deterministic=True)
    assert fitted.states.tolist() == sorted([*ROOMS, "garden"])
    met = WALKS.filter(state="garden")["path"].to_list()
    assert expected.filter(status="met")["path"].sort().to_list() == sorted(met)
    todo = expected.filter(pl.col("status") != "met")
    assert todo.height > 10
    assert set(todo["status"]) == {"reached_goal"}
    assert all(row[-1] == "garden" for row in todo["recourse"])
    assert set(todo["gap"]) == {0.0}
    assert set(todo["probability"]) == {1.0}
    # again, one by one, by the library
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    for row in todo.iter_rows(named=True):
        agent = fitted.agents.tolist().index(row["agent"])
        original = pprjax.Paths.from_lists([[number[s] for s in row["original"]]])
        best = pprjax.exact(fitted.task(agent, number[row["original"][0]]), original, CONFIG)
        assert row["reward"] == pytest.approx(best.reward[0])
        assert len(row["edits"]) - row["edits"].count("-") == len(row["recourse"])
        assert sum(e != "=" for e in row["edits"]) == row["distance"]


def test_counts_give_the_world_and_the_agents():
    fitted = fit_log(read_log(WALKS, NAMED), "state=garden")
    states, actions = fitted.states.tolist(), fitted.actions.tolist()
    next_state, reward = fitted.steps.next_state(), fitted.steps.table(fitted.steps.reward, 0.0)
    for i, room in enumerate(ROOMS):
        for action, step in (("forth", 1), ("back", -1)):
            valid = next_state[states.index(room), actions.index(action)]
            taken = WALKS.filter(state=room, action=action).height
            assert valid == (states.index(ROOMS[(i + step) % 5]) if taken else -1)
    assert reward[states.index("hall"), actions.index("door")] == 10.0
    assert fitted.terminal.tolist() == [s == "garden" for s in states]
    for number, agent in enumerate(fitted.agents.tolist()):
        rows = fitted.steps.table(fitted.counts_of(number), 0)
        for s, state in enumerate(states):
            for a, action in enumerate(actions):
                assert rows[s, a] == WALKS.filter(agent=agent, state=state, action=action).height
        np.testing.assert_allclose(fitted.world_probs(number).sum(1), 1.0)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["frame", "csv", "jsonl", "parquet", "folder", "pandas"]))
def test_neither_order_nor_names_nor_form_matter(expected, tmp_path_factory, seed, form):
    frame = WALKS.sample(fraction=1.0, shuffle=True, seed=seed)
    frame = frame.rename({"agent": "who", "path": "trip", "step": "nr", "state": "place"})
    names = {"agent": "who", "path": "trip", "step": "nr", "state": "place"}
    folder = tmp_path_factory.mktemp("log")
    source = frame
    if form == "pandas":
        source = pandas.DataFrame(frame.to_dict(as_series=False))
    elif form == "folder":
        frame[:40].write_csv(folder / "a.csv")
        frame[40:].write_parquet(folder / "b.parquet")
        source = folder
    elif form != "frame":
        source = folder / f"log.{form}"
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[form](source)
    found = answer(source, **names)
    if form == "pandas":
        assert type(found).__module__.startswith("pandas")
        columns = {c: [None if x != x else x for x in found[c].tolist()] for c in found.columns}  # NaN where it lacks
        found = pl.DataFrame(columns, strict=False).cast(expected.schema)
    assert found.equals(expected)


BAD = """agent,path,step,state,action,reward
a,good,0,x,go,1
a,good,1,y,,
a,number,0,x,go,NaN
a,number,1,y,,
a,hole,0,x,go,1
a,hole,2,y,,
a,twice,0,x,go,1
a,twice,0,y,go,1
a,short,0,x,,
a,nowhere,0,NaN,go,1
a,nowhere,1,y,,
a,lazy,0,x,,1
a,lazy,1,y,,
a,words,zero,x,go,1
,lost,0,x,go,1
a,ragged,0
"""


def test_a_bad_row_is_reported_by_line_and_costs_its_own_path(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(BAD)
    log = read_log(file, NAMED)
    assert dict(next(log.frames()).select("path", "states").iter_rows()) == {
        "good": ["x", "y"],
        "twice": ["x", "y", "end after go in y"],  # equal steps keep the order of their rows
        "short": ["x"],
    }
    said = {(row["line"], row["path"]): row["reason"] for row in log.rejected.iter_rows(named=True)}
    assert said == {
        (4, "number"): "reward: missing",
        (7, "hole"): "step 2 comes after 0: expected no gap",
        (11, "nowhere"): "state: expected a state, got nothing",
        (13, "lazy"): "action: missing",
        (15, "words"): "step: expected a number, a date or an ISO 8601 time, got zero",
        (16, "lost"): "agent: expected an agent, got nothing",
        (17, "ragged"): "state: expected a state, got nothing",
    }
    with pytest.raises(ValueError, match=r"log.csv, line 4: reward: missing"):
        read_log(file, NAMED, strict=True)
    nan = WALKS.with_columns(reward=pl.when(path="p3", step=0).then(float("nan")).otherwise("reward"))
    assert read_log(nan, NAMED).rejected["reason"].to_list() == ["reward: expected a number, got NaN"]


def test_times_order_a_path_and_leave_no_gaps():
    start = datetime.datetime(2024, 2, 28)
    hours = pl.lit(start) + pl.duration(hours=17 * pl.col("step"))
    timed = read_log(WALKS.with_columns(step=hours), NAMED)
    assert timed.rejected.height == 0
    assert timed.counts.drop("first").equals(read_log(WALKS, NAMED).counts.drop("first"))


def test_a_path_is_good_or_bad_and_not_both(tmp_path):
    labels = ["Yes", "yes", "no", "0", "true", "false", "maybe", "maybe"]
    rows = [(f"p{i // 2}", i % 2, "x", label) for i, label in enumerate(labels)]
    frame = pl.DataFrame(rows, schema=["path", "step", "state", "good"], orient="row").with_columns(agent=pl.lit("ann"))
    log = read_log(frame, Columns(good="good"))
    assert dict(next(log.frames()).select("path", "good").iter_rows()) == {"p0": True, "p1": False}
    assert log.rejected.select("path", "reason").rows() == [
        ("p2", "the path is labelled both good and bad"),
        ("p3", "good: expected true or false, got maybe"),
        ("p3", "good: expected true or false, got maybe"),
    ]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="agent: frame has no column 'who'; it has 'agent', 'path'"):
        read_log(WALKS, Columns(agent="who"))
    with pytest.raises(ValueError, match="there is no file"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"ends in .csv, .jsonl"):
        read_log(tmp_path / "log.xlsx")
    with pytest.raises(ValueError, match="one state alone: expected a path of two at least"):
        read_log(WALKS.filter(step=0))
    with pytest.raises(ValueError, match=r"1 rows were rejected; the first, frame, row 0: state: expected a state"):
        read_log(WALKS[:1].with_columns(state=pl.lit(None, pl.String)))
    log = read_log(WALKS, NAMED)
    for goal, said in {
        "state=moon": "visits the state 'moon'; the log has 6 states, such as 'attic', 'bath' and 'cellar'$",
        "state=Gardn": r"the state 'Gardn'; did you mean 'garden'\? The log has 6 states$",
        "garden": r"got 'garden'; did you mean state=garden\?$",
        "garden, avoids=den": r"between commas, got 'garden'; did you mean state=garden\?$",
        "reward>=much": "a number after reward>=, got 'much'",
        "good": "needs a column of labels",
        "win": 'expected "state=X", "ends=X", "visits=X", "avoids=X", "reward>=x" or "good", got \'win\'$',
    }.items():
        with pytest.raises(ValueError, match=said):
            fit_log(log, goal)
    with pytest.raises(ValueError, match="needs a column of rewards"):
        fit_log(read_log(WALKS, Columns(action="action")), "reward>=7")
    with pytest.raises(ValueError, match="smoothing: expected a finite number above 0, got -1"):
        fit_log(log, smoothing=-1)


def test_without_actions_the_action_is_the_next_state():
    log = read_log(WALKS)
    fitted = fit_log(log, "state=garden")
    assert set(fitted.actions) == set(fitted.states)
    steps = fitted.steps
    assert (fitted.states[steps.target] == fitted.actions[steps.action]).all()
    assert fitted.env.num_actions == np.bincount(steps.state).max() < len(fitted.actions)


def test_a_reward_goal_and_a_label_are_met():
    found = answer(WALKS, "reward>=8")
    todo = found.filter(pl.col("status") != "met")
    assert (found.filter(status="met")["reward_before"] >= 8).all()
    assert (todo["reward_before"] < 8).all()
    assert (todo["reward_after"] >= 8).all()
    none = answer(WALKS, "reward>=1000")
    assert set(none["status"]) == {"infeasible"}
    assert none.select("gap", "reward", "probability", "edits").null_count().row(0) == (60,) * 4
    most = WALKS["step"].max() + ROOM
    assert set(none["reason"]) == {f"no path of this world reaches the goal from here, in at most {most} steps"}
    assert none["recourse"].list.len().max() == 0
    labelled = WALKS.with_columns(good=(pl.col("state") == "garden").any().over("agent", "path"))
    log = read_log(labelled, dataclasses.replace(NAMED, good="good"))
    fitted = fit_log(log, "good", deterministic=True)
    assert fitted.states[fitted.ends].tolist() == ["garden"]
    assert fitted.goal_accuracy == 1.0
    assert recourse_log(fitted, log, CONFIG).equals(answer(WALKS))


def test_chance_is_seen_and_is_learned_not_certified():
    slips = pl.concat(
        [WALKS, WALKS.with_columns(path="s" + pl.col("path"), state=pl.col("state").replace("den", "bath"))]
    )
    log = read_log(slips, NAMED)
    fitted = fit_log(log, "state=garden")
    np.testing.assert_allclose(fitted.transition.sum(2)[fitted.transition.any(2)], 1.0)
    few = next(log.frames()).filter(~pl.col("states").list.contains("garden"), agent="bob")[:2]  # one program
    with pytest.raises(ValueError, match="method: chance decides"):
        recourse_frame(fitted, few, CONFIG, Search("exact"))
    found = recourse_frame(fitted, few, SMALL)
    assert found.height == 2
    number = [{name: i for i, name in enumerate(names.tolist())} for names in (fitted.states, fitted.actions)]
    for row in found.iter_rows(named=True):
        states, actions = ([table[x] for x in row[c]] for table, c in zip(number, ("recourse", "actions"), strict=True))
        likely = [fitted.transition[s, a, n] for s, a, n in zip(states, actions, states[1:], strict=False)]
        assert row["probability"] == pytest.approx(np.prod(likely))
    assert set(found["method"]) == {"learn"}
    assert found["gap"].null_count() == found.height


def test_the_drivers_are_recovered_from_their_own_logs():
    """KL(P_A, estimate), weighted by how often a state is visited, from 1,000 paths each."""
    env = gridworld.task().env
    frames, tables = [], {}
    for driver in ("experienced", "newbie"):
        tables[driver] = tabulate(pprjax.Task(env, gridworld.agent(env, driver)))
        frames.append(simulated(tables[driver], driver, 1000, np.random.default_rng(0)))
    log = read_log(pl.concat(frames), NAMED)
    fitted = fit_log(log)
    for number, driver in enumerate(fitted.agents.tolist()):
        table = tables[driver]
        truth = np.exp(table.log_prob)
        row = {int(i): r for r, i in enumerate(table.state_id) if not table.ended[r]}
        counts, probs = fitted.steps.table(fitted.counts_of(number), 0), fitted.world_probs(number)
        kl = 0.0
        for s, name in enumerate(fitted.states.tolist()):
            p = truth[row[name]] if name in row and counts[s].sum() else None
            if p is not None:
                q = np.array(
                    [probs[s, fitted.actions.tolist().index(a)] if a in fitted.actions else 0 for a in range(len(p))]
                )
                valid = p > 0
                kl += counts[s].sum() * (p[valid] * np.log(p[valid] / np.maximum(q[valid], 1e-12))).sum()
        assert kl / counts.sum() <= 0.05


def simulated(table, agent, num, rng):
    """Paths of an agent that follows P_A, 27 actions at most."""
    row, rows = np.zeros(num, int), []
    going = np.ones(num, bool)
    for step in range(28):
        probs = np.where(table.next_state[row] >= 0, np.exp(table.log_prob[row]), 0.0)
        ends = going & (table.ended[row] | (step == 27))
        acts = going & ~ends
        total = probs.cumsum(1)
        action = (rng.random(num)[:, None] * np.maximum(total[:, -1:], 1e-9) > total).sum(1)
        action = np.minimum(action, probs.shape[1] - 1)
        here = pl.DataFrame({"path": np.arange(num), "step": step, "state": table.state_id[row], "action": action})
        here = here.with_columns(reward=pl.Series(table.reward[row, action].astype(float)), agent=pl.lit(agent))
        gone = pl.Series(ends)
        rows.append(here.with_columns(action=pl.when(~gone).then("action")).filter(pl.Series(acts | ends)))
        going = acts
        row = np.where(acts, table.next_state[row, action], row)
    return pl.concat(rows)


def run(tmp_path, out, **options):
    return jobs.run(log_walks.job(tmp_path, out.name, **options), progress=False)


def test_a_run_writes_one_row_a_path_and_what_it_learned(tmp_path, expected):
    out = tmp_path / "out.parquet"
    done = run(tmp_path, out)
    assert pl.read_parquet(out).sort("agent", "path").equals(expected)
    assert done["num_paths"] == 60
    assert sum(done["status"].values()) == 60
    assert not (tmp_path / "out.parquet.work").exists()
    fit = json.loads((tmp_path / "out.parquet.fit" / "fit.json").read_text())
    assert fit["num_states"] == 6
    policies = pl.read_parquet(tmp_path / "out.parquet.fit" / "policies.parquet")
    assert policies["count"].sum() == WALKS["action"].is_not_null().sum()


def test_show_draws_a_recourse_and_says_why_a_path_is_not_there(tmp_path, capsys):
    torn = WALKS.head(1).with_columns(path=pl.lit("torn"), state=pl.lit(None, pl.String))
    pl.concat([WALKS, torn]).write_csv(tmp_path / "log.csv")
    run(tmp_path, tmp_path / "out.parquet")
    edited = (
        pl.read_parquet(tmp_path / "out.parquet")
        .filter(pl.col("edits").str.contains("+", literal=True))
        .row(0, named=True)
    )
    show.main(tmp_path / "out.parquet", path=edited["path"])
    drawn = capsys.readouterr().out
    assert f"path {edited['path']} of agent {edited['agent']}: reached_goal" in drawn
    assert drawn.count("inserted") == edited["edits"].count("+")
    near = f" {edited['path'].upper()}", rf"; did you mean '{edited['path']}'\?$"
    for path, said in (("torn", r"; it was rejected, line \d+: state: "), ("nowhere", "$"), near):
        with pytest.raises(ValueError, match=f"no path '{path}'{said}"):
            show.main(tmp_path / "out.parquet", path=path)


def test_a_run_that_died_goes_on_where_it_was(tmp_path, expected, monkeypatch):
    out, calls = tmp_path / "out.parquet", []
    solve = chunks.answered

    def dies(fitted, paths, *rest, **options):
        calls.append(paths["path"].to_list())
        if len(calls) == 3:
            raise MemoryError
        return solve(fitted, paths, *rest, **options)

    monkeypatch.setattr(chunks, "answered", dies)
    with pytest.raises(MemoryError):
        run(tmp_path, out)
    assert not out.exists()
    with pytest.raises(ValueError, match="of other options; remove it to start anew"):
        run(tmp_path, out, search=Search(seed=1))
    run(tmp_path, out)
    done = sorted(path for call in calls[:2] + calls[3:] for path in call)
    assert done == sorted(expected["path"].to_list())  # nothing twice, nothing lost
    assert pl.read_parquet(out).sort("agent", "path").equals(expected)


def test_a_mistake_leaves_nothing_in_the_way(tmp_path):
    with pytest.raises(ValueError, match="method: chance"):
        slips = tmp_path / "slips.csv"
        pl.concat([WALKS, WALKS.with_columns(path="s" + pl.col("path"), state=pl.lit("den"))]).write_csv(slips)
        jobs.run(Job(slips, tmp_path / "slips.parquet", NAMED, search=Search("exact")), progress=False)
    assert not (tmp_path / "slips.parquet.work").exists()  # a mistake stands in nobody's way


@pytest.mark.slow
def test_rows_do_not_depend_on_the_chunk_they_stand_in_nor_on_the_number_of_devices(expected, tmp_path):
    command = [sys.executable, str(Path(log_walks.__file__)), str(tmp_path)]
    two = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"}
    with subprocess.Popen(command, env=two, stdout=subprocess.PIPE, text=True) as other:
        log = read_log(WALKS, NAMED)
        fitted = fit_log(log, "state=garden", deterministic=True)
        paths = pl.concat(list(log.frames()))
        alone = pl.concat([recourse_frame(fitted, paths[i : i + 7], CONFIG) for i in range(0, len(paths), 7)])
        assert alone.sort("agent", "path").equals(expected)
        found = answers()
        learned = found["learn"]
        last = paths.filter(agent="ada", path=learned["path"][-1])
        again = recourse_frame(fitted, last, SMALL, Search("learn"))
        assert learned[-1:].equals(again)
        for noise in ("fresh", "observed"):  # where nothing is left to chance it says the same
            same = recourse_frame(fitted, last, SMALL, Search("learn", noise))
            assert same.equals(again)
        assert other.communicate()[0] == "2\n"
    assert jax.local_device_count() == 1
    for name, frame in found.items():
        assert frame["method"].drop_nulls().unique().to_list() == [name]
        assert pl.read_parquet(tmp_path / f"{name}.parquet").equals(frame)


def test_one_of_the_longest_paths_has_room_for_its_edits():
    """As long as the longest path, its recourse would have to leave out the search."""
    pages = [(0, "home search item cart exit"), (1, "home item cart pay thanks")]
    rows = [(name, step, page) for name, path in pages for step, page in enumerate(path.split())]
    log = read_log(pl.DataFrame(rows, schema=["path", "step", "state"], orient="row"))
    found, short = (recourse_log(fit_log(log, "state=thanks", max_steps=most), log)[0] for most in (None, 4))
    assert found["recourse"].to_list() == [["home", "search", "item", "cart", "pay", "thanks"]]
    assert short["recourse"].to_list() == [["home", "item", "cart", "pay", "thanks"]]
    assert found["gap"].item() == short["gap"].item() == 0.0
