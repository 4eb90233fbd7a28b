"""The command line: help without JAX, mistakes that are named before anything is written, one whole small run."""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import tyro
from pprjax_envs import GridWorld, gridworld
from rapidfuzz.distance import Levenshtein

import pprjax
from pprjax.cli import main
from pprjax.commands import options
from pprjax.config import Config
from pprjax.metrics import relative_gap

TINY = "gridworld --paper --goal flag --num 2 --iterations 10 --num-paths 32 --num-best 8 --updates 1 --seed 3"
FILES = ["ladder.parquet", "ladder.png", "recourse.parquet", "routes.png", "summary.json"]
WITHOUT_JAX = """
import sys
from pprjax.cli import main
assert main(["--help"]) == main([]) == main(["--version"]) == 0
assert main(["gridword"]) == 2
heavy = {"jax", "gymnax", "polars", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


COMPILES = """
import contextlib
from pprjax.cli import main
with contextlib.suppress(SystemExit):
    main(["gridworld", "--help"])
import jax
jax.jit(lambda x: x + 1)(1.0)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_help_and_unknown_commands_wait_for_no_import():
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  gridworld +Better taxi routes for two drivers", done.stdout, re.MULTILINE)
    assert done.stderr.startswith("pprjax: no command 'gridword'; there are: ")
    assert "gridworld" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("said", [None, "elsewhere"])
def test_what_is_compiled_is_kept_for_the_next_run(said, tmp_path, monkeypatch):
    for name, value in {"PPRJAX_CACHE": "kept", "JAX_COMPILATION_CACHE_DIR": said}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    assert subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, timeout=60).returncode == 0
    assert any((tmp_path / (said or "kept/compiled")).iterdir())
    assert said is None or not any((tmp_path / "kept" / "compiled").iterdir())


def test_what_an_option_says_is_one_paragraph(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["recourse", "--help"])
    said = capsys.readouterr().out
    for broken in (
        "which it may pass before; ",
        "in the letters of strftime",
        "`column=1,5,10`, the edges between them",
    ):
        assert broken in said  # a line of the source ends within each


