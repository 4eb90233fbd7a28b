"""Log: whole paths on disk, and what was counted on the way."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from pprjax.io import write_json, write_table

HELD_OUT = 10
"""Every tenth path, by its hash, is held out where a setting is chosen by likelihood."""

TABLES = ("counts", "rejected")
SAYS = ("num_paths", "longest", "acted", "rewarded", "labelled", "files")

LINES = 2**40
"""Line l of file f is number f · LINES + l."""


@dataclasses.dataclass(frozen=True)
class Log:
    """The whole paths of a log, as `pprjax.read_log` found them."""

    buckets: tuple[Path, ...]  # parquet: id, agent, path, states, actions, rewards, good
    num_paths: int
    longest: int  # states of the longest path
    acted: bool  # the log says what was done; else an action is to go to the next state
    rewarded: bool  # and what steps paid
    labelled: bool  # and which paths were good
    files: tuple[str, ...]  # their names, in the order in which they were read
    counts: pl.DataFrame  # agent, state, action, next, held, count, reward (summed), first (see `place`)
    rejected: pl.DataFrame  # file, line, agent, path, reason
    pandas: bool = False  # frames go out as pandas', since the log came in as one
    home: Any = dataclasses.field(default=None, repr=False)  # keeps a temporary folder alive

    def save(self) -> None:
        """Write what was counted beside the paths, for `open`; the Log must have been read into a folder."""
        folder = self.buckets[0].parent.parent
        for name in TABLES:
            write_table(getattr(self, name), folder / f"{name}.parquet")
        write_json({name: getattr(self, name) for name in SAYS}, folder / "log.json")

    @classmethod
    def open(cls, folder: Path) -> Log:
        """A Log that was read into this folder and saved."""
        says = json.loads((folder / "log.json").read_text(encoding="utf-8"))
        counts, rejected = (pl.read_parquet(folder / f"{name}.parquet") for name in TABLES)
        buckets = tuple(sorted((folder / "paths").glob("*.parquet")))
        return cls(buckets=buckets, counts=counts, rejected=rejected, **says | {"files": tuple(says["files"])})

    def place(self, first: int) -> str:
        """Which line of which file a `first` of the counts is."""
        file, line = divmod(first, LINES)
        return f"{self.files[file]}, line {line}"

    def frames(self) -> Iterator[pl.DataFrame]:
        """The whole paths, bucket after bucket: id, agent, path, states, actions, rewards, good."""
        for bucket in self.buckets:
            yield pl.read_parquet(bucket)


def held_out() -> pl.Expr:
    """Which of the whole paths in a frame are held out."""
    return pl.col("id") % HELD_OUT == 0
