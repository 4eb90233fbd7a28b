"""Where the rows of a log come from: files of each kind, folders and frames, as tables whose rows know their lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pprjax.errors import UserError
from pprjax.logs.columns import LIFECYCLE, STANDARD
from pprjax.logs.xes import read_xes

LINE = "\0line"
"""The column with the number of a row: in text the line of the file, else the row. No log has one of this name."""

MISSING = ["", "NaN", "nan", "NA", "null"]
"""What stands for a lacking value in a CSV file."""

SEPARATORS = ",;\t|"
"""What may separate the values of a CSV file."""

PACKED = ("", ".gz", ".zst")
"""How text may be packed."""

BLOCK = 2**20
"""Characters that are copied at once."""

SNIFFED = 50
"""Lines of a CSV file by which its separator is found."""


class Source(NamedTuple):
    """A file, or a frame."""

    name: str
    frame: pl.LazyFrame  # with a column LINE
    alike: int = 0  # traces of XES that have the name of one before
    wide: pl.DataFrame | None = None  # line, wide: what is wrong with rows that have more values than columns

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [name for name in self.frame.collect_schema().names() if name != LINE]


def sources(source: Any, wanted: Collection[str], folder: Path) -> Iterator[Source]:
    """Each file of a log, or the frame.

    Args:
        source: as in `pprjax.read_log`.
        wanted: the columns that the user names, if any.
        folder: where what can't be read in place is written.

    Raises:
        ValueError: something is not there or can't be read.
    """
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        yield Source("frame", source.lazy().with_row_index(LINE))
    elif not isinstance(source, str | Path):
        if not hasattr(source, "columns"):
            raise UserError(f"source: expected a file, a folder or a frame, got {type(source).__name__}")
        yield Source("frame", _of_pandas(source).lazy().with_row_index(LINE))
    else:
        for number, file in enumerate(files(Path(source))):
            try:
                found = READERS[ending(file)](file, wanted, folder / str(number))
                found.frame.collect_schema()
            except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
                raise unreadable(str(file), error) from error
            yield found


def unreadable(name: str, error: Exception) -> UserError:
    """The error that says that a file can't be read."""
    hint = '; expected text in UTF-8: save it so, in a spreadsheet as "CSV UTF-8"'
    text = hint if "utf" in str(error).lower() else ""
    return UserError(f"source: can't read {name}: {error}{text}")


def ending(file: Path) -> str:
    """By which it is known how a file is read: ".csv" or ".csv.gz", in small letters."""
    suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
    return "".join(suffixes) if suffixes[-1:] in ([".gz"], [".zst"]) else "".join(suffixes[-1:])


def files(source: Path) -> list[Path]:
    """The files of a log that is a file or a folder of them.

    Raises:
        ValueError: there is none, or its name does not say that it can be read.
    """
    found = sorted(p for p in source.iterdir() if ending(p) in READERS) if source.is_dir() else [source]
    if not found:
        raise UserError(f"source: expected parquet, CSV, JSONL or XES files in {source}, found none")
    for file in found:
        if ending(file) not in READERS:
            plain = ", ".join(kind for kind in READERS if kind.count(".") == 1)
            raise UserError(f"source: expected a name that ends in {plain}, perhaps with .gz or .zst, got {file}")
        if not file.is_file():
            raise UserError(f"source: there is no file {file}")
    return found


def _read_csv(file: Path, wanted: Collection[str], folder: Path) -> Source:
    text = _in_utf8(file, folder)
    by = separator(_first_lines(text), wanted)
    frame = pl.scan_csv(
        text,
        separator=by,
        infer_schema=False,
        null_values=MISSING,
        row_index_name=LINE,
        row_index_offset=2,
        truncate_ragged_lines=True,
    )
    return Source(file.name, frame, wide=_too_wide(text, by))


def _too_wide(text: Path, by: str) -> pl.DataFrame:
    """The rows that have more values than the header, of a file in which no value goes over several lines."""
    bare = pl.col("text").str.replace_all('"[^"]*"', "")
    values = bare.str.strip_chars_end(f"{by}\r").str.count_matches(by, literal=True) + 1
    rows = pl.scan_lines(text, name="text", row_index_name="line", row_index_offset=1)
    rows = rows.select(pl.col("line").cast(pl.Int64), torn=bare.str.contains('"', literal=True), values=values)
    most = rows.head(1).collect()["values"].sum()
    found = rows.filter((pl.col("values") > most) | pl.col("torn")).collect(engine="streaming")
    found = found.clear() if found["torn"].any() else found
    return found.select("line", wide=pl.format(f"expected {most} values, got {{}}", "values"))