def test_the_knobs_stand_in_groups_the_usual_ones_first(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # one box below the other
    for command in ("gridworld", "recourse"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        groups = re.split(r"^\W*(\w[\w ]*) options\W*$", capsys.readouterr().out, flags=re.MULTILINE)[1:]
        shown = dict(zip(groups[::2], groups[1::2], strict=True))
        assert [name for name in shown if name in ("goal", "search", "Algorithm 1")] == [
            "goal",
            "search",
            "Algorithm 1",
        ]
        named = {name: re.findall(r"^\W*(?:-o PATH, )?--([a-z-]+)", text, re.M) for name, text in shown.items()}
        assert {"lambda-path", "lambda-policy", "w-sub"} <= set(named["goal"])
        assert {"iterations", "num-paths"} <= set(named["search"])
        assert {"gamma", "target-period"} <= set(named["Algorithm 1"])
        every = [option for group in named.values() for option in group]
        assert len(every) == len(set(every))
        assert {field.name.replace("_", "-") for field in dataclasses.fields(Config)} <= set(every)
        paragraph = re.sub(r"[│\s]+", " ", shown["Algorithm 1"])
        assert "for worlds where any symbol may follow any other. In a grid world" in paragraph
    assert named["log"] == [
        "agent",
        "path",
        "step",
        "state",
        "action",
        "reward",
        "good",
        "time-format",
        "starts",
        "bins",
    ]
    assert named["machine"] == ["engine", "workers", "process", "chunk"]


def test_a_knob_in_a_group_reaches_the_config():
    """Whatever is given on the command line is in the Config, and the command's own defaults are the rest."""

    def command(config: tyro.conf.OmitArgPrefixes[Config] = Config(gamma=0.5, iterations=7)):
        return config

    given = ["--lambda-path", "3", "--num-paths", "5", "--no-telescoped", "--target", "return"]
    wanted = Config(gamma=0.5, iterations=7, lambda_path=3.0, num_paths=5, telescoped=False, target="return")
    assert tyro.cli(command, args=given, registry=options.registry()) == wanted


@pytest.mark.parametrize("command", ["--help", "recourse --help", "show {table} --path a"])
def test_it_ends_quietly_where_nobody_reads_on(tmp_path, command):
    edited = {"reward_before": 0.0, "reward_after": 1.0, "distance": 0, "gap": None, "probability": 1.0, "reason": None}
    edited["reliability"] = None
    walked = {"original": ["x"], "recourse": ["x"], "actions": [], "edits": "="}
    row = {"agent": "ann", "path": "a", "status": "ended"} | edited | walked
    pl.DataFrame([row]).write_parquet(tmp_path / "table.parquet")
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does once it has enough
    arguments = command.format(table=tmp_path / "table.parquet").split()
    with os.fdopen(writing, "wb") as closed:
        call = [sys.executable, "-m", "pprjax", *arguments]
        done = subprocess.run(call, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_command_explains_its_options(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["gridworld", "--help"])
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--out", "--num ", "--goal", "--map", "--lambda-path", "--num-best", "--target-period"):
        assert option in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num", "0"], "num: expected at least 1, got 0"),
        (["--lambda-path", "-1"], "lambda_path: expected a finite number of at least 0, got -1.0"),
        (["--lambda-policy", "nan"], "lambda_policy: expected a finite number of at least 0, got nan"),
        (["--num-best", "300"], "num_best: expected k ≤ b = 256, got 300"),
        (["--max-steps", "3"], "max_steps: the flag is "),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(tmp_path, capsys, options, message):
    assert main(["gridworld", "--out", str(tmp_path / "out"), *options]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"pprjax gridworld: {message}")
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert names(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("map", "message"),
    [
        ("S.\n.", "map: row 1, column 1: expected 2 columns as in row 0, got 1"),
        ("S#F", "map: the flag at row 0, column 2 (counted from 0) is out of reach of the start at row 0, column 0"),
        ("SxF", "map: row 0, column 1 (counted from 0): expected one of "),
        ("S..", "map: expected a flag F, got none"),
        (None, "map: expected a text file with a map, got "),
    ],
)
def test_a_bad_map_is_named_and_nothing_is_written(tmp_path, capsys, map, message):
    file = tmp_path / "map.txt"
    if map is not None:
        file.write_text(map + "\n")
    assert main(["gridworld", "--out", str(tmp_path / "out"), "--map", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"pprjax gridworld: {message}")
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["gridworld", "--out", str(tmp_path / "file")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"pprjax gridworld: out: can't write to the folder {tmp_path / 'file'}: ")
    assert printed.count("\n") == 1
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize("options", [["--num", "many"], ["--goal", "gold"], ["--lambda", "1"]])
def test_an_option_that_cannot_be_read_is_a_mistake_too(tmp_path, capsys, options):
    with pytest.raises(SystemExit) as exit:
        main(["gridworld", "--out", str(tmp_path / "out"), *options])
    assert exit.value.code == 2
    assert options[0] in capsys.readouterr().err
    assert names(tmp_path) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that is small and not good."""
    folder = tmp_path_factory.mktemp("gridworld")
    assert main([*TINY.split(), "--out", str(folder)]) == 0
    return folder


def test_a_run_writes_its_files_and_no_others(run):
    assert names(run) == FILES
    assert (run / "routes.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_every_recourse_is_scored_beside_its_certificate(run):
    table = pl.read_parquet(run / "recourse.parquet")
    originals = gridworld.bad_paths(GridWorld(), 2, seed=3).to_lists()
    assert table["driver"].to_list() == ["experienced"] * 2 + ["newbie"] * 2
    assert table["original"].to_list() == originals * 2
    reward, optimum = table["reward"].to_numpy(), table["optimum"].to_numpy()
    assert (reward <= optimum + 1e-3).all()
    np.testing.assert_allclose(table["gap"], relative_gap(reward, optimum))
    np.testing.assert_allclose(table["gap"], (optimum - reward) / np.abs(optimum))
    for row in table.iter_rows(named=True):
        assert row["distance"] == Levenshtein.distance(row["original"], row["recourse"])
        assert row["s_path"] == pytest.approx(1 / (row["distance"] + 1))
        assert row["length"] == len(row["recourse"]) == len(row["actions"]) + 1
        assert row["optimal"][0] == row["recourse"][0] == row["original"][0]
        if row["status"] == "reached_goal":
            assert GridWorld().cells[row["recourse"][-1]] == "F"
        assert GridWorld().cells[row["optimal"][-1]] == "F"


def test_the_summary_sums_up_the_table(run):
    table = pl.read_parquet(run / "recourse.parquet")
    summary = json.loads((run / "summary.json").read_text())
    assert summary["num_originals"] == 2
    assert (summary["seed"], summary["goal"]) == (3, "flag")
    assert summary["largest_gap"] == pytest.approx(table["gap"].max())
    for driver, share in summary["within_1_percent"].items():
        assert share == (table.filter(driver=driver)["gap"] <= 0.01).mean()
    assert summary["status"] == dict(table.group_by("status").len().iter_rows())
    config = summary["config"]
    asked = {"iterations": 10, "num_paths": 32, "num_best": 8, "updates": 1}
    paper = {"gamma": 0.99, "learning_rate": 1e-3, "lambda_path": 0.1, "lambda_policy": 0.1, "habit": "link"}
    assert config == config | asked | paper
    seconds = summary["seconds"]
    assert 0 < seconds["compile"] < seconds["total"]
    assert seconds["training"] + seconds["certificates"] < seconds["total"]


def test_by_default_every_route_gets_its_fewest_edits_and_a_proof(tmp_path, capsys):
    assert main(["gridworld", "--num", "4", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "money" in printed and "0.00%" in printed
    table, points = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("recourse", "ladder"))
    assert (table["gap"] == 0).all() and (table["method"] == "exact").all()
    cells = GridWorld().cells
    for row in table.iter_rows(named=True):
        assert row["fewest_distance"] == Levenshtein.distance(row["original"], row["fewest"])
        assert row["fewest_distance"] <= row["distance"]
        for route in (row["fewest"], row["recourse"]):
            assert cells[route[-1]] == "F" and "$" in cells[route]
        rows = points.filter(driver=row["driver"], path=row["path"])
        worth = rows["value"] + 10.0 / (rows["distance"] + 1)
        assert row["reward"] == pytest.approx(worth.max())
        assert rows["distance"].is_sorted() and rows["value"].is_sorted()
    for driver in ("experienced", "newbie"):  # each original has an answer of its own
        assert table.filter(driver=driver)["fewest"].n_unique() == 4


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, even where the tests run in a background job, whose shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_training_writes_nothing(tmp_path, capsys, monkeypatch, interruptible):
    from pprjax.learn import batches

    @contextlib.contextmanager
    def interrupting(*args, **settings):
        yield lambda amount: os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(batches, "progress_bar", interrupting)
    assert main([*TINY.split(), "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "pprjax gridworld: interrupted; no half-written file was left behind\n"
    assert names(tmp_path) == []


def test_a_fault_of_ours_is_not_put_down_to_the_user(tmp_path, capsys, monkeypatch):
    """A ValueError that nobody raised on purpose is shown with its trace; what was asked for wrongly is one line."""
    arguments = [*TINY.split(), "--out", str(tmp_path)]
    for error, status in ((ValueError("of NumPy's"), 70), (ZeroDivisionError(), 70), (pprjax.UserError("no"), 2)):

        def failing(*args, error=error, **settings):
            raise error

        monkeypatch.setattr("pprjax_envs.gridworld.originals.bad_paths", failing)
        assert main(arguments) == status
        said = capsys.readouterr().err
        assert ("Traceback" in said) == (status == 70) == ("this is a fault of pprjax" in said)
    assert said == "pprjax gridworld: no\n"
    assert names(tmp_path) == []


def test_an_interrupt_while_writing_leaves_whole_files_only(tmp_path, capsys, monkeypatch, run, interruptible):
    from matplotlib.figure import Figure

    (tmp_path / "routes.png").write_bytes(b"of an earlier run")

    def half_a_picture(self, path, **settings):
        path.write_bytes(b"\x89PNG")
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Figure, "savefig", half_a_picture)
    assert main([*TINY.split(), "--out", str(tmp_path)]) == 130
    assert names(tmp_path) == ["ladder.parquet", "recourse.parquet", "routes.png"]
    assert (tmp_path / "routes.png").read_bytes() == b"of an earlier run"
    again, before = (pl.read_parquet(folder / "recourse.parquet") for folder in (tmp_path, run))
    assert again.equals(before)  # the same seed, the same result
