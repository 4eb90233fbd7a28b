"""What `pprjax recourse` says at its end: what was found and proved, what was written, and how to look at it."""

import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pprjax.cli import main
from pprjax.commands.recourse import _wider
from pprjax.logs import frames

VISITS = {
    ("ann", "a b"): "home cart pay thanks",
    ("ann", "c"): "home cart exit",
    ("bob", "a b"): "home cart exit",
    ("bob", "d"): "help exit",
}
"""By agent and path."""


def visits(paths=VISITS):
    rows = [(*key, step, page) for key, path in paths.items() for step, page in enumerate(path.split())]
    return pl.DataFrame(rows, schema=["agent", "path", "step", "state"], orient="row")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function from a log and options to what the command prints, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(log, *options):
        log.write_csv("visits.csv")
        assert main(["recourse", "visits.csv", "--goal", "state=thanks", *options]) == 0
        return capsys.readouterr().out

    return run


def test_what_is_proved_infeasible_is_not_counted_as_certified(run):
    told = run(visits())
    assert "4 paths, goal state=thanks: 1 met, 2 reached_goal, 1 proved infeasible; 2 certified. The column " in told
    reasons = pl.read_parquet("visits.recourse.parquet").select("path", "reason").drop_nulls().rows()
    assert reasons == [("d", "no path of this world reaches the goal from here, in at most 7 steps")]
    told = run(visits(), "--rule", "init(help)", "-o", "none.parquet")
    assert ": 4 proved infeasible. The" in told
    why = "no path of this world reaches the goal from here and keeps the rules, in at most 7 steps"
    assert set(pl.read_parquet("none.parquet")["reason"]) == {why}


def test_several_goals_must_all_hold(run):
    assert "0 meet state=thanks, avoids=pay, 4 do not." in run(visits(), "--goal", "avoids=pay", "--dry-run")
    assert "4 paths, goal state=thanks, avoids=pay: 4 proved infeasible" in run(visits(), "--goal", "avoids=pay")


def test_what_a_recourse_keeps_to_is_said_wherever_it_is_shown(run, capsys):
    options = ["--max-regret", "0.7", "--own-steps", "charged", "--rule", "absence(help)", "--ladder"]
    told = run(visits(), *options)
    share = "at least 0.5 times as likely as what its agent does most there"
    for said in (told, run(visits(), *options, "--dry-run")):
        assert f"Each step of a recourse is {share} (max_regret 0.7)." in said
    reasons = pl.read_parquet("visits.recourse.parquet")["reason"].drop_nulls()
    assert len(reasons) and all(reason.endswith(f", each {share}") for reason in reasons)
    assert main(["show", "visits.recourse.parquet", "--path", "c"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Nothing closer reaches the goal and keeps absence(help, 1) and max_regret 0.7." in shown
    assert main(["report", "visits.recourse.parquet", "-o", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert '"The goal is state=thanks; every recourse keeps absence(help, 1) and max_regret 0.7."' in page


def test_without_a_proof_it_says_that_none_was_found(run, monkeypatch):
    solve = frames.near

    def unproved(*given, **options):
        found = solve(*given, **options)
        unknown = np.full_like(found.limit, np.inf)
        return found.replace(limit=unknown, answered_by=np.full(len(unknown), "search"))

    monkeypatch.setattr(frames, "near", unproved)
    assert "2 reached_goal, 1 infeasible without proof; 2 searched." in run(visits())
    assert set(pl.read_parquet("visits.recourse.parquet")["reason"].drop_nulls()) == {"none was found"}


@pytest.mark.parametrize("rows", ["good", "bad"])
@pytest.mark.parametrize("options", [[], ["--ladder"]])
def test_the_last_line_names_what_was_written_and_a_command_that_works(run, tmp_path, capsys, rows, options):
    bad = visits()[:1].with_columns(path=pl.lit("torn"), state=pl.lit(None, pl.String))
    log = visits() if rows == "good" else pl.concat([visits(), bad])
    last = run(log, *options).splitlines()[-1]
    named, command = re.fullmatch(r"[\d.]+ s\. Written to (.*)\. Look at one path: pprjax (.*)", last).groups()
    assert sorted(named.split(", ")) == sorted(p.name for p in tmp_path.iterdir() if p.name != "visits.csv")
    assert main(shlex.split(command)) == 0
    assert "reached_goal" in capsys.readouterr().out


def test_an_agent_is_named_where_several_have_a_path_of_that_name(run):
    assert run(visits()).endswith(" --path c\n")
    both = {key: path for key, path in VISITS.items() if key[1] == "a b"}
    assert run(visits(both), "-o", "both.parquet").endswith(" show both.parquet --path 'a b' --agent bob\n")


@pytest.mark.parametrize(
    ("wider", "every", "said"),
    [
        (0, 165, ""),
        (1, 165, "For 1 of 165 recourses, fewer edits would reach the goal"),
        (29, 1165, "For 29 of 1,165 recourses, fewer edits would reach the goal"),
    ],
)
def test_how_many_change_more_than_they_need(wider, every, said):
    more = ", but by steps that the agent takes more seldom: see `pprjax show`."
    assert _wider({"num_wider": wider, "num_ladders": every}) == (f"\n{said}{more}" if said else "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lambda-path", "-1"], "lambda_path: expected"),
        (["--w-ins", "1.5", "--method", "exact"], "w_ins"),
        (["--distance", "manhattan"], "distance: the paths of a log differ in length"),
    ],
)
def test_a_dry_run_tells_what_no_path_can_be_solved_with(run, capsys, options, said):
    run(visits(), "--dry-run")
    assert main(["recourse", "visits.csv", "--goal", "state=thanks", *options, "--dry-run"]) == 2
    assert said in capsys.readouterr().err


def test_weights_are_checked_before_the_log_is_read(run, capsys, monkeypatch):
    run(visits(), "--dry-run")
    monkeypatch.setattr("pprjax.commands.recourse.read_log", None)
    assert main(["recourse", "visits.csv", "--lambda-path", "-1", "--dry-run"]) == 2
    assert "lambda_path" in capsys.readouterr().err
