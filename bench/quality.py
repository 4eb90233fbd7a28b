"""How often is a learned recourse within 1 % of the certified optimum, over all weights, with and without a goal?

python bench/quality.py            # 25 cells of (λ_path, λ_policy), 10 routes × 2 drivers, and 100 routes at 0.1/0.1
python bench/quality.py --plain    # the same cells for the plain algorithm: all four mends off
"""

from __future__ import annotations

import argparse
import itertools
import time

import jax
import numpy as np
from pprjax_envs import GridWorld, gridworld
from report import finish, table

from pprjax import Config, exact, goals, recourse
from pprjax.metrics import relative_gap
from pprjax.task import Task

WEIGHTS = (0.01, 0.1, 1.0, 10.0, 100.0)
PLAIN = dict(alignment_aware=False, telescoped=False, mixed_lanes=False, mixed_replay=False)


def gaps(task, originals, config, seed):
    """The gaps of the recourses and of the greedy paths to the certified optimum: float[B] each."""
    found = recourse(task, originals, config, method="learn", key=jax.random.key(seed))
    best = exact(task, originals, config)
    greedy = np.where(np.isfinite(found.greedy_reward), found.greedy_reward, -1e9)
    return relative_gap(found.reward, best.reward), relative_gap(greedy, best.reward), found.status


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--plain", action="store_true")
    arguments.add_argument("--routes", type=int, default=10)
    arguments.add_argument("--many", type=int, default=100, help="routes at 0.1/0.1")
    args = arguments.parse_args()
    config = Config(habit="link", **(PLAIN if args.plain else {}))
    env = GridWorld()
    started = time.perf_counter()

    figures = {"algorithm": "plain" if args.plain else "mended", "cells": {}}
    cells = list(itertools.product(WEIGHTS, WEIGHTS))
    originals = gridworld.bad_paths(env, args.routes)
    everywhere = originals[np.tile(np.arange(args.routes), len(cells))]
    for name, goal in {"flag": goals.reached, "none": None}.items():
        gap, greedy = [], []
        swept = config.replace(
            lambda_path=np.repeat([p for p, _ in cells], args.routes),
            lambda_policy=np.repeat([q for _, q in cells], args.routes),
        )
        for number, driver in enumerate(("experienced", "newbie")):
            one, other, _ = gaps(Task(env, gridworld.agent(env, driver), goal=goal), everywhere, swept, number)
            gap.append(one.reshape(len(cells), -1))
            greedy.append(other.reshape(len(cells), -1))
        gap, greedy = np.concatenate(gap, 1), np.concatenate(greedy, 1)
        rows = [
            {
                "lambda_path": p,
                "lambda_policy": q,
                "within_1": float((g <= 0.01).mean()),
                "largest_gap": float(g.max()),
                "greedy_within_5": float((h <= 0.05).mean()),
            }
            for (p, q), g, h in zip(cells, gap, greedy, strict=True)
        ]
        table(f"goal: {name}", rows)
        figures["cells"][name] = rows
        figures[f"within_1_{name}"] = float((gap <= 0.01).mean())
        figures[f"greedy_within_5_{name}"] = float((greedy <= 0.05).mean())
        worst = min(rows, key=lambda row: (row["within_1"], -row["largest_gap"]))
        figures[f"worst_{name}"] = worst
    if args.many:
        many = gridworld.bad_paths(env, args.many)
        gap = np.concatenate(
            [
                gaps(Task(env, gridworld.agent(env, driver), goal=goals.reached), many, config, number)[0]
                for number, driver in enumerate(("experienced", "newbie"))
            ]
        )
        figures["within_1_many"] = float((gap <= 0.01).mean())
        figures["largest_gap_many"] = float(gap.max())
        figures["many"] = len(gap)
    figures["seconds"] = time.perf_counter() - started
    finish("quality_plain" if args.plain else "quality", figures)


if __name__ == "__main__":
    main()
