"""The figures of the Mario experiment: where players jump, the paths over the level, and a film of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int, UInt8
from matplotlib import pyplot as plt

from pprjax import plotting
from pprjax.io import replacing
from pprjax_envs.mario.emulator import NESEmulator
from pprjax_envs.mario.table import TILE, MarioTable, Play

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = {
    "original": dict(color="#111111", linestyle=(0, (1, 1.2)), marker="X"),
    "seeker": dict(color="#0072b2", linestyle="-", marker="o"),
    "dodger": dict(color="#d55e00", linestyle=(0, (5, 1.5)), marker="D"),
}
HEIGHT = 240  # pixels of a screen
MIDDLE = (8, 24)  # pixels from Mario's position, the left end of his sprite and 24 above his middle


def jump_share(
    world: MarioTable, probs: Float[np.ndarray, "S A"], jump: int = 1, *, width: int = TILE
) -> Float[np.ndarray, " bins"]:
    """How likely a player is to take action `jump`, by position: the mean over its visits to each `width` pixels,
    as `MarioTable.visits` counts them.

    NaN where the player never is.
    """
    visits = world.visits(probs)
    return binned(world.nodes.x, visits, visits * probs[:, jump], width)


def path_share(
    x: Int[np.ndarray, " T"], actions: Sequence[int], jump: int = 1, *, width: int = TILE
) -> Float[np.ndarray, " bins"]:
    """The share of action `jump` among a path's actions, by the position where they are taken."""
    jumps = np.asarray(actions) == jump
    return binned(np.asarray(x), np.ones(len(jumps)), jumps.astype(float), width)


