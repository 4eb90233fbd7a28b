"""What any paths are worth as edits of their originals, however they were found."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from pprjax import constraints, edit_distance
from pprjax.checks import check_symbols
from pprjax.config import Config, check_scale
from pprjax.edit_distance import Costs, Norm
from pprjax.errors import UserError
from pprjax.metrics import Scores
from pprjax.objective import check_own_steps
from pprjax.paths import PAD, Paths
from pprjax.reward import Habit, OwnSteps, similarity, spared
from pprjax.rollout import trace
from pprjax.task import Task


def score(task: Task, originals: Paths, paths: Paths, config: Config = Config()) -> Scores:
    """The scores of paths[i] as a recourse of originals[i] (Eq. 1-5), for the agent of this task.

    Args:
        task: its horizon does not matter; the goal is not looked at. Paths may break its constraints.
        originals: B paths.
        paths: B paths from the world's start, with actions or without: then those that lead along the symbols, the
            likeliest under P_A where there are several.
        config: its habit, own_steps, distance and edit costs count.

    Raises:
        ValueError: there are not as many paths as originals, the world can't follow a path, config's distance is not
            one of such symbols, or it is between paths of one length and a path has another than its original.
    """
    objective, costs = config.objective, config.objective.costs
    check_own_steps(objective, task.constraints)
    check_scale(config)
    check_symbols(task, originals, objective)
    check_symbols(task, paths, objective, "paths")
    if len(paths) != len(originals):
        raise UserError(f"paths: expected one for each of {len(originals)} originals, got {len(paths)}")
    other = np.flatnonzero(np.asarray(paths.lengths) != np.asarray(originals.lengths))
    if isinstance(costs, Norm) and other.size:
        i = other[0]
        raise UserError(
            f"paths[{i}]: distance {costs.distance!r} compares paths of one length, expected "
            f"{originals.lengths[i]} symbols, got {paths.lengths[i]}"
        )
    kept = constraints.kept_symbols(task.constraints, originals)
    kept_to = constraints.without_keep(task.constraints)
    task = task.replace(constraints=None, horizon=paths.symbols.shape[1])
    inputs = originals.symbols, originals.lengths, paths.symbols, paths.lengths, paths.actions, kept
    static = dict(habit=objective.habit, own_steps=objective.own_steps, costs=costs.check())
    scored = _score(task, kept_to, *map(_array, inputs), **static)
    followed, goal, habits, log_prob, distance, violations = map(np.asarray, scored)
    lost = np.flatnonzero(~followed)
    if lost.size:
        raise UserError(f"paths[{lost[0]}]: the world can't follow it from its start")
    num_actions = np.maximum(np.asarray(paths.lengths) - 1, 1)
    return Scores(
        goal=goal,
        path=np.asarray(similarity(distance)),
        r_policy=habits,
        policy=log_prob / num_actions,
        distance=distance,
        violations=violations,
    )


def _array(values):
    return None if values is None else jnp.asarray(values)


@partial(jax.jit, static_argnames=("habit", "own_steps", "costs"))
def _score(task: Task, kept_to, *inputs, habit: Habit, own_steps: OwnSteps, costs: Costs):
    key, table, bound = jax.random.key(0), task.habit_table(habit), task.replace(constraints=kept_to)

    def one(original, original_length, path, length, actions, kept):
        followed = trace(task, path, length, key, actions)

        def step(lane, action):
            state, carry, habits, log_prob, dear = lane
            carry, log_probs = task.log_probs(carry, state)
            chosen = jnp.maximum(action, 0)
            after = task.step(key, state, chosen)[0]
            cost = task.charge(state, chosen, log_probs, habit, table)
            cost = spared(cost, original, task.symbol(state), task.symbol(after), own_steps)
            dear = dear + ~bound.affordable(state, log_probs)[chosen]
            moved = (after, carry, habits + cost, log_prob + log_probs[chosen], dear)
            return jax.tree.map(lambda new, old: jnp.where(action != PAD, new, old), moved, lane), None

        zero = jnp.zeros((), jnp.result_type(float))
        lane = (task.reset(key), task.policy.init(), zero, zero, jnp.int32(0))
        (_, _, habits, log_prob, dear), _ = jax.lax.scan(step, lane, followed.actions)
        distance = edit_distance.between(original, original_length, path, length, costs=costs)
        broken = constraints.violations(kept_to, kept, path, followed.actions, distance)
        broken = jnp.int32(0) if broken is None else broken + dear
        return followed.followed, followed.r_goal, habits, log_prob, distance, broken

    return jax.vmap(one)(*inputs)
