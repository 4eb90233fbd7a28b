"""What a world and an agent must be, before any method starts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pprjax.errors import UserError
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
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
    expected = expected | {"available": (bool, (task.num_actions,))}
    asked = {name: getattr(task.env, name) for name in expected if hasattr(task.env, name)}
    answers = jax.eval_shape(lambda state: {name: ask(state, task.params) for name, ask in asked.items()}, state)
    for name in asked:
        (kind, shape), said = expected[name], answers[name]
        types = jnp.integer if kind is int else jnp.bool_
        if not hasattr(said, "dtype") or not jnp.issubdtype(said.dtype, types) or said.shape != shape:
            got = f"{said.dtype}{list(said.shape)}" if hasattr(said, "dtype") else type(said).__name__
            raise UserError(f"{name}: expected {kind.__name__}{list(shape)}, got {got}")


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
        return
    if any(leaf is policy for leaf in jax.tree.leaves(policy)):
        raise TypeError(f"policy: expected a pytree, got {type(policy).__name__}; make it a flax.struct.dataclass")
    shape = jax.eval_shape(_first_log_probs, task).shape
    if shape != (task.num_actions,):
        raise UserError(f"policy.step: expected {task.num_actions} log-probabilities, one an action, got shape {shape}")
    total = float(jax.nn.logsumexp(_first_log_probs(task)))
    if not total <= MOST_LOG_PROB:
        raise UserError(
            "policy.step: expected log-probabilities, whose exponentials sum to 1 at most, got a sum of "
            f"{np.exp(total):.4g} in the first state; jax.nn.log_softmax makes them of any numbers"
        )


@jax.jit
def _first_log_probs(task: Task) -> Float[Array, " A"]:
    return task.log_probs(task.policy.init(), task.reset(jax.random.key(0)))[1]


def check_paths(originals: Paths) -> None:
    """Raise a TypeError for what is no Paths."""
    if not isinstance(originals, Paths):
        raise TypeError(
            f"originals: expected pprjax.Paths, got {type(originals).__name__}; pprjax.Paths.from_lists makes them"
        )


def check_task(task: Task, originals: Paths) -> None:
    """Raise a ValueError or a TypeError for a world, an agent or starts of paths that no method can work with."""
    check_world(task)
    check_agent(task)
    check_starts(task, originals)


def check_starts(task: Task, originals: Paths) -> None:
    """Raise a ValueError that names the first original which does not start where the world does."""
    start = int(task.symbol(task.reset(jax.random.key(0))))
    if start < 0:
        raise UserError(f"symbol: expected an integer in [0, 2147483647], got {start} in the first state")
    firsts = np.asarray(originals.symbols)[:, 0]
    wrong = np.flatnonzero(firsts != start)
    if wrong.size:
        raise UserError(f"originals[{wrong[0]}]: expected the world's start, symbol {start}, got {firsts[wrong[0]]}")
