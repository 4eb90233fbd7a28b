"""The frontier: is it right, how fast is it, and how near does the learner come?

    worlds    random finite worlds: `exact` beside brute force over all paths, at every number of edits, both habits
    grid      the frontiers of 4,096 originals of the grid world by `exact`, beside the certificates at one λ_path
    learned   the share of certified points that the learner is within 1 % of at as few edits, at two λ_policy

`python bench/frontier.py`; λ_path of the training is the command's.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np
from pprjax_envs import gridworld
from rapidfuzz.distance import Levenshtein
from report import finish, median_seconds, table

import pprjax
from pprjax import Config, Paths, TabularMDP
from pprjax.result import Frontier

STATES, ACTIONS, HORIZON = 5, 3, 6
LAMBDA_POLICY = (0.1, 1.0)
WITHIN = 0.01


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--worlds", type=int, default=100)
    arguments.add_argument("--originals", type=int, default=4096)
    arguments.add_argument("--learned", type=int, default=64, help="originals of the learner, for each λ_policy")
    options = arguments.parse_args()
    figures = {"worlds": worlds(options.worlds), "grid": grid(options.originals)}
    figures["learned"] = [learned(options.learned, weight) for weight in LAMBDA_POLICY]
    for name, part in figures.items():
        table(name, part if isinstance(part, list) else [part])
    finish("frontier", figures)


def worlds(num: int) -> dict[str, float]:
    """How often the certified frontier is that of all paths, and how long both take."""
    equal, points, seconds = 0, 0, np.zeros(2)
    for seed in range(num):
        rng = np.random.default_rng(seed)
        task, original = random_world(rng)
        config = Config(lambda_policy=float(rng.choice([0.1, 0.5, 2.0])), habit=("regret", "link")[seed % 2])
        begun = time.perf_counter()
        front = pprjax.frontier(task, Paths.from_lists([original]), config, method="exact")
        middle = time.perf_counter()
        expected = brute_force(task, original, config)
        seconds += middle - begun, time.perf_counter() - middle
        found = np.full(len(expected), -np.inf)
        found[front.distance] = front.value
        found, points = np.maximum.accumulate(found), points + len(expected)
        equal += int(np.isclose(found, expected, rtol=1e-4, atol=1e-4).sum())
    return {
        "worlds": num,
        "numbers_of_edits": points,
        "equal": equal / points,
        "exact_s": seconds[0],
        "brute_force_s": seconds[1],
    }


def random_world(rng: np.random.Generator) -> tuple[pprjax.Task, list[int]]:
    """A small world with dead ends, and an original in it."""
    next_state = rng.integers(-1, STATES, (STATES, ACTIONS))
    next_state[0, 0] = rng.integers(1, STATES)
    env = TabularMDP(next_state, rng.normal(size=next_state.shape).round(2), np.arange(STATES) == 4, 0, HORIZON)
    probs = rng.dirichlet(np.ones(ACTIONS), STATES).astype(np.float32)
    original = [0, *rng.integers(0, STATES, rng.integers(1, HORIZON)).tolist()]
    return pprjax.Task(env, pprjax.TablePolicy(probs)), original


def brute_force(task: pprjax.Task, original: list[int], config: Config) -> np.ndarray:
    """The best v of at most e edits, by walking along every path."""
    params = task.params
    next_state, reward, ends = (np.asarray(x) for x in (params.next_state, params.reward, params.terminal))
    charged = reward + config.lambda_policy * np.asarray(task.habit_table(config.habit), float)
    best = np.full(len(original) + HORIZON + 1, -np.inf)

    def walk(states: list[int], value: float) -> None:
        here = states[-1]
        actions = [] if ends[here] or len(states) > HORIZON else np.flatnonzero(next_state[here] >= 0)
        if not len(actions):
            distance = Levenshtein.distance(original, states)
            best[distance] = max(best[distance], value)
        for action in actions:
            walk([*states, int(next_state[here, action])], value + charged[here, action])

    walk([0], 0.0)
    return np.maximum.accumulate(best)


def grid(num: int) -> dict[str, float]:
    task = gridworld.task("newbie", goal=pprjax.reached)
    originals = gridworld.bad_paths(task.env, num)
    config = Config(lambda_path=10.0, lambda_policy=0.1)
    every, single = median_seconds(
        lambda: pprjax.frontier(task, originals, config, method="exact").value,
        lambda: pprjax.recourse(task, originals, config, method="exact").reward,
        rounds=3,
    )
    return {"originals": num, "frontier_s": every, "certificates_s": single, "ratio": every / single}


def learned(num: int, lambda_policy: float) -> dict[str, float]:
    task = gridworld.task("newbie", goal=pprjax.reached)
    originals = gridworld.bad_paths(task.env, num)
    config = Config(lambda_path=10.0, lambda_policy=lambda_policy)
    certified = pprjax.frontier(task, originals, config, method="exact")
    begun = time.perf_counter()
    found = pprjax.frontier(task, originals, config, method="learn", key=jax.random.key(0))
    seconds = time.perf_counter() - begun
    rows = at_most(found, certified.index, certified.distance)
    near = certified.value - rows <= WITHIN * np.abs(certified.value)
    return {
        "lambda_policy": lambda_policy,
        "originals": num,
        "points": len(certified),
        "within_1_percent": float(near.mean()),
        "seconds": seconds,
    }


def at_most(front: Frontier, path: np.ndarray, edits: np.ndarray) -> np.ndarray:
    """The best v that a frontier has of these originals with at most so many edits; -inf where it has none."""
    values = [front.value[(front.index == p) & (front.distance <= e)] for p, e in zip(path, edits, strict=True)]
    return np.array([v.max(initial=-np.inf) for v in values])


if __name__ == "__main__":
    main()
