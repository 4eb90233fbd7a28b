"""FiniteWorld: a finite deterministic world written out, one row for each state that can be reached."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Int

from pprjax import limits
from pprjax.errors import UserError
from pprjax.reward import Habit
from pprjax.ruled import without_rules
from pprjax.successors import num_successors, successors
from pprjax.task import State, Task
from pprjax.worlds import env_name

UNAVAILABLE = -1
"""In `FiniteWorld.next_state`: this action is not available here."""

FRONTIER = 256  # states expanded at once; fixed, so that tabulating compiles once a world
DRAWS = 4  # steps of each transition, with keys of their own: in a deterministic world they agree


@struct.dataclass
class FiniteWorld:
    """The N rows that can be reached from the start, which is row 0. Arrays on the host.

    A row is a state, told apart by whether the path has ended in it: nothing follows a row that has `ended`. Where
    chance decides, `pprjax.baselines` write all states out: row i is state i, and what follows it is the likeliest.
    """

    next_state: Any  # int32[N, A], the row each action leads to, or UNAVAILABLE
    reward: Any  # float32[N, A]
    habit: Any  # float32[N, A], what each action adds to R_policy
    log_prob: Any  # float32[N, A], log P_A
    ended: Any  # bool[N], the world ends a path here
    symbol: Any  # int32[N]
    state_id: Any  # int32[N]
    states: Any  # the world's states, stacked: leaves of [N, ...]

    @property
    def num_rows(self) -> int:
        return self.next_state.shape[0]

    @property
    def num_actions(self) -> int:
        return self.next_state.shape[1]


def tabulate(task: Task, *, habit: Habit = "regret") -> FiniteWorld:
    """Write a finite deterministic world out, by breadth-first search from its start.

    Args:
        habit: how R_policy charges an action, see `pprjax.Config`.

    Raises:
        ValueError: the world is not finite (it has no `state_id`) or not known to be deterministic (see
            `Task.deterministic`), a state's id is out of range, or P_A remembers the path (its carry is not empty).
            What a world says of itself is put to the test: four draws of each transition must agree, and states of one
            id must act alike as far as they are met.
        TooLargeError: it has more than `limits.MAX_EDGES` rows times actions.
    """
    root, num_states = _checked_root(task)
    row_of = np.full((num_states, 2), UNAVAILABLE, np.int32)  # of (id, ended)
    seen: list[_Found] = [jax.tree.map(lambda x: x[:1], root)]
    blocks: list[_Expansion] = []
    followings: list[np.ndarray] = []
    again: list[_Found] = []
    id_is_all = hasattr(task.env, "state_from_id")
    _check_id(root.state_id, num_states)
    row_of[root.state_id[0], 0] = 0
    count, pending = 1, list(seen)
    while pending:
        frontier = jax.tree.map(lambda *parts: np.concatenate(parts), *pending)
        pending = []
        for low in range(0, len(frontier.state_id), FRONTIER):
            part = jax.tree.map(lambda x, low=low: x[low : low + FRONTIER], frontier)
            block, found = _expand(task, part, habit)
            open_edges = np.argwhere(block.available & ~part.ended[:, None])
            targets = jax.tree.map(lambda x, index=open_edges: x[index[:, 0], index[:, 1]], found)
            _check_id(targets.state_id, num_states)
            keys = targets.state_id.astype(np.int64) * 2 + targets.ended
            fresh, first = np.unique(keys, return_index=True)
            first = np.sort(first[row_of.reshape(-1)[fresh] == UNAVAILABLE])
            if first.size:
                added = jax.tree.map(lambda x, index=first: x[index], targets)
                row_of.reshape(-1)[keys[first]] = count + np.arange(len(first))
                count += len(first)
                limits.check_edges(1, count, task.num_actions)
                seen.append(added)
                pending.append(added)
            if not id_is_all:
                others = np.setdiff1d(np.arange(len(keys)), first)[:FRONTIER]
                again.append(jax.tree.map(lambda x, index=others: x[index], targets))
            next_state = np.full(block.available.shape, UNAVAILABLE, np.int32)
            next_state[open_edges[:, 0], open_edges[:, 1]] = row_of.reshape(-1)[keys]
            blocks.append(block)
            followings.append(next_state)

    rows = jax.tree.map(lambda *parts: np.concatenate(parts), *seen)
    edges = jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)
    next_state = np.concatenate(followings)
    for states in again:
        _check_alike(task, states, row_of, next_state, edges)
    return FiniteWorld(
        next_state=next_state,
        reward=edges.reward,
        habit=edges.habit,
        log_prob=edges.log_prob,
        ended=rows.ended,
        symbol=edges.symbol,
        state_id=rows.state_id,
        states=rows.state,
    )


@struct.dataclass
class _Found:
    """States that were reached; leaves of [..., ...]."""

    state: Any
    state_id: Any  # int32[...]
    ended: Any  # bool[...]


@struct.dataclass
class _Expansion:
    """What leaves a state; A actions."""

    available: Any  # bool[A]
    reward: Any  # float32[A]
    habit: Any  # float32[A]
    log_prob: Any  # float32[A]
    symbol: Any  # int32[]
    agrees: Any  # bool[A], all draws of a transition came out the same


def _expand(task: Task, part: _Found, habit: Habit) -> tuple[_Expansion, _Found]:
    """Every action from every state of `part`, at most FRONTIER of them, on the host."""
    size = len(part.state_id)
    padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[:1], FRONTIER - size, 0)]), part.state)
    block, found = jax.tree.map(
        lambda x: x[:size], jax.device_get(_expansions(task, padded, part.state_id[0], habit=habit))
    )
    valid = block.available & ~part.ended[:, None]
    for name, values in {"policy.step": block.log_prob, "env: the reward": block.reward}.items():
        strange = np.argwhere(valid & np.isnan(values))
        if strange.size:
            raise UserError(
                f"{name}: expected numbers, got NaN for action {strange[0, 1]} in state {part.state_id[strange[0, 0]]}"
            )
    chance = np.argwhere(valid & ~block.agrees)
    if chance.size:
        row, action = chance[0]
        raise UserError(
            "task.env: expected a deterministic world, got one where "
            f"action {action} in state {part.state_id[row]} comes out differently from time to time"
        )
    return block, found


def _check_alike(task: Task, states: _Found, row_of: np.ndarray, next_state: np.ndarray, edges: _Expansion) -> None:
    """Raise a ValueError where one of these states, at most FRONTIER, acts otherwise than the row of its id says."""
    if not len(states.state_id):
        return
    block, found = _expand(task, states, "regret")
    row = row_of[states.state_id, states.ended.astype(int)]
    goes_on = block.available & ~states.ended[:, None]
    leads = np.where(goes_on, row_of[found.state_id, found.ended.astype(int)], UNAVAILABLE)
    same = (leads == next_state[row]) & (~goes_on | np.isclose(block.reward, edges.reward[row], rtol=1e-4, atol=1e-5))
    same &= ~goes_on | np.isclose(np.exp(block.log_prob), np.exp(edges.log_prob[row]), rtol=1e-3, atol=1e-5)
    unlike = np.argwhere(~same)
    if unlike.size:
        i, action = unlike[0]
        raise UserError(
            "task.env.state_id: expected another number for states that act otherwise, got two of id "
            f"{states.state_id[i]}; in them action {action} differs in where it leads, what it pays or how likely it is"
        )


@jax.jit
def _roots(task: Task) -> _Found:
    states = jax.vmap(task.reset)(jax.random.split(jax.random.key(0), DRAWS))
    return _Found(state=states, state_id=jax.vmap(task.state_id)(states), ended=jnp.zeros(DRAWS, bool))


@partial(jax.jit, static_argnames="habit")
def _expansions(task: Task, states: State, seed: Int[Array, ""], *, habit: Habit) -> tuple[_Expansion, _Found]:
    def one(state, key):
        _, log_prob = task.log_probs(task.policy.init(), state)

        def act(action, key):
            return jax.vmap(lambda k: task.step(k, state, action))(jax.random.split(key, DRAWS))

        keys = jax.random.split(key, task.num_actions)
        nexts, rewards, ended = jax.vmap(act)(jnp.arange(task.num_actions), keys)
        ids = jax.vmap(jax.vmap(task.state_id))(nexts)
        agrees = jnp.stack([jnp.all(x == x[:, :1], axis=1) for x in (ids, rewards, ended)]).all(0)
        block = _Expansion(
            available=task.available(state) & task.affordable(state, log_prob),
            reward=rewards[:, 0].astype(jnp.float32),
            habit=task.habits(state, log_prob, habit).astype(jnp.float32),
            log_prob=log_prob.astype(jnp.float32),
            symbol=task.symbol(state),
            agrees=agrees,
        )
        return block, _Found(state=jax.tree.map(lambda x: x[:, 0], nexts), state_id=ids[:, 0], ended=ended[:, 0])

    return jax.vmap(one)(states, jax.random.split(jax.random.key(seed), FRONTIER))


def _checked_root(task: Task) -> tuple[_Found, int]:
    """Where the world starts, drawn several times, and S; what `tabulate` raises of a world that it can't write out."""
    num_states = task.num_states
    if num_states is None:
        raise UserError("task.env: expected a finite world, one with `state_id` and `num_states`")
    if jax.tree.leaves(task.policy.init()):
        raise UserError(
            "task.policy: expected P_A to depend on the state alone, got one that carries a memory of the path"
        )
    if not task.deterministic:
        raise UserError(f"task.env: expected a deterministic world, {not_deterministic(task)}")
    root = jax.device_get(_roots(task))
    if np.any(root.state_id != root.state_id[0]):
        raise UserError("task.env: expected a deterministic world, got one that starts in different states")
    return root, num_states


def _check_id(ids: np.ndarray, num_states: int) -> None:
    bad = ids[(ids < 0) | (ids >= num_states)]
    if bad.size:
        raise UserError(f"task.env: expected state ids in [0, {num_states}), got {bad[0]}")


def not_deterministic(task: Task) -> str:
    """Why a world does not count as deterministic."""
    task = without_rules(task)
    chances = successors(task.env, task.params)
    if chances is None:
        return (
            "one that says so: `Task(…, deterministic=True)` if it never rolls dice, for draws alone can't tell; "
            f"{env_name(task.env)} says nothing"
        )
    *_, cell = np.argwhere(np.asarray(num_successors(chances)) > 1)[0]
    state, action = chances.place(cell)
    return f"got one where chance decides where action {action} in state {state} leads"
