"""Each driver's recourses: what every further edit buys, and the one that is chosen."""

from __future__ import annotations

import dataclasses
import time
from typing import Literal

import jax
import numpy as np
import polars as pl

from pprjax import frontier, goals, recourse
from pprjax.config import Config
from pprjax.metrics import relative_gap
from pprjax.paths import Paths
from pprjax.result import Frontier
from pprjax.task import Task
from pprjax_envs.gridworld.agents import agent
from pprjax_envs.gridworld.settings import DRIVERS
from pprjax_envs.gridworld.world import GridWorld

GOALS = ("money", "flag", "improved", "none")
"""What a recourse must do: reach the flag with all the money; reach the flag; reach it and earn more than the original
did; nothing."""


def goal_of(env: GridWorld, name: str) -> goals.Goal | None:
    """One of `GOALS` in this world."""
    if name == "money":
        return goals.ends_in(env.flag_with_money)
    return {"flag": goals.reached, "improved": goals.improved, "none": None}[name]


def both_drivers(
    env: GridWorld,
    originals: Paths,
    config: Config,
    *,
    goal: str = "money",
    seed: int = 0,
    method: Literal["auto", "learn"] = "auto",
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, float]]:
    """Each driver's recourse for each original, beside the best route there is and the one of the fewest edits.

    Args:
        goal: one of `GOALS`.
        method: how the recourse is found, see `pprjax.recourse`.

    Returns:
        A row for each driver and original: the recourse, `optimum` (no route is worth more), `gap` (the share of it
        that is missing), `optimal` (the best route known), `fewest` (the route of the fewest edits that meets the
        goal), its distance and its R_goal; then the frontiers, a row a point; and the seconds of both methods.
    """
    chosen, points, seconds = [], [], {"training": 0.0, "certificates": 0.0}
    for number, driver in enumerate(DRIVERS):
        task = Task(env, agent(env, driver), goal=goal_of(env, goal))
        started = time.perf_counter()
        front = frontier(task, originals, config)
        best = front.at(config.lambda_path)
        certified = time.perf_counter()
        found = best
        if method == "learn":
            key = jax.random.fold_in(jax.random.key(seed), number)
            found = recourse(task, originals, config, method="learn", key=key)
        seconds["certificates"] += certified - started
        seconds["training"] += time.perf_counter() - certified
        gap = relative_gap(found.reward, best.bound)
        frame = found.to_frame().with_columns(
            driver=pl.lit(driver),
            optimum=pl.Series(best.bound),
            gap=pl.Series(np.where(best.bound == found.reward, 0.0, gap)),
            optimal=pl.Series(best.paths.to_lists(), dtype=pl.List(pl.Int32)),
        )
        chosen.append(frame.join(fewest_edits(front), on="path", how="left", maintain_order="left"))
        points.append(front.to_frame().with_columns(driver=pl.lit(driver)))
    return pl.concat(chosen), pl.concat(points), seconds


def fewest_edits(front: Frontier) -> pl.DataFrame:
    """The first point of each frontier: path, fewest (the route), fewest_distance, fewest_goal (R_goal)."""
    first = front.to_frame().unique("path", keep="first", maintain_order=True)
    return first.select("path", fewest="recourse", fewest_distance="distance", fewest_goal="s_goal")


def missed(env: GridWorld, original: list[int]) -> str:
    """What is wrong with a route, in a word or two."""
    cells = env.cells
    lacks = [name for name, cell in (("money", "$"), ("flag", "F")) if not _passes(cells, original, cell)]
    return ", ".join(lacks) if lacks else "nothing: a detour"


def _passes(cells: np.ndarray, route: list[int], letter: str) -> bool:
    """Whether a route visits all cells of this letter; of the flag, any one."""
    valid = np.isin(np.flatnonzero(cells == letter), route)
    return bool(valid.any() if letter == "F" else valid.all())


def published(config: Config, paper: Config) -> Config:
    """The config with habit, λ, γ and learning rate of the paper's experiments."""
    names = ("habit", "lambda_path", "lambda_policy", "gamma", "learning_rate")
    return dataclasses.replace(config, **{name: getattr(paper, name) for name in names})
