"""Who judges sequences: a classifier that reads symbol by symbol, or a judge that reads whole sequences only."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.paths import PAD
from pprjax_envs.sequence.asked import asked_probs
from pprjax_envs.sequence.on_host import HostJudge, OnHost


@runtime_checkable
class Classifier(Protocol):
    """A classifier that reads a sequence symbol by symbol, unbatched and pure; a pytree, so that weights are traced."""

    def init(self) -> Any:
        """The carry before the first symbol."""
        ...

    def step(self, carry: Any, symbol: Int[Array, ""]) -> Any:
        """The carry after one more symbol; O(1) in the symbols read before."""
        ...

    def log_probs(self, carry: Any) -> Float[Array, " C"]:
        """The log probability of each of C ≥ 2 classes, given the symbols read so far."""
        ...


@runtime_checkable
class Judge(Protocol):
    """A classifier that reads whole sequences only, unbatched and pure; a pytree, so that weights are traced."""

    def probs(self, symbols: Int[Array, " L"], length: Int[Array, ""]) -> Float[Array, " C"]:
        """The probability of each of C ≥ 2 classes, given a sequence of `length` symbols, PAD after the last."""
        ...


@struct.dataclass
class Reread:
    """A Judge as a Classifier. Its carry is the symbols so far: of each prefix it thinks what it would if it ended."""

    judge: Any  # a Judge
    room: int = struct.field(pytree_node=False)  # L, the most symbols

    def init(self) -> tuple[Int[Array, " L"], Int[Array, ""]]:
        return jnp.full(self.room, PAD, jnp.int32), jnp.int32(0)

    def step(self, carry: Any, symbol: Int[Array, ""]) -> tuple[Int[Array, " L"], Int[Array, ""]]:
        symbols, length = carry
        return jnp.where(jnp.arange(self.room) == length, symbol, symbols), length + 1

    def log_probs(self, carry: Any) -> Float[Array, " C"]:
        return jnp.log(self.judge.probs(*carry))

    def opinion(self, carry: Any, asked: Bool[Array, ""]) -> tuple[Float[Array, " C"], Bool[Array, " C"]]:
        """Each class's probability, and the classes that the judge takes these symbols for, if it is asked; else 0."""
        symbols, length = carry
        if isinstance(self.judge, HostJudge):
            return self.judge.opinion(symbols, asked)
        probs = asked_probs(self.judge, symbols, length, asked)
        return probs, probs > 0.5


def as_classifier(judge: Classifier | Judge | OnHost, room: int) -> Any:
    """Whatever judges, as a Classifier of sequences of at most `room` symbols.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(judge, OnHost):
        return Reread(judge.known(), room)
    if isinstance(judge, Classifier):
        return judge
    if isinstance(judge, Judge):
        return Reread(judge, room)
    raise TypeError(
        f"classifier: expected init, step and log_probs, or probs, or an OnHost, got {type(judge).__name__}"
    )
