"""Logs: tables of what agents did, of any size, read into whole paths; what is wrong with a row costs its path alone.

A row is one step of a path: who (`agent`), on which path, at which `step`, in which `state`, and optionally the
`action` taken there and the `reward` it paid. Rows may stand in any order. A path is known by its agent and its name.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from pprjax.io import replacing, write_json, write_table
from pprjax.logs.fitted import Fitted, fit

ROWS = 2**20
"""Rows that are held in memory at once, at least."""

HELD_OUT = 10
"""Every tenth path, by its hash, is held out where a setting is chosen by likelihood."""

TABLES = ("counts", "rejected")

WAYS = ("file", "line", "agent", "path", "reason")
"""The columns of a table of rejected rows."""


@dataclasses.dataclass(frozen=True)
class Log:
    """Whole paths on disk, and what was counted on the way."""

    buckets: tuple[Path, ...]  # parquet: id, agent, path, states, actions, rewards, good
    num_paths: int
    longest: int  # states of the longest path
    rewarded: bool  # the log says what steps paid
    labelled: bool  # and which paths were good
    counts: pl.DataFrame  # agent, state, action, next, held, count, reward (summed)
    rejected: pl.DataFrame  # file, line, agent, path, reason
    pandas: bool = False  # frames go out as pandas', since the log came in as one
    home: Any = dataclasses.field(default=None, repr=False)  # keeps a temporary folder alive

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        agent: str = "agent",
        path: str = "path",
        step: str = "step",
        state: str = "state",
        action: str | None = None,
        reward: str | None = None,
        good: str | None = None,
        strict: bool = False,
        folder: Path | None = None,
    ) -> Log:
        """Read a log.

        A path is rejected, and the line and reason noted in `rejected`, if one of its rows lacks a value or has NaN for
        one (in CSV also nan, NA and null; the action and reward of its last row are not needed), if two of its rows
        have the same step, if a step is missing between two whole numbers, or if it has only one state.

        Args:
            source: a parquet, CSV or JSONL file, a folder of them, or a pandas or polars frame.
            agent: the name of the column that says who acted; the next ones alike.
            path: of the name of the path, which need only be unique to its agent.
            step: of a number that orders the path's rows.
            state: of the state, a string or a number.
            action: of the action taken there; None: the action is to go to the next state.
            reward: of the reward that it paid; None: nothing pays.
            good: of a label, true for the rows of a path that ended well; None: the log has none.
            strict: raise an error at the first bad row that is met, instead of rejecting its path.
            folder: where whole paths are kept; default a temporary folder that goes with the Log.

        Raises:
            ValueError: the source can't be read, lacks a column or has no whole path; or strict, and a row is bad.
        """
        named = {"agent": agent, "path": path, "step": step, "state": state}
        named |= {k: v for k, v in (("action", action), ("reward", reward), ("good", good)) if v is not None}
        temporary = tempfile.TemporaryDirectory(prefix="pprjax-log-") if folder is None else None
        home = Path(temporary.name) if temporary else cast(Path, folder)
        pandas = not isinstance(source, str | Path | pl.DataFrame | pl.LazyFrame)
        sources = list(_sources(source, pandas))
        total = sum(_num_rows(frame) for _, frame in sources)
        num_buckets = -(-total // ROWS) or 1
        _scatter(sources, named, num_buckets, home / "rows")

        parts = []
        for bucket in range(num_buckets):
            files = sorted((home / "rows" / str(bucket)).glob("*.parquet"))
            if not files:
                continue
            whole, bad = _assemble(pl.read_parquet(files), named)
            if strict and bad.height:
                row = bad.sort("file", "line").row(0, named=True)
                raise ValueError(f"{row['file']}, line {row['line']}: {row['reason']}")
            parts.append((_Counted.of(whole), bad))
            where = home / "paths" / f"{bucket:05d}.parquet"
            where.parent.mkdir(parents=True, exist_ok=True)
            with replacing(where) as aside:
                whole.write_parquet(aside)
        shutil.rmtree(home / "rows", ignore_errors=True)
        rejected = pl.concat([bad for _, bad in parts]).sort("file", "line") if parts else _no_rejects()
        counted = [c for c, _ in parts if c.num_paths]
        if not counted:
            why = [
                f"; the first, line {row['line']}: {row['reason']}" for row in rejected.head(1).iter_rows(named=True)
            ]
            raise ValueError(f"source: no whole path in it; {rejected.height} rows were rejected{''.join(why)}")
        return cls(
            buckets=tuple(sorted((home / "paths").glob("*.parquet"))),
            num_paths=sum(c.num_paths for c in counted),
            longest=max(c.longest for c in counted),
            rewarded="reward" in named,
            labelled="good" in named,
            counts=_summed([c.counts for c in counted], ["agent", "state", "action", "next", "held"]),
            rejected=rejected,
            pandas=pandas,
            home=temporary,
        )

    def save(self) -> None:
        """Write what was counted beside the paths, for `open`; the Log must have been read into a folder."""
        folder = self.buckets[0].parent.parent
        for name in TABLES:
            write_table(getattr(self, name), folder / f"{name}.parquet")
        sizes = {name: getattr(self, name) for name in ("num_paths", "longest", "rewarded", "labelled")}
        write_json(sizes, folder / "log.json")

    @classmethod
    def open(cls, folder: Path) -> Log:
        """A Log that was read into this folder and saved."""
        sizes = json.loads((folder / "log.json").read_text(encoding="utf-8"))
        counts, rejected = (pl.read_parquet(folder / f"{name}.parquet") for name in TABLES)
        buckets = tuple(sorted((folder / "paths").glob("*.parquet")))
        return cls(buckets=buckets, counts=counts, rejected=rejected, **sizes)

    def fit(self, goal: str | None = None, *, smoothing: float | None = None, max_steps: int | None = None) -> Fitted:
        """The world and the agents that this log tells of; see `pprjax.logs.fitted.fit`."""
        return fit(self, goal, smoothing=smoothing, max_steps=max_steps)

    def frames(self) -> Iterator[pl.DataFrame]:
        """The whole paths, bucket after bucket: id, agent, path, states, actions, rewards, good."""
        for bucket in self.buckets:
            yield pl.read_parquet(bucket)


def held_out() -> pl.Expr:
    """Which of the whole paths in a frame are held out."""
    return pl.col("id") % HELD_OUT == 0


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


def _scatter(sources: list[tuple[str, pl.LazyFrame]], named: dict[str, str], num_buckets: int, home: Path) -> None:
    """Write the rows of each path into one of the buckets, with `bad`, what is wrong with a row."""
    part = 0
    for name, frame in sources:
        there = frame.collect_schema().names()
        for option, column in named.items():
            if column not in there:
                raise ValueError(f"{option}: {name} has no column {column!r}; it has {', '.join(map(repr, there[1:]))}")
        for batch in frame.select("line", *dict.fromkeys(named.values())).collect_batches(chunk_size=ROWS):
            rows = _checked(batch, name, named)
            keys = rows.select("agent", "path").unique()
            keys = keys.with_columns(id=pl.Series(path_ids(keys["agent"], keys["path"])))
            rows = rows.join(keys, on=["agent", "path"], how="left", nulls_equal=True)
            for (bucket,), mine in rows.group_by(pl.col("id") % num_buckets):
                folder = home / str(bucket)
                folder.mkdir(parents=True, exist_ok=True)
                mine.write_parquet(folder / f"{part:06d}.parquet", compression="lz4")
            part += 1


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
    )
    return paths, rows.filter(pl.col("reason").is_not_null()).select(*WAYS)


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
            )
            .explode("state", "next", "action", "reward")
            .group_by("agent", "state", "action", "next", "held")
            .agg(count=pl.len().cast(pl.Int64), reward=pl.col("reward").sum())
        )
        return cls(
            num_paths=paths.height,
            longest=int(paths["states"].list.len().max() or 0),  # pyright: ignore[reportArgumentType]
            counts=steps,
        )


def _summed(frames: list[pl.DataFrame], by: list[str]) -> pl.DataFrame:
    """One row for each key; sorted, so that the order of the rows of a log does not matter."""
    return pl.concat(frames).group_by(by).agg(pl.all().sum()).sort(by)


def _no_rejects() -> pl.DataFrame:
    return pl.DataFrame(schema={"file": pl.String, "line": pl.Int64, **dict.fromkeys(WAYS[2:], pl.String)})
