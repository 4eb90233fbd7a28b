"""GridWorld: a taxi that should fetch the money and reach the flag, and two drivers who like different roads.

The world, its drivers and its bad routes follow the grid of Personalized Path Recourse (arXiv 2312.08724).

    task = gridworld.task("newbie")
    originals = gridworld.bad_paths(task.env, 10)
    task.env.render(originals[0])
"""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pprjax.goals import Goal, reached
from pprjax.paths import Paths
from pprjax.policy import TablePolicy, softmax
from pprjax.task import Task
from pprjax_envs.tabular import TabularMDP, TabularParams, TabularState

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTERS = {
    "S": "start",
    "F": "flag",
    "$": "money",
    "H": "highway",
    "L": "local road",
    ".": "plain road",
    "#": "obstacle",
}
"""What a map is made of."""

DEFAULT_MAP = (
    "HHHHHHHH",
    "H.#.##.H",
    "S...#$.H",
    "L#L##L#H",
    "L.LL#L.F",
    "LLLLLLL.",
)
"""8 columns and 6 rows: a highway around the north, local roads in the south, the money four moves off either."""

ACTIONS = ("left", "down", "right", "up")
"""As in gymnax's FrozenLake."""

STEP_REWARD, MONEY_REWARD, FLAG_REWARD = -1.0, 30.0, 80.0
MAX_MONEYS = 4

