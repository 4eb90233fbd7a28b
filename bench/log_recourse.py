"""How long do a million logged paths take, from a file to a file, and how much memory?

python bench/log_recourse.py                    # 1,000,000 paths of 5 to 28 states, certified
python bench/log_recourse.py --rule "absence(r0c7)" # and no path goes by the north-eastern corner
python bench/log_recourse.py --learned --paths 10000   # learned, beside the certificates
python bench/log_recourse.py --paths 1000 --make log.parquet   # only make such a log

The log is simulated: two kinds of driver on the 8 × 6 map of the grid world without its money, 50 agents of each kind,
each following its P_A with a chance of 0.7 and any road otherwise, until the flag or a length drawn from 5 to 28.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from pprjax_envs import gridworld
from report import finish

import pprjax
from pprjax.finite_world import tabulate

KINDS, EACH, OWN_WAY, SHORTEST, LONGEST, BLOCK = ("experienced", "newbie"), 50, 0.7, 5, 28, 100_000


def simulated(num: int, seed: int, first: int = 0) -> pl.DataFrame:
    """The rows of `num` paths; states are named by row and column."""
    env = gridworld.GridWorld([row.replace("$", ".") for row in gridworld.DEFAULT_MAP])
    rng, frames = np.random.default_rng([seed, first]), []
    width = env.shape[1]
    for k, kind in enumerate(KINDS):
        table = tabulate(pprjax.Task(env, gridworld.agent(env, kind)))
        names = np.array([f"r{s // width}c{s % width}" for s in table.symbol.tolist()])
        valid = table.next_state >= 0
        even = valid / np.maximum(valid.sum(1, keepdims=True), 1)
        chances = np.where(valid, OWN_WAY * np.exp(table.log_prob) + (1 - OWN_WAY) * even, 0.0).cumsum(1)
        size = (num + k) // 2
        path = first + np.arange(size) * 2 + k
        agent = np.array([f"{kind}-{i:02d}" for i in range(EACH)])[rng.integers(EACH, size=size)]
        length, row, going = rng.integers(SHORTEST, LONGEST + 1, size), np.zeros(size, int), np.ones(size, bool)
        for step in range(LONGEST):
            last = table.ended[row] | (step == length - 1)
            draws = rng.random(size) * chances[row, -1]
            action = np.minimum((draws[:, None] >= chances[row]).sum(1), valid.shape[1] - 1)
            rows = pl.DataFrame(
                {
                    "agent": agent,
                    "path": path,
                    "step": np.full(size, step, np.int32),
                    "state": names[row],
                    "action": np.array(["up", "down", "left", "right"])[action],
                    "reward": table.reward[row, action].astype(float),
                }
            )
            ends = pl.Series(last)
            rows = rows.with_columns(pl.when(~ends).then(pl.col("action", "reward")))
            frames.append(rows.filter(pl.Series(going)))
            going &= ~last
            row = np.where(going, table.next_state[row, action], row)
    return pl.concat(frames).sort("path", "step")


def write(file: Path, num: int, seed: int = 0) -> None:
    """The log in a folder of parquet files, or in one if it is small."""
    if num <= BLOCK:
        simulated(num, seed).write_parquet(file)
        return
    file.mkdir(parents=True)
    for first in range(0, num, BLOCK):
        simulated(min(BLOCK, num - first), seed, first).write_parquet(file / f"{first:09d}.parquet")


def recourse(log: Path, out: Path, *options: str) -> float:
    """The seconds that the command takes."""
    columns = ["--action", "action", "--reward", "reward", "--goal", "state=r4c7", "--deterministic"]
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pprjax", "recourse", str(log), "-o", str(out), *columns, *options], check=True
    )
    return time.perf_counter() - started


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--paths", type=int, default=1_000_000)
    arguments.add_argument("--learned", action="store_true")
    arguments.add_argument("--iterations", type=int, default=100)
    arguments.add_argument("--rule", action="append", default=[], help="what every recourse keeps")
    arguments.add_argument("--make", type=Path)
    args = arguments.parse_args()
    if args.make is not None:
        write(args.make, args.paths)
        return
    with tempfile.TemporaryDirectory() as scratch:
        log, out = Path(scratch) / "log", Path(scratch) / "exact.parquet"
        log = log if args.paths > BLOCK else log.with_suffix(".parquet")
        write(log, args.paths)
        seconds = recourse(log, out, *(word for rule in args.rule for word in ("--rule", rule)))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        certified = pl.read_parquet(out, columns=["agent", "path", "status", "reward", "distance"])
        figures = {
            "paths": args.paths,
            "minutes": seconds / 60,
            "peak_gib": peak,
            "status": dict(certified.group_by("status").len().sort("status").iter_rows()),
        }
        if args.learned:
            out = Path(scratch) / "learned.parquet"
            options = "--method", "learn", "--iterations", str(args.iterations)
            figures["learned_minutes"] = recourse(log, out, *options) / 60
            both = certified.filter(pl.col("status") != "met").join(
                pl.read_parquet(out, columns=["agent", "path", "reward"]), on=["agent", "path"], suffix="_learned"
            )
            best, learned = both["reward"].to_numpy(), both["reward_learned"].to_numpy()
            gap = (best - learned) / np.maximum(np.abs(best), 1e-12)
            figures |= {"within_2_percent": float((gap <= 0.02).mean()), "num_learned": both.height}
        if args.rule:
            figures["rules"] = args.rule
        finish(f"log_recourse{'_learned' * args.learned}{'_rules' * bool(args.rule)}", figures)


if __name__ == "__main__":
    main()
