"""One network for all originals of a log: how good are its answers to originals it never saw, and how many a second?

python bench/amortized.py                  # trains on the log world of log_recourse.py, and asks for 500 others

Beside it is per-path training (`pprjax.recourse`, default settings) on a few dozen of the same originals.
"""

from __future__ import annotations

import argparse
import time

import jax
import log_recourse
import numpy as np
import polars as pl
from report import finish, table

from pprjax import Config, Log, Paths, amortized, exact, recourse
from pprjax.bulk import originals_of
from pprjax.fitted import Fitted
from pprjax.metrics import relative_gap

CELLS = ((0.1, 0.1), (1.0, 1.0), (10.0, 0.1), (10.0, 10.0), (100.0, 0.1), (100.0, 1.0), (100.0, 10.0), (300.0, 1.0))
"""(λ_path, λ_policy)"""


def missing(fitted: Fitted, log: Log) -> tuple[Paths, np.ndarray]:
    """The paths of a log that miss the goal, each with its agent; of equal ones of one agent the first."""
    frame = pl.concat(list(log.frames())).sort("agent", "path").unique(["agent", "states"], maintain_order=True)
    originals, agents, _, met = originals_of(fitted, frame)
    return originals[~met], agents[~met]


def by_agent(fitted: Fitted, originals: Paths, agents: np.ndarray, answer) -> np.ndarray:
    """R of answer(task, numbers of the originals of one agent), in the order of the originals, which start alike."""
    reward = np.zeros(len(agents))
    for agent in np.unique(agents):
        mine = np.flatnonzero(agents == agent)
        task = fitted.task(int(agent), int(originals.symbols[0, 0]))
        reward[mine] = answer(task, mine).reward
    return reward


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--paths", type=int, default=40_000, help="of the log")
    arguments.add_argument("--held-out", type=int, default=500)
    arguments.add_argument("--beside", type=int, default=24, help="originals that are trained for one by one")
    arguments.add_argument("--asked", type=int, default=20_000, help="paths whose answers are timed")
    arguments.add_argument("--iterations", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=0)
    args = arguments.parse_args()
    log = Log.read(log_recourse.simulated(args.paths, 0), action="action", reward="reward")
    fitted = log.fit("state=r4c7")
    originals, agents = missing(fitted, log)
    order = np.random.default_rng(args.seed).permutation(len(originals))
    texts = np.array([" ".join(map(str, row)) for row in originals.to_lists()])
    test = order[: args.held_out]
    train = order[args.held_out :][~np.isin(texts[order[args.held_out :]], texts[test])]  # whoever took the same path

    started = time.perf_counter()
    settings = Config(iterations=args.iterations)
    net = amortized.amortize_log(fitted, originals[train], agents[train], settings, key=jax.random.key(args.seed))
    training = time.perf_counter() - started

    rows = []
    by_size = np.argsort(-np.bincount(agents[test])[agents[test]], kind="stable")
    few = by_size[: args.beside]  # of few agents, so that both cores have work
    swept = test[np.tile(few, len(CELLS))]
    weights = np.repeat(CELLS, args.beside, axis=0)
    key = jax.random.key(args.seed)

    def learned(task, mine):
        config = Config(lambda_path=weights[mine, 0], lambda_policy=weights[mine, 1])
        return recourse(task, originals[swept[mine]], config, key=key, ids=mine)

    begun = time.perf_counter()
    one = by_agent(fitted, originals[swept], agents[swept], learned).reshape(len(CELLS), -1)
    per_path_seconds = (time.perf_counter() - begun) / len(swept)
    for (lambda_path, lambda_policy), per_path in zip(CELLS, one, strict=True):
        config = Config(lambda_path=lambda_path, lambda_policy=lambda_policy)
        best = by_agent(
            fitted, originals[test], agents[test], lambda task, mine, c=config: exact(task, originals[test[mine]], c)
        )
        found = net.recourse_log(fitted, originals[test], agents[test], config)
        gap, greedy = relative_gap(found.reward, best), relative_gap(found.greedy_reward, best)
        row = {"lambda_path": lambda_path, "lambda_policy": lambda_policy}
        row |= {f"within_{p}": float((gap <= p / 100).mean()) for p in (1, 2, 5)}
        row |= {"largest_gap": float(gap.max()), "greedy_within_2": float((greedy <= 0.02).mean())}
        row["amortized_within_2_on_few"] = float((gap[few] <= 0.02).mean())
        row["per_path_within_2_on_few"] = float((relative_gap(per_path, best[few]) <= 0.02).mean())
        rows.append(row)
    table("held-out originals", rows)

    asked = np.resize(test, args.asked)
    config = Config(lambda_path=10.0)
    net.recourse_log(fitted, originals[asked], agents[asked], config)
    begun = time.perf_counter()
    net.recourse_log(fitted, originals[asked], agents[asked], config)
    seconds = time.perf_counter() - begun
    figures = {
        "trained_on": len(train),
        "held_out": len(test),
        "training_seconds": training,
        "paths_per_second": args.asked / seconds,
        "per_path_seconds": per_path_seconds,
        "few": len(few),
        "within_2": float(np.mean([row["within_2"] for row in rows])),
        "worst_within_2": min(row["within_2"] for row in rows),
        "cells": rows,
    }
    finish("amortized", figures)


if __name__ == "__main__":
    main()
