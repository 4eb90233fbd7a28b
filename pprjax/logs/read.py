"""Reading a log: a table of what agents did, of any size, into whole paths; a bad row costs its own path alone.

A row is one step of a path: who (`agent`), on which path, at which `step`, in which `state`, and optionally the
`action` taken there and the `reward` it paid. Rows may stand in any order. A path is known by its agent and its name.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pprjax.io import replacing
from pprjax.logs.log import LINES, Log, held_out

ROWS = 2**20
"""Rows that are held in memory at once, at least."""

EDGE = ("agent", "state", "action", "next", "held")
"""The columns by which steps are counted."""

REJECTED = ("file", "line", "agent", "path", "reason")
"""The columns of a table of rejected rows."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """The names of a log's columns."""

    agent: str = "agent"
    """the column that says who acted."""
    path: str = "path"
    """the column with the name of the path, which need only be unique to its agent."""
    step: str = "step"
    """the column with the number that orders a path's rows."""
    state: str = "state"
    """the column with the state, a string or a number."""
    action: str | None = None
    """the column with the action taken there; without one, the action is to go to the next state."""
    reward: str | None = None
    """the column with the reward that it paid; without one, nothing pays."""
    good: str | None = None
    """the column that labels the rows of a path that ended well (true) or not (false)."""

    def named(self) -> dict[str, str]:
        """The columns that the log has."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


def read_log(source: Any, columns: Columns = Columns(), *, strict: bool = False, folder: Path | None = None) -> Log:
    """Read a log.

    A path is rejected, and the line and reason noted in `rejected`, if one of its rows lacks a value or has NaN for
    one (in CSV also nan, NA and null; the action and reward of its last row are not needed), if two of its rows
    have the same step, if a step is missing between two whole numbers, or if it has only one state.

    Args:
        source: a parquet, CSV or JSONL file, a folder of them, or a pandas or polars frame.
        columns: what its columns are called.
        strict: raise an error at the first bad row that is met, instead of rejecting its path.
        folder: where whole paths are kept; default a temporary folder that goes with the Log.

    Raises:
        ValueError: the source can't be read, lacks a column or has no whole path; or strict, and a row is bad.
    """
    temporary = tempfile.TemporaryDirectory(prefix="pprjax-log-") if folder is None else None
    home = Path(temporary.name) if folder is None else folder  # pyright: ignore[reportOptionalMemberAccess]
    pandas = not isinstance(source, str | Path | pl.DataFrame | pl.LazyFrame)
    named = columns.named()
    sources = list(_sources(source, pandas))
    num_buckets = _scatter(sources, named, home / "rows")
    counted, rejected = [], [_no_rejects()]
    for bucket in range(num_buckets):
        files = sorted((home / "rows" / str(bucket)).glob("*.parquet"))
        if not files:
            continue
        whole, bad = _assemble(pl.read_parquet(files), named)
        if strict and bad.height:
            row = bad.sort("file", "line").row(0, named=True)
            raise ValueError(f"{row['file']}, line {row['line']}: {row['reason']}")
        _write_bucket(whole.drop("places"), home / "paths" / f"{bucket:05d}.parquet")
        counted.append(_Counted.of(whole))
        rejected.append(bad)
    shutil.rmtree(home / "rows", ignore_errors=True)
    bad_rows, counted = pl.concat(rejected).sort("file", "line"), [c for c in counted if c.num_paths]
    if not counted:
        first = "".join(f"; the first, line {r['line']}: {r['reason']}" for r in bad_rows.head(1).to_dicts())
        raise ValueError(f"source: no whole path in it; {bad_rows.height} rows were rejected{first}")
    return Log(
        buckets=tuple(sorted((home / "paths").glob("*.parquet"))),
        num_paths=sum(c.num_paths for c in counted),
        longest=max(c.longest for c in counted),
        acted="action" in named,
        rewarded="reward" in named,
        labelled="good" in named,
        files=tuple(name for name, _ in sources),
        counts=_summed([c.counts for c in counted]),
        rejected=bad_rows,
        pandas=pandas,
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


def _sources(source: Any, pandas: bool) -> Iterator[tuple[str, pl.LazyFrame]]:
    """Each file, or the frame, with a `line` for each row: of CSV and JSONL the line of the file, else the row."""
    if pandas:
        if not hasattr(source, "columns"):
            raise ValueError(f"source: expected a file, a folder or a frame, got {type(source).__name__}")
        columns = {str(c): source[c].tolist() for c in source.columns}
        source = pl.DataFrame({c: [None if x != x else x for x in values] for c, values in columns.items()})
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        yield "frame", source.lazy().with_row_index("line")
        return
    for file in files(Path(source)):
        try:
            frame = READERS[file.suffix](file)
            frame.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ValueError(f"source: can't read {file}: {error}") from error
        yield file.name, frame


def files(source: Path) -> list[Path]:
    """The files of a log that is a file or a folder of them.

    Raises:
        ValueError: there is none, or its name does not say that it can be read.
    """
    found = sorted(p for p in source.iterdir() if p.suffix in READERS) if source.is_dir() else [source]
    if not found:
        raise ValueError(f"source: expected parquet, CSV or JSONL files in {source}, found none")
    for file in found:
        if file.suffix not in READERS:
            raise ValueError(f"source: expected a name that ends in {', '.join(READERS)}, got {file}")
        if not file.is_file():
            raise ValueError(f"source: there is no file {file}")
    return found


MISSING = ["", "NaN", "nan", "NA", "null"]
"""What stands for a lacking value in a CSV file."""


def _read_csv(file: Path) -> pl.LazyFrame:
    return pl.scan_csv(
        file,
        infer_schema=False,
        null_values=MISSING,
        row_index_name="line",
        row_index_offset=2,
        truncate_ragged_lines=True,
    )


def _read_jsonl(file: Path) -> pl.LazyFrame:
    return pl.scan_ndjson(file, row_index_name="line", row_index_offset=1, infer_schema_length=None)


def _read_parquet(file: Path) -> pl.LazyFrame:
    return pl.scan_parquet(file, row_index_name="line")


READERS = {".csv": _read_csv, ".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".parquet": _read_parquet}


def _num_rows(frame: pl.LazyFrame) -> int:
    return int(frame.select(pl.len()).collect(engine="streaming").item())


def _scatter(sources: list[tuple[str, pl.LazyFrame]], named: dict[str, str], home: Path) -> int:
    """Write the rows of each path into one of the buckets, with `bad`, what is wrong with a row; how many there are."""
    num_buckets = -(-sum(_num_rows(frame) for _, frame in sources) // ROWS) or 1
    part = 0
    for file, (name, frame) in enumerate(sources):
        there = frame.collect_schema().names()
        for option, column in named.items():
            if column not in there:
                raise ValueError(f"{option}: {name} has no column {column!r}; it has {', '.join(map(repr, there[1:]))}")
        for batch in frame.select("line", *dict.fromkeys(named.values())).collect_batches(chunk_size=ROWS):
            rows = _checked(batch, name, named).with_columns(place=file * LINES + pl.col("line"))
            keys = rows.select("agent", "path").unique()
            keys = keys.with_columns(id=pl.Series(path_ids(keys["agent"], keys["path"])))
            rows = rows.join(keys, on=["agent", "path"], how="left", nulls_equal=True)
            for (bucket,), mine in rows.group_by(pl.col("id") % num_buckets):
                folder = home / str(bucket)
                folder.mkdir(parents=True, exist_ok=True)
                mine.write_parquet(folder / f"{part:06d}.parquet", compression="lz4")
            part += 1
    return num_buckets


def _checked(batch: pl.DataFrame, file: str, named: dict[str, str]) -> pl.DataFrame:
    """The rows of a batch under our own names, and in `bad` what is wrong with each."""
    columns, wrong = [pl.lit(file).alias("file"), pl.col("line").cast(pl.Int64)], []
    for name, column in named.items():
        dtype, raw = batch.schema[column], pl.col(column)
        if name == "step":
            value = (raw.to_physical() if dtype.is_temporal() else raw).cast(pl.Float64, strict=False)
            columns.append((value.is_finite() & (value == value.floor()) & (not dtype.is_temporal())).alias("whole"))
        elif name == "reward":
            value = raw.cast(pl.Float64, strict=False)
        elif name == "good":
            text = raw.cast(pl.String).str.to_lowercase()
            value = pl.when(text.is_in(TRUE)).then(True).when(text.is_in(FALSE)).then(False).otherwise(None)
        else:
            value = raw.fill_nan(None).cast(pl.String) if dtype.is_float() else raw.cast(pl.String)
        columns.append(value.alias(name))
        may_lack = raw.is_null() if name in ("action", "reward") else pl.lit(False)  # the last row of a path may
        bad = value.is_null() & ~may_lack
        if name in ("step", "reward"):
            bad = bad | value.is_nan().fill_null(False)
        got = raw.cast(pl.String).fill_null("nothing")
        wrong.append(pl.when(bad).then(pl.format(f"{column}: expected {WANTED[name]}, got {{}}", got)))
    rows = batch.select(*columns, pl.coalesce(wrong).alias("bad"))
    missing = [pl.lit(None, t).alias(n) for n, t in OPTIONAL.items() if n not in rows.columns]
    return rows.with_columns(missing)


TRUE, FALSE = ["true", "1", "1.0", "yes", "good"], ["false", "0", "0.0", "no", "bad"]
OPTIONAL = {"action": pl.String, "reward": pl.Float64, "good": pl.Boolean}
WANTED = {
    "agent": "an agent",
    "path": "the name of a path",
    "step": "a number",
    "state": "a state",
    "action": "an action",
    "reward": "a number",
    "good": "true or false",
}


def _assemble(rows: pl.DataFrame, named: dict[str, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The whole paths of a bucket, and what is wrong with the others."""
    by = ["agent", "path"]
    rows = rows.sort(*by, "step", "file", "line")
    before, after = pl.col("step").shift().over(by), pl.col("step").shift(-1).over(by)
    inner = after.is_not_null()
    whole = pl.col("step").cast(pl.Int64, strict=False).cast(pl.String)
    shown = pl.when("whole").then(whole).otherwise(pl.col("step").cast(pl.String))
    rows = rows.with_columns(
        reason=pl.coalesce(
            "bad",
            pl.when(pl.col("step") == before).then(pl.format("step {} stands there twice", shown)),
            pl.when(pl.col("whole") & (pl.col("step") > before + 1)).then(
                pl.format("step {} comes after {}: expected no gap", shown, shown.shift().over(by))
            ),
            pl.when(inner & pl.col("action").is_null() & ("action" in named)).then(pl.lit("action: missing")),
            pl.when(inner & pl.col("reward").is_null() & ("reward" in named)).then(pl.lit("reward: missing")),
            pl.when(pl.len().over(by) == 1).then(pl.lit("a path of one state: expected two at least")),
            pl.when(pl.col("good") != pl.col("good").first().over(by)).then(
                pl.lit("the path is labelled both good and bad")
            ),
        )
    )
    whole = rows.filter(pl.col("reason").is_null().all().over(by))
    steps = pl.len() - 1
    paths = whole.group_by("id", *by, maintain_order=True).agg(
        states=pl.col("state"),
        actions=(pl.col("action") if "action" in named else pl.col("state").shift(-1)).head(steps),
        rewards=pl.col("reward").fill_null(0.0).head(steps),
        good=pl.col("good").first(),
        places=pl.col("place").head(steps),
    )
    return paths, rows.filter(pl.col("reason").is_not_null()).select(*REJECTED)


@dataclasses.dataclass(frozen=True)
class _Counted:
    num_paths: int
    longest: int
    counts: pl.DataFrame

    @classmethod
    def of(cls, paths: pl.DataFrame) -> _Counted:
        paths = paths.with_columns(held=held_out())
        steps = (
            paths.select(
                "agent",
                "held",
                state=pl.col("states").list.head(pl.col("states").list.len() - 1),
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
            longest=int(paths["states"].list.len().max() or 0),  # pyright: ignore[reportArgumentType]
            counts=steps,
        )


def _summed(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """One row for each edge; sorted, so that the order of the rows of a log does not matter."""
    edges = pl.concat(frames).group_by(*EDGE)
    return edges.agg(pl.col("count", "reward").sum(), pl.col("first").min()).sort(*EDGE)


def _no_rejects() -> pl.DataFrame:
    return pl.DataFrame(schema={"file": pl.String, "line": pl.Int64, **dict.fromkeys(REJECTED[2:], pl.String)})
