"""The figures of the temperature experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot as plt

from pprjax import plotting
from pprjax_envs.temperature.years import MONTHS, Data

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

STYLES = {
    "original": {"color": "#222222", "linewidth": 2.2, "marker": "o", "markersize": 3.5},
    "PPR": {"color": "#0072b2", "linewidth": 2.0, "marker": "s", "markersize": 3.5},
    "BL1": {"color": "#e69f00", "linewidth": 1.3, "linestyle": (0, (4, 2)), "marker": "^", "markersize": 3.5},
    "BL2": {"color": "#cc79a7", "linewidth": 1.3, "linestyle": (0, (1, 1)), "marker": "v", "markersize": 3.5},
}
SCORES = {"s_goal": "s_goal: probability of the wanted city", "s_path": "s_path = 1 / (d + 1)",
          "s_policy": "s_policy: mean log P_A"}  # fmt: skip


def years(data: Data, table: pl.DataFrame, methods: Sequence[str], *, most: int = 10) -> Figure:
    """The first `most` test years of either city, month by month, with the edit of each method."""
    directions = {wanted: table.filter(wanted=wanted) for wanted in (1, 0) if wanted in table["wanted"]}
    num = min(most, max(rows["path"].n_unique() for rows in directions.values()))
    columns = min(num, 5)
    rows_each = -(-num // columns)
    figure = plt.figure(figsize=(3.1 * columns, 2.5 * len(directions) * rows_each + 1.2), layout="constrained")
    parts: Any = figure.subfigures(len(directions), 1, squeeze=False)[:, 0]
    for part, (wanted, rows) in zip(parts, directions.items(), strict=True):
        part.suptitle(f"{data.cities[1 - wanted]} edited to pass for {data.cities[wanted]}", fontsize=13)
        axes: Any = part.subplots(rows_each, columns, sharex=True, sharey=True, squeeze=False)
        for path, ax in enumerate(axes.flat):
            members = rows.filter(path=path)
            if path >= num or not len(members):
                ax.set_visible(False)
                continue
            _year(ax, data, members, methods)
            ax.set_title(f"year {path}", fontsize=9)
        for ax in axes[:, 0]:
            ax.set_ylabel("°F")
    handles, labels = parts[0].axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, title=data.source)
    plt.close(figure)
    return figure


def scores(data: Data, table: pl.DataFrame, methods: Sequence[str]) -> Figure:
    """Violins of the three scores of each method over all test years."""
    colors = {method: STYLES[method]["color"] for method in methods}
    years = table["path"].n_unique() * table["wanted"].n_unique()
    title = f"Scores of {years} test years ({data.source}); higher is better"
    return plotting.violins(table, SCORES, by="method", colors=colors, title=title)


def heat_maps(data: Data, heat: pl.DataFrame) -> Figure:
    """The scores over λ_path and λ_policy."""
    title = f"Year 0 of {data.cities[0]} edited to pass for {data.cities[1]} ({data.source}); "
    title += "each cell searched by itself"
    return plotting.heat_maps(heat, {**SCORES, "distance": "d: edits"}, title=title)


def _year(ax, data: Data, rows: pl.DataFrame, methods: Sequence[str]) -> None:
    months = np.arange(len(MONTHS))
    by_method = {row["method"]: row for row in rows.iter_rows(named=True)}
    for method in reversed(methods):
        row = by_method[method]
        label = method if row["flipped"] else f"{method} (not found)"
        ax.plot(months, data.scale.decode(np.array(row["recourse"])), label=method, **STYLES[method])
        if not row["flipped"]:
            ax.text(
                0.02, 0.96 - 0.09 * list(methods).index(method), label, transform=ax.transAxes, fontsize=7, va="top"
            )
    original = next(iter(by_method.values()))["original"]
    ax.plot(months, data.scale.decode(np.array(original)), label="original", zorder=1.9, **STYLES["original"])
    ax.set_xticks(months[::2], [name[0] for name in MONTHS[::2]])
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
