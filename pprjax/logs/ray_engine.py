"""The chunks of a job on Ray Data: workers that learn the world and compile once, and then take chunk after chunk.

A worker that dies is started again by Ray, and its chunk with it. What is done is what lies in OUT.work, as without
Ray, so all machines must see that folder.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

import numpy as np
import polars as pl

from pprjax.errors import UserError
from pprjax.logs import chunks
from pprjax.logs.frames import Advance


def check() -> None:
    """Raise a ValueError if there is no Ray."""
    if importlib.util.find_spec("ray") is None:
        raise UserError(
            "engine: there is no Ray here; it comes with the extra `cluster`: "
            'python3 -m pip install "PATH/TO/pprjax[cluster]"'
        )


def solve(job: chunks.Job, numbers: list[int], workers: int | None, advance: Advance) -> None:
    """Write the chunks of these numbers, as `chunks.solve_chunk` does.

    Joins the cluster that RAY_ADDRESS names, or starts one of this machine's cores for as long as it takes.

    Args:
        workers: how many there are; default one for each machine. Each uses all devices it sees, and is given an equal
            share of the cluster's GPUs.
    """
    if not numbers:
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report home
    import ray  # pyright: ignore[reportMissingImports]
    import ray.data  # pyright: ignore[reportMissingImports]

    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        size = workers or sum(node["Alive"] for node in ray.nodes())
        gpus = int(ray.cluster_resources().get("GPU", 0) // size)
        waiting = ray.data.from_items([{"chunk": n} for n in numbers], override_num_blocks=len(numbers))
        done = waiting.map_batches(
            _Worker,
            fn_constructor_args=(job,),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=size),
            num_gpus=gpus or None,
        )
        for row in done.iter_rows():
            gaps = pl.read_parquet(job.done(row["chunk"]), columns=["gap"])["gap"].to_numpy()
            advance(len(gaps), gaps)
    finally:
        if started:
            ray.shutdown()


class _Worker:
    def __init__(self, job: chunks.Job):
        self.job, self.fitted = job, chunks.opened(job)[1]

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for number in np.asarray(batch["chunk"]).tolist():
            chunks.solve_chunk(self.job, self.fitted, number)
        return batch
