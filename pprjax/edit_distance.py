"""Edit distance: Levenshtein, bit-parallel, grown by one symbol at a time, so that a rollout can carry it.

The dynamic programme D[i, t] = distance between the first i symbols of the original τ₀ and the first t of the path has
one *column* for each t. With unit costs a column is two bit vectors of vertical differences, 32 symbols of τ₀ a word
(Myers, J. ACM 46(3), 1999, in Hyyrö's form); with other costs it is the column itself. Either way:

    column = start(original, length, costs)
    column = append(column, original, symbol, costs)      # one more symbol of the path
    distance(column, length, costs)                       # D[length, t]
    alignment(column, length, costs)                      # min_i D[i, t] and the last i that attains it
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Int, Num

WORD_BITS = 32


class EditCosts(NamedTuple):
    """What one edit of the original costs. `insert` adds a symbol to it, `delete` drops one of its own."""

    insert: float = 1.0
    delete: float = 1.0
    substitute: float = 1.0

    @property
    def unit(self) -> bool:
        return self == (1.0, 1.0, 1.0)

    def check(self) -> EditCosts:
        """These costs, or a ValueError that names the one that is not a finite number above 0."""
        for name, cost in zip(("w_ins", "w_del", "w_sub"), self, strict=True):
            if not (np.isfinite(cost) and cost > 0):
                raise ValueError(f"{name}: expected a finite cost above 0, got {cost}")
        return self


@struct.dataclass
class BitColumn:
    """Column t under unit costs: D[i, t] = t + Σ_{k ≤ i} (plus_k - minus_k)."""

    plus: Array  # uint32[W], bit k set where D[k + 1, t] - D[k, t] = +1
    minus: Array  # uint32[W], bit k set where it is -1
    t: Array  # int32[], symbols appended so far


Column = BitColumn | jax.Array
"""A BitColumn under unit costs, else the column itself: float[n + 1]."""


def start(original: Int[Array, " n"], costs: EditCosts = EditCosts()) -> Column:
    """The column of the empty path: D[i, 0] = i·w_del."""
    n = original.shape[0]
    if costs.unit:
        words = max(1, -(-n // WORD_BITS))
        return BitColumn(
            plus=jnp.full(words, 0xFFFFFFFF, jnp.uint32), minus=jnp.zeros(words, jnp.uint32), t=jnp.int32(0)
        )
    return costs.delete * jnp.arange(n + 1, dtype=jnp.result_type(float))


def append(
    column: Column, original: Int[Array, " n"], symbol: Int[Array, ""], costs: EditCosts = EditCosts()
) -> Column:
    """The column after one more symbol of the path. PAD symbols in `original` match nothing."""
    if isinstance(column, BitColumn):
        return _append_bits(column, _match_words(original, symbol))
    diagonal = column[:-1] + jnp.where(original == symbol, 0.0, costs.substitute)
    stay = column + costs.insert
    unchained = jnp.concatenate([stay[:1], jnp.minimum(stay[1:], diagonal)])
    chain = costs.delete * jnp.arange(column.shape[0], dtype=column.dtype)
    return jax.lax.cummin(unchained - chain) + chain


def distance(column: Column, length: Int[Array, ""], costs: EditCosts = EditCosts()) -> Num[Array, ""]:
    """D[length, t]: int32 under unit costs, else float."""
    del costs
    if not isinstance(column, BitColumn):
        return column[length]
    total = column.t
    for w in range(column.plus.shape[0]):
        mask = _low_bits(length - w * WORD_BITS)
        total = total + _count(column.plus[w] & mask) - _count(column.minus[w] & mask)
    return total


def alignment(
    column: Column, original: Int[Array, " n"], length: Int[Array, ""], costs: EditCosts = EditCosts()
) -> tuple[Num[Array, ""], Int[Array, ""]]:
    """The smallest entry m = min_{i ≤ length} D[i, t], and the last position j that attains it.

    No path that goes on from here ends with an edit distance below m.
    """
    del costs
    n = original.shape[0]
    if not isinstance(column, BitColumn):
        inside = jnp.where(jnp.arange(n + 1) <= length, column, jnp.inf)
        smallest = inside.min()
        return smallest, n - jnp.argmin(inside[::-1]).astype(jnp.int32)
    value = smallest = column.t
    position = jnp.int32(0)
    for i in range(n):
        word, bit = divmod(i, WORD_BITS)
        plus, minus = (((v[word] >> bit) & 1).astype(jnp.int32) for v in (column.plus, column.minus))
        value = value + plus - minus
        better = (value <= smallest) & (i < length)
        smallest = jnp.where(better, value, smallest)
        position = jnp.where(better, i + 1, position)
    return smallest, position


def _append_bits(column: BitColumn, match: list[Array]) -> BitColumn:
    plus, minus = [], []
    carry_sum = jnp.uint32(0)  # of the addition, from one word to the next
    carry_up = jnp.uint32(1)  # D[0, t] grows by one with each symbol
    carry_down = jnp.uint32(0)
    for w, eq in enumerate(match):
        vp, vn = column.plus[w], column.minus[w]
        x = eq | vn
        low = x & vp
        partial_sum = low + vp
        added = partial_sum + carry_sum
        carry_sum = ((partial_sum < low) | (added < partial_sum)).astype(jnp.uint32)
        d0 = (added ^ vp) | x
        up = vn | ~(d0 | vp)
        down = d0 & vp
        up_in = (up << 1) | carry_up
        down_in = (down << 1) | carry_down
        carry_up, carry_down = up >> (WORD_BITS - 1), down >> (WORD_BITS - 1)
        plus.append(down_in | ~(d0 | up_in))
        minus.append(up_in & d0)
    return BitColumn(plus=jnp.stack(plus), minus=jnp.stack(minus), t=column.t + 1)


def _match_words(original: Int[Array, " n"], symbol: Int[Array, ""]) -> list[Array]:
    """Bit k of word w is set where τ₀[32·w + k] is this symbol."""
    n = original.shape[0]
    words = []
    for low in range(0, max(n, 1), WORD_BITS):
        word = jnp.uint32(0)
        for k in range(low, min(low + WORD_BITS, n)):
            word = word | jnp.where(original[k] == symbol, jnp.uint32(1 << (k - low)), jnp.uint32(0))
        words.append(word)
    return words


def _low_bits(count: Int[Array, ""]) -> Array:
    """uint32 with the lowest `count` bits set; none below 0, all from 32 on."""
    some = (jnp.uint32(1) << jnp.clip(count, 0, WORD_BITS - 1).astype(jnp.uint32)) - jnp.uint32(1)
    return jnp.where(count >= WORD_BITS, jnp.uint32(0xFFFFFFFF), some)


def _count(word: Array) -> Int[Array, ""]:
    return jax.lax.population_count(word).astype(jnp.int32)
