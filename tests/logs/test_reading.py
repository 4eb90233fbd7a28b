"""Logs as people have them: each kind gives the same paths, and the recourse that a user expects."""

import csv
import datetime
import gzip

import pandas
import polars as pl
import pytest
from exported_logs import CASES, NAMED, better, check_expected, csv_text, events, iso, moment, same, xes
from hypothesis import given, settings
from hypothesis import strategies as st

import pprjax
from pprjax.cli import main
from pprjax.logs.columns import Columns
from pprjax.logs.read import read_log


def test_iso_times_and_no_agent(tmp_path):
    events(iso).write_csv(tmp_path / "circles.csv")
    log = read_log(tmp_path / "circles.csv", NAMED)
    same(log)
    check_expected(better(log))
    assert log.columns == Columns(path="case", step="when", state="what")
    assert log.notes() == [
        "Taken as agent: (everyone is one), path: case, step: when, state: what, action: (to go to the next state)."
    ]


def test_equal_times_keep_the_order_of_the_rows(tmp_path):
    table = events(lambda case, row: iso(case, 0)).with_columns(who=pl.lit("Bo")).select("when", "what", "who", "case")
    text = table.write_csv(separator=";").replace("\n", "\r\n")
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for agent in (None, "who"):
        log = read_log(tmp_path / "log.csv", Columns(agent=agent, path="case", step="when", state="what"))
        same(log)
    found = better(log)
    check_expected(found)
    assert {row["agent"] for row in found.values()} == {"Bo"}


