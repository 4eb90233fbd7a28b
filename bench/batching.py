"""What does it pay to solve many originals at once, and how much memory do they take?

python bench/batching.py            # 1 against 256 originals
python bench/batching.py --memory   # 4,096 originals, few iterations: the peak memory of the process
"""

from __future__ import annotations

import argparse
import resource
import time

import jax
import numpy as np
from pprjax_envs import gridworld
from report import finish

from pprjax import Config, recourse


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--memory", action="store_true")
    args = arguments.parse_args()
    task = gridworld.task()
    key = jax.random.key(0)
    if args.memory:
        originals = gridworld.bad_paths(task.env, 4096)
        recourse(task, originals, Config(habit="link", iterations=4), method="learn", key=key)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        finish("batching_memory", {"originals": len(originals), "peak_gib": peak})
        return
    originals = gridworld.bad_paths(task.env, 256)
    seconds = {}
    for size in (1, 256):
        few = originals[:size]
        longest = np.argsort(few.lengths)[-1:]  # compiles what all of them use
        recourse(task, few[longest], Config(habit="link", iterations=300), method="learn", key=key)
        rounds = []
        for _ in range(3 if size == 1 else 1):
            started = time.perf_counter()
            recourse(task, few, Config(habit="link", iterations=300), method="learn", key=key)
            rounds.append((time.perf_counter() - started) / size)
        seconds[size] = sorted(rounds)[len(rounds) // 2]
    finish(
        "batching",
        {"seconds_alone": seconds[1], "seconds_each_of_256": seconds[256], "ratio": seconds[1] / seconds[256]},
    )


if __name__ == "__main__":
    main()
