"""One path of a log beside its recourse, edit by edit."""

from __future__ import annotations

import math
from pathlib import Path

import tyro

from pprjax.logs.words import counted


def main(table: tyro.conf.Positional[Path], *, path: str, agent: str | None = None) -> None:
    """Print a path beside its recourse, edit by edit, and what to do otherwise.

    Args:
        table: what `pprjax recourse` wrote.
        path: the name of the path.
        agent: whose path, if several agents have one of that name.
    """
    import polars as pl
    from rich.console import Console

    if not table.exists():
        raise ValueError(f"table: there is no file {table}; expected one that `pprjax recourse` wrote")
    try:
        rows = pl.scan_parquet(table).filter(pl.col("path") == path)
        rows = rows if agent is None else rows.filter(pl.col("agent").cast(pl.String) == agent)
        found, rewarded = rows.collect(), _rewarded(table)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"table: expected what `pprjax recourse` wrote, got {table}: {error}") from error
    if not found.height:
        whose = "" if agent is None else f" of agent {agent!r}"
        raise ValueError(f"path: {table} has no path {path!r}{whose}{_why_rejected(table, path)}")
    if found.height > 1:
        raise ValueError(f"agent: {found.height} agents have a path {path!r}: {', '.join(map(str, found['agent']))}")
    row = found.row(0, named=True)
    rungs, console = _rungs(table, row), Console()
    console.print(drawing(row, rewarded))
    if row["edits"]:
        told = [advice(row), custom(row, _own_steps(table, row)), closer(row, rungs)]
        console.print(" ".join(filter(None, told)), highlight=False, markup=False)
    if len(rungs) > 1:
        console.print(ladder(rungs, _ladder_of(table), rewarded))


def _rewarded(table: Path) -> bool:
    """Whether any path of the table earns anything, before or after."""
    import polars as pl

    earned = pl.scan_parquet(table).select((pl.col("reward_before", "reward_after") != 0).any())
    return any(earned.collect(engine="streaming").row(0))


def _ladder_of(table: Path) -> Path:
    """OUT.ladder."""
    return table.with_name(f"{table.name}.ladder")


def _rungs(table: Path, row: dict) -> list[dict]:
    """What OUT.ladder has of a path, the fewest edits first."""
    import polars as pl

    file = _ladder_of(table)
    if not file.exists():
        return []
    mine = pl.scan_parquet(file).filter(pl.col("agent") == row["agent"], pl.col("path") == row["path"]).collect()
    original = pl.lit(row["original"], dtype=mine.schema["recourse"])
    return mine.sort("distance").with_columns(original=original).to_dicts()


def _own_steps(table: Path, row: dict) -> list[dict]:
    """What OUT.fit says of the agent's own steps."""
    import polars as pl

    file = table.with_name(f"{table.name}.fit") / "policies.parquet"
    if not file.exists():
        return []
    return pl.scan_parquet(file).filter(pl.col("agent") == row["agent"]).collect().to_dicts()


def _why_rejected(table: Path, path: str) -> str:
    """What OUT.rejected says of a path that is not in OUT."""
    import polars as pl

    rejected = table.with_name(f"{table.name}.rejected")
    if not rejected.exists():
        return ""
    rows = pl.read_csv(rejected, infer_schema=False).filter(pl.col("path") == path)
    return "".join(f"; it was rejected, line {row['line']}: {row['reason']}" for row in rows.head(1).to_dicts())