def binned(x, weight, value, width: int) -> Float[np.ndarray, " bins"]:
    """Σ value / Σ weight in each bin of `width` pixels from 0 on; NaN where the weight is 0."""
    below, above = np.bincount(x // width, weight), np.bincount(x // width, value)
    return np.divide(above, below, out=np.full(len(below), np.nan), where=below > 1e-6)


def strips(
    world: MarioTable, probs: Mapping[str, Float[np.ndarray, "S A"]], plays: Mapping[str, Mapping[str, Play]]
) -> dict[str, Float[np.ndarray, " bins"]]:
    """The rows of `jumps`: of each player the probability of a jump, of its recourses the share of jumps made.

    Args:
        probs: each player's policy over the explored part.
        plays: by original, what comes of each player's recourse.
    """
    rows = {}
    for player, policy in probs.items():
        rows[f"coin {player}: probability"] = jump_share(world, policy)
        for original, found in plays.items():
            play = found[player]
            rows[f"{original}, for the {player}: jumps made"] = path_share(play.x[:-1], play.actions)
    return rows


def jumps(rows: Mapping[str, Float[np.ndarray, " bins"]], *, width: int = TILE, coins: Sequence[int] = ()) -> Figure:
    """Strips, one a row: the share of jumps among actions, by position. Grey where a row never is.

    A player's share is a probability, see `jump_share`; a path's is counted, see `path_share`.

    Args:
        coins: pixels at which a path took a coin, marked on top.
    """
    last = max(len(row) for row in rows.values())
    first = min(int(np.flatnonzero(np.isfinite(row))[0]) for row in rows.values())
    strips = np.full((len(rows), last), np.nan)
    for strip, row in zip(strips, rows.values(), strict=True):
        strip[: len(row)] = row
    figure, ax = plt.subplots(figsize=(10, 0.5 * len(rows) + 1.6), layout="constrained")
    plt.close(figure)
    ax.set_facecolor("#eeeeee")
    edges = np.arange(last + 1) * width
    image = ax.pcolormesh(edges, np.arange(len(rows) + 1), np.ma.masked_invalid(strips), cmap="magma_r", vmin=0, vmax=1)
    for row in range(1, len(rows)):
        ax.axhline(row, color="white", linewidth=3)
    ax.set_title("Where each jumps" + ("; a dot: a coin taken" if len(coins) else ""), fontsize=11, pad=20)
    for x in coins:
        ax.plot(x + 8, -0.18, marker="o", color="#e6a700", markeredgecolor="#5a4600", clip_on=False, markersize=6)
    ax.set(xlabel="Mario's position in pixels (grey: never there)", xlim=(first * width, last * width))
    ax.set_yticks(np.arange(len(rows)) + 0.5, list(rows))
    ax.set_ylim(len(rows), 0)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.colorbar(image, ax=ax, label="share of jumps", pad=0.01)
    return figure


def level(
    paths: Mapping[str, tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"]]],
    background: UInt8[np.ndarray, "240 W 3"] | None = None,
    *,
    coins: Sequence[tuple[int, int]] = (),
    goal_x: int | None = None,
    died: Sequence[str] = (),
    title: str = "Each path over the level",
) -> Figure:
    """Paths over the level, each with a mark where it ends.

    Args:
        paths: x and y of each, in pixels; names of `STYLES` are drawn in their style.
        background: a picture of the level from its left end on; None: none.
        coins: positions at which a coin was taken, marked.
        goal_x: where a line says that the goal is.
        died: names of the paths that end in death.
        title: what stands above it.
    """
    longest = max(int(x.max()) for x, _ in paths.values()) + 64
    width = longest if background is None else min(longest, background.shape[1])
    figure, ax = plt.subplots(figsize=(max(6.0, width / 55), 5.0), layout="constrained")
    plt.close(figure)
    if background is not None:
        ax.imshow(background[:, :width], extent=(0, width, HEIGHT, 0), alpha=0.75, interpolation="nearest")
    others = iter(["#009e73", "#cc79a7", "#e69f00"])
    for name, (x, y) in paths.items():
        style: dict[str, Any] = STYLES.get(name) or dict(color=next(others), linestyle="-", marker="s")
        across, down = x + MIDDLE[0], 255 - unwrapped(y) + MIDDLE[1]
        ax.plot(across, down, color="white", linewidth=4.5, alpha=0.8)
        label = f"{name}, dies" if name in died else name
        ax.plot(across, down, linewidth=2.4, label=label, markevery=[len(x) - 1], markersize=9,
                markeredgecolor="white", **style)  # fmt: skip
    for x, y in coins:
        ax.plot(x + MIDDLE[0], 255 - y + MIDDLE[1] - 16, marker="o", color="#ffd84d", markeredgecolor="#5a4600",
                markersize=8, zorder=5)  # fmt: skip
    if goal_x is not None:
        ax.axvline(goal_x, color="#009e73", linewidth=1.5, linestyle=":")
        ax.text(goal_x - 3, 14, f"goal: alive beyond {goal_x}", color="#006b4f", fontsize=9, va="top", ha="right")
    ax.set(xlim=(0, width), ylim=(HEIGHT, 0), aspect="equal", yticks=[], xlabel="pixels from the start of the level")
    ax.spines[:].set_visible(False)
    ax.set_title(title + ("; a yellow dot: a coin taken" if len(coins) else ""), fontsize=11, pad=8)
    figure.legend(loc="outside lower center", ncols=len(paths), frameon=False, fontsize=10)
    return figure


def unwrapped(y: Int[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """Heights that go on below the screen, where the game counts on from 255 downwards."""
    return y - 256 * np.cumsum(np.diff(y, prepend=y[:1]) > 128)


def panorama(emulator: NESEmulator, plays: Sequence[Sequence[int]]) -> UInt8[np.ndarray, "240 W 3"]:
    """The level as far as these plays show it, put together of their screens; a column is as it was first seen."""
    strips: dict[int, np.ndarray] = {}
    for actions in plays:
        for screen, left in emulator.replay(actions):
            for x in range(screen.shape[1]):
                strips.setdefault(left + x, screen[:, x])
    blank = np.zeros((HEIGHT, 3), np.uint8)
    return np.stack([strips.get(x, blank) for x in range(max(strips) + 1)], axis=1)


def film(emulator: NESEmulator, plays: Sequence[Sequence[int]], path: str | os.PathLike, *, every: int = 2) -> None:
    """A GIF of plays side by side, whole or not at all; one that is over stands still.

    Args:
        every: frames of the game for each picture of the film.
    """
    from PIL import Image

    reels = [[screen for screen, _ in emulator.replay(actions)][::every] for actions in plays]
    length = max(map(len, reels))

    def picture(i: int) -> Any:
        return Image.fromarray(np.concatenate([reel[min(i, len(reel) - 1)] for reel in reels], 1)).quantize(64)

    with replacing(path) as aside:
        rest = (picture(i) for i in range(1, length))
        duration = round(every * 1000 / 60)
        picture(0).save(aside, format="GIF", save_all=True, append_images=rest, duration=duration, loop=0)


def ladder(rungs: pl.DataFrame) -> Figure:
    """What every further edit of one original buys, a line for each player: rows of `experiment.recourses`."""
    return plotting.ladders(rungs, by="player")[0].figure
