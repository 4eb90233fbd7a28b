"""Numbers become states: the bins are named, their edges are kept, and what is no number is."""

import json

import polars as pl
import pytest

import pprjax
from pprjax.cli import main
from pprjax.logs.columns import Columns
from pprjax.logs.log import Log
from pprjax.logs.read import read_log

TABLE = pl.DataFrame(
    {"path": [i // 4 for i in range(40)], "step": [i % 4 for i in range(40)], "room": "a", "heat": [*range(40)]}
)


def states(log):
    return [state for path in next(log.frames()).sort("path")["states"].to_list() for state in path]


def test_given_edges():
    log = read_log(TABLE, Columns(state="heat", bins=("heat=1,5,10.5",)))
    assert states(log).count("(-inf, 1)") == 1
    assert states(log).count("[1, 5)") == 4
    assert states(log).count("[5, 10.5)") == 6
    assert states(log).count("[10.5, inf)") == 29
    assert pprjax.fit_log(log, "state=[10.5, inf)").edges == {"heat": [1.0, 5.0, 10.5]}


def test_quantiles_and_joined_columns(tmp_path):
    TABLE.write_csv(tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv", Columns(state=("room", "heat"), bins=("heat=4",)), folder=tmp_path / "log")
    assert log.edges == {"heat": [9.75, 19.5, 29.25]}
    assert {state: states(log).count(state) for state in states(log)} == {
        "a|(-inf, 9.75)": 10,
        "a|[9.75, 19.5)": 10,
        "a|[19.5, 29.25)": 10,
        "a|[29.25, inf)": 10,
    }
    assert "Bins of heat meet at 9.75, 19.5, 29.25." in log.notes()
    log.save()
    again = Log.open(tmp_path / "log")
    assert (again.edges, again.columns, again.notes()) == (log.edges, log.columns, log.notes())
    pprjax.fit_log(again).save(tmp_path / "fit")
    assert json.loads((tmp_path / "fit" / "fit.json").read_text())["edges"] == log.edges


def test_what_is_no_number_is_named():
    table = TABLE.with_columns(
        heat=pl.when(pl.col("heat") == 7).then(pl.lit("hot")).otherwise(pl.col("heat").cast(str))
    )
    log = read_log(table, Columns(state="heat", bins=("heat=2",)))
    assert log.rejected["reason"].to_list() == ["heat: expected a number, got hot"]


@pytest.mark.parametrize(
    ("bins", "said"),
    {
        "heat": "a column of the state, 'heat', got ''",
        "room=3": "got 'room'",
        "heat=many": "expected heat=k or heat=1,5,10",
        "heat=1": "a whole number of at least 2",
        "heat=5,1": "ascending edges",
        "heat=nan,2": "expected heat=k",
    }.items(),
)
def test_mistakes_are_named(bins, said):
    with pytest.raises(ValueError, match=f"^bins: .*{said}"):
        read_log(TABLE, Columns(state="heat", bins=(bins,)))


def test_the_command_takes_bins(tmp_path, capsys):
    TABLE.write_csv(tmp_path / "log.csv")
    options = ["--state", "room", "heat", "--bins", "heat=2,20", "--dry-run"]
    assert main(["recourse", str(tmp_path / "log.csv"), *options]) == 0
    said = capsys.readouterr().out
    assert "state: room and heat" in said
    assert "Bins of heat meet at 2, 20.\n10 paths, 3 states, 1 agent" in said
