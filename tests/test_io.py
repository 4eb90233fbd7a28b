"""Files are whole or not there: what is read is the old content or the new, never half of it."""

import json
import math
import os
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pprjax.io import output_folder, replacing, write_json, write_table


class Crash(BaseException):
    """Like KeyboardInterrupt, no Exception."""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_new_content_appears_only_at_the_end(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as aside:
        aside.write_text("new")
        assert aside.parent == tmp_path  # a rename within one file system
        assert aside.suffix == ".txt"  # which some writers go by
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("failure", [ValueError, OSError, KeyboardInterrupt, Crash])
@pytest.mark.parametrize("old", ["old", None])
def test_a_failure_in_the_middle_leaves_what_was_there(tmp_path, failure, old):
    target = tmp_path / "a.txt"
    if old:
        target.write_text(old)
    with pytest.raises(failure), replacing(target) as aside:
        aside.write_text("hal")
        raise failure
    assert names(tmp_path) == (["a.txt"] if old else [])
    assert not old or target.read_text() == old


def test_a_failed_rename_leaves_no_temporary_file(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(OSError), replacing(tmp_path / "a.txt") as aside:
        aside.write_text("new")
    assert names(tmp_path) == ["a.txt"]


def test_the_file_gets_the_permissions_of_any_new_file(tmp_path):
    mask = os.umask(0o027)
    try:
        with replacing(tmp_path / "a.txt") as aside:
            aside.write_text("new")
        assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)


def test_a_folder_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(OSError, match="nowhere"), replacing(tmp_path / "nowhere" / "a.txt"):
        raise AssertionError("there is no file to write to")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_comes_back(tmp_path, ending):
    frame = pl.DataFrame({"path": [0, 1], "reward": [0.5, -1.25], "status": ["cut", "ended"]})
    write_table(frame, tmp_path / f"a.{ending}")
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv}[ending]
    assert read(tmp_path / f"a.{ending}").equals(frame)
    assert names(tmp_path) == [f"a.{ending}"]


@pytest.mark.parametrize("name", ["a.xlsx", "a", "parquet"])
def test_a_table_with_another_ending_is_not_written(tmp_path, name):
    with pytest.raises(ValueError, match=rf"^path: expected a name that ends in \.parquet or \.csv, got .*{name}$"):
        write_table(pl.DataFrame({"a": [1]}), tmp_path / name)
    assert names(tmp_path) == []


def test_a_table_that_fails_leaves_the_old_one(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    with pytest.raises(pl.exceptions.PolarsError):
        write_table(pl.DataFrame({"a": [[1, 2]]}), target)  # CSV has no lists
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.csv"]


def test_numpy_values_become_json(tmp_path):
    value = {
        "array": np.arange(4).reshape(2, 2),
        "float": np.float32(0.5),
        "int": np.int64(3),
        "bool": np.True_,
        "text": np.str_("λ"),
        "plain": [1, 2.5, None, "ü"],
    }
    write_json(value, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {
        "array": [[0, 1], [2, 3]],
        "float": 0.5,
        "int": 3,
        "bool": True,
        "text": "λ",
        "plain": [1, 2.5, None, "ü"],
    }


@pytest.mark.parametrize(
    ("value", "error"),
    [({"a": Path("x")}, TypeError), ({"a": math.nan}, ValueError), ([np.float64(-np.inf)], ValueError)],
)
def test_what_json_cannot_say_is_not_written(tmp_path, value, error):
    target = tmp_path / "a.json"
    target.write_text("{}")
    with pytest.raises(error):
        write_json(value, target)
    assert target.read_text() == "{}"
    assert names(tmp_path) == ["a.json"]


def test_the_output_folder_is_made(tmp_path):
    folder = output_folder(tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b"
    assert names(folder) == []
    assert output_folder(str(folder)) == folder


@pytest.mark.parametrize("below", ["", "deeper"])
def test_an_output_folder_that_cannot_be_written_is_named(tmp_path, below):
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / below
    with pytest.raises(OSError, match=rf"^out: can't write to the folder {folder}: \S"):
        output_folder(folder)
    assert (tmp_path / "file").read_text() == "in the way"
