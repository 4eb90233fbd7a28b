"""How many certificates a second does `exact` give on the grid world? `python bench/exact.py`"""

import argparse
import statistics
import time

from pprjax_envs import gridworld
from report import beside_floor, finish, table

from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.goals import reached

REPEATS = 10
TARGET = 150.0  # certificates/s, at λ_path = λ_policy = 0.1 without a goal
CASES = [  # goal, λ_path, λ_policy
    (None, 0.1, 0.1),
    (None, 10.0, 0.1),
    (None, 100.0, 0.1),
    (None, 10.0, 1.0),
    (None, 1.0, 10.0),
    (reached, 0.1, 0.1),
    (reached, 100.0, 0.1),
]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--originals", type=int, default=256)
    num_originals = arguments.parse_args().originals
    originals = gridworld.bad_paths(gridworld.GridWorld(), num_originals)
    tasks = {goal: gridworld.task("experienced", goal=goal) for goal in (None, reached)}
    first, times = [], [[] for _ in CASES]
    for goal, lambda_path, lambda_policy in CASES:
        config = Config(habit="link", lambda_path=lambda_path, lambda_policy=lambda_policy)
        first.append(timed(tasks[goal], originals, config))
    for _ in range(REPEATS):  # in turns, so that a busy moment does not fall on one case
        for taken, (goal, lambda_path, lambda_policy) in zip(times, CASES, strict=True):
            taken.append(
                timed(
                    tasks[goal], originals, Config(habit="link", lambda_path=lambda_path, lambda_policy=lambda_policy)
                )
            )

    rows = [
        {
            "goal": "none" if goal is None else "reached",
            "lambda_path": lambda_path,
            "lambda_policy": lambda_policy,
            "certificates_per_s": num_originals / statistics.median(taken),
            "best_certificates_per_s": num_originals / min(taken),
            "first_call_s": once,
        }
        for (goal, lambda_path, lambda_policy), taken, once in zip(CASES, times, first, strict=True)
    ]
    env = tasks[None].env
    edges = tasks[None].horizon * env.num_states * env.num_actions
    moved = num_originals * 4 * edges  # what each step of the unrolled world pays is read once for each original
    table(f"{num_originals} originals, horizon 40, median of {REPEATS}", rows)
    finish(
        "exact",
        {
            "num_originals": num_originals,
            "cases": rows,
            "ratio_to_target": rows[0]["certificates_per_s"] / TARGET,
            **beside_floor(statistics.median(times[0]), moved),
        },
    )


def timed(task, originals, config) -> float:
    """Seconds of one call, tables included; its results are NumPy arrays, so nothing is left to wait for."""
    begin = time.perf_counter()
    exact(task, originals, config)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
