"""Better paths for the paths in a log of yours, each with a certified gap where that is possible."""

from __future__ import annotations

import dataclasses
import re
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from pprjax.commands.options import GOAL, SEARCH, group
from pprjax.config import Config, check_config
from pprjax.errors import UserError
from pprjax.io import output_folder
from pprjax.logs import jobs
from pprjax.logs.answers import count_met
from pprjax.logs.chunks import CHUNK, Fitting, Job
from pprjax.logs.columns import Columns
from pprjax.logs.fit import asks_ends
from pprjax.logs.fitted import Fitted
from pprjax.logs.frames import LOG_CONFIG, Search, check
from pprjax.logs.log import Log, placed
from pprjax.logs.read import read_log
from pprjax.logs.sources import ending
from pprjax.logs.words import counted
from pprjax.objective import check_own_steps

FIRST = 5
"""Bad rows that a dry run shows."""

LOG = group("log", "The columns of your log.")
MACHINES = group("machine", "Many machines, and large logs.")


@dataclasses.dataclass(frozen=True)
class Machines:
    """Who does the work."""

    engine: jobs.Engine = "local"
    """local; or ray, on a Ray cluster (RAY_ADDRESS, or this machine) whose machines all see LOG and OUT."""
    workers: int | None = None
    """of Ray; by default, one a machine."""
    process: str = "0/1"
    """i/n: this is process i of n, from 0, that run this command and share its chunks; jax: as jax.distributed says."""
    chunk: int = CHUNK
    """paths that are worked on at once, roughly."""

    def check(self) -> None:
        if self.chunk < 1:
            raise UserError(f"chunk: expected at least 1, got {self.chunk}")
        if self.workers is not None and (self.engine != "ray" or self.workers < 1):
            raise UserError(f"workers: expected at least 1, and --engine ray, got {self.workers} and {self.engine}")

    def place(self) -> tuple[int, int]:
        """Which process of how many this is."""
        if self.process == "jax":
            import jax

            jax.distributed.initialize()
            return jax.process_index(), jax.process_count()
        found = re.fullmatch(r"(\d+)/(\d+)", self.process)
        me, num = map(int, found.groups()) if found else (0, 0)
        if me >= num:
            raise UserError(f"process: expected i/n with 0 <= i < n, or jax, got {self.process!r}")
        return me, num


def main(
    log: tyro.conf.Positional[Path],
    *,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    dry_run: bool = False,
    fitting: Annotated[tyro.conf.OmitArgPrefixes[tyro.conf.UseAppendAction[Fitting]], GOAL] = Fitting(),
    columns: Annotated[tyro.conf.OmitArgPrefixes[Columns], LOG] = Columns(),
    strict: bool = False,
    search: Annotated[tyro.conf.OmitArgPrefixes[Search], SEARCH] = Search(),
    machines: Annotated[tyro.conf.OmitArgPrefixes[Machines], MACHINES] = Machines(),
    config: tyro.conf.OmitArgPrefixes[Config] = LOG_CONFIG,
) -> None:
    """Recourse for every path of a log that misses the goal.

    The log has one row a step. From it the command learns the world and how each agent acts, and writes to OUT one row
    a path; to OUT.fit what it learned; and to OUT.rejected which rows were bad and why. It can be killed at any time:
    the same command goes on where it was.

    Args:
        log: a parquet, CSV, JSONL or XES file, or a folder of them.
        out: the parquet file to write; by default LOG.recourse.parquet, in this folder and without LOG's ending.
        dry_run: read the log, say what is what, which rows are bad and how many paths meet the goal, and end.
        strict: fail at the first bad row.
    """
    started = time.perf_counter()
    check_config(config, 1)  # before minutes of reading
    check_own_steps(config.objective, fitting)
    if dry_run:
        found = read_log(log, columns, strict=strict, closed=asks_ends(fitting.whole_goal))
        print(_read(found))
        fitted = fitting.fit(found)  # what is wrong with the goal is said now
        check(fitted, config, search)
        print(
            *(f"{note}\n" for note in fitted.notes()),
            _held(fitted.named_rules(), fitted.rules_left_out),
            sep="",
            end="",
        )
        print(_met(found, fitted))
        return
    if out is None:
        out = Path(f"{log.resolve().name.removesuffix(ending(log))}.recourse.parquet")
    if out.suffix != ".parquet":
        raise UserError(f"out: expected a name that ends in .parquet, got {out}")
    machines.check()
    me, num_processes = machines.place()
    output_folder(out.parent)
    job = Job(log, out, columns, strict, fitting, config, search, machines.chunk)
    done = jobs.run(job, engine=machines.engine, workers=machines.workers, process=(me, num_processes))
    seconds = time.perf_counter() - started
    if done is None:
        print(f"process {me} of {num_processes} is done: {seconds:.1f} s.")
        while machines.process == "jax" and job.work.exists():  # who leaves early brings jax.distributed down
            time.sleep(jobs.POLL)
        return
    print(_said(done, out))
    print(f"{seconds:.1f} s. {_written(job, done)}")


