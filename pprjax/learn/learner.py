"""Algorithm 1: for one original, sample b paths an iteration, keep the k best, and fit Q on what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax import ladder
from pprjax.config import Config
from pprjax.ladder import Ladder, Wanted
from pprjax.learn import archive, exploration, ranking, replay
from pprjax.learn.archive import Archive
from pprjax.learn.networks import QNetwork
from pprjax.learn.reliable import reliable
from pprjax.learn.replay import Replay, Tuples
from pprjax.paths import PAD
from pprjax.rollout import Behaviour, Original, Trajectory, offered, recalls, rollout
from pprjax.task import Task

RETURN_SCALE = 10.0
"""Rewards are scaled so that the best return is this large: what Huber loss and Adam's step are made for."""


@struct.dataclass
class LearnerState:
    """What one original's training carries from iteration to iteration."""

    params: Any  # of the Q-network
    target_params: Any
    optimizer: Any
    counts: jax.Array  # int32[rows, A], or int32[cells] of a ragged P_A, visits
    best_replay: Replay  # of the k best paths of each iteration
    other_replay: Any  # Replay of k random lanes of each; None without mixed_replay
    best: Trajectory  # the best path so far
    greedy: Trajectory  # of the trained Q; no path before the harvest
    curve: jax.Array  # float[iterations], R of the best path after each iteration so far
    best_missed: jax.Array  # float[], the largest R of a path that missed the goal
    scale: jax.Array  # float[], of the rewards; 0 before the first iteration
    archive: Archive | None  # of the best paths that differ; None where one recourse is enough
    ladder: Ladder | None  # of the best path for each number of edits; None where no frontier is wanted


def network(task: Task, config: Config, original: Original) -> QNetwork:
    """The Q-network for this task and originals of this padded length."""
    return QNetwork(
        num_actions=task.num_actions,
        num_states=task.num_states,
        num_positions=original.symbols.shape[0] + 1,
        num_times=task.horizon + 1,
        width=config.width,
        depth=config.depth,
        alignment_aware=config.alignment_aware,
        dueling=config.dueling,
        encoder=task.env.encoder(config.width) if hasattr(task.env, "encoder") else None,
    )


def init(task: Task, original: Original, config: Config, key: jax.Array, wanted: Wanted = Wanted()) -> LearnerState:
    """The state before the first iteration. For more than one recourse it keeps an archive, of twice as many; for a
    frontier a ladder."""
    key_params, key_path = jax.random.split(key)
    state = task.reset(key_path)
    zero = jnp.int32(0)
    params = network(task, config, original).init(key_params, task.observation(state), zero, zero)
    best = _no_path(task, original, config, key_path)
    ring = replay.empty(best, config.memory * config.num_best, prioritized=config.prioritized)
    floating = jnp.result_type(float)
    keeps_archive = wanted.n_recourses > 1 and not wanted.num_distances
    return LearnerState(
        params=params,
        target_params=params,
        optimizer=adam(config).init(params),
        counts=exploration.no_counts(task),
        best_replay=ring,
        other_replay=ring if config.mixed_replay else None,
        best=best,
        greedy=best,
        curve=jnp.zeros(config.iterations, floating),
        best_missed=jnp.full((), -jnp.inf, floating),
        scale=jnp.zeros((), floating),
        archive=archive.empty(best, 2 * wanted.n_recourses, wanted.min_distance) if keeps_archive else None,
        ladder=ladder.empty(task, wanted) if wanted.num_distances else None,
    )


def _no_path(task: Task, original: Original, config: Config, key: jax.Array) -> Trajectory:
    """What the best path is before there is one: no action, R = -inf, more violations than any."""
    lane = Behaviour(
        forced=jnp.full(task.horizon, PAD, jnp.int32),
        explore=jnp.ones(task.horizon, bool),
        from_policy=jnp.bool_(True),
        uniform=jnp.zeros(task.horizon),
    )
    shapes = jax.eval_shape(lambda: rollout(task, original, lane, config, key))
    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    worst = jax.tree.map(lambda x: jnp.full_like(x, jnp.iinfo(x.dtype).max), blank.violations)
    return replace(
        blank,
        actions=jnp.full_like(blank.actions, PAD),
        reward=jnp.full_like(blank.reward, -jnp.inf),
        violations=worst,
    )