def drawing(row: dict, rewarded: bool = True):
    """One row of the table of recourses, as a rich table with a line for each edit, between two lines of text.

    Args:
        rewarded: say what the paths earn.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    why = f", {row['reason']}" if row["reason"] else ""
    title = Text(f"path {row['path']} of agent {row['agent']}: {row['status']}{why}{_proof(row)}")
    shown = Table(box=box.SIMPLE_HEAD)
    if not row["edits"]:
        shown.add_column("original")
        for state in row["original"]:
            shown.add_row(Text(str(state)))
        return Group(title, shown)
    for name in ("original", "", "recourse", "action"):
        shown.add_column(name)
    old, new = iter(row["original"]), iter(row["recourse"])
    actions = iter([*row["actions"], ""])
    for edit in row["edits"]:
        before = "" if edit == "+" else str(next(old))
        after = "" if edit == "-" else str(next(new))
        action = "" if edit == "-" else str(next(actions))
        shown.add_row(Text(before), WORDS[edit], Text(after), Text(action))
    earned = f"R_goal {row['reward_before']:g} → {row['reward_after']:g}, " if rewarded else ""
    return Group(title, shown, Text(f"{earned}{counted(row['distance'], 'edit')}"))


def _proof(row: dict) -> str:
    """How good the recourse is, as far as that is proved, and how likely."""
    gap, chance = row["gap"], row["probability"]
    likely = "" if chance is None or chance == 1 else f"; the world leads along it with probability {chance:.3g}"
    if gap is None:
        return likely
    return f", {f'within {math.ceil(gap * 1e4) / 100:g} % of the best' if gap > 0 else 'proved best'}{likely}"


def advice(row: dict) -> str:
    """What to do otherwise, in a sentence: after which states the recourse leaves its original, and what it does there.

    Args:
        row: of the table of recourses, with `original`, `recourse` and the `edits` between them.
    """
    parts = []
    for after, added, dropped in _departures(row["original"], row["recourse"], row["edits"]):
        where = "at the start" if after is None else f"after {after}"
        if added:
            instead = f" instead of {', '.join(dropped)}" if dropped else ""
            parts.append(f"{where}: {', then '.join(added)}{instead}")
        else:
            parts.append(f"{where}: without {', '.join(dropped)}")
    if not parts:
        return "Nothing to do otherwise: the path is as good as any."
    edits = counted(sum(edit != "=" for edit in row["edits"]), "edit")
    return f"What to do otherwise: {'; '.join(parts)} ({edits})."


def custom(row: dict, steps: list[dict]) -> str:
    """How often the agent itself did what the recourse first does otherwise, in a sentence; "" where nobody can say.

    Where each action is called like the next state, as in a log without actions, to go there is what is done.

    Args:
        steps: of the agent: how often (`count`) it took each `action` in each `state`.
    """
    first = next((i for i, edit in enumerate(row["edits"].replace("-", "")) if edit != "="), None)
    dropped = row["edits"].find("-")
    if dropped >= 0 and (first is None or dropped < first):
        first = dropped
    if not first or first > len(row["actions"]):
        return ""
    state, action = row["recourse"][first - 1], row["actions"][first - 1]
    there = [step for step in steps if step["state"] == state]
    times = sum(step["count"] for step in there if step["action"] == action)
    every = sum(step["count"] for step in there)
    went = list(map(str, row["actions"])) == list(map(str, row["recourse"][1:]))
    done = f"went to {action} next" if went else f"did {action}"
    return f"After {state}, {row['agent']} {done} {times} of {counted(every, 'time')}." if every else ""


def closer(row: dict, rungs: list[dict]) -> str:
    """What fewer edits would do, or that none will, where that is proved; "" where nobody can say.

    Args:
        rungs: of the path, the fewest edits first.
    """
    if not rungs:
        return ""
    fewest = rungs[0]
    if fewest["distance"] < row["distance"]:
        return f"The fewest edits that reach the goal: {_shorter(fewest)} ({counted(fewest['distance'], 'edit')})."
    return "Nothing closer reaches the goal." if fewest["proved"] else ""


def _shorter(row: dict) -> str:
    """The advice alone."""
    return advice(row).removeprefix("What to do otherwise: ").rpartition(" (")[0]


def ladder(rungs: list[dict], file: Path, rewarded: bool = True):
    """The first rungs of one path and the chosen one, as a rich table between two lines: what each further edit buys.

    Args:
        file: that has them all.
        rewarded: say what the paths earn.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    told = [rung for i, rung in enumerate(rungs) if i < RUNGS or rung["chosen"]]
    more = f"; {len(rungs) - len(told)} more in {file}" if len(told) < len(rungs) else ""
    shown = Table(box=box.SIMPLE_HEAD)
    for name in ("", "edits", *(["R_goal"] if rewarded else []), "mean log P"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("what to do otherwise")
    for rung in told:
        earned = [f"{rung['reward_after']:g}"] if rewarded else []
        figures = [str(rung["distance"]), *earned, f"{rung['s_policy']:.2f}"]
        style = "bold" if rung["chosen"] else None
        shown.add_row("→" if rung["chosen"] else "", *figures, Text(_shorter(rung)), style=style)
    return Group(Text("\nFor each number of edits:"), shown, Text(f"→ is the one above{more}"))


def _departures(original: list, recourse: list, edits: str) -> list[tuple[str | None, list[str], list[str]]]:
    """Where edits follow one another: the state before them that both paths share, those added and those dropped."""
    old, new = iter(map(str, original)), iter(map(str, recourse))
    found, after, added, dropped = [], None, [], []
    for edit in [*edits, "="]:
        if edit == "=":
            if added or dropped:
                found.append((after, added, dropped))
            added, dropped, after = [], [], next(new, None)
            next(old, None)
            continue
        if edit != "+":
            dropped.append(next(old))
        if edit != "-":
            added.append(next(new))
    return found


RUNGS = 5
"""How many rungs of a ladder are shown, beside the chosen one."""

WORDS = {"=": "", "~": "replaced", "+": "inserted", "-": "deleted"}
