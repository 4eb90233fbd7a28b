"""Times as programs write them: what orders the rows of a path, and what can't."""

import datetime
import random

import polars as pl
import pytest

import pprjax
from pprjax.logs.times import KIND, ordered

START = datetime.datetime(2026, 1, 30, 22, 5, 7)
MOMENTS = [START + datetime.timedelta(hours=11, minutes=7) * k for k in range(6)]  # over a month's end, and noon


@pytest.mark.parametrize(
    "written", ["%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d-%b-%y %H:%M:%S", "%Y%m%dT%H%M", "%d.%m.%Y %H:%M %z"]
)
def test_rows_are_ordered_by_times_in_any_format(written):
    zone = datetime.UTC if "%z" in written else None
    rows = [("a", moment.replace(tzinfo=zone).strftime(written), f"s{k}") for k, moment in enumerate(MOMENTS)]
    random.Random(0).shuffle(rows)
    table = pl.DataFrame(rows, schema=["path", "step", "state"], orient="row")
    log = pprjax.read_log(table, pprjax.Columns(time_format=written))
    (path,) = pl.read_parquet(log.buckets)["states"].to_list()
    assert path == [f"s{k}" for k in range(len(MOMENTS))]


def test_a_day_alone_is_a_time():
    table = pl.DataFrame({"path": "a", "step": ["02.03.2026", "28.02.2026", "01.03.2026"], "state": ["z", "x", "y"]})
    log = pprjax.read_log(table, pprjax.Columns(time_format="%d.%m.%Y"))
    assert pl.read_parquet(log.buckets)["states"].to_list() == [["x", "y", "z"]]


def test_a_row_in_another_format_is_left_out_and_named():
    table = pl.DataFrame(
        {
            "path": ["a", "a", "b", "b"],
            "step": ["1.2.2026", "2.2.2026", "3.2.2026", "2026-02-04"],
            "state": list("xyxy"),
        }
    )
    log = pprjax.read_log(table, pprjax.Columns(time_format="%d.%m.%Y"))
    assert log.num_paths == 1
    assert log.rejected["reason"].to_list()[-1] == "step: expected a time like %d.%m.%Y, got 2026-02-04"


def test_where_no_time_is_understood_the_option_is_named():
    table = pl.DataFrame({"path": "a", "step": ["01.02.2026 08:00", "01.02.2026 09:00"], "state": ["x", "y"]})
    with pytest.raises(ValueError, match=r"no path in it could be read; .* 01\.02\.2026 08:00\. --time-format"):
        pprjax.read_log(table)


def test_what_is_no_format_is_named():
    for written, said in (("%d.%q", "%q is none of them"), ("dd.mm.yyyy", "it has none")):
        with pytest.raises(ValueError, match=f"time_format: expected the letters of strftime, .* {said}"):
            ordered(pl.Series(["01.02.2026"]), written)
    assert ordered(pl.Series(["7", "2026-01-01", None, "x"]))[KIND].to_list() == [
        "number",
        "time without a zone",
        None,
        None,
    ]
