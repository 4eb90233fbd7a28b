"""Logs as people have them: each kind gives the same paths, and the recourse that a user expects."""

import csv
import datetime
import gzip
import io

import pandas
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pprjax
from pprjax.cli import main
from pprjax.logs.columns import Columns
from pprjax.logs.read import read_log

ROUND = ["receive", "check", "fix", "check", "fix", "check", "pay"]
CASES = [ROUND] * 6 + [["receive", "check", "pay"]] * 3 + [["receive", "close"]] * 2
"""Most go round `check` and `fix`; the last two miss the goal."""

START = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))


def events(step=lambda case, row: row, cases=CASES):
    """A table with case, when and what."""
    rows = [(str(case), step(case, row), what) for case, path in enumerate(cases) for row, what in enumerate(path)]
    return pl.DataFrame(rows, schema=["case", "when", "what"], orient="row")


def moment(case, row):
    return START + datetime.timedelta(days=case, minutes=row)


def iso(case, row):
    return moment(case, row).isoformat()


NAMED = Columns(path="case", step="when", state="what")


def better(log):
    """The recourses at the default settings, by the name of the path."""
    found = pprjax.recourse_log(pprjax.fit_log(log, "state=pay"), log)
    return {row["path"]: row for row in found.iter_rows(named=True)}


def check_expected(found, names=("9", "10")):
    assert sum(row["status"] == "met" for row in found.values()) == 9
    for name in names:
        row = found[name]
        assert row["recourse"] == ["receive", "check", "pay"]
        assert row["distance"] == 2
        assert row["gap"] == 0.0
        assert row["method"] == "exact"


def same(log):
    """The log holds the cases, each in its order."""
    paths = pl.concat(list(log.frames()))
    states = dict(paths.select("path", "states").iter_rows())
    assert states == {str(case): path for case, path in enumerate(CASES)}
    assert log.rejected.height == 0


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


