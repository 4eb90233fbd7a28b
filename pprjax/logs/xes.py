"""XES: event logs in XML, read as a stream, a table of events kept on disk."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from xml.parsers import expat

import polars as pl

from pprjax.errors import UserError

CASE = "case:"
"""What stands before the name of an attribute of a trace, in the table of its events."""

NAME = "concept:name"

VALUES = frozenset(["string", "date", "int", "float", "boolean", "id"])
"""The elements that are attributes with one value."""

BATCH = 2**16
"""Events that are held in memory, roughly."""

DEPTH = 100
"""Elements within each other; more are refused."""

BLOCK = 2**20
"""Bytes that are read at once."""


def read_xes(file: Path, wanted: Collection[str], folder: Path, line: str) -> tuple[pl.LazyFrame, int]:
    """The events of a file, a row each: the wanted attributes as strings, those of its trace under `case:…`.

    A trace without a name is called by its number, "trace 1" and so on. Each trace is a case of its own: one that has
    the name of a trace before it is called by it and a number, "A (2)". A document type is refused, and with it every
    entity, since no XES file needs one.

    Args:
        file: .xes or .xes.gz.
        wanted: the attributes that are kept, where the file has them.
        folder: where the table is written, in parts.
        line: the name of a column with the line of the file where an event begins.

    Returns:
        The events, and how many traces have the name of one before.

    Raises:
        ValueError: the file is not well-formed, is cut short, or has a document type; the line is named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = sorted(wanted)
    schema = {line: pl.Int64} | dict.fromkeys(columns, pl.String)
    parts: list[Path] = []

    def write(rows: list[tuple[int, dict[str, str]]]) -> None:
        table = [[number, *map(row.get, columns)] for number, row in rows]
        parts.append(folder / f"{len(parts):06d}.parquet")
        pl.DataFrame(table, schema=schema, orient="row").write_parquet(parts[-1], compression="lz4")

    events = _Events(frozenset(columns), write)
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else open(file, "rb") as stream:
            while block := stream.read(BLOCK):
                events.parser.Parse(block, False)
            events.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UserError(f"source: {file} is not well-formed XML: {error}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"source: can't unpack {file}: {error}") from error
    events.flush()
    if not parts:
        raise UserError(f"source: expected events in {file}, found none")
    frame = pl.scan_parquet(parts).select(line, *(c for c in columns if c in events.seen))
    return frame, events.num_alike


class _Events:
    """What the parser hears, made into rows."""

    def __init__(self, wanted: frozenset[str], write: Callable[[list[tuple[int, dict[str, str]]]], None]):
        self.wanted, self.write, self.seen = wanted, write, {CASE + NAME}
        self.rows: list[tuple[int, dict[str, str]]] = []
        self.stack: list[str] = []
        self.trace: dict[str, str] = {}
        self.first = 0  # row of the trace that is being read
        self.num_traces = self.num_alike = 0
        self.names: dict[str, int] = {}  # of traces, and the number of the last that was called by it
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.refuse

    def refuse(self, name: str, *rest: Any) -> None:
        raise UserError(
            f"source: line {self.parser.CurrentLineNumber}: expected XES without a document type, got <!DOCTYPE {name}>"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        above = self.stack[-1] if self.stack else ""
        self.stack.append(tag)
        if len(self.stack) > DEPTH:
            raise UserError(f"source: line {self.parser.CurrentLineNumber}: more than {DEPTH} elements in each other")
        if tag == "trace":
            self.trace, self.first = {}, len(self.rows)
            self.num_traces += 1
        elif tag == "event":
            self.rows.append((self.parser.CurrentLineNumber, {}))
        elif tag in VALUES and above in ("trace", "event") and "key" in attributes and "value" in attributes:
            key = attributes["key"] if above == "event" else CASE + attributes["key"]
            self.seen.add(key)
            if key in self.wanted:
                (self.rows[-1][1] if above == "event" else self.trace)[key] = attributes["value"]

    def end(self, tag: str) -> None:
        tag = self.stack.pop()
        if tag == "event" and "trace" not in self.stack:  # of no case
            self.first = len(self.rows)
        if tag == "trace":
            self.close()
        if tag in ("trace", "event") and self.first == len(self.rows) >= BATCH:
            self.flush()

    def close(self) -> None:
        """Give the events of a trace what it says of itself."""
        if self.first < len(self.rows):
            self.trace[CASE + NAME] = self.own_name(self.trace.get(CASE + NAME, f"trace {self.num_traces}"))
        for _, row in self.rows[self.first :]:  # only now, since a trace may say its name after its events
            row.update(self.trace)
        self.first = len(self.rows)

    def own_name(self, name: str) -> str:
        """The name of a trace, or one made of it where another trace has it."""
        own = name
        if name in self.names:
            self.num_alike += 1
        while own in self.names:
            self.names[name] += 1
            own = f"{name} ({self.names[name]})"
        self.names[own] = 1
        return own

    def flush(self) -> None:
        """Write the rows of whole traces."""
        if self.rows:
            self.write(self.rows)
        self.rows, self.first = [], 0
