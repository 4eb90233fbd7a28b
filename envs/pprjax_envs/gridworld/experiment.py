"""Each driver's recourse beside the best route there is."""

from __future__ import annotations

import time

import jax
import polars as pl

from pprjax import exact, goals, recourse
from pprjax.config import Config
from pprjax.metrics import relative_gap
from pprjax.paths import Paths
from pprjax.task import Task
from pprjax_envs.gridworld.agents import agent
from pprjax_envs.gridworld.settings import DRIVERS
from pprjax_envs.gridworld.world import GridWorld

GOALS: dict[str, goals.Goal | None] = {"flag": goals.reached, "improved": goals.improved, "none": None}
"""What a recourse must do: reach the flag; reach it and earn more than the original did; nothing."""


def both_drivers(
    env: GridWorld, originals: Paths, config: Config, *, goal: str = "flag", seed: int = 0
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Each driver's recourse for each original, beside its certified optimum.

    Args:
        goal: one of `GOALS`.

    Returns:
        A row for each driver and original: the recourse, `optimum` (R of the best route there is), `gap` (the share of
        the optimum that is missing) and `optimal` (that best route); and the seconds of training and of certificates.
    """
    frames, seconds = [], {"training": 0.0, "certificates": 0.0}
    for number, driver in enumerate(DRIVERS):
        task = Task(env, agent(env, driver), goal=GOALS[goal])
        key = jax.random.fold_in(jax.random.key(seed), number)
        started = time.perf_counter()
        found = recourse(task, originals, config, method="learn", key=key)
        trained = time.perf_counter()
        best = exact(task, originals, config)
        seconds["training"] += trained - started
        seconds["certificates"] += time.perf_counter() - trained
        frames.append(
            found.to_frame().with_columns(
                driver=pl.lit(driver),
                optimum=pl.Series(best.reward),
                gap=pl.Series(relative_gap(found.reward, best.reward)),
                optimal=pl.Series(best.paths.to_lists(), dtype=pl.List(pl.Int32)),
            )
        )
    return pl.concat(frames), seconds
