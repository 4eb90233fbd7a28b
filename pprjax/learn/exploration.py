"""Exploration: the ε schedule, UCB with visit counts, and how the lanes of an iteration behave."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from pprjax.config import Config
from pprjax.paths import PAD
from pprjax.policy import ragged_of
from pprjax.ragged import slice_of
from pprjax.rollout import Behaviour, Trajectory
from pprjax.task import State, Task

HASH_ROWS = 1 << 14
"""Rows of the visit counts in a world whose states cannot be numbered."""

UNTRIED = 1e9
"""The bonus of an action that was never tried: above every other."""

DELETIONS = 1 / 16
"""The share of deletions where edits are tried in turn: a step has one, and as many replacements as actions."""

R2 = 3242174889, 2447445414
"""1/ρ and 1/ρ² of 2³², ρ the plastic number: n times each, modulo 2³², spread evenly over the square (Roberts 2018)."""

OPEN = PAD - 1
"""Among the steps of an edited path: one that is to be explored."""


def epsilon(config: Config, iteration: Int[Array, ""]) -> Float[Array, ""]:
    """ε, falling linearly from epsilon_start to epsilon_end over the first half of the iterations."""
    half = max(1, config.iterations // 2)
    schedule = optax.linear_schedule(config.epsilon_start, config.epsilon_end, transition_steps=half)
    return jnp.asarray(schedule(iteration))


def no_counts(task: Task) -> Int[Array, "*C"]:
    """The visit counts before the first action: A for each state of a finite world, else for each of HASH_ROWS. Where
    P_A is ragged they are one row of cells, as many as it has, and the row of a state is where its own begin."""
    table = ragged_of(task.policy)
    shape = (task.num_states or HASH_ROWS, task.num_actions) if table is None else (table.num_cells,)
    return jnp.zeros(shape, jnp.int32)


def row_of(task: Task, state: State) -> Int[Array, ""]:
    """The row of the visit counts for a state: in a finite world its id or its cell, else a hash of its observation."""
    if (table := ragged_of(task.policy)) is not None:
        return table.cell(task.state_id(state))
    if task.num_states is not None:
        return task.state_id(state)
    bits = jax.lax.bitcast_convert_type(task.observation(state).astype(jnp.float32), jnp.uint32)
    placed = (bits ^ (bits >> 15)) + jnp.uint32(0x9E3779B1) * jnp.arange(1, bits.shape[0] + 1, dtype=jnp.uint32)
    mixed = jnp.sum((placed ^ (placed >> 16)) * (placed | 1), dtype=jnp.uint32)  # not linear: 0s and 1s stay apart
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x85EBCA6B)
    return ((mixed ^ (mixed >> 13)) % HASH_ROWS).astype(jnp.int32)


def bonus(counts: Int[Array, "*C"], c_e: Float[Array, ""] | float) -> Float[Array, "*C"]:
    """c_e·√(ln t / N(s, a)), with t the actions taken so far; UNTRIED where N(s, a) = 0 (UCB1, Auer et al. 2002).

    c_e = 0 is no bonus at all, for untried actions either.
    """
    log_t = jnp.log(jnp.maximum(counts.sum(), 1).astype(jnp.result_type(float)))
    return jnp.where(counts > 0, c_e * jnp.sqrt(log_t / jnp.maximum(counts, 1)), jnp.where(c_e > 0, UNTRIED, 0.0))


def count(counts: Int[Array, "*C"], lanes: Trajectory) -> Int[Array, "*C"]:
    """The visit counts after these paths. `lanes` has a leading axis of paths."""
    taken = (lanes.actions != PAD).astype(counts.dtype)
    actions = jnp.maximum(lanes.actions, 0)
    return counts.at[(lanes.rows, actions) if counts.ndim == 2 else lanes.rows + actions].add(taken)


def bonus_of(bonuses: Float[Array, "*C"], row: Int[Array, ""], num_actions: int) -> Float[Array, " A"]:
    """The bonus of the A actions of a state, by its `row_of`. Those beyond a ragged row are another state's, and nobody
    may take them."""
    return bonuses[row] if bonuses.ndim == 2 else slice_of(bonuses, row, num_actions)


def behaviours(
    config: Config,
    key: jax.Array,
    original: Int[Array, " T"],
    best: Int[Array, "#b T"] | Int[Array, " T"],
    eps: Float[Array, ""] | float,
    iteration: Int[Array, ""] | int,
) -> Behaviour:
    """How the b lanes of an iteration act: Behaviour with a leading axis of b.

    With mixed_lanes a quarter follow Q up to a random cut and then sample P_A, an eighth follow τ₀ and an eighth the
    best path so far up to a random cut and then Q; all others are ε-greedy on Q + bonus. With edited_lanes, of these a
    quarter of b follow τ₀ instead with one edit, which they try in turn (`nth_edit`), and an eighth the best path so
    far with one random edit, or two (`edited`). With a good path for each lane all of these edit theirs at random,
    and so does an eighth that would sample P_A.

    Args:
        original: the actions of τ₀, PAD after its end.
        best: those of the best path so far, or for each lane those of another good one.
        eps: ε of this iteration.
        iteration: its number.
    """
    b, horizon = config.num_paths, original.shape[0]
    uniform = jax.random.uniform(key, (b, horizon + 1))
    cut_at, uniform = uniform[:, 0], uniform[:, 1:]
    steps = jnp.arange(horizon)
    kind = jnp.arange(b) * 8 // b if config.mixed_lanes else jnp.full(b, 7)
    habit, near_original, near_best = kind < 2, kind == 2, kind == 3

    known = jnp.where(near_original[:, None], original, best)
    reach = jnp.where(habit, horizon, jnp.sum(known != PAD, axis=1) + 1)
    before = steps < jnp.floor(cut_at * reach)[:, None]
    follows = (near_original | near_best)[:, None]
    greedy = habit[:, None] | follows
    explores = uniform < eps
    lanes = Behaviour(
        forced=jnp.where(follows & before, known, PAD),
        explore=jnp.where(greedy, habit[:, None] & ~before, explores),
        from_policy=habit | (config.epsilon_from == "policy"),
        uniform=jnp.where(greedy, uniform, jnp.minimum(uniform / jnp.maximum(eps, 1e-6), 1 - 1e-6)),
    )
    if not config.edited_lanes:
        return lanes
    key_edits, key_policy = jax.random.split(jax.random.fold_in(key, 1))
    each_has_one = best.ndim == 2
    chosen = (kind >= 4) & (kind < 7) | (kind == 1) & each_has_one
    in_turn = chosen & (kind < 6) & (not each_has_one)
    nth = iteration * jnp.sum(in_turn) + jnp.cumsum(in_turn) - 1
    near, which = jax.vmap(nth_edit, (None, 0))(original, nth)
    far = jax.vmap(edited)(jnp.broadcast_to(best, (b, horizon)), jax.random.split(key_edits, b))
    forced = jnp.where(in_turn[:, None], near, far)
    as_agent = jax.random.bernoulli(key_policy, shape=(b,)) & ~in_turn
    edits = Behaviour(
        forced=jnp.where(forced == OPEN, PAD, forced),
        explore=forced == OPEN,
        from_policy=as_agent | (config.epsilon_from == "policy"),
        uniform=jnp.where(in_turn[:, None], which[:, None], uniform),
    )
    return jax.tree.map(lambda new, old: jnp.where(chosen.reshape(b, *[1] * (old.ndim - 1)), new, old), edits, lanes)


def edited(steps: Int[Array, " T"], key: jax.Array) -> Int[Array, " T"]:
    """A path after one random edit or, as often, two: OPEN in the place of a step, OPEN between two, or one step less.

    Places and kinds of edit are drawn evenly. What is pushed beyond the horizon is lost; after its end a path is PAD.
    """
    keys = jax.random.split(key, 3)
    once = _edit(steps, keys[0])
    return jnp.where(jax.random.bernoulli(keys[1]), _edit(once, keys[2]), once)


def nth_edit(steps: Int[Array, " T"], n: Int[Array, ""]) -> tuple[Int[Array, " T"], Float[Array, ""]]:
    """The n-th of an endless row of single edits, and which action stands in the place that it opens, in [0, 1).

    Few come twice before most have come once: places, kinds and actions follow a sequence of low discrepancy, `R2`.
    """
    where, action = ((n.astype(jnp.uint32) * jnp.uint32(step) >> 8).astype(jnp.float32) / 2**24 for step in R2)
    deletes = where < DELETIONS
    place = jnp.where(deletes, where / DELETIONS, (where - DELETIONS) / (1 - DELETIONS))
    twice = jnp.floor(place * 2 * jnp.sum(steps != PAD)).astype(jnp.int32)
    return _apply(steps, twice // 2, (twice % 2 == 0) & ~deletes, deletes), action


def _edit(steps: Int[Array, " T"], key: jax.Array) -> Int[Array, " T"]:
    place, kind = jax.random.uniform(key, (2,))
    rows = jnp.floor(place * jnp.sum(steps != PAD)).astype(jnp.int32)
    return _apply(steps, rows, kind < 1 / 3, kind >= 2 / 3)


def _apply(
    steps: Int[Array, " T"], place: Int[Array, ""], inserts: Bool[Array, ""], deletes: Bool[Array, ""]
) -> Int[Array, " T"]:
    t = jnp.arange(steps.shape[0])
    source = t - (inserts & (t > place)) + (deletes & (t >= place))
    moved = jnp.append(steps, PAD)[source]
    return jnp.where((t == place) & ~deletes, OPEN, moved)
