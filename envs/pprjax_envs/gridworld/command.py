"""Better taxi routes for two drivers, each with a certified gap to the best route there is."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from pprjax.config import Config

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.table import Table

    from pprjax.paths import Paths
    from pprjax_envs.gridworld.world import GridWorld

PAPER = Config(gamma=0.99, learning_rate=1e-3)
"""The paper's γ, learning rate, λ, c_e and C; b and k are better than its 200 and 1."""

DRIVERS = ("experienced", "newbie")


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
    """Train a recourse for bad taxi routes, for a driver who likes highways and one who prefers local roads.

    Prints a table, and writes recourse.parquet, summary.json and routes.png.

    Args:
        out: the folder to write to; made if it is missing.
        num: bad routes, made by a seeded generator.
        seed: of the bad routes and of the training.
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
    from pprjax_envs.gridworld.world import DEFAULT_MAP, GridWorld, bad_paths

    env = GridWorld(DEFAULT_MAP if map is None else read_map("map", map), max_steps)
    folder = output_folder(out)
    originals = bad_paths(env, num, seed)
    with compile_seconds() as compiling:
        table, seconds = experiment(env, originals, config, goal=goal, seed=seed)
    write_table(table, folder / "recourse.parquet")
    plotting.save(routes(env, table), folder / "routes.png")
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


def experiment(
    env: GridWorld, originals: Paths, config: Config, *, goal: str = "flag", seed: int = 0
) -> tuple[pl.DataFrame, dict[str, float]]:
    """The recourse of either driver for each original, beside its certified optimum.

    Returns:
        One row for each driver and original, with `optimum` (R of the best route there is), `gap`, the share of it that
        the recourse falls short by, and `optimal` (that route); and the seconds that each part took.
    """
    import jax
    import polars as pl

    from pprjax import exact, goals, recourse
    from pprjax.metrics import relative_gap
    from pprjax.task import Task
    from pprjax_envs.gridworld.world import agent

    condition = {"flag": goals.reached, "improved": goals.improved, "none": None}[goal]
    frames, seconds = [], {"training": 0.0, "certificates": 0.0}
    for number, driver in enumerate(DRIVERS):
        task = Task(env, agent(env, driver), goal=condition)
        key = jax.random.fold_in(jax.random.key(seed), number)
        started = time.perf_counter()
        found = recourse(task, originals, config, key=key)
        trained = time.perf_counter()
        best = exact(task, originals, config)
        seconds["training"] += trained - started
        seconds["certificates"] += time.perf_counter() - trained
        frames.append(
            found.to_frame().with_columns(
                driver=pl.lit(driver),
                optimum=pl.Series(best.reward),
                gap=pl.Series(relative_gap(found.reward, best.reward)),
                optimal=pl.Series(best.paths.to_lists(), dtype=pl.List(pl.Int32)),
            )
        )
    return pl.concat(frames), seconds


def routes(env: GridWorld, table: pl.DataFrame) -> Figure:
    """Each original on a map of its own, with the recourse of either driver."""
    from matplotlib import pyplot as plt

    paths = table["path"].unique().sort()
    columns = min(2, len(paths))
    rows = -(-len(paths) // columns)
    height, width = env.shape
    size = (columns * (0.62 * width + 2.2), rows * (0.62 * height + 0.6))
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    plt.close(figure)
    for ax in axes.flat[len(paths) :]:
        ax.remove()
    for ax, path in zip(axes.flat, paths, strict=False):
        mine = {row["driver"]: row for row in table.filter(path=path).iter_rows(named=True)}
        original = next(iter(mine.values()))["original"]
        env.render(original, recourse={d: row["recourse"] for d, row in mine.items()}, title=f"route {path}", ax=ax)
    return figure


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