def sample_paths(
    task: Task,
    original: Original,
    config: Config,
    state: LearnerState,
    behaviour: Behaviour,
    keys: jax.Array,
    bonus: Float[Array, "*C"],
) -> Trajectory:
    """Paths that follow Q + bonus where `behaviour` leaves it to them; a leading axis as in `behaviour` and `keys`."""
    net = network(task, config, original)

    def values(observation, position, time, row):
        q = jnp.asarray(net.apply(state.params, observation, position, time))
        return q + exploration.bonus_of(bonus, row, task.num_actions)

    def one(lane: Behaviour, lane_key):
        return rollout(
            task, original, lane, config, lane_key, values=values, bucket=lambda s: exploration.row_of(task, s)
        )

    return jax.vmap(one)(behaviour, keys)


def explore(
    task: Task, original: Original, config: Config, state: LearnerState, iteration: Int[Array, ""], key: jax.Array
) -> Trajectory:
    """The b paths of an iteration, and after them the greedy one: a leading axis of b + 1.

    Iteration `config.iterations` is the harvest: ε is the smallest, and there is no bonus.
    """
    key_lanes, key_paths = jax.random.split(key)
    harvest = iteration == config.iterations
    eps = jnp.where(harvest, config.epsilon_end, exploration.epsilon(config, iteration))
    own, best = original.actions, state.best.actions
    if state.ladder is not None:
        best = _rungs(state.ladder, best, jax.random.fold_in(key_lanes, 2), config.num_paths)
    behaviour = exploration.behaviours(config, key_lanes, own, best, eps, iteration)
    behaviour = jax.tree.map(
        lambda lanes, last: jnp.append(lanes, last[None].astype(lanes.dtype), 0), behaviour, _greedy(task)
    )
    keys = jax.random.split(key_paths, config.num_paths + 1)
    bonus = jnp.where(harvest, 0.0, exploration.bonus(state.counts, config.c_e))
    return sample_paths(task, original, config, state, behaviour, keys, bonus)


def _greedy(task: Task) -> Behaviour:
    """A lane that maximizes Q all the way."""
    return Behaviour(
        forced=jnp.full(task.horizon, PAD, jnp.int32),
        explore=jnp.zeros(task.horizon, bool),
        from_policy=jnp.bool_(False),
        uniform=jnp.zeros(task.horizon),
    )


def reliability(
    task: Task, original: Original, config: Config, state: LearnerState, key: jax.Array, runs: int
) -> Float[Array, ""]:
    """The share of fresh runs of the greedy policy, which reacts to chance, that meet the goal and keep the
    constraints."""
    lanes = jax.tree.map(lambda x: jnp.broadcast_to(x, (runs, *x.shape)), _greedy(task))
    bonus = jnp.zeros_like(state.counts, jnp.result_type(float))
    return jnp.mean(sample_paths(task, original, config, state, lanes, jax.random.split(key, runs), bonus).met)


def _rungs(found: Ladder, best: Int[Array, " T"], key: jax.Array, num_paths: int) -> Int[Array, "b T"]:
    """For each of b lanes the actions of some rung of the ladder; those of the best path while there is no rung."""
    valid = found.first > -jnp.inf
    rung = jax.random.categorical(key, jnp.where(valid, 0.0, -jnp.inf), shape=(num_paths,))
    actions = found.actions if found.min_distance is None else found.actions[:, 0]
    return jnp.where(valid.any(), actions[rung], best)


def climb(found: Ladder, config: Config, lanes: Trajectory) -> Ladder:
    """The ladder after these paths, which have a leading axis."""
    value = config.objective.value(lanes.r_goal, lanes.r_policy)
    paths = Ladder(
        value=jnp.where(lanes.met, value, -jnp.inf),
        goal=lanes.r_goal,
        r_policy=lanes.r_policy,
        log_prob=lanes.log_prob,
        reached=lanes.reached,
        terminated=lanes.terminated,
        symbols=lanes.symbols,
        actions=lanes.actions,
        distance=None if found.distance is None else lanes.distance,
    )
    rung = jnp.rint(lanes.distance) if found.distance is None else lanes.distance
    return ladder.extend(found, paths, rung.astype(jnp.int32), config.objective.apart)


