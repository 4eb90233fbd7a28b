"""Judges of whole sequences that are plain Python: what JAX's programs ask of them, and what they remember."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
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
    Judges of one and the same function, of several worlds in a stack, are read in one call of it.

    Args:
        probs: of a list of N sequences, int32[n] each, the probability of each class: float[N, C].
        num_classes: C ≥ 2.
        takes: of these probabilities, as float64[N, C], the classes that each sequence is taken for: bool[N, C];
            default those above one half.
        reads: what `probs` is given of each sequence, as its text; default the sequence.

    Raises:
        ValueError: num_classes is below 2.
    """

    def __init__(
        self,
        probs: Callable[[list[Any]], Any],
        *,
        num_classes: int,
        takes: Callable[[np.ndarray], Any] | None = None,
        reads: Callable[[np.ndarray], Any] | None = None,
    ):
        if num_classes < 2:
            raise UserError(f"num_classes: expected at least 2, got {num_classes}")
        self.probs, self.num_classes, self._takes, self.reads = probs, num_classes, takes, reads
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

    def unread(self, symbols: Int[np.ndarray, "N L"]) -> dict[bytes, Any]:
        """What `probs` is still to be given of these sequences, PAD after the last symbol of each."""
        if len(self._known) > REMEMBERED:
            self._known = {}
        new = {row.tobytes(): row[row != PAD] for row in symbols}
        return {
            key: row if self.reads is None else self.reads(row) for key, row in new.items() if key not in self._known
        }

    def learn(self, keys: Iterable[bytes], probs: Float[np.ndarray, "N C"]) -> None:
        """Remember what `probs` said, and which classes that is taken for."""
        takes = probs > 0.5 if self._takes is None else np.asarray(self._takes(probs), bool)
        self._known |= zip(keys, np.concatenate([probs, takes], axis=1).astype(np.float32), strict=True)

    def fail(self, error: Exception) -> None:
        """Keep what was raised, for `check`."""
        self._error = error

    def opinion(self, symbols: Int[np.ndarray, "N L"]) -> Float[np.ndarray, "N 2*C"]:
        """Of each sequence, once it was read, the probabilities of the classes and whether it is taken for each; NaN
        and False where reading it failed."""
        nothing = np.repeat(np.array([np.nan, 0.0], np.float32), self.num_classes)
        return np.stack([self._known.get(row.tobytes(), nothing) for row in symbols])


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
    rows = {number: asked & (numbers == number) for number in np.unique(numbers[asked]).tolist()}
    judges = {number: registered(number) for number in rows}
    if None in judges.values():
        raise ReferenceError("classifier: its OnHost is gone; keep the world as long as its parameters")
    left = dict(judges)
    while left:
        probs = next(iter(left.values())).probs
        together = {number: judge for number, judge in left.items() if _same(judge.probs, probs)}
        _judge(probs, [(judge, symbols[rows[number]]) for number, judge in together.items()])
        left = {number: judge for number, judge in left.items() if number not in together}
    for number, judge in judges.items():
        read[rows[number]] = judge.opinion(symbols[rows[number]])
    return read


def _same(one: Any, other: Any) -> bool:
    """Whether two functions are one; what can't be compared, as some objects of arrays, is so only with itself."""
    try:
        return one is other or bool(one == other)
    except Exception:  # whatever an object's own == raises; none may leave a callback
        return False


def _judge(probs: Callable[[list[Any]], Any], asked: Sequence[tuple[OnHost, Int[np.ndarray, "n L"]]]) -> None:
    """Let judges of one function read what they have not yet read, in one call of it. Never raises."""
    try:
        unread = [judge.unread(symbols) for judge, symbols in asked]
        new = [sequence for sequences in unread for sequence in sequences.values()]
        if not new:
            return
        said = np.asarray(probs(new), np.float64)
        num_classes = asked[0][0].num_classes  # theirs all: one program's width
        if said.shape != (len(new), num_classes):
            raise UserError(f"probs: expected float[{len(new)}, {num_classes}], got shape {said.shape}")
        if not ((said >= 0) & (said <= 1)).all():
            raise UserError(f"probs: expected probabilities in [0, 1], got {said.min():.4g} to {said.max():.4g}")
        ends = np.cumsum([len(sequences) for sequences in unread])
        for (judge, _), sequences, part in zip(asked, unread, np.split(said, ends[:-1]), strict=True):
            judge.learn(sequences, part)
    except Exception as error:  # one may not leave a callback; `check` raises it
        for judge, _ in asked:
            judge.fail(error)
