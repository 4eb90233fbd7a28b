"""Recourse for the paths of a log, chunk by chunk: a chunk is written whole or not at all, and never twice."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import jax
import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from pprjax.certify.limits import TooLargeError
from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.io import replacing, write_json
from pprjax.logs.edits import alignments
from pprjax.logs.fitted import Fitted, Method, Noise, numbers
from pprjax.logs.log import Log, files
from pprjax.paths import PAD, Paths
from pprjax.progress import progress_bar
from pprjax.solve import recourse

CHUNK = 20_000
"""Paths of a chunk, roughly."""

POLL = 0.2
"""Seconds between looks at what another process has done."""

Engine = Literal["local", "ray"]

Advance = Callable[[int, Float[np.ndarray, " G"]], None]
"""Hears how many more paths are done, and which gaps were found, NaN where not known."""

ALIGNED = 4096
"""Pairs that are aligned at once."""


def recourse_frame(
    fitted: Fitted,
    paths: pl.DataFrame,
    config: Config = Config(),
    *,
    method: Method = "auto",
    noise: Noise = "fresh",
    seed: int = 0,
    advance: Advance | None = None,
) -> pl.DataFrame:
    """A recourse for each of the whole paths of a log (`Log.frames`) that misses the goal.

    Args:
        method: "exact", with proof; "learned", Algorithm 1; "auto": exact where the world is deterministic and small
            enough, else learned.
        noise: where chance decides, whether it decides anew, "fresh", or as on the logged path as far as that path
            tells, "observed": what would have happened on this trip. A deterministic world has none.
        seed: of the training. Each path has a key of its own, so its row does not depend on the others.
        advance: called now and again with how many more paths are done, and their gaps, NaN where not known.

    Returns:
        One row a path, sorted by agent and path: agent, path, status ("met": it reaches the goal already; else as in
        `pprjax.recourse`), method, seed, reward (R), reward_before and reward_after (R_goal as logged, and of the
        recourse), s_path, s_policy, distance, gap (0 where certified, null where not), probability (that the world
        leads along the recourse if its actions are taken: below 1 where chance decides), original, recourse, actions,
        and edits, one character for each: = kept, ~ replaced, + inserted, - deleted.

    Raises:
        ValueError: method "exact", and chance decides in this world or it is too large for certificates.
    """
    paths = paths.sort("agent", "path")
    advance = (lambda amount, gaps: None) if advance is None else advance
    if method == "exact" and not fitted.deterministic:
        raise ValueError("method: chance decides in this log's world, so nothing can be certified; expected learned")
    logged, agents, before, met = originals_of(fitted, paths)
    states, lengths = np.asarray(logged.symbols), np.asarray(logged.lengths)
    advance(int(met.sum()), np.zeros(0))
    found = _Found(len(paths), fitted.max_steps)
    found.status[met] = "met"
    groups = np.stack([agents, states[:, 0]], axis=1)
    for agent, start in np.unique(groups[~met], axis=0):
        mine = np.flatnonzero(~met & (groups == [agent, start]).all(1))
        originals = logged[mine]
        task = fitted.task(int(agent), int(start))
        certified = fitted.deterministic and method != "learned"
        if certified:
            try:
                found.certify(task, originals, config, mine)
            except TooLargeError:
                if method == "exact":
                    raise
                certified = False
        if not certified:
            for at, chances in _trips(fitted, originals, noise):
                ids = paths["id"].to_numpy()[mine[at]]
                own = task if chances is None else fitted.task(int(agent), int(start), chances)
                rec = recourse(
                    own, originals[at], config, method="learn", key=jax.random.key(seed), ids=ids, progress=False
                )
                found.take(rec, np.arange(len(at)), mine[at], "learned")
                found.likely[mine[at]] = fitted.probability(rec.paths, chances)
        advance(len(mine), found.numbers["gap"][mine])
    return _as_frame(fitted, paths, found, states, lengths, before, seed)


def originals_of(
    fitted: Fitted, paths: pl.DataFrame
) -> tuple[Paths, Int[np.ndarray, " B"], Float[np.ndarray, " B"], Bool[np.ndarray, " B"]]:
    """Whole paths of a log by numbers, their agents, their R_goal as logged, and which meet the goal already."""
    lengths = paths["states"].list.len().to_numpy().astype(np.int32)
    logged = Paths(_padded(paths["states"], fitted.states), lengths, _padded(paths["actions"], fitted.actions))
    before = paths["rewards"].list.sum().to_numpy()
    met = fitted.met(np.asarray(logged.symbols), before)
    return logged, numbers(paths["agent"], fitted.agents).to_numpy(), before, met


def _trips(fitted: Fitted, originals: Paths, noise: Noise) -> Iterator[tuple[Int[np.ndarray, " M"], Any]]:
    """Which originals share a world, and its chances: all, or each its own where its noise is known."""
    every = np.arange(len(originals))
    if noise == "fresh" or fitted.deterministic:
        yield every, None
        return
    symbols, actions = np.asarray(originals.symbols), np.asarray(originals.actions)
    for i in every:
        yield every[i : i + 1], fitted.counterfactual(symbols[i], actions[i])


def recourse_log(
    fitted: Fitted,
    log: Log,
    config: Config = Config(),
    *,
    method: Method = "auto",
    noise: Noise = "fresh",
    seed: int = 0,
) -> Any:
    """`recourse_frame` of a whole log at once, in memory; a pandas frame where the log came as one."""
    with _progress(log.num_paths, np.zeros(0)) as advance:
        frames = [
            recourse_frame(fitted, paths, config, method=method, noise=noise, seed=seed, advance=advance)
            for paths in log.frames()
        ]
    table = pl.concat(frames).sort("agent", "path")
    if not log.pandas:
        return table
    import pandas as pd  # its user has it

    return pd.DataFrame(table.to_dict(as_series=False))


def scatter(log: Log, folder: Path, *, size: int = CHUNK) -> None:
    """Split a log into chunks of about `size` paths, in the folders folder/0, folder/1, …, some of which may lack.

    Paths of one agent come together, and of a large agent those with the same states, since they are solved together.
    """
    wanted = -(-log.num_paths // size)
    by_agent = min(wanted, log.counts["agent"].n_unique())
    by_states = -(-wanted // by_agent)
    for part, paths in enumerate(log.frames()):
        texts = paths.select(pl.col("agent"), pl.col("states").list.join("\0"))
        own, same = (np.array([zlib.crc32(x.encode()) for x in texts[c].to_list()]) for c in texts.columns)
        paths = paths.with_columns(chunk=pl.Series((own % by_agent) * by_states + same % by_states))
        for (number,), mine in paths.group_by("chunk"):
            (folder / str(number)).mkdir(parents=True, exist_ok=True)
            mine.write_parquet(folder / str(number) / f"{part:05d}.parquet")


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be done, and where."""

    source: Path  # the log, a file or a folder
    out: Path  # the parquet file to be written
    read: dict[str, Any]  # options of `Log.read`
    fit: dict[str, Any]  # options of `Log.fit`
    config: Config = Config()
    method: Method = "auto"
    noise: Noise = "fresh"
    seed: int = 0
    chunk: int = CHUNK  # paths of a chunk, roughly

    def beside(self, ending: str) -> Path:
        """OUT.ending."""
        return self.out.with_name(f"{self.out.name}.{ending}")

    @property
    def work(self) -> Path:
        """Where the chunks lie until all are done."""
        return self.beside("work")

    @property
    def manifest(self) -> Path:
        """There once the chunks are."""
        return self.work / "manifest.json"

    def part(self, process: int, num_processes: int) -> Path:
        """There once this process of so many has done its chunks."""
        return self.work / f"part-{process}-of-{num_processes}"

    def done(self, number: int) -> Path:
        """The recourses of a chunk."""
        return self.work / "done" / f"{number:06d}.parquet"

    def stamp(self) -> dict[str, Any]:
        """By which a later run knows the same job on the same log."""
        log = [[str(f), f.stat().st_size, f.stat().st_mtime_ns] for f in files(self.source)]
        options = [self.read, self.fit, repr(self.config), self.method, self.noise, self.seed, self.chunk]
        return {"log": log, "options": json.loads(json.dumps(options))}