LIKES = {
    "experienced": {"H": 0.5, "L": -1.0},
    "newbie": {"H": -1.0, "L": 0.5},
}
"""What a driver earns on top of the trip for each cell of a kind; below 1, so that no round trip pays."""


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
        grid = _parse(map)
        self.map = tuple("".join(row) for row in grid)
        moves, cells = _moves(grid), grid.ravel()
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
        nearest = int(min(_distances(moves, flag)[start] for flag in np.flatnonzero(cells == "F").tolist()))
        if nearest > max_steps:
            raise ValueError(f"max_steps: the flag is {nearest} moves from the start, got {max_steps}")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.map), len(self.map[0])

    @property
    def cells(self) -> np.ndarray:
        """The map's letters, str[C], row by row: `cells[symbol]` is what is there."""
        return np.array(list("".join(self.map)))

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
            ax: the axes to draw in; default those of a new figure.

        Returns:
            The figure, which a notebook shows as a picture; `.savefig("route.png")` writes it.

        Raises:
            ValueError: a route is empty or has a symbol that is no cell of this map.
        """
        routes = {} if path is None else {label: path}
        if recourse is not None:
            routes |= recourse if isinstance(recourse, Mapping) else {"recourse": recourse}
        return _draw(self, {name: _route(name, route, len(self.cells)) for name, route in routes.items()}, title, ax)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.render().savefig(buffer, format="png")
        return buffer.getvalue()


def agent(env: GridWorld, driver: str = "experienced", *, temperature: float = 0.5) -> TablePolicy:
    """P_A of a driver: P_A(s, a) ∝ exp(Q(s, a) / temperature) over the moves there are.

    Q(s, a) = r(s, a) + likes(s') + max Q(s', ·), undiscounted, where r are the trip's rewards and `likes` is what the
    driver earns for the kind of road that is entered: the experienced driver likes highways and avoids local roads,
    the newbie the other way round. Where the flag is out of reach, all moves are equally likely.

    Args:
        driver: "experienced" or "newbie".
        temperature: above 0, in the unit of the rewards; small is greedy.

    Raises:
        ValueError: there is no such driver, or temperature is not above 0.
    """
    if driver not in LIKES:
        raise ValueError(f"driver: expected one of {', '.join(LIKES)}, got {driver!r}")
    if not temperature > 0:
        raise ValueError(f"temperature: expected a number above 0, got {temperature}")
    next_state, reward, terminal = _tables(env)
    likes = np.array([LIKES[driver].get(letter, 0.0) for letter in env.cells])
    q = _action_values(next_state, reward + likes[next_state % likes.size], terminal, num_steps=env.num_states)
    usable = np.isfinite(q)
    for fallback in (next_state >= 0, True):  # where no flag is in reach, and where no move is available
        usable = np.where(usable.any(1, keepdims=True), usable, fallback)
    values = jnp.asarray(np.where(np.isfinite(q), q, 0.0), jnp.result_type(float))
    return TablePolicy(softmax(values, temperature=temperature, available=jnp.asarray(usable)))


def task(
    driver: str = "experienced",
    *,
    map: str | Sequence[str] = DEFAULT_MAP,
    max_steps: int = 40,
    temperature: float = 0.5,
    goal: Goal | None = reached,
) -> Task:
    """The grid world's own task: bring this driver's route to the flag. Arguments as in `GridWorld` and `agent`."""
    env = GridWorld(map, max_steps)
    return Task(env, agent(env, driver, temperature=temperature), goal=goal)


def bad_paths(env: GridWorld, num: int, seed: int = 0) -> Paths:
    """Routes that went badly, with their actions: valid walks from the start, distinct as long as there are more.

    Of ten about six pass by the money, three make a detour over two places, and one never arrives. Each that arrives
    earns less than the best route, and all take between the shortest way's number of moves and 2.5 times that.

    Args:
        num: how many, at least 1.
        seed: of NumPy's generator; the same seed gives the same routes.

    Raises:
        ValueError: num is below 1, or seed below 0.
    """
    if num < 1:
        raise ValueError(f"num: expected at least 1 path, got {num}")
    if seed < 0:
        raise ValueError(f"seed: expected at least 0, got {seed}")
    rng = np.random.default_rng(seed)
    next_state, reward, terminal = _tables(env)
    cells, start, limit = env.cells, int(env.default_params.start), int(env.default_params.max_steps_in_episode)
    anywhere = np.where(next_state >= 0, next_state % cells.size, -1)[: cells.size]
    anywhere[cells == "F"] = -1  # the trip ends there
    past_money = np.where((anywhere >= 0) & (cells[anywhere] == "$"), -1, anywhere)
    reach = _distances_from(anywhere, start)
    flags, places = (np.flatnonzero(here & np.isfinite(reach)) for here in (cells == "F", cells != "F"))
    shortest = int(reach[flags].min())
    longest = min(limit, 5 * shortest // 2)
    best = _action_values(next_state, reward, terminal, num_steps=limit)[start].max()

    roads = {False: anywhere, True: past_money}
    ways = functools.cache(lambda avoids, target: _distances(roads[avoids], target))
    found: dict[tuple[int, ...], list[int]] = {}
    for kind in itertools.islice(itertools.cycle(BAD_KINDS), _DRAWS * num):
        if len(found) == num:
            break
        avoids = kind == "past money"
        between = rng.choice(places, rng.integers(1, 3) if avoids else 2)
        stops = [*between.tolist(), int(rng.choice(places if kind == "lost" else flags))]
        actions = _walk(rng, roads[avoids], functools.partial(ways, avoids), start, stops)
        if kind == "lost":
            actions = actions[: rng.integers(shortest, longest + 1)]
        states, earned = _follow(next_state, reward, start, actions)
        worse = not terminal[states[-1]] or earned < best - 1e-6
        if worse and shortest <= len(actions) <= longest:
            found.setdefault(tuple(actions), [s % cells.size for s in states])
    found = found or {(): [start]}  # a map with one way only, and no room to turn round
    chosen = list(itertools.islice(itertools.cycle(found.items()), num))
    return Paths.from_lists([symbols for _, symbols in chosen], [actions for actions, _ in chosen])


BAD_KINDS = (*["past money", "detour", "past money"] * 3, "lost")
_DRAWS = 60  # for each path wanted, before paths are repeated


def _walk(
    rng: np.random.Generator,
    moves: Int[np.ndarray, "C 4"],
    distances: Callable[[int], Float[np.ndarray, " C"]],
    cell: int,
    stops: Sequence[int],
) -> list[int]:
    """The actions from stop to stop, each time by a random shortest way; a stop that can't be reached is left out."""
    actions = []
    for stop in stops:
        left = distances(stop)
        while cell != stop and np.isfinite(left[cell]):
            closer = np.flatnonzero((moves[cell] >= 0) & (left[moves[cell]] < left[cell]))
            actions.append(int(rng.choice(closer)))
            cell = int(moves[cell, actions[-1]])
    return actions


