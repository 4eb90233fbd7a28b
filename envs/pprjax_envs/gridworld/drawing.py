"""Draws a map and the routes on it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from pprjax.errors import UserError
from pprjax.paths import Paths
from pprjax_envs.gridworld.maps import LETTERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TILES: dict[str, dict[str, Any]] = {
    "H": dict(facecolor="#c4d3e3", edgecolor="#8fa6bf", hatch="////"),
    "L": dict(facecolor="#f6e7c3", edgecolor="#d0b98a", hatch=".."),
    ".": dict(facecolor="#f7f6f3", edgecolor="#dddad2"),
    "#": dict(facecolor="#55565a", edgecolor="#3c3d40", hatch="xx"),
}
SIGNS = {"S": ("S", "#ffffff", "#222222"), "F": ("⚑", "#ffffff", "#222222"), "$": ("$", "#ffd84d", "#5a4600")}
ROUTES: tuple[dict[str, Any], ...] = (
    dict(color="#111111", linestyle=(0, (1, 1.2)), marker="o"),
    dict(color="#0072b2", linestyle="-", marker="s"),
    dict(color="#d55e00", linestyle=(0, (5, 1.5)), marker="D"),
    dict(color="#009e73", linestyle=(0, (5, 1.2, 1, 1.2)), marker="P"),
    dict(color="#cc79a7", linestyle=(0, (3, 1, 1, 1, 1, 1)), marker="X"),
)
HEADINGS = {(1, 0): ">", (-1, 0): "<", (0, 1): "v", (0, -1): "^"}


def cells_of(name: str, path: Paths | np.ndarray | list[int], num_cells: int) -> Int[np.ndarray, " T"]:
    """The cells of a route.

    Args:
        name: of the route, for messages.

    Raises:
        ValueError: the route is empty, is several, or has a symbol that is no cell.
    """
    if isinstance(path, Paths):
        if len(path) != 1:
            raise UserError(f"{name}: expected one path, got {len(path)}")
        path = path.to_lists()[0]
    route = np.asarray(path)
    if route.ndim != 1 or not route.size or route.dtype.kind not in "iu":
        raise UserError(f"{name}: expected symbols int[T], got {route.dtype} of shape {route.shape}")
    bad = np.flatnonzero((route < 0) | (route >= num_cells))
    if bad.size:
        raise UserError(f"{name}[{bad[0]}]: expected a cell in [0, {num_cells - 1}], got {route[bad[0]]}")
    return route


def draw(
    grid: np.ndarray, routes: dict[str, np.ndarray], *, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """The letters of a map, str[rows, columns], and routes of its cells, int[T] each, by name."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    rows, columns = grid.shape
    scale = stroke = 1.0
    if ax is None:
        scale = min(1.0, 16 / max(grid.shape))  # a large map gets smaller tiles, not a larger page
        stroke = scale**0.5
        size = (0.72 * scale * columns + 2.4, max(0.72 * scale * rows + 0.7, 2.4))
        figure, ax = plt.subplots(figsize=size, layout="constrained", dpi=120)
        plt.close(figure)  # a notebook shows what is returned, and nothing twice
    _draw_tiles(ax, grid, scale, stroke)
    lanes = np.linspace(0.2, 0.38, max(len(routes), 2))
    handles: list[Any] = [
        _draw_route(ax, name, np.stack([route % columns, route // columns], -1).astype(float), lane, style, stroke)
        for (name, route), lane, style in zip(routes.items(), lanes, itertools.cycle(ROUTES), strict=False)
    ]
    handles += [Patch(label=LETTERS[letter], linewidth=0.6, **TILES[letter]) for letter in TILES if letter in grid]
    every = 1 + max(grid.shape) // 24
    ax.set(
        xlim=(-0.6, columns - 0.4),
        ylim=(rows - 0.4, -0.6),
        aspect="equal",
        xticks=range(0, columns, every),
        yticks=range(0, rows, every),
    )
    ax.tick_params(length=0, labelsize=8, labelcolor="#777777")
    ax.spines[:].set_visible(False)
    ax.legend(
        handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, handlelength=3.4, fontsize=9
    )
    if title:
        ax.set_title(title, fontsize=11)
    return ax.figure  # pyright: ignore[reportReturnType]


def _draw_tiles(ax: Axes, grid: np.ndarray, scale: float, stroke: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    for (y, x), letter in np.ndenumerate(grid):
        ax.add_patch(
            FancyBboxPatch(
                (x - 0.46, y - 0.46), 0.92, 0.92, boxstyle="round,pad=0,rounding_size=0.1", linewidth=0.6,
                **TILES[letter if letter in TILES else "."],
            )
        )  # fmt: skip
        if letter in SIGNS:
            sign, fill, ink = SIGNS[letter]
            ax.text(
                x, y, sign, color=ink, size=12 * scale, weight="bold", ha="center", va="center", zorder=2,
                bbox=dict(boxstyle="circle,pad=0.28", facecolor=fill, edgecolor=ink, linewidth=stroke),
            )  # fmt: skip


def _draw_route(
    ax: Axes, name: str, centres: Float[np.ndarray, "T 2"], lane: float, style: dict[str, Any], stroke: float
) -> Line2D:
    """One route, and its line for the legend."""
    from matplotlib import patheffects
    from matplotlib.lines import Line2D

    color, dashes, marker = style["color"], style["linestyle"], style["marker"]
    halo = [patheffects.withStroke(linewidth=4.6 * stroke, foreground="white")]
    line, middles, headings = _lane(centres, lane)
    ax.plot(*line.T, color=color, linestyle=dashes, linewidth=2.4 * stroke, zorder=4, path_effects=halo,
            solid_joinstyle="round", dash_joinstyle="round", dash_capstyle="butt")  # fmt: skip
    for heading, arrow in HEADINGS.items():
        rows = middles[(headings == heading).all(-1)]
        ax.scatter(*rows.T, marker=arrow, s=46 * stroke**2, color=color, edgecolor="white", linewidth=0.8, zorder=5)
    ends: dict[str, Any] = dict(linestyle="none", marker=marker, color=color, markeredgecolor="white", zorder=6)
    ax.plot(*line[-1], markersize=8 * stroke, **ends)
    return Line2D([], [], color=color, linestyle=dashes, linewidth=2.4, marker=marker, label=name,
                  markeredgecolor="white", markersize=7)  # fmt: skip


def _lane(
    centres: Float[np.ndarray, "T 2"], lane: float
) -> tuple[Float[np.ndarray, "P 2"], Float[np.ndarray, "M 2"], Float[np.ndarray, "M 2"]]:
    """A route, moved to the right by `lane`: its corners, the middles of its moves, and where they head."""
    headings = np.diff(centres, axis=0)
    moved = np.abs(headings).sum(-1) > 0
    centres = np.concatenate([centres[:1], centres[1:][moved]])
    headings = headings[moved] / np.linalg.norm(headings[moved], axis=-1, keepdims=True)
    if not len(headings):
        return centres, np.zeros((0, 2)), np.zeros((0, 2))
    right = headings[:, ::-1] * [-1, 1]  # y points down
    corners = [centres[0] + lane * right[0]]
    for centre, before, after, heading in zip(centres[1:], right, right[1:], headings, strict=False):
        cosine = before @ after
        if cosine > -0.99:
            corners.append(centre + lane * (before + after) / (1 + cosine))
        else:  # a U-turn
            corners += [centre + lane * (heading + before), centre + lane * (heading + after)]
    corners.append(centres[-1] + lane * right[-1])
    middles = (centres[:-1] + centres[1:]) / 2 + lane * right
    return np.array(corners), middles, headings
