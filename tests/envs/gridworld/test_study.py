"""The study's tables by hand, its claims on tables that break them, and the whole command, small."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pprjax_envs import GridWorld, gridworld
from pprjax_envs.gridworld import claims, comparison, study
from pprjax_envs.gridworld.settings import DRIVERS

from pprjax import Config, exact
from pprjax.task import Task

TINY = Config(iterations=4, num_paths=16, num_best=4, updates=1, batch_size=16, width=8)
ENV = GridWorld()
ORIGINALS = gridworld.bad_paths(ENV, 3)


@pytest.fixture(scope="module")
def scores():
    """Of recourses that are the certified optima, so that nothing is trained."""
    frames = []
    for driver in DRIVERS:
        best = exact(Task(ENV, gridworld.agent(ENV, driver)), ORIGINALS, Config())
        found = {"recourse": best.paths.to_lists(), "actions": best.paths.actions_to_lists()}
        frames.append(pl.DataFrame({"driver": driver, "path": range(3), "optimal": best.paths.to_lists(), **found}))
    return comparison.methods(ENV, ORIGINALS, pl.concat(frames))


@pytest.fixture
def lambdas():
    """Scores that do as the paper says."""
    rows = [
        {
            "lambda_path": p,
            "lambda_policy": q,
            "s_path": np.log(p),
            "s_policy": np.log(q),
            "r_policy": q,
            "s_goal": -p * q,
        }
        for p in comparison.WEIGHTS
        for q in comparison.WEIGHTS
    ]
    return pl.DataFrame(rows)


def test_a_recourse_that_is_the_optimum_scores_as_it_does(scores):
    ppr, best = (scores.filter(method=m).drop("method") for m in ("PPR", "optimum"))
    assert ppr.equals(best)
    assert ppr["reached"].all()


def test_bl1_is_as_long_as_its_original_at_most(scores):
    bl1 = scores.filter(method="BL1").sort("driver", "path")
    assert (bl1["recourse"].list.len() <= np.tile(ORIGINALS.lengths, 2)).all()


def test_highway_cells_are_counted(scores):
    cells = "".join(ENV.map)
    for row in scores.iter_rows(named=True):
        assert row["highway_cells"] == sum(cells[s] == "H" for s in row["recourse"])


def test_the_divergence_by_hand():
    """Two routes that part once: there π is one half each, everywhere else the one action that was taken."""
    task = gridworld.task()
    route = ORIGINALS.to_lists()[0]
    probs, params = np.asarray(task.policy.probs, float), task.params
    assert comparison.divergence(task, [route, route]) == pytest.approx(comparison.divergence(task, [route]))
    s, next_state = int(params.start), np.asarray(params.next_state)
    one, two = ([s, int(cell)] for cell in next_state[s][next_state[s] >= 0][:2])  # without money a state is its cell
    chances = [probs[s, list(next_state[s]).index(path[1])] for path in (one, two)]
    assert comparison.divergence(task, [one]) == pytest.approx(-np.log(chances[0]), rel=1e-5)
    expected = sum(0.5 * np.log(0.5 / p) for p in chances)
    assert comparison.divergence(task, [one, two]) == pytest.approx(expected, rel=1e-5)


def test_claims_hold_where_the_tables_say_so(scores, lambdas):
    found = {c["claim"]: c for c in claims.check(ENV, scores, lambdas)}
    assert len(found) == 10
    assert all(c["holds"] for name, c in found.items() if "lambda" in name or "λ" in name)
    own = {(row["recourse"], row["agent"]): row for row in comparison.personalization(ENV, scores).to_dicts()}
    for driver in DRIVERS:
        rows, other = own[driver, driver], own[driver, comparison.other_driver(driver)]
        assert rows["s_policy"] > other["s_policy"]
        assert rows["kl"] < other["kl"]


@pytest.mark.parametrize(
    ("column", "claim"),
    [
        ("s_path", "s_path rises with lambda_path"),
        ("s_policy", "s_policy rises with lambda_policy"),
        ("r_policy", "r_policy rises with lambda_policy"),
        ("s_goal", "s_goal is highest when both λ are low"),
    ],
)
def test_claims_fail_where_the_tables_do(scores, lambdas, column, claim):
    turned = lambdas.with_columns(-pl.col(column))
    failed = {c["claim"] for c in claims.check(ENV, scores, turned) if not c["holds"]}
    assert claim in failed
    assert claim in {c["claim"] for c in claims.check(ENV, scores, lambdas) if c["holds"]}


def test_claims_on_methods_and_drivers_can_fail(scores, lambdas):
    swapped = scores.with_columns(
        method=pl.col("method").replace({"PPR": "BL1", "BL1": "PPR"}),
        driver=pl.col("driver").replace({DRIVERS[0]: DRIVERS[1], DRIVERS[1]: DRIVERS[0]}),
    )
    failed = " ".join(c["claim"] for c in claims.check(ENV, swapped, lambdas) if not c["holds"])
    assert "s_policy is above" in failed


def test_what_follows_from_eq_5_is_not_counted(scores, lambdas):
    """Nor is what the paper does not claim."""
    found = claims.check(ENV, scores, lambdas)
    assert {c["claim"] for c in found if c["follows"]} == {
        "s_path rises with lambda_path",
        "r_policy rises with lambda_policy",
    }
    num_holding, num_tested = claims.count(found)
    assert num_tested == 7
    fewer = [c | {"holds": False} for c in found]
    assert claims.count(fewer) == (0, 7)
    assert claims.count([c | {"holds": c["follows"] or not c["paper"]} for c in found]) == (0, 7)
    assert num_holding == 7 - sum(not c["holds"] for c in found if c["paper"] and not c["follows"])


@pytest.mark.slow
def test_the_command_writes_each_figure_beside_its_table(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "WEIGHTS", (0.1, 10.0))
    map_file = tmp_path / "mine.txt"
    map_file.write_text("S.H\nL#$\nL.F\n")
    study.main(out=tmp_path / "out", num=2, heat=1, maps=(map_file,), max_steps=20, config=TINY)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    pictured = {"routes", "scores", "lambdas", "link", "routes-mine"}
    assert names == {f"{n}.{end}" for n in pictured for end in ("png", "parquet")} | {"summary.json"}
    lambdas = pl.read_parquet(tmp_path / "out" / "lambdas.parquet")
    assert len(lambdas) == 2 * 2 * 2  # cells and drivers
    assert (lambdas["gap"] >= -1e-6).all()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["num_originals"], summary["heat_map_originals"], summary["max_steps"]) == (2, 1, 20)
    worst = lambdas.sort("gap")[-1]
    assert summary["gaps"]["largest"]["gap"] == pytest.approx(worst["gap"].item())
    assert summary["gaps"]["largest"]["lambda_path"] == worst["lambda_path"].item()
    assert summary["gaps"]["mean"] == pytest.approx(lambdas["gap"].mean())
    assert summary["config"] == json.loads(json.dumps(dataclasses.asdict(TINY)))
    assert {c["claim"] for c in summary["claims"]} >= {"PPR's s_goal is above BL1's"}


def test_errors_name_the_argument(tmp_path):
    for options, message in (
        (dict(num=1), "num: expected at least 2 routes, got 1"),
        (dict(num=3, heat=4), "heat: expected 1 to 3 of the routes, got 4"),
        (
            dict(maps=(Path("a/m.txt"), Path("b/m.txt"))),
            "maps: expected files of different names, got a/m.txt, b/m.txt",
        ),
        (dict(seed=-1), "seed: expected at least 0, got -1"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            study.main(out=tmp_path, **options)
