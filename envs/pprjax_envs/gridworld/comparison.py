"""PPR beside BL1 and the certified optimum, over λ, and beside both drivers' policies: the study's tables."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from pprjax import Paths, exact, link, recourse, score
from pprjax.baselines import action_changes
from pprjax.config import PAPER, Config
from pprjax.goals import reached
from pprjax.metrics import relative_gap
from pprjax.rollout import trace
from pprjax.task import Task
from pprjax_envs.gridworld.agents import agent
from pprjax_envs.gridworld.settings import DRIVERS
from pprjax_envs.gridworld.world import GridWorld

WEIGHTS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""λ_path and λ_policy of the heat maps."""

SCORES = ("s_policy", "s_path", "s_goal")

ACTION_SETS = (2, 4, 10, 100, 1000)
"""Sizes of the action set for which the link function is drawn."""


def methods(env: GridWorld, originals: Paths, routes: pl.DataFrame) -> pl.DataFrame:
    """The scores of PPR, BL1 and the certified optimum: a row for each driver, method and original.

    BL1 may change any number of actions; its routes are as long as their originals.

    Args:
        routes: what `pprjax_envs.gridworld.experiment.both_drivers` returns.

    Returns:
        `recourse`, its scores, `reached` (whether it ends at the flag), `highway_cells`, and `s_policy_other` (its
        s_policy under the other driver's policy).
    """
    frames = []
    for driver in DRIVERS:
        task, other = _task(env, driver), _task(env, other_driver(driver))
        rows = routes.filter(driver=driver).sort("path")
        bl1 = action_changes(task, originals, max_changes=int(max(originals.lengths)) - 1)
        found = {
            "PPR": Paths.from_lists(rows["recourse"].to_list(), rows["actions"].to_list()),
            "BL1": bl1.paths,
            "optimum": Paths.from_lists(rows["optimal"].to_list()),
        }
        for method, paths in found.items():
            own = score(task, originals, paths, PAPER)
            frames.append(
                pl.DataFrame(
                    {
                        "driver": driver,
                        "method": method,
                        "path": range(len(originals)),
                        "s_policy": own.policy,
                        "s_path": own.path,
                        "s_goal": own.goal,
                        "distance": own.distance,
                        "s_policy_other": score(other, originals, paths, PAPER).policy,
                        "reached": [_letter(env, path[-1]) == "F" for path in paths.to_lists()],
                        "highway_cells": [sum(_letter(env, s) == "H" for s in path) for path in paths.to_lists()],
                        "recourse": pl.Series(paths.to_lists(), dtype=pl.List(pl.Int32)),
                    }
                )
            )
    return pl.concat(frames)


def sensitivity(env: GridWorld, originals: Paths, config: Config, *, seed: int = 0) -> pl.DataFrame:
    """The scores, R_policy and certified gaps over λ_path × λ_policy: a row for each driver, cell and original.

    Each cell is trained by itself, and shows its own recourse, whatever other cells found.
    """
    size = len(originals)
    weights = np.array(list(itertools.product(WEIGHTS, WEIGHTS)))
    grid = np.tile(weights, (size, 1))
    cells = dataclasses.replace(config, lambda_path=grid[:, 0], lambda_policy=grid[:, 1])
    rows = np.repeat(np.arange(size), len(weights))
    everywhere = originals[rows]
    frames = []
    for number, driver in enumerate(DRIVERS):
        task = _task(env, driver)
        key = jax.random.fold_in(jax.random.key(seed), number)
        found = recourse(task, everywhere, cells, method="learn", key=key, chunk=len(weights))
        best = exact(task, everywhere, cells)
        frames.append(
            found.to_frame()
            .select("lambda_path", "lambda_policy", *SCORES, "distance", "status")
            .with_columns(
                driver=pl.lit(driver),
                path=pl.Series(rows),
                r_policy=pl.Series(found.scores.r_policy),
                gap=pl.Series(relative_gap(found.reward, best.reward)),
            )
        )
    return pl.concat(frames)


def worst_gaps(routes: pl.DataFrame, lambdas: pl.DataFrame) -> dict[str, Any]:
    """The largest gap of the routes; of the heat maps the mean gap, and the largest one with its place."""
    worst = lambdas.sort("gap").select("lambda_path", "lambda_policy", "driver", "path", "gap").to_dicts()[-1]
    return {
        "routes": float(routes["gap"].to_numpy().max()),
        "mean": float(lambdas["gap"].to_numpy().mean()),
        "largest": worst,
    }


def personalization(env: GridWorld, scores: pl.DataFrame) -> pl.DataFrame:
    """Whose habits the recourses have: their mean s_policy and their divergence, under either driver's policy.

    KL(π ‖ P_A) = Σ_s ρ(s) Σ_a π(a | s) log(π(a | s) / P_A(a | s)), where ρ(s) says how often the recourses visit s, and
    π(a | s) how often they take action a there.

    Returns:
        A row for each pair of a driver, whose `recourse` it is, and an `agent`, whose policy it is compared with.
    """
    rows = []
    for driver, judging in itertools.product(DRIVERS, DRIVERS):
        members = scores.filter(driver=driver, method="PPR")
        column = "s_policy" if driver == judging else "s_policy_other"
        rows.append(
            {
                "recourse": driver,
                "agent": judging,
                "s_policy": float(members[column].to_numpy().mean()),
                "kl": divergence(_task(env, judging), members["recourse"].to_list()),
            }
        )
    return pl.DataFrame(rows)


def divergence(task: Task, paths: list[list[int]]) -> float:
    """KL(π ‖ P_A) of the actions along these paths of symbols. See `personalization`."""
    rows = Paths.from_lists(paths)
    counts = np.zeros((task.num_states or 0, task.num_actions))
    next_state = np.asarray(task.params.next_state)
    walk = jax.jit(jax.vmap(lambda symbols, length: trace(task, symbols, length, jax.random.key(0)).actions))
    for actions, length in zip(np.asarray(walk(jnp.asarray(rows.symbols), rows.lengths)), rows.lengths, strict=True):
        state = int(task.params.start)
        for action in actions[: length - 1]:
            counts[state, action] += 1
            state = next_state[state, action]
    visits = counts.sum(1, keepdims=True)
    taken = counts > 0
    ratio = np.divide(counts, visits * np.asarray(task.policy.probs), out=np.ones_like(counts), where=taken)  # pyright: ignore
    return float((counts * np.log(ratio)).sum() / counts.sum())


def link_function() -> pl.DataFrame:
    """h(p) for several sizes of the action set."""
    p = np.linspace(0.002, 0.998, 250)
    return pl.concat(
        [pl.DataFrame({"num_actions": a, "p": p, "h": np.asarray(link(p, a), float)}) for a in ACTION_SETS]
    )


def _letter(env: GridWorld, symbol: int) -> str:
    return str(env.cells[symbol])


def other_driver(driver: str) -> str:
    return DRIVERS[1 - DRIVERS.index(driver)]


def _task(env: GridWorld, driver: str) -> Task:
    return Task(env, agent(env, driver), goal=reached)
