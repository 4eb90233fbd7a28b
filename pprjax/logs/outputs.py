"""OUT and what lies beside it: the files that a job writes, and what their rows tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pprjax.logs.words import NOT_FOUND

if TYPE_CHECKING:  # the help of commands need not wait for it
    import polars as pl


def beside(out: Path, ending: str) -> Path:
    """OUT.ending."""
    return out.with_name(f"{out.name}.{ending}")


def proved_infeasible() -> pl.Expr:
    """That a path has no recourse, and that this is proved."""
    import polars as pl

    return (pl.col("status") == "infeasible") & (pl.col("reason") != NOT_FOUND)


def earns(rows: pl.LazyFrame) -> bool:
    """Whether any path of OUT earns anything, before or after."""
    import polars as pl

    earned = rows.select((pl.col("reward_before", "reward_after") != 0).any())
    return any(earned.collect(engine="streaming").row(0))
