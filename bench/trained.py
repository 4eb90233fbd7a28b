"""How many recourses a second does training give? `python bench/trained.py --originals 1000`

Beside it stands its floor: the least bytes that an iteration must move, the weights, their gradients and Adam's moments
once for each minibatch update and the paths once into the replay buffer, over the bandwidth of a large copy, measured
here. Where weights stay in a cache, as a CPU's may, the floor is not one: it is meant for thousands of originals.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
from pprjax_envs import gridworld
from report import beside_floor, finish, table

from pprjax import Config, exact, recourse
from pprjax.learn import learner
from pprjax.metrics import relative_gap
from pprjax.rollout import trace


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--originals", type=int, default=16)
    arguments.add_argument("--iterations", type=int, default=Config().iterations)
    args = arguments.parse_args()
    task = gridworld.task()
    originals = gridworld.bad_paths(task.env, args.originals)
    config = Config(habit="link", iterations=args.iterations)

    def run():
        began = time.perf_counter()
        found = recourse(task, originals, config, method="learn", key=jax.random.key(0), progress=False)
        return time.perf_counter() - began, found

    first, _ = run()
    seconds, found = run()
    gap = relative_gap(found.reward, exact(task, originals, config).reward)
    moved = args.originals * bytes_moved(task, originals, config)
    figures = {
        "originals": args.originals,
        "iterations": args.iterations,
        "recourses_per_s": args.originals / seconds,
        "seconds": seconds,
        "compile_s": max(first - seconds, 0.0),
        "within_1": float((gap <= 0.01).mean()),
        **beside_floor(seconds, moved),
    }
    table("training", [figures])
    finish(f"trained_{args.originals}", figures)


def bytes_moved(task, originals, config: Config) -> int:
    """The least that training one original moves."""
    path = originals[:1]
    symbols, length = jnp.asarray(path.symbols[0]), jnp.asarray(path.lengths[0])

    def shapes():
        original = trace(task, symbols, length, jax.random.key(0))
        state = learner.init(task, original, config, jax.random.key(0))
        return state.params, state.best

    params, best = jax.eval_shape(shapes)
    weights, stored = (sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) for tree in (params, best))
    kept = config.num_best * (2 if config.mixed_replay else 1)
    # weights and two moments are read and written, and a gradient is written and read
    return config.iterations * (config.updates * 8 * weights + kept * stored)


if __name__ == "__main__":
    main()