def _in_utf8(file: Path, folder: Path) -> Path:
    """The file; or a copy in UTF-8 of one that is in UTF-16, as its byte-order mark says, with the same lines.

    Raises:
        ValueError: it says so and is not.
    """
    opened = gzip.open if ending(file).endswith(".gz") else open
    try:
        with opened(file, "rb") as packed:
            if packed.read(2) not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                return file
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / "utf-8.txt"
        with (
            opened(file, "rt", encoding="utf-16", newline="") as text,
            open(copy, "w", encoding="utf-8", newline="") as written,
        ):
            shutil.copyfileobj(text, written, BLOCK)
    except UnicodeError as error:
        raise UserError(f"source: can't read {file}: {error}; its byte-order mark says that it is UTF-16") from error
    return copy


def _first_lines(file: Path) -> list[str]:
    """Lines as they stand, of a file that may be packed."""
    lines = pl.scan_lines(file).head(SNIFFED).collect(engine="streaming").to_series().to_list()
    return [line.removeprefix("\ufeff").removesuffix("\r") for line in lines if line is not None]


def separator(lines: list[str], wanted: Collection[str]) -> str:
    """What separates the values: that by which most of the wanted columns are there, and rows are like the header.

    Args:
        lines: the first of a file.
        wanted: the columns that the user names, if any.
    """
    usual = set(wanted) or {name for names in STANDARD.values() for name in names}

    def fit(by: str) -> tuple[int, float, int]:
        header, *rows = [*csv.reader(lines, delimiter=by)] or [[]]
        alike = sum(len(row) == len(header) for row in rows if row)
        return len(usual & set(header)), alike / max(len(rows), 1) * (len(header) > 1), len(header)

    return max(SEPARATORS, key=fit)


def _read_jsonl(file: Path, wanted: Collection[str], folder: Path) -> Source:
    frame = pl.scan_ndjson(_in_utf8(file, folder), row_index_name=LINE, row_index_offset=1, infer_schema_length=None)
    return Source(file.name, frame)


def _read_parquet(file: Path, wanted: Collection[str], folder: Path) -> Source:
    return Source(file.name, pl.scan_parquet(file, row_index_name=LINE))


def _read_xes(file: Path, wanted: Collection[str], folder: Path) -> Source:
    usual = [name for names in STANDARD.values() for name in names]
    return Source(file.name, *read_xes(file, {*wanted, *usual, LIFECYCLE}, folder, LINE))


READERS: dict[str, Callable[[Path, Collection[str], Path], Source]] = {
    **{f".csv{packed}": _read_csv for packed in PACKED},
    **{f"{kind}{packed}": _read_jsonl for kind in (".jsonl", ".ndjson") for packed in PACKED},
    ".parquet": _read_parquet,
    **{f".tsv{packed}": _read_csv for packed in PACKED},
    ".xes": _read_xes,
    ".xes.gz": _read_xes,
}


def _of_pandas(frame: Any) -> pl.DataFrame:
    """A frame of pandas, without the packages that pandas itself wants for this."""
    names = [str(column) for column in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"source: expected columns of different names, got two called {twice!r}")
    return pl.DataFrame([_series(name, frame[column]) for name, column in zip(names, frame.columns, strict=True)])


def _series(name: str, column: Any) -> pl.Series:
    zone = getattr(column.dtype, "tz", None)
    if zone is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if getattr(column.dtype, "kind", "") in "mM":  # as numbers, since Python's times have no nanoseconds
        values = column.to_numpy()
        times = pl.Series(name, values.astype(f"{values.dtype.kind}8[ms]") if column.dt.unit == "s" else values)
        return times if zone is None else times.dt.replace_time_zone("UTC")
    valid = column.notna().tolist()
    values = [value if known else None for value, known in zip(column.tolist(), valid, strict=True)]
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values, strict=False)
