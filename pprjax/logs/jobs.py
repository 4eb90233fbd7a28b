"""A job: recourse for a log in files, into a file, done by one process or by many."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from pprjax.errors import UserError
from pprjax.io import write_json
from pprjax.logs import ray_engine
from pprjax.logs.chunks import Job, begin, join, opened, solve_chunk
from pprjax.logs.fitted import Fitted
from pprjax.logs.frames import Advance, gap_progress
from pprjax.logs.log import Log

POLL = 0.2
"""Seconds between looks at what another process has done."""

Engine = Literal["local", "ray"]


def run(
    job: Job,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    process: tuple[int, int] = (0, 1),
    progress: bool | None = None,
) -> dict[str, Any] | None:
    """Recourse for a log in files, into a file; can be killed and run again at any time.

    While it works its chunks lie in OUT.work; the same call goes on where it was. A path that no recourse can be looked
    for is a row with the status "failed" and a reason, and the others go on. At the end there are OUT, OUT.rejected
    (CSV) where rows were bad, and the folder OUT.fit.

    Args:
        engine: "local", this process; "ray", workers on a Ray cluster, see `pprjax.logs.ray_engine`.
        workers: of Ray; default one for each machine.
        process: (i, n): this is process i of n that make the same call, on one machine or on several that see the same
            files, and takes chunks i, i + n, … The first one reads the log and in the end puts the parts together: it
            waits for the others.

    Returns:
        What was done: notes (see `Log.notes` and `Fitted.notes`), goal (in words), num_paths, num_rejected (rows),
        status (how many paths have which), proved_infeasible (of those that are infeasible), method (how many recourses
        were found by which), num_ladders and num_wider (of the paths with a ladder, those for which fewer edits than
        the chosen ones would do; 0 where no ladder or no goal is asked for), example (the agent and the name of one
        path, and whether another agent has one of that name; of a recourse, if there is one), deterministic (it was
        said), chance (a step contradicts it), evidence and rules_left_out (see `Fitted`), and rules (in the words of
        the log). None from all processes but the first.

    Raises:
        ValueError: as `read_log`, `fit_log` and `recourse_log`, before any chunk is worked on; OUT.work belongs to
            another log or other options; there is no Ray; or another process gave up.
    """
    if engine == "ray":
        ray_engine.check()
    me, num_processes = process
    stamp = job.stamp()
    if me > 0:
        _wait_for(job.manifest, job)
    known = json.loads(job.manifest.read_text(encoding="utf-8")) if job.manifest.exists() else None
    if known is not None and known != stamp:
        raise UserError(f"out: {job.work} holds chunks of another log or of other options; remove it to start anew")
    log, fitted = opened(job) if known is not None else _begun(job, stamp)
    numbers = sorted(int(folder.name) for folder in (job.work / "chunks").iterdir())
    rows = numbers[me::num_processes]
    with _told(job, rows, log.num_paths * len(rows) // len(numbers), progress) as advance:
        if engine == "ray":
            ray_engine.solve(job, [n for n in rows if not job.done(n).exists()], workers, advance)
        else:
            for number in rows:
                solve_chunk(job, fitted, number, advance)
    if me > 0:
        job.part(me, num_processes).touch()
        return None
    for other in range(1, num_processes):
        _wait_for(job.part(other, num_processes), job)
    return join(job, log, fitted, numbers)


def _begun(job: Job, stamp: dict[str, Any]) -> tuple[Log, Fitted]:
    """Begin the job, from where a later run goes on; a mistake leaves nothing that could stand in its way."""
    try:
        begun = begin(job)
    except ValueError:
        shutil.rmtree(job.work, ignore_errors=True)
        raise
    write_json(stamp, job.manifest)
    return begun


def _wait_for(file: Path, job: Job) -> None:
    """Wait until another process has written this file into OUT.work."""
    begun = False
    while not file.exists():
        if begun and not job.work.exists():
            raise UserError("process: another process gave up, and said why")
        begun = begun or job.work.exists()
        time.sleep(POLL)


@contextlib.contextmanager
def _told(job: Job, numbers: list[int], num_paths: int, enabled: bool | None) -> Iterator[Advance]:
    """A progress bar that knows of the chunks that are done already."""
    valid = [job.done(number) for number in numbers if job.done(number).exists()]
    gaps = [pl.read_parquet(file, columns=["gap"])["gap"].to_numpy() for file in valid]
    with gap_progress(num_paths, np.concatenate([np.zeros(0), *gaps]), enabled) as advance:
        yield advance
