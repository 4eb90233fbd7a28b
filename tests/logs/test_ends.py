"""A goal on where a path ends, which may pass there before: beside every path that the log knows."""

import dataclasses

import polars as pl
import pytest
from log_walks import NAMED, SMALL, WALKS, regrets_of

import pprjax
from pprjax.cli import main
from pprjax.edit_distance import levenshtein
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import Search, recourse_frame
from pprjax.logs.log import CLOSE, Log
from pprjax.logs.read import read_log

CONFIG = pprjax.Config(lambda_path=2.0, lambda_policy=0.3)
ROOMS = WALKS.drop("action", "reward")
THROUGH = pl.DataFrame({"path": ["a", "a", "b", "b"], "state": ["attic", "hall", "attic", "den"]})
STEPS = 6


def closed(rows=ROOMS, columns=pprjax.Columns()):
    return read_log(rows, columns, closed=True)


def ways(costs, path, left):
    """Every way on from the last state of a path to its end, with what it costs."""
    if path[-1] == CLOSE:
        yield path, 0.0
    elif left:
        for (state, after), cost in costs.items():
            if state == path[-1]:
                for way, rest in ways(costs, (*path, after), left - 1):
                    yield way, cost + rest


@pytest.mark.parametrize(
    ("goal", "asked", "method"),
    [("ends=hall", {}, "auto"), ("ends=hall, avoids=cellar", {"avoids": "cellar"}, "search")],
)
def test_the_best_of_all_paths_that_end_there_is_found(goal, asked, method):
    log = closed()
    fitted = fit_log(log, goal, smoothing=1.0, max_steps=STEPS)
    names = fitted.states.tolist()
    number = {name: i for i, name in enumerate(names)}
    regrets = {agent: regrets_of(fitted, i) for i, agent in enumerate(fitted.agents.tolist())}
    costs = {who: {(names[s], names[t]): c for (s, t), c in own.items()} for who, own in regrets.items()}
    found = recourse_frame(fitted, pl.concat(list(log.frames())).sort("path")[::3], CONFIG, Search(method))
    passed = 0
    for row in found.iter_rows(named=True):
        *before, last, end = row["original"]
        assert end == CLOSE
        met = last == "hall" and asked.get("avoids") not in before
        assert (row["status"] == "met") == met
        if met:
            continue
        passed += "hall" in before
        original = [number[name] for name in row["original"]]
        rewards = [
            2.0 / (1 + int(levenshtein(original, [number[name] for name in way]))) + 0.3 * cost
            for way, cost in ways(costs[row["agent"]], (row["original"][0],), STEPS)
            if way[-2] == "hall" and asked.get("avoids") not in way
        ]
        assert row["status"] == "infeasible" if not rewards else row["recourse"][-2:] == ["hall", CLOSE]
        assert row["reward"] == (pytest.approx(max(rewards), abs=1e-5) if rewards else None)
        assert row["gap"] == (0.0 if rewards else None)
    assert passed > 2  # who came to the hall and ended elsewhere, is not done


def test_to_arrive_is_another_goal_and_says_who_went_on():
    log = read_log(ROOMS)
    paths = pl.concat(list(log.frames()))["states"].to_list()
    went_on = sum("hall" in path and path[-1] != "hall" for path in paths)
    (note,) = fit_log(log, "state=hall").notes()
    assert went_on > 5
    assert note.startswith(f"{went_on} paths came to 'hall' and ended elsewhere: ") and "ends=hall asks" in note
    assert fit_log(log, "state=garden").notes() == []  # where all who come end
    assert fit_log(closed(), "ends=hall").notes() == []


def test_a_last_action_leads_to_the_end_and_the_state_before_it_is_where_its_path_ends():
    rows = [("a", "x", "go", -1.0), ("a", "y", "pay", 5.0), ("b", "x", "go", -1.0), ("b", "y", None, None)]
    rows += [("c", "x", "go", -1.0), ("c", "y", "back", -1.0), ("c", "x", None, None)]
    rows = pl.DataFrame(rows, schema=["path", "state", "action", "reward"], orient="row")
    log = closed(rows, NAMED)
    paths = {row["path"]: row for frame in log.frames() for row in frame.iter_rows(named=True)}
    assert paths["a"]["states"] == paths["b"]["states"] == ["x", "y", CLOSE] and log.longest == 4
    assert paths["a"]["actions"] == ["go", "pay"] and paths["b"]["actions"] == ["go", CLOSE]
    assert paths["a"]["rewards"] == [-1.0, 5.0] and paths["b"]["rewards"] == [-1.0, 0.0]
    found = recourse_frame(fit_log(log, "ends=y", deterministic=True), pl.concat(list(log.frames())), CONFIG)
    assert dict(zip(found["path"], found["status"], strict=True)) == {"a": "met", "b": "met", "c": "reached_goal"}
    (note,) = fit_log(read_log(rows, NAMED), "state=y").notes()
    assert note.startswith("1 path came to 'y' and ended elsewhere")  # of a the end is one in y
    paid = closed(rows.drop("action").filter(pl.col("path") == "a"), pprjax.Columns(reward="reward"))
    assert [frame["states"].to_list() for frame in paid.frames()] == [[["x", "y", CLOSE]]]