def _read(log: Log) -> str:
    """What a dry run says: how the log is read, what is in it, and its first bad rows."""
    sizes = {"path": log.num_paths, "state": len(log.states) - log.closed, "agent": log.num_agents}
    told = [counted(size, name) for name, size in sizes.items()]
    lines = [*log.notes(), f"{', '.join(told)}; the longest path has {log.longest - log.closed} states."]
    bad = log.rejected
    if bad.height:
        lines.append(f"{counted(bad.height, 'bad row')}, and the paths that they are in are left out:")
        nameless = bad["path"].null_count()
        if nameless:
            rows = counted(nameless, "row")
            lines.append(f"  ({rows} without a path's name: which paths lack a step is not known)")
        lines += [f"  {placed(row['file'], row['line'])}: {row['reason']}" for row in bad.head(FIRST).to_dicts()]
    return "\n".join(lines)


def _met(log: Log, fitted: Fitted) -> str:
    """How many paths of a log meet the goal already."""
    if fitted.words is None:
        return "No goal was given, so that every path gets a recourse."
    met = count_met(fitted, log)
    s, left = "s" if met == 1 else "", log.num_paths - met
    rules = f" and keep{s} the rules" if fitted.rules else ""
    return f"{met:,} meet{s} {fitted.words}{rules}, {left:,} {'does' if left == 1 else 'do'} not."


def _said(done: dict[str, Any], out: Path) -> str:
    """What was found, and what to think of it."""
    ways = {"exact": "certified", "search": "searched", "learn": "learned without a certificate"}
    found = "".join(f"; {count:,} {ways[name]}" for name, count in done["method"].items())
    bad = done["num_rejected"]
    rejected = f"; {counted(bad, 'bad row')}, see {out}.rejected" if bad else ""
    none = {"failed", "infeasible"} & set(done["status"])
    why = " The column `reason` says why some paths have no recourse." if none else ""
    notes = "".join(f"{note}\n" for note in done["notes"])
    notes += _held(done["rules"], done["rules_left_out"])
    goal = f", goal {done['goal']}" if done["goal"] else ""
    told = f"{counted(done['num_paths'], 'path')}{goal}: {_statuses(done)}{found}{rejected}."
    return f"{notes}{told}{why}{_world(done)}{_within(done)}{_wider(done)}"


def _statuses(done: dict[str, Any]) -> str:
    """How many paths have which status; of the infeasible ones, for how many that is proved."""
    counts = dict(done["status"])
    proved, left = done["proved_infeasible"], counts.pop("infeasible", 0) - done["proved_infeasible"]
    counts |= {"proved infeasible": proved} if proved else {}
    counts |= {"infeasible without proof": left} if left else {}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _within(done: dict[str, Any]) -> str:
    """Among which paths the certified ones are the best."""
    if not done["method"].get("exact"):
        return ""
    steps = counted(done["max_steps"], "step")
    return f"\nCertified: no recourse of at most {steps} is better. --max-steps N allows longer ones."


def _wider(done: dict[str, Any]) -> str:
    """For how many paths fewer edits than the chosen ones would do."""
    wider, every = done["num_wider"], done["num_ladders"]
    if not wider:
        return ""
    fewer = f"For {wider:,} of {counted(every, 'recourse')}, fewer edits would reach the goal"
    return f"\n{fewer}, but by steps that the agent takes more seldom: see `pprjax show`."


def _written(job: Job, done: dict[str, Any]) -> str:
    """Which files there are now, and how to look at one path."""
    beside = {"ladder": job.search.ladder, "fit": True, "rejected": done["num_rejected"] > 0}
    files = [job.out, *(job.beside(ending) for ending, valid in beside.items() if valid)]
    agent, path, shared = done["example"]
    words = ["pprjax", "show", str(job.out), "--path", path, *(["--agent", str(agent)] if shared else [])]
    return f"Written to {', '.join(map(str, files))}. Look at one path: {shlex.join(words)}"


def _held(rules: list[str], left_out: int) -> str:
    """Which rules every recourse keeps."""
    more = f"; {left_out:,} more that all good paths keep are left out" if left_out else ""
    return f"Every recourse keeps {', '.join(rules) or 'no rule'}{more}.\n" if rules or left_out else ""


def _world(done: dict[str, Any]) -> str:
    """What the log says of its world, where that is not certain."""
    if done["chance"]:
        return " Chance decides in this world: see the columns `probability` and `reliability`."
    if done["deterministic"]:
        return ""
    seen, again = done["evidence"]
    return (
        "\nNo step contradicts a deterministic world: "
        f"{again:,} of {seen:,} state-action pairs were seen more than once; add --deterministic to certify."
    )
