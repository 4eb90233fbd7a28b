"""Better taxi routes for two drivers, each with a certified gap to the best route there is."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from pprjax.config import PAPER, Config
from pprjax_envs.gridworld.settings import DRIVERS

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


def main(
    *,
    out: Path = Path("out/gridworld"),
    num: Annotated[int, tyro.conf.arg(name="num")] = 10,
    seed: int = 0,
    goal: Literal["flag", "improved", "none"] = "flag",
    map: Path | None = None,
    max_steps: int = 40,
    config: tyro.conf.OmitArgPrefixes[Config] = PAPER,
) -> None:
    """Improve bad taxi routes, for a driver who likes highways and for one who prefers local roads.

    Prints a table, and writes recourse.parquet, summary.json and routes.png.

    Args:
        out: the folder to write to; made if it is missing.
        num: how many bad routes to make.
        seed: for the bad routes and the training.
        goal: what a recourse must do: reach the flag; reach it and earn more than the original did; or nothing.
        map: a text file with a map of your own: S start, F flag, $ money, H highway, L local road, . plain, # obstacle.
        max_steps: the largest number of moves of a route.
        config: every knob of Algorithm 1.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder, write_json, write_table

    if num < 1:
        raise ValueError(f"num: expected at least 1, got {num}")

    from rich.console import Console

    from pprjax import plotting
    from pprjax.timing import compile_seconds
    from pprjax_envs.gridworld import figures
    from pprjax_envs.gridworld.experiment import both_drivers
    from pprjax_envs.gridworld.maps import DEFAULT_MAP
    from pprjax_envs.gridworld.originals import bad_paths
    from pprjax_envs.gridworld.world import GridWorld

    env = GridWorld(DEFAULT_MAP if map is None else read_map("map", map), max_steps)
    folder = output_folder(out)
    originals = bad_paths(env, num, seed)
    with compile_seconds() as compiling:
        table, seconds = both_drivers(env, originals, config, goal=goal, seed=seed)
    write_table(table, folder / "recourse.parquet")
    plotting.save(figures.routes(env, table), folder / "routes.png")
    total = time.perf_counter() - started
    summary = {
        "num_originals": num,
        "within_1_percent": {d: _share_within(table.filter(driver=d)) for d in DRIVERS},
        "largest_gap": table["gap"].to_numpy().max(),
        "status": dict(table.group_by("status").len().sort("status").iter_rows()),
        "seconds": {"total": total, "compile": compiling.seconds, **seconds},
        "goal": goal,
        "seed": seed,
        "config": dataclasses.asdict(config),
    }
    write_json(summary, folder / "summary.json")
    console = Console()
    for driver in DRIVERS:
        console.print(_as_rich(driver, table.filter(driver=driver)))
    console.print(
        f"{_share_within(table):.0%} of {len(table)} recourses are within 1 % of the certified optimum; "
        f"the largest gap is {table['gap'].max():.2%}.\n{total:.1f} s, of which {compiling.seconds:.1f} s compiling. "
        f"Written to {folder}: recourse.parquet, summary.json, routes.png."
    )


def read_map(argument: str, path: Path) -> str:
    """The map in a text file, or a ValueError that names the argument."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{argument}: expected a text file with a map, got {path}: {error}") from error


def _share_within(table: pl.DataFrame, gap: float = 0.01) -> float:
    return float((table["gap"].to_numpy() <= gap).mean())


def _as_rich(driver: str, table: pl.DataFrame) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title=f"{driver} driver", box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for name in ("route", "length", "R", "optimum", "gap", "s_goal", "s_path", "s_policy", "d", "status"):
        shown.add_column(name, justify="left" if name == "status" else "right", no_wrap=True)
    for row in table.iter_rows(named=True):
        shown.add_row(
            str(row["path"]), str(row["length"]), f"{row['reward']:.2f}", f"{row['optimum']:.2f}",
            f"{round(row['gap'], 5) + 0.0:.2%}", f"{row['s_goal']:.0f}", f"{row['s_path']:.3f}",
            f"{row['s_policy']:.3f}", str(row["distance"]), row["status"],
        )  # fmt: skip
    return shown
