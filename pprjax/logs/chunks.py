"""Chunks: what is to be done for a log, cut in parts that are each written whole or not at all, and never twice."""

from __future__ import annotations

import dataclasses
import shutil
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from pprjax.config import Config
from pprjax.errors import UserError
from pprjax.io import replacing
from pprjax.logs.columns import Columns
from pprjax.logs.fit import asks_ends, fit_log
from pprjax.logs.fitted import Fitted
from pprjax.logs.frames import LOG_CONFIG, Advance, Search, answered, check
from pprjax.logs.log import Log
from pprjax.logs.outputs import beside, proved_infeasible
from pprjax.logs.read import read_log
from pprjax.logs.sources import files

CHUNK = 20_000
"""Paths of a chunk, roughly."""


STATES = 2**23
"""States of the paths of a chunk at most, each counted as long as the longest."""


def scatter(log: Log, folder: Path, *, size: int = CHUNK) -> None:
    """Split a log into chunks of about `size` paths, in the folders folder/0, folder/1, …, some of which may lack.

    Paths of one agent come together, and of a large agent those with the same states, since they are solved together.
    """
    wanted = -(-log.num_paths // size)
    by_agent = min(wanted, log.num_agents)
    by_states = -(-wanted // by_agent)
    for part, paths in enumerate(log.frames()):
        texts = paths.select(pl.col("agent"), pl.col("states").list.join("\0"))
        own, same = (np.array([zlib.crc32(x.encode()) for x in texts[c].to_list()]) for c in texts.columns)
        paths = paths.with_columns(chunk=pl.Series((own % by_agent) * by_states + same % by_states))
        for (number,), rows in paths.group_by("chunk"):
            (folder / str(number)).mkdir(parents=True, exist_ok=True)
            rows.write_parquet(folder / str(number) / f"{part:05d}.parquet")


@dataclasses.dataclass(frozen=True)
class Fitting:
    """What `pprjax.fit_log` is asked for."""

    goal: tuple[str, ...] = ()
    """what a recourse must do: "state=X", to reach X, where it then ends; "ends=X", to end in X, which it may pass
    before; "reward>=x"; or "good". "visits=X" and "avoids=X", after a comma or alone, say what it must pass or not;
    given several times, all must hold. Without a goal, every path gets a recourse."""
    max_steps: int | None = None
    """the largest number of actions of a recourse; by default, 4 more than the longest path has."""
    deterministic: bool = False
    """the same action in the same state always leads to the same state: what certificates need."""
    smoothing: float | None = None
    """steps of an agent's own that weigh as much as what everyone does; by default, chosen on held-out paths."""
    rule: tuple[str, ...] = ()
    """what every recourse must keep, a template of Declare: "succession(register, pay)"; several times for several."""
    rules: Literal["given", "mined"] = "given"
    """mined: also what all good paths of the log keep."""
    max_regret: float | None = None
    """the most that any step of a recourse may cost, in nats: none is less likely than e^-max_regret times what the
    agent does most there. It goes with own_steps "charged". By default, any."""

    def __post_init__(self):
        if isinstance(self.goal, str):
            raise UserError(f"goal: expected a tuple of goals, got {self.goal!r}")

    @property
    def whole_goal(self) -> str | None:
        """All that a recourse must do, as `fit_log` takes it."""
        return ", ".join(self.goal) or None

    def fit(self, log: Log) -> Fitted:
        """What the log tells."""
        return fit_log(
            log,
            self.whole_goal,
            smoothing=self.smoothing,
            max_steps=self.max_steps,
            deterministic=self.deterministic,
            rules=self.rule,
            mine_rules=self.rules == "mined",
            max_regret=self.max_regret,
        )


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be done, and where."""

    source: Path  # the log, a file or a folder
    out: Path  # the parquet file to be written
    columns: Columns = Columns()
    strict: bool = False  # fail at the first bad row
    fitting: Fitting = Fitting()
    config: Config = LOG_CONFIG
    search: Search = Search()
    chunk: int = CHUNK  # paths of a chunk, roughly

    def beside(self, ending: str) -> Path:
        """OUT.ending."""
        return beside(self.out, ending)

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

    def rungs(self, number: int) -> Path:
        """The ladders of a chunk."""
        return self.work / "rungs" / f"{number:06d}.parquet"

    def stamp(self) -> dict[str, Any]:
        """By which a later run knows the same job on the same log."""
        log = [[str(f), f.stat().st_size, f.stat().st_mtime_ns] for f in files(self.source)]
        parts = (self.columns, self.strict, self.fitting, self.config, self.search, self.chunk)
        return {"log": log, "options": [repr(part) for part in parts]}


def begin(job: Job) -> tuple[Log, Fitted]:
    """Read the log, learn from it, and split it into chunks."""
    for name in ("log", "chunks", "done", "rungs"):  # and not OUT.work itself, which other processes watch
        shutil.rmtree(job.work / name, ignore_errors=True)
    for name in ("done", "rungs"):
        (job.work / name).mkdir(parents=True)
    closed = asks_ends(job.fitting.whole_goal)
    log = read_log(job.source, job.columns, strict=job.strict, closed=closed, folder=job.work / "log")
    log.save()
    fitted = job.fitting.fit(log)
    check(fitted, job.config, job.search)
    widest = max(log.longest, fitted.max_steps + 1)
    scatter(log, job.work / "chunks", size=max(1, min(job.chunk, STATES // widest)))
    return log, fitted


def opened(job: Job) -> tuple[Log, Fitted]:
    """The same, of a job that was begun."""
    log = Log.open(job.work / "log")
    return log, job.fitting.fit(log)


def solve_chunk(job: Job, fitted: Fitted, number: int, advance: Advance = lambda amount, gaps: None) -> None:
    """Write the recourses of a chunk, unless they are there."""
    target = job.done(number)
    if target.exists():
        return
    paths = pl.read_parquet(sorted((job.work / "chunks" / str(number)).glob("*.parquet")))
    answers = answered(fitted, paths, job.config, job.search, advance=advance)
    if job.search.ladder:
        with replacing(job.rungs(number)) as aside:
            answers.to_ladder(fitted).write_parquet(aside)
    with replacing(target) as aside:  # last: a chunk is done once this is there
        answers.to_frame(fitted, job.search.seed).write_parquet(aside)


def join(job: Job, log: Log, fitted: Fitted, numbers: list[int]) -> dict[str, Any]:
    """Put the chunks together, and what was learned beside them."""
    table = pl.scan_parquet([job.done(number) for number in numbers])
    with replacing(job.out) as aside:
        table.sink_parquet(aside)
    if job.search.ladder:
        with replacing(job.beside("ladder")) as aside:
            pl.scan_parquet([job.rungs(number) for number in numbers]).sink_parquet(aside)
    else:
        job.beside("ladder").unlink(missing_ok=True)  # of an earlier run
    ladders, wider = _wider(job, numbers) if job.search.ladder and fitted.goal is not None else (0, 0)
    fitted.save(job.beside("fit"))
    if log.rejected.height:
        with replacing(job.beside("rejected")) as aside:
            log.rejected.write_csv(aside)
    else:
        job.beside("rejected").unlink(missing_ok=True)  # of an earlier run
    shutil.rmtree(job.work)
    return {
        **_counts(job.out),
        "num_ladders": ladders,
        "num_wider": wider,
        "example": _example(job.out),
        "notes": [*log.notes(), *fitted.notes()],
        "goal": fitted.words,
        "num_paths": log.num_paths,
        "num_rejected": log.rejected.height,
        "max_steps": fitted.max_steps,
        "deterministic": fitted.deterministic,
        "chance": fitted.successors is not None,
        "evidence": fitted.evidence,
        "rules": fitted.named_rules(),
        "rules_left_out": fitted.rules_left_out,
    }


def _counts(out: Path) -> dict[str, Any]:
    """Of how many paths there is what."""
    table = pl.scan_parquet(out)
    none = pl.col("status") == "infeasible"
    status = table.group_by("status").len().sort("status").collect()
    method = table.filter(~none).group_by("method").len().sort("method").collect().drop_nulls()
    proved = table.filter(proved_infeasible()).select(pl.len()).collect().item()
    return {"status": dict(status.iter_rows()), "method": dict(method.iter_rows()), "proved_infeasible": proved}


def _wider(job: Job, numbers: list[int]) -> tuple[int, int]:
    """How many paths have a ladder, and how many of them another first rung than the chosen one.

    Chunk by chunk, since all rungs of a path are in one: so it takes the memory of one.
    """
    chosen, fewest = pl.col("distance").filter("chosen").first(), pl.col("distance").min()
    ladders = wider = 0
    for number in numbers:
        paths = pl.scan_parquet(job.rungs(number)).group_by("agent", "path").agg(more=fewest < chosen)
        both = paths.select(pl.len(), pl.col("more").sum()).collect().row(0)
        ladders, wider = ladders + both[0], wider + both[1]
    return ladders, wider


def _example(out: Path) -> tuple[Any, str, bool]:
    """Of a path to look at, the agent and the name, and whether several agents have one of that name.

    It is one with a recourse, if there is any.
    """
    table = pl.scan_parquet(out).select("agent", "path", "distance")
    found = table.filter(pl.col("distance") > 0).head(1).collect()
    agent, path, _ = (found if found.height else table.head(1).collect()).row(0)
    return agent, path, table.filter(pl.col("path") == path).select(pl.len()).collect().item() > 1
