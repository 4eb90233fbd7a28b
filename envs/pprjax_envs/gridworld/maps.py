"""Maps of the grid world: their letters, the moves that they allow, and distances on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from pprjax.errors import UserError

LETTERS = {
    "S": "start",
    "F": "flag",
    "$": "money",
    "H": "highway",
    "L": "local road",
    ".": "plain road",
    "#": "obstacle",
}
"""What each letter of a map means."""

DEFAULT_MAP = (
    "HHHHHHHH",
    "H.#.##.H",
    "S...#$.H",
    "L#L##L#H",
    "L.LL#L.F",
    "LLLLLLL.",
)
"""8 columns and 6 rows: a highway around the north, local roads in the south, and money four moves away from both."""

MAX_MONEYS = 4
"""Each doubles the number of states."""

ACTIONS = ("left", "down", "right", "up")
"""The order of the actions, as in gymnax's FrozenLake."""


def parse(map: str | Sequence[str]) -> np.ndarray:
    """The letters of a map, str[rows, columns].

    Raises:
        ValueError: the map can't be driven on; the message says where. See `GridWorld`.
    """
    rows = map.split() if isinstance(map, str) else list(map)
    if not rows or not rows[0]:
        raise UserError("map: expected at least a start and a flag, got an empty map (row 0, column 0)")
    width = len(rows[0])
    for r, row in enumerate(rows):
        if len(row) != width:
            column = min(len(row), width)
            raise UserError(
                f"map: row {r}, column {column}: expected {width} columns as in row 0, got {len(row)}, counted from 0"
            )
    grid = np.array([list(row) for row in rows])
    unknown = np.argwhere(~np.isin(grid, list(LETTERS)))
    if unknown.size:
        r, c = unknown[0].tolist()
        raise UserError(f"map: {_at(r, c)}: expected one of {' '.join(LETTERS)}, got {str(grid[r, c])!r}")
    starts, flags, moneys = (np.argwhere(grid == letter).tolist() for letter in "SF$")
    if len(starts) != 1:
        where = f"a second one at {_at(*starts[1])}" if starts else f"none in {_whole(grid)}"
        raise UserError(f"map: expected one start S, got {where}")
    if not flags:
        raise UserError(f"map: expected a flag F, got none in {_whole(grid)}")
    if len(moneys) > MAX_MONEYS:
        raise UserError(
            f"map: expected at most {MAX_MONEYS} moneys $, each doubles the states, got another at "
            f"{_at(*moneys[MAX_MONEYS])}"
        )
    start = int(np.ravel_multi_index(starts[0], grid.shape))
    if not np.isfinite(distances_from(move_table(grid), start)[grid.ravel() == "F"]).any():
        raise UserError(f"map: the flag at {_at(*flags[0])} is out of reach of the start at {_at(*starts[0])}")
    return grid


def _at(row: int, column: int) -> str:
    return f"row {row}, column {column} (counted from 0)"


def _whole(grid: np.ndarray) -> str:
    return f"rows 0 to {grid.shape[0] - 1}, columns 0 to {grid.shape[1] - 1}"


def move_table(grid: np.ndarray) -> Int[np.ndarray, "C 4"]:
    """The cell that each action leads to; -1: off the map, or into an obstacle."""
    padded = np.pad(np.arange(grid.size).reshape(grid.shape), 1, constant_values=-1)
    padded[1:-1, 1:-1][grid == "#"] = -1
    left, down, right, up = padded[1:-1, :-2], padded[2:, 1:-1], padded[1:-1, 2:], padded[:-2, 1:-1]
    return np.stack([left, down, right, up], -1).reshape(grid.size, 4)


def distances_to(moves: Int[np.ndarray, "C 4"], target: int) -> Float[np.ndarray, " C"]:
    """The number of moves from each cell to `target`, inf where there is no way."""
    distances = np.full(len(moves), np.inf)
    distances[target] = 0
    while True:
        through = np.where(moves >= 0, distances[moves], np.inf).min(1) + 1
        closer = np.minimum(distances, through)
        if np.array_equal(closer, distances):
            return distances
        distances = closer


def distances_from(moves: Int[np.ndarray, "C 4"], start: int) -> Float[np.ndarray, " C"]:
    """The number of moves from `start` to each cell, inf where there is no way."""
    distances = np.full(len(moves), np.inf)
    distances[start] = 0
    frontier, steps = np.array([start]), 0
    while frontier.size:
        steps += 1
        ahead = np.unique(moves[frontier])
        frontier = ahead[(ahead >= 0) & np.isinf(distances[ahead])]
        distances[frontier] = steps
    return distances
