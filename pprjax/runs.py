"""Fresh runs: how likely a recourse is to work where chance decides."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.checks import check_actions, check_key
from pprjax.errors import UserError
from pprjax.paths import PAD, Paths
from pprjax.policy import Policy
from pprjax.result import Recourse
from pprjax.stacked import Stack
from pprjax.task import Task

RUNS = 1000
"""Fresh runs by default: a share of one half is then told to within 0.016, its standard error."""


@struct.dataclass
class Reliability:
    """The share of fresh runs that meet the goal. Arrays on the host."""

    share: np.ndarray  # float[R], in [0, 1]; NaN where there is no path
    error: np.ndarray  # float[R], its standard error, see `standard_error`
    runs: int  # how many fresh runs of each; 1 where nothing depends on chance


def reliability(
    task: Task | Stack,
    paths: Paths | Recourse | None = None,
    *,
    key: jax.Array,
    runs: int = RUNS,
    policy: Policy | None = None,
) -> Reliability:
    """How likely paths are to work: the share of fresh runs of their actions that meet the task's goal.

    A run takes the actions of a path in their order, whatever happens, and ends where the world ends it, where the next
    action is not available, or with the last of them. It is judged by the goal alone. A policy reacts to what happens:
    it acts until the world ends the run, or the horizon. In a world without chance one run of a path tells all.

    Args:
        task: environment and goal; or one for each original, see `pprjax.stack`.
        paths: R paths with actions, or the recourses that `pprjax.recourse` found: for these a goal that asks for more
            than the original earned, `pprjax.improved`, knows it. None with a policy.
        key: not consumed; path i uses fold_in(key, i), each run one of its own.
        runs: fresh runs of each path, at least 1.
        policy: what acts in place of the actions of a path, as a P_A does, for example a `TablePolicy`.

    Returns:
        R shares; with a policy one for the task, or one for each of a stack.

    Raises:
        ValueError: there is no goal, not one of paths and policy, paths have no actions or are not as many as the
            tasks, or runs is below 1.
    """
    if (paths is None) == (policy is None):
        raise UserError("paths, policy: expected exactly one of the two")
    if runs < 1:
        raise UserError(f"runs: expected at least 1, got {runs}")
    check_key(key)
    tasks = task.tasks if isinstance(task, Stack) else (task,)
    if any(each.goal is None for each in tasks):
        raise UserError("task.goal: expected a goal, without which no run works better than another; got None")
    if policy is not None:
        return joined([_of_policy(each.replace(policy=policy), key, i, runs) for i, each in enumerate(tasks)])
    found = paths if isinstance(paths, Recourse) else None
    rows: Any = paths if found is None else found.paths
    original = np.arange(len(rows)) if found is None else found.index
    if rows.actions is None:
        raise UserError("paths: expected actions, which a fresh run takes; got none")
    if isinstance(task, Stack) and len(task) != (len(rows) if found is None else len(found.originals)):
        raise UserError(f"paths: expected one for each of {len(task)} tasks, got {len(rows)}")
    check_actions(tasks[0], rows, "paths")
    earned = np.full(len(rows), -np.inf) if found is None else found.original_goal[found.index]
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(len(rows)))
    if not isinstance(task, Stack):
        return of_actions(task, rows.actions, earned, keys, runs)
    each_row = (slice(i, i + 1) for i in range(len(rows)))
    parts = [
        of_actions(task.tasks[original[index][0]], rows.actions[index], earned[index], keys[index], runs)
        for index in each_row
    ]
    return joined(parts)


def of_actions(
    task: Task, given: Int[np.ndarray, "R U"], original_goal: Float[np.ndarray, " R"], keys: jax.Array, runs: int
) -> Reliability:
    """The reliability of the actions of R paths, PAD after the last, with a key each."""
    runs = 1 if task.deterministic else runs
    given = np.asarray(given)[:, : task.horizon]
    actions = np.pad(given, ((0, 0), (0, task.horizon - given.shape[1])), constant_values=PAD)
    share = np.asarray(_met_by_actions(task, actions, original_goal, keys, runs=runs))
    return Reliability(share, standard_error(share, runs) if runs > 1 else np.zeros_like(share), runs)


def standard_error(share: Any, runs: int) -> Any:
    """√(p(1 - p) / (n + 4)), p = (share·n + 2) / (n + 4) (Agresti and Coull 1998): not 0 where all n runs agree."""
    p = (share * runs + 2) / (runs + 4)
    return (p * (1 - p) / (runs + 4)) ** 0.5


def joined(parts: list[Reliability]) -> Reliability:
    """Those of several tasks or paths, one after the other."""
    share, error = (np.concatenate([getattr(part, name) for part in parts]) for name in ("share", "error"))
    return Reliability(share, error, max(part.runs for part in parts))


def _of_policy(task: Task, key: jax.Array, number: int, runs: int) -> Reliability:
    share = np.asarray(_met_by_policy(task, jax.random.fold_in(key, number), runs=runs))[None]
    return Reliability(share, standard_error(share, runs), runs)


@partial(jax.jit, static_argnames="runs")
def _met_by_actions(task: Task, actions, original_goal, keys, *, runs: int) -> Float[Array, " R"]:
    def one(x):
        plan, earned, key = x
        return share_of_actions(task, cast(Any, task.goal).of(earned), plan, key, runs)

    return jax.lax.map(one, (jnp.asarray(actions), jnp.asarray(original_goal, jnp.result_type(float)), keys))


def share_of_actions(task: Task, goal: Any, plan: Int[Array, " T"], key: jax.Array, runs: int) -> Float[Array, ""]:
    """The share of fresh runs of these actions, PAD after the last, that meet the goal."""

    def choose(t, carry, state, key):
        del state, key
        return carry, plan[t]

    return jnp.mean(jax.vmap(lambda key: _met(task, goal, key, (), choose))(jax.random.split(key, runs)))


@partial(jax.jit, static_argnames="runs")
def _met_by_policy(task: Task, key: jax.Array, *, runs: int) -> Float[Array, ""]:
    def choose(t, carry, state, key):
        del t
        carry, log_probs = task.log_probs(carry, state)
        log_probs = jnp.where(task.available(state), log_probs, -jnp.inf)
        return carry, jax.random.categorical(key, log_probs)

    def met(key):
        return _met(task, task.goal, key, task.policy.init(), choose)

    return jnp.mean(jax.vmap(met)(jax.random.split(key, runs)))


def _met(task: Task, goal: Any, key: jax.Array, carry: Any, choose: Any) -> Bool[Array, ""]:
    """Whether one run meets the goal, with actions from choose(t, carry, state, key) -> carry, action; PAD ends it."""
    key_world, key_agent = jax.random.split(key)

    def step(lane, t: Int[Array, ""]):
        state, carry, earned, magnitude, terminated, ended = lane
        after, action = choose(t, carry, state, jax.random.fold_in(key_agent, t))
        goes_on = ~ended & ~terminated & (action != PAD) & task.available(state)[jnp.maximum(action, 0)]
        next_state, reward, stops = task.step(jax.random.fold_in(key_world, t), state, jnp.maximum(action, 0))
        moved = (next_state, after, earned + reward, magnitude + jnp.abs(reward), stops, ended)
        lane = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), moved, lane)
        return (*lane[:5], ~goes_on), None

    zero = jnp.zeros((), jnp.result_type(float))
    lane = (task.reset(key_world), carry, zero, zero, jnp.bool_(False), jnp.bool_(False))
    (state, _, earned, magnitude, terminated, _), _ = jax.lax.scan(step, lane, jnp.arange(task.horizon))
    return goal(task.outcome(state, terminated, earned, magnitude))
