"""Successors: where chance leads, stored as what occurs."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError


@struct.dataclass
class Successors:
    """P(s' | s, a) of S states and A actions as what occurs: N numbers in place of S·A·S.

    A cell is an action of a state. What the C cells may lead to stands one after the other, so that a cell of thousands
    costs the others nothing. Make them by `from_steps` or `of`. `TabularMDP(transition=…)` takes them, and so may a
    world of yours give them: `successors(params)`.
    """

    first: Any  # int32[C + 1], rising from 0 to N: where the successors of each cell begin
    states: Any  # int32[N], the states that a cell may lead to, rising in each cell
    probs: Any  # float[*T, N], how likely; those of a cell sum to 1, or to 0 where it is not available. T: by step
    rows: Any  # int32[S + 1], where the cells of each state begin; None: each state has A of them
    shape: tuple[int, int] = struct.field(pytree_node=False)  # S and A
    longest: int = struct.field(pytree_node=False)  # K, the most successors of a cell
    widest: int = struct.field(pytree_node=False)  # the most of all cells of a state together

    @classmethod
    def from_steps(
        cls,
        state: Int[np.ndarray, " E"],
        action: Int[np.ndarray, " E"],
        next_state: Int[np.ndarray, " E"],
        prob: Float[np.ndarray, " E"],
        *,
        num_states: int | None = None,
        num_actions: int | None = None,
        rows: Int[np.ndarray, " S+1"] | None = None,
    ) -> Successors:
        """From a list of what may happen, a row each, such as the columns of a table. What stands there twice adds up.

        Args:
            prob: how likely `action` in `state` leads to `next_state`; rows of 0 are left out.
            num_states: S; default one more than the largest number.
            num_actions: A; default the same.
            rows: of a world whose other tables are `pprjax.Ragged`: their `first`. An action is then the place of a
                step in the row of its state, and the two sizes are those of the rows.

        Raises:
            ValueError: lengths differ, a number is out of range, a probability is negative, or rows do not rise from 0.
        """
        numbers = [np.asarray(x) for x in (state, action, next_state)]
        prob = np.asarray(prob, np.float64)
        if any(x.shape != prob.shape or x.ndim != 1 for x in numbers):
            shapes = ", ".join(str(x.shape) for x in (*numbers, prob))
            raise UserError(f"state, action, next_state, prob: expected four lists of one length, got shapes {shapes}")
        state, action, next_state = numbers
        if rows is not None:
            rows = _rising(np.asarray(rows))
            num_states, num_actions = len(rows) - 1, int(np.diff(rows).max())
        if num_states is None:
            num_states = int(max(state.max(initial=0), next_state.max(initial=0))) + 1
        num_actions = int(action.max(initial=0)) + 1 if num_actions is None else num_actions
        _check_range("state", state, num_states)
        _check_range("action", action, num_actions if rows is None else np.diff(rows)[state])
        _check_range("next_state", next_state, num_states)
        bad = np.flatnonzero(~(prob >= 0))
        if bad.size:
            raise UserError(f"prob[{bad[0]}]: expected a probability, got {prob[bad[0]]}")
        kept = prob != 0
        begin = state[kept].astype(np.int64) * num_actions if rows is None else rows.astype(np.int64)[state[kept]]
        keys, place = np.unique((begin + action[kept]) * num_states + next_state[kept], return_inverse=True)
        return _packed(keys, np.bincount(place, prob[kept], len(keys)), (num_states, num_actions), rows)

    @classmethod
    def of(cls, transition: Float[Array | np.ndarray, "*T S A S"]) -> Successors:
        """From a table of P(s' | s, a). On the host.

        Raises:
            ValueError: it has another shape.
        """
        table = np.asarray(transition)
        if table.ndim not in (3, 4) or table.shape[-3] != table.shape[-1]:
            raise UserError(f"transition: expected float[S, A, S], or a table for each step, got shape {table.shape}")
        occurs = np.flatnonzero(table if table.ndim == 3 else table.any(0))
        probs = table.reshape(*table.shape[:-3], -1)[..., occurs]
        return _packed(occurs, probs, table.shape[-3:-1], None)

    @classmethod
    def every(cls, transition: Float[Array, "*T S A S"]) -> Successors:
        """The same with all S next states of each cell, for tables that are traced or dense."""
        num_states, num_actions = transition.shape[-3:-1]
        cells = num_states * num_actions
        return cls(
            first=jnp.arange(cells + 1, dtype=jnp.int32) * num_states,
            states=jnp.tile(jnp.arange(num_states, dtype=jnp.int32), cells),
            probs=transition.reshape(*transition.shape[:-3], -1),
            rows=None,
            shape=(num_states, num_actions),
            longest=num_states,
            widest=num_states * num_actions,
        )

    @property
    def num_cells(self) -> int:
        """C."""
        return len(self.first) - 1

    @property
    def by_step(self) -> bool:
        """Whether each step has chances of its own."""
        return self.probs.ndim > 1

    def cell(self, s: Any, a: Any) -> Any:
        """The number of a cell."""
        return s * self.shape[1] + a if self.rows is None else self.rows[s] + a

    def draw(
        self, cumulative: Float[Array, "*T N"], s: Int[Array, ""], a: Any, t: Any, uniform: Float[Array, ""]
    ) -> Int[Array, ""]:
        """Where a step leads, by the inverse of `cumulative`; t is looked at where each step has chances of its own.

        Args:
            cumulative: `sums`.
            uniform: in [0, 1).
        """
        cell = self.cell(s, a)
        low, end = self.first[cell], self.first[cell + 1]
        sum_at = (lambda i: cumulative[i]) if cumulative.ndim == 1 else (lambda i: cumulative[t, i])
        sought = uniform * sum_at(end - 1)

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) // 2
            beyond = sought >= sum_at(jnp.minimum(middle, end - 1))
            return jnp.where(beyond & (low < high), middle + 1, low), jnp.where(beyond, high, middle)

        # the first that exceeds what is sought; a loop, for XLA takes twice as long to compile each round written out
        low, _ = jax.lax.fori_loop(0, self.longest.bit_length(), halve, (low, end))
        return self.states[jnp.minimum(low, end - 1)]

    def of_state(self, s: Int[Array, ""]) -> tuple[Int[Array, " M"], Float[Array, " M"], Int[Array, " A+1"]]:
        """What all actions of a state may lead to, how likely, and where the part of each begins and the last one ends.
        M is `widest`; beyond the end nothing is likely. For chances that are the same at each step."""
        actions = jnp.arange(self.shape[1] + 1)
        cells = self.cell(s, actions if self.rows is None else jnp.minimum(actions, self.rows[s + 1] - self.rows[s]))
        bounds = self.first[cells]
        places = bounds[0] + jnp.arange(self.widest)
        valid, places = places < bounds[-1], jnp.minimum(places, len(self.states) - 1)
        return self.states[places], jnp.where(valid, self.probs[places], 0.0), bounds - bounds[0]

    def any_of(self, marked: Bool[Array, " M"], bounds: Int[Array, " A+1"]) -> Bool[Array, " A"]:
        """Of which actions any successor is marked, of those that `of_state` gave."""
        before = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(marked, dtype=jnp.int32)])
        return jnp.diff(before[bounds]) > 0

    def cells(self) -> Int[np.ndarray, " N"]:
        """The cell of each successor. On the host."""
        return np.repeat(np.arange(self.num_cells), np.diff(np.asarray(self.first)))

    def place(self, cell: Int[np.ndarray, "*b"]) -> tuple[Int[np.ndarray, "*b"], Int[np.ndarray, "*b"]]:
        """State and action of cells. On the host."""
        if self.rows is None:
            return np.divmod(cell, self.shape[1])
        state = np.searchsorted(np.asarray(self.rows), cell, side="right") - 1
        return state, cell - np.asarray(self.rows)[state]

    def to_steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, Float[np.ndarray, "*T N"]]:
        """State, action, next state and probability of all that occurs: what `from_steps` takes. On the host."""
        return *self.place(self.cells()), np.asarray(self.states), np.asarray(self.probs)

    def prob(
        self, s: Int[np.ndarray, "*b"], a: Int[np.ndarray, "*b"], after: Int[np.ndarray, "*b"], t: Any = None
    ) -> Float[np.ndarray, "*b"]:
        """P(after | s, a) of any actions that the states have, at step t where each has chances of its own. On the
        host."""
        size = self.shape[0]
        host = jax.tree.map(np.asarray, self)
        keys = self.cells() * size + host.states  # sorted
        key = host.cell(np.asarray(s, np.int64), a) * size + after
        places = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(keys[places] == key, host.probs[(t, places) if self.by_step else places], 0.0)

    def sums(self) -> Float[np.ndarray, "*T N"]:
        """How likely each successor or one before it in its cell is: summed in double precision, in that of the device.
        On the host."""
        first, probs = np.asarray(self.first), np.asarray(self.probs)
        if self.by_step:
            return np.stack([_sums(first, x) for x in probs])
        return _sums(first, probs)

    def table(self) -> Float[np.ndarray, "*T S A S"]:
        """P(s' | s, a) of all S next states, S·A·S numbers: for small worlds, to look at. On the host."""
        state, action, next_state, probs = self.to_steps()
        table = np.zeros((*probs.shape[:-1], *self.shape, self.shape[0]), probs.dtype)
        table[..., state, action, next_state] = probs
        return table


def successors(env: Any, params: Any) -> Successors | None:
    """Those of a finite world of chance that tells them, by `successors` or `transition_probs`; None of any other."""
    if hasattr(env, "successors"):
        return env.successors(params)
    probs = env.transition_probs(params) if hasattr(env, "transition_probs") else None
    return None if probs is None else Successors.every(jnp.asarray(probs))


@partial(jax.jit, static_argnums=0)  # so that no table is made to be counted
def most_successors(env: Any, params: Any) -> Int[Array, ""] | None:
    """How many states a step may lead to at most; None where the world does not tell, or says that it rolls no dice."""
    chances = successors(env, params)
    return None if chances is None else jnp.max(num_successors(chances))


def num_successors(chances: Successors) -> Int[Array, "*T C"]:
    """How many states each cell may lead to."""
    before = jnp.cumsum(jnp.asarray(chances.probs) > 0, axis=-1, dtype=jnp.int32)
    before = jnp.concatenate([jnp.zeros_like(before[..., :1]), before], axis=-1)
    return jnp.diff(before[..., chances.first])


def tells_chances(env: Any) -> bool:
    """Whether the world tells where chance leads."""
    return hasattr(env, "successors") or hasattr(env, "transition_probs")


def _packed(
    keys: Int[np.ndarray, " N"],
    probs: Float[np.ndarray, "*T N"],
    shape: tuple[int, int],
    rows: Int[np.ndarray, " S+1"] | None,
) -> Successors:
    """Of sorted numbers cell·S + s', each once."""
    cell, next_state = np.divmod(keys, shape[0])
    begin = np.arange(shape[0] + 1) * shape[1] if rows is None else rows
    first = np.searchsorted(cell, np.arange(int(begin[-1]) + 1)).astype(np.int32)
    longest, widest = (int(np.diff(x).max(initial=0)) for x in (first, first[begin]))
    return Successors(first, next_state.astype(np.int32), probs, rows, (shape[0], shape[1]), longest, widest)


def _sums(first: Int[np.ndarray, " C+1"], probs: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    total = np.cumsum(probs, dtype=np.float64)
    before = np.append(0.0, total)[first[:-1]]
    return (total - np.repeat(before, np.diff(first))).astype(jnp.result_type(float))


def _rising(rows: np.ndarray) -> Int[np.ndarray, " S+1"]:
    rises = rows.ndim == 1 and rows.dtype.kind in "iu" and len(rows) > 1 and rows[0] == 0 and (np.diff(rows) >= 0).all()
    if not rises:
        raise UserError(f"rows: expected S + 1 whole numbers that rise from 0, got {rows}")
    return rows.astype(np.int32)


def _check_range(name: str, values: np.ndarray, size: Any) -> None:
    """Raise a ValueError where a number is not in [0, size), or its own of so many sizes."""
    if values.dtype.kind not in "iu":
        raise UserError(f"{name}: expected integers in [0, {np.max(size) - 1}], got {values.dtype}")
    bad = np.flatnonzero((values < 0) | (values >= size))
    if bad.size:
        most = np.broadcast_to(size, values.shape)[bad[0]] - 1
        raise UserError(f"{name}: expected integers in [0, {most}], got {values[bad[0]]}")
