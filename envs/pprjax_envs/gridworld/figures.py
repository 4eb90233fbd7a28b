"""The figures of the grid world's commands."""

from __future__ import annotations

import polars as pl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from pprjax import plotting
from pprjax_envs.gridworld.world import GridWorld

COLORS = {"PPR": "#0072b2", "BL1": "#e69f00", "optimum": "#555555"}
SCORES = {"s_policy": "s_policy: mean log P_A", "s_path": "s_path = 1 / (d + 1)", "s_goal": "s_goal = R_goal"}


def routes(env: GridWorld, table: pl.DataFrame, *, edited: str = "recourse") -> Figure:
    """A map for each original, with a route of both drivers.

    Args:
        edited: the column of the routes, "recourse" or "fewest"; rows without one draw none.
    """
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
        members = {row["driver"]: row for row in table.filter(path=path).iter_rows(named=True)}
        original = next(iter(members.values()))["original"]
        answers = {driver: row[edited] for driver, row in members.items() if row[edited] is not None}
        env.render(original, recourse=answers, title=f"route {path}: {_edits(members, edited)}", ax=ax)
    return figure


def _edits(rows: dict[str, dict], edited: str) -> str:
    """How many edits each driver's route takes, in words."""
    column = "fewest_distance" if edited == "fewest" else "distance"
    counts = {driver: row[column] for driver, row in rows.items() if row[edited] is not None}
    said = " and ".join(f"{count} ({driver})" for driver, count in counts.items())
    said = (str(next(iter(counts.values()))) if len(set(counts.values())) == 1 else said) or "none"
    return f"fewest edits: {said}" if edited == "fewest" else f"edits: {said}"


def ladder(points: pl.DataFrame, *, path: int) -> Figure:
    """What every further edit of one original buys each driver."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    plotting.ladders(points.filter(path=path), by="driver", axes=axes)
    figure.suptitle(f"route {path}: what every further edit buys", fontsize=11)
    plt.close(figure)
    return figure


def link(links: pl.DataFrame) -> Figure:
    """The link function: a line for each size of the action set."""
    figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    shades = plt.get_cmap("viridis")
    sizes = links["num_actions"].unique().sort()
    for i, size in enumerate(sizes):
        rows = links.filter(num_actions=size)
        ax.plot(rows["p"], rows["h"], label=f"A = {size}", color=shades(i / len(sizes)))
    ax.axhline(0, color="#999999", linewidth=0.8)
    ax.set(xlabel="p = P_A(s, a)", ylabel="h(p)", title="The link function is 0 where the agent is indifferent")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


def scores(table: pl.DataFrame, title: str) -> Figure:
    """Violins of the three scores of each method."""
    return plotting.violins(table, SCORES, by="method", colors=COLORS, title=title)


def heat_maps(lambdas: pl.DataFrame) -> Figure:
    """The mean scores and gaps over λ_path and λ_policy."""
    num = lambdas["path"].n_unique()
    names = SCORES | {"gap": "gap to the certified optimum, a share of it"}
    title = f"Means over {num} bad route{'s' * (num > 1)} and 2 drivers; each cell trained by itself"
    return plotting.heat_maps(lambdas, names, title=title)
