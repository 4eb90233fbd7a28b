"""How likely learned paths are to work where chance decides, and which are likely enough if constraints ask for it."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Integer

from pprjax.learn import ranking
from pprjax.rollout import Original, Trajectory
from pprjax.runs import of_actions, share_of_actions, standard_error
from pprjax.task import Task

SCREENED = 16
"""Fresh runs of each of the b paths of an iteration: those whose share is too small are not looked at again."""

TRIED = 4
"""Of the others the best by R, in each iteration, that are put to the test."""

TESTED = 400
"""Fresh runs of each of these: the share, less two standard errors, must reach the least."""


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
    share = shares(lanes.actions[first], key_test, TESTED)
    passed = hopeful[first] & (share - 2.0 * standard_error(share, TESTED) >= least)
    return replace(lanes, met=jnp.zeros_like(lanes.met).at[first].set(passed))


def row_keys(key: jax.Array, ids: Integer[np.ndarray, " R"], rank: Int[np.ndarray, " R"]) -> jax.Array:
    """The key of the runs of each answer: of its original, by id, and of its rank among that original's answers."""
    fold = jax.vmap(lambda i, rank: jax.random.fold_in(jax.random.fold_in(key, i), rank))
    return fold(jnp.asarray(ids, jnp.uint32), jnp.asarray(rank))


def measured(
    task: Task,
    best: Trajectory,
    original_goal: Float[np.ndarray, " R"],
    reacting: Float[np.ndarray, " B"],
    keys: jax.Array,
    runs: int,
) -> dict[str, np.ndarray]:
    """How likely R paths are to work where chance decides, as fields of a `Recourse`; NaN without runs.

    Args:
        original_goal: R_goal of the original that each path answers.
        reacting: the shares of as many runs of the policies that were learned for B originals.
        keys: one for each path.
    """
    share = error = np.full(len(original_goal), np.nan)
    if runs:
        told = of_actions(task, np.asarray(best.actions), original_goal, keys, runs)
        share, error = told.share, told.error
    return {
        "reliability": share,
        "reliability_error": error,
        "policy_reliability": reacting,
        "policy_reliability_error": np.asarray(standard_error(reacting, max(runs, 1))),
    }
