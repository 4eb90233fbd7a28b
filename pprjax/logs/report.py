"""Report: what became of all paths of a table of recourses, and a sample of them, to be put on one page."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pprjax.errors import UserError
from pprjax.logs.outputs import asked, beside, earns, proved_infeasible

BATCH = 10_000
"""Rows that are in memory at once."""

SAMPLE = 2_000
"""Paths that are shown one by one, at most."""

AGENTS = 100
"""Agents of whom is told what is told of all of them, at most."""

STEPS = 15
"""Steps that are added or dropped most, of all and of each agent."""

EDGES = 1_500
"""The most frequent steps of the log, on which paths are drawn."""

NONE = -1
"""Stands for the number of edits of a path that has no recourse."""

COLUMNS = (
    *("agent", "path", "status", "reason", "reward", "reward_before", "reward_after", "distance", "gap"),
    *("probability", "reliability", "original", "recourse", "actions", "edits"),
)
"""What is read of a table of recourses."""

RUNG = ("agent", "path", "distance", "chosen", "proved", "reward_after", "s_policy", "recourse", "actions", "edits")
"""What is read of a ladder."""

KINDS = ("met", "unchanged", "infeasible", "failed")  # any other status has a recourse that differs


@dataclasses.dataclass(frozen=True)
class Tally:
    """How many paths there are of which kind, of everyone or of one agent."""

    agent: str | None  # None: everyone
    kinds: dict[str, int]  # of each status in KINDS, and "mended"
    proved: int  # mended, and nothing is better
    proved_infeasible: int
    edits: dict[int, int]  # of each number of edits how many paths are mended so

    @property
    def paths(self) -> int:
        return sum(self.kinds.values())


@dataclasses.dataclass(frozen=True)
class Changes:
    """The steps that recourses add most and drop most: from where, to where, how often."""

    added: list[tuple[str, str, int]]
    dropped: list[tuple[str, str, int]]


@dataclasses.dataclass(frozen=True)
class Report:
    """All that a page tells of a table of recourses."""

    tallies: list[Tally]  # everyone first, then agent by agent
    changes: list[Changes]  # of the same
    num_agents: int
    sample: pl.DataFrame  # K rows of the table
    rungs: pl.DataFrame  # of these K paths, none where there is no ladder
    habits: pl.DataFrame  # of their agents: agent, state, action, count
    edges: pl.DataFrame  # state, next, times; the most frequent first
    rewarded: bool  # any path earns anything
    asked: dict[str, Any]  # of a recourse, see `outputs.asked`


def read_report(table: Path, size: int = SAMPLE) -> Report:
    """Everything of a table of recourses, of its ladder and of what was learned, in bounded memory.

    Raises:
        ValueError: a file that is not what `pprjax recourse` wrote.
    """
    rows = scanned(table, COLUMNS)
    agents, num_agents = busiest(rows)
    counts = tallied(rows, agents)
    has = strata(counts)
    steps, sample = _walked(rows, agents, has, quotas(has, size))
    fit = beside(table, "fit")
    whom: list[str | None] = [None, *agents] if num_agents > 1 else [None]
    return Report(
        tallies=[tally(counts, agent) for agent in whom],
        changes=[most(steps, agent) for agent in whom],
        num_agents=num_agents,
        sample=sample,
        rungs=_rungs(beside(table, "ladder"), sample),
        habits=_habits(fit / "policies.parquet", sample),
        edges=_edges(fit),
        rewarded=earns(rows),
        asked=asked(table),
    )


@contextlib.contextmanager
def readable(table: Path) -> Iterator[None]:
    """Where a table of recourses is read: what goes wrong is a ValueError that names the file."""
    if not table.is_file():
        raise UserError(f"table: there is no file {table}; expected one that `pprjax recourse` wrote")
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise UserError(
            f"table: expected what `pprjax recourse` wrote, a parquet file, got {table}: {error}"
        ) from error
    except OSError as error:
        raise UserError(f"table: {table} can't be read: {error}") from error


def scanned(file: Path, columns: Sequence[str]) -> pl.LazyFrame:
    """The columns of a parquet file; agents and paths as text.

    Raises:
        ValueError: there is no such file, or it lacks columns.
    """
    with readable(file):
        names = pl.read_parquet_schema(file)
    missing = [name for name in columns if name not in names]
    if missing:
        raise UserError(
            f"table: expected what `pprjax recourse` wrote; {file} has no column {', '.join(map(repr, missing))}"
        )
    text = [name for name in ("agent", "path") if name in columns]
    return pl.scan_parquet(file).select(columns).with_columns(pl.col(text).cast(pl.String))


def busiest(rows: pl.LazyFrame, size: int = AGENTS) -> tuple[list[str], int]:
    """The agents with most paths that are not met, by name where they have as many; and how many agents there are."""
    missed = (pl.col("status") != "met").sum()
    every = rows.group_by("agent").agg(missed=missed).sort(["missed", "agent"], descending=[True, False])
    found = every.select(pl.col("agent").head(size), every=pl.len()).collect(engine="streaming")
    return sorted(found["agent"].to_list()), found["every"][0] if found.height else 0


def _who(agents: Sequence[str]) -> pl.Expr:
    """The agent, or null where it is told of only among all."""
    return pl.when(pl.col("agent").is_in(list(agents))).then(pl.col("agent")).alias("who")


def _kind() -> pl.Expr:
    return pl.when(pl.col("status").is_in(KINDS)).then(pl.col("status")).otherwise(pl.lit("mended")).alias("kind")


def _proved() -> pl.Expr:
    """That nothing is better, or that there is nothing."""
    return ((pl.col("gap") <= 0) | proved_infeasible()).fill_null(False).alias("proved")


def tallied(rows: pl.LazyFrame, agents: Sequence[str]) -> pl.DataFrame:
    """How many rows there are of each who (null: any other agent), kind, proved and distance: the column `rows`."""
    keys = rows.select(_who(agents), _kind(), _proved(), "distance")
    return (
        keys.group_by("who", "kind", "proved", "distance").agg(rows=pl.len().cast(pl.Int64)).collect(engine="streaming")
    )


def tally(counts: pl.DataFrame, agent: str | None) -> Tally:
    """What `tallied` found, of one agent or of everyone."""
    rows = counts if agent is None else counts.filter(pl.col("who") == agent)
    kinds = dict(rows.group_by("kind").agg(pl.col("rows").sum()).iter_rows())
    mended, proved = rows.filter(kind="mended"), rows.filter("proved")
    edits = mended.group_by("distance").agg(pl.col("rows").sum()).sort("distance")
    return Tally(
        agent=agent,
        kinds={kind: kinds.get(kind, 0) for kind in (*KINDS, "mended")},
        proved=int(proved.filter(kind="mended")["rows"].sum()),
        proved_infeasible=int(proved.filter(kind="infeasible")["rows"].sum()),
        edits=dict(edits.iter_rows()),
    )


def strata(counts: pl.DataFrame) -> dict[int, int]:
    """How many paths that are not met have which number of edits, NONE where they have no recourse."""
    missed = counts.filter(pl.col("kind") != "met").group_by(pl.col("distance").fill_null(NONE))
    return dict(missed.agg(pl.col("rows").sum()).sort("distance").iter_rows())


def quotas(strata: dict[int, int], size: int) -> dict[int, int]:
    """How many of each stratum are taken: as many of each as of any other, as far as there are so many.

    min(size, all of them) together. What does not divide goes to the smallest keys.
    """
    taken, left = {}, min(size, sum(strata.values()))
    smallest_first = sorted(strata, key=lambda key: (strata[key], -key))
    for done, key in enumerate(smallest_first):
        taken[key] = min(strata[key], left // (len(strata) - done))
        left -= taken[key]
    return dict(sorted(taken.items()))


def picked(rows: pl.DataFrame, seen: dict[int, int], strata: dict[int, int], taken: dict[int, int]) -> pl.DataFrame:
    """The rows of a batch that are in the sample: of each stratum at even distances, as the table has them.

    Of c rows the one of rank r is one of the q that are taken where ⌊(r + 1)·q/c⌋ > ⌊r·q/c⌋.

    Args:
        rows: N, with a column `stratum`.
        seen: how many rows of each stratum the batches before had.
        strata, taken: c and q of each stratum.
    """
    ways = {"seen": seen, "c": strata, "q": taken}
    known = pl.DataFrame(
        {"stratum": list(strata)} | {name: [way.get(key, 0) for key in strata] for name, way in ways.items()},
        schema=dict.fromkeys(("stratum", *ways), pl.Int64),
    )
    ranked = rows.join(known, on="stratum", how="left", maintain_order="left").with_columns(
        rank=pl.col("seen") + pl.int_range(pl.len()).over("stratum")
    )
    rank, share = pl.col("rank"), lambda r: r * pl.col("q") // pl.col("c")
    return ranked.filter(share(rank + 1) > share(rank)).select(rows.columns)


def _walked(
    rows: pl.LazyFrame, agents: Sequence[str], strata: dict[int, int], taken: dict[int, int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The changes of all rows, as `changed` has them, and the sample, batch by batch."""
    seen = dict.fromkeys(strata, 0)
    steps, sample = changed(empty := rows.head(0).collect(), agents), [empty]
    for batch in _batches(rows):
        sample.append(picked(batch, seen, strata, taken).drop("stratum"))
        for stratum, count in batch.group_by("stratum").len().iter_rows():
            seen[stratum] += count
        both = pl.concat([steps, changed(batch, agents)])
        steps = both.group_by("who", "state", "next").agg(pl.col("added", "dropped").sum())
    return steps, pl.concat(sample).sort("distance", "agent", "path", nulls_last=True)


