"""Log: whole paths on disk, and what was counted on the way."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from pprjax.io import write_json, write_table
from pprjax.logs.bins import Edges
from pprjax.logs.columns import LIFECYCLE, RESOURCE, Columns
from pprjax.logs.words import counted, listed, nearly_equal

HELD_OUT = 10
"""Every tenth path, by its hash, is held out where a setting is chosen by likelihood."""

TABLES = ("counts", "alone", "rejected")
SIZES = ("num_paths", "longest", "num_rows", "left_out", "ends", "torn", "shared", "alike")
SAYS = (*SIZES, "acted", "rewarded", "labelled", "closed", "files", "unused", "edges")

END = "end after "
"""How the name of a state begins to which the action of a last row leads."""

CLOSE = "(end)"
"""The state to which every path of a closed log comes after its last, and the action that leads there."""

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
    closed: bool  # every path comes to CLOSE after its last state
    files: tuple[str, ...]  # their names, in the order in which they were read
    counts: pl.DataFrame  # agent, state, action, next, held, count, reward (summed), first (see `place`)
    alone: pl.DataFrame  # agent, state: of paths of one state
    rejected: pl.DataFrame  # file, line, agent, path, reason
    columns: Columns = Columns()  # what was taken for what; None for what the log does not say
    edges: Edges = dataclasses.field(default_factory=dict)  # of the state's columns that are binned
    unused: tuple[str, ...] = ()  # columns called action, reward or good that nobody named
    num_rows: int = 0  # with those that were left out
    left_out: int = 0  # starts of activities
    ends: int = 0  # paths whose last row has an action, which leads to an end of its own
    torn: int = 0  # paths for which org:resource, which was not asked for, names several agents or none
    shared: int = 0  # names that several agents use for paths of their own
    alike: int = 0  # traces of XES that have the name of one before
    pandas: bool = False  # frames go out as pandas', since the log came in as one
    home: Any = dataclasses.field(default=None, repr=False)  # keeps a temporary folder alive

    def save(self) -> None:
        """Write what was counted beside the paths, for `open`; the Log must have been read into a folder."""
        folder = self.buckets[0].parent.parent
        for name in TABLES:
            write_table(getattr(self, name), folder / f"{name}.parquet")
        says = {name: getattr(self, name) for name in SAYS} | {"columns": dataclasses.asdict(self.columns)}
        write_json(says, folder / "log.json")

    @classmethod
    def open(cls, folder: Path) -> Log:
        """A Log that was read into this folder and saved."""
        says = json.loads((folder / "log.json").read_text(encoding="utf-8"))
        tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in TABLES}
        says["files"], says["unused"], named = tuple(says["files"]), tuple(says["unused"]), says.pop("columns")
        lists = {name: tuple(value) for name, value in named.items() if isinstance(value, list)}  # JSON has no tuples
        columns = Columns(**named | lists)
        return cls(buckets=tuple(sorted((folder / "paths").glob("*.parquet"))), columns=columns, **tables, **says)

    def place(self, first: int) -> str:
        """Which line of which file a `first` of the counts is."""
        file, line = divmod(first, LINES)
        return placed(self.files[file], line)

    @cached_property
    def states(self) -> pl.Series:
        """Their names, sorted, with the ends to which last actions lead."""
        return (
            pl.concat([self.counts["state"], self.counts["next"].alias("state"), self.alone["state"]]).unique().sort()
        )

    @property
    def num_agents(self) -> int:
        """How many agents there are."""
        return pl.concat([self.counts["agent"], self.alone["agent"]]).n_unique()

    def notes(self) -> list[str]:
        """What was taken for what, and what was left out: a line for each."""
        named = self.columns.named()
        lacking = {"agent": "everyone is one", "step": "the order of the rows", "action": "to go to the next state"}
        taken = {name: " and ".join(named[name]) for name in named} | {
            name: f"({said})" for name, said in lacking.items() if name not in named
        }
        order = [field.name for field in dataclasses.fields(Columns) if field.name in taken]
        lines = [f"Taken as {', '.join(f'{name}: {taken[name]}' for name in order)}."]
        lines += [f"Bins of {name} meet at {', '.join(f'{e:g}' for e in edges)}." for name, edges in self.edges.items()]
        lines += [f"The column {name!r} is not used: --{name} {name} reads it." for name in self.unused]
        if self.torn:
            lines.append(f"{RESOURCE} names not one agent in {self.torn:,} paths, so everyone is one.")
        if self.shared:
            lines.append(f"{self.shared:,} names are those of a path for each of several agents: its steps begin anew.")
        if self.alike:
            lines.append(
                f"{self.alike:,} traces have the name of one before them: each is a path of its own, called NAME (2) "
                "and so on."
            )
        if self.left_out:
            lines.append(
                f"{self.left_out:,} of {self.num_rows:,} events were left out: their {LIFECYCLE} is start; --starts "
                "keeps them."
            )
        twins = nearly_equal(self.states.to_list()) if self.states.dtype == pl.String else []
        if twins:
            more = f", and {counted(len(twins) - 1, 'more such group')}" if len(twins) > 1 else ""
            lines.append(
                f"States that differ in blanks and capitals alone are different: {listed(twins[0], 'and')}{more}."
            )
        if self.closed:
            lines.append(f"Where a path ends is a step as well: from its last state it goes to {CLOSE}.")
        elif self.acted or self.ends:
            last = "an action" if self.acted else "a reward"
            lines.append(
                f"{self.ends:,} of {self.num_paths:,} paths end with {last}, which leads to an end of its own; "
                f"{self.num_paths - self.ends:,} in a state."
            )
        return lines

    def frames(self) -> Iterator[pl.DataFrame]:
        """The whole paths, bucket after bucket: id, agent, path, states, actions, rewards, good."""
        for bucket in self.buckets:
            yield pl.read_parquet(bucket)


def placed(file: str, line: int) -> str:
    """Where a row stands: by its line, or in a frame or a parquet file, which have none, by its number from 0."""
    return f"{file}, {'row' if file == 'frame' or file.endswith('.parquet') else 'line'} {line}"


def held_out() -> pl.Expr:
    """Which of the whole paths in a frame are held out."""
    return pl.col("id") % HELD_OUT == 0
