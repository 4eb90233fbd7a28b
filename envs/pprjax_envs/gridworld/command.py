"""Better taxi routes for two drivers, each with a certified gap to the best route there is."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from pprjax.config import PAPER, Config, check_config
from pprjax.errors import UserError
from pprjax_envs.gridworld.settings import DRIVERS, SETTINGS

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from pprjax_envs.gridworld.world import GridWorld


def main(
    *,
    out: Path = Path("out/gridworld"),
    num: Annotated[int, tyro.conf.arg(name="num")] = 10,
    seed: int = 0,
    goal: Literal["money", "flag", "improved", "none"] = "money",
    map: Path | None = None,
    max_steps: int = 40,
    paper: bool = False,
    config: tyro.conf.OmitArgPrefixes[Config] = SETTINGS,
) -> None:
    """Improve bad taxi routes, for a driver who likes highways and for one who prefers local roads.

    Prints for each route what it missed, the fewest edits that reach the goal, the recourse that is best at λ_path, and
    how far that may be from the best there is. Writes recourse.parquet, ladder.parquet, summary.json, routes.png (the
    fewest edits), best.png (the best at λ_path) and ladder.png.

    Args:
        out: the folder to write to; made if it is missing.
        num: how many bad routes to make.
        seed: for the bad routes and the training.
        goal: what a recourse must do: reach the flag with all the money; reach the flag; reach it and earn more than
            the original did; or nothing.
        map: a text file with a map of your own: S start, F flag, $ money, H highway, L local road, . plain, # obstacle.
        max_steps: the largest number of moves of a route.
        paper: take the paper's λ 0.1/0.1, habit h(p), γ and learning rate, and train as Algorithm 1 does.
        config: every knob of Algorithm 1.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder, write_json, write_table

    if num < 1:
        raise UserError(f"num: expected at least 1, got {num}")
    check_config(config, num)

    from rich.console import Console

    from pprjax import plotting
    from pprjax.timing import compile_seconds
    from pprjax_envs.gridworld import figures
    from pprjax_envs.gridworld.experiment import both_drivers, published
    from pprjax_envs.gridworld.maps import DEFAULT_MAP
    from pprjax_envs.gridworld.originals import bad_paths
    from pprjax_envs.gridworld.world import GridWorld

    env = GridWorld(DEFAULT_MAP if map is None else read_map("map", map), max_steps)
    folder = output_folder(out)
    originals = bad_paths(env, num, seed)
    config = published(config, PAPER) if paper else config
    with compile_seconds() as compiling:
        method = "learn" if paper else "auto"
        table, points, seconds = both_drivers(env, originals, config, goal=goal, seed=seed, method=method)
    write_table(table, folder / "recourse.parquet")
    write_table(points, folder / "ladder.parquet")
    drawn = {"routes.png": figures.routes(env, table, edited="recourse" if paper else "fewest")}
    if not paper:
        drawn["best.png"] = figures.routes(env, table)
    drawn["ladder.png"] = figures.ladder(points, path=0)
    for name, figure in drawn.items():
        plotting.save(figure, folder / name)
    total = time.perf_counter() - started
    times = {"total": total, "compile": compiling.seconds, **seconds}
    write_json(_summary(table, num, goal, seed, config, times), folder / "summary.json")
    console = Console()
    for driver in DRIVERS:
        console.print(_as_rich(env, driver, table.filter(driver=driver), config))
    share, gap = _share_within(table), table["gap"].max()
    console.print(
        f"{share:.0%} of {len(table)} recourses are within 1 % of the best there is; the largest gap is {gap:.2%}.\n"
        f"{total:.1f} s, of which {compiling.seconds:.1f} s compiling. Written to {folder}: recourse.parquet, "
        f"ladder.parquet, summary.json, {', '.join(drawn)}."
    )


def read_map(argument: str, path: Path) -> str:
    """The map in a text file, or a ValueError that names the argument."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{argument}: expected a text file with a map, got {path}: {error}") from error


def _summary(
    table: pl.DataFrame, num: int, goal: str, seed: int, config: Config, seconds: dict[str, float]
) -> dict[str, Any]:
    return {
        "num_originals": num,
        "within_1_percent": {driver: _share_within(table.filter(driver=driver)) for driver in DRIVERS},
        "largest_gap": table["gap"].to_numpy().max(),
        "fewest_edits": {driver: table.filter(driver=driver)["fewest_distance"].mean() for driver in DRIVERS},
        "status": dict(table.group_by("status").len().sort("status").iter_rows()),
        "seconds": seconds,
        "goal": goal,
        "seed": seed,
        "config": dataclasses.asdict(config),
    }


def _share_within(table: pl.DataFrame, gap: float = 0.01) -> float:
    return float((table["gap"].to_numpy() <= gap).mean())


def _as_rich(env: GridWorld, driver: str, table: pl.DataFrame, config: Config) -> Table:
    """A line a route: what was missed and earned; the fewest edits; and the best at λ_path. Earnings are R_goal."""
    from rich import box
    from rich.table import Table

    from pprjax_envs.gridworld.experiment import missed

    weights = f"λ_path = {config.lambda_path:g}, λ_policy = {config.lambda_policy:g}"
    title = f"{driver} driver: the fewest edits, and the best at {weights}"
    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("route", "missed", "earned", "fewest", "earns", "best", "earns", "R_policy", "gap"):
        shown.add_column(name, justify="left" if name == "missed" else "right", no_wrap=True)
    for row in table.iter_rows(named=True):
        few, best = ("-", "-"), ("-", "-", "-", "-")
        if row["fewest_distance"] is not None:
            few = (str(row["fewest_distance"]), f"{row['fewest_goal']:.0f}")
        if row["status"] != "infeasible":
            gap = f"{round(row['gap'], 5) + 0.0:.2%}"
            best = (str(row["distance"]), f"{row['s_goal']:.0f}", f"{row['r_policy']:.1f}", gap)
        own = (str(row["path"]), missed(env, row["original"]), f"{row['original_goal']:.0f}")
        shown.add_row(*own, *few, *best)
    return shown
