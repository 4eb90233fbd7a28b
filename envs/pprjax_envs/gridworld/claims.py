"""What the paper says of the grid world, checked on the study's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pprjax_envs.gridworld.comparison import SCORES, other_driver, personalization
from pprjax_envs.gridworld.settings import DRIVERS
from pprjax_envs.gridworld.world import GridWorld

Claim = dict[str, Any]
"""`claim`; `holds`; `measured`, the means that say so; whether the `paper` makes it; and whether it `follows`: Eq. 5
alone makes it true of optimal recourses, so that it tests the search and not the method."""


def check(env: GridWorld, scores: pl.DataFrame, lambdas: pl.DataFrame) -> list[Claim]:
    """Every claim, whether it holds here, and the figures that it rests on.

    Args:
        scores: what `comparison.methods` returns.
        lambdas: what `comparison.sensitivity` returns.
    """
    return [*_beside_bl1(scores), *_over_the_weights(lambdas), *_of_the_drivers(env, scores)]


def count(found: list[Claim]) -> tuple[int, int]:
    """How many of the paper's claims hold, and how many there are; those that follow from Eq. 5 do not count."""
    tested = [claim["holds"] for claim in found if claim["paper"] and not claim["follows"]]
    return sum(tested), len(tested)


def _beside_bl1(scores: pl.DataFrame) -> list[Claim]:
    means = {row["method"]: row for row in scores.group_by("method").agg(pl.col(*SCORES).mean()).to_dicts()}

    def above(score: str, *, paper: bool = True) -> Claim:
        pair = {method: round(means[method][score], 4) for method in ("PPR", "BL1")}
        return _claim(f"PPR's {score} is above BL1's", pair["PPR"] > pair["BL1"], pair, paper=paper)

    return [above("s_policy"), above("s_goal"), above("s_path", paper=False)]


def _over_the_weights(lambdas: pl.DataFrame) -> list[Claim]:
    """At an optimum s_path can't fall with λ_path, nor r_policy with λ_policy: more pay never buys less. s_policy may
    fall: it is a mean, and λ_policy pays the sum."""

    def rises(score: str, weight: str, *, paper: bool = True, follows: bool = False) -> Claim:
        means = {w: float(rows[score].to_numpy().mean()) for (w,), rows in lambdas.group_by(weight)}
        measured = {f"{w:g}": round(means[w], 4) for w in sorted(means)}
        steps = np.diff([means[w] for w in sorted(means)])
        holds = bool((steps >= -0.01 * np.ptp([*means.values()])).all() and steps.sum() > 0)
        return _claim(f"{score} rises with {weight}", holds, measured, paper=paper, follows=follows)

    goal = lambdas.group_by("lambda_path", "lambda_policy").agg(pl.col("s_goal").mean())
    low = goal.sort("lambda_path", "lambda_policy")["s_goal"][0]
    highest = goal["s_goal"].to_numpy().max()
    return [
        rises("s_path", "lambda_path", follows=True),
        rises("s_policy", "lambda_policy"),
        rises("r_policy", "lambda_policy", paper=False, follows=True),
        _claim(
            "s_goal is highest when both λ are low",
            low >= highest,
            {
                "both low": low,
                "largest": highest,
                "cells that have it": int((goal["s_goal"] == highest).sum()),
                "smallest": goal["s_goal"].min(),
            },
        ),
    ]


def _of_the_drivers(env: GridWorld, scores: pl.DataFrame) -> list[Claim]:
    highways = {d: float(scores.filter(driver=d, method="PPR")["highway_cells"].to_numpy().mean()) for d in DRIVERS}
    own = {(row["recourse"], row["agent"]): row for row in personalization(env, scores).to_dicts()}

    def matrix(column: str) -> dict[str, dict[str, float]]:
        return {d: {agent: round(own[d, agent][column], 4) for agent in DRIVERS} for d in DRIVERS}

    policy, kl = matrix("s_policy"), matrix("kl")
    return [
        _claim(
            "the experienced driver's routes use more highway cells than the newbie's",
            highways["experienced"] > highways["newbie"],
            highways,
        ),
        _claim(
            "a recourse suits its own driver better than the other",
            all(policy[d][d] > policy[d][other_driver(d)] for d in DRIVERS),
            policy,
        ),
        _claim(
            "a recourse diverges less from its own driver's policy than from the other's (KL)",
            all(kl[d][d] < kl[d][other_driver(d)] for d in DRIVERS),
            kl,
        ),
    ]


def _claim(claim: str, holds: bool, measured: Any, *, paper: bool = True, follows: bool = False) -> Claim:
    return {"claim": claim, "paper": paper, "follows": follows, "holds": bool(holds), "measured": measured}
