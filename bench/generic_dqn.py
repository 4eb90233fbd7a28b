"""What does a generic DQN reach on the same reward, in the time that pprjax takes and in ten times that?

python bench/generic_dqn.py      # needs the dependency group `bench`

Stable-Baselines3's DQN gets the world as a Gymnasium environment: the state and the steps left as one-hot vectors, at
each step the environment's reward and λ_policy·h(P_A), and at the end λ_path / (d + 1), d from rapidfuzz. What it found
is the best path that it sampled, as for pprjax, and apart from that its greedy path. It trains one original at a time,
as it must; pprjax is timed both ways, one original alone and all side by side.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
import jax
import numpy as np
import torch
from pprjax_envs import gridworld
from rapidfuzz.distance import Levenshtein
from report import finish, table
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

from pprjax import Config, exact, recourse
from pprjax.finite_world import UNAVAILABLE, FiniteWorld, tabulate
from pprjax.metrics import relative_gap

CELLS = ((0.1, 0.1), (10.0, 0.1))
TIMES = (1, 10)  # of pprjax's seconds
STEPS_A_SECOND = 1000  # about what it does, by which its ε schedule and its number of steps are set
ROOM = 100  # times as many steps may be taken: the clock ends training
REWARD_SCALE = 0.1
MISSED = -1e9  # R of a path that misses the goal


class Rewritten(gymnasium.Env):
    """One original to be edited. An action that is not available becomes the next one that is."""

    def __init__(self, tables: FiniteWorld, horizon: int, config: Config, original: list[int]):
        self.tables, self.horizon, self.original = tables, horizon, original
        self.available = tables.next_state != UNAVAILABLE
        self.paid = tables.reward + config.lambda_policy * tables.habit
        self.lambda_path = float(config.lambda_path)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (tables.num_rows + horizon + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(tables.num_actions)
        self.best = MISSED

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.row, self.total, self.symbols = 0, 0.0, [int(self.tables.symbol[0])]
        return self.observation(), {}

    def observation(self) -> np.ndarray:
        seen = np.zeros(self.observation_space.shape, np.float32)
        seen[[self.row, self.tables.num_rows + len(self.symbols) - 1]] = 1.0
        return seen

    def step(self, action):
        choices = np.roll(np.arange(self.action_space.n), -int(action))
        action = choices[np.argmax(self.available[self.row, choices])]
        reward = float(self.paid[self.row, action])
        self.row = int(self.tables.next_state[self.row, action])
        self.symbols.append(int(self.tables.symbol[self.row]))
        reached = bool(self.tables.ended[self.row])
        over = reached or len(self.symbols) > self.horizon
        if over:
            reward += self.lambda_path / (Levenshtein.distance(self.original, self.symbols) + 1)
        self.total += reward
        if reached:
            self.best = max(self.best, self.total)
        # the horizon is part of the task, so a path that is cut has ended: nothing is bootstrapped after it
        return self.observation(), REWARD_SCALE * reward, over, False, {}


class Until(BaseCallback):
    """Stops training when the time is up."""

    def __init__(self, deadline: float):
        super().__init__()
        self.deadline = deadline

    def _on_step(self) -> bool:
        return time.perf_counter() < self.deadline


def dqn(env: Rewritten, seconds: float, seed: int) -> tuple[float, float, int]:
    """R of the best path sampled and of the greedy path, and the steps taken."""
    env.best = MISSED
    steps = max(int(STEPS_A_SECOND * seconds), 100)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=50_000,
        learning_starts=min(200, steps // 4),
        batch_size=128,
        gamma=1.0,
        train_freq=4,
        gradient_steps=2,
        target_update_interval=200,
        exploration_fraction=0.5 / ROOM,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [128]},
        seed=seed,
        device="cpu",
    )
    model.learn(ROOM * steps, callback=Until(time.perf_counter() + seconds))
    best, taken = env.best, model.num_timesteps
    env.best = MISSED
    seen, _ = env.reset()
    over = False
    while not over:
        seen, _, over, _, _ = env.step(model.predict(seen, deterministic=True)[0])
    return best, env.best, taken


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--originals", type=int, default=4)
    arguments.add_argument("--iterations", type=int, default=Config().iterations)
    args = arguments.parse_args()
    torch.set_num_threads(1)  # faster than more threads at this size
    task = gridworld.task()
    tables, originals = tabulate(task, habit="link"), gridworld.bad_paths(task.env, args.originals)
    figures: dict = {"originals": args.originals, "cells": {}}
    for lambda_path, lambda_policy in CELLS:
        config = Config(habit="link", lambda_path=lambda_path, lambda_policy=lambda_policy, iterations=args.iterations)
        optimum = exact(task, originals, config).reward

        def score(rewards, greedy, optimum=optimum):
            found = relative_gap(rewards, optimum)
            return {
                "within_1": float(np.mean(found <= 0.01)),
                "reached_flag": float(np.mean(np.asarray(rewards) > MISSED)),
                "greedy_within_5": float(np.mean(relative_gap(greedy, optimum) <= 0.05)),
            }

        def run(few, config=config):
            began = time.perf_counter()
            found = recourse(task, few, config, method="learn", key=jax.random.key(0), progress=False)
            return time.perf_counter() - began, found

        for few in (originals[:1], originals):
            run(few)
        alone = min(run(originals[:1])[0] for _ in range(2))
        together, found = run(originals)
        greedy = np.where(np.isfinite(found.greedy_reward), found.greedy_reward, MISSED)
        programs = {"pprjax": {"seconds_each": together / len(originals), **score(found.reward, greedy)}}
        for times in TIMES:
            runs = [
                dqn(Rewritten(tables, task.horizon, config, original), times * alone, seed)
                for seed, original in enumerate(originals.to_lists())
            ]
            best, last, steps = map(np.array, zip(*runs, strict=True))
            programs[f"DQN, {times} × the time"] = {
                "seconds_each": times * alone,
                **score(best, last),
                "steps": float(steps.mean()),
            }
        figures["cells"][f"{lambda_path:g}/{lambda_policy:g}"] = {"pprjax_alone_s": alone, "programs": programs}
        rows = [{"program": name, **{"steps": "", **figures_}} for name, figures_ in programs.items()]
        table(f"λ {lambda_path:g}/{lambda_policy:g}; pprjax alone takes {alone:.3g} s", rows)
    finish("generic_dqn", figures)


if __name__ == "__main__":
    main()
