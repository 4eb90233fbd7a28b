"""Better paths for the paths in a log of yours, each with a certified gap where that is possible."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pprjax.config import Config
from pprjax.logs.fitted import Method, Noise


def main(
    log: tyro.conf.Positional[Path],
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    agent: str = "agent",
    path: str = "path",
    step: str = "step",
    state: str = "state",
    action: str | None = None,
    reward: str | None = None,
    good: str | None = None,
    goal: str | None = None,
    method: Method = "auto",
    noise: Noise = "fresh",
    smoothing: float | None = None,
    max_steps: int | None = None,
    strict: bool = False,
    chunk: int = 20_000,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    process: str = "0/1",
    seed: int = 0,
    config: tyro.conf.OmitArgPrefixes[Config] = Config(),
) -> None:
    """Recourse for every path of a log that misses the goal.

    The log has one row a step. From it the command learns the world and how each agent acts, and writes to OUT one row
    a path; to OUT.fit what it learned; and to OUT.rejected which rows were bad and why. It can be killed at any time:
    the same command goes on where it was.

    Args:
        log: a parquet, CSV or JSONL file, or a folder of them.
        out: the parquet file to write.
        agent: the column that says who acted.
        path: the column with the name of the path.
        step: the column with the number that orders a path's rows.
        state: the column with the state.
        action: the column with the action taken there; default: the action is to go to the next state.
        reward: the column with the reward that it paid; default: nothing pays.
        good: the column that labels the rows of a path as good (true) or bad (false).
        goal: what a recourse must do: "state=X", "reward>=x", or "good"; default: nothing.
        method: exact, with proof; learned, by Algorithm 1; or auto: exact where that is possible, else learned.
        noise: where chance decides: fresh, as it may decide the next time; or observed, as on the logged path as far as
            that path tells, for what would have happened on this trip.
        smoothing: steps of an agent's own that weigh as much as what everyone does; default: chosen on held-out paths.
        max_steps: the largest number of actions of a recourse; default: that of the longest path.
        strict: fail at the first bad row.
        chunk: paths that are worked on at once, roughly.
        engine: local; or ray, on a Ray cluster (RAY_ADDRESS, or this machine) whose machines all see LOG and OUT.
        workers: of Ray; default: one a machine.
        process: i/n: this is process i of n, from 0, that run the same command, and does its share of the chunks; or
            jax: as jax.distributed.initialize() finds it out, under SLURM and others. The first one puts the parts
            together.
        seed: of the training.
        config: every knob of Algorithm 1.
    """
    started = time.perf_counter()
    if out.suffix != ".parquet":
        raise ValueError(f"out: expected a name that ends in .parquet, got {out}")
    if chunk < 1:
        raise ValueError(f"chunk: expected at least 1, got {chunk}")
    if workers is not None and (engine != "ray" or workers < 1):
        raise ValueError(f"workers: expected at least 1, and --engine ray, got {workers} and {engine}")
    me, num_processes = _process(process)
    from pprjax.io import output_folder
    from pprjax.logs import jobs

    output_folder(out.parent)
    columns = {"agent": agent, "path": path, "step": step, "state": state, "action": action, "reward": reward}
    job = jobs.Job(
        log,
        out,
        read={**columns, "good": good, "strict": strict},
        fit={"goal": goal, "smoothing": smoothing, "max_steps": max_steps},
        config=config,
        method=method,
        noise=noise,
        seed=seed,
        chunk=chunk,
    )
    done = jobs.run(job, engine=engine, workers=workers, process=(me, num_processes))
    if done is None:
        print(f"process {me} of {num_processes} is done: {time.perf_counter() - started:.1f} s.")
        while process == "jax" and job.work.exists():  # who leaves early brings jax.distributed down
            time.sleep(jobs.POLL)
        return
    status = ", ".join(f"{count:,} {name}" for name, count in done["status"].items())
    ways = {"exact": "certified", "learned": "learned without a certificate"}
    found = "".join(f"; {count:,} {ways[name]}" for name, count in done["method"].items())
    chance = "" if done["deterministic"] else " Chance decides in this world: see the column `probability`."
    bad = done["num_rejected"]
    rejected = f"; {bad:,} bad row{'s' if bad > 1 else ''}, see {out}.rejected" if bad else ""
    print(f"{done['num_paths']:,} paths: {status}{found}{rejected}.{chance}")
    print(f"{time.perf_counter() - started:.1f} s. Written to {out}.")


def _process(text: str) -> tuple[int, int]:
    """Which process of how many."""
    if text == "jax":
        import jax

        jax.distributed.initialize()
        return jax.process_index(), jax.process_count()
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    me, num = map(int, found.groups()) if found else (0, 0)
    if me >= num:
        raise ValueError(f"process: expected i/n with 0 <= i < n, or jax, got {text!r}")
    return me, num
