"""The drivers of the grid world, and the task of bringing one of them to the flag."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from pprjax.errors import UserError
from pprjax.goals import Goal, reached
from pprjax.policy import TablePolicy, softmax
from pprjax.task import Task
from pprjax_envs.gridworld.maps import DEFAULT_MAP
from pprjax_envs.gridworld.world import GridWorld, action_values, tables

LIKES = {
    "experienced": {"H": 0.5, "L": -1.0},
    "newbie": {"H": -1.0, "L": 0.5},
}
"""What a driver earns, on top of the trip, in each cell of a kind. Below 1: going round in circles never pays."""


def agent(env: GridWorld, driver: str = "experienced", *, temperature: float = 0.5) -> TablePolicy:
    """P_A of a driver: P_A(s, a) ∝ exp(Q(s, a) / temperature) over the moves there are.

    Q(s, a) = r(s, a) + likes(s') + max Q(s', ·), undiscounted, where r are the trip's rewards and `likes` is what the
    driver earns for the kind of road that is entered: the experienced driver likes highways and avoids local roads,
    the newbie the other way round. Where the flag is out of reach, all moves are equally likely.

    Args:
        driver: "experienced" or "newbie".
        temperature: above 0, in the unit of the rewards; a small one is greedy.

    Raises:
        ValueError: there is no such driver, or temperature is not above 0.
    """
    if driver not in LIKES:
        raise UserError(f"driver: expected one of {', '.join(LIKES)}, got {driver!r}")
    if not temperature > 0:
        raise UserError(f"temperature: expected a number above 0, got {temperature}")
    next_state, reward, terminal = tables(env)
    likes = np.array([LIKES[driver].get(letter, 0.0) for letter in env.cells])
    q = action_values(next_state, reward + likes[next_state % likes.size], terminal, num_steps=env.num_states)
    usable = np.isfinite(q)
    for fallback in (next_state >= 0, True):  # where no flag is in reach; where there is no move at all
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
    """The grid world's own task: bring a route of this driver to the flag. Arguments: see `GridWorld` and `agent`."""
    env = GridWorld(map, max_steps)
    return Task(env, agent(env, driver, temperature=temperature), goal=goal)