def learn_from(
    task: Task,
    original: Original,
    config: Config,
    state: LearnerState,
    lanes: Trajectory,
    iteration: Int[Array, ""],
    key: jax.Array,
) -> LearnerState:
    """What an iteration of Algorithm 1 does with its b paths: keep the k best, update Q, sync the target every C."""
    order = ranking.best_first(lanes)[: config.num_best]
    kept = jax.tree.map(lambda x: x[order], lanes)
    answers = reliable(task, original, lanes, jax.random.fold_in(key, 0))
    best = ranking.better(state.best, ranking.best_of(answers))
    missed = jnp.max(jnp.where(lanes.met, -jnp.inf, lanes.reward))

    state = replace(
        state,
        counts=exploration.count(state.counts, lanes),
        best_replay=replay.store(state.best_replay, kept, iteration),
        best=best,
        curve=state.curve.at[iteration].set(best.reward),
        best_missed=jnp.maximum(state.best_missed, missed),
        archive=None if state.archive is None else archive.extend(state.archive, answers, config.objective.apart),
        ladder=None if state.ladder is None else climb(state.ladder, config, answers),
        scale=jnp.where(
            state.scale > 0, state.scale, RETURN_SCALE / jnp.maximum(jnp.mean(jnp.abs(lanes.reward)), 1e-6)
        ),
    )
    if config.mixed_replay:
        every = config.num_paths // config.num_best
        random = jax.tree.map(lambda x: jnp.roll(x, -(iteration % every), axis=0)[::every][: config.num_best], lanes)
        state = replace(state, other_replay=replay.store(state.other_replay, random, iteration))

    def update(state, uniform):
        return _update(task, original, config, state, uniform)

    state, _ = jax.lax.scan(update, state, jax.random.uniform(key, (config.updates, config.batch_size)))
    target_params = optax.periodic_update(state.params, state.target_params, iteration + 1, config.target_period)
    return replace(state, target_params=target_params)


def harvest(
    task: Task, original: Original, config: Config, state: LearnerState, lanes: Trajectory, key: jax.Array
) -> LearnerState:
    """The best of all paths, with those that the trained Q gives: its greedy one, the last of them, and b more."""
    lanes = jax.tree.map(lambda x: jnp.roll(x, 1, axis=0), lanes)
    answers = reliable(task, original, lanes, key)
    return replace(
        state,
        best=ranking.better(state.best, ranking.best_of(answers)),
        greedy=jax.tree.map(lambda x: x[0], lanes),
        archive=None if state.archive is None else archive.extend(state.archive, answers, config.objective.apart),
        ladder=None if state.ladder is None else climb(state.ladder, config, answers),
    )


def miss_penalty(state: LearnerState) -> Float[Array, ""]:
    """What the last step of a path that misses the goal costs the learner: enough that the best path that meets it pays
    more than the best that does not. 0 as long as no path met it."""
    lead = state.best_missed - state.best.reward
    margin = 0.1 * (jnp.abs(state.best_missed) + jnp.abs(state.best.reward)) + 1.0
    return jnp.where(state.best.met & jnp.isfinite(state.best_missed), jnp.maximum(lead, 0.0) + margin, 0.0)