def xes(cases=CASES, doctype=""):
    """The cases in XES: `check` has a start and an end."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', doctype]
    lines += ['<log xes.version="1.0" xmlns="http://www.xes-standard.org/">']
    lines += ['<global scope="event"><string key="concept:name" value="none"/></global>']
    for case, path in enumerate(cases):
        lines.append(f'<trace><string key="concept:name" value="claim {case}"/>')
        for row, what in enumerate(path):
            for part in ("start", "complete") if what == "check" else ("complete",):
                when = iso(case, 2 * row + (part == "complete"))
                lines.append(
                    f'<event><string key="concept:name" value="{what}"><string key="concept:name" value="nested"/>'
                    f'</string><string key="lifecycle:transition" value="{part}"/>'
                    f'<string key="org:resource" value="clerk {row}"/>'
                    f'<date key="time:timestamp" value="{when}"/></event>'
                )
        lines.append("</trace>")
    return "\n".join([*lines, "</log>"]).encode()


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


def csv_text(table, separator, quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerows([table.columns, *table.rows()])
    return text.getvalue()


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
    table = pl.DataFrame(rows, schema=["path", "step", "state"], orient="row")
    table.write_csv(tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv")
    assert log.num_paths == 1
    assert log.rejected.select("line", "reason").rows() == [
        (3, "step: a number can't be ordered with a time without a zone, which the path begins with"),
        (5, "step: a time with a zone can't be ordered with a time without a zone, which the path begins with"),
        (6, "step: expected a number, a date or an ISO 8601 time, got 2026-02-30"),
    ]
    with pytest.raises(ValueError, match=r"^log.csv, line 3: step: a number can't"):
        read_log(tmp_path / "log.csv", strict=True)
    with pytest.raises(ValueError, match=r"^source: column 'state': expected strings, numbers or times, got List"):
        read_log(table.with_columns(state=pl.lit([1])))


def test_steps_need_not_count():
    """Numbers with gaps are times; where most count rows a gap is a row that lacks."""
    same(read_log(events(lambda case, row: 1_772_000_000 + 86_400 * case + 60 * row), NAMED))
    counted = events().filter(~((pl.col("case") == "3") & (pl.col("when") == 2)))
    log = read_log(counted, NAMED)
    assert log.rejected["reason"].to_list() == ["step 3 comes after 1: expected no gap"]
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


BOMB = '<!DOCTYPE log [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
REMOTE = '<!DOCTYPE log SYSTEM "file:///etc/passwd">'


@pytest.mark.parametrize("doctype", [BOMB, REMOTE])
def test_a_document_type_is_refused(tmp_path, doctype):
    (tmp_path / "log.xes").write_bytes(xes(doctype=doctype).replace(b"claim 0", b"&b;"))
    with pytest.raises(ValueError, match=r"^source: line 2: expected XES without a document type, got <!DOCTYPE log>"):
        read_log(tmp_path / "log.xes")


def test_broken_files_are_named(tmp_path):
    def refused(name, data, said):
        file = tmp_path / name
        file.write_bytes(data)
        with pytest.raises(ValueError, match=said):
            read_log(file, Columns() if "xes" in name else NAMED)
        file.unlink()

    table = events(iso).write_csv().encode()
    refused("cut.csv.gz", gzip.compress(table * 500)[:-2000], r"^source: can't read .*cut.csv.gz")
    refused("latin.csv", table.replace(b"check", "chéck".encode("latin1")), "in UTF-8")
    refused("cut.xes.gz", gzip.compress(xes())[:-100], r"^source: can't unpack .*cut.xes.gz")
    refused("no.xes.gz", xes(), r"^source: can't unpack .*no.xes.gz")
    refused("cut.xes", xes()[:-100], r"^source: .*cut.xes is not well-formed XML: .*line \d+")
    refused("nul.xes", xes().replace(b"claim 3", b"claim\0 3"), "nul.xes is not well-formed")
    refused("deep.xes", b"<log>" + b"<list>" * 1000, "line 1: more than 100 elements in each other")
    refused("empty.xes", b"<log/>", "expected events in .*empty.xes, found none")
    refused("empty.csv", b"", "^source: can't read .*empty.csv")
    refused("log.parquet", b"PAR1 and no more", "^source: can't read .*log.parquet")


def test_nul_bytes_are_characters(tmp_path):
    (tmp_path / "log.csv").write_bytes(events(iso).write_csv().encode().replace(b"check", b"che\0ck"))
    log = read_log(tmp_path / "log.csv", NAMED)
    assert "che\0ck" in next(log.frames())["states"].to_list()[0]


def test_events_without_a_name_or_a_case_are_named(tmp_path):
    event = '<event><string key="concept:name" value="x"/></event>'
    text = f"<log>\n{event}\n<trace>{event}{event}</trace>\n<trace>{event}<event/></trace></log>"
    (tmp_path / "log.xes").write_text(text)
    log = read_log(tmp_path / "log.xes")
    assert dict(next(log.frames()).select("path", "states").iter_rows()) == {"trace 1": ["x", "x"]}
    assert log.rejected.select("line", "reason").rows() == [
        (2, "case:concept:name: expected the name of a path, got nothing"),
        (4, "concept:name: expected a state, got nothing"),
    ]
    assert log.columns.step is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_text_in_utf_16_is_read_as_its_byte_order_mark_says(tmp_path, encoding, packed):
    """What office programs call Unicode text: tabs, and a mark."""
    table = events(iso).with_columns(pl.col("what").replace("check", "prüfen ✓"))
    bad = table[:1].with_columns(when=pl.lit("yesterday"), case=pl.lit("x"))
    text = csv_text(pl.concat([table, bad]), "\t").replace("\n", "\r\n")
    data = text.encode(encoding) if encoding == "utf-16" else f"\ufeff{text}".encode(encoding)
    file = tmp_path / ("log.csv.gz" if packed else "log.csv")
    file.write_bytes(gzip.compress(data) if packed else data)
    plain = tmp_path / "plain.csv"
    plain.write_text(text, encoding="utf-8", newline="")
    one, other = (read_log(source, NAMED) for source in (file, plain))
    assert one.rejected["line"].to_list() == [table.height + 2]
    assert next(one.frames()).equals(next(other.frames()))
    assert "prüfen ✓" in next(one.frames())["states"].explode().to_list()
    lines = tmp_path / "log.jsonl"
    lines.write_bytes(table.write_ndjson().encode("utf-16"))
    assert next(read_log(lines, NAMED).frames()).equals(next(one.frames()))


def test_text_that_is_not_what_its_mark_says_is_told(tmp_path):
    file = tmp_path / "log.csv"
    file.write_bytes(csv_text(events(iso), ";").encode("utf-16")[:-1])
    with pytest.raises(ValueError, match=r"log.csv: .*; its byte-order mark says that it is UTF-16"):
        read_log(file, NAMED)


def test_traces_of_one_name_are_cases_of_their_own(tmp_path):
    cases = [["receive", "check", "pay"], ["receive", "close"], ["receive", "pay"], ["receive", "check", "close"]]
    text = xes(cases).replace(b'"claim 1"', b'"claim 0"').replace(b'"claim 2"', b'"claim 0 (2)"')
    text = text.replace(b'"claim 3"', b'"claim 0"')
    (tmp_path / "log.xes").write_bytes(text)
    log = read_log(tmp_path / "log.xes")
    found = dict(next(log.frames()).select("path", "states").iter_rows())
    assert found == dict(zip(["claim 0", "claim 0 (2)", "claim 0 (2) (2)", "claim 0 (3)"], cases, strict=True))
    said = "3 traces have the name of one before them: each is a path of its own, called NAME (2) and so on."
    assert said in log.notes()
    assert read_log(tmp_path / "log.xes", Columns(path="org:resource")).alike == 0
    (tmp_path / "other.xes").write_bytes(xes(cases))
    assert not any("traces" in note for note in read_log(tmp_path / "other.xes").notes())
