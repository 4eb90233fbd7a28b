"""Goals on what a path has passed: every recourse passes what it must, nothing that it must not, and is the nearest."""

import itertools

import numpy as np
import polars as pl
import pytest

import pprjax
from pprjax.edit_distance import levenshtein
from pprjax.logs.advice import advice

PATHS = ["a b d", "a b d", "a c d", "a c d", "a b c d", "a c e", "a c"]
LOG = pl.DataFrame(
    [{"path": str(p), "step": t, "state": s} for p, path in enumerate(PATHS) for t, s in enumerate(path.split())]
)
STEPS = {pair for path in PATHS for pair in itertools.pairwise(path.split())}


def ways(path=("a",)):
    """Every path of the world, whole or not."""
    yield path
    for before, after in sorted(STEPS):
        if before == path[-1] and len(path) < 4:
            yield from ways((*path, after))


def met(path, ends, visits=(), avoids=()):
    arrives = path[-1] in ends and path[-1] not in path[:-1]
    return arrives and set(visits) <= set(path) and not set(avoids) & set(path)


@pytest.mark.parametrize(
    ("goal", "asked"),
    [
        ("state=d, visits=b", {"ends": "d", "visits": "b"}),
        ("state=d,avoids=c", {"ends": "d", "avoids": "c"}),
        ("visits=c, state=d, visits=b", {"ends": "d", "visits": "bc"}),
        ("visits=b", {"ends": "de", "visits": "b"}),
        ("avoids=b, avoids=e", {"ends": "de", "avoids": "be"}),
    ],
)
def test_a_recourse_passes_what_it_must_and_no_nearer_path_does(goal, asked):
    log = pprjax.read_log(LOG)
    fitted = pprjax.fit_log(log, goal)
    table = pprjax.recourse_log(fitted, log, pprjax.Config(lambda_path=1000.0, lambda_policy=0.001))
    good = [way for way in ways() if met(way, **asked)]
    letters = sorted({s for path in PATHS for s in path.split()})
    for row in table.iter_rows(named=True):
        original = tuple(row["original"])
        if met(original, **asked):
            assert row["status"] == "met"
            continue
        assert met(tuple(row["recourse"]), **asked)
        nearest = min(levenshtein(*([letters.index(s) for s in way] for way in (original, other))) for other in good)
        assert row["distance"] == nearest
        assert row["gap"] == pytest.approx(0, abs=1e-6)


def test_a_path_ends_where_most_end_although_some_went_on():
    """Of six that come to d one goes on; of five that come to c four do."""
    paths = [*PATHS, "a b d f"]
    rows = [(str(p), t, s) for p, path in enumerate(paths) for t, s in enumerate(path.split())]
    log = pprjax.read_log(pl.DataFrame(rows, schema=["path", "step", "state"], orient="row"))
    for goal, wanted in (("visits=b", lambda path: "b" in path), ("avoids=b", lambda path: "b" not in path)):
        table = pprjax.recourse_log(pprjax.fit_log(log, goal), log)
        for row in table.iter_rows(named=True):
            original = row["original"]
            assert (row["status"] == "met") == (wanted(original) and original[-1] in "def"), original
            assert row["status"] == "met" or (wanted(row["recourse"]) and row["recourse"][-1] in "def")


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("state=d, visits=z", "goal: no path of the log visits the state 'z'"),
        ("state=d visits=b", "the state 'd visits=b'; .*; clauses of a goal are parted by commas$"),
        ("visits=b, avoids=b", "goal: expected to visit or to avoid 'b', got both"),
        ("state=d, state=e, visits=b", "goal: expected one state to end in"),
        ("good, visits=b", "between commas, got 'good'"),
        ("reward>=1, visits=b", "between commas, got 'reward>=1'"),
    ],
)
def test_what_cannot_be_meant_is_told(goal, message):
    with pytest.raises(ValueError, match=message):
        pprjax.fit_log(pprjax.read_log(LOG), goal)


def test_a_path_that_is_labelled_bad_is_not_met_whatever_it_passed_through():
    paths = {"in check": True, "in bill check": True, "in check readmitted": False, "in readmitted": False}
    rows = [
        {"path": f"{path} {i}", "step": t, "state": state, "good": good}
        for path, good in paths.items()
        for i in range(2)
        for t, state in enumerate(path.split())
    ]
    log = pprjax.read_log(pl.DataFrame(rows), pprjax.Columns(good="good"))
    table = pprjax.recourse_log(pprjax.fit_log(log, "good"), log)
    for row in table.iter_rows(named=True):
        if paths[row["path"][:-2]]:
            assert row["status"] == "met"
        else:
            assert row["status"] == "reached_goal" and row["recourse"][-1] == "check"


def shop(paths):
    """A log of so many paths of each kind: (states, whether they are good) and a number."""
    rows = [
        {"path": f"{k} {i}", "step": t, "state": state, "good": good}
        for k, ((states, good), count) in enumerate(paths.items())
        for i in range(count)
        for t, state in enumerate(states.split())
    ]
    return pprjax.read_log(pl.DataFrame(rows), pprjax.Columns(good="good"))


def test_a_good_path_that_was_cut_short_makes_no_end_of_where_it_was_cut():
    """One in a hundred of the paths that paid goes no further."""
    log = shop({("order pay closed", True): 80, ("order pay refund closed", False): 19, ("order pay", True): 1})
    fitted = pprjax.fit_log(log, "good")
    assert fitted.states[np.flatnonzero(fitted.ends) % len(fitted.states)].tolist() == ["closed"]
    assert len(fitted.notes()) == 1 and "a good path ends in 'closed' (without 'refund')." in fitted.notes()[0]
    table = pprjax.recourse_log(fitted, log)
    assert {row["recourse"][-1] for row in table.iter_rows(named=True) if row["status"] != "met"} == {"closed"}

    often = pprjax.fit_log(shop({("order pay closed", False): 60, ("order pay", True): 40}), "good")
    assert often.states[np.flatnonzero(often.ends)].tolist() == ["pay"]
    with pytest.raises(
        ValueError, match=r"^goal: in no state do more good .* at least 10% of the paths that come there end"
    ):
        pprjax.fit_log(shop({("order pay closed", False): 60, ("order pay", True): 1}), "good")


def test_a_path_that_only_its_label_tells_from_good_ones_says_so():
    log = shop({("order pay closed", True): 30, ("order pay closed", False): 5})
    table = pprjax.recourse_log(pprjax.fit_log(log, "good"), log).filter(pl.col("status") != "met")
    assert table["status"].to_list() == ["unchanged"] * 5
    for row in table.iter_rows(named=True):
        assert advice(row) == f"Nothing to do otherwise: {row['reason']}." and "its label says" in row["reason"]


@pytest.mark.parametrize("goal", ["avoids=refund", "state=pay, avoids=refund"])
def test_what_is_to_be_avoided_is_avoided_to_the_end_of_the_path(goal):
    """Where it may end does not matter: b pays, and is refunded after."""
    paths = {"a": "start pay", "b": "start pay refund", "c": "start lost refund"}
    rows = [(name, step, state) for name, path in paths.items() for step, state in enumerate(path.split())]
    log = pprjax.read_log(pl.DataFrame(rows, schema=["path", "step", "state"], orient="row"))
    found = pprjax.recourse_log(pprjax.fit_log(log, goal), log)
    assert found["status"].to_list() == ["met", "reached_goal", "reached_goal"]
    assert found["recourse"].to_list() == [[], ["start", "pay"], ["start", "pay"]]
