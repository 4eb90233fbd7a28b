"""The ladder of each path of a log: every number of edits that buys something, beside the answer that was chosen."""

import re

import numpy as np
import polars as pl
import pytest
from log_walks import CONFIG, NAMED, SMALL, WALKS, job
from rapidfuzz.distance import Levenshtein

import pprjax
from pprjax.certify import near
from pprjax.cli import main
from pprjax.commands import recourse
from pprjax.logs import jobs
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import Search, answered
from pprjax.logs.read import read_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ladders")


@pytest.fixture(scope="module", autouse=True)
def done(folder):
    return jobs.run(job(folder, search=Search(ladder=True)))


def test_the_rungs_of_a_path_are_its_frontier(folder):
    fitted = fit_log(read_log(WALKS, NAMED), "state=garden", deterministic=True)
    rungs = pl.read_parquet(folder / "out.parquet.ladder")
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    missed = pl.read_parquet(folder / "out.parquet").filter(pl.col("status") != "met")
    assert rungs.select("agent", "path").unique().height == missed.height > 20
    for row in missed.sort("path").head(8).iter_rows(named=True):
        original = [number[state] for state in row["original"]]
        task = fitted.task(fitted.agents.tolist().index(row["agent"]), original[0])
        front = pprjax.frontier(task, pprjax.Paths.from_lists([original]), CONFIG)
        rows = rungs.filter(agent=row["agent"], path=row["path"])
        assert rows["distance"].to_list() == front.distance.tolist()
        np.testing.assert_allclose(rows["value"], front.value, rtol=1e-5)
        np.testing.assert_allclose(rows["reward_after"], front.scores.goal, rtol=1e-5)
        assert rows["proved"].all()
        for rung in rows.iter_rows(named=True):
            assert rung["distance"] == Levenshtein.distance(row["original"], rung["recourse"])
            assert rung["distance"] == sum(edit != "=" for edit in rung["edits"])
            assert len(rung["actions"]) == len(rung["recourse"]) - 1


def test_the_answer_is_a_rung_and_the_same_as_without_the_ladder(folder, tmp_path):
    rungs = pl.read_parquet(folder / "out.parquet.ladder").filter("chosen")
    table = pl.read_parquet(folder / "out.parquet")
    both = table.filter(pl.col("status") != "met").join(rungs, on=["agent", "path"], suffix="_rung")
    assert both.height == rungs.height == (table["status"] != "met").sum()
    for name in ("distance", "recourse", "actions", "edits", "reward_after"):
        assert both[name].to_list() == both[f"{name}_rung"].to_list()
    jobs.run(job(tmp_path))
    plain = pl.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(plain["reward"].drop_nulls(), table["reward"].drop_nulls(), rtol=1e-5)
    assert plain["distance"].to_list() == table["distance"].to_list()


def test_the_command_counts_for_how_many_paths_fewer_edits_would_do(folder, done):
    ladders: dict = {}
    for rung in pl.read_parquet(folder / "out.parquet.ladder").iter_rows(named=True):
        ladders.setdefault((rung["agent"], rung["path"]), []).append((rung["distance"], rung["chosen"]))
    wider = sum(min(rungs)[0] < next(d for d, chosen in rungs if chosen) for rungs in ladders.values())
    assert 0 < wider < len(ladders) == done["num_ladders"]
    assert done["num_wider"] == wider
    told = recourse._said(done, folder / "out.parquet").splitlines()[-1]
    assert told.startswith(f"For {wider} of {len(ladders)} recourses, fewer edits would reach the goal, but by steps")


def test_a_ladder_of_an_earlier_run_does_not_stay(tmp_path):
    jobs.run(job(tmp_path, search=Search(ladder=True)))
    assert (tmp_path / "out.parquet.ladder").exists()
    jobs.run(job(tmp_path))
    assert not (tmp_path / "out.parquet.ladder").exists()


def test_where_all_paths_are_met_there_is_no_rung():
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, "state=garden", deterministic=True)
    met = next(log.frames()).filter(pl.col("states").list.contains("garden"))
    assert met.height
    assert answered(fitted, met, CONFIG, Search(ladder=True)).to_ladder(fitted).is_empty()


@pytest.mark.slow
def test_what_is_learned_has_a_ladder_too():
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, "state=garden")
    few = next(log.frames()).filter(~pl.col("states").list.contains("garden"))[:2]
    found = answered(fitted, few, SMALL, Search(ladder=True))
    rungs, table = found.to_ladder(fitted), found.to_frame(fitted, 0)
    assert rungs.filter("chosen")["recourse"].to_list() == table["recourse"].to_list()
    assert not rungs["proved"].any()


def test_show_prints_the_ladder_and_what_the_agent_does(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    rungs = pl.read_parquet(folder / "out.parquet.ladder")
    several = rungs.group_by("agent", "path").agg(pl.len(), pl.col("distance").filter("chosen").first())
    agent, path, _, distance = several.sort("len", "path").row(-1)
    assert main(["show", str(folder / "out.parquet"), "--path", path, "--agent", agent]) == 0
    shown = capsys.readouterr().out
    rows = rungs.filter(agent=agent, path=path)
    assert f"\npath {path} of agent {agent}: reached_goal, proved best\n" in f"\n{shown}"
    assert " mean log P " in shown and "R_goal" in shown
    lines = [line.split() for line in shown.partition("For each number of edits:")[2].splitlines()]
    told = [(line[0] == "→", int(line[line[0] == "→"])) for line in lines if line and line[line[0] == "→"].isdigit()]
    assert told[:3] == [(d == distance, d) for d in rows["distance"].to_list()[:3]]
    assert re.search(rf"After \w+, {agent} did (forth|back|door) \d+ of \d+ times?\.", shown)


def test_a_ladder_may_look_at_more_steps_than_an_answer(monkeypatch):
    """Of the same few for both, some rungs are not proved; and as many as are asked for are as many."""
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, "state=garden", deterministic=True)
    paths = pl.concat(list(log.frames()))
    monkeypatch.setattr(near, "CALLS", 30)

    def proved(**options):
        return answered(fitted, paths, CONFIG, Search(ladder=True, **options)).to_ladder(fitted)["proved"]

    assert proved().all()
    assert not proved(calls=30).all()
    monkeypatch.setattr(near, "LADDER_CALLS", 30)
    assert not proved().all()


def test_a_rung_is_proved_where_none_is_missing_before_it():
    """Whatever is worth most is the best of as few edits; but where fewer were not all looked at, that is not all."""
    log = read_log(WALKS, NAMED)
    fitted = fit_log(log, "state=garden", deterministic=True)
    paths = pl.concat(list(log.frames()))
    whole = answered(fitted, paths, CONFIG, Search(ladder=True)).to_ladder(fitted)
    known = {key[:2]: rows.sort("distance") for key, rows in whole.group_by("agent", "path")}
    checked = 0
    for calls in (10, 20, 40, 80, 160):
        cut = answered(fitted, paths, CONFIG, Search(ladder=True, calls=calls)).to_ladder(fitted)
        for key, rows in cut.sort("distance").group_by("agent", "path", maintain_order=True):
            sure = rows.filter("proved")["distance"].max()
            if sure is None or not rows["proved"][0]:
                continue
            upto = rows.filter(pl.col("proved").cast(int).cum_prod() == 1)["distance"].to_list()
            assert upto == known[key]["distance"].to_list()[: len(upto)]
            checked += len(upto)
    assert checked > 50
