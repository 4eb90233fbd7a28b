"""Rollouts: environment, agent, edit distance and rewards in one scan. Unbatched; `vmap` gives lanes and originals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Num

from pprjax import edit_distance
from pprjax.config import Config
from pprjax.constraints import violations
from pprjax.edit_distance import RealCosts
from pprjax.goals import Goal
from pprjax.likeliest import all_steps, likeliest_actions
from pprjax.objective import Objective
from pprjax.paths import PAD, alike, fill_of
from pprjax.policy import ragged_of
from pprjax.reward import similarity, spared
from pprjax.ruled import without_rules
from pprjax.task import State, Task

Values = Callable[[Array, Int[Array, ""], Int[Array, ""], Int[Array, ""]], Float[Array, " A"]]
"""What a lane maximizes: (observation, position j, time t, row of the visit counts) -> float[A]."""


FEW_ACTIONS = 8
"""Actions up to which their probabilities are summed one by one, in registers."""


TIE = 1e-6
"""The share of its size by which one vector is no nearer than another: float32 tells no more."""


@struct.dataclass
class Original:
    """The path to be edited. n symbols at most, T = horizon."""

    symbols: jax.Array  # int32[n], PAD after the end; or float32[n, k], inf after it
    length: jax.Array  # int32[], symbols
    actions: jax.Array  # int32[T], what follows it; PAD from where it ends or can't be followed
    followed: jax.Array  # bool[], whether the world can follow it to its end
    r_goal: jax.Array  # float[], R_goal of the path; -inf where it can't be followed
    goal: Goal | None  # the task's goal for this path
    kept: jax.Array | None = None  # int32[K], symbols that must stay, PAD after the last; None: none must


@struct.dataclass
class Behaviour:
    """How one lane chooses its T actions, as data: the first of these that applies at step t."""

    forced: jax.Array  # int32[T], this action, if it is available; PAD: none
    explore: jax.Array  # bool[T], sample: by `uniform`, from P_A or evenly; else maximize the values
    from_policy: jax.Array  # bool[], sample from P_A rather than evenly
    uniform: jax.Array  # float[T], in [0, 1)


@struct.dataclass
class Trajectory:
    """One sampled path. T = horizon; entries after the end are PAD or 0."""

    symbols: jax.Array  # int32[T + 1] or float32[T + 1, k], the start included
    actions: jax.Array  # int32[T]
    observations: jax.Array  # [T + 1, ...], what the Q-network sees
    available: Any  # bool[T + 1, A]; None where the task `recalls`
    rows: jax.Array  # int32[T], the row of the visit counts
    positions: jax.Array  # int32[T + 1], j: the position in τ₀ of the best alignment so far
    rewards: jax.Array  # float[T], what the learner is paid at each step
    num_actions: jax.Array  # int32[], actions taken
    terminated: jax.Array  # bool[], ended by the world and not by the horizon
    reached: jax.Array  # bool[], the world's own goal is reached
    met: jax.Array  # bool[], the task's goal is met, if there is one, and every constraint is kept
    r_goal: jax.Array  # float[], R_goal
    r_policy: jax.Array  # float[], R_policy
    log_prob: jax.Array  # float[], Σ log P_A of the actions taken
    distance: jax.Array  # d(τ₀, τ)
    reward: jax.Array  # float[], R (Eq. 5)
    violations: jax.Array | None = None  # int32[], of the constraints; None where there are none


@struct.dataclass
class _Lane:
    state: Any
    carry: Any
    column: edit_distance.Column
    smallest: jax.Array  # m, the smallest entry of the column
    position: jax.Array  # j
    terminated: jax.Array
    r_goal: jax.Array
    r_policy: jax.Array


@struct.dataclass
class _Step:
    """What is kept of step t; the rest of a trajectory follows from it when the scan is done."""

    taken: jax.Array  # bool[], whether an action was taken
    observation: jax.Array  # of s_t
    available: Any  # bool[A], in s_t; None where the task `recalls`
    row: jax.Array  # of s_t
    position: jax.Array  # j at s_t
    smallest: jax.Array  # m, the smallest entry of the column, at s_t
    action: jax.Array
    log_prob: jax.Array  # of the action
    habit: jax.Array  # its share of R_policy
    reward: jax.Array  # the environment's
    symbol: jax.Array  # of s_{t+1}


def rollout(
    task: Task,
    original: Original,
    behaviour: Behaviour,
    config: Config,
    key: jax.Array,
    *,
    values: Values | None = None,
    bucket: Callable[[State], Int[Array, ""]] | None = None,
) -> Trajectory:
    """One path of at most T = task.horizon actions.

    The learner is paid r_t = R_goal's share + λ_policy·R_policy's share and, for R_path, either λ_path·f_sim on the
    last step or, telescoped, at each step the change of λ_path / (m + 1), settled to the true distance on the last.
    Telescoped, the sum is R - λ_path, since the λ_path / (0 + 1) of the start is no action's doing.

    Args:
        values: what a lane maximizes where it neither follows nor explores; None where it always does.
        bucket: the row of the visit counts that a state belongs to; None leaves `rows` 0.
        key: consumed by stochastic worlds only.
    """
    objective = config.objective
    tracks = values is not None and (config.alignment_aware or config.telescoped)
    lookup = _lookup(task, original, objective, tracks=tracks)

    def kept(available):
        return None if recalls(task) else available

    def step(lane: _Lane, x):
        t, forced, explore, uniform = x
        carry, log_probs = task.log_probs(lane.carry, lane.state)
        available = lookup.available(lane.state) & task.affordable(lane.state, log_probs)
        observation = task.observation(lane.state)
        taken = ~lane.terminated & available.any()
        row = jnp.int32(0) if bucket is None else bucket(lane.state)
        action = _sample(jnp.where(behaviour.from_policy, task.probs(lane.state, log_probs), 1.0) * available, uniform)
        if values is not None:
            q = jnp.where(available, values(observation, lane.position, t, row), -jnp.inf)
            action = jnp.where(explore, action, jnp.argmax(q).astype(jnp.int32))
        action = jnp.where((forced >= 0) & available[jnp.maximum(forced, 0)], forced, action)

        state, reward, terminated = task.step(jax.random.fold_in(key, t), lane.state, action)
        column = edit_distance.append(lane.column, lookup.match(state), objective.costs)
        smallest, position = lookup.measure(column)
        habit = lookup.charge(lane.state, action, log_probs, state)
        moved = _Lane(
            state=state, carry=carry, column=column, smallest=smallest, position=position,
            terminated=terminated, r_goal=lane.r_goal + reward, r_policy=lane.r_policy + habit,
        )  # fmt: skip
        record = _Step(
            taken=taken, observation=observation, available=kept(available), row=row, position=lane.position,
            smallest=lane.smallest, action=action, log_prob=log_probs[action], habit=habit, reward=reward,
            symbol=task.symbol(state),
        )  # fmt: skip
        return jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, lane), record

    state = task.reset(key)
    first = task.symbol(state)
    column = edit_distance.append(
        edit_distance.start(original.symbols, objective.costs), lookup.match(state), objective.costs
    )
    smallest, position = lookup.measure(column)
    zero = jnp.zeros((), jnp.result_type(float))
    lane = _Lane(
        state=state, carry=task.policy.init(), column=column, smallest=smallest, position=position,
        terminated=jnp.bool_(False), r_goal=zero, r_policy=zero,
    )  # fmt: skip
    inputs = (jnp.arange(task.horizon), behaviour.forced, behaviour.explore, behaviour.uniform)
    lane, steps = jax.lax.scan(step, lane, inputs)
    available = lookup.available(lane.state) & task.affordable(lane.state, task.log_probs(lane.carry, lane.state)[1])
    return _trajectory(task, original, config, first, lane, steps, kept(available))


def recalls(task: Task) -> bool:
    """Whether what is available in a state is asked of its id, and not kept with each step: where P_A is ragged."""
    return ragged_of(task.policy) is not None and hasattr(task.env, "state_from_id")


def offered(task: Task, number: Int[Array, ""]) -> Bool[Array, " A"]:
    """Which actions there are in the state of this id, and break no constraint, where the task `recalls`."""
    state = task.env.state_from_id(number, task.params)
    return task.available(state) & task.affordable(state, task.log_probs(task.policy.init(), state)[1])


class _Lookup(NamedTuple):
    """What a step asks of world and original; tables of small worlds are made once and not in every step."""

    match: Callable[[State], Array]  # where τ₀ has the symbol of a state
    available: Callable[[State], Array]  # bool[A]
    charge: Callable[[State, Array, Array, State], Array]  # (state, action, log P_A, next state) -> of R_policy
    measure: Callable[[edit_distance.Column], tuple[Array, Array]]  # m and j of a column; 0 where nobody asks


def _lookup(task: Task, original: Original, objective: Objective, *, tracks: bool) -> _Lookup:
    costs, symbols = objective.costs, task.symbol_table()
    table = (
        None if symbols is None else jax.vmap(partial(edit_distance.matches, original.symbols, costs=costs))(symbols)
    )
    allowed, habits = task.available_table(), task.habit_table(objective.habit)

    def match(state):
        if table is not None:
            return table[task.state_id(state)]
        return edit_distance.matches(original.symbols, task.symbol(state), costs)

    def available(state):
        return task.available(state) if allowed is None else allowed[task.state_id(state)]

    def charge(state, action, log_probs, after):
        habit = task.charge(state, action, log_probs, objective.habit, habits)
        return spared(habit, original.symbols, task.symbol(state), task.symbol(after), objective.own_steps)

    def measure(column):
        if not tracks:
            return jnp.zeros((), jnp.int32 if costs.unit else jnp.result_type(float)), jnp.int32(0)
        return edit_distance.alignment(column, original.symbols, original.length, costs)

    return _Lookup(match, available, charge, measure)


def _trajectory(
    task: Task,
    original: Original,
    config: Config,
    first: Int[Array, ""],
    lane: _Lane,
    steps: _Step,
    available: Bool[Array, " A"] | None,
) -> Trajectory:
    """What a lane leaves when its T steps are done; `first` is the start's symbol, `available` of the final state."""
    taken, objective = steps.taken, config.objective
    num_actions = jnp.sum(taken, dtype=jnp.int32)
    distance = edit_distance.distance(lane.column, original.length, objective.costs)
    last = jnp.arange(task.horizon) == num_actions - 1
    if config.telescoped:
        after = jnp.concatenate([steps.smallest[1:], lane.smallest[None]])
        path = jnp.where(last, similarity(distance), similarity(after)) - similarity(steps.smallest)
    else:
        path = jnp.where(last, similarity(distance), 0.0)
    paid = steps.reward + objective.lambda_policy * steps.habit + objective.lambda_path * path
    magnitude = jnp.sum(jnp.where(taken, jnp.abs(steps.reward), 0.0))
    outcome = task.outcome(lane.state, lane.terminated, lane.r_goal, magnitude)
    met = jnp.bool_(True) if original.goal is None else original.goal(outcome)
    valid = taken.reshape(-1, *[1] * first.ndim)
    symbols = jnp.concatenate([first[None], jnp.where(valid, steps.symbol, fill_of(first))])
    actions = jnp.where(taken, steps.action, PAD)
    broken = violations(task.constraints, original.kept, symbols, actions, distance)
    met = met if broken is None else met & (broken == 0)
    reward = objective.reward(lane.r_goal, lane.r_policy, distance)
    if isinstance(objective.costs, RealCosts):  # what is no number must show: above all else
        unknown = jnp.isnan(symbols).any()
        met, reward = met | unknown, jnp.where(unknown, jnp.inf, reward)
    return Trajectory(
        symbols=symbols,
        actions=actions,
        observations=jnp.concatenate([steps.observation, task.observation(lane.state)[None]]),
        available=None if available is None else jnp.concatenate([steps.available, available[None]]),
        rows=steps.row,
        positions=jnp.concatenate([steps.position, lane.position[None]]),
        rewards=jnp.where(taken, paid, 0.0),
        num_actions=num_actions,
        terminated=lane.terminated,
        reached=outcome.reached,
        met=met,
        violations=broken,
        r_goal=lane.r_goal,
        r_policy=lane.r_policy,
        log_prob=jnp.sum(jnp.where(taken, steps.log_prob, 0.0)),
        distance=distance,
        reward=reward,
    )


