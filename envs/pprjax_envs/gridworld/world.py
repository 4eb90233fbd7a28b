"""GridWorld: a taxi that should fetch the money and reach the flag.

The world follows the grid of Personalized Path Recourse (arXiv 2312.08724).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.tabular import TabularMDP, TabularParams, TabularState
from pprjax_envs.gridworld import drawing
from pprjax_envs.gridworld.maps import ACTIONS, DEFAULT_MAP, distances_to, move_table, parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


STEP_REWARD, MONEY_REWARD, FLAG_REWARD = -1.0, 30.0, 80.0


class GridWorld(TabularMDP):
    """A map of any size. Entering the money's cell pays +30, once; the flag +80 and ends the trip; any other move -1.

    Moves off the map or into an obstacle are not available. With C cells, row by row from the top left, and M moneys,
    a state is cell + C·(the set of moneys taken, as bits), so S = C·2^M. The symbol is the cell alone.

    Args:
        map: rows of one length, as a sequence of strings or as one string with a row a line. Letters: S start, F flag,
            $ money, H highway, L local road, . plain road, # obstacle. One start, one flag or more, up to four moneys.
        max_steps: the largest number of actions of a path.

    Raises:
        ValueError: the map is empty or ragged, has an unknown letter, no start or two, no flag, too many moneys, or no
            flag in reach, or max_steps does not suffice for the nearest flag. Rows and columns count from 0.
    """

    def __init__(self, map: str | Sequence[str] = DEFAULT_MAP, max_steps: int = 40):
        grid = parse(map)
        self.map = tuple("".join(row) for row in grid)
        moves, cells = move_table(grid), grid.ravel()
        start, moneys = int(np.flatnonzero(cells == "S")[0]), np.flatnonzero(cells == "$")
        taken = np.arange(2 ** len(moneys))
        bit = np.zeros(cells.size, int)
        bit[moneys] = 2 ** np.arange(len(moneys))

        entered_bit = np.where(moves >= 0, bit[moves], 0)
        after = taken[:, None, None] | entered_bit
        gains = (taken[:, None, None] & entered_bit) != entered_bit
        shape = (taken.size * cells.size, len(ACTIONS))
        next_state = np.where(moves >= 0, moves + cells.size * after, -1).reshape(shape)
        reward = np.where(gains, MONEY_REWARD, np.where(cells[moves] == "F", FLAG_REWARD, STEP_REWARD))
        super().__init__(
            next_state=next_state,
            reward=np.where(next_state >= 0, reward.reshape(shape), 0.0),
            terminal=np.tile(cells == "F", taken.size),
            start=start,
            max_steps=max_steps,
            symbols=np.tile(np.arange(cells.size), taken.size),
        )
        nearest = int(min(distances_to(moves, flag)[start] for flag in np.flatnonzero(cells == "F").tolist()))
        if nearest > max_steps:
            raise UserError(f"max_steps: the flag is {nearest} moves from the start, got {max_steps}")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.map), len(self.map[0])

    @property
    def cells(self) -> np.ndarray:
        """The map's letters, str[C], row by row: `cells[symbol]` is what is there."""
        return np.array(list("".join(self.map)))

    @property
    def flag_with_money(self) -> np.ndarray:
        """bool[S], the states at a flag with every money taken."""
        num_cells = self.cells.size
        taken = np.arange(self.num_states) // num_cells
        return (taken == taken[-1]) & np.tile(self.cells == "F", self.num_states // num_cells)

    def reached_goal(self, state: TabularState, params: TabularParams) -> Bool[Array, ""]:
        """Whether the taxi is at the flag."""
        return params.terminal[state.id]

    def render(
        self,
        path=None,
        *,
        recourse=None,
        label: str = "original",
        title: str | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """The map, with routes on it: each keeps to the right of the road, so that there and back are two lines.

        Args:
            path: a route as symbols: int[T], or a Paths of one path.
            recourse: one more, or several with their labels: `{"experienced": …, "newbie": …}`.
            label: the name of `path` in the legend.
            title: written above the map.
            ax: the axes to draw in; default: those of a new figure.

        Returns:
            The figure, which a notebook shows as a picture; `.savefig("route.png")` writes it.

        Raises:
            ValueError: a route is empty or has a symbol that is no cell of this map.
        """
        routes = {} if path is None else {label: path}
        if recourse is not None:
            routes |= recourse if isinstance(recourse, Mapping) else {"recourse": recourse}
        grid = self.cells.reshape(self.shape)
        return drawing.draw(
            grid, {name: drawing.cells_of(name, route, grid.size) for name, route in routes.items()}, title=title, ax=ax
        )

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.render().savefig(buffer, format="png")
        return buffer.getvalue()


def tables(env: TabularMDP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """next_state int[S, A], reward float[S, A] and terminal bool[S], on the host."""
    params = env.default_params
    return np.array(params.next_state), np.array(params.reward, float), np.array(params.terminal)


def action_values(
    next_state: Int[np.ndarray, "S A"],
    reward: Float[np.ndarray, "S A"],
    terminal: Bool[np.ndarray, " S"],
    *,
    num_steps: int,
) -> Float[np.ndarray, "S A"]:
    """Q(s, a) = r(s, a) + max Q(s', ·) over the paths that reach a terminal state in num_steps, or -inf."""

    def backup(values):
        return np.where((next_state >= 0) & ~terminal[:, None], reward + values[next_state], -np.inf)

    values = np.where(terminal, 0.0, -np.inf)
    for _ in range(num_steps - 1):
        improved = np.where(terminal, 0.0, backup(values).max(1))
        if np.array_equal(improved, values):
            break
        values = improved
    return backup(values)
