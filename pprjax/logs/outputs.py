"""OUT and what lies beside it: the files that a job writes, and what their rows tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pprjax.logs.words import NOT_FOUND

if TYPE_CHECKING:  # the help of commands need not wait for it
    import polars as pl


def beside(out: Path, ending: str) -> Path:
    """OUT.ending."""
    return out.with_name(f"{out.name}.{ending}")


def asked(out: Path) -> dict[str, Any]:
    """What OUT.fit says was asked of a recourse: `goal`, `rules` and `max_regret`; {} where it is not there."""
    file = beside(out, "fit") / "fit.json"
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: said.get(name) for name in ("goal", "rules", "max_regret")}


def limits(said: dict[str, Any]) -> str:
    """What a recourse keeps to beside the goal, of what was `asked`, in words; "" for nothing."""
    kept = list(said.get("rules") or [])
    most = said.get("max_regret")
    return " and ".join(kept + ([] if most is None else [f"max_regret {most:g}"]))


def proved_infeasible() -> pl.Expr:
    """That a path has no recourse, and that this is proved."""
    import polars as pl

    return (pl.col("status") == "infeasible") & (pl.col("reason") != NOT_FOUND)


def earns(rows: pl.LazyFrame) -> bool:
    """Whether any path of OUT earns anything, before or after."""
    import polars as pl

    earned = rows.select((pl.col("reward_before", "reward_after") != 0).any())
    return any(earned.collect(engine="streaming").row(0))
