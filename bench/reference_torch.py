"""How long does Algorithm 1 take to come within 1 % of the certified optimum, in PyTorch and in pprjax?

python bench/reference_torch.py      # needs the dependency group `bench`

The PyTorch program is Algorithm 1 with one-step targets, twice: as printed, one path after another and one step at a
time; and with the b paths of an iteration in lockstep. Both look the world and P_A up in tables, take distances from
rapidfuzz, have a network as wide as pprjax's, and stop their clock at the first path within 1 %, as if told the
optimum. pprjax is told nothing: its time is that of whole runs, with the fewest iterations that bring 99 % of the
originals within 1 %, compilation apart. SETTINGS are the fastest at λ 0.1/0.1 of some sixty that
were drawn at random.

Where exploring actions come from decides much. Evenly is what the paper's grid world does; from P_A is what it does in
worlds of many actions, and on a grid whose best route is one that the driver likes, it needs no learning at all. So the
PyTorch programs run with both, and on a second cell, λ 10/10, where the likeliest routes are far from the best.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np
import torch
from pprjax_envs import gridworld
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from report import finish, table
from torch import nn

from pprjax import Config, exact, recourse
from pprjax.certify.tables import UNAVAILABLE, tabulate
from pprjax.metrics import relative_gap

WITHIN, SHARE = 0.01, 0.99


@dataclass(frozen=True)
class Settings:
    num_paths: int  # b
    num_best: int  # k
    updates: int
    half_life: float  # paths in which ε halves
    c_e: float
    batch_size: int
    learning_rate: float
    from_policy: bool = False  # explore by P_A; else evenly
    epsilon_end: float = 0.05
    memory: int = 32_768  # tuples
    width: int = 128


SETTINGS = {
    "as printed": Settings(
        num_paths=64, num_best=16, updates=16, half_life=200, c_e=1.0, batch_size=256, learning_rate=5e-3
    ),
    "in lockstep": Settings(
        num_paths=64, num_best=8, updates=8, half_life=100, c_e=0.1, batch_size=64, learning_rate=5e-3
    ),
}


class World:
    """The task's tables, and Eq. 5 for paths of rows."""

    def __init__(self, task, config: Config, original: list[int]):
        tables = tabulate(task, habit=config.habit)
        self.horizon = task.horizon
        self.following = tables.following
        self.available = (tables.following != UNAVAILABLE) & ~tables.ended[:, None]
        self.paid = tables.reward + config.lambda_policy * tables.habit  # of each step; R_path comes with the last
        self.probs = np.where(self.available, np.exp(tables.log_prob), 0.0)
        self.ended, self.letters = tables.ended, (tables.symbol + ord("0")).astype(np.uint8)
        self.lambda_path = config.lambda_path
        self.original = bytes(ord("0") + symbol for symbol in original).decode("latin1")

    def text(self, rows: np.ndarray) -> str:
        return self.letters[rows].tobytes().decode("latin1")


