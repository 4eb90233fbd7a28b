"""BL1: the best that few changes of action could have made of an observed path.

Tsirtsis, De and Gomez-Rodriguez, Counterfactual Explanations in Sequential Decision Making Under Uncertainty, NeurIPS
2021. In the counterfactual MDP of the path, with v(s, t, k) the best expected reward from state s and step t on when at
most k actions may still differ from the observed a_t,

    v(s, t, k) = max { R(s, a) + Σ_s' P_cf(s' | t, a, s)·v(s', t + 1, k - [a ≠ a_t]) },    v(s, T, k) = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from pprjax import metrics
from pprjax.baselines.counterfactual import check_num_samples, observed_step, step_probabilities
from pprjax.baselines.padded import Padded
from pprjax.baselines.planning_world import (
    Moves,
    Observed,
    deterministic_world,
    moves,
    observed_in_deterministic,
    observed_in_stochastic,
    stochastic_world,
)
from pprjax.errors import UserError
from pprjax.finite_world import UNAVAILABLE, FiniteWorld
from pprjax.paths import PAD, Paths
from pprjax.successors import tells_chances
from pprjax.task import Task

_STEPS = 8  # paths are padded to a multiple of this many steps, so that batches share a compilation
_BATCH_FLOATS = 2**23  # of values or probabilities held at once: originals are worked through in batches
_ROUNDING = 1e-5  # relative: one more change that gains no more than this gains nothing


@struct.dataclass
class ActionChanges:
    """The best few changes of B originals. K = max_changes, T = steps of the longest. Arrays on the host."""

    reward: np.ndarray  # float[B, K + 1], the best expected R_goal for at most k changes; -inf where not valid
    policy: (
        np.ndarray
    )  # int[B, T, S, K + 1], the best action at step t in a state (by id) with k changes left; PAD: none
    changes: np.ndarray  # int32[B], the k of `paths`: the fewest changes that gain the most
    paths: Paths  # one realized path under the policy, with its actions; the start alone where not valid
    realized: np.ndarray  # float[B], R_goal of `paths`: in a deterministic world reward[:, changes]
    valid: np.ndarray  # bool[B], the original can be followed: its actions are there and lead along its symbols
    status: np.ndarray  # str[B], of `paths`: see `pprjax.metrics.status`; "invalid" where not valid

    def __len__(self) -> int:
        return len(self.valid)


def action_change_values(
    p_counterfactual: Float[Array | np.ndarray, "T A S S"],
    reward: Float[Array | np.ndarray, "A S"],
    actions: Int[Array | np.ndarray, " T"],
    start: Int[Array | np.ndarray, ""] | int,
    max_changes: int,
) -> Float[Array, " k"]:
    """The best expected reward when at most k of the observed actions change, for k = 0 … max_changes.

    O(T·K·A·S²). Computed in the precision of the arguments.

    Args:
        p_counterfactual: P_cf[t, a, s, s'], as from `counterfactual_probabilities`.
        reward: R[a, s], paid at each of the T steps; -inf: the action is not available, and no plan may risk it.
        actions: a_0 … a_{T-1} as observed; PAD after the end.
        start: the first state.
        max_changes: K, at least 0.

    Returns:
        float[K + 1], which never falls in k.

    Raises:
        ValueError: a shape, an action or the start does not fit, or max_changes is below 0.
    """
    p_counterfactual, reward, actions = map(jnp.asarray, (p_counterfactual, reward, actions))
    if actions.ndim != 1 or reward.ndim != 2:
        raise UserError(f"reward, actions: expected float[A, S] and int[T], got {reward.shape} and {actions.shape}")
    num_actions, num_states = reward.shape
    shape = (actions.shape[0], num_actions, num_states, num_states)
    if p_counterfactual.shape != shape:
        raise UserError(f"p_counterfactual: expected shape {shape}, got {p_counterfactual.shape}")
    _check_range("actions", actions, PAD, num_actions)
    _check_range("start", start, 0, num_states)
    _check_changes(max_changes)
    return _values(p_counterfactual, reward, actions, start, max_changes=max_changes)


def action_changes(
    task: Task,
    originals: Paths,
    *,
    max_changes: int,
    key: jax.Array | None = None,
    num_samples: int | None = 1000,
) -> ActionChanges:
    """The best use of at most k changes of action, for each original and k = 0 … max_changes, and a path it leads to.

    A recourse takes as many steps as its original; where the world ends a path, or no action is available, it stays.
    Plans that may meet an action which is not available are excluded. Of all k the one of the highest reward is taken,
    the smallest of several. So a short original may not get to the goal: `status` says so.

    Args:
        task: a finite world. In a deterministic one P_cf is the world itself and nothing is sampled. A stochastic one
            needs `successors(params)` → `pprjax.Successors`, or `transition_probs(params)` → float[S, A, S], and
            `state_from_id(id, params)`, symbols that tell its states apart, and rewards that depend on state and action
            alone. P_A only chooses between actions that look alike.
        originals: B paths with their actions. In a deterministic world actions may be missing: the likeliest under P_A
            that lead along the symbols are taken.
        max_changes: K, at least 0.
        key: not consumed; original i uses fold_in(key, i). A deterministic world needs none.
        num_samples: of the noise of each step; None: P_cf exactly (see `counterfactual_probabilities`).

    Raises:
        ValueError: the world is not finite, or has chance and does not tell where it leads, or symbols that several
            states share; S·A·K is above 2²⁷, where a step leads to K states at most; a stochastic world comes with
            originals without actions or without a key; max_changes is below 0, or num_samples below 1.
    """
    _check_changes(max_changes)
    check_num_samples(num_samples)
    told = stochastic_world(task) if tells_chances(task.env) else None
    steps = -(-max(int(np.max(originals.lengths)) - 1, 1) // _STEPS) * _STEPS
    padded = originals.padded_to(steps + 1)
    if told is None:
        world, chances = deterministic_world(task), None
        observed = observed_in_deterministic(task, world, padded)
        num_samples, key = None, jax.random.key(0) if key is None else key
    else:
        if key is None:
            raise UserError("key: a stochastic world needs one, got None")
        world, chances = told
        if np.unique(world.symbol).size < world.num_rows:
            raise UserError("task.env: expected a symbol of its own for each state of a stochastic world")
        observed = observed_in_stochastic(task, world, chances, padded)
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(len(originals)))
    options = dict(max_changes=max_changes, num_samples=num_samples)
    plans = jax.device_get(_solve(task, world, chances, observed, keys, **options))
    return _assemble(task, world, originals, observed.valid, plans)


@struct.dataclass
class _Plan:
    """What is found for one original."""

    reward: Any  # float[K + 1]
    policy: Any  # int[T, N, K + 1]
    changes: Any  # int32[]
    symbols: Any  # int32[T + 1], the realized path
    actions: Any  # int32[T]
    realized: Any  # float[]
    unchanged: Any  # bool[], the realized path is the original
    terminated: Any  # bool[]
    reached: Any  # bool[]
    met: Any  # bool[]


@partial(jax.jit, static_argnames=("max_changes", "num_samples"))
def _solve(
    task: Task,
    world: FiniteWorld,
    chances: Padded | None,
    observed: Observed,
    keys: jax.Array,
    *,
    max_changes: int,
    num_samples: int | None,
) -> _Plan:
    """A plan for each original, some side by side and some after another, to bound the memory."""
    num_floats = world.reward.size * (max_changes + 1)
    if chances is not None:
        num_floats += chances.probs.size + world.reward.size * (num_samples or 0)
    moved = moves(world)
    return jax.lax.map(
        lambda x: _solve_one(task, (world, moved, chances), max_changes, num_samples, *x),
        (observed, keys),
        batch_size=min(len(keys), max(1, _BATCH_FLOATS // num_floats)),
    )


def _solve_one(
    task: Task,
    known: tuple[FiniteWorld, Moves, Padded | None],
    max_changes: int,
    num_samples: int | None,
    observed: Observed,
    key: jax.Array,
) -> _Plan:
    world, moved, chances = known
    key_noise, key_path = jax.random.split(key)
    start = jnp.maximum(observed.states[0], 0)
    keys = jax.random.split(key_noise, len(observed.actions))
    noise = observed.states[:-1], observed.actions, observed.states[1:], keys

    def expected(noise, value):
        if chances is None:
            return value[moved.next_state]
        return _expected_of(chances, num_samples, noise, value)

    value, policy = _programme(moved.reward, observed.actions, max_changes, expected, noise)
    reward = value[start]
    changes = jnp.argmax(reward >= reward[-1] - _ROUNDING * jnp.abs(reward).max()).astype(jnp.int32)

    def step(carry, x):
        state, left, earned, magnitude = carry
        action_observed, actions, noise, uniform = x
        action = actions[state, left].astype(jnp.int32)
        goes_on = (action != PAD) & ~moved.stops[state]
        next_state = _following(moved, chances, num_samples, state, action, noise, uniform)
        paid = moved.reward[action, state]
        after = (next_state, left - (action != action_observed), earned + paid, magnitude + jnp.abs(paid))
        carry = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, carry)
        return carry, (jnp.where(goes_on, world.symbol[next_state], PAD), jnp.where(goes_on, action, PAD))

    uniform = jax.random.uniform(key_path, observed.actions.shape)
    nothing = jnp.zeros((), reward.dtype)
    (final, _, earned, magnitude), (symbols, actions) = jax.lax.scan(
        step, (start, changes, nothing, nothing), (observed.actions, policy, noise, uniform)
    )
    symbols = jnp.concatenate([world.symbol[start][None], symbols])
    outcome = task.outcome(jax.tree.map(lambda x: x[final], world.states), world.ended[final], earned, magnitude)
    own = jnp.where(observed.actions == PAD, 0.0, moved.reward[observed.actions, observed.states[:-1]])
    return _Plan(
        reward=reward,
        policy=policy,
        changes=changes,
        symbols=symbols,
        actions=actions,
        realized=earned,
        unchanged=jnp.all(symbols == observed.symbols),
        terminated=world.ended[final],
        reached=outcome.reached,
        met=jnp.bool_(True) if task.goal is None else task.goal.of(own.sum(), jnp.abs(own).sum())(outcome),
    )


def _programme(
    reward: Float[Array, "A S"],
    actions: Int[Array, " T"],
    max_changes: int,
    expected: Callable[[Any, Float[Array, "S k"]], Float[Array, "A S k"]],
    of_step: Any,
) -> tuple[Float[Array, "S k"], Int[Array, "T S k"]]:
    """v(s, 0, k) and the policy. `expected(of_step[t], v_{t+1})` is the mean of v_{t+1} after each action."""
    num_actions, num_states = reward.shape
    index = jnp.int8 if num_actions <= 127 else jnp.int32  # the policy is the largest of the results

    def one_more(x, first):
        """Of k - 1 changes left, as a function of k: one change is spent."""
        return jnp.concatenate([jnp.full((num_states, 1), first, x.dtype), x[:, :-1]], axis=1)

    def step(value, x):
        action, own = x
        q = reward[..., None] + expected(own, value)
        keep = q[action]
        others = jnp.where(jnp.arange(num_actions)[:, None, None] == action, -jnp.inf, q)
        change = one_more(others.max(axis=0), -jnp.inf)
        choice = jnp.where(keep >= change, action, one_more(jnp.argmax(others, axis=0), PAD))
        best = jnp.where(action == PAD, value, jnp.maximum(keep, change))
        return best, jnp.where(action == PAD, PAD, choice).astype(index)

    value = jnp.zeros((num_states, max_changes + 1), reward.dtype)
    return jax.lax.scan(step, value, (actions, of_step), reverse=True)


def _expected(probs: Float[Array, "A S S"], value: Float[Array, "S k"]) -> Float[Array, "A S k"]:
    """Σ_s' P(s' | s, a)·v(s'); -inf where a state from which no plan is valid has a chance."""
    lost = jnp.isneginf(value)
    mean, risk = (
        jnp.matmul(probs, x, precision=jax.lax.Precision.HIGHEST)  # not in a GPU's TF32
        for x in (jnp.where(lost, 0.0, value), lost.astype(value.dtype))
    )
    return jnp.where(risk > 0, -jnp.inf, mean)


def _expected_of(
    chances: Padded, num_samples: int | None, noise: Any, value: Float[Array, "S k"]
) -> Float[Array, "A S k"]:
    """The same in the counterfactual world of a step, given its state, action, next state and key."""
    probs = step_probabilities(chances.states, chances.probs, observed_step(chances, *noise), num_samples)
    lost = jnp.isneginf(value)
    ahead, astray = jnp.where(lost, 0.0, value)[chances.states], lost[chances.states] & (probs[..., None] > 0)
    mean = jnp.sum(probs[..., None] * ahead, axis=-2)
    return jnp.moveaxis(jnp.where(astray.any(-2), -jnp.inf, mean), 0, 1)


def _following(
    moved: Moves, chances: Padded | None, num_samples: int | None, state: Any, action: Any, noise: Any, uniform: Any
) -> Int[Array, ""]:
    """The next state on a realized path: one drawn from P_cf, where there is chance; uniform float[] in [0, 1)."""
    if chances is None:
        return moved.next_state[action, state]
    states, probs = chances.states[state, action], chances.probs[state, action]
    cumulative = jnp.cumsum(step_probabilities(states, probs, observed_step(chances, *noise), num_samples))
    drawn = jnp.sum(uniform * cumulative[-1] >= cumulative, dtype=jnp.int32)
    return states[jnp.minimum(drawn, len(probs) - 1)]


@partial(jax.jit, static_argnames="max_changes")
def _values(p_counterfactual, reward, actions, start, *, max_changes):
    dtype = jnp.result_type(p_counterfactual, reward, jnp.float32)
    value, _ = _programme(reward.astype(dtype), actions, max_changes, _expected, p_counterfactual.astype(dtype))
    return value[start]


def _assemble(
    task: Task, world: FiniteWorld, originals: Paths, valid: Bool[np.ndarray, " B"], plans: _Plan
) -> ActionChanges:
    steps = max(int(np.max(originals.lengths)) - 1, 0)
    goes_on = np.flatnonzero((np.asarray(world.next_state) != UNAVAILABLE).any(1))
    found = np.asarray(plans.policy)[:, :steps]
    policy = np.full((*found.shape[:2], task.env.num_states, found.shape[3]), PAD, found.dtype)
    policy[:, :, np.asarray(world.state_id)[goes_on]] = found[:, :, goes_on]
    symbols = np.where(np.arange(steps + 1) == 0, np.asarray(originals.symbols)[:, :1], plans.symbols[:, : steps + 1])
    ended = metrics.status(
        distance=np.where(plans.unchanged, 0, 1),
        reached=plans.reached,
        terminated=plans.terminated,
        met=None if task.goal is None else plans.met,
    )
    return ActionChanges(
        reward=np.where(valid[:, None], plans.reward, -np.inf),
        policy=policy,
        changes=np.asarray(plans.changes),
        paths=Paths(symbols, np.sum(symbols != PAD, axis=1, dtype=np.int32), np.asarray(plans.actions)[:, :steps]),
        realized=np.where(valid, plans.realized, -np.inf),
        valid=valid,
        status=np.where(valid, ended, "invalid"),
    )


def _check_changes(max_changes: int) -> None:
    if max_changes < 0:
        raise UserError(f"max_changes: expected at least 0, got {max_changes}")


def _check_range(name: str, values: Any, low: int, high: int) -> None:
    if isinstance(values, Tracer):
        return  # inside jit or vmap there is nothing to look at
    bad = [int(x) for x in np.ravel(values) if not low <= x < high]
    if bad:
        raise UserError(f"{name}: expected integers in [{low}, {high - 1}], got {bad[0]}")
