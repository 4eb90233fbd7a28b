"""The explored part of the game as arrays: saved, loaded again, and as a world that needs no emulator."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.io import replacing
from pprjax.paths import Paths
from pprjax.tabular import TabularMDP, TabularParams, TabularState
from pprjax_envs.mario.emulator import Game
from pprjax_envs.mario.explorer import CLEARED, DEAD, DONE, ROOT, UNKNOWN, Nodes
from pprjax_envs.mario.settings import GOAL_X

FORMAT = 1
"""Of saved tables."""

SYMBOLS = ("tile", "column", "pixel")
"""What the edit distance may compare: tile column and height in tiles; the column alone; or both in pixels."""

TILE, HEIGHTS, PIXELS = 16, 32, 512


def symbol(x: Any, y: Any, kind: str) -> Any:
    """The symbol of a position in pixels; of arrays, NumPy's or JAX's, elementwise."""
    if kind == "column":
        return x // TILE
    return x * PIXELS + y if kind == "pixel" else x // TILE * HEIGHTS + y // TILE


@dataclasses.dataclass(frozen=True)
class Play:
    """What came of T actions; the last one is that with which the game was done, or the last one asked for."""

    actions: list[int]  # T
    symbols: list[int]  # T + 1, the start included
    x: np.ndarray  # int32[T + 1], pixels from the left end of the level
    y: np.ndarray  # int32[T + 1], pixels above the bottom of the screen
    coins: np.ndarray  # int32[T], taken by each action
    reward: np.ndarray  # float32[T], of the game, coins apart
    dead: bool

    @property
    def path(self) -> Paths:
        return Paths.from_lists([self.symbols], [self.actions])

    def coin_places(self) -> Int[np.ndarray, "C 2"]:
        """x and y where coins were taken."""
        taken = np.flatnonzero(self.coins) + 1
        return np.stack([self.x[taken], self.y[taken]], 1)


def as_play(nodes: Nodes, way: Sequence[int], actions: Sequence[int], symbols: str) -> Play:
    """The actions along this way through the nodes, one node more than there are actions."""
    rows, taken = np.array(way), np.array(actions, int)
    x, y = nodes.x[rows], nodes.y[rows]
    return Play(
        actions=list(actions),
        symbols=symbol(x, y, symbols).tolist(),
        x=x,
        y=y,
        coins=nodes.coins[rows[:-1], taken],
        reward=nodes.reward[rows[:-1], taken],
        dead=bool(nodes.flags[rows[-1]] & DEAD),
    )


def canonical(nodes: Nodes) -> tuple[Nodes, Int[np.ndarray, " N"]]:
    """The nodes numbered by breadth-first search from the start, actions in order: however they were found.

    Returns:
        The nodes, and the new number of each old one. A node keeps its parent, from which it can be played again,
        unless that is out of reach.
    """
    order, number = [ROOT], np.full(len(nodes.x), UNKNOWN, np.int32)
    number[ROOT] = ROOT
    parent, parent_action = [UNKNOWN], [0]
    for node in order:  # grows meanwhile
        for action, after in enumerate(nodes.next_state[node].tolist()):
            if after != UNKNOWN and number[after] == UNKNOWN:
                number[after] = len(order)
                order.append(after)
                parent.append(int(number[node]))
                parent_action.append(action)
    ordered = nodes.map(lambda x: x[order])

    def renumbered(old):
        return np.where(old == UNKNOWN, UNKNOWN, number[old]).astype(np.int32)

    own = renumbered(ordered.parent)
    return dataclasses.replace(
        ordered,
        next_state=renumbered(ordered.next_state),
        parent=np.where(own == UNKNOWN, parent, own).astype(np.int32),
        parent_action=np.where(own == UNKNOWN, parent_action, ordered.parent_action).astype(np.int32),
        pictures=[nodes.pictures[i] for i in order] if nodes.pictures else [],
    ), number


def save(nodes: Nodes, game: Game, path: str | os.PathLike) -> None:
    """Write the nodes in canonical order, whole or not at all. No part of the ROM is among them.

    Pictures are left out: they are frames of the game.
    """
    if game.pictures:
        raise UserError("pictures: expected a game without, since a table holds no frames of the game")
    arrays: dict[str, Any] = canonical(nodes)[0].arrays()
    about = np.frombuffer(json.dumps({"format": FORMAT, **dataclasses.asdict(game)}).encode(), np.uint8)
    with replacing(path) as aside, open(aside, "wb") as file:
        np.savez_compressed(file, about=about, **arrays)


def load(path: str | os.PathLike, game: Game | None = None) -> tuple[Nodes, Game]:
    """The nodes of a saved table, and of which game they are.

    Args:
        game: the game that the table should be of; its ROM's hash is among what is checked. None: any.

    Raises:
        ValueError: the file is no such table, or of another game; the message names what differs.
    """
    try:
        with np.load(path) as file:
            about = json.loads(file["about"].tobytes())
            arrays = {field.name: file[field.name] for field in dataclasses.fields(Nodes) if field.name in file}
        if about.pop("format") != FORMAT:
            raise UserError("another version's")
        saved = Game(**about | {"actions": tuple(about["actions"])})
        nodes = Nodes(**arrays, pictures=[])
    except (OSError, EOFError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise UserError(f"table: expected a table of Mario's, got {path}: {error}") from error
    if game is not None and saved != game:
        differs = [name for name, value in vars(saved).items() if value != getattr(game, name)]
        wanted = ", ".join(f"{name} {getattr(game, name)!r} and not {getattr(saved, name)!r}" for name in differs)
        raise UserError(f"table: expected {wanted} in {path}")
    return nodes, saved


@struct.dataclass(kw_only=True)
class TableParams(TabularParams):
    x: jax.Array  # int32[S], pixels
    y: jax.Array  # int32[S], pixels
    reached: jax.Array  # bool[S]


class MarioTable(TabularMDP):
    """The explored part of the game: a finite deterministic world that needs no emulator.

    A step that was never tried is not available. State i is node i in canonical order, without the nodes beyond the
    goal. Reward, symbol and the goal as in `pprjax_envs.mario.MarioEnv`.

    Args:
        nodes: what was found, in any order.
        goal_x: pixels; a path ends alive beyond it.
        coin_reward: earned for each coin on top.
        max_steps: the largest number of actions of a path.
        symbols: one of `SYMBOLS`.
    """

    def __init__(
        self,
        nodes: Nodes,
        *,
        goal_x: int = GOAL_X,
        coin_reward: float = 0.0,
        max_steps: int = 90,
        symbols: str = "tile",
    ):
        ended = reached(nodes, goal_x) | (nodes.flags & DONE > 0)
        next_row = np.where(ended[:, None], UNKNOWN, nodes.next_state).astype(np.int32)
        self.goal_x, self.symbols = goal_x, symbols
        self.nodes, _ = canonical(dataclasses.replace(nodes, next_state=next_row))
        rows = self.nodes
        beyond = reached(rows, goal_x)
        super().__init__(
            next_state=rows.next_state,
            reward=rows.reward + coin_reward * rows.coins,
            terminal=beyond | (rows.flags & DONE > 0),
            start=ROOT,
            max_steps=max_steps,
            symbols=symbol(rows.x, rows.y, symbols),
        )
        params = {field.name: getattr(self._params, field.name) for field in dataclasses.fields(TabularParams)}
        self._params: TableParams = TableParams(
            **params, x=jnp.asarray(rows.x), y=jnp.asarray(rows.y), reached=jnp.asarray(beyond)
        )

    def reached_goal(self, state: TabularState, params: TableParams) -> Bool[Array, ""]:
        """Alive beyond goal_x, or at the flag."""
        return params.reached[state.id]

    def play(self, actions: Sequence[int]) -> Play:
        """These actions from the start on, until the path ends or comes to a step that was never tried."""
        way, taken = [ROOT], []
        for action in actions:
            after = int(self.nodes.next_state[way[-1], action])
            if after == UNKNOWN:
                break
            way.append(after)
            taken.append(int(action))
        return as_play(self.nodes, way, taken, self.symbols)

    def features(self) -> Float[np.ndarray, "S F"]:
        """What `MarioEnv` observes in each state."""
        return self.nodes.features

    def visits(self, probs: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " S"]:
        """How often, on average, a game by this policy acts in each state, over the steps that were explored.

        Exact: the distribution over states is carried forward step by step. Steps that were never tried are left out,
        and the others keep their proportions.
        """
        next_state = self.nodes.next_state
        steps = np.where(next_state >= 0, probs, 0.0)
        total = steps.sum(1, keepdims=True)
        steps = np.divide(steps, total, out=np.zeros_like(steps), where=total > 0)
        visits, now = np.zeros(self.num_states), np.zeros(self.num_states)
        now[ROOT] = 1.0
        for _ in range(int(self.default_params.max_steps_in_episode)):
            visits += now * (total[:, 0] > 0)
            moved = now[:, None] * steps
            now = np.bincount(np.maximum(next_state, 0).ravel(), moved.ravel(), self.num_states)
        return visits


def reached(rows: Any, goal_x: Any) -> Any:
    """Alive beyond goal_x, or at the flag: of whatever has `flags` and `x`, nodes or a state, elementwise."""
    return (rows.flags & CLEARED > 0) | ((rows.flags & DEAD == 0) & (rows.x > goal_x))
