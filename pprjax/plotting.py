"""Figures that several worlds share. Each returns a matplotlib Figure or Axes; none is shown or left open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from pprjax.io import replacing


def curves(curve: Float[np.ndarray, "B iterations"], *, ax: Any = None) -> Any:
    """The training curves: R of the best path so far over the iterations, a line an original.

    Args:
        curve: -inf where there is no path yet.
        ax: the matplotlib Axes to draw on; default a new one.
    """
    if ax is None:
        figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
        plt.close(figure)
    iterations = np.arange(1, curve.shape[1] + 1)
    for row in np.where(np.isfinite(curve), curve, np.nan):
        ax.plot(iterations, row, color="#0072b2", linewidth=1.2, alpha=max(0.15, 1 / len(curve) ** 0.5))
    ax.set(xlabel="iteration", ylabel="R of the best path so far")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#111111")
"""Colours that most of those who see few colours can tell apart (Okabe and Ito 2008)."""


def ladders(table: pl.DataFrame, *, by: str = "path", axes: Any = None) -> Any:
    """What every further edit buys: v, R_goal and R_policy over the edits, one line an original.

    Lines differ in marker and dash as well as in colour, so that they can be told apart in grey.

    Args:
        table: of `Frontier.to_frame`.
        by: the column that tells the lines apart.
        axes: three matplotlib Axes; default new ones.
    """
    if axes is None:
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
        plt.close(figure)
    markers, dashes = "osD^vP*X", ("-", "--", "-.", ":")
    for number, (key, rows) in enumerate(table.group_by(by, maintain_order=True)):
        shade = LINES[number % len(LINES)]
        for ax, column in zip(axes, ("value", "s_goal", "r_policy"), strict=True):
            ax.plot(
                rows["distance"], rows[column], color=shade, linewidth=1.2, markersize=4,
                marker=markers[number % len(markers)], linestyle=dashes[number % len(dashes)], label=f"{key[0]}",
            )  # fmt: skip
    names = ("v = R_goal + λ_policy·R_policy", "R_goal", "R_policy")
    for ax, name in zip(axes, names, strict=True):
        ax.set(xlabel="edits", title=name)
        ax.title.set_fontsize(10)
        ax.spines[["top", "right"]].set_visible(False)
    if 1 < table[by].n_unique() <= 10:
        axes[-1].legend(title="original" if by == "path" else by, fontsize=8, title_fontsize=8)
    return axes


def violins(
    table: pl.DataFrame, scores: Mapping[str, str], *, by: str, colors: Mapping[str, str], title: str = ""
) -> Figure:
    """The distribution of each score in each group: a violin, a dot a row, a bar at the mean.

    Args:
        scores: a column and its title for each panel.
        by: the column of the groups.
        colors: of each group that is drawn, in order.
    """
    figure, axes = plt.subplots(1, len(scores), figsize=(4.0 * len(scores), 3.8), layout="constrained", squeeze=False)
    rng = np.random.default_rng(0)
    for ax, (score, name) in zip(axes[0], scores.items(), strict=True):
        for x, (group, color) in enumerate(colors.items()):
            values = table.filter(pl.col(by) == group)[score].to_numpy()
            if np.ptp(values) > 0:
                body: Any = ax.violinplot(values, [x], widths=0.8, showextrema=False)["bodies"]
                body[0].set(facecolor=color, alpha=0.25)
            ax.scatter(x + rng.uniform(-0.08, 0.08, len(values)), values, s=9, color=color, zorder=3)
            ax.hlines(values.mean(), x - 0.25, x + 0.25, color=color, linewidth=2, zorder=4)
        ax.set_xticks(range(len(colors)), list(colors))
        ax.set_title(name, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=11)
    plt.close(figure)
    return figure


def heat_maps(table: pl.DataFrame, scores: Mapping[str, str], *, title: str = "") -> Figure:
    """Each score over λ_path and λ_policy, a panel a score; the mean where a cell has several rows.

    Args:
        table: with columns lambda_path and lambda_policy, every combination of them present.
        scores: a column and its title for each panel.
    """
    cells = table.group_by("lambda_path", "lambda_policy").agg(pl.col(list(scores)).mean())
    cells = cells.sort("lambda_policy", "lambda_path")
    paths, policies = (cells[name].unique().sort().to_numpy() for name in ("lambda_path", "lambda_policy"))
    size = (max(3.5, 0.75 * len(paths)) * len(scores), max(3.4, 0.6 * len(policies) + 1))
    figure, axes = plt.subplots(1, len(scores), figsize=size, layout="constrained", squeeze=False)
    for ax, (score, name) in zip(axes[0], scores.items(), strict=True):
        values = cells[score].to_numpy().reshape(len(policies), len(paths))
        image = ax.imshow(values, origin="lower", aspect="auto", cmap="viridis")
        middle = (values.min() + values.max()) / 2
        for (row, column), value in np.ndenumerate(values):
            color = "black" if value > middle else "white"
            ax.text(column, row, f"{np.round(value, 3) + 0.0:.4g}", ha="center", va="center", color=color, fontsize=9)
        ax.set(xlabel="λ_path", title=name)
        ax.title.set_fontsize(10)
        ax.set_xticks(range(len(paths)), [f"{x:g}" for x in paths])
        ax.set_yticks(range(len(policies)), [f"{x:g}" for x in policies])
        figure.colorbar(image, ax=ax, shrink=0.8)
    axes[0, 0].set_ylabel("λ_policy")
    figure.suptitle(title, fontsize=11)
    plt.close(figure)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write the figure whole or not at all."""
    with replacing(path) as aside:
        figure.savefig(aside, dpi=110)
