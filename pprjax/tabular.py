"""TabularMDP: a finite world given as arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.quick_gymnax import environment, spaces
from pprjax.ragged import Ragged, entry_of, row_of
from pprjax.successors import Successors
from pprjax.traced import traced_params

INT32_MAX = np.iinfo(np.int32).max


@struct.dataclass
class TabularState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], actions taken
    id: jax.Array  # int32[], the state's number


@struct.dataclass(kw_only=True)
class TabularParams(environment.EnvParams):
    next_state: Any  # int32[S, A] or Ragged, -1 where the action is not available
    successors: Successors | None  # where chance leads, each step its own way or all alike; None without chance
    cumulative: jax.Array | None  # float[*T, N], their `sums`
    reward: Any  # float[S, A] or Ragged
    terminal: jax.Array  # bool[S]
    symbols: jax.Array  # int32[S]
    start: jax.Array  # int32[]


@traced_params
class TabularMDP(environment.Environment[TabularState, TabularParams]):
    """A finite world of S states and A actions.

    Worlds of the same S and A compare equal: their tables are traced, so they share one compilation.

    Args:
        next_state: int[S, A], where each action leads; -1: it is not available there. Or a `pprjax.Ragged`, a row for
            each state, where few states have as many actions as the one with the most: nothing of S·A is then stored.
        reward: float[S, A], of each action; or a `pprjax.Ragged` of the same rows.
        terminal: bool[S], states in which a path ends: no action is available there.
        start: int, the state in which every path starts.
        max_steps: int, the largest number of actions of a path.
        symbols: int[S], what the edit distance compares; default the state itself.
        transition: float[S, A, S] in place of next_state, for a stochastic world: P(s' | s, a). A row of zeros: the
            action is not available there. Or a `pprjax.Successors`, which has what occurs alone. Either is stored so.
        action_set_size: int, A of Eq. 4, where actions have other names in other states; default A.

    Raises:
        ValueError: an array has the wrong shape or an entry out of range, and the message names array and entry.
    """

    def __init__(
        self,
        next_state=None,
        reward=None,
        terminal=None,
        start=0,
        max_steps=100,
        symbols=None,
        *,
        transition=None,
        action_set_size=None,
    ):
        if (next_state is None) == (transition is None):
            raise UserError("next_state, transition: expected exactly one of the two")
        self.deterministic = transition is None
        if self.deterministic:
            table, chances = _next_state(next_state), None
        else:
            table, chances = _transition(transition)
        self.num_states, self._num_actions = table.shape
        self._action_set_size = action_set_size
        if action_set_size is not None:
            self.action_set_size = lambda params: action_set_size
        terminal = _flags("terminal", terminal, (self.num_states,))
        table, rewards = _closed(table, terminal), _rewards(reward, table)
        if symbols is None:
            symbols = np.arange(self.num_states)
        self._params = TabularParams(
            max_steps_in_episode=int(_integers("max_steps", max_steps, (), 1, INT32_MAX)),
            next_state=_on_device(table, jnp.int32),
            **_chance(chances, table),
            reward=_on_device(rewards, jnp.result_type(float)),
            terminal=jnp.asarray(terminal),
            symbols=jnp.asarray(
                _integers("symbols", symbols, (self.num_states,), 0, INT32_MAX),
                jnp.int32,
            ),
            start=jnp.asarray(_integers("start", start, (), 0, self.num_states - 1), jnp.int32),
        )

    @property
    def _shape(self) -> tuple:
        return self.num_states, self._num_actions, self.deterministic, self._action_set_size

    @property
    def default_params(self) -> TabularParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self._num_actions

    def reset_env(self, key: jax.Array, params: TabularParams) -> tuple[Array, TabularState]:
        state = TabularState(time=jnp.int32(0), id=params.start)
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: TabularState, action, params: TabularParams):
        """One transition. An action that is not available, and any action in a terminal state, stays where it is."""
        target = entry_of(params.next_state, state.id, action, -1)
        stay = target < 0
        if params.cumulative is not None:
            uniform = jax.random.uniform(key, dtype=params.cumulative.dtype)
            chances: Any = params.successors
            target = chances.draw(params.cumulative, state.id, action, state.time, uniform)
        next_id = jnp.where(stay, state.id, target)
        reward = jnp.where(stay, 0.0, entry_of(params.reward, state.id, action, 0.0))
        next_state = TabularState(time=state.time + 1, id=next_id)
        return (
            self.observe(key, next_state, action, params),
            next_state,
            reward,
            params.terminal[next_id],
            {},
        )

    def observe(self, key: jax.Array, state: TabularState, action, params: TabularParams) -> Int[Array, ""]:
        del key, action, params
        return state.id

    def is_terminated(self, state: TabularState, params: TabularParams) -> Bool[Array, ""]:
        return params.terminal[state.id]

    def action_space(self, params: TabularParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: TabularParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_states)

    def state_space(self, params: TabularParams) -> spaces.Dict:
        return spaces.Dict(
            {
                "time": spaces.Discrete(params.max_steps_in_episode + 1),
                "id": spaces.Discrete(self.num_states),
            }
        )

    def symbol(self, state: TabularState, params: TabularParams) -> Int[Array, ""]:
        return params.symbols[state.id]

    def state_id(self, state: TabularState, params: TabularParams) -> Int[Array, ""]:
        del params
        return state.id

    def available(self, state: TabularState, params: TabularParams) -> Bool[Array, " A"]:
        return row_of(params.next_state, state.id, -1) >= 0

    def state_from_id(self, state_id: Int[Array, ""], params: TabularParams) -> TabularState:
        """The state of that number, as if no action had been taken yet."""
        del params
        return TabularState(time=jnp.int32(0), id=jnp.asarray(state_id, jnp.int32))

    def with_chances(self, params: TabularParams, transition: Float[Array, "T S A S"] | Successors) -> TabularParams:
        """The same stochastic world in which step t = 0 … T - 1 has chances of its own. T: the largest number of steps.

        Raises:
            ValueError: this world is deterministic, or the shape is another.
        """
        chances = transition if isinstance(transition, Successors) else Successors.of(transition)
        shape = (params.max_steps_in_episode, self.num_states, self.num_actions)
        given = (*chances.probs.shape[:-1], *chances.shape)
        known = params.successors
        if known is None or given != shape or not np.array_equal(_rows(chances), _rows(known)):
            raise UserError(
                f"transition: expected shape {(*shape, self.num_states)}, or its successors, of a stochastic world, "
                f"got {(*given, self.num_states)}"
            )
        return params.replace(**_chance(chances, params.next_state))  # pyright: ignore[reportAttributeAccessIssue]

    def successors(self, params: TabularParams) -> Successors | None:
        """P(s' | s, a), 0 where the action is not available; None in a deterministic world."""
        return params.successors

    def transition_probs(self, params: TabularParams) -> Float[np.ndarray, "*T S A S"] | None:
        """The same as a table of all S next states, for small worlds. On the host."""
        chances = self.successors(params)
        return None if chances is None else chances.table()


def _next_state(values) -> Int[np.ndarray, "S A"] | Ragged:
    if isinstance(values, Ragged):
        table, size = _stored("next_state", values), len(values.first) - 1
        return _with_entries(values, _integers("next_state.values", table, table.shape, -1, size - 1))
    table = _array("next_state", values)
    if table.ndim != 2 or table.size == 0:
        raise UserError(f"next_state: expected int[S, A], got shape {table.shape}")
    return _integers("next_state", table, table.shape, -1, len(table) - 1)


def _closed(table: Int[np.ndarray, "S A"] | Ragged, terminal: Bool[np.ndarray, " S"]) -> np.ndarray | Ragged:
    """No action is available in a terminal state."""
    if isinstance(table, Ragged):
        return _with_entries(table, np.where(terminal[table.rows], -1, table.entries))
    return np.where(terminal[:, None], -1, table)


def _rewards(values, table: np.ndarray | Ragged) -> np.ndarray | Ragged:
    """Those of the entries of a table of next states."""
    if not isinstance(table, Ragged):
        rewards = _numbers("reward", values, table.shape)
        _check_all("reward", rewards, np.isfinite(rewards), "a finite number")
        return rewards
    if not isinstance(values, Ragged) or not np.array_equal(values.first, table.first):
        raise UserError("reward: expected a pprjax.Ragged whose rows are those of next_state")
    rewards = _numbers("reward.values", _stored("reward", values), table.entries.shape)
    _check_all("reward.values", rewards, np.isfinite(rewards), "a finite number")
    return _with_entries(values, rewards)


def _stored(name: str, table: Ragged) -> np.ndarray:
    """The entries of a ragged table that stores each of its rows."""
    if table.times != 1:
        raise UserError(f"{name}: expected a pprjax.Ragged that stores each row, got {table.times} rows for each")
    return _array(f"{name}.values", table.entries)


def _with_entries(table: Ragged, entries: np.ndarray) -> Ragged:
    """The same rows with other entries."""
    return Ragged.of(np.asarray(table.first), entries)


def _transition(values) -> tuple[Int[np.ndarray, "S A"] | Ragged, Successors]:
    """The likeliest next states, -1 where there is none, and the chances of all."""
    if isinstance(values, Successors):
        chances = _chances(values)
    else:
        table = _array("transition", values)
        if table.ndim != 3 or table.size == 0 or table.shape[0] != table.shape[2]:
            raise UserError(f"transition: expected float[S, A, S], got shape {table.shape}")
        table = _numbers("transition", table, table.shape)
        _check_all("transition", table, table >= 0, "a probability")
        chances = Successors.of(table.astype(float))
    if not chances.states.size:
        raise UserError("transition: expected an action that is available somewhere, got none")
    cells, first = chances.cells(), chances.first
    sums = np.bincount(cells, chances.probs, chances.num_cells)
    bad = np.flatnonzero((np.abs(sums - 1) > 1e-3) & (sums != 0))
    if bad.size:
        place = ", ".join(str(x) for x in chances.place(bad[0]))
        raise UserError(f"transition[{place}]: expected a row that sums to 1, or to 0, got {sums[bad[0]]:.10g}")
    likeliest = np.full(chances.num_cells, -1)
    first_of = np.lexsort((-chances.probs, cells))[np.minimum(first[:-1], len(cells) - 1)]
    likeliest[sums > 0] = chances.states[first_of][sums > 0]
    return likeliest.reshape(chances.shape) if chances.rows is None else Ragged.of(chances.rows, likeliest), chances


def _chances(given: Successors) -> Successors:
    """Successors as they were given, on the host."""
    states, first = _array("transition.states", given.states), _array("transition.first", given.first)
    (num_states, num_actions), size = given.shape, len(states)
    num_cells = num_states * num_actions if given.rows is None else int(given.rows[-1])
    first = _integers("transition.first", first, (num_cells + 1,), 0, size)
    if first[0] != 0 or first[-1] != size or (np.diff(first) < 0).any():
        raise UserError(f"transition.first: expected numbers that rise from 0 to the {size} states, got {first}")
    probs = _numbers("transition.probs", given.probs, (size,)).astype(float)
    _check_all("transition.probs", probs, probs >= 0, "a probability")
    states = _integers("transition.states", states, (size,), 0, num_states - 1)
    rises = np.diff(states, prepend=-1) > 0
    rises[first[:-1][np.diff(first) > 0]] = True
    _check_all("transition.states", states, rises, "more than the one before it in its cell")
    return jax.tree.map(np.asarray, given.replace(probs=probs))  # pyright: ignore[reportAttributeAccessIssue]


def _chance(chances: Successors | None, next_state: Any) -> dict[str, Any]:
    """The two parameters that say where chance leads: nowhere, where no next state says that an action is available."""
    if chances is None:
        return dict(successors=None, cumulative=None)
    offered = np.asarray(next_state.entries if isinstance(next_state, Ragged) else next_state).ravel() >= 0
    host = jax.tree.map(np.asarray, chances)
    host = host.replace(probs=np.where(offered[host.cells()], host.probs, 0.0))
    real = jnp.result_type(float)
    on_device = jax.tree.map(lambda x: jnp.asarray(x, real if x.dtype.kind == "f" else jnp.int32), host)
    return dict(successors=on_device, cumulative=jnp.asarray(host.sums()))


def _rows(chances: Successors) -> Int[np.ndarray, " S+1"]:
    """Where the cells of each state begin."""
    size, width = chances.shape
    return np.arange(size + 1) * width if chances.rows is None else np.asarray(chances.rows)


def _on_device(table: np.ndarray | Ragged, dtype: Any) -> Array | Ragged:
    if isinstance(table, Ragged):
        return Ragged(jnp.asarray(table.first), jnp.asarray(table.values, dtype), table.width)
    return jnp.asarray(table, dtype)


def _array(name: str, values, shape: tuple[int, ...] | None = None) -> np.ndarray:
    if values is None:
        raise UserError(f"{name}: expected an array of shape {shape}, got none")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise UserError(f"{name}: expected an array, got rows of unequal length") from error
    if shape is not None and array.shape != shape:
        raise UserError(f"{name}: expected shape {shape}, got {array.shape}")
    return array


def _numbers(name: str, values, shape: tuple[int, ...]) -> np.ndarray:
    array = _array(name, values, shape)
    if array.dtype.kind not in "buif":
        raise UserError(f"{name}: expected numbers, got {array.dtype}")
    return array


def _integers(name: str, values, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    array = _array(name, values, shape)
    if array.dtype.kind not in "iu":
        raise UserError(f"{name}: expected integers, got {array.dtype}")
    _check_all(name, array, (array >= low) & (array <= high), f"an integer in [{low}, {high}]")
    return array


def _flags(name: str, values, shape: tuple[int, ...]) -> np.ndarray:
    array = _array(name, values, shape)
    if array.dtype.kind == "b":
        return array
    return _integers(name, array, shape, 0, 1).astype(bool)


def _check_all(name: str, array: np.ndarray, good: np.ndarray | np.bool, expected: str) -> None:
    if not good.all():
        entry = tuple(int(i) for i in np.argwhere(~good)[0])
        where = f"[{', '.join(map(str, entry))}]" if entry else ""
        raise UserError(f"{name}{where}: expected {expected}, got {array[entry].item():.10g}")
