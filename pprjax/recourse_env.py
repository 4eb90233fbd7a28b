"""The search for a recourse as a gymnax environment, on which any learner may be trained."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment, spaces
from jaxtyping import Array, Float, Int

from pprjax import edit_distance
from pprjax.checks import check_task
from pprjax.config import Config, check_config
from pprjax.errors import UserError
from pprjax.objective import Objective
from pprjax.paths import Paths
from pprjax.reward import similarity, spared
from pprjax.rollout import Original, trace
from pprjax.task import Task


@struct.dataclass
class RecourseState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], t: actions taken
    state: Any  # of the task's world
    carry: Any  # of its agent
    column: Any  # of the edit distance
    smallest: jax.Array  # m, the smallest entry of the column
    position: jax.Array  # int32[], j: the position in τ₀ of the best alignment so far
    r_goal: jax.Array  # float[], R_goal so far
    magnitude: jax.Array  # float[], Σ|r| so far
    over: jax.Array  # bool[]


@struct.dataclass(kw_only=True)
class RecourseParams(environment.EnvParams):
    task: Task
    original: Original
    objective: Objective
    penalty: jax.Array  # float[]


class RecourseEnv(environment.Environment[RecourseState, RecourseParams]):
    """A gymnax environment whose undiscounted return is R (Eq. 5), less a penalty where the goal is missed.

    λ_path·R_path is telescoped: λ_path / (m + 1) is paid as it changes, where m is the fewest edits that a path which
    goes on from here may end with. The last step settles to the true distance. An action that is not available counts
    as the agent's favourite of those that are. The horizon is part of the task, so a path ends there by itself.

    Args:
        task: without constraints. The parameters trace it: worlds that compare equal share a compilation.
        original: one path, with actions or without.
        config: λ_path, λ_policy, habit and edit costs count.
        penalty: what a path costs that misses the task's goal; default λ_path + 1.

    Raises:
        ValueError: there is not one original, the task has constraints, or what `recourse` raises of the three.
    """

    def __init__(self, task: Task, original: Paths, config: Config = Config(), *, penalty: float | None = None):
        if len(original) != 1:
            raise UserError(f"original: expected one path, got {len(original)}")
        if task.constraints is not None:
            raise UserError("task.constraints: expected none, for a learner of another kind does not keep them")
        check_config(config, 1)
        check_task(task, original, config.objective)
        actions = None if original.actions is None else original.actions[0]
        symbols, length = jnp.asarray(original.symbols[0]), jnp.asarray(original.lengths[0])
        traced = jax.jit(trace)(task, symbols, length, jax.random.key(0), actions)
        self._params = RecourseParams(
            max_steps_in_episode=task.horizon,
            task=task,
            original=traced,
            objective=config.objective,
            penalty=jnp.asarray(config.lambda_path + 1 if penalty is None else penalty, jnp.result_type(float)),
        )

    @property
    def default_params(self) -> RecourseParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self._params.task.num_actions

    def reset_env(self, key: jax.Array, params: RecourseParams) -> tuple[Array, RecourseState]:
        task, original, costs = params.task, params.original, params.objective.costs
        state, zero = task.reset(key), jnp.zeros((), jnp.result_type(float))
        first = edit_distance.matches(original.symbols, task.symbol(state), costs)
        column = edit_distance.append(edit_distance.start(original.symbols, costs), first, costs)
        smallest, position = edit_distance.alignment(column, original.symbols, original.length, costs)
        begun = RecourseState(
            time=jnp.int32(0), state=state, carry=task.policy.init(), column=column, smallest=smallest,
            position=position, r_goal=zero, magnitude=zero, over=~task.available(state).any(),
        )  # fmt: skip
        return self.observe(key, begun, None, params), begun

    def step_env(self, key: jax.Array, state: RecourseState, action: Int[Array, ""], params: RecourseParams):
        task, original, objective = params.task, params.original, params.objective
        carry, log_probs = task.log_probs(state.carry, state.state)
        available = task.available(state.state)
        favourite = jnp.argmax(jnp.where(available, log_probs, -jnp.inf))
        action = jnp.where(available[action], action, favourite).astype(jnp.int32)
        inner, reward, terminated = task.step(key, state.state, action)
        habit = task.habits(state.state, log_probs, objective.habit)[action]
        habit = spared(habit, original.symbols, task.symbol(state.state), task.symbol(inner), objective.own_steps)
        match = edit_distance.matches(original.symbols, task.symbol(inner), objective.costs)
        column = edit_distance.append(state.column, match, objective.costs)
        smallest, position = edit_distance.alignment(column, original.symbols, original.length, objective.costs)
        distance = edit_distance.distance(column, original.length, objective.costs)
        over = terminated | ~task.available(inner).any() | (state.time + 1 >= task.horizon)
        before = jnp.where(state.time == 0, 0.0, similarity(state.smallest))
        closer = similarity(jnp.where(over, distance, smallest)) - before
        after = RecourseState(
            time=state.time + 1, state=inner, carry=carry, column=column, smallest=smallest, position=position,
            r_goal=state.r_goal + reward, magnitude=state.magnitude + jnp.abs(reward), over=over,
        )  # fmt: skip
        outcome = task.outcome(inner, terminated, after.r_goal, after.magnitude)
        met = jnp.bool_(True) if original.goal is None else original.goal(outcome)
        paid = objective.value(reward, habit) + objective.lambda_path * closer
        paid = paid - jnp.where(over & ~met, params.penalty, 0.0)
        info = {"distance": distance, "r_goal": after.r_goal, "met": met, "action": action}
        return self.observe(key, after, action, params), after, paid, over, info

    def observe(self, key: jax.Array, state: RecourseState, action: Any, params: RecourseParams) -> Float[Array, " n"]:
        """What a Q of this task must see: the state (one of S numbers, or the environment's observation), j and t."""
        del key, action
        task, n = params.task, params.original.symbols.shape[0]
        seen = task.observation(state.state)
        seen = seen if task.num_states is None else jax.nn.one_hot(seen, task.num_states)
        rest = jax.nn.one_hot(state.position, n + 1), state.time[None] / task.horizon
        return jnp.concatenate([seen, *rest]).astype(jnp.result_type(float))

    def is_terminated(self, state: RecourseState, params: RecourseParams) -> Array:
        del params
        return state.over

    def action_space(self, params: RecourseParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: RecourseParams) -> spaces.Box:
        seen = jax.eval_shape(lambda: self.reset_env(jax.random.key(0), params)[0])
        low, high = (-np.inf, np.inf) if params.task.num_states is None else (0.0, 1.0)
        return spaces.Box(low, high, seen.shape)
