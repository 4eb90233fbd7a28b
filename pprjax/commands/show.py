"""One path of a log beside its recourse, edit by edit."""

from __future__ import annotations

from pathlib import Path

import tyro


def main(table: tyro.conf.Positional[Path], *, path: str, agent: str | None = None) -> None:
    """Print a path beside its recourse, edit by edit.

    Args:
        table: what `pprjax recourse` wrote.
        path: the name of the path.
        agent: whose path, if several agents have one of that name.
    """
    import polars as pl
    from rich.console import Console

    try:
        rows = pl.scan_parquet(table).filter(pl.col("path") == path)
        rows = rows if agent is None else rows.filter(pl.col("agent").cast(pl.String) == agent)
        found = rows.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"table: expected what `pprjax recourse` wrote, got {table}: {error}") from error
    if not found.height:
        whose = "" if agent is None else f" of agent {agent!r}"
        raise ValueError(f"path: {table} has no path {path!r}{whose}{_why_rejected(table, path)}")
    if found.height > 1:
        raise ValueError(f"agent: {found.height} agents have a path {path!r}: {', '.join(map(str, found['agent']))}")
    Console().print(drawing(found.row(0, named=True)))


def _why_rejected(table: Path, path: str) -> str:
    """What OUT.rejected says of a path that is not in OUT."""
    import polars as pl

    rejected = table.with_name(f"{table.name}.rejected")
    if not rejected.exists():
        return ""
    rows = pl.read_csv(rejected, infer_schema=False).filter(pl.col("path") == path)
    return "".join(f"; it was rejected, line {row['line']}: {row['reason']}" for row in rows.head(1).to_dicts())


def drawing(row: dict):
    """One row of the table of recourses, as a rich table: a line for each edit."""
    from rich import box
    from rich.table import Table

    gap = "" if row["gap"] is None else f", certified within {row['gap']:.2%} of the best"
    if row["probability"] is not None and row["probability"] < 1:
        gap += f"; the world leads along it with probability {row['probability']:.3g}"
    why = f", {row['reason']}" if row["reason"] else ""
    title = f"path {row['path']} of agent {row['agent']}: {row['status']}{why}{gap}"
    if not row["edits"]:
        shown = Table(title=title, box=box.SIMPLE_HEAD)
        shown.add_column("original")
        for state in row["original"]:
            shown.add_row(str(state))
        return shown
    rewards = f"R_goal {row['reward_before']:g} → {row['reward_after']:g}, {row['distance']} edits"
    shown = Table(title=title, caption=rewards, box=box.SIMPLE_HEAD)
    for name in ("original", "", "recourse", "action"):
        shown.add_column(name)
    old, new = iter(row["original"]), iter(row["recourse"])
    actions = iter([*row["actions"], ""])
    for edit in row["edits"]:
        before = "" if edit == "+" else str(next(old))
        after = "" if edit == "-" else str(next(new))
        action = "" if edit == "-" else str(next(actions))
        shown.add_row(before, WORDS[edit], after, action)
    return shown


WORDS = {"=": "", "~": "replaced", "+": "inserted", "-": "deleted"}
