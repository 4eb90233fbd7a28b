"""What the last row of a path says, and states of several columns."""

import polars as pl
import pytest

import pprjax
from pprjax.logs.columns import Columns
from pprjax.logs.read import read_log
from pprjax.logs.rows import SEPARATOR


def test_joined_columns_can_be_told_apart():
    table = pl.DataFrame({"path": [1, 1, 1], "a": ["x|", "x", None], "b": ["y", "|y", "z"], "step": [0, 1, 2]})
    log = read_log(table[:2], Columns(state=("a", "b")))
    assert next(log.frames())["states"].to_list() == [["x\\||y", "x|\\|y"]]
    with pytest.raises(ValueError, match="a: expected a state, got nothing"):
        read_log(table, Columns(state=("a", "b")), strict=True)


EPISODES = """agent,path,step,state,action,reward
a,1,0,s1,left,0
a,1,1,s2,right,1
a,2,0,s1,left,0
a,2,1,s3,,
a,3,0,s1,left,0
a,3,1,s2,wait,
a,4,0,s1,left,0
a,4,1,s2,,3
"""


def test_a_last_row_with_an_action_leads_to_an_end_of_its_own(tmp_path):
    (tmp_path / "log.csv").write_text(EPISODES)
    log = read_log(tmp_path / "log.csv", Columns(action="action", reward="reward"))
    paths = next(log.frames()).select("path", "states", "actions", "rewards")
    assert paths.rows() == [
        ("1", ["s1", "s2", "end after right in s2"], ["left", "right"], [0.0, 1.0]),
        ("2", ["s1", "s3"], ["left"], [0.0]),
    ]
    assert log.rejected.select("line", "reason").rows() == [
        (7, "reward: missing"),
        (9, "reward: expected none on a last row without an action, got 3.0"),
    ]
    assert "1 of 2 paths end with an action, which leads to an end of its own; 1 in a state." in log.notes()
    fitted = pprjax.fit_log(log, "reward>=1")
    assert fitted.transition is not None  # left leads to s2 and to s3
    cut = pl.DataFrame({"path": [1, 1, 2], "step": [0, 1, 0], "state": ["x", "y", "x"], "action": ["go", None, "go"]})
    with pytest.raises(ValueError, match=r"leads to 'end after go in x', .*; if paths were cut there, leave"):
        pprjax.fit_log(read_log(cut, Columns(action="action")), deterministic=True)
    both = pl.read_csv(tmp_path / "log.csv").filter(pl.col("path") < 3).with_columns(pl.col("action").fill_null("up"))
    two = both.with_columns(pl.col("reward").fill_null(0), state=pl.col("state").replace("s3", "s2"))
    log = read_log(two, Columns(action="action", reward="reward"))
    found = pprjax.recourse_log(pprjax.fit_log(log, "reward>=1", deterministic=True), log)
    assert found.select("status", "reward_before", "reward_after").rows()[0] == ("met", 1.0, None)
    assert found["recourse"].to_list()[1] == ["s1", "s2", "end after right in s2"]
    assert found["reward_after"].to_list()[1] == 1.0


def test_states_of_several_columns_are_told_apart_whatever_stands_in_them():
    pairs = [("a\\", "b,c"), ("a,b\\", "c"), ("a,b", "c"), ("a", "b,c"), ("a\\,b", "c"), ("a", "b\\,c")]
    names = [tuple(x.replace(",", SEPARATOR) for x in pair) for pair in pairs]
    rows = [row for i, pair in enumerate(names) for row in ((f"p{i}", 0, *pair), (f"p{i}", 1, "x", "y"))]
    frame = pl.DataFrame(rows, schema=["path", "step", "one", "other"], orient="row")
    log = read_log(frame, Columns(state=("one", "other")))
    states = pl.concat(list(log.frames()))["states"].list.first()
    assert states.n_unique() == len(pairs)
