"""Reading a log: a table of what agents did, of any size, into whole paths; a bad row costs its own path alone.

A row is one step of a path: on which path, at which `step`, in which `state`, and optionally who (`agent`), the
`action` taken there and the `reward` it paid. Rows may stand in any order. A path is known by its name; several agents
may use one name where the steps of each plainly begin anew.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pprjax.errors import UserError
from pprjax.io import replacing
from pprjax.logs.bins import Edges, find_edges
from pprjax.logs.columns import LIFECYCLE, RESOURCE, Columns
from pprjax.logs.log import LINES, Log, held_out, placed
from pprjax.logs.rows import EVERYONE, REJECTED, Survey, assemble, checked
from pprjax.logs.sources import LINE, Source, sources
from pprjax.logs.times import KIND, REST, WHOLE
from pprjax.logs.xes import CASE, NAME

ROWS = 2**20
"""Rows that are held in memory at once, at least."""

ASKED = ("action", "reward", "good")
"""Columns that are read only where they are named: each changes what a log means."""

EDGE = ("agent", "state", "action", "next", "held")
"""The columns by which steps are counted."""


def read_log(
    source: Any,
    columns: Columns = Columns(),
    *,
    strict: bool = False,
    closed: bool = False,
    folder: Path | None = None,
) -> Log:
    """Read a log.

    A path is rejected, and the line and reason noted in `rejected`, if one of its rows lacks a value or has NaN for
    one (in CSV also nan, NA and null; the agent need stand on one row alone, and the action and reward of the last row
    are not needed), if its rows can't be ordered (some have numbers, some times, or some times a zone and some none),
    or if a step is missing between two whole numbers in a log that counts steps. A last row with an action leads to an
    end of its own, "end after ACTION in STATE"; without actions, one that pays does.

    Args:
        source: a parquet, CSV, JSONL or XES file, a folder of them, or a pandas or polars frame. CSV may be separated
            by commas, semicolons, tabs or bars. CSV and JSONL may be packed (.gz, .zst), XES too (.gz).
        columns: what its columns are called; see `Log.columns` for what was found.
        strict: raise an error at the first bad row that is met, instead of rejecting its path.
        closed: where a path ends is a step as well, from its last state to "(end)", so that it is told apart from what
            a path passes; needed by a goal "ends=X" of `fit_log`. A last row's action leads there. Names are strings.
        folder: where whole paths are kept; default a temporary folder that goes with the Log.

    Raises:
        ValueError: the source can't be read, lacks a column or has no whole path; a path has several agents; or
            strict, and a row is bad.
    """
    temporary = tempfile.TemporaryDirectory(prefix="pprjax-log-") if folder is None else None
    home = Path(temporary.name) if folder is None else folder  # pyright: ignore[reportOptionalMemberAccess]
    wanted = [column for named in columns.named().values() for column in named]
    found = list(sources(source, wanted, home / "unpacked"))
    taken = columns.found_in([(part.name, part.columns) for part in found])
    edges = find_edges(taken.bins, taken.named()["state"], (part.frame for part in found))
    rows = _scatter(found, taken, edges, home / "rows")
    taken, survey = _surveyed(rows.folders, columns, taken)
    counted, rejected = [], [_no_rejects()]
    for bucket in rows.folders:
        frame = pl.read_parquet(sorted(bucket.glob("*.parquet")))
        if taken.agent is None:
            frame = frame.with_columns(agent=pl.lit(EVERYONE))
        whole, bad = assemble(frame, taken, survey, counted=survey.counted and not rows.left_out, closed=closed)
        if strict and bad.height:
            row = bad.sort("file", "line").row(0, named=True)
            raise UserError(f"{placed(row['file'], row['line'])}: {row['reason']}")
        whole = whole.with_columns(id=pl.Series(path_ids(whole["agent"], whole["path"])))
        paths = whole.select("id", "agent", "path", "states", "actions", "rewards", "good")
        _write_bucket(paths, home / "paths" / f"{bucket.name}.parquet")
        counted.append(_Counted.of(whole))
        rejected.append(bad)
    for name in ("rows", "unpacked"):
        shutil.rmtree(home / name, ignore_errors=True)
    bad_rows, counted = pl.concat(rejected).sort("file", "line"), [c for c in counted if c.num_paths]
    if not counted:
        if not bad_rows.height:
            raise UserError("source: it has no rows")
        first = [f"; the first, {placed(r['file'], r['line'])}: {r['reason']}" for r in bad_rows.head(1).to_dicts()]
        untimed = bad_rows["reason"].str.starts_with(f"{taken.step}: expected").sum()
        hint = ". --time-format, or Columns(time_format=…), says how times are written"
        hint = hint if 2 * untimed >= bad_rows.height else ""
        raise UserError(
            f"source: no path in it could be read; {bad_rows.height} rows were rejected{''.join(first)}{hint}"
        )
    if max(c.longest for c in counted) == 1 + closed:
        raise UserError("source: every path in it is one state alone: expected a path of two at least")
    return Log(
        buckets=tuple(sorted((home / "paths").glob("*.parquet"))),
        num_paths=sum(c.num_paths for c in counted),
        longest=max(c.longest for c in counted),
        acted=taken.action is not None,
        rewarded=taken.reward is not None,
        labelled=taken.good is not None,
        closed=closed,
        files=tuple(part.name for part in found),
        counts=_summed([c.counts for c in counted]),
        alone=pl.concat([c.alone for c in counted]).unique().sort("agent", "state"),
        rejected=bad_rows,
        columns=taken,
        edges=edges,
        unused=tuple(n for n in ASKED if n not in taken.named() and all(n in part.columns for part in found)),
        num_rows=rows.num_rows,
        left_out=rows.left_out,
        ends=sum(c.ends for c in counted),
        torn=survey.several + survey.without if taken.agent is None else 0,
        shared=survey.shared if survey.own else 0,
        alike=sum(part.alike for part in found) if f"{CASE}{NAME}" in taken.named()["path"] else 0,
        pandas=not isinstance(source, str | Path | pl.DataFrame | pl.LazyFrame),
        home=temporary,
    )


def _write_bucket(paths: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as aside:
        paths.write_parquet(aside)


def path_ids(agents: pl.Series, paths: pl.Series) -> np.ndarray:
    """uint32[N]: a number for each path that depends on its agent and name alone."""
    pairs = zip(agents.to_list(), paths.to_list(), strict=True)
    return np.array([zlib.crc32(f"{agent}\0{path}".encode()) for agent, path in pairs], np.uint32)


class _Rows(NamedTuple):
    """The rows of a log in buckets, those of a path together."""

    folders: list[Path]
    num_rows: int  # with those left out
    left_out: int  # starts of activities


def _scatter(found: list[Source], columns: Columns, edges: Edges, home: Path) -> _Rows:
    """Write the rows of each path into one of the buckets, with `bad`, what is wrong with a row."""
    sizes = [_size(part, columns) for part in found]
    num_rows, num_starts = sum(rows for rows, _ in sizes), sum(starts for _, starts in sizes)
    leave_out = 0 < num_starts < num_rows and not columns.starts
    num_buckets = -(-num_rows // ROWS) or 1
    number = 0
    for file, part in enumerate(found):
        frame = part.frame.filter(~_is_start()) if leave_out and LIFECYCLE in part.columns else part.frame
        wanted = frame.select(LINE, *dict.fromkeys(c for named in columns.named().values() for c in named))
        for batch in _batches(part.name, wanted):
            rows = checked(batch, part.name, columns, edges).with_columns(place=file * LINES + pl.col("line"))
            if part.wide is not None and part.wide.height:
                rows = rows.join(part.wide, on="line", how="left").with_columns(bad=pl.coalesce("wide", "bad"))
                rows = rows.drop("wide")
            keys = rows.select("path").unique()
            hashes = [zlib.crc32(str(path).encode()) % num_buckets for path in keys["path"].to_list()]
            rows = rows.join(keys.with_columns(bucket=pl.Series(hashes)), on="path", how="left", nulls_equal=True)
            for (bucket,), members in rows.group_by("bucket"):
                folder = home / f"{bucket:05d}"
                folder.mkdir(parents=True, exist_ok=True)
                members.drop("bucket").write_parquet(folder / f"{number:06d}.parquet", compression="lz4")
            number += 1
    return _Rows(sorted(home.iterdir()) if home.exists() else [], num_rows, num_starts if leave_out else 0)


def _is_start() -> pl.Expr:
    return (pl.col(LIFECYCLE).cast(pl.String).str.to_lowercase() == "start").fill_null(False)


def _size(part: Source, columns: Columns) -> tuple[int, int]:
    """How many rows there are, and how many are starts that may be left out."""
    known = LIFECYCLE in part.columns and LIFECYCLE not in columns.named()["state"]
    starts = _is_start().sum() if known else pl.lit(0)
    (counts,) = _batches(part.name, part.frame.select(rows=pl.len(), starts=starts))
    return int(counts["rows"].item()), int(counts["starts"].item())


def _batches(name: str, frame: pl.LazyFrame) -> Any:
    """The frame in parts that fit in memory."""
    try:
        yield from frame.collect_batches(chunk_size=ROWS, engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"source: can't read {name}: {error}; expected a whole file, in UTF-8 if it is text") from error


def _surveyed(folders: list[Path], asked: Columns, taken: Columns) -> tuple[Columns, Survey]:
    """What the rows show; and the columns, without an agent that was found by its name but is another for each event.

    Raises:
        ValueError: a path has several agents.
    """
    columns = ["agent", "path", KIND, WHOLE, REST]
    parts = (pl.read_parquet(sorted(folder.glob("*.parquet")), columns=columns) for folder in folders)
    survey = sum(map(Survey.of, parts), Survey())
    guessed = asked.agent is None and taken.agent == RESOURCE
    if guessed and (survey.several or survey.without):
        return dataclasses.replace(taken, agent=None), survey._replace(shared=0)
    if survey.several == survey.shared:
        return taken, survey
    out = "leave --agent out" if taken.agent != "agent" else 'give --agent ""'
    path = " ".join(taken.named()["path"])
    raise UserError(
        f"agent: {survey.several:,} of {survey.num_paths:,} paths have several agents in {taken.agent!r}, the first "
        f"{survey.first!r}; expected one for each. If they are all one agent, {out}; if a name is that of one path for "
        f"each agent, give --path {path} {taken.agent}"
    )


@dataclasses.dataclass(frozen=True)
class _Counted:
    num_paths: int
    longest: int
    ends: int
    counts: pl.DataFrame
    alone: pl.DataFrame

    @classmethod
    def of(cls, paths: pl.DataFrame) -> _Counted:
        paths = paths.with_columns(held=held_out(), length=pl.col("states").list.len())
        steps = (
            paths.filter(pl.col("length") > 1)
            .select(
                "agent",
                "held",
                state=pl.col("states").list.head(pl.col("length") - 1),
                next=pl.col("states").list.slice(1),
                action="actions",
                reward="rewards",
                place="places",
            )
            .explode("state", "next", "action", "reward", "place")
            .group_by(*EDGE)
            .agg(count=pl.len().cast(pl.Int64), reward=pl.col("reward").sum(), first=pl.col("place").min())
        )
        return cls(
            num_paths=paths.height,
            longest=int(paths["length"].max() or 0),  # pyright: ignore[reportArgumentType]
            ends=int(paths["ends"].sum()),
            counts=steps,
            alone=paths.filter(pl.col("length") == 1).select("agent", state=pl.col("states").list.first()).unique(),
        )


def _summed(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """One row for each edge; sorted, so that the order of the rows of a log does not matter."""
    edges = pl.concat(frames).group_by(*EDGE)
    return edges.agg(pl.col("count", "reward").sum(), pl.col("first").min()).sort(*EDGE)


def _no_rejects() -> pl.DataFrame:
    return pl.DataFrame(schema={"file": pl.String, "line": pl.Int64, **dict.fromkeys(REJECTED[2:], pl.String)})
