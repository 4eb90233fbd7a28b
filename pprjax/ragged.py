"""Ragged tables: rows of different lengths, stored one after the other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int, Shaped

from pprjax.errors import UserError


@struct.dataclass
class Ragged:
    """A table of S rows that has what there is: E numbers in place of S·A, where few rows have as many as the longest.

    Entry a of row s is values[first[s] + a], for a < first[s + 1] - first[s]. `TabularMDP(next_state, reward, …)` and
    `TablePolicy` take it in place of a dense table: an action is then the place of a step in the row of its state.
    """

    first: Any  # int32[S + 1], rising from 0 to E: where each row begins
    values: Any  # [E + A], row after row, and A numbers that nobody reads: a row is taken as a slice of A
    width: int = struct.field(pytree_node=False)  # A, the length of the longest row
    times: int = struct.field(pytree_node=False, default=1)  # rows that stand for each row that is stored

    @classmethod
    def of(cls, first: Int[np.ndarray, " S+1"], values: Shaped[np.ndarray, " E"]) -> Ragged:
        """Of where the rows begin, and what is in them. On the host.

        Raises:
            ValueError: first is not whole numbers that rise from 0 to E, or no row has an entry.
        """
        first, values = np.asarray(first), np.asarray(values)
        rises = first.ndim == 1 and first.dtype.kind in "iu" and len(first) > 1 and (np.diff(first) >= 0).all()
        if not rises or values.ndim != 1 or not values.size or first[0] != 0 or first[-1] != len(values):
            raise UserError(
                f"first: expected S + 1 whole numbers that rise from 0 to the {values.size} values, got {first}"
            )
        width = int(np.diff(first).max())
        return cls(first.astype(np.int32), np.append(values, np.zeros(width, values.dtype)), width)

    @property
    def shape(self) -> tuple[int, int]:
        """S and A."""
        return (getattr(self.first, "shape", (1,))[0] - 1) * self.times, self.width  # no array: a pytree in transit

    @property
    def num_cells(self) -> int:
        """Numbers in an array that has room for a row of A at the `cell` of every row."""
        return len(self.values) * self.times

    @property
    def entries(self) -> Any:
        """The E numbers, without those that nobody reads."""
        return self.values[: len(self.values) - self.width]

    @property
    def rows(self) -> Int[np.ndarray, " E"]:
        """The stored row of each entry. On the host."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(np.asarray(self.first)))

    def place(self, entry: int) -> list[int]:
        """The first row and the column of an entry. On the host."""
        stored = int(np.searchsorted(self.first, entry, side="right")) - 1
        return [stored * self.times, entry - int(self.first[stored])]

    def sums(self, *, empty: float) -> Float[np.ndarray, " S"]:
        """The sum of each row, and what stands for that of a row without entries. On the host."""
        first = np.asarray(self.first)
        sums = np.bincount(self.rows, np.asarray(self.entries, float), len(first) - 1)
        return np.repeat(np.where(np.diff(first) > 0, sums, empty), self.times)

    def replace_values(self, values: Any) -> Ragged:
        """The table with other values, [E + A]."""
        return Ragged(self.first, values, self.width, self.times)

    def row(self, s: Int[Array, ""], fill: Any) -> Shaped[Array, " A"]:
        """The A numbers of a row, `fill` where it has no more."""
        begin, length = self._place(s)
        valid = jnp.arange(self.width) < length
        return jnp.where(valid, slice_of(jnp.asarray(self.values), begin, self.width), fill)

    def entry(self, s: Int[Array, ""], a: Any, fill: Any) -> Shaped[Array, ""]:
        """One number of a row, `fill` beyond its end."""
        begin, length = self._place(s)
        return jnp.where(a < length, jnp.asarray(self.values)[begin + a], fill)

    def cell(self, s: Int[Array, ""]) -> Int[Array, ""]:
        """Where row s begins in an array of `num_cells`, in which each row has numbers of its own."""
        return self._place(s)[0] + s % self.times * len(self.values)

    @property
    def states(self) -> Int[Array, " cells"]:
        """The row that each of the `num_cells` belongs to; the last one of its copy where nobody reads."""
        first = jnp.asarray(self.first)
        stored = jnp.searchsorted(first, jnp.arange(len(self.values)), side="right") - 1
        stored = jnp.minimum(stored, len(first) - 2)
        return (stored * self.times + jnp.arange(self.times)[:, None]).ravel()

    def _place(self, s: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Where a row begins, and its length."""
        first, stored = jnp.asarray(self.first), s // self.times
        return first[stored], first[stored + 1] - first[stored]

    def repeated(self, times: int) -> Ragged:
        """Each row so many times, one after the other; nothing more is stored."""
        return Ragged(self.first, self.values, self.width, self.times * times)

    def every(self, times: int) -> Ragged:
        """What `repeated` was made of."""
        return Ragged(self.first, self.values, self.width, self.times // times)

    def tiled(self, times: int) -> Ragged:
        """All rows so many times, one table after the other. On the host."""
        entries, first = np.asarray(self.entries), np.asarray(self.first, np.int64)
        starts = (first[:-1] + len(entries) * np.arange(times)[:, None]).ravel()
        return Ragged.of(np.append(starts, len(entries) * times), np.tile(entries, times))


def slice_of(values: Shaped[Array, " N"], begin: Int[Array, ""], size: int) -> Shaped[Array, " size"]:
    """values[begin], …, values[begin + size - 1]."""
    return jax.lax.dynamic_slice(values, (begin,), (size,))


def row_of(table: Any, s: Int[Array, ""], fill: Any) -> Shaped[Array, " A"]:
    """A row of a table, dense or ragged; `fill` where a ragged one has no more."""
    return table.row(s, fill) if isinstance(table, Ragged) else table[s]


def entry_of(table: Any, s: Int[Array, ""], a: Any, fill: Any) -> Shaped[Array, ""]:
    """One entry of such a table. Of a dense one it is taken by one index, which gathers faster than two."""
    return table.entry(s, a, fill) if isinstance(table, Ragged) else table.ravel()[s * table.shape[-1] + a]


def logarithm(table: Any) -> Any:
    """log of each entry of such a table."""
    return table.replace_values(jnp.log(table.values)) if isinstance(table, Ragged) else jnp.log(table)


def repeated(table: Any, times: int) -> Any:
    """Each row of such a table so many times, one after the other."""
    return table.repeated(times) if isinstance(table, Ragged) else jnp.repeat(jnp.asarray(table), times, axis=0)


def every(table: Any, times: int) -> Any:
    """What `repeated` was made of."""
    return table.every(times) if isinstance(table, Ragged) else table[::times]


def tiled(table: Any, times: int) -> Any:
    """All rows of such a table so many times, one table after the other. On the host."""
    return table.tiled(times) if isinstance(table, Ragged) else np.tile(table, (times, 1))