def _batches(rows: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows that are not met, in the order of the table, BATCH rows of it at a time.

    Slices, and not `collect_batches`, which reads ahead of who takes them: its memory grows with the table.
    """
    stratum = pl.col("distance").fill_null(NONE).cast(pl.Int64).alias("stratum")
    for start in range(0, rows.select(pl.len()).collect().item(), BATCH):
        batch = rows.slice(start, BATCH).collect()
        yield batch.filter(pl.col("status") != "met").with_columns(stratum)


def changed(rows: pl.DataFrame, agents: Sequence[str]) -> pl.DataFrame:
    """How often recourses take steps more often than their originals (`added`), and less often (`dropped`).

    A path that takes a step twice, whose recourse takes it once, has dropped it once.

    Returns:
        One row a who (null: any other agent), state and next state.
    """
    rows = rows.filter(pl.col("distance") > 0).with_row_index("row").with_columns(_who(agents))
    both = pl.concat([_steps(rows, "recourse", 1), _steps(rows, "original", -1)])
    net = both.group_by("row", "who", "state", "next").agg(pl.col("times").sum()).filter(pl.col("times") != 0)
    more = pl.col("times").clip(lower_bound=0)
    return net.group_by("who", "state", "next").agg(added=more.sum(), dropped=(more - pl.col("times")).sum())


def _steps(rows: pl.DataFrame, column: str, times: int) -> pl.DataFrame:
    """Each step of the lists of a column: row, who, state, next, times."""
    flat = rows.select("row", "who", state=pl.col(column)).explode("state")
    then = flat.with_columns(next=pl.col("state").shift(-1), same=pl.col("row") == pl.col("row").shift(-1))
    return then.filter("same").select("row", "who", "state", "next", times=pl.lit(times, dtype=pl.Int64))


def most(steps: pl.DataFrame, agent: str | None, size: int = STEPS) -> Changes:
    """The steps that one agent, or everyone, adds and drops most, the most frequent first and then by name."""
    rows = steps if agent is None else steps.filter(pl.col("who") == agent)
    both = rows.group_by("state", "next").agg(pl.col("added", "dropped").sum())
    ranked = {}
    for name in ("added", "dropped"):
        order = both.filter(pl.col(name) > 0).sort([name, "state", "next"], descending=[True, False, False])
        ranked[name] = list(order.select("state", "next", name).head(size).iter_rows())
    return Changes(**ranked)


def _rungs(ladder: Path, sample: pl.DataFrame) -> pl.DataFrame:
    """The rungs of the paths of a sample, the fewest edits first; no row where there is no ladder."""
    if not ladder.exists():
        return pl.DataFrame(schema=dict.fromkeys(RUNG, pl.Null))
    rows = scanned(ladder, RUNG).join(sample.lazy().select("agent", "path"), on=["agent", "path"], how="semi")
    return rows.collect(engine="streaming").sort("agent", "path", "distance")


def _habits(policies: Path, sample: pl.DataFrame) -> pl.DataFrame:
    """How often the agents of a sample took which action in which state; no row where nothing was learned."""
    columns = ("agent", "state", "action", "count")
    if not policies.exists():
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Null))
    rows = scanned(policies, columns).join(sample.lazy().select("agent").unique(), on="agent", how="semi")
    return rows.collect(engine="streaming")


def _edges(fit: Path, size: int = EDGES) -> pl.DataFrame:
    """The most frequent steps of the log: state, next, times; no row where nothing was learned."""
    policies, transitions = fit / "policies.parquet", fit / "transitions.parquet"
    if not (policies.exists() and transitions.exists()):
        return pl.DataFrame(schema={"state": pl.String, "next": pl.String, "times": pl.Float64})
    taken = scanned(policies, ("state", "action", "count")).group_by("state", "action").agg(pl.col("count").sum())
    leads = scanned(transitions, ("state", "action", "next", "prob")).join(taken, on=["state", "action"])
    steps = leads.group_by("state", "next").agg(times=(pl.col("count") * pl.col("prob")).sum())
    order = steps.filter(pl.col("times") > 0).sort(["times", "state", "next"], descending=[True, False, False])
    return order.head(size).collect(engine="streaming")
