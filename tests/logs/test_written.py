"""What a job writes beside its recourses: what was learned, what was rejected, and nothing of another log's."""

import dataclasses
import json
import os

import numpy as np
import polars as pl
import pytest
from log_walks import NAMED, WALKS, job

from pprjax.logs import jobs
from pprjax.logs.fit import fit_log
from pprjax.logs.read import read_log


def test_the_policies_and_the_transitions_are_those_that_were_fitted(tmp_path):
    fitted = fit_log(read_log(WALKS, NAMED), "state=garden")
    fitted.save(tmp_path)
    number = [{name: i for i, name in enumerate(names.tolist())} for names in (fitted.states, fitted.actions)]
    policies = pl.read_parquet(tmp_path / "policies.parquet")
    probs = {agent: fitted.world_probs(i) for i, agent in enumerate(fitted.agents.tolist())}
    assert policies.height > 10
    for row in policies.iter_rows(named=True):
        prob = probs[row["agent"]][number[0][row["state"]], number[1][row["action"]]]
        assert row["prob"] == pytest.approx(prob)
        assert row["count"] == WALKS.filter(agent=row["agent"], state=row["state"], action=row["action"]).height
    steps = WALKS.sort("agent", "path", "step").with_columns(next=pl.col("state").shift(-1)).drop_nulls("action")
    seen = set(steps.select("state", "action", "next").iter_rows())
    written = pl.read_parquet(tmp_path / "transitions.parquet")
    assert set(written.select("state", "action", "next").iter_rows()) == seen
    assert set(written["prob"]) == {1.0}
    np.testing.assert_array_equal(written["ends"], written["next"] == "garden")


def test_what_a_learned_goal_asks_is_written_in_words(tmp_path):
    marked = dataclasses.replace(
        fit_log(read_log(WALKS, NAMED), "state=garden"),
        marks=np.array([1, 4], np.int32),  # bath and garden
        ends=np.eye(4 * 6, dtype=bool)[[1 * 6 + 5, 3 * 6 + 2]].any(0),
    )
    marked.save(tmp_path)
    states = marked.states.tolist()
    assert json.loads((tmp_path / "fit.json").read_text())["goal_states"] == [
        {"state": states[5], "visited": [states[1]], "not_visited": [states[4]]},
        {"state": states[2], "visited": [states[1], states[4]], "not_visited": []},
    ]


def test_rejected_rows_of_an_earlier_run_do_not_stay(tmp_path):
    rejected = tmp_path / "out.parquet.rejected"
    rejected.write_text("of an earlier log")
    jobs.run(job(tmp_path))
    assert not rejected.exists()


def test_chunks_of_another_log_are_not_gone_on_with(tmp_path, monkeypatch):
    def dies(*rest):
        raise MemoryError

    monkeypatch.setattr(jobs, "solve_chunk", dies)
    with pytest.raises(MemoryError):
        jobs.run(job(tmp_path))
    log = tmp_path / "log.csv"
    valid = log.stat()
    changed = log.read_text().replace("attic", "attac")
    log.write_text(changed)
    os.utime(log, ns=(valid.st_atime_ns, valid.st_mtime_ns + 1))
    with pytest.raises(ValueError, match="holds chunks of another log"):
        jobs.run(job(tmp_path))
    assert job(tmp_path).manifest.exists()  # and they are left there
