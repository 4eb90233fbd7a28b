"""Which of the sampled paths are likely enough to work, where `Constraints(min_reliability=…)` asks for it."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from pprjax.learn import ranking
from pprjax.rollout import Original, Trajectory
from pprjax.runs import share_of_actions, standard_error
from pprjax.task import Task

SCREENED = 16
"""Fresh runs of each of the b paths of an iteration: those whose share is too small are not looked at again."""

TRIED = 4
"""Of the others the best by R, in each iteration, that are put to the test."""

RUNS = 400
"""Fresh runs of the test: the share, less two standard errors, must reach the least."""


def reliable(task: Task, original: Original, lanes: Trajectory, key: jax.Array) -> Trajectory:
    """The same paths, of which only those meet the goal that are likely enough to do so again; all, if none must be."""
    least = None if task.constraints is None else task.constraints.min_reliability
    if least is None:
        return lanes

    def shares(actions, key, runs):
        keys = jax.random.split(key, len(actions))
        return jax.vmap(lambda plan, key: share_of_actions(task, original.goal, plan, key, runs))(actions, keys)

    key_screen, key_test = jax.random.split(key)
    hopeful = lanes.met & (shares(lanes.actions, key_screen, SCREENED) >= least)
    order = ranking.best_first(replace(lanes, met=hopeful))
    plans = lanes.actions[order]
    again = jnp.concatenate([jnp.zeros(1, bool), (plans[1:] == plans[:-1]).all(1)])  # many lanes are the same
    first = order[jnp.argsort(again, stable=True)[:TRIED]]
    share = shares(lanes.actions[first], key_test, RUNS)
    passed = hopeful[first] & (share - 2.0 * standard_error(share, RUNS) >= least)
    return replace(lanes, met=jnp.zeros_like(lanes.met).at[first].set(passed))
