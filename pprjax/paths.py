"""Paths: a batch of symbol sequences of unequal length, padded to one array.

A symbol is an integer; or, where states are continuous, a vector of k numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import struct

from pprjax.errors import UserError

PAD = -1
"""Fills symbols and actions after the end of a path. No symbol is negative."""

FAR = np.inf
"""Fills vectors after the end of a path: it is infinitely far from every symbol, all of which are finite."""

CLOSE = 1e-3
"""Two numbers of a vector count as the same up to this difference, beside 1 and their size: float32 may make as much of
some hundred steps."""

LENGTHS = 8
"""Batches are padded to a multiple of this many symbols, so that those of nearly one length share a compilation."""


@struct.dataclass
class Paths:
    """N paths ⟨s₁ … s_T⟩ of symbols, the start and the last one included.

    B denotes the number of paths, T the length of the longest (or more), k the numbers of a vector.
    """

    symbols: np.ndarray  # int32[B, T], PAD after the end; or of vectors float32[B, T, k], inf after the end
    lengths: np.ndarray  # int32[B], symbols in each path, at least 1
    actions: np.ndarray | None = None  # int32[B, T - 1], the action taken from each symbol; PAD after the end

    @classmethod
    def from_lists(
        cls, symbols: Iterable[Sequence[Any] | np.ndarray], actions: Iterable[Sequence[int] | np.ndarray] | None = None
    ) -> Paths:
        """Pad ragged lists into one batch.

        Args:
            symbols: for each path its symbols, integers in [0, 2³¹ - 1]; or float[n, k], n vectors of k numbers, which
                are kept as float32.
            actions: for each path the action from each symbol but the last; optional.

        Raises:
            ValueError: there is no path, a path is empty, a symbol is out of range, a vector has another k than the
                first or a number that is not finite, or a path does not have exactly one action fewer than symbols.
                The message names the path.
        """
        rows = [_row(f"symbols[{i}]", row) for i, row in enumerate(symbols)]
        if not rows:
            raise UserError("symbols: expected at least one path, got none")
        vectors = rows[0].ndim == 2 and rows[0].dtype.kind == "f"
        for i, row in enumerate(rows):
            if vectors:
                _check_vectors(f"symbols[{i}]", row, rows[0].shape[1])
            else:
                _check_row(f"symbols[{i}]", row)
            if row.size == 0:
                raise UserError(f"symbols[{i}]: a path needs at least its start, got an empty path")
        lengths = np.array([len(row) for row in rows], np.int32)
        padded_actions = None
        if actions is not None:
            action_rows = [_row(f"actions[{i}]", row) for i, row in enumerate(actions)]
            if len(action_rows) != len(rows):
                raise UserError(f"actions: expected one row for each of {len(rows)} paths, got {len(action_rows)}")
            for i, row in enumerate(action_rows):
                _check_row(f"actions[{i}]", row)
                if len(row) != lengths[i] - 1:
                    raise UserError(f"actions[{i}]: expected {lengths[i] - 1}, one fewer than symbols, got {len(row)}")
            padded_actions = _pad(action_rows, max(int(lengths.max()) - 1, 0))
        return cls(symbols=_pad(rows, int(lengths.max())), lengths=lengths, actions=padded_actions)

    @property
    def vector_size(self) -> int | None:
        """k, the numbers of a symbol that is a vector; None where symbols are integers."""
        return None if np.ndim(self.symbols) == 2 else np.shape(self.symbols)[2]

    def to_lists(self) -> list[list[Any]]:
        """The symbols of each path, without padding: integers, or lists of k numbers."""
        return [row[:n].tolist() for row, n in zip(np.asarray(self.symbols), np.asarray(self.lengths), strict=True)]

    def actions_to_lists(self) -> list[list[int]]:
        """The actions of each path, without padding.

        Raises:
            ValueError: these paths have no actions.
        """
        if self.actions is None:
            raise UserError("actions: these paths have none")
        rows = zip(np.asarray(self.actions), np.asarray(self.lengths), strict=True)
        return [row[: n - 1].tolist() for row, n in rows]

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        lengths = np.ravel(self.lengths) if isinstance(self.lengths, np.ndarray) else np.zeros(0)
        of = f" of {lengths.min()} to {lengths.max()} symbols" if lengths.size else ""
        return f"Paths({lengths.size} paths{of}{'' if self.actions is None else ', with actions'})"

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.to_lists())

    def __getitem__(self, index) -> Paths:
        """A batch with the chosen paths: `paths[3]`, `paths[2:5]` or `paths[[0, 7]]`."""
        index = np.atleast_1d(np.arange(len(self))[index])
        actions = None if self.actions is None else np.asarray(self.actions)[index]
        return Paths(np.asarray(self.symbols)[index], np.asarray(self.lengths)[index], actions)

    def padded(self) -> Paths:
        """The same paths in an array of a multiple of `LENGTHS` symbols, the smallest that holds them."""
        return self.padded_to(-(-int(np.max(self.lengths)) // LENGTHS) * LENGTHS)

    def padded_to(self, length: int) -> Paths:
        """The same paths in an array of `length` ≥ max(lengths) symbols."""
        longest = int(np.max(self.lengths, initial=0))
        if length < longest:
            raise UserError(f"length: expected at least {longest}, the longest path, got {length}")
        actions = None if self.actions is None else _resize(np.asarray(self.actions), length - 1)
        return Paths(_resize(np.asarray(self.symbols), length), np.asarray(self.lengths), actions)


def alike(one: Any, other: Any) -> Any:
    """Whether symbols are the same; of vectors, whether each number is within CLOSE of the other's. bool[*b]"""
    if not jnp.issubdtype(one.dtype, jnp.floating):
        return one == other
    return (jnp.abs(one - other) <= CLOSE * (1.0 + jnp.abs(other))).all(-1)


