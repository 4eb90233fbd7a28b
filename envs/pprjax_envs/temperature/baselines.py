"""Baselines for sequences: the best few changes (BL1), and where an LSTM looks (for BL2)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax_envs.lstm import LSTMClassifier
from pprjax_envs.sequence import Classifier, class_probs


@struct.dataclass
class SymbolChanges:
    """The best changes of B sequences, for at most k = 0 … K of them. Arrays on the host."""

    prob: np.ndarray  # float[B, K + 1], the wanted class's probability
    sequences: np.ndarray  # int32[B, K + 1, L]


def observed(sequences: Int[np.ndarray, "N L"], num_symbols: int) -> Bool[np.ndarray, "L V"]:
    """Which symbols occur at each place of these sequences."""
    sequences = np.asarray(sequences)
    table = np.zeros((sequences.shape[1], num_symbols), bool)
    table[np.arange(sequences.shape[1]), sequences] = True
    return table


def symbol_changes(
    classifier: Classifier,
    wanted: int,
    sequences: Int[np.ndarray, "B L"],
    allowed: Bool[np.ndarray, "L V"],
    *,
    max_changes: int,
    width: int = 64,
) -> SymbolChanges:
    """BL1 for sequences: the largest probability of the wanted class that at most k changed symbols give.

    This is a beam search. The published programme (see `pprjax.baselines.action_changes`) needs a reward that is a sum
    over states, but a classifier judges the whole sequence. So for each number of changes the best `width` prefixes are
    kept, by the log odds of the wanted class so far. With a large enough width nothing is left out.

    Args:
        wanted: a class.
        allowed: what a changed symbol may be at each place; the paper's restriction to what occurs in the data is
            `observed(training sequences, V)`. A sequence's own symbols are always allowed.
        max_changes: K in [0, L].

    Raises:
        ValueError: max_changes or width is out of range, or shapes do not fit.
    """
    sequences, allowed = np.asarray(sequences, np.int32), np.asarray(allowed, bool)
    if sequences.ndim != 2 or allowed.ndim != 2 or allowed.shape[0] != sequences.shape[1]:
        raise UserError(f"sequences, allowed: expected [B, L] and [L, V], got {sequences.shape} and {allowed.shape}")
    if not 0 <= max_changes <= sequences.shape[1]:
        raise UserError(f"max_changes: expected a number in [0, {sequences.shape[1]}], got {max_changes}")
    if width < 1:
        raise UserError(f"width: expected at least 1, got {width}")
    log_odds, found = _all_changes(classifier, wanted, sequences, allowed, max_changes, width)
    log_odds, found = np.array(log_odds), np.array(found)
    for k in range(1, max_changes + 1):  # at most k, not exactly k
        fewer = log_odds[:, k - 1] >= log_odds[:, k]
        log_odds[fewer, k], found[fewer, k] = log_odds[fewer, k - 1], found[fewer, k - 1]
    return SymbolChanges(prob=_probs(classifier, wanted, found), sequences=found)


def gradient_importance(classifier: LSTMClassifier, sequences: Int[np.ndarray, "B L"]) -> Float[np.ndarray, "B L"]:
    """How much each place matters to the classifier's own choice: |∂ log p(chosen class) / ∂ features| there."""
    return np.asarray(_gradient_importance(classifier, jnp.asarray(sequences, jnp.int32)))


@struct.dataclass
class _Prefix:
    carry: jax.Array  # the classifier's
    log_odds: jax.Array  # float[]; -inf: no such prefix
    symbols: jax.Array  # int32[L]


@partial(jax.jit, static_argnames=("max_changes", "width"))
def _all_changes(classifier, wanted, sequences, allowed, max_changes: int, width: int):
    """The best sequence with exactly k changes, k = 0 … K; log odds -inf where there is none."""
    length, num_symbols = allowed.shape

    def odds(carry):
        log_probs = classifier.log_probs(carry)
        others = jnp.where(jnp.arange(log_probs.shape[0]) == wanted, -jnp.inf, log_probs)
        return log_probs[wanted] - jax.nn.logsumexp(others)

    def grow(prefix: _Prefix, place, symbol, may):
        carry = classifier.step(prefix.carry, symbol)
        value = jnp.where(may & (prefix.log_odds > -jnp.inf), odds(carry), -jnp.inf)
        return _Prefix(carry=carry, log_odds=value, symbols=prefix.symbols.at[place].set(symbol))

    def keep(prefixes: _Prefix):
        _, rows = jax.lax.top_k(prefixes.log_odds, width)
        return jax.tree.map(lambda x: x[rows], prefixes)

    def one(sequence):
        def place(prefixes: _Prefix, step):
            """Prefixes have leading axes [K + 1, width]."""
            own = jax.vmap(jax.vmap(lambda p: grow(p, step, sequence[step], True)))(prefixes)
            symbols = jnp.arange(num_symbols)
            may = allowed[step] & (symbols != sequence[step])
            changed = jax.vmap(jax.vmap(lambda p: jax.vmap(lambda s, m: grow(p, step, s, m))(symbols, may)))(prefixes)
            changed = jax.tree.map(lambda x: x.reshape(max_changes + 1, -1, *x.shape[3:]), changed)
            none = jax.tree.map(lambda x: jnp.zeros_like(x[:1]), changed)
            none = none.replace(log_odds=jnp.full_like(none.log_odds, -jnp.inf))
            one_more = jax.tree.map(lambda first, rest: jnp.concatenate([first, rest[:-1]]), none, changed)
            return jax.vmap(keep)(jax.tree.map(lambda *x: jnp.concatenate(x, 1), own, one_more)), None

        empty = _Prefix(carry=classifier.init(), log_odds=jnp.float32(0.0), symbols=jnp.zeros(length, jnp.int32))
        prefixes = jax.tree.map(lambda x: jnp.broadcast_to(x, (max_changes + 1, width, *x.shape)), empty)
        first = (jnp.arange(max_changes + 1)[:, None] == 0) & (jnp.arange(width) == 0)
        prefixes = prefixes.replace(log_odds=jnp.where(first, 0.0, -jnp.inf))
        prefixes, _ = jax.lax.scan(place, prefixes, jnp.arange(length))
        return prefixes.log_odds[:, 0], prefixes.symbols[:, 0]

    return jax.lax.map(one, jnp.asarray(sequences))


def _probs(classifier, wanted: int, sequences: Int[np.ndarray, "B K L"]) -> Float[np.ndarray, "B K"]:
    flat = class_probs(classifier, sequences.reshape(-1, sequences.shape[-1]))
    return np.asarray(flat)[:, wanted].reshape(sequences.shape[:2])


@jax.jit
def _gradient_importance(classifier: LSTMClassifier, sequences: Int[Array, "B L"]):
    def verdict(features):
        carry, _ = jax.lax.scan(lambda c, x: (classifier.step_features(c, x), None), classifier.init(), features)
        return classifier.log_probs(carry).max()

    def one(symbols):
        return jnp.linalg.norm(jax.grad(verdict)(classifier.features[symbols]), axis=-1)

    return jax.vmap(one)(sequences)
