"""A log as it is exported, in each of its forms, and what is expected of it."""

import csv
import datetime
import io

import polars as pl

import pprjax
from pprjax.logs.columns import Columns

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


def csv_text(table, separator, quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerows([table.columns, *table.rows()])
    return text.getvalue()