def test_an_agent_on_one_row_holds_for_the_case_and_one_event_is_a_path(tmp_path):
    cases = [*CASES, ["receive"]]
    branch = pl.when(pl.col("when") == 0).then(pl.format("branch {}", pl.col("case").cast(int) % 2))
    events(cases=cases).with_columns(branch=branch).write_csv(tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv", Columns(agent="branch", path="case", step="when", state="what"))
    assert log.rejected.height == 0
    found = better(log)
    check_expected(found, ("9", "10", "11"))
    assert {name: row["agent"] for name, row in found.items()} == {str(c): f"branch {c % 2}" for c in range(12)}


def test_a_path_of_a_state_that_no_other_path_has(tmp_path):
    log = read_log(events(cases=[*CASES, ["odd"]]), Columns(path="case", step="when", state="what"))
    found = better(log)
    check_expected(found)
    assert found["11"]["status"] == "infeasible"
    assert found["11"]["original"] == ["odd"]


def test_several_agents_in_a_path_are_an_error_that_says_what_to_do(tmp_path):
    table = events().with_columns(clerk=pl.format("clerk{}", pl.int_range(pl.len()) % 3))
    names = Columns(agent="clerk", path="case", step="when", state="what")
    with pytest.raises(ValueError, match=r"^agent: 11 of 11 paths have several agents in 'clerk'.*leave --agent out.*"):
        read_log(table, names)
    with pytest.raises(ValueError, match=r"give --agent \"\"; .* --path case agent$"):
        read_log(table.rename({"clerk": "agent"}), NAMED)
    same(read_log(table.rename({"clerk": "agent"}), Columns(agent="", path="case", step="when", state="what")))
    both = read_log(table, Columns(agent="clerk", path=("case", "clerk"), state="what"))
    assert both.num_paths == sum(min(3, len(path)) for path in CASES)
    with pytest.raises(ValueError, match="clerk: expected an agent, got nothing"):
        read_log(table.with_columns(clerk=pl.lit(None, pl.String)), names)


def test_agents_whose_steps_begin_anew_may_use_the_same_names():
    table = pl.concat([events().with_columns(agent=pl.lit(name)) for name in ("ann", "bob")])
    log = read_log(table, NAMED)
    assert log.num_paths == 2 * len(CASES)
    assert log.rejected.height == 0
    assert f"{len(CASES)} names are those of a path for each of several agents: its steps begin anew." in log.notes()
    same_steps = table.with_columns(when=0)
    with pytest.raises(ValueError, match="11 of 11 paths have several agents"):
        read_log(same_steps, NAMED)


def test_a_resource_is_the_agent_where_each_path_has_one():
    table = events().rename({"case": "case:concept:name", "what": "concept:name", "when": "time:timestamp"})
    one = table.with_columns(pl.when(pl.col("time:timestamp") == 0).then(pl.lit("ann")).alias("org:resource"))
    log = read_log(one)
    assert log.columns.agent == "org:resource"
    assert log.counts["agent"].unique().to_list() == ["ann"]
    none = one.with_columns(pl.when(pl.col("case:concept:name") != "3").then("org:resource").alias("org:resource"))
    log = read_log(none)
    assert log.columns.agent is None
    assert log.num_paths == len(CASES)
    assert "org:resource names not one agent in 1 paths, so everyone is one." in log.notes()
    with pytest.raises(ValueError, match=r"^state: frame has no column 'state' nor 'concept:name'; name it, --state"):
        read_log(one.rename({"concept:name": "what"}))


@pytest.mark.parametrize("packed", [False, True])
def test_xes_needs_no_option_but_the_goal(tmp_path, capsys, monkeypatch, packed):
    name = "claims.xes.gz" if packed else "claims.xes"
    (tmp_path / name).write_bytes(gzip.compress(xes()) if packed else xes())
    monkeypatch.chdir(tmp_path)
    assert main(["recourse", name, "--goal", "state=pay"]) == 0
    said = capsys.readouterr().out
    num_starts = sum(path.count("check") for path in CASES)
    num_rows = sum(map(len, CASES)) + num_starts
    assert f"\n{num_starts} of {num_rows} events were left out: their lifecycle:transition is start" in said
    assert "path: case:concept:name, step: time:timestamp, state: concept:name" in said
    assert "org:resource names not one agent in 11 paths, so everyone is one." in said
    table = pl.read_parquet(tmp_path / "claims.recourse.parquet")
    check_expected({row["path"]: row for row in table.iter_rows(named=True)}, ("claim 9", "claim 10"))
    kept = read_log(name, Columns(starts=True))
    assert kept.left_out == 0
    assert kept.num_rows == num_rows
    assert next(kept.frames()).filter(path="claim 9")["states"].to_list() == [["receive", "close"]]
    assert read_log(name, Columns(state=("concept:name", "lifecycle:transition"))).left_out == 0


def test_a_dry_run_says_what_it_would_do_and_ends(tmp_path, capsys, monkeypatch):
    table = events(iso).rename({"case": "case:concept:name", "when": "time:timestamp", "what": "concept:name"})
    bad = table[:1].with_columns(pl.lit("yesterday").alias("time:timestamp"), pl.lit("x").alias("case:concept:name"))
    pl.concat([table, bad]).write_csv(tmp_path / "log.csv")
    monkeypatch.chdir(tmp_path)
    assert main(["recourse", "log.csv", "--goal", "state=pay", "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "Taken as agent: (everyone is one), path: case:concept:name, step: time:timestamp, state: concept:name, "
        "action: (to go to the next state).\n"
        "11 paths, 5 states, 1 agent; the longest path has 7 states.\n"
        "1 bad row, and the paths that they are in are left out:\n"
        f"  log.csv, line {table.height + 2}: time:timestamp: expected a number, a date or an ISO 8601 time, got "
        "yesterday\n"
        "9 meet state=pay, 2 do not.\n"
    )
    assert main(["recourse", "log.csv", "--goal", "state=pay", "--rule", "absence(fix)", "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith("\n3 meet state=pay and keep the rules, 8 do not.\n")
    assert main(["recourse", "log.csv", "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith("\nNo goal was given, so that every path gets a recourse.\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.csv"]
    assert main(["recourse", "log.csv", "--state", "concept:name", "time:timestamp", "--dry-run"]) == 0
    assert "state: concept:name and time:timestamp" in capsys.readouterr().out


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["csv", "csv.gz", "tsv"]),
)
def test_the_separator_is_found_out(tmp_path_factory, separator, quoting, newline, mark, kind):
    others = ",;\t|".replace(separator, "")
    table = events(iso).with_columns(note=pl.lit(f'a {others} "b"'), more=pl.lit(f"{separator}{others}"))
    text = csv_text(table.select("note", "case", "when", "more", "what"), separator, quoting).replace("\n", newline)
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode()
    file = tmp_path_factory.mktemp("log") / f"log.{kind}"
    file.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    same(read_log(file, NAMED))


def test_zstd_jsonl_and_capitals_are_read(tmp_path):
    events(iso).write_csv(tmp_path / "log.csv.zst", compression="zstd")
    same(read_log(tmp_path / "log.csv.zst", NAMED))
    events(iso).write_csv(tmp_path / "LOG.CSV")
    same(read_log(tmp_path / "LOG.CSV", NAMED))
    events(iso).write_ndjson(tmp_path / "log.jsonl")
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
    same(read_log(tmp_path / "log.jsonl.gz", NAMED))


when = pl.col("when")

naive = when.dt.convert_time_zone("UTC").dt.replace_time_zone(None)

STEPS = {
    "zone": when,
    "other zone": when.dt.convert_time_zone("America/New_York"),
    "ns": naive.dt.cast_time_unit("ns"),
    "us": naive.dt.cast_time_unit("us"),
    "ms": naive.dt.cast_time_unit("ms"),
    "nanoseconds as numbers": naive.dt.epoch("ns") // 60_000_000_000 + 2**62,
    "float": naive.dt.epoch("us") / 3e6,
    "decimal": (naive.dt.epoch("s") % 10**9).cast(pl.Decimal(20, 2)),
    "duration": naive - datetime.datetime(2026, 1, 1),
    "date": pl.lit(datetime.date(2026, 1, 1)) + pl.duration(days=naive.dt.epoch("s") // 60 % 10_000),
    "category": naive.dt.to_string("%Y-%m-%d %H:%M:%S").cast(pl.Categorical),
    "basic offset": naive.dt.to_string("%Y-%m-%dT%H:%M:%S+0000"),
    "Z": naive.dt.to_string("%Y-%m-%dT%H:%M:%S.%fZ"),
    "comma": naive.dt.to_string("%Y-%m-%dT%H:%M:%S,%f"),
    "minutes": naive.dt.to_string("%Y-%m-%d %H:%M"),
    "UTC": naive.dt.to_string("%Y-%m-%d %H:%M:%S UTC"),
}


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("form", ["parquet", "csv", "frame", "lazy", "pandas"])
def test_steps_of_every_kind_and_unit(tmp_path, kind, form):
    if (form, kind) == ("csv", "duration"):
        pytest.skip("a duration has no form of its own in CSV")
    table = events(moment).with_columns(pl.col("case", "what").cast(pl.Categorical), when=STEPS[kind])
    table = table.with_columns(nested=pl.lit([1, 2]), nothing=pl.lit(None)).sample(fraction=1.0, shuffle=True, seed=1)
    source = {"frame": table, "lazy": table.lazy()}.get(form)
    if form == "parquet":
        source = tmp_path / "log.parquet"
        table.write_parquet(source)
    elif form == "csv":
        source = tmp_path / "log.csv"
        table.drop("nested").write_csv(source)
    elif form == "pandas":
        flat = table.drop("nested").with_columns(pl.col("case", "what").cast(pl.String))
        source = pandas.DataFrame(flat.to_dict(as_series=False))
        source["what"] = source["what"].astype("category")
    same(read_log(source, NAMED))


def test_pandas_of_other_types_is_read():
    table = pandas.DataFrame(events(moment).to_dict(as_series=False))
    table["case"] = table["case"].astype(int).astype("Int64")
    table["what"] = table["what"].astype("category")
    for unit in ("s", "ms", "us", "ns"):
        table["when"] = table["when"].dt.as_unit(unit)
        found = read_log(table, NAMED)
        same(found)
        naive = table.assign(when=table["when"].dt.tz_convert(None))
        naive.loc[3, "what"] = None
        naive.loc[8, "when"] = pandas.NaT
        assert read_log(naive, NAMED).rejected["reason"].to_list() == [
            "what: expected a state, got nothing",
            "when: expected a number, a date or an ISO 8601 time, got nothing",
        ]
    with pytest.raises(ValueError, match="two called 'case'"):
        read_log(pandas.concat([table, table[["case"]]], axis=1), NAMED)


def test_what_cannot_be_ordered_is_named_with_its_line(tmp_path):
    rows = [("a", "2026-03-01", "x"), ("a", "7", "y"), ("b", "2026-03-01T08:00", "x"), ("b", "2026-03-01T09:00Z", "y")]
    rows += [("c", "2026-02-30", "x"), ("d", "1", "x"), ("d", "2", "y")]
    rows += [("e", "2026-03-01T08:00", "x"), ("e", "2026-03-01T09:00Z", "y"), ("e", "2026-03-01T10:00Z", "z")]
    table = pl.DataFrame(rows, schema=["path", "step", "state"], orient="row")
    table.write_csv(tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv")
    assert log.num_paths == 1
    assert log.rejected.select("line", "reason").rows() == [
        (2, "step: a time without a zone can't be ordered with a number, as other rows of the path have"),
        (5, "step: a time with a zone can't be ordered with a time without a zone, as other rows of the path have"),
        (6, "step: expected a number, a date or an ISO 8601 time, got 2026-02-30"),
        (9, "step: a time without a zone can't be ordered with a time with a zone, as other rows of the path have"),
    ]
    with pytest.raises(ValueError, match=r"^log.csv, line 2: step: a time without a zone can't"):
        read_log(tmp_path / "log.csv", strict=True)
    with pytest.raises(ValueError, match=r"^source: column 'state': expected strings, numbers or times, got List"):
        read_log(table.with_columns(state=pl.lit([1])))


@pytest.mark.parametrize("by", [";", "\t"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_row_of_too_many_values_is_bad_and_quotes_hold_one_together(tmp_path, by, packed):
    rows = ["path,state,note", "a,x,", 'a,y,"so, and so"', "b,x,so, and so", "b,y", "c,x,,", "c,y,n"]
    rows = [row.replace(", ", "|").replace(",", by).replace("|", f"{by} ") for row in rows]
    opened = gzip.open if packed else open
    with opened(tmp_path / f"log.csv{packed}", "wt", newline="") as file:
        file.write("\r\n".join(rows))
    log = read_log(tmp_path / f"log.csv{packed}")
    assert log.rejected.select("line", "path", "reason").rows() == [(4, "b", "expected 3 values, got 4")]
    assert log.num_paths == 2  # a and c: what lacks and what is empty at a row's end is no fault


def test_steps_need_not_count():
    """Numbers with gaps are times; where most count rows a gap is a row that lacks."""
    same(read_log(events(lambda case, row: 1_772_000_000 + 86_400 * case + 60 * row), NAMED))
    counted = events().filter(~((pl.col("case") == "3") & (pl.col("when") == 2)))
    log = read_log(counted, NAMED)
    assert log.rejected["reason"].to_list() == ["when 3 comes after 1: expected no gap"]
    same(read_log(events().drop("when"), Columns(path="case", state="what")))


def test_without_actions_a_last_row_that_pays_leads_to_an_end():
    table = events().with_columns(reward=pl.when(pl.col("what") == "pay").then(1.0).otherwise(0.0))
    log = read_log(table, Columns(path="case", step="when", state="what", reward="reward"))
    fitted = pprjax.fit_log(log, "reward>=1")
    found = pprjax.recourse_log(fitted, log)
    assert found.filter(status="met").height == 9
    turned = found.filter(path="9").row(0, named=True)
    assert turned["recourse"] == ["receive", "check", "pay", "end in pay"]
    assert turned["reward_after"] == 1.0


def test_states_whose_names_are_nearly_equal_are_told():
    rows = {"path": list("aabbcc"), "state": ["Close", "open", "close ", "open", "end of  day", "End of day"]}
    notes = read_log(pl.DataFrame(rows)).notes()
    said = "States that differ in blanks and capitals alone are different: 'Close' and 'close ', and 1 more such group."
    assert notes[-1] == said
    assert not any("differ" in note for note in read_log(pl.DataFrame(rows | {"state": list("abcdef")})).notes())


def test_columns_that_change_what_a_log_means_are_not_taken_unasked_and_that_is_said():
    rows = pl.DataFrame({"path": list("aabb"), "state": list("xyxz"), "action": list("lrlr"), "reward": [0, 1, 0, 1]})
    assert read_log(rows).notes()[1:] == [
        "The column 'action' is not used: --action action reads it.",
        "The column 'reward' is not used: --reward reward reads it.",
    ]
    assert not any("not used" in note for note in read_log(rows, Columns(action="action", reward="reward")).notes())


def test_a_row_that_names_no_path_is_told_to_be_missing_somewhere(tmp_path, monkeypatch, capsys):
    (tmp_path / "log.csv").write_text("path,step,state\na,0,x\n,1,y\na,2,z\nb,0,x\nb,1,z\n")
    monkeypatch.chdir(tmp_path)
    assert main(["recourse", "log.csv", "--goal", "state=z", "--dry-run"]) == 0
    assert "(1 row without a path's name: which paths lack a step is not known)" in capsys.readouterr().out
