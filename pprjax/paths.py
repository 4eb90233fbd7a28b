"""Paths: a batch of symbol sequences of unequal length, padded to one array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from flax import struct

from pprjax.errors import UserError

PAD = -1
"""Fills symbols and actions after the end of a path. No symbol is negative."""

LENGTHS = 8
"""Batches are padded to a multiple of this many symbols, so that those of nearly one length share a compilation."""


@struct.dataclass
class Paths:
    """N paths ⟨s₁ … s_T⟩ of symbols, the start and the last one included.

    B denotes the number of paths, T the length of the longest (or more).
    """

    symbols: np.ndarray  # int32[B, T], PAD after the end
    lengths: np.ndarray  # int32[B], symbols in each path, at least 1
    actions: np.ndarray | None = None  # int32[B, T - 1], the action taken from each symbol; PAD after the end

    @classmethod
    def from_lists(
        cls, symbols: Iterable[Sequence[int] | np.ndarray], actions: Iterable[Sequence[int] | np.ndarray] | None = None
    ) -> Paths:
        """Pad ragged lists into one batch.

        Args:
            symbols: for each path its symbols, integers in [0, 2³¹ - 1].
            actions: for each path the action from each symbol but the last; optional.

        Raises:
            ValueError: there is no path, a path is empty, a symbol is out of range, or a path does not have
                exactly one action fewer than symbols. The message names the path.
        """
        rows = [np.asarray(row) for row in symbols]
        if not rows:
            raise UserError("symbols: expected at least one path, got none")
        for i, row in enumerate(rows):
            _check_row(f"symbols[{i}]", row)
            if row.size == 0:
                raise UserError(f"symbols[{i}]: a path needs at least its start, got an empty path")
        lengths = np.array([len(row) for row in rows], np.int32)
        padded_actions = None
        if actions is not None:
            action_rows = [np.asarray(row) for row in actions]
            if len(action_rows) != len(rows):
                raise UserError(f"actions: expected one row for each of {len(rows)} paths, got {len(action_rows)}")
            for i, row in enumerate(action_rows):
                _check_row(f"actions[{i}]", row)
                if len(row) != lengths[i] - 1:
                    raise UserError(f"actions[{i}]: expected {lengths[i] - 1}, one fewer than symbols, got {len(row)}")
            padded_actions = _pad(action_rows, max(int(lengths.max()) - 1, 0))
        return cls(symbols=_pad(rows, int(lengths.max())), lengths=lengths, actions=padded_actions)

    def to_lists(self) -> list[list[int]]:
        """The symbols of each path, without padding."""
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

    def __iter__(self) -> Iterator[list[int]]:
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


def _check_row(name: str, row: np.ndarray) -> None:
    if row.ndim != 1:
        raise UserError(f"{name}: expected a list of integers, got an array of shape {row.shape}")
    if row.size and row.dtype.kind not in "iu":
        raise UserError(f"{name}: expected integers, got {row.dtype}")
    bad = np.flatnonzero((row < 0) | (row > np.iinfo(np.int32).max))
    if bad.size:
        raise UserError(f"{name}[{bad[0]}]: expected an integer in [0, 2147483647], got {row[bad[0]]}")


def _pad(rows: list[np.ndarray], width: int) -> np.ndarray:
    padded = np.full((len(rows), width), PAD, np.int32)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _resize(array: np.ndarray, width: int) -> np.ndarray:
    resized = np.full((len(array), width), PAD, np.int32)
    kept = min(width, array.shape[1])
    resized[:, :kept] = array[:, :kept]
    return resized
