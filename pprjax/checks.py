"""What a world and an agent must be, before any method starts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pprjax.edit_distance import RealCosts
from pprjax.errors import UserError
from pprjax.goals import EndsIn
from pprjax.objective import Objective, check_own_steps
from pprjax.paths import Paths, alike
from pprjax.policy import TablePolicy
from pprjax.ragged import Ragged
from pprjax.task import State, Task

MOST_LOG_PROB = 1e-3
"""The logarithm of what all probabilities of a state may sum to: 1, and what float32 may add."""


def check_world(task: Task) -> None:
    """Raise a ValueError that names what a world says in another type or shape than it should."""
    key = jax.random.key(0)
    before = jax.eval_shape(task.reset, key)
    if task.start is not None:
        own = jax.eval_shape(lambda: task.env.reset_env(key, task.params)[1])
        if jax.tree.structure(before) != jax.tree.structure(own):
            raise UserError(f"start: expected a state of the environment, got {type(task.start).__name__}")
    _check_said(task, before)
    check_step(task)


def _check_said(task: Task, state: State) -> None:
    """Of a state of these shapes."""
    expected = {"symbol": (int, ()), "state_id": (int, ()), "reached_goal": (bool, ())}
    expected |= {"available": (bool, (task.num_actions,)), "goal_to_go": (float, ()), "steps_to_go": (int, ())}
    asked = {name: getattr(task.env, name) for name in expected if hasattr(task.env, name)}
    answers = jax.eval_shape(lambda state: {name: ask(state, task.params) for name, ask in asked.items()}, state)
    for name in asked:
        (kind, shape), said = expected[name], answers[name]
        types = {int: jnp.integer, bool: jnp.bool_, float: jnp.floating}[kind]
        if name == "symbol" and _is_vector(said):
            continue
        if not hasattr(said, "dtype") or not jnp.issubdtype(said.dtype, types) or said.shape != shape:
            got = f"{said.dtype}{list(said.shape)}" if hasattr(said, "dtype") else type(said).__name__
            other = " or float[k]" if name == "symbol" else ""
            raise UserError(f"{name}: expected {kind.__name__}{list(shape)}{other}, got {got}")


def _is_vector(said: Any) -> bool:
    return hasattr(said, "dtype") and jnp.issubdtype(said.dtype, jnp.floating) and len(said.shape) == 1


def check_step(task: Task) -> None:
    """Raise a ValueError that names what `step_env` makes of another type or shape than `reset_env` does."""
    if hasattr(task.env, "state_from_id"):
        return
    key = jax.random.key(0)
    before = jax.eval_shape(task.reset, key)
    after = jax.eval_shape(lambda: task.step(key, task.reset(key), jnp.int32(0))[0])
    first, then = (jax.tree_util.tree_flatten_with_path(state)[0] for state in (before, after))
    if [path for path, _ in first] != [path for path, _ in then]:
        raise UserError("task.env: expected step_env to return a state with the fields of the one it is given")
    for (path, old), (_, new) in zip(first, then, strict=True):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise UserError(
                f"task.env: expected step_env to keep the type of state{jax.tree_util.keystr(path)}, "
                f"{old.dtype}{list(old.shape)}, got {new.dtype}{list(new.shape)}"
            )


def check_agent(task: Task) -> None:
    """Raise a TypeError where P_A is no pytree, and a ValueError where its first step gives no log-probabilities."""
    policy = task.policy
    if isinstance(policy, TablePolicy):
        _check_rows(policy.probs, getattr(task.params, "next_state", None))
        return
    if any(leaf is policy for leaf in jax.tree.leaves(policy)):
        raise TypeError(f"policy: expected a pytree, got {type(policy).__name__}; make it a flax.struct.dataclass")
    shape = jax.eval_shape(_first_log_probs, task).shape
    if shape != (task.num_actions,):
        raise UserError(f"policy.step: expected {task.num_actions} log-probabilities, one an action, got shape {shape}")
    log_probs = np.asarray(_first_log_probs(task))
    if np.isnan(log_probs).any():
        raise UserError(
            "policy.step: expected log-probabilities, got NaN in the first state; a temperature of 0, or weights that "
            "are no numbers, make it"
        )
    total = float(jax.nn.logsumexp(log_probs))
    if not total <= MOST_LOG_PROB:
        raise UserError(
            "policy.step: expected log-probabilities, whose exponentials sum to 1 at most, got a sum of "
            f"{np.exp(total):.4g} in the first state; jax.nn.log_softmax makes them of any numbers"
        )


def _check_rows(probs: Any, next_state: Any) -> None:
    """Raise a ValueError where a ragged P_A has other rows than a ragged world."""
    if not (isinstance(probs, Ragged) and isinstance(next_state, Ragged)):
        return
    own, world = (np.diff(np.asarray(table.first)) for table in (probs, next_state))
    if probs.times == next_state.times and not np.array_equal(own, world):
        i = int(np.flatnonzero(own != world)[0]) if own.shape == world.shape else min(len(own), len(world))
        raise UserError(f"policy.probs: expected a pprjax.Ragged whose rows are the world's, got another row {i}")


@jax.jit
def _first_log_probs(task: Task) -> Float[Array, " A"]:
    return task.log_probs(task.policy.init(), task.reset(jax.random.key(0)))[1]


def check_paths(originals: Paths) -> None:
    """Raise a TypeError for what is no Paths."""
    if not isinstance(originals, Paths):
        raise TypeError(
            f"originals: expected pprjax.Paths, got {type(originals).__name__}; pprjax.Paths.from_lists makes them"
        )


def check_key(key: Any) -> None:
    """Raise a ValueError for what is not one key of `jax.random`."""
    try:
        single = jax.random.key_data(key).ndim == 1
    except (TypeError, ValueError):
        single = False
    if not single:
        raise UserError(f"key: expected one key, jax.random.key(0) for example, got {key!r}")


def check_task(task: Task, originals: Paths, objective: Objective = Objective()) -> None:
    """Raise a ValueError or a TypeError for a world, an agent or starts of paths that no method can work with."""
    check_world(task)
    check_agent(task)
    check_symbols(task, originals, objective)
    check_starts(task, originals)
    check_actions(task, originals)
    check_goal(task)
    check_own_steps(objective, task.constraints)


def check_actions(task: Task, paths: Paths, name: str = "originals") -> None:
    """Raise a ValueError that names the first action which the world does not have."""
    if paths.actions is None:
        return
    actions, lengths = np.asarray(paths.actions), np.asarray(paths.lengths)
    valid = np.arange(actions.shape[1]) < lengths[:, None] - 1
    bad = np.argwhere(valid & ((actions < 0) | (actions >= task.num_actions)))
    if bad.size:
        b, t = bad[0]
        raise UserError(
            f"{name}.actions[{b}][{t}]: expected an action in [0, {task.num_actions - 1}], got {actions[b, t]}"
        )


def check_goal(task: Task) -> None:
    """Raise a ValueError where `ends_in` names states that the world does not have."""
    size = task.num_states
    if not isinstance(task.goal, EndsIn) or size is None:
        return
    states = np.asarray(task.goal.states)
    if states.dtype == bool and states.shape[-1] != size:
        raise UserError(f"goal: expected a mask bool[{size}], one for each state, got bool[{states.shape[-1]}]")
    if states.dtype != bool and states.max() >= size:
        raise UserError(f"goal: expected numbers of states in [0, {size - 1}], got {states.max()}")


def check_starts(task: Task, originals: Paths) -> None:
    """Raise a ValueError that names the first original which does not start where the world does."""
    start = np.asarray(task.symbol(task.reset(jax.random.key(0))))
    if start.ndim:
        check_numbers(start[None], "the first state")
    elif start < 0:
        raise UserError(f"symbol: expected an integer in [0, 2147483647], got {start} in the first state")
    firsts = np.asarray(originals.symbols)[:, 0]
    wrong = np.flatnonzero(~np.asarray(alike(firsts, start)))
    if wrong.size:
        raise UserError(f"originals[{wrong[0]}]: expected the world's start, symbol {start}, got {firsts[wrong[0]]}")


def check_symbols(task: Task, paths: Paths, objective: Objective, name: str = "originals") -> None:
    """Raise a ValueError that names what does not go with symbols of this type: the paths, the distance, its scale, a
    constraint, or free own steps."""
    own, size, costs = task.symbol_type, paths.vector_size, objective.costs
    said = f"float[{own.shape[0]}]" if own.shape else "integers"
    if (size or ()) != (own.shape[0] if own.shape else ()):
        got = "integers" if size is None else f"float[{size}]"
        raise UserError(f"{name}: expected symbols as the world's `symbol` gives them, {said}, got {got}")
    if not own.shape:
        if isinstance(costs, RealCosts):
            raise UserError('distance: "real" compares vectors, but symbols are integers; expected "edit"')
        return
    symbols = np.asarray(paths.symbols)
    for i in np.flatnonzero(np.isnan(symbols).any((1, 2)))[:1]:
        check_numbers(symbols[i], f"{name}[{i}]")
    if not isinstance(costs, RealCosts):
        raise UserError(
            f'distance: symbols are vectors, {said}, so expected "real" with a scale for each coordinate, got '
            f"{costs.distance!r}"
        )
    if len(costs.scale) != own.shape[0]:
        raise UserError(f"scale: expected {own.shape[0]} numbers, one a coordinate of {said}, got {costs.scale}")
    if objective.own_steps == "free":
        raise UserError('own_steps: no step between vectors is ever met again exactly; expected "charged", got "free"')
    for field in ("forbidden_states", "forbidden_transitions", "keep", "rules"):
        value = None if task.constraints is None else getattr(task.constraints, field)
        if value is not None and len(value):
            raise UserError(f"constraints.{field}: names symbols, which are integers, but they are vectors, {said}")


def check_numbers(symbols: np.ndarray, where: str) -> None:
    """Raise a ValueError that names the first NaN of symbols float[*b, T, k], and its step; integers have none."""
    if symbols.dtype.kind != "f" or not np.isnan(symbols).any():
        return
    *_, t, i = np.argwhere(np.isnan(symbols))[0]
    raise UserError(f"symbol: expected finite numbers, got NaN as number {i} of step {t} of {where}")
