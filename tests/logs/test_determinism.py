"""A log can show that chance decides in its world, never that it does not: certificates need the user's word."""

import collections

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_walks import CONFIG, NAMED, SMALL, WALKS

from pprjax.cli import main
from pprjax.logs import frames
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import Search, recourse_frame
from pprjax.logs.read import Columns, read_log

GOAL = "state=garden"


def test_a_log_with_actions_is_certified_only_where_its_world_is_said_to_be_deterministic():
    log = read_log(WALKS, NAMED)
    few = next(log.frames()).filter(~pl.col("states").list.contains("garden"))[:2]
    silent, said = fit_log(log, GOAL), fit_log(log, GOAL, deterministic=True)
    np.testing.assert_array_equal(silent.steps.target, said.steps.target)
    assert [fitted.task(0, 0).env.deterministic for fitted in (silent, said)] == [False, True]
    with pytest.raises(ValueError, match=r"^method: a log can't show that its world is deterministic; .*--determ"):
        recourse_frame(silent, few, CONFIG, Search("exact"))
    assert recourse_frame(said, few, CONFIG)["method"].to_list() == ["exact", "exact"]


@pytest.mark.slow
def test_a_log_with_actions_is_learned_where_nobody_says_so():
    log = read_log(WALKS, NAMED)
    few = next(log.frames()).filter(~pl.col("states").list.contains("garden"))
    silent = fit_log(log, GOAL)
    learned = recourse_frame(silent, few[:1], SMALL)
    assert learned["method"].to_list() == ["learn"]
    assert learned["gap"].to_list() == [None]
    assert learned["probability"].to_list() == [1.0]


def test_without_actions_a_log_is_certified_since_going_to_a_state_leads_there():
    log = read_log(WALKS)
    few = next(log.frames()).filter(~pl.col("states").list.contains("garden"))[:2]
    assert recourse_frame(fit_log(log, GOAL), few, CONFIG, Search("exact"))["method"].to_list() == ["exact", "exact"]


def test_the_evidence_is_how_many_pairs_were_seen_more_than_once():
    frame = WALKS.filter(pl.col("path").is_in([f"p{i}" for i in range(6)]))
    pairs = collections.Counter(frame.filter(pl.col("action").is_not_null()).select("state", "action").iter_rows())
    again = sum(count > 1 for count in pairs.values())
    assert 0 < again < len(pairs)
    assert fit_log(read_log(frame, NAMED)).evidence == (len(pairs), again)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_first_step_that_contradicts_a_deterministic_world_is_named(tmp_path_factory, data):
    folder, rows = tmp_path_factory.mktemp("log"), []
    for path in range(data.draw(st.integers(1, 4))):
        states = data.draw(st.lists(st.sampled_from("xyz"), min_size=2, max_size=4))
        rows += [(path, step, state, "go" if step < len(states) - 1 else None) for step, state in enumerate(states)]
    rows = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(1, len(rows) - 1))
    after = {(path, step): state for path, step, state, _ in rows}
    seen, expected = {}, None
    for i, (path, step, state, action) in enumerate(rows):
        place = f"a.csv, line {i + 2}" if i < cut else f"b.csv, line {i - cut + 2}"
        if action is None or expected is not None:
            continue
        leads = after[path, step + 1]
        before, where = seen.setdefault(state, (leads, place))
        if before != leads:
            both = f"leads to '{leads}', and to '{before}' in {where}"
            expected = f"deterministic: {place}: action 'go' in state '{state}' {both}"
    schema = {"path": int, "step": int, "state": str, "action": str}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(agent=pl.lit("ann"))
    frame[:cut].write_csv(folder / "a.csv")
    frame[cut:].write_csv(folder / "b.csv")
    log = read_log(folder, Columns(action="action"))
    if expected is None:
        assert fit_log(log, deterministic=True).deterministic
    else:
        with pytest.raises(ValueError) as error:
            fit_log(log, deterministic=True)
        assert str(error.value) == expected


def test_the_command_says_what_the_log_shows_and_what_would_certify(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(frames, "_learn", lambda answers, fitted, task, config, search, rows: None)
    WALKS.write_csv(tmp_path / "log.csv")
    columns = ["recourse", str(tmp_path / "log.csv"), "--action", "action", "--goal", GOAL]
    assert main([*columns, "-o", str(tmp_path / "a.parquet")]) == 0
    seen, again = fit_log(read_log(WALKS, NAMED)).evidence
    assert (
        f"\nNo step contradicts a deterministic world: {again} of {seen} state-action pairs were seen more than once; "
        "add --deterministic to certify.\n"
    ) in capsys.readouterr().out
    assert main([*columns, "--deterministic", "-o", str(tmp_path / "b.parquet")]) == 0
    assert "deterministic" not in capsys.readouterr().out
    ways = {name: set(pl.read_parquet(tmp_path / f"{name}.parquet")["method"].drop_nulls()) for name in "ab"}
    assert ways == {"a": set(), "b": {"exact"}}