def test_a_path_of_one_state_has_an_end_as_well():
    rows = pl.DataFrame({"path": ["a", "b", "b"], "state": ["x", "x", "y"]})
    log = closed(rows)
    found = recourse_frame(fit_log(log, "ends=y"), pl.concat(list(log.frames())), CONFIG)
    assert dict(zip(found["path"], found["recourse"].to_list(), strict=True))["a"] == ["x", "y", CLOSE]


def test_the_last_state_of_a_rule_is_the_one_before_the_end():
    log = closed()
    paths = pl.concat(list(log.frames()))
    asked, ruled = (
        recourse_frame(fit_log(log, goal, smoothing=1.0, rules=rules), paths, CONFIG)
        for goal, rules in (("ends=hall", ()), ("visits=hall", ("last(hall)",)))
    )
    assert asked.equals(ruled) and (asked["status"] == "reached_goal").any()
    with pytest.raises(pprjax.UserError, match=r"no path at all meets the goal 'ends=hall' and keeps last\(den\)$"):
        fit_log(log, "ends=hall", rules=("absence(cellar)", "last(den)"))


def test_where_chance_decides_a_recourse_is_as_reliable_as_it_ends_there():
    table = []
    for path in range(44):
        table += [(path, 0, "attic", "go"), (path, 1, "hall" if path % 2 or path >= 40 else "den", None)]
    rows = pl.DataFrame(table, schema=["path", "step", "state", "action"], orient="row")
    log = closed(rows, pprjax.Columns(action="action"))
    fitted = fit_log(log, "ends=hall", smoothing=1.0, max_steps=2)
    found = recourse_frame(fitted, pl.concat(list(log.frames())), dataclasses.replace(SMALL, habit="regret"))
    found = found.filter(pl.col("recourse").list.len() == 3)
    assert found.height > 5
    assert found["reliability"].to_numpy() == pytest.approx(24 / 44, abs=0.06)
    assert all(path[-2:] == ["hall", CLOSE] for path in found["recourse"].to_list())


def test_a_rule_on_the_last_state_is_said_as_it_was_asked():
    fitted = fit_log(closed(), "visits=hall", rules=("last(hall)",))
    assert fitted.named_rules() == ["last(hall)"]
    with pytest.raises(pprjax.UserError, match="no path at all meets the goal 'state=hall' and keeps last"):
        fit_log(closed(), "state=hall", rules=("last(den)",))  # which ends in the hall, and not in (end)


def test_mined_rules_say_nothing_of_the_end_of_all_paths():
    rules = fit_log(closed(), "ends=hall", mine_rules=True).named_rules()
    assert rules and not any(CLOSE in rule for rule in rules)


def test_a_saved_log_knows_that_it_is_closed(tmp_path):
    log = read_log(ROOMS, closed=True, folder=tmp_path)
    log.save()
    assert Log.open(tmp_path).closed
    assert any(CLOSE in note for note in log.notes()) and not any(CLOSE in note for note in read_log(ROOMS).notes())


def test_the_command_asks_where_paths_end(tmp_path, capsys):
    ROOMS.write_csv(tmp_path / "log.csv")
    command = ["recourse", str(tmp_path / "log.csv"), "-o", str(tmp_path / "out.parquet"), "--goal", "ends=hall"]
    assert main([*command, "--dry-run"]) == 0
    ended = sum(path[-1] == "hall" for paths in read_log(ROOMS).frames() for path in paths["states"].to_list())
    assert f"{ended} meet ends=hall, {60 - ended} do not." in capsys.readouterr().out
    assert main(command) == 0
    found = pl.read_parquet(tmp_path / "out.parquet")
    answers = found.filter(pl.col("status") == "reached_goal")["recourse"].to_list()
    assert len(answers) == 60 - ended and all(path[-2:] == ["hall", CLOSE] for path in answers)


@pytest.mark.parametrize(
    ("goal", "rows", "is_closed", "said"),
    [
        ("ends=hall", ROOMS, False, "goal: ends=X takes a log that was read with closed=True"),
        ("ends=hal", ROOMS, True, "goal: .*'hal'.*'hall'"),
        ("ends=hall, state=den", ROOMS, True, "goal: expected one state to end in"),
        ("ends=hall, avoids=hall", ROOMS, True, "goal: expected to end in 'hall' or to avoid it, got both"),
        ("ends=hall, good", ROOMS, True, 'between commas, got .good.; "reward>=x" and "good" stand alone'),
        ("ends=(end)", ROOMS, True, "goal: no path of the log visits the state '\\(end\\)'"),
        ("good", ROOMS, True, 'goal: "good" tells by where paths end; it takes a log read with'),
        ("ends=attic", THROUGH, True, "goal: no path of the log ends in 'attic'"),
        (
            "ends=hall",
            ROOMS.with_columns(state=pl.col("state").replace("den", CLOSE)),
            True,
            "expected no such name",
        ),
    ],
)
def test_what_is_wrong_is_said(goal, rows, is_closed, said):
    with pytest.raises(pprjax.UserError, match=said):
        fit_log(read_log(rows, closed=is_closed), goal)
