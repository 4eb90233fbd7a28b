"""Files that are either whole or not there: written aside, then renamed."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pprjax.errors import UserError


def cache_folder() -> Path:
    """What is slow to make is kept here: $PPRJAX_CACHE, else $XDG_CACHE_HOME/pprjax, else ~/.cache/pprjax."""
    chosen = os.environ.get("PPRJAX_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pprjax"


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place at the end, and is removed if anything fails.

    Raises:
        OSError: the folder does not exist or can't be written.
    """
    path = Path(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(descriptor)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(0o666 & ~_umask())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def output_folder(path: str | os.PathLike) -> Path:
    """The folder, made where it is missing and proved to be writable before any work starts.

    Raises:
        OSError: it can't be made or written; the message names it.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"out: can't write to the folder {folder}: {error.strerror or error}") from error
    return folder


def write_table(frame: pl.DataFrame, path: str | os.PathLike) -> None:
    """The frame as parquet or CSV, by the ending of the path.

    Raises:
        ValueError: another ending.
    """
    write = {".parquet": frame.write_parquet, ".csv": frame.write_csv}.get(Path(path).suffix)
    if write is None:
        raise UserError(f"path: expected a name that ends in .parquet or .csv, got {path}")
    with replacing(path) as aside:
        write(aside)


def write_json(value: Any, path: str | os.PathLike) -> None:
    """The value as JSON; arrays and NumPy numbers included."""
    with replacing(path) as aside:
        aside.write_text(json.dumps(value, indent=2, default=_plain, allow_nan=False) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"can't write {type(value).__name__} as JSON")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
