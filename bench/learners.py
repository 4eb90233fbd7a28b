"""What do other learners find at as many steps? `python bench/learners.py`   # needs the dependency group `bench`

rejax's PPO trains on `pprjax.RecourseEnv`, Stable-Baselines3's DQN on the same through `pprjax.to_gymnasium`, and
pprjax's own learner on the task; each gets as many steps of the world, and the best path that it sampled counts. Beside
them stands the best there is: certified on the grid, and of years and CartPole the search's, with its gap.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rejax
import torch
from flax import struct
from gymnax.environments.classic_control.cartpole import CartPole
from pprjax_envs import gridworld, temperature
from report import finish, table
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

import pprjax
from pprjax import Config, Paths, RecourseEnv, Task, recourse

CONFIG = Config(lambda_path=10.0, num_paths=64, num_best=16)
LANES = 64
WITHIN = 0.01


@struct.dataclass
class Remembered:
    inner: Any
    total: jax.Array  # float[], of the episode so far
    best: jax.Array  # float[], of all episodes that met the goal


class Remembers:
    """An environment that remembers what its best episode earned. The rest is that of the one inside."""

    def __init__(self, env: RecourseEnv):
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, key, params):
        seen, inner = self.env.reset(key, params)
        return seen, Remembered(inner, jnp.float32(0), jnp.float32(-jnp.inf))

    def step(self, key, state, action, params):
        seen, inner, reward, terminated, truncated, info = self.env.step(key, state.inner, action, params)
        total, over = state.total + reward, terminated | truncated
        best = jnp.where(over & info["met"], jnp.maximum(state.best, total), state.best)
        return seen, Remembered(inner, jnp.where(over, 0.0, total), best), reward, terminated, truncated, info


def ppo(task: Task, original: Paths, steps: int) -> float:
    """The R of the best path that PPO sampled."""
    env = RecourseEnv(task, original, CONFIG)
    algorithm = rejax.PPO.create(
        env=env,
        total_timesteps=steps,
        eval_freq=steps,
        skip_initial_evaluation=True,
        num_envs=LANES,
        num_steps=task.horizon,
        num_minibatches=8,
        num_epochs=4,
        gamma=1.0,
        learning_rate=1e-3,
        normalize_rewards=True,
    )
    algorithm = algorithm.replace(env=Remembers(env), eval_callback=lambda *_: ())
    state, _ = jax.jit(algorithm.train)(jax.random.key(0))
    return float(state.env_state.best.max())


class Best(BaseCallback):
    """The most that an episode earned which met the goal."""

    best, total = -np.inf, 0.0

    def _on_step(self) -> bool:
        self.total += float(self.locals["rewards"][0])
        if self.locals["dones"][0]:
            if self.locals["infos"][0]["met"]:
                self.best = max(self.best, self.total)
            self.total = 0.0
        return True


def dqn(task: Task, original: Paths, steps: int) -> float:
    """The R of the best path that Stable-Baselines3's DQN sampled."""
    env, callback = pprjax.to_gymnasium(RecourseEnv(task, original, CONFIG)), Best()
    model = DQN("MlpPolicy", env, learning_rate=1e-3, batch_size=128, gamma=1.0, train_freq=4, gradient_steps=2,
                learning_starts=1000, target_update_interval=200, exploration_fraction=0.5, seed=0, device="cpu",
                policy_kwargs={"net_arch": [128]})  # fmt: skip
    model.learn(steps, callback=callback)
    return callback.best


def ours(task: Task, original: Paths, steps: int) -> float:
    """The R of the best path of pprjax's learner."""
    a_path = task.horizon * CONFIG.num_paths
    config = CONFIG.replace(iterations=max(steps // a_path - 1, 1))  # one more is the harvest
    found = recourse(task, original, config, method="learn", key=jax.random.key(0), progress=False)
    met = found.status != "infeasible"
    return float(found.reward[0]) if met[0] else -np.inf


def worlds(num: int) -> dict[str, tuple[Task, Paths]]:
    """A grid world, years and a pole, with originals that miss their goals."""
    grid = gridworld.task("newbie", goal=pprjax.reached)
    data = temperature.split(temperature.simulate())
    years = temperature.task(data, temperature.trained(data)[0], 1)
    symbols = data.test_symbols[data.test_labels == 0][:num]
    pole = CartPole()
    start = pole.reset(jax.random.key(1))[1]

    def leans(weight, observation):
        return weight * (observation[2] + 0.3 * observation[3]) * jnp.array([-1.0, 1.0])

    upright = Task(
        pprjax.actions_as_symbols(pole),
        policy=pprjax.ObservationPolicy(leans, 20.0),
        goal=pprjax.reached,
        horizon=16,
        start=start,
        reached_goal=lambda state, params: (state.time == 16) & ~pole.is_terminated(state, params),
        deterministic=True,
    )
    falls = [[2, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1], [2, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]]
    return {
        "grid world": (grid, gridworld.bad_paths(grid.env, num)),
        "years": (years, years.env.paths(symbols)),
        "CartPole": (upright, Paths.from_lists(falls[:num])),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--steps", type=int, default=50_000)
    arguments.add_argument("--originals", type=int, default=2)
    args = arguments.parse_args()
    torch.set_num_threads(1)  # faster than more threads at this size
    rows = []
    for name, (task, originals) in worlds(args.originals).items():
        known = recourse(task, originals, CONFIG, method="auto")
        for learner in (ours, ppo, dqn):
            begun = time.perf_counter()
            found = np.array([learner(task, originals[b : b + 1], args.steps) for b in range(len(originals))])
            short = (known.reward - found) / np.abs(known.reward)
            rows.append(
                {
                    "world": name,
                    "learner": {"ours": "pprjax", "ppo": "rejax PPO", "dqn": "SB3 DQN"}[learner.__name__],
                    "met_goal": float(np.isfinite(found).mean()),
                    "within_1": float((short <= WITHIN).mean()),
                    "median_short": float(np.median(short)) if np.isfinite(short).all() else None,
                    "seconds_each": (time.perf_counter() - begun) / len(originals),
                    "proved": float((known.gap <= 1e-6).mean()),
                }
            )
            table(f"{args.steps:,} steps", rows[-1:])
    finish("learners", {"steps": args.steps, "originals": args.originals, "rows": rows})


if __name__ == "__main__":
    main()