def run(
    job: Job,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    process: tuple[int, int] = (0, 1),
    progress: bool | None = None,
) -> dict[str, Any] | None:
    """Recourse for a log in files, into a file; can be killed and run again at any time.

    While it works its chunks lie in OUT.work; the same call goes on where it was. At the end there are OUT,
    OUT.rejected (CSV) where rows were bad, and the folder OUT.fit.

    Args:
        engine: "local", this process; "ray", workers on a Ray cluster, see `pprjax.logs.ray_engine`.
        workers: of Ray; default one for each machine.
        process: (i, n): this is process i of n that make the same call, on one machine or on several that see the same
            files, and takes chunks i, i + n, … The first one reads the log and in the end puts the parts together: it
            waits for the others.

    Returns:
        What was done: num_paths, num_rejected (rows), status and method (how many paths have which), deterministic
        (the world). None from all processes but the first.

    Raises:
        ValueError: as `Log.read`, `Log.fit` and `recourse_frame`; OUT.work belongs to another log or other options;
            there is no Ray; or another process gave up.
    """
    if engine == "ray":
        from pprjax.logs import ray_engine  # it needs what is in this module

        ray_engine.check()
    me, num_processes = process
    stamp = job.stamp()
    if me > 0:
        _wait_for(job.manifest, job)
    known = json.loads(job.manifest.read_text(encoding="utf-8")) if job.manifest.exists() else None
    if known is not None and known != stamp:
        raise ValueError(f"out: {job.work} holds chunks of another log or of other options; remove it to start anew")
    try:
        if known is None:
            log, fitted = _begin(job)
            write_json(stamp, job.manifest)  # from here on it goes on where it was
        else:
            log, fitted = opened(job)
        numbers = sorted(int(folder.name) for folder in (job.work / "chunks").iterdir())
        mine = numbers[me::num_processes]
        with _told(job, mine, log.num_paths * len(mine) // len(numbers), progress) as advance:
            if engine == "ray":
                ray_engine.solve(job, [n for n in mine if not job.done(n).exists()], workers, advance)
            else:
                for number in mine:
                    solve_chunk(job, fitted, number, advance)
        if me > 0:
            job.part(me, num_processes).touch()
            return None
        for other in range(1, num_processes):
            _wait_for(job.part(other, num_processes), job)
        return _join(job, log, fitted, numbers)
    except ValueError:  # a mistake, which going on would only repeat
        shutil.rmtree(job.work, ignore_errors=True)
        raise


def _wait_for(file: Path, job: Job) -> None:
    """Wait until another process has written this file into OUT.work."""
    begun = False
    while not file.exists():
        if begun and not job.work.exists():
            raise ValueError("process: another process gave up, and said why")
        begun = begun or job.work.exists()
        time.sleep(POLL)


def _begin(job: Job) -> tuple[Log, Fitted]:
    """Read the log, learn from it, and split it into chunks."""
    for name in ("log", "chunks", "done"):  # and not OUT.work itself, which other processes watch
        shutil.rmtree(job.work / name, ignore_errors=True)
    (job.work / "done").mkdir(parents=True)
    log = Log.read(job.source, **job.read, folder=job.work / "log")
    log.save()
    fitted = log.fit(**job.fit)
    scatter(log, job.work / "chunks", size=job.chunk)
    return log, fitted


def opened(job: Job) -> tuple[Log, Fitted]:
    """The same, of a job that was begun."""
    log = Log.open(job.work / "log")
    return log, log.fit(**job.fit)


def solve_chunk(job: Job, fitted: Fitted, number: int, advance: Advance | None = None) -> None:
    """Write the recourses of a chunk, unless they are there."""
    target = job.done(number)
    if target.exists():
        return
    paths = pl.read_parquet(sorted((job.work / "chunks" / str(number)).glob("*.parquet")))
    options = {"method": job.method, "noise": job.noise, "seed": job.seed}
    table = recourse_frame(fitted, paths, job.config, **options, advance=advance)
    with replacing(target) as aside:
        table.write_parquet(aside)


def _join(job: Job, log: Log, fitted: Fitted, numbers: list[int]) -> dict[str, Any]:
    """Put the chunks together, and what was learned beside them."""
    table = pl.scan_parquet([job.done(number) for number in numbers])
    with replacing(job.out) as aside:
        table.sink_parquet(aside)
    fitted.save(job.beside("fit"))
    if log.rejected.height:
        with replacing(job.beside("rejected")) as aside:
            log.rejected.write_csv(aside)
    else:
        job.beside("rejected").unlink(missing_ok=True)  # of an earlier run
    shutil.rmtree(job.work)
    counted, methods = (pl.scan_parquet(job.out).group_by(by).len().sort(by).collect() for by in ("status", "method"))
    return {
        "num_paths": log.num_paths,
        "num_rejected": log.rejected.height,
        "status": dict(counted.iter_rows()),
        "method": dict(methods.drop_nulls().iter_rows()),
        "deterministic": fitted.deterministic,
    }


@contextlib.contextmanager
def _told(job: Job, numbers: list[int], num_paths: int, enabled: bool | None) -> Iterator[Advance]:
    """A progress bar that knows of the chunks that are done already."""
    there = [job.done(number) for number in numbers if job.done(number).exists()]
    gaps = [pl.read_parquet(file, columns=["gap"])["gap"].to_numpy() for file in there]
    with _progress(num_paths, np.concatenate([np.zeros(0), *gaps]), enabled) as advance:
        yield advance


@contextlib.contextmanager
def _progress(num_paths: int, done: Float[np.ndarray, " D"], enabled: bool | None = None) -> Iterator[Advance]:
    """A progress bar with the mean gap so far. `done`: of the paths that are done already, NaN where not known."""
    lock, sums = threading.Lock(), np.zeros(2)
    with progress_bar("recourse", num_paths, done=len(done), enabled=enabled) as bar:

        def advance(amount: int, gaps: Float[np.ndarray, " G"]) -> None:
            known = gaps[np.isfinite(gaps)]
            with lock:
                sums[:] += len(known), known.sum()
            bar(amount, f"gap {sums[1] / sums[0]:.2%}" if sums[0] else "")

        advance(0, done)
        yield advance


class _Found:
    """What was found for N paths, filled group by group."""

    def __init__(self, size: int, max_steps: int):
        self.symbols = np.full((size, max_steps + 1), PAD, np.int32)
        self.actions = np.full((size, max_steps), PAD, np.int32)
        self.lengths = np.zeros(size, np.int32)  # 0: none
        self.distance = np.full(size, -1, np.int32)
        self.numbers = {k: np.full(size, np.nan) for k in ("reward", "goal", "path", "policy", "gap")}
        self.likely = np.ones(size)  # that the world leads along the recourse
        self.status = np.full(size, "", object)
        self.method = np.full(size, None, object)

    def certify(self, task, originals: Paths, config: Config, mine: Int[np.ndarray, " M"]) -> None:
        """Identical originals, which have actions, are solved once."""
        rows = np.concatenate([originals.symbols, cast(np.ndarray, originals.actions)], axis=1)
        _, first, whose = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        best = exact(task, originals[first], config)
        self.take(best, whose.ravel(), mine, "exact")
        self.numbers["gap"][mine] = np.where(best.status[whose.ravel()] == "infeasible", np.nan, 0.0)

    def take(self, result: Any, whose: Int[np.ndarray, " M"], mine: Int[np.ndarray, " M"], method: str) -> None:
        """Row whose[i] of a Recourse answers path mine[i]."""
        width = result.paths.symbols.shape[1]
        self.symbols[mine, :width] = result.paths.symbols[whose]
        self.actions[mine, : width - 1] = result.paths.actions[whose]
        feasible = result.status[whose] != "infeasible"
        self.lengths[mine] = np.where(feasible, result.paths.lengths[whose], 0)
        self.distance[mine] = result.scores.distance[whose]
        for name in ("goal", "path", "policy"):
            self.numbers[name][mine] = getattr(result.scores, name)[whose]
        self.numbers["reward"][mine] = np.where(feasible, result.reward[whose], np.nan)
        self.status[mine] = result.status[whose]
        self.method[mine] = method


def _as_frame(
    fitted: Fitted,
    paths: pl.DataFrame,
    found: _Found,
    states: Int[np.ndarray, "N T"],
    lengths: Int[np.ndarray, " N"],
    before: np.ndarray,
    seed: int,
) -> pl.DataFrame:
    edits = np.full(len(paths), None, object)
    there = np.flatnonzero(found.lengths > 0)
    for low in range(0, len(there), ALIGNED):
        at = there[low : low + ALIGNED]
        edits[at] = alignments(Paths(states[at], lengths[at]), Paths(found.symbols[at], found.lengths[at]))
    likely = np.where(found.lengths > 0, found.likely, np.nan)
    columns = {name: pl.Series(values, nan_to_null=True) for name, values in found.numbers.items()}
    return pl.DataFrame(
        {
            "agent": fitted.agents[numbers(paths["agent"], fitted.agents).to_numpy()].tolist(),
            "path": paths["path"],
            "status": found.status.tolist(),
            "method": pl.Series(found.method.tolist(), dtype=pl.String),
            "seed": pl.Series(np.full(len(paths), seed)),
            "reward": columns["reward"],
            "reward_before": before,
            "reward_after": columns["goal"],
            "s_path": columns["path"],
            "s_policy": columns["policy"],
            "distance": pl.Series([None if d < 0 else d for d in found.distance.tolist()], dtype=pl.Int32),
            "gap": columns["gap"],
            "probability": pl.Series(likely, nan_to_null=True),
            "original": _named(states, lengths, fitted.states),
            "recourse": _named(found.symbols, found.lengths, fitted.states),
            "actions": _named(found.actions, np.maximum(found.lengths - 1, 0), fitted.actions),
            "edits": pl.Series(edits.tolist(), dtype=pl.String),
        }
    )


def _padded(lists: pl.Series, names: np.ndarray) -> Int[np.ndarray, "N T"]:
    """The numbers of the names in each list, PAD behind the end."""
    lengths = lists.list.len().to_numpy()
    padded = np.full((len(lists), max(int(lengths.max()), 1)), PAD, np.int32)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = numbers(lists.explode(), names).to_numpy()
    return padded


def _named(padded: Int[np.ndarray, "N T"], lengths: Int[np.ndarray, " N"], names: np.ndarray) -> pl.Series:
    """The names behind the numbers: a list a row."""
    row = np.repeat(np.arange(len(padded), dtype=np.uint32), lengths)
    values = names[padded[np.arange(padded.shape[1]) < lengths[:, None]]]
    dtype = pl.Int64 if names.dtype == np.int64 else pl.String
    flat = pl.DataFrame({"row": row, "value": pl.Series(values.tolist(), dtype=dtype)})
    lists = flat.group_by("row").agg("value")  # keeps the order within a row
    every = pl.DataFrame({"row": np.arange(len(padded), dtype=np.uint32)}).join(
        lists, on="row", how="left", maintain_order="left"
    )
    return every["value"].fill_null([])
