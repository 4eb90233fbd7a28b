"""The page of a report: one HTML file that holds its own data and asks nobody for anything."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import math
from typing import Any

import polars as pl

from pprjax.logs.advice import closer, custom, proof, shorter, shown_of
from pprjax.logs.outputs import limits
from pprjax.logs.report import Changes, Report, Tally

BUDGET = 4_500_000
"""Bytes of a page, at most, as long as there are paths that can be left out."""

PLACE = "/*DATA*/"
"""Where the data stand in report.html."""

ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What would end a script, or a line of it, and how JSON may write it too."""


LEFT_OUT = "Paths that met the goal are left out."
RULE = (
    "Of each number of edits there are as many as of any other, as far as there are so many, at even distances in the "
    "file; paths without a recourse count as one more number."
)
"""Which paths are in the table, where not all that missed the goal are."""


class Names:
    """The names of states and actions, each with a number, in the order in which they came."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, names: list) -> list[int]:
        """The numbers of some names."""
        return [self.numbers.setdefault(str(name), len(self.numbers)) for name in names]


def page(report: Report, name: str) -> str:
    """The whole HTML file.

    While it is larger than BUDGET, every second path of each number of edits is left out.

    Args:
        name: of the table.
    """
    template = importlib.resources.files("pprjax.logs").joinpath("report.html").read_text(encoding="utf-8")
    before, _, after = template.partition(PLACE)
    every = 1
    while True:
        text = before + embedded(data(report, name, every)) + after
        if len(text.encode()) <= BUDGET or every >= report.sample.height:
            return text
        every *= 2


def embedded(value: Any) -> str:
    """The value as JSON in which no text can end the script that holds it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign, escape in ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def data(report: Report, name: str, every: int = 1) -> dict[str, Any]:
    """What the page is made of, in lists and numbers.

    Args:
        every: one path of so many of the sample is told.
    """
    names = Names()
    rows = report.sample.gather_every(every).to_dicts()
    all_paths = report.tallies[0]
    both = zip(report.tallies, report.changes, strict=True)
    return {
        "file": name,
        "asked": _asked(report.asked),
        "rewarded": report.rewarded,
        "rule": f"{LEFT_OUT} {RULE}" if len(rows) < all_paths.paths - all_paths.kinds["met"] else LEFT_OUT,
        "agents": report.num_agents,
        "groups": [_group(tally, changes, names) for tally, changes in both],
        "paths": _paths(rows, report, names),
        "edges": [[*names.of([a, b]), round(times, 2)] for a, b, times in report.edges.iter_rows()],
        "names": list(names.numbers),  # last: it has them all
    }


def _asked(said: dict[str, Any]) -> str:
    """What was asked of a recourse, in a sentence; "" where nothing is known."""
    goal, kept = said.get("goal"), limits(said)
    told = [f"the goal is {goal}"] if goal else []
    told += [f"every recourse keeps {kept}"] if kept else []
    return f"{'; '.join(told)[:1].upper()}{'; '.join(told)[1:]}." if told else ""


def _group(tally: Tally, changes: Changes, names: Names) -> dict[str, Any]:
    """What is told of everyone, or of one agent."""
    steps = {"added": changes.added, "dropped": changes.dropped}
    return {
        "agent": tally.agent,
        "paths": tally.paths,
        **tally.kinds,
        "proved": tally.proved,
        "proved_infeasible": tally.proved_infeasible,
        "edits": [list(pair) for pair in tally.edits.items()],
        **{which: [[*names.of([a, b]), times] for a, b, times in found] for which, found in steps.items()},
    }


def _paths(rows: list[dict], report: Report, names: Names) -> list[dict[str, Any]]:
    """What is told of each path of the sample."""
    rungs, habits = _by(report.rungs, "agent", "path"), _by(report.habits, "agent")
    told, kept = [], "to what is said above" if limits(report.asked) else ""
    for row in rows:
        name = row["agent"], row["path"]
        told.append(_path(row, rungs.get(name, []), habits.get(name[:1], []), names, kept))
    return told


def _by(frame: pl.DataFrame, *keys: str) -> dict[tuple, list[dict]]:
    """The rows of each value of the keys."""
    return {key: rows.to_dicts() for key, rows in frame.group_by(*keys, maintain_order=True)}


def _path(row: dict, rungs: list[dict], steps: list[dict], names: Names, kept: str) -> dict[str, Any]:
    """What is told of a path.

    Args:
        rungs: of its ladder, the fewest edits first.
        steps: of its agent, see `custom`.
        kept: in words, what a recourse keeps, see `closer`.
    """
    told = {
        "agent": row["agent"],
        "path": row["path"],
        "status": row["status"],
        "edits": row["distance"],
        "R": _number(row["reward"]),
        "before": _number(row["reward_before"]),
        "original": names.of(row["original"]),
    }
    if not row["edits"]:
        return told | {"advice": row["reason"] or ""}
    rungs = [rung | {"original": row["original"]} for rung in rungs]
    more = " ".join(filter(None, [custom(row, steps), closer(row, rungs, kept)]))
    told |= {"advice": shorter(row), "more": more, "proof": proof(row).lstrip(",; ")}
    told |= {"after": _number(row["reward_after"]), **_edited(row, names)}
    if len(rungs) < 2:
        return told
    shown = shown_of(rungs)
    return told | {"rungs": [_rung(rung, names) for rung in shown], "hidden": len(rungs) - len(shown)}


def _rung(rung: dict, names: Names) -> dict[str, Any]:
    """What is told of one rung of a path."""
    return {
        "edits": rung["distance"],
        "chosen": rung["chosen"],
        "after": _number(rung["reward_after"]),
        "habit": _number(rung["s_policy"]),
        "advice": shorter(rung),
        **_edited(rung, names),
    }


def _edited(row: dict, names: Names) -> dict[str, Any]:
    """A recourse: its edits, the states that are new, and its actions unless each is called like the next state."""
    signs, actions = row["edits"], list(map(str, row["actions"]))
    of_recourse = signs.replace("-", "")
    fresh = itertools.compress(row["recourse"], [sign != "=" for sign in of_recourse])
    told: dict[str, Any] = {"signs": signs, "fresh": names.of(list(fresh))}
    return told if actions == list(map(str, row["recourse"][1:])) else told | {"actions": names.of(actions)}


def _number(value: float | None) -> float | None:
    """A number that JSON can write, of six digits."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
