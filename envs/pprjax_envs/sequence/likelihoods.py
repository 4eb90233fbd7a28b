"""What classifiers and agents say of whole sequences, outside any world."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax_envs.sequence.judges import Classifier


def class_probs(classifier: Classifier, sequences: Int[np.ndarray, "B L"] | Int[Array, "B L"]) -> Float[Array, "B C"]:
    """The classifier's probabilities of whole sequences."""
    return _class_probs(classifier, jnp.asarray(sequences, jnp.int32))


def log_probs(policy: Any, sequences: Int[np.ndarray, "B L"] | Int[Array, "B L"], start: int) -> Float[Array, "B L"]:
    """log P_A of each symbol of whole sequences, given those before it; s_policy is the mean over a row.

    Args:
        policy: P_A, whose `step` reads a state's `symbol`.
        start: the symbol of the start, num_symbols.
    """
    return _log_probs(policy, jnp.asarray(sequences, jnp.int32), start)


@jax.jit
def _class_probs(classifier, sequences):
    def one(symbols):
        carry, _ = jax.lax.scan(lambda c, s: (classifier.step(c, s), None), classifier.init(), symbols)
        return jnp.exp(classifier.log_probs(carry))

    return jax.vmap(one)(sequences)


@jax.jit
def _log_probs(policy, sequences, start):
    def one(symbols):
        def step(carry, pair):
            before, symbol = pair
            carry, log_prob = policy.step(carry, SymbolOnly(before))
            return carry, log_prob[symbol]

        before = jnp.concatenate([jnp.asarray(start, jnp.int32)[None], symbols[:-1]])
        return jax.lax.scan(step, policy.init(), (before, symbols))[1]

    return jax.vmap(one)(sequences)


@struct.dataclass
class SymbolOnly:
    """As much of a SequenceState as P_A reads."""

    symbol: jax.Array  # int32[]
