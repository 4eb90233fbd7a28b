"""Times as programs write them: what orders the rows of a path, and what can't."""

import datetime
import random

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pprjax
from pprjax.logs.read import read_log
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
    labelled = table.with_columns(pl.Series("step", [0, 1]), good=pl.lit("3"))
    with pytest.raises(ValueError, match=r"no path in it could be read; .*: good: expected true or false, got 3$"):
        pprjax.read_log(labelled, pprjax.Columns(good="good"))
    with pytest.raises(ValueError, match=r"^source: it has no rows$"):
        pprjax.read_log(table.clear())


def test_what_is_no_format_is_named():
    for written, said in (("%d.%q", "%q is none of them"), ("dd.mm.yyyy", "it has none")):
        with pytest.raises(ValueError, match=f"time_format: expected the letters of strftime, .* {said}"):
            ordered(pl.Series(["01.02.2026"]), written)
    with pytest.raises(ValueError, match=r"time_format: expected %p, AM or PM, beside %I, .* got '%d.%m.%Y %I:%M'"):
        ordered(pl.Series(["01.02.2026 08:00"]), "%d.%m.%Y %I:%M")
    assert ordered(pl.Series(["7", "2026-01-01", None, "x"]))[KIND].to_list() == [
        "number",
        "time without a zone",
        None,
        None,
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)), min_size=2, max_size=8),
    st.data(),
)
def test_iso_times_are_ordered_as_the_moments_are(times, data):
    """Written in any zone, with or without a fraction's zeros, and with equal ones in the order of the rows."""
    written = []
    for time in times:
        offset = data.draw(st.integers(-14 * 60, 14 * 60))
        zone = datetime.timezone(datetime.timedelta(minutes=offset))
        text = time.replace(tzinfo=datetime.UTC).astimezone(zone).isoformat(data.draw(st.sampled_from("T ")))
        written.append(text.replace("+00:00", data.draw(st.sampled_from(["+00:00", "Z", "+0000", "+00"]))))
    table = pl.DataFrame({"path": 1, "step": written, "state": [str(i) for i in range(len(times))]})
    order = [str(i) for i in sorted(range(len(times)), key=times.__getitem__)]
    assert next(read_log(table).frames())["states"].to_list() == [order]


@settings(max_examples=60, deadline=None)
@example([-1.7e-244, -1.2e-90])
@example([2**53 + 1, 2.0**53, -0.5, 0.25])
@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(-1e15, 1e15)), min_size=2, max_size=8))
def test_numbers_are_ordered_exactly(numbers):
    table = pl.DataFrame(
        {"path": 1, "step": [repr(n) for n in numbers], "state": [str(i) for i in range(len(numbers))]}
    )
    gaps = pl.DataFrame({"path": 2, "step": [f"{2 * i}" for i in range(20)], "state": "x"})  # steps that count no rows
    order = [str(i) for i in sorted(range(len(numbers)), key=numbers.__getitem__)]
    log = read_log(pl.concat([table, gaps]))
    assert log.rejected.height == 0
    assert next(log.frames()).filter(path="1")["states"].to_list() == [order]


@pytest.mark.parametrize(
    ("steps", "whole", "rest"),
    [
        (pl.Series([datetime.date(1970, 1, 2), datetime.date(1969, 12, 31)]), [86_400, -86_400], [0, 0]),
        (pl.Series([1_500, 250]).cast(pl.Datetime("ms")), [1, 0], [0.5, 0.25]),
        (pl.Series([1_500_000]).cast(pl.Datetime("us")), [1], [0.5]),
        (pl.Series([2_000_000_500]).cast(pl.Datetime("ns")), [2], [5e-7]),
        (pl.Series(["1970-01-02", "1970-01-01T00:00:01.25Z", "7.5"]), [86_400, 1, 7], [0, 0.25, 0.5]),
    ],
)
def test_a_step_is_its_seconds_since_1970_or_its_number(steps, whole, rest):
    found = ordered(steps)
    assert found["whole"].to_list() == whole
    assert found["rest"].to_list() == pytest.approx(rest)
