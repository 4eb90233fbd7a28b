"""What R_goal may still come after a state: whether a world says it, and what a small one is found to say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pprjax.config import Config
from pprjax.likeliest import moves
from pprjax.task import SMALL_WORLD, Task

MAX_STEPS = 2**28
"""Steps that working out what may still come may take: those of all states, as often as a path has steps."""


def provable(task: Task, config: Config) -> bool:
    """Whether v is bounded after a prefix: the world says what R_goal may still come, or is small enough to be asked,
    and habits never pay."""
    return config.habit == "regret" and (_told(task) or tabulated(task))


def _told(task: Task) -> bool:
    return hasattr(task.env, "goal_bound") or hasattr(task.env, "goal_to_go")


def tabulated(task: Task) -> bool:
    """Whether what may still come is looked up for each state: in a small finite world that does not say it itself."""
    if _told(task) or not hasattr(task.env, "state_from_id") or task.env.num_states > SMALL_WORLD:
        return False
    return task.env.num_states * task.num_actions * task.horizon <= MAX_STEPS


@jax.jit
def most_to_come(task: Task) -> Float[Array, " S"]:
    """V(s) = max(0, max_a r(s, a) + V(s')): the most R_goal that may still come in each state, by value iteration.

    Paths may stop anywhere and have as many steps as the longest, so that it is no less than what does come.
    """
    following, usable, ended, reward = moves(task, task.all_states())
    reward = jnp.where(usable, reward, -jnp.inf)

    def one_more(_, value):
        return jnp.maximum(0.0, (reward + jnp.where(ended, 0.0, value[following])).max(1))

    return jax.lax.fori_loop(0, task.horizon, one_more, jnp.zeros(len(following), reward.dtype))
