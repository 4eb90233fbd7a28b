"""The fewest steps in which gymnax's mountain car arrives from each state: a bound that holds, however it drives.

Positions x and velocities v are cut into cells. From anywhere in a cell, action a leads into a box around

    v' = v + (a - 1)·force - gravity·cos(3x),    x' = x + v',

and T(cell) = 0 where the cell touches the goal, else 1 + min T(cell') over the actions and all cells that their boxes
touch. No drive that begins in the cell takes fewer steps, since each of its states lies in such a box.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

CELLS = 3_000, 2_800  # of position, of velocity
MOST = 127  # steps that are told apart
ROUNDING = 1e-6  # float32 moves a state by less
WINDOW = 3  # cells that a box touches in each direction, at most


def steps_to_go(state: Any, params: Any) -> Int[Array, ""]:
    """T of the cell of a state."""
    x, v = cell_of(state, params)
    return jnp.asarray(_table())[x, v].astype(int)


def cell_of(state: Any, params: Any, cells: tuple[int, int] = CELLS) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """In which cell a state is."""
    x, v = _edges(params, cells)
    return _cell(state.position, x), _cell(state.velocity, v)


@lru_cache(maxsize=1)
def _table() -> Int[np.ndarray, "X V"]:
    from gymnax.environments.classic_control.mountain_car import MountainCar

    with jax.ensure_compile_time_eval():
        return np.asarray(fewest_steps(MountainCar().default_params))


@partial(jax.jit, static_argnames=("cells", "most"))
def fewest_steps(params: Any, cells: tuple[int, int] = CELLS, most: int = MOST) -> Int[Array, "X V"]:
    """T of each cell; `most` where it is no less; 0 everywhere where a box touches more cells than WINDOW."""
    x, v = _edges(params, cells)
    pull = -params.gravity * jnp.cos(3 * x)
    sagged = params.gravity * (3 * (x[1] - x[0])) ** 2 / 8  # of the curve, above or below its chord
    weakest = jnp.minimum(pull[:-1], pull[1:]) - sagged
    strongest = jnp.maximum(pull[:-1], pull[1:]) + sagged

    def corner(action):
        """The first cell of each box."""
        slow, fast = (
            jnp.clip(
                edge[None] + (action - 1) * params.force + force[:, None] + rounding,
                -params.max_speed,
                params.max_speed,
            )
            for edge, force, rounding in ((v[:-1], weakest, -ROUNDING), (v[1:], strongest, ROUNDING))
        )
        near, far = x[:-1, None] + slow - ROUNDING, x[1:, None] + fast + ROUNDING
        ends = (_cell(near, x), _cell(far, x)), (_cell(slow, v), _cell(fast, v))
        fits = jnp.stack([last - first < WINDOW for first, last in ends]).all()
        return ends[0][0], ends[1][0], near <= x[0], fits

    boxes = [corner(action) for action in range(3)]
    stopped = _cell(jnp.float32(-ROUNDING), v)  # the wall takes all velocity
    goal = (x[1:, None] >= params.goal_position) & (v[1:] >= params.goal_velocity)

    def sweep(table):
        padded = jnp.pad(table, (0, WINDOW - 1), constant_values=most)
        near = jax.lax.reduce_window(padded, jnp.int8(most), jax.lax.min, (WINDOW, WINDOW), (1, 1), "valid")
        after = jnp.int8(most)
        for first_x, first_v, wall, _ in boxes:
            after = jnp.minimum(after, jnp.minimum(near[first_x, first_v], jnp.where(wall, near[0, stopped], most)))
        return jnp.where(goal, 0, jnp.minimum(table, jnp.minimum(after, most - 1) + 1)).astype(jnp.int8)

    table = jax.lax.fori_loop(0, most, lambda _, table: sweep(table), jnp.where(goal, 0, most).astype(jnp.int8))
    return jnp.where(jnp.stack([fits for *_, fits in boxes]).all(), table, 0)


def _edges(params: Any, cells: tuple[int, int]) -> tuple[Float[Array, " X+1"], Float[Array, " V+1"]]:
    """Where the cells of position and of velocity meet."""
    positions = jnp.linspace(params.min_position, params.max_position, cells[0] + 1)
    return positions, jnp.linspace(-params.max_speed, params.max_speed, cells[1] + 1)


def _cell(value: Float[Array, "..."], edges: Float[Array, " n"]) -> Int[Array, "..."]:
    """The cell in which a value lies."""
    size = (edges[-1] - edges[0]) / (len(edges) - 1)
    return jnp.clip(jnp.floor((value - edges[0]) / size), 0, len(edges) - 2).astype(jnp.int32)
