"""Rows of a table of recourses, as `pprjax recourse` writes them, and the files beside it."""

import polars as pl

from pprjax.logs.edits import alignments
from pprjax.paths import Paths

SCHEMA = {
    **dict.fromkeys(("agent", "path", "status", "reason"), pl.String),
    **dict.fromkeys(("reward", "reward_before", "reward_after", "gap", "probability", "reliability"), pl.Float64),
    "distance": pl.Int32,
    **dict.fromkeys(("original", "recourse", "actions"), pl.List(pl.String)),
    "edits": pl.String,
}


def edits(original, recourse):
    names = sorted({*original, *recourse})
    pair = [Paths.from_lists([[names.index(state) for state in path]]) for path in (original, recourse)]
    return alignments(*pair)[0]


def mended(path, original, recourse, agent="ann", **given):
    """A row with a recourse; paths are lists of names, or letters."""
    signs = edits(original, recourse)
    row = {"agent": agent, "path": path, "status": "reached_goal", "reason": None, "reward": 1.0, "edits": signs}
    row |= {"reward_before": 0.0, "reward_after": 0.0, "gap": 0.0, "probability": 1.0, "reliability": None}
    row |= {"distance": sum(sign != "=" for sign in signs), "original": list(original), "recourse": list(recourse)}
    return row | {"actions": list(recourse)[1:]} | given


def without(path, original, status="met", agent="ann", reason=None):
    """A row that has none."""
    none = dict.fromkeys(("reward", "reward_after", "gap", "probability", "reliability", "distance", "edits"))
    row = {"agent": agent, "path": path, "status": status, "reason": reason, "original": list(original)}
    return none | row | {"reward_before": 0.0, "recourse": [], "actions": []}


def frame(rows):
    return pl.DataFrame(rows, schema=SCHEMA)


def written(folder, rows, ladder=None):
    """OUT, with OUT.fit and perhaps OUT.ladder."""
    table = folder / "out.parquet"
    frame(rows).write_parquet(table)
    steps = {}
    for row in rows:
        for a, b in zip(row["original"], row["original"][1:], strict=False):
            steps[row["agent"], a, b] = steps.get((row["agent"], a, b), 0) + 1
    fit = folder / "out.parquet.fit"
    fit.mkdir()
    habits = [{"agent": agent, "state": a, "action": b, "count": n} for (agent, a, b), n in steps.items()]
    pl.DataFrame(habits).write_parquet(fit / "policies.parquet")
    world = [{"state": a, "action": b, "next": b, "prob": 1.0} for a, b in sorted({key[1:] for key in steps})]
    pl.DataFrame(world).write_parquet(fit / "transitions.parquet")
    if ladder:
        rungs = [row | {"chosen": i == 1, "proved": True, "s_policy": -0.5} for i, row in enumerate(ladder)]
        pl.DataFrame(rungs, schema_overrides={"distance": pl.Int32}).write_parquet(folder / "out.parquet.ladder")
    return table
