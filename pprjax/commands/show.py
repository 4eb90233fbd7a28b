"""One path of a log beside its recourse, edit by edit."""

from __future__ import annotations

from pathlib import Path

import tyro

from pprjax.errors import UserError
from pprjax.logs.advice import advice, closer, custom, numbered, proof, shorter, shown_of, spelled
from pprjax.logs.outputs import asked, beside, earns, limits
from pprjax.logs.words import counted, listed


def main(table: tyro.conf.Positional[Path], *, path: str, agent: str | None = None) -> None:
    """Print a path beside its recourse, edit by edit, and what to do otherwise.

    Args:
        table: what `pprjax recourse` wrote.
        path: the name of the path.
        agent: whose path, if several agents have one of that name.
    """
    import polars as pl
    from rich.console import Console

    from pprjax.logs.report import readable

    with readable(table):
        rows = pl.scan_parquet(table).filter(pl.col("path") == path)
        rows = rows if agent is None else rows.filter(pl.col("agent").cast(pl.String) == agent)
        found, rewarded = rows.collect(), earns(pl.scan_parquet(table))
    if not found.height:
        of_agent = "" if agent is None else f" of agent {agent!r}"
        raise UserError(
            f"path: {table} has no path {path!r}{of_agent}{_why_rejected(table, path) or _meant(table, path)}"
        )
    if found.height > 1:
        raise UserError(f"agent: {found.height} agents have a path {path!r}: {', '.join(map(str, found['agent']))}")
    row = found.row(0, named=True)
    rungs, console = _rungs(table, row), Console()
    console.print(drawing(row, rewarded))
    if row["edits"]:
        told = [advice(row), custom(row, _own_steps(table, row)), closer(row, rungs, limits(asked(table)))]
        console.print(" ".join(filter(None, told)), highlight=False, markup=False)
    if len(rungs) > 1:
        console.print(ladder(rungs, beside(table, "ladder"), rewarded))


def _rungs(table: Path, row: dict) -> list[dict]:
    """What OUT.ladder has of a path, the fewest edits first."""
    import polars as pl

    file = beside(table, "ladder")
    if not file.exists():
        return []
    rows = pl.scan_parquet(file).filter(pl.col("agent") == row["agent"], pl.col("path") == row["path"]).collect()
    original = pl.lit(row["original"], dtype=rows.schema["recourse"])
    return rows.sort("distance").with_columns(original=original).to_dicts()


def _own_steps(table: Path, row: dict) -> list[dict]:
    """What OUT.fit says of the agent's own steps."""
    import polars as pl

    file = beside(table, "fit") / "policies.parquet"
    if not file.exists():
        return []
    return pl.scan_parquet(file).filter(pl.col("agent") == row["agent"]).collect().to_dicts()


def _why_rejected(table: Path, path: str) -> str:
    """What OUT.rejected says of a path that is not in OUT."""
    import polars as pl

    rejected = beside(table, "rejected")
    if not rejected.exists():
        return ""
    rows = pl.read_csv(rejected, infer_schema=False).filter(pl.col("path") == path)
    return "".join(f"; it was rejected, line {row['line']}: {row['reason']}" for row in rows.head(1).to_dicts())


def _meant(table: Path, path: str) -> str:
    """Which paths have the same name but for capitals and blanks at its ends."""
    import polars as pl

    name = pl.col("path").str.strip_chars().str.to_lowercase()
    near = pl.scan_parquet(table).filter(name == path.strip().lower()).select("path").unique().collect()["path"]
    return f"; did you mean {listed(near.sort().to_list(), 'or')}?" if len(near) else ""


def drawing(row: dict, rewarded: bool = True):
    """One row of the table of recourses, as a rich table with a line for each edit, between two lines of text.

    States that the original passes again are numbered, as in the advice.

    Args:
        rewarded: say what the paths earn.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    why = f", {row['reason']}" if row["reason"] else ""
    title = Text(f"path {row['path']} of agent {row['agent']}: {row['status']}{why}{proof(row)}")
    shown = Table(box=box.SIMPLE_HEAD)
    if not row["edits"]:
        shown.add_column("original")
        for state in numbered(row["original"]):
            shown.add_row(Text(state))
        return Group(title, shown)
    for name in ("original", "", "recourse", "action"):
        shown.add_column(name)
    old, new = iter(numbered(row["original"])), iter(map(spelled, row["recourse"]))
    actions = iter([*row["actions"], ""])
    for edit in row["edits"]:
        before = "" if edit == "+" else next(old)
        after = "" if edit == "-" else next(new)
        action = "" if edit == "-" else spelled(next(actions))
        shown.add_row(Text(before), WORDS[edit], Text(after), Text(action))
    earned = f"R_goal {row['reward_before']:g} → {row['reward_after']:g}, " if rewarded else ""
    return Group(title, shown, Text(f"{earned}{counted(row['distance'], 'edit')}"))


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

    told = shown_of(rungs)
    more = f"; {len(rungs) - len(told)} more in {file}" if len(told) < len(rungs) else ""
    shown = Table(box=box.SIMPLE_HEAD)
    for name in ("", "edits", *(["R_goal"] if rewarded else []), "mean log P"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("what to do otherwise")
    for rung in told:
        earned = [f"{rung['reward_after']:g}"] if rewarded else []
        figures = [str(rung["distance"]), *earned, f"{rung['s_policy']:.2f}"]
        style = "bold" if rung["chosen"] else None
        shown.add_row("→" if rung["chosen"] else "", *figures, Text(shorter(rung)), style=style)
    return Group(Text("\nFor each number of edits:"), shown, Text(f"→ is the one above{more}"))


WORDS = {"=": "", "~": "replaced", "+": "inserted", "-": "deleted"}