def fill_of(symbols: Any) -> Any:
    """What fills paths of symbols of this type after their end: PAD, or of vectors FAR."""
    return FAR if jnp.issubdtype(symbols.dtype, jnp.floating) else PAD


def _row(name: str, row: Any) -> np.ndarray:
    try:
        return np.asarray(row)
    except ValueError as error:  # NumPy's word for rows of unequal length
        raise UserError(f"{name}: expected integers, or vectors of one size, got rows of unequal length") from error


def _check_vectors(name: str, row: np.ndarray, size: int) -> None:
    if row.ndim != 2 or row.shape[1] != size:
        raise UserError(
            f"{name}: expected vectors of {size} numbers, as in symbols[0], got an array of shape {row.shape}"
        )
    if row.dtype.kind not in "fiu":
        raise UserError(f"{name}: expected vectors of numbers, got {row.dtype}")
    bad = np.flatnonzero(~np.isfinite(row.astype(np.float32)).all(1))
    if bad.size:
        raise UserError(f"{name}[{bad[0]}]: expected finite numbers, got {row[bad[0]].tolist()}")


def _check_row(name: str, row: np.ndarray) -> None:
    if row.ndim != 1:
        raise UserError(f"{name}: expected a list of integers, got an array of shape {row.shape}")
    if row.size and row.dtype.kind not in "iu":
        raise UserError(f"{name}: expected integers, got {row.dtype}")
    bad = np.flatnonzero((row < 0) | (row > np.iinfo(np.int32).max))
    if bad.size:
        raise UserError(f"{name}[{bad[0]}]: expected an integer in [0, 2147483647], got {row[bad[0]]}")


def _pad(rows: list[np.ndarray], width: int) -> np.ndarray:
    padded = _empty(len(rows), width, *rows[0].shape[1:])
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _resize(array: np.ndarray, width: int) -> np.ndarray:
    resized = _empty(len(array), width, *array.shape[2:])
    kept = min(width, array.shape[1])
    resized[:, :kept] = array[:, :kept]
    return resized


def _empty(size: int, width: int, *vector: int) -> np.ndarray:
    """Room for paths of integers, or of vectors of k numbers."""
    if vector:
        return np.full((size, width, *vector), FAR, np.float32)
    return np.full((size, width), PAD, np.int32)
