"""Judges of whole sequences that are plain Python: what JAX's programs ask of them, and what they remember."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.paths import PAD
from pprjax_envs.registry import register, registered

REMEMBERED = 1_000_000
"""Sequences whose opinion a judge remembers: some 300 bytes each."""


class OnHost:
    """A judge that is a function of Python or NumPy, of many sequences at once. It reads each sequence once.

    What it raises does not stop a program: the probabilities are NaN, and `check` raises it. A world keeps its judge.

    Args:
        probs: of a list of N sequences, int32[n] each, the probability of each class: float[N, C].
        num_classes: C ≥ 2.
        takes: of these probabilities, as float64[N, C], the classes that each sequence is taken for: bool[N, C];
            default those above one half.

    Raises:
        ValueError: num_classes is below 2.
    """

    def __init__(
        self,
        probs: Callable[[list[np.ndarray]], Any],
        *,
        num_classes: int,
        takes: Callable[[np.ndarray], Any] | None = None,
    ):
        if num_classes < 2:
            raise UserError(f"num_classes: expected at least 2, got {num_classes}")
        self.probs, self.num_classes, self._takes = probs, num_classes, takes
        self._known: dict[bytes, np.ndarray] = {}
        self._error: Exception | None = None
        self._number = register(self)

    def known(self) -> HostJudge:
        """The same as programs know it."""
        return HostJudge(number=jnp.int32(self._number), num_classes=self.num_classes)

    def check(self) -> None:
        """Raise, once and with its own type, what the function raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def read(self, symbols: Int[np.ndarray, "N L"]) -> Float[np.ndarray, "N 2*C"]:
        """Of each sequence, PAD after its last symbol, the probabilities of the classes and whether it is taken for
        each. Those that were read before are not read again. Never raises."""
        if len(self._known) > REMEMBERED:
            self._known = {}
        keys = [row.tobytes() for row in symbols]
        new = {key: row for key, row in zip(keys, symbols, strict=True) if key not in self._known}
        try:
            if new:
                self._known |= zip(new, self._judged(list(new.values())), strict=True)
            return np.stack([self._known[key] for key in keys])
        except Exception as error:  # one may not leave a callback; `check` raises it
            self._error = error
            return np.tile(np.repeat(np.array([np.nan, 0.0], np.float32), self.num_classes), (len(keys), 1))

    def _judged(self, rows: list[np.ndarray]) -> Float[np.ndarray, "N 2*C"]:
        probs = np.asarray(self.probs([row[row != PAD] for row in rows]), np.float64)
        if probs.shape != (len(rows), self.num_classes):
            raise UserError(f"probs: expected float[{len(rows)}, {self.num_classes}], got shape {probs.shape}")
        if not ((probs >= 0) & (probs <= 1)).all():
            raise UserError(f"probs: expected probabilities in [0, 1], got {probs.min():.4g} to {probs.max():.4g}")
        takes = probs > 0.5 if self._takes is None else np.asarray(self._takes(probs), bool)
        return np.concatenate([probs, takes], axis=1).astype(np.float32)


@struct.dataclass
class HostJudge:
    """An `OnHost` as programs know it, a Judge: by its number, so that all of C classes share a program."""

    number: jax.Array  # int32[]
    num_classes: int = struct.field(pytree_node=False)  # C

    def probs(self, symbols: Int[Array, " L"], length: Int[Array, ""]) -> Float[Array, " C"]:
        del length  # PAD tells it
        return self.opinion(symbols, jnp.bool_(True))[0]

    def opinion(
        self, symbols: Int[Array, " L"], asked: Bool[Array, ""]
    ) -> tuple[Float[Array, " C"], Bool[Array, " C"]]:
        """Each class's probability, and the classes that the judge takes the sequence for, if it is asked; else 0."""
        shape = jax.ShapeDtypeStruct((2 * self.num_classes,), np.float32)
        answers = _answers(2 * self.num_classes)
        read = jax.pure_callback(answers, shape, self.number, symbols, asked, vmap_method="broadcast_all")
        probs, takes = jnp.split(read, 2)
        return probs, takes > 0


@functools.cache
def _answers(width: int) -> Callable[..., Float[np.ndarray, "*b 2*C"]]:
    """The same function each time, so that a step outside of a program is not compiled anew."""
    return functools.partial(_read, width)


def _read(width: int, numbers: Any, symbols: Any, asked: Any) -> Float[np.ndarray, "*b 2*C"]:
    """What each judge reads in the sequences that are asked for, 0 for the others. Takes any leading axes.

    Raises:
        ReferenceError: a judge is gone.
    """
    numbers, symbols, asked = np.asarray(numbers), np.asarray(symbols), np.asarray(asked)
    read = np.zeros((*asked.shape, width), np.float32)
    for number in np.unique(numbers[asked]):
        judge = registered(number)
        if judge is None:
            raise ReferenceError("classifier: its OnHost is gone; keep the world as long as its parameters")
        rows = asked & (numbers == number)
        read[rows] = judge.read(symbols[rows])
    return read