def trace(
    task: Task,
    symbols: Num[Array, "n ..."],
    length: Int[Array, ""],
    key: jax.Array,
    actions: Int[Array, " n-1"] | None = None,
) -> Original:
    """An original path as the world sees it: which actions lead along its symbols, and what they earn.

    Constraints bind a recourse and not what happened: the original is followed through whatever they forbid.

    Where the actions are not known, it is the likeliest way of the path as a whole that counts, of equally likely ones
    the best rewarded (see `pprjax.likeliest`). That takes a table of the world, and a P_A without memory: a world that
    says `deterministic = True`, with `state_id` and `state_from_id` and at most 4,096 states. Elsewhere the likeliest
    action that leads to the next symbol is taken each time, without looking ahead.

    Where symbols are vectors, that is the action that leads nearest to the next one, of those as near the likeliest.
    The world follows a path as long as its own symbols are `pprjax.paths.alike`: within 0.001 of each number beside 1
    and its size, for float32 does not repeat them exactly.

    Args:
        actions: the actions taken, PAD after the end; None: not known.
    """
    n, horizon = symbols.shape[0], task.horizon
    task = without_rules(task).replace(constraints=None)
    choices = jnp.arange(task.num_actions)
    actions = actions if n > 1 else None  # a start alone has none, and no way to look for
    steps = all_steps(task) if actions is None and n > 1 and symbols.ndim == 1 else None
    plan = None if steps is None else likeliest_actions(steps, symbols, length)

    def step(lane, t):
        state, carry, r_goal, magnitude, followed, terminated = lane
        carry, log_probs = task.log_probs(carry, state)
        available = task.available(state)
        step_key = jax.random.fold_in(key, t)
        inside = (t + 1 < length) & followed & ~terminated
        if actions is not None:
            action = jnp.maximum(actions[t], 0)
        elif plan is not None:
            action = jnp.maximum(plan[t, task.state_id(state)], 0)
        else:
            after = jax.vmap(lambda a: task.symbol(task.step(step_key, state, a)[0]))(choices)
            usable = _leads(after, symbols[t + 1], available)
            action = jnp.argmax(jnp.where(usable, jnp.maximum(log_probs, -1e30), -jnp.inf)).astype(jnp.int32)
        next_state, reward, ended = task.step(step_key, state, action)
        fits = available[action] & alike(task.symbol(next_state), symbols[t + 1]) & inside
        after = (next_state, carry, r_goal + reward, magnitude + jnp.abs(reward), followed & fits, ended)
        lane = jax.tree.map(lambda new, old: jnp.where(fits, new, old), after, lane)
        lane = (*lane[:4], followed & (fits | (t + 1 >= length)), lane[5])
        return lane, jnp.where(fits, action, PAD)

    state = task.reset(key)
    starts = alike(task.symbol(state), symbols[0])
    zero = jnp.zeros((), jnp.result_type(float))
    lane = (state, task.policy.init(), zero, zero, starts, jnp.bool_(False))
    (_, _, r_goal, magnitude, followed, _), taken = jax.lax.scan(step, lane, jnp.arange(n - 1))
    taken = jnp.concatenate([taken, jnp.full(horizon, PAD, jnp.int32)])[:horizon]
    r_goal = jnp.where(followed, r_goal, -jnp.inf)
    goal = None if task.goal is None else task.goal.of(r_goal, magnitude)
    return Original(symbols=symbols, length=length, actions=taken, followed=followed, r_goal=r_goal, goal=goal)


