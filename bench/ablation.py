"""What does each part of pprjax add? Each is switched off in turn, and then all at once.

python bench/ablation.py                       # 4 routes × 2 drivers in three cells, 100 iterations
python bench/ablation.py --routes 2 --iterations 20

A variant is one call for each driver: all routes in all cells, side by side. The first call compiles, so the second is
timed.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np
from pprjax_envs import GridWorld, gridworld
from report import finish, table

from pprjax import Config, Task, exact, goals, recourse
from pprjax.metrics import relative_gap

CELLS = ((0.1, 0.1), (10.0, 0.1), (10.0, 10.0))
OFF = {
    "UCB": {"c_e": 0.0},
    "k-best": {"num_best": 1},
    "alignment_aware": {"alignment_aware": False},
    "telescoped": {"telescoped": False},
    "mixed_lanes": {"mixed_lanes": False},
    "mixed_replay": {"mixed_replay": False},
}
VARIANTS = {
    "default": {},
    **{f"without {name}": change for name, change in OFF.items()},
    "with edited_lanes": {"edited_lanes": True},
    "without all": {name: value for change in OFF.values() for name, value in change.items()},
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--routes", type=int, default=4)
    arguments.add_argument("--iterations", type=int, default=100)
    args = arguments.parse_args()
    env = GridWorld()
    routes = gridworld.bad_paths(env, args.routes)
    originals = routes[np.tile(np.arange(args.routes), len(CELLS))]
    lambda_path, lambda_policy = np.repeat(CELLS, args.routes, axis=0).T
    config = Config(habit="link", iterations=args.iterations, lambda_path=lambda_path, lambda_policy=lambda_policy)
    tasks = [Task(env, gridworld.agent(env, driver), goal=goals.reached) for driver in ("experienced", "newbie")]
    optimum = np.stack([exact(task, originals, config).reward for task in tasks])

    def run(task, few, config):
        began = time.perf_counter()
        found = recourse(task, few, config, method="learn", key=jax.random.key(0), progress=False)
        return time.perf_counter() - began, found

    variants = {}
    for name, change in VARIANTS.items():
        changed = config.replace(**change)
        (first, one), (seconds, other) = (run(task, originals, changed) for task in tasks)
        reward = np.stack([one.reward, other.reward])
        greedy = np.stack([one.greedy_reward, other.greedy_reward])
        within = relative_gap(reward, optimum) <= 0.01
        near = relative_gap(np.where(np.isfinite(greedy), greedy, -1e9), optimum) <= 0.05
        variants[name] = {
            "within_1": by_cell(within),
            "greedy_within_5": by_cell(near),
            "seconds_each": seconds / len(originals),
            "compile_s": max(first - seconds, 0.0),
        }
    rows = []
    for name, v in variants.items():
        shares = {f"{p:g}/{q:g}": v["within_1"][f"{p:g}/{q:g}"] for p, q in CELLS}
        greedy = float(np.mean(list(v["greedy_within_5"].values())))
        rows.append({"variant": name, **shares, "greedy within 5 %": greedy, "s an original": v["seconds_each"]})
    table("share within 1 % of the optimum, by λ_path/λ_policy", rows)
    finish(
        "ablation",
        {
            "routes": args.routes,
            "drivers": len(tasks),
            "iterations": args.iterations,
            "variants": variants,
        },
    )


def by_cell(hits: np.ndarray) -> dict[str, float]:
    """The share of hits, bool[drivers, cells·routes], in each cell."""
    shares = hits.reshape(hits.shape[0], len(CELLS), -1).mean((0, 2))
    return {f"{p:g}/{q:g}": float(share) for (p, q), share in zip(CELLS, shares, strict=True)}


if __name__ == "__main__":
    main()
