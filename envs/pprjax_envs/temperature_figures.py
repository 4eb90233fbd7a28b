"""The figures of the temperature experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import pyplot as plt

from pprjax_envs.temperature import MONTHS, Data

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
    """The first `most` test years of either city over the months, with each method's edit."""
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
            mine = rows.filter(path=path)
            if path >= num or not len(mine):
                ax.set_visible(False)
                continue
            _year(ax, data, mine, methods)
            ax.set_title(f"year {path}", fontsize=9)
        for ax in axes[:, 0]:
            ax.set_ylabel("°F")
    handles, labels = parts[0].axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, title=data.source)
    plt.close(figure)
    return figure


def scores(data: Data, table: pl.DataFrame, methods: Sequence[str]) -> Figure:
    """Violins of the three scores of each method over all test years; a dot a year, a bar at the mean."""
    figure, axes = plt.subplots(1, len(SCORES), figsize=(4.0 * len(SCORES), 3.8), layout="constrained")
    rng = np.random.default_rng(0)
    for ax, (score, title) in zip(axes, SCORES.items(), strict=True):
        for at, method in enumerate(methods):
            values = table.filter(method=method)[score].to_numpy()
            color = STYLES[method]["color"]
            if np.ptp(values) > 0:
                body = ax.violinplot(values, [at], widths=0.8, showextrema=False)["bodies"][0]
                body.set(facecolor=color, alpha=0.25)
            ax.scatter(at + rng.uniform(-0.08, 0.08, len(values)), values, s=9, color=color, zorder=3)
            ax.hlines(values.mean(), at - 0.25, at + 0.25, color=color, linewidth=2, zorder=4)
        ax.set_xticks(range(len(methods)), methods)
        ax.set_title(title, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"Scores of {table['path'].n_unique() * 2} test years ({data.source}); higher is better", fontsize=11
    )
    plt.close(figure)
    return figure


def heat_maps(data: Data, heat: pl.DataFrame) -> Figure:
    """The scores over λ_path and λ_policy."""
    paths, policies = (heat[name].unique().sort().to_numpy() for name in ("lambda_path", "lambda_policy"))
    shown = {**SCORES, "distance": "d: edits"}
    figure, axes = plt.subplots(1, len(shown), figsize=(3.5 * len(shown), 3.4), layout="constrained")
    for ax, (score, title) in zip(axes, shown.items(), strict=True):
        values = heat.sort("lambda_policy", "lambda_path")[score].to_numpy().reshape(len(policies), len(paths))
        image = ax.imshow(values, origin="lower", aspect="auto", cmap="viridis")
        middle = (values.min() + values.max()) / 2
        for (row, column), value in np.ndenumerate(values):
            color = "black" if value > middle else "white"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=9)
        ax.set(xlabel="λ_path", title=title)
        ax.title.set_fontsize(10)
        ax.set_xticks(range(len(paths)), [f"{x:g}" for x in paths])
        ax.set_yticks(range(len(policies)), [f"{x:g}" for x in policies])
        figure.colorbar(image, ax=ax, shrink=0.8)
    axes[0].set_ylabel("λ_policy")
    figure.suptitle(f"A year of {data.cities[0]} edited to pass for {data.cities[1]} ({data.source})", fontsize=11)
    plt.close(figure)
    return figure


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