def _leads(after: Num[Array, "A ..."], wanted: Num[Array, "*k"], available: Bool[Array, " A"]) -> Bool[Array, " A"]:
    """Which available actions lead to this symbol; to a vector, as near as any."""
    if after.ndim == 1:
        return (after == wanted) & available
    apart = jnp.max(jnp.abs(after - wanted) / (1.0 + jnp.abs(wanted)), axis=-1)
    apart = jnp.where(available, apart, jnp.inf)
    return available & (apart <= apart.min() + TIE)


def _sample(weights: Float[Array, " A"], uniform: Float[Array, ""]) -> Int[Array, ""]:
    """The action in whose share of the summed weights `uniform` falls."""
    num_actions = weights.shape[0]
    weights = jax.lax.optimization_barrier(weights)  # the barriers keep XLA from sampling again at each use
    if num_actions <= FEW_ACTIONS:
        cumulative = list(itertools.accumulate(weights[i] for i in range(num_actions)))
        chosen = sum((uniform * cumulative[-1] >= c).astype(jnp.int32) for c in cumulative)
    else:
        cumulative = jnp.cumsum(weights)
        chosen = jnp.sum(uniform * cumulative[-1] >= cumulative, dtype=jnp.int32)
    return jax.lax.optimization_barrier(jnp.minimum(chosen, num_actions - 1))
