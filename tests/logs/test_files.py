"""Files that are no logs, and those that say of themselves how they are to be read."""

import gzip

import polars as pl
import pytest
from exported_logs import NAMED, csv_text, events, iso, xes

from pprjax.logs.columns import Columns
from pprjax.logs.read import read_log

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
