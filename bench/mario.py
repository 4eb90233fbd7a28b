"""How fast is Mario: steps played by one emulator and by two, steps remembered, and steps of the exported table? And
how much memory does the command take?

A step is four frames. Played: random games that nobody played before, 64 side by side. Remembered: 4,096 lanes of known
steps in one jitted scan through the callback. Table: the same lanes, without the host. Memory: the largest resident
size of `pprjax mario` as it stands, from nothing, in a process of its own, which takes minutes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np
from pprjax_envs import mario
from pprjax_envs.mario.explorer import DONE
from report import finish, median_seconds, table

GAMES, PLAYED, LANES, DEPTH = 64, 12, 4096, 10
ROUNDS = 11


def played(env: mario.MarioEnv, seed: int) -> float:
    """Steps a second of games that go on from a common beginning, all of them new."""
    rng = np.random.default_rng(seed)
    nodes = np.repeat(env.explorer.step(np.zeros(1, int), np.zeros(1, int)).node, GAMES)
    for _ in range(6):  # where the games part
        nodes = env.explorer.step(nodes, rng.integers(0, 2, GAMES)).node
    before, started = env.explorer.played, time.perf_counter()
    for _ in range(PLAYED):
        nodes = env.explorer.step(nodes, rng.integers(0, 2, GAMES)).node
    rate = (env.explorer.played - before) / (time.perf_counter() - started)
    env.check()
    return rate


def explore(env: mario.MarioEnv, steps: int = DEPTH) -> None:
    """Every step from every state that `steps` actions reach."""
    nodes = np.zeros(1, int)
    for _ in range(steps):
        after = [env.explorer.step(nodes, np.full(nodes.shape, action)).node for action in range(env.num_actions)]
        nodes = np.unique(np.concatenate(after))
        nodes = nodes[env.explorer.nodes.flags[nodes] & DONE == 0]


def rollouts(env, steps: int):
    """A jitted run of random actions in all lanes."""
    params = env.default_params

    @jax.jit
    def run(key):
        bits = jax.random.bernoulli(key, shape=(steps, LANES)).astype(np.int32)

        def step(states, actions):
            one = partial(env.step_env, key, params=params)
            _, states, reward, _, _ = jax.vmap(lambda s, a: one(s, a))(states, actions)
            return states, reward

        states = jax.vmap(lambda k: env.reset_env(k, params)[1])(jax.random.split(key, LANES))
        return jax.lax.scan(step, states, bits)[1].sum()

    return partial(run, jax.random.key(0))


def command_peak() -> float:
    """GiB that `pprjax mario` takes at most, both players trained in it."""
    with tempfile.TemporaryDirectory() as name:
        folders = ["--out", str(Path(name, "out")), "--cache", str(Path(name, "cache"))]
        command = [sys.executable, "-m", "pprjax", "mario", *folders]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def main() -> None:
    peak = command_peak()
    alone, together = mario.MarioEnv(num_emulators=1), mario.MarioEnv(num_emulators=2)
    rates = np.array([[played(env, seed) for env in (alone, together)] for seed in range(ROUNDS)])
    one, two = np.median(rates, axis=0).tolist()
    known = mario.MarioEnv()
    explore(known)
    world = known.explored()
    seconds = median_seconds(rollouts(known, DEPTH), rollouts(world, DEPTH), rounds=ROUNDS)
    remembered, tabled = (LANES * DEPTH / s for s in seconds)
    rows = [
        {"steps/s": "played, one emulator", "rate": one},
        {"steps/s": "played, two emulators", "rate": two},
        {"steps/s": "remembered, through the callback", "rate": remembered},
        {"steps/s": "exported table", "rate": tabled},
    ]
    table("Mario, steps of four frames", rows)
    table("The command", [{"peak memory, GiB": peak}])
    finish(
        "mario",
        {
            "played_one_per_s": one,
            "played_two_per_s": two,
            "ratio": two / one,
            "remembered_per_s": remembered,
            "table_per_s": tabled,
            "states": len(known.explorer),
            "command_peak_gib": peak,
        },
    )


if __name__ == "__main__":
    main()