def _parse(map: str | Sequence[str]) -> np.ndarray:
    """The letters, str[rows, columns], of a map without faults."""
    rows = map.split() if isinstance(map, str) else list(map)
    if not rows or not rows[0]:
        raise ValueError("map: expected at least a start and a flag, got an empty map (row 0, column 0)")
    width = len(rows[0])
    for r, row in enumerate(rows):
        if len(row) != width:
            column = min(len(row), width)
            raise ValueError(
                f"map: row {r}, column {column}: expected {width} columns as in row 0, got {len(row)}, counted from 0"
            )
    grid = np.array([list(row) for row in rows])
    unknown = np.argwhere(~np.isin(grid, list(LETTERS)))
    if unknown.size:
        r, c = unknown[0].tolist()
        raise ValueError(f"map: {_at(r, c)}: expected one of {' '.join(LETTERS)}, got {str(grid[r, c])!r}")
    starts, flags, moneys = (np.argwhere(grid == letter).tolist() for letter in "SF$")
    if len(starts) != 1:
        where = f"a second one at {_at(*starts[1])}" if starts else f"none in {_whole(grid)}"
        raise ValueError(f"map: expected one start S, got {where}")
    if not flags:
        raise ValueError(f"map: expected a flag F, got none in {_whole(grid)}")
    if len(moneys) > MAX_MONEYS:
        raise ValueError(
            f"map: expected at most {MAX_MONEYS} moneys $, each doubles the states, got another at "
            f"{_at(*moneys[MAX_MONEYS])}"
        )
    start = int(np.ravel_multi_index(starts[0], grid.shape))
    if not np.isfinite(_distances_from(_moves(grid), start)[grid.ravel() == "F"]).any():
        raise ValueError(f"map: the flag at {_at(*flags[0])} is out of reach of the start at {_at(*starts[0])}")
    return grid


def _at(row: int, column: int) -> str:
    return f"row {row}, column {column} (counted from 0)"


def _whole(grid: np.ndarray) -> str:
    return f"rows 0 to {grid.shape[0] - 1}, columns 0 to {grid.shape[1] - 1}"


def _moves(grid: np.ndarray) -> Int[np.ndarray, "C 4"]:
    """The cell that each action leads to, -1 off the map and into an obstacle."""
    padded = np.pad(np.arange(grid.size).reshape(grid.shape), 1, constant_values=-1)
    padded[1:-1, 1:-1][grid == "#"] = -1
    left, down, right, up = padded[1:-1, :-2], padded[2:, 1:-1], padded[1:-1, 2:], padded[:-2, 1:-1]
    return np.stack([left, down, right, up], -1).reshape(grid.size, 4)


def _distances(moves: Int[np.ndarray, "C 4"], target: int) -> Float[np.ndarray, " C"]:
    """The number of moves from each cell to `target`, inf where there is no way."""
    distances = np.full(len(moves), np.inf)
    distances[target] = 0
    while True:
        through = np.where(moves >= 0, distances[moves], np.inf).min(1) + 1
        closer = np.minimum(distances, through)
        if np.array_equal(closer, distances):
            return distances
        distances = closer


def _distances_from(moves: Int[np.ndarray, "C 4"], start: int) -> Float[np.ndarray, " C"]:
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


