"""What R_goal may still come after a state: whether a world says it, and what a small one is found to say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pprjax.likeliest import moves, moves_of
from pprjax.objective import Objective
from pprjax.policy import ragged_of
from pprjax.ragged import Ragged
from pprjax.task import SMALL_WORLD, Task

MAX_STEPS = 2**28
"""Steps that working out what may still come may take: those of all states, as often as a path has steps."""


def provable(task: Task, objective: Objective) -> bool:
    """Whether v is bounded after a prefix: the world says what R_goal may still come, or is small enough to be asked,
    and habits never pay."""
    return objective.habit == "regret" and (_told(task) or tabulated(task))


def _told(task: Task) -> bool:
    return hasattr(task.env, "goal_bound") or hasattr(task.env, "goal_to_go")


def tabulated(task: Task) -> bool:
    """Whether what may still come is looked up for each state: in a small finite world that does not say it itself, or
    one whose P_A is ragged and has few steps."""
    if _told(task) or not hasattr(task.env, "state_from_id"):
        return False
    size, table = task.env.num_states, ragged_of(task.policy)
    if table is not None:  # each state is asked once, for all of its actions; after that only steps that there are
        return max(size * task.num_actions, table.num_cells * task.horizon) <= MAX_STEPS
    return size <= SMALL_WORLD and size * task.num_actions * task.horizon <= MAX_STEPS


@jax.jit
def most_to_come(task: Task) -> Float[Array, " S"]:
    """V(s) = max(0, max_a r(s, a) + V(s')): the most R_goal that may still come in each state, by value iteration.

    Paths may stop anywhere and have as many steps as the longest, so that it is no less than what does come.
    """
    table = ragged_of(task.policy)
    if table is not None:
        return _most_of_cells(task, table)
    next_state, usable, ended, reward = moves(task, task.all_states())
    reward = jnp.where(usable, reward, -jnp.inf)

    def one_more(_, value):
        return jnp.maximum(0.0, (reward + jnp.where(ended, 0.0, value[next_state])).max(1))

    return jax.lax.fori_loop(0, task.horizon, one_more, jnp.zeros(len(next_state), reward.dtype))


def _most_of_cells(task: Task, table: Ragged) -> Float[Array, " S"]:
    """The same over the cells of a ragged P_A, one for each step that there is."""
    next_state, ended, reward = _cells(task, table)
    state, size = table.states, task.env.num_states

    def one_more(_, value):
        most = reward + jnp.where(ended, 0.0, value[next_state])
        return jnp.maximum(0.0, jax.ops.segment_max(most, state, size))

    return jax.lax.fori_loop(0, task.horizon, one_more, jnp.zeros(size, reward.dtype))


def _cells(task: Task, table: Ragged) -> tuple[Int[Array, " C"], Bool[Array, " C"], Float[Array, " C"]]:
    """Where each step leads, whether it ends a path, and what it pays; -inf where there is none.

    Written row by row, as they begin: what a slice of A has beyond the end of a row is no step there, and gives way to
    the row that follows.
    """
    size = task.env.num_states
    zero = jnp.zeros(table.num_cells, jnp.int32), jnp.zeros(table.num_cells, bool)
    start = *zero, jnp.full(table.num_cells, -jnp.inf, jnp.result_type(float))

    def write(i, cells):
        number = i % (size // table.times) * table.times + i // (size // table.times)  # as `Ragged.cell` rises
        after, usable, ended, reward = moves_of(task, task.env.state_from_id(number, task.params))
        row = after, ended, jnp.where(usable, reward, -jnp.inf)
        rows = table.cell(number)
        return jax.tree.map(lambda x, new: jax.lax.dynamic_update_slice(x, new.astype(x.dtype), (rows,)), cells, row)

    return jax.lax.fori_loop(0, size, write, start)
