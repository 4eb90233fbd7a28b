"""One path of a log beside its recourse, edit by edit."""

from __future__ import annotations

from pathlib import Path

import tyro


def main(table: tyro.conf.Positional[Path], *, path: str, agent: str | None = None) -> None:
    """Print a path beside its recourse, edit by edit, and what to do otherwise.

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
    row = found.row(0, named=True)
    Console().print(drawing(row))
    if row["edits"]:
        Console().print(advice(row), highlight=False, markup=False)


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
    count = sum(edit != "=" for edit in row["edits"])
    return f"What to do otherwise: {'; '.join(parts)} ({count} edit{'s' if count > 1 else ''})."


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


WORDS = {"=": "", "~": "replaced", "+": "inserted", "-": "deleted"}
