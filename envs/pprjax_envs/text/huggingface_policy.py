"""P_A that asks a language model on the host, as a pure and batched Policy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax.errors import UserError
from pprjax.paths import PAD
from pprjax_envs.registry import registered

FINE, FAILED = 0, 1
"""The status of a step."""


class Asked(Protocol):
    """A language model on the host."""

    end: int

    def next_log_probs(self, prefixes: Sequence[Int[np.ndarray, " n"]]) -> Float[np.ndarray, "B V"]:
        """log P(next token | prefix)."""
        ...

    def fail(self, error: Exception) -> None:
        """Remember what was raised, for `check`."""
        ...

    def check(self) -> None:
        """Raise what was raised, once."""
        ...


@struct.dataclass
class Prefix:
    """What a HuggingFacePolicy remembers: the tokens so far."""

    tokens: jax.Array  # int32[L], V for the start; PAD after the last
    length: jax.Array  # int32[], of tokens, the start included
    status: jax.Array  # int32[], FINE or FAILED, of the last step


@struct.dataclass
class HuggingFacePolicy:
    """P_A of a `LanguageModel`, which must be kept as long as the policy is used: a policy knows its number alone.

    Policies of one vocabulary and one length share one compilation. What the model raises does not stop a rollout: the
    log-probabilities are NaN from there on, the carry's status is FAILED, and `check` raises it.
    """

    handle: jax.Array  # int32[], the model's number on the host
    num_tokens: int = struct.field(pytree_node=False)  # V
    max_length: int = struct.field(pytree_node=False)  # L, tokens of a prefix at most, the start included

    def init(self) -> Prefix:
        return Prefix(tokens=jnp.full(self.max_length, PAD, jnp.int32), length=jnp.int32(0), status=jnp.int32(FINE))

    def step(self, carry: Prefix, state: Any) -> tuple[Prefix, Float[Array, " V"]]:
        """The prefix with `state.symbol` at its end, and log P of the next token: `LanguageModel.next_log_probs`."""
        here = jnp.arange(self.max_length) == carry.length
        tokens = jnp.where(here, jnp.asarray(state.symbol, jnp.int32), carry.tokens)
        length = carry.length + 1
        shapes = jax.ShapeDtypeStruct((self.num_tokens,), np.float32), jax.ShapeDtypeStruct((), np.int32)
        ask = functools.partial(_answer, self.num_tokens)
        log_probs, status = jax.pure_callback(ask, shapes, self.handle, tokens, length, vmap_method="broadcast_all")
        return Prefix(tokens=tokens, length=length, status=status), log_probs

    def check(self) -> None:
        """Raise, once and with its own type, what the model raised since the last check.

        Raises:
            ReferenceError: the model is gone.
        """
        model: Asked | None = registered(self.handle)
        if model is None:
            raise ReferenceError("policy: its LanguageModel is gone; keep it as long as the policy")
        model.check()


def _answer(num_tokens: int, handles: Any, tokens: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    """float32[..., V] and int32[...]: log-probabilities and status after prefixes int32[..., L]. Never raises."""
    handles, tokens, lengths = np.asarray(handles), np.asarray(tokens), np.asarray(lengths)
    log_probs = np.full((*lengths.shape, num_tokens), np.nan, np.float32)
    status = np.full(lengths.shape, FAILED, np.int32)
    for handle in np.unique(handles):
        model: Asked | None = registered(handle)
        at = handles == handle
        if model is None:
            continue
        try:
            prefixes = [_prefix(model.end, *row) for row in zip(tokens[at], lengths[at], strict=True)]
            log_probs[at] = model.next_log_probs(prefixes)
            status[at] = FINE
        except Exception as error:  # one may not leave a callback; `check` raises it
            model.fail(error)
    return log_probs, status


def _prefix(end: int, tokens: Int[np.ndarray, " L"], length: int) -> Int[np.ndarray, " n"]:
    if length > len(tokens) and end not in tokens[1:]:
        raise UserError(f"policy: expected at most max_length={len(tokens)} tokens, the start included, got {length}")
    return tokens[:length]