def _tables(env: TabularMDP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    params = env.default_params
    return np.array(params.next_state), np.array(params.reward, float), np.array(params.terminal)


def _action_values(
    next_state: Int[np.ndarray, "S A"],
    reward: Float[np.ndarray, "S A"],
    terminal: Bool[np.ndarray, " S"],
    *,
    num_steps: int,
) -> Float[np.ndarray, "S A"]:
    """Q(s, a) = r(s, a) + max Q(s', ·) over the paths that end in a terminal state within num_steps; -inf if none."""

    def backup(values):
        return np.where((next_state >= 0) & ~terminal[:, None], reward + values[next_state], -np.inf)

    values = np.where(terminal, 0.0, -np.inf)
    for _ in range(num_steps - 1):
        improved = np.where(terminal, 0.0, backup(values).max(1))
        if np.array_equal(improved, values):
            break
        values = improved
    return backup(values)


def _follow(next_state: np.ndarray, reward: np.ndarray, start: int, actions: list[int]) -> tuple[list[int], float]:
    states, earned = [start], 0.0
    for action in actions:
        earned += reward[states[-1], action]
        states.append(int(next_state[states[-1], action]))
    return states, earned


def _route(name: str, path, num_cells: int) -> Int[np.ndarray, " T"]:
    if isinstance(path, Paths):
        if len(path) != 1:
            raise ValueError(f"{name}: expected one path, got {len(path)}")
        path = path.to_lists()[0]
    route = np.asarray(path)
    if route.ndim != 1 or not route.size or route.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected symbols int[T], got {route.dtype} of shape {route.shape}")
    bad = np.flatnonzero((route < 0) | (route >= num_cells))
    if bad.size:
        raise ValueError(f"{name}[{bad[0]}]: expected a cell in [0, {num_cells - 1}], got {route[bad[0]]}")
    return route


TILES: dict[str, dict[str, Any]] = {
    "H": dict(facecolor="#c4d3e3", edgecolor="#8fa6bf", hatch="////"),
    "L": dict(facecolor="#f6e7c3", edgecolor="#d0b98a", hatch=".."),
    ".": dict(facecolor="#f7f6f3", edgecolor="#dddad2"),
    "#": dict(facecolor="#55565a", edgecolor="#3c3d40", hatch="xx"),
}
ROUTES: tuple[dict[str, Any], ...] = (
    dict(color="#111111", linestyle=(0, (1, 1.2)), marker="o"),
    dict(color="#0072b2", linestyle="-", marker="s"),
    dict(color="#d55e00", linestyle=(0, (5, 1.5)), marker="D"),
    dict(color="#009e73", linestyle=(0, (5, 1.2, 1, 1.2)), marker="P"),
    dict(color="#cc79a7", linestyle=(0, (3, 1, 1, 1, 1, 1)), marker="X"),
)
HEADINGS = {(1, 0): ">", (-1, 0): "<", (0, 1): "v", (0, -1): "^"}


def _draw(env: GridWorld, routes: dict[str, np.ndarray], title: str | None, ax: Axes | None) -> Figure:
    from matplotlib import patheffects
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyBboxPatch, Patch

    rows, columns = env.shape
    scale = stroke = 1.0
    if ax is None:
        scale = min(1.0, 16 / max(env.shape))  # a large map gets smaller tiles, not a larger page
        stroke = scale**0.5
        size = (0.72 * scale * columns + 2.4, max(0.72 * scale * rows + 0.7, 2.4))
        figure, ax = plt.subplots(figsize=size, layout="constrained", dpi=120)
        plt.close(figure)  # a notebook shows what is returned, and nothing twice

    def tile(x, y, letter):
        return FancyBboxPatch(
            (x - 0.46, y - 0.46), 0.92, 0.92, boxstyle="round,pad=0,rounding_size=0.1", linewidth=0.6, **TILES[letter]
        )

    for (y, x), letter in np.ndenumerate(env.cells.reshape(env.shape)):
        ax.add_patch(tile(x, y, letter if letter in TILES else "."))
        if letter in SIGNS:
            sign, fill, ink = SIGNS[letter]
            ax.text(
                x, y, sign, color=ink, size=12 * scale, weight="bold", ha="center", va="center", zorder=2,
                bbox=dict(boxstyle="circle,pad=0.28", facecolor=fill, edgecolor=ink, linewidth=stroke),
            )  # fmt: skip

    halo = [patheffects.withStroke(linewidth=4.6 * stroke, foreground="white")]
    handles = []
    lanes = np.linspace(0.2, 0.38, max(len(routes), 2))
    for (name, route), lane, style in zip(routes.items(), lanes, itertools.cycle(ROUTES), strict=False):
        centres = np.stack([route % columns, route // columns], -1).astype(float)
        line, middles, headings = _lane(centres, lane)
        color, dashes = style["color"], style["linestyle"]
        ax.plot(*line.T, color=color, linestyle=dashes, linewidth=2.4 * stroke, zorder=4, path_effects=halo,
                solid_joinstyle="round", dash_joinstyle="round", dash_capstyle="butt")  # fmt: skip
        for heading, marker in HEADINGS.items():
            at = middles[(headings == heading).all(-1)]
            ax.scatter(*at.T, marker=marker, s=46 * stroke**2, color=color, edgecolor="white", linewidth=0.8, zorder=5)
        ends: dict[str, Any] = dict(
            linestyle="none",
            marker=style["marker"],
            color=color,
            markersize=8 * stroke,
            markeredgecolor="white",
            zorder=6,
        )
        ax.plot(*line[-1], **ends)
        handles.append(
            Line2D([], [], color=color, linestyle=dashes, linewidth=2.4, marker=style["marker"], label=name,
                   markeredgecolor="white", markersize=7)
        )  # fmt: skip
    every = 1 + max(env.shape) // 24
    used = [letter for letter in TILES if letter in env.cells]
    handles += [Patch(label=LETTERS[letter], linewidth=0.6, **TILES[letter]) for letter in used]

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


SIGNS = {"S": ("S", "#ffffff", "#222222"), "F": ("⚑", "#ffffff", "#222222"), "$": ("$", "#ffd84d", "#5a4600")}


def _lane(
    centres: Float[np.ndarray, "T 2"], lane: float
) -> tuple[Float[np.ndarray, "P 2"], Float[np.ndarray, "M 2"], Float[np.ndarray, "M 2"]]:
    """A route moved to the right-hand side by `lane`: its corners, the middles of its moves, and their headings."""
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