class Learner:
    """Q of the bare state, its target network, the replay buffer and the visit counts."""

    def __init__(self, world: World, settings: Settings, seed: int):
        torch.manual_seed(seed)
        self.rng, self.settings = np.random.default_rng(seed), settings
        num_states, num_actions = world.following.shape

        def network() -> nn.Module:
            layers = nn.Embedding(num_states, settings.width), nn.ReLU(), nn.Linear(settings.width, num_actions)
            nn.init.normal_(layers[0].weight, std=settings.width**-0.5)
            return nn.Sequential(*layers)

        self.net, self.target = network(), network()
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=settings.learning_rate, fused=True)
        self.counts = np.zeros((num_states, num_actions))
        self.sampled, self.scale, self.stored = 0, 0.0, 0
        self.whole = torch.zeros((settings.memory, 4), dtype=torch.int64)  # state, action, next state, last
        self.reward = torch.zeros(settings.memory)
        self.unavailable = torch.from_numpy(~world.available)

    def epsilon(self) -> float:
        return max(self.settings.epsilon_end, 0.5 ** (self.sampled / self.settings.half_life))

    def bonus(self) -> np.ndarray:
        """c_e·√(ln t / N(s, a)), an untried action first."""
        log_t = np.log(max(self.counts.sum(), 1.0))
        tried = self.settings.c_e * np.sqrt(log_t / np.maximum(self.counts, 1.0))
        return np.where(self.counts > 0, tried, 1e9)

    @torch.inference_mode()
    def values(self, rows) -> np.ndarray:
        return self.net(torch.as_tensor(rows)).numpy()

    def keep(self, rows: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """The tuples of one path."""
        last = np.arange(len(actions)) == len(actions) - 1
        at = (self.stored + np.arange(len(actions))) % self.settings.memory
        self.whole[at] = torch.from_numpy(np.stack([rows[:-1], actions, rows[1:], last], axis=1).astype(np.int64))
        self.reward[at] = torch.from_numpy(self.scale * rewards).float()
        self.stored += len(actions)

    def learn(self) -> None:
        """Minibatch updates, and then the target network is synchronized."""
        size = min(self.stored, self.settings.memory)
        for _ in range(self.settings.updates):
            at = torch.randint(size, (self.settings.batch_size,))
            state, action, following, last = self.whole[at].unbind(1)
            with torch.no_grad():
                q = self.target(following).masked_fill_(self.unavailable[following], -torch.inf)
                target = self.reward[at] + torch.where(last == 1, 0.0, q.max(1).values)
            value = self.net(state).gather(1, action[:, None])[:, 0]
            self.optimizer.zero_grad()
            nn.functional.smooth_l1_loss(value, target).backward()
            self.optimizer.step()
        self.target.load_state_dict(self.net.state_dict())


@dataclass
class Path:
    rows: np.ndarray  # int[T + 1]
    actions: np.ndarray  # int[T]
    rewards: np.ndarray  # float[T], R_path in the last
    met: bool

    @property
    def reward(self) -> float:
        return float(self.rewards.sum())


def as_printed(world: World, learner: Learner) -> Iterator[Path]:
    """The b paths of an iteration, one after another."""
    settings, rng, epsilon = learner.settings, learner.rng, learner.epsilon()
    for _ in range(settings.num_paths):
        rows, actions = [0], []
        while len(actions) < world.horizon and not world.ended[rows[-1]]:
            row = rows[-1]
            if rng.random() < epsilon:
                weights = world.probs[row] if settings.from_policy else world.available[row]
                cumulative = np.cumsum(weights)
                action = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            else:
                counts = learner.counts[row]
                bonus = settings.c_e * np.sqrt(np.log(max(learner.counts.sum(), 1.0)) / np.maximum(counts, 1.0))
                values = learner.values(row) + np.where(counts > 0, bonus, 1e9)
                action = int(np.argmax(np.where(world.available[row], values, -np.inf)))
            learner.counts[row, action] += 1
            actions.append(action)
            rows.append(int(world.following[row, action]))
        distance = Levenshtein.distance(world.original, world.text(np.array(rows)))
        yield path_of(world, np.array(rows), np.array(actions), distance)


def in_lockstep(world: World, learner: Learner) -> Iterator[Path]:
    """The b paths of an iteration side by side; those that have ended are no longer stepped."""
    settings, rng, epsilon, bonus = learner.settings, learner.rng, learner.epsilon(), learner.bonus()
    b, horizon = settings.num_paths, world.horizon
    rows, actions = np.zeros((b, horizon + 1), np.int64), np.zeros((b, horizon), np.int64)
    lengths, active = np.full(b, horizon), np.arange(b)
    weights = np.cumsum(world.probs if settings.from_policy else world.available, axis=1)
    uniform = rng.random((2, horizon, b))
    for t in range(horizon):
        row = rows[active, t]
        explores = uniform[0, t, active] < epsilon
        cumulative = weights[row]
        action = np.sum(uniform[1, t, active, None] * cumulative[:, -1:] >= cumulative, axis=1)
        if not explores.all():
            greedy = np.flatnonzero(~explores)
            values = learner.values(row[greedy]) + bonus[row[greedy]]
            action[greedy] = np.argmax(np.where(world.available[row[greedy]], values, -np.inf), axis=1)
        actions[active, t] = action
        rows[active, t + 1] = world.following[row, action]
        np.add.at(learner.counts, (row, action), 1)
        ends = world.ended[rows[active, t + 1]]
        lengths[active[ends]] = t + 1
        active = active[~ends]
        if not active.size:
            break
    texts = [world.text(path[: n + 1]) for path, n in zip(rows, lengths, strict=True)]
    distances = cdist([world.original], texts, scorer=Levenshtein.distance)[0]
    for path, taken, n, distance in zip(rows, actions, lengths, distances, strict=True):
        yield path_of(world, path[: n + 1], taken[:n], int(distance))


def path_of(world: World, rows: np.ndarray, actions: np.ndarray, distance: int) -> Path:
    rewards = world.paid[rows[:-1], actions].astype(float)
    rewards[-1] += world.lambda_path / (distance + 1)
    return Path(rows, actions, rewards, bool(world.ended[rows[-1]]))


def seconds_to_reach(
    world: World, settings: Settings, sample: Callable, wanted: float, *, seed: int, cap: float
) -> tuple[float | None, int]:
    """Seconds until a path that meets the goal has R ≥ wanted (None: the cap comes first), and the paths sampled."""
    learner = Learner(world, settings, seed)
    began = time.perf_counter()
    while time.perf_counter() - began < cap:
        paths = []
        for path in sample(world, learner):
            learner.sampled += 1
            if path.met and path.reward >= wanted:
                return time.perf_counter() - began, learner.sampled
            paths.append(path)
        if learner.scale == 0.0:
            learner.scale = 10.0 / np.mean([abs(path.reward) for path in paths])
        for path in sorted(paths, key=lambda path: (path.met, path.reward), reverse=True)[: settings.num_best]:
            learner.keep(path.rows, path.actions, path.rewards)
        learner.learn()
    return None, learner.sampled


def pprjax_runs(task, originals, config: Config, optimum: np.ndarray, *, longest: int, sizes: list[int]) -> dict:
    """Seconds an original of whole runs at the fewest iterations that suffice, for several numbers of originals."""

    def run(count: int, iterations: int, seed: int):
        settings = config.replace(iterations=iterations, memory=min(config.memory, iterations))  # no empty places
        began = time.perf_counter()
        found = recourse(task, originals[:count], settings, method="learn", key=jax.random.key(seed), progress=False)
        return found, time.perf_counter() - began

    def share(rewards) -> np.ndarray:
        return np.mean(relative_gap(rewards, optimum[:, None]) <= WITHIN, axis=0)

    enough = share(run(len(originals), longest, seed=1)[0].curve) >= SHARE
    iterations = int(np.argmax(enough)) + 1 if enough.any() else longest
    while True:  # with fewer iterations ε falls sooner, so what the curve promises is tried
        found, first = run(len(originals), iterations, seed=0)
        reached = float(share(found.reward[:, None])[0])
        if reached >= SHARE or iterations >= longest:
            break
        iterations = min(iterations + max(1, iterations // 3), longest)
    seconds, compiling = {}, {}
    for count in sizes:
        if count != len(originals):
            first = run(count, iterations, seed=0)[1]
        rounds = [run(count, iterations, seed=0)[1] for _ in range(10 if count == 1 else 3)]
        seconds[str(count)] = float(np.median(rounds)) / count
        compiling[str(count)] = max(0.0, first - float(np.median(rounds)))
    return {
        "iterations": iterations,
        "share_within_1": reached,
        "seconds_each": seconds,
        "compile_s": compiling,
    }


def torch_runs(task, originals, config: Config, optimum: np.ndarray, *, cap: float) -> dict:
    """Seconds to reach, by program and kind of exploration, over a few originals."""
    programs, result = {"as printed": as_printed, "in lockstep": in_lockstep}, {}
    for (name, sample), from_policy in itertools.product(programs.items(), (False, True)):
        settings, runs = replace(SETTINGS[name], from_policy=from_policy), []
        for i, original in enumerate(originals.to_lists()):
            wanted = optimum[i] - WITHIN * abs(optimum[i])
            world = World(task, config, original)
            runs.append(seconds_to_reach(world, settings, sample, wanted, seed=i, cap=cap))
        reached = [seconds for seconds, _ in runs if seconds is not None]
        result[f"{name}, exploring {'by P_A' if from_policy else 'evenly'}"] = {
            "mean_s": float(np.mean([cap if seconds is None else seconds for seconds, _ in runs])),
            "median_s": float(np.median([cap if seconds is None else seconds for seconds, _ in runs])),
            "originals": len(runs),
            "reached": len(reached),
            "cap_s": cap,
            "mean_paths": float(np.mean([paths for _, paths in runs])),
        }
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--originals", type=int, default=256, help="of pprjax at λ 0.1/0.1")
    arguments.add_argument("--torch-originals", type=int, default=10, help="of the PyTorch programs at λ 0.1/0.1")
    arguments.add_argument("--cap", type=float, default=60.0, help="seconds an original at λ 0.1/0.1")
    arguments.add_argument("--hard-originals", type=int, default=20, help="of pprjax at λ 10/10")
    arguments.add_argument("--hard-torch-originals", type=int, default=2, help="of the PyTorch programs at λ 10/10")
    arguments.add_argument("--hard-cap", type=float, default=20.0, help="seconds an original at λ 10/10")
    args = arguments.parse_args()
    torch.set_num_threads(1)  # faster than more threads at this size
    task = gridworld.task()
    cells = {
        "0.1/0.1": (Config(habit="link"), args.originals, args.torch_originals, args.cap, 10),
        "10/10": (
            Config(habit="link", lambda_path=10.0, lambda_policy=10.0),
            args.hard_originals,
            args.hard_torch_originals,
            args.hard_cap,
            150,
        ),
    }
    figures: dict = {"cells": {}}
    for name, (config, count, torch_count, cap, longest) in cells.items():
        originals = gridworld.bad_paths(task.env, count)
        optimum = exact(task, originals, config).reward
        slow = torch_runs(task, originals[:torch_count], config, optimum, cap=cap)
        sizes = sorted({n for n in (1, 20) if n < count} | {count})
        fast = pprjax_runs(task, originals, config, optimum, longest=longest, sizes=sizes)
        best = min(fast["seconds_each"].values())
        ratios = {program: run["mean_s"] / best for program, run in slow.items()}
        figures["cells"][name] = {"torch": slow, "pprjax": fast, "ratio": ratios}
        rows = [
            {
                "program": f"pprjax, {n} originals",
                "s an original": s,
                "reached": f"{fast['share_within_1']:.1%}",
                "×": 1.0,
            }
            for n, s in fast["seconds_each"].items()
        ]
        rows += [
            {
                "program": f"PyTorch {program}",
                "s an original": run["mean_s"],
                "reached": f"{run['reached']} of {run['originals']}",
                "×": ratios[program],
            }
            for program, run in slow.items()
        ]
        table(f"λ {name}: until 1 % from the optimum; pprjax: {fast['iterations']} iterations, whole runs", rows)
    finish("reference_torch", figures)


if __name__ == "__main__":
    main()