def td_error(
    net: QNetwork,
    params: Any,
    target_params: Any,
    tuples: Tuples,
    config: Config,
    *,
    scale: Float[Array, ""] | float,
    penalty: Float[Array, ""] | float,
) -> Float[Array, " M"]:
    """y - Q(s_{t-1}, a_{t-1}), in scaled rewards, with the target y by config.target one of

    "td":        r_t + γ·max Q′(s_t, ·), no bootstrap after the last action;
    "return":    G_t = Σ_i γ^i r_{t+i};
    "published": G_t + γ·max Q′(s_t, ·), Algorithm 1 to the letter, which counts the future twice.
    """
    import rlax  # here: it imports TensorFlow Probability, seconds that other methods need not wait for

    values: Callable[..., Array] = jax.vmap(cast(Any, net.apply), in_axes=(None, 0, 0, 0))
    value: Callable[..., Array] = jax.vmap(cast(Any, net.apply), in_axes=(None, 0, 0, 0, 0))
    q_tm1 = value(params, tuples.observation_tm1, tuples.position_tm1, tuples.time_tm1, tuples.action_tm1)

    def following(weights):
        q = values(weights, tuples.observation_t, tuples.position_t, tuples.time_tm1 + 1)
        return jnp.where(tuples.available_t, q, -jnp.inf)

    last = tuples.to_go == 0
    if config.target == "td":
        reward = tuples.reward_t - jnp.where(tuples.missed & last, penalty, 0.0)
    else:
        reward = tuples.return_t - jnp.where(tuples.missed, penalty * config.gamma**tuples.to_go, 0.0)
    discount = jnp.where(last | (config.target == "return"), 0.0, config.gamma)
    q_t = jnp.where(last[:, None], 0.0, following(target_params))
    chosen = jnp.argmax(jnp.where(last[:, None], 0.0, following(params)) if config.double else q_t, axis=-1)
    v_t = jnp.take_along_axis(q_t, chosen[:, None], axis=-1)[:, 0]
    return jnp.asarray(jax.vmap(rlax.td_learning)(q_tm1, scale * reward, discount, v_t))


def learning_rate(config: Config) -> optax.Schedule:
    """Adam's step size by its steps, `updates` an iteration: config.learning_rate over the first half of them, then
    falling linearly to a twentieth, so that Q settles while exploration has become rare."""
    rate, half = config.learning_rate, config.iterations * config.updates // 2
    return optax.linear_schedule(rate, rate / 20, transition_begin=half, transition_steps=max(1, 19 * half // 20))


def adam(config: Config) -> optax.GradientTransformation:
    """Adam at this `learning_rate`."""
    return optax.adam(learning_rate(config))


def _update(task, original, config: Config, state: LearnerState, uniform: Float[Array, " M"]):
    """One minibatch step of Adam on the Huber loss."""
    net = network(task, config, original)
    half = uniform.shape[0] // 2
    if config.mixed_replay:
        parts = [replay.sample(state.best_replay, uniform[:half], config.gamma)]
        parts.append(replay.sample(state.other_replay, uniform[half:], config.gamma))
        tuples = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    else:
        tuples = replay.sample(state.best_replay, uniform, config.gamma)
    if recalls(task):
        tuples = replace(tuples, available_t=jax.vmap(partial(offered, task))(tuples.observation_t))

    def loss(params):
        error = td_error(
            net,
            params,
            state.target_params,
            tuples,
            config,
            scale=state.scale,
            penalty=miss_penalty(state),
        )
        return jnp.mean(tuples.weight * optax.huber_loss(error)), error

    (value, error), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    change, optimizer = adam(config).update(gradient, state.optimizer)
    params = optax.apply_updates(state.params, change)
    if config.prioritized:
        cut = half if config.mixed_replay else uniform.shape[0]
        state = replace(state, best_replay=replay.reprioritize(state.best_replay, tuples.place[:cut], error[:cut]))
        if config.mixed_replay:
            state = replace(
                state, other_replay=replay.reprioritize(state.other_replay, tuples.place[cut:], error[cut:])
            )
    return replace(state, params=params, optimizer=optimizer), value


def train(
    task: Task,
    original: Original,
    config: Config,
    state: LearnerState,
    keys: jax.Array,
    start: Int[Array, ""] | int,
    stop: Int[Array, ""] | int,
) -> LearnerState:
    """Iterations start, …, stop - 1 of Algorithm 1. Iteration `config.iterations` is the harvest: one program has both.

    Args:
        keys: of the training and of the harvest.
    """

    def body(iteration, state):
        harvests = iteration == config.iterations
        key_lanes, key_tuples = jax.random.split(jax.random.fold_in(keys[0], iteration))
        lanes = explore(task, original, config, state, iteration, jnp.where(harvests, keys[1], key_lanes))
        drawn = jax.tree.map(lambda x: x[:-1], lanes)
        return jax.lax.cond(
            harvests,
            lambda state: harvest(task, original, config, state, lanes, jax.random.fold_in(keys[1], 1)),
            lambda state: learn_from(task, original, config, state, drawn, iteration, key_tuples),
            state,
        )

    return jax.lax.fori_loop(start, stop, body, state)
