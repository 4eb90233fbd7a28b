"""TabularMDP: a finite world given as arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment, spaces
from jaxtyping import Array, Bool, Float, Int


@struct.dataclass
class TabularState(environment.EnvState):
    time: jax.Array  # int32[], actions taken
    id: jax.Array  # int32[], the state's number


@struct.dataclass(kw_only=True)
class TabularParams(environment.EnvParams):
    max_steps_in_episode: int
    next_state: jax.Array  # int32[S, A], -1 where the action is not available
    cumulative: jax.Array | None  # float[S, A, S], P(s' ≤ i | s, a); None in a deterministic world
    reward: jax.Array  # float[S, A]
    terminal: jax.Array  # bool[S]
    symbols: jax.Array  # int32[S]
    start: jax.Array  # int32[]


class TabularMDP(environment.Environment[TabularState, TabularParams]):
    """A finite world of S states and A actions.

    Args:
        next_state: int[S, A], where each action leads; -1: it is not available there.
        reward: float[S, A], of each action.
        terminal: bool[S], states in which a path ends.
        start: the state in which every path starts.
        max_steps: the largest number of actions of a path.
        symbols: int[S], what the edit distance compares; default the state itself.
        transition: float[S, A, S] in place of next_state, for a stochastic world: P(s' | s, a). A row of zeros: the
            action is not available there.

    Raises:
        ValueError: an array has the wrong shape or an entry out of range; the message names array and entry.
    """

    def __init__(
        self, next_state=None, reward=None, terminal=None, start: int = 0, max_steps: int = 100, symbols=None, *, transition=None
    ):
        if (next_state is None) == (transition is None):
            raise ValueError("next_state, transition: expected exactly one of the two")
        deterministic = transition is None
        table = np.asarray(next_state if deterministic else transition)
        if table.ndim != (2 if deterministic else 3):
            raise ValueError(
                f"next_state: expected int[S, A], got shape {table.shape}"
                if deterministic
                else f"transition: expected float[S, A, S], got shape {table.shape}"
            )
        self.num_states, self._num_actions = table.shape[:2]
        self.deterministic = deterministic
        shape = (self.num_states, self._num_actions)
        if deterministic:
            _check_integers("next_state", table, -1, self.num_states - 1)
            cumulative = None
        else:
            if table.shape[2] != self.num_states:
                raise ValueError(f"transition: expected float[S, A, S], got shape {table.shape}")
            _check_transition(table)
            cumulative = jnp.asarray(np.cumsum(table, -1), jnp.result_type(float))
            table = np.where(table.sum(-1) > 0, table.argmax(-1), -1)
        rewards = _shaped("reward", reward, shape)
        if not np.isfinite(rewards).all():
            s, a = np.argwhere(~np.isfinite(rewards))[0]
            raise ValueError(f"reward[{s}, {a}]: expected a finite number, got {rewards[s, a]}")
        ends = _shaped("terminal", terminal, shape[:1]).astype(bool)
        symbols = np.arange(self.num_states) if symbols is None else _shaped("symbols", symbols, shape[:1])
        _check_integers("symbols", symbols, 0, np.iinfo(np.int32).max)
        _check_integers("start", np.asarray(start), 0, self.num_states - 1)
        if max_steps < 1:
            raise ValueError(f"max_steps: a path needs room for at least 1 action, got {max_steps}")
        self._params = TabularParams(
            max_steps_in_episode=int(max_steps),
            next_state=jnp.asarray(table, jnp.int32),
            cumulative=cumulative,
            reward=jnp.asarray(rewards, jnp.result_type(float)),
            terminal=jnp.asarray(ends),
            symbols=jnp.asarray(symbols, jnp.int32),
            start=jnp.int32(start),
        )

    def __eq__(self, other) -> bool:  # the tables are traced: worlds of one shape share a compilation
        return type(self) is type(other) and self._shape == other._shape

    def __hash__(self) -> int:
        return hash((type(self), self._shape))

    @property
    def _shape(self) -> tuple:
        return self.num_states, self._num_actions, self.deterministic

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
        target = params.next_state[state.id, action]
        stay = (target < 0) | params.terminal[state.id]
        if params.cumulative is not None:
            uniform = jax.random.uniform(key, dtype=params.cumulative.dtype)
            row = params.cumulative[state.id, action]
            target = jnp.minimum(jnp.sum(uniform * row[-1] >= row, dtype=jnp.int32), self.num_states - 1)
        next_id = jnp.where(stay, state.id, target)
        reward = jnp.where(stay, 0.0, params.reward[state.id, action])
        next_state = TabularState(time=state.time + 1, id=next_id)
        return self.observe(key, next_state, action, params), next_state, reward, params.terminal[next_id], {}

    def observe(self, key: jax.Array, state: TabularState, action, params: TabularParams) -> Int[Array, ""]:
        del key, action, params
        return state.id

    def is_terminated(self, state: TabularState, params: TabularParams) -> Bool[Array, ""]:
        return params.terminal[state.id]

    def action_space(self, params: TabularParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: TabularParams) -> spaces.Discrete:
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
        return params.next_state[state.id] >= 0


def _shaped(name: str, array, shape: tuple[int, ...]) -> np.ndarray:
    if array is None:
        raise ValueError(f"{name}: expected an array of shape {shape}, got none")
    array = np.asarray(array)
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    return array


def _check_integers(name: str, array: np.ndarray, low: int, high: int) -> None:
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected integers, got {array.dtype}")
    bad = np.argwhere((array < low) | (array > high))
    if bad.size or (array.ndim == 0 and not low <= array <= high):
        where = f"[{', '.join(map(str, bad[0]))}]" if array.ndim else ""
        value = array[tuple(bad[0])] if array.ndim else array
        raise ValueError(f"{name}{where}: expected an integer in [{low}, {high}], got {value}")


def _check_transition(table: Float[np.ndarray, "S A S"]) -> None:
    bad = np.argwhere(~(table >= 0))
    if bad.size:
        raise ValueError(f"transition[{', '.join(map(str, bad[0]))}]: expected a probability, got {table[tuple(bad[0])]}")
    sums = table.sum(-1)
    off = np.argwhere((np.abs(sums - 1) > 1e-3) & (sums != 0))
    if off.size:
        s, a = off[0]
        raise ValueError(f"transition[{s}, {a}]: expected a row that sums to 1, or to 0, got {sums[s, a]:.6g}")
