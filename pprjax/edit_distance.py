"""Edit distance: Levenshtein, bit-parallel, grown by one symbol at a time, so that a rollout can carry it.

The dynamic programme D[i, t] = distance between the first i symbols of the original τ₀ and the first t of the path has
one *column* for each t. With unit costs a column is two bit vectors of vertical differences, 32 symbols of τ₀ a word
(Myers, J. ACM 46(3), 1999, in Hyyrö's form); with other costs it is the column itself. Either way:

    column = start(original, length, costs)
    match = matches(original, symbol, costs)              # where the original has a symbol
    column = append(column, match, costs)                 # the path is that symbol longer
    distance(column, length, costs)                       # D[length, t]
    alignment(column, original, length, costs)            # min_i D[i, t] and the last i that attains it

With a `Norm` in place of the costs the same functions compare place by place, symbols as numbers. With `RealCosts`
symbols are vectors, and a replacement costs how far apart they are.

`levenshtein` does the same for paths that are there already, thousands at a time.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Integer, Num, UInt32

from pprjax import bit_words
from pprjax.bit_words import STEPS, SYMBOL_RANGE, TOP, WORD_BITS, append_word, match_word
from pprjax.errors import UserError
from pprjax.paths import PAD

BULK = 4096  # paths from which on the seconds that `bit_words.bulk` takes to compile pay


class EditCosts(NamedTuple):
    """What one edit of the original costs. `insert` adds a symbol to it, `delete` drops one of its own."""

    insert: float = 1.0
    delete: float = 1.0
    substitute: float = 1.0

    distance = "edit"  # its name in a `Config`

    @property
    def unit(self) -> bool:
        return self == (1.0, 1.0, 1.0)

    def check(self) -> EditCosts:
        """These costs, or a ValueError that names the one that is not a finite number above 0."""
        for name, cost in zip(("w_ins", "w_del", "w_sub"), self, strict=True):
            if not (np.isfinite(cost) and cost > 0):
                raise UserError(f"{name}: expected a finite cost above 0, got {cost}")
        return self


class Norm(NamedTuple):
    """d = (Σ_i |τ₀_i - τ_i|^p)^(1/p), of symbols that are numbers, place by place: p = 1 is Manhattan, 2 Euclidean.

    A path that is not as long as the original is infinitely far from it.
    """

    p: int

    unit = False

    @property
    def distance(self) -> str:
        """Its name in a `Config`."""
        return "manhattan" if self.p == 1 else "euclidean"

    def check(self) -> Norm:
        return self


class RealCosts(NamedTuple):
    """What edits of a path of vectors cost: 1 for one that is added or dropped, min(1, |(x - y) / scale|) for x that is
    replaced by y, with the Euclidean norm.

    d is a metric, as that cost is one, and no replacement costs more than to drop and to add. (Edit distance with real
    penalty, Chen and Ng, VLDB 2004, where what is added or dropped is compared with a fixed vector instead.)
    """

    scale: tuple[float, ...]  # k: the difference of each number that makes an altogether other state

    distance = "real"  # its name in a `Config`
    unit, insert, delete = False, 1.0, 1.0

    def check(self) -> RealCosts:
        """These costs, or a ValueError that names the coordinate whose scale is not a finite number above 0."""
        if not isinstance(self.scale, tuple) or not self.scale:
            raise UserError(f"scale: expected a tuple of numbers above 0, one a coordinate, got {self.scale!r}")
        for i, scale in enumerate(self.scale):
            if not (isinstance(scale, int | float) and np.isfinite(scale) and scale > 0):
                raise UserError(f"scale[{i}]: expected a finite number above 0, got {scale!r}")
        return self


Costs = EditCosts | Norm | RealCosts
"""What d(τ₀, τ) counts: edits, or differences."""


@struct.dataclass
class BitColumn:
    """Column t under unit costs: D[i, t] = t + Σ_{k ≤ i} (plus_k - minus_k)."""

    plus: Array  # uint32[W], bit k set where D[k + 1, t] - D[k, t] = +1
    minus: Array  # uint32[W], bit k set where it is -1
    t: Array  # int32[], symbols appended so far


@struct.dataclass
class Differences:
    """What stands in place of a column under a `Norm`."""

    total: Array  # float[], Σ_{i < t} |τ₀_i - τ_i|^p; inf of a path longer than τ₀
    t: Array  # int32[], symbols appended so far


Column = BitColumn | Differences | jax.Array
"""A BitColumn under unit costs, `Differences` under a norm, else the column itself: float[n + 1]."""


def start(original: Num[Array, "n ..."], costs: Costs = EditCosts()) -> Column:
    """The column of the empty path: D[i, 0] = i·w_del."""
    n = original.shape[0]
    if isinstance(costs, Norm):
        return Differences(total=jnp.zeros((), jnp.result_type(float)), t=jnp.int32(0))
    if costs.unit:
        words = max(1, -(-n // WORD_BITS))
        return BitColumn(
            plus=jnp.full(words, 0xFFFFFFFF, jnp.uint32), minus=jnp.zeros(words, jnp.uint32), t=jnp.int32(0)
        )
    return costs.delete * jnp.arange(n + 1, dtype=jnp.result_type(float))


def matches(
    original: Num[Array, "n ..."], symbol: Num[Array, "*k"], costs: Costs = EditCosts()
) -> UInt32[Array, " W"] | Bool[Array, " n"] | Float[Array, " n"]:
    """Where τ₀ has this symbol: bit k of word w under unit costs, for place 32·w + k, else bool[n]. PAD symbols in
    `original` match nothing. Under a norm |τ₀_i - symbol|^p of each place, under real costs what it costs to put the
    symbol there."""
    if isinstance(costs, RealCosts):
        apart = jnp.sum(((original - symbol) / jnp.asarray(costs.scale, original.dtype)) ** 2, axis=-1)
        return jnp.where(apart < 1.0, jnp.sqrt(apart), 1.0)  # 1 of what is no number, too
    if isinstance(costs, Norm):
        return jnp.abs(original - symbol).astype(jnp.result_type(float)) ** costs.p
    if not costs.unit:
        return original == symbol
    weights = [np.uint32(1 << k) for k in range(WORD_BITS)]
    n = original.shape[0]
    words = [match_word(original[low : low + WORD_BITS], symbol, weights) for low in range(0, max(n, 1), WORD_BITS)]
    return jax.lax.optimization_barrier(jnp.stack(words))  # compared once, not again for each word that comes of it


def append(column: Column, match: Array, costs: Costs = EditCosts()) -> Column:
    """The column after one more symbol of the path, given where τ₀ has that symbol."""
    if isinstance(column, BitColumn):
        return _append_bits(column, match)
    if isinstance(column, Differences):
        return Differences(
            total=column.total + jnp.take(match, column.t, mode="fill", fill_value=jnp.inf), t=column.t + 1
        )
    assert not isinstance(costs, Norm)  # whose column this is not
    diagonal = column[:-1] + (match if isinstance(costs, RealCosts) else jnp.where(match, 0.0, costs.substitute))
    stay = column + costs.insert
    unchained = jnp.concatenate([stay[:1], jnp.minimum(stay[1:], diagonal)])
    if isinstance(costs, RealCosts):  # nothing is subtracted that rounding would leave a trace of
        return jax.lax.associative_scan(_chained, (unchained, jnp.full_like(column, costs.delete)))[0]
    chain = costs.delete * jnp.arange(column.shape[0], dtype=column.dtype)
    return jax.lax.cummin(unchained - chain) + chain


def distance(column: Column, length: Int[Array, ""], costs: Costs = EditCosts()) -> Num[Array, ""]:
    """D[length, t]: int32 under unit costs, else float."""
    if isinstance(column, Differences):
        assert isinstance(costs, Norm)  # whose column this is
        return jnp.where(column.t == length, column.total ** (1 / costs.p), jnp.inf)
    if not isinstance(column, BitColumn):
        return column[length]
    total = column.t
    for w in range(column.plus.shape[0]):
        mask = _low_bits(length - w * WORD_BITS)
        total = total + _count(column.plus[w] & mask) - _count(column.minus[w] & mask)
    return total


def alignment(
    column: Column, original: Num[Array, "n ..."], length: Int[Array, ""], costs: Costs = EditCosts()
) -> tuple[Num[Array, ""], Int[Array, ""]]:
    """The smallest entry m = min_{i ≤ length} D[i, t], and the last position j that attains it.

    No path that goes on from here ends with a distance below m. Under a norm that is what differs so far, and j is t.
    """
    n = original.shape[0]
    if isinstance(column, Differences):
        assert isinstance(costs, Norm)  # whose column this is
        return column.total ** (1 / costs.p), jnp.minimum(column.t, length)
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


def levenshtein(
    original: Int[Array | np.ndarray, " n"],
    paths: Integer[Array | np.ndarray, "*batch T"],
    lengths: Int[Array | np.ndarray, "*batch"] | None = None,
    *,
    original_length: Int[Array | np.ndarray, ""] | int | None = None,
    w_ins: float = 1.0,
    w_del: float = 1.0,
    w_sub: float = 1.0,
) -> Num[Array, "*batch"]:
    """d(τ₀, τ): the cheapest way to edit the original into each path, symbol by symbol (Levenshtein, 1966).

    Works on NumPy and JAX arrays, and under `jit` and `vmap`. Fastest for many paths of at most 32 symbols, as uint8 on
    the device, with an original of at most 32 (of wider paths: its largest symbol less than 254 above its smallest).

    Args:
        original: τ₀; symbols in [0, 2³¹ - 1].
        paths: one path or an array of them; T is the room for symbols, which padding may fill.
        lengths: symbols in each path, in [0, T]; what follows is ignored. Default: up to the first PAD (-1).
        original_length: symbols in the original, in [0, n]. Default: up to the first PAD.
        w_ins: cost of a symbol that the path has and the original has not; a finite number above 0, not traced.
        w_del: cost of a symbol that the original has and the path has not; the same.
        w_sub: cost of a symbol replaced by another; the same.

    Returns:
        int32 where all three costs are 1, else float.

    Raises:
        TypeError: symbols or lengths are not integers.
        ValueError: a cost, a shape, a symbol or a length is not as above. The values in JAX arrays are not looked at.
    """
    costs = EditCosts(w_ins, w_del, w_sub).check()
    original = _integers("original", original)
    paths = paths if isinstance(paths, jax.Array) and paths.dtype == jnp.uint8 else _integers("paths", paths)
    if original.ndim != 1:
        raise UserError(f"original: expected one sequence, int[n], got shape {original.shape}")
    if paths.ndim == 0:
        raise UserError("paths: expected int[..., T], got a single number")
    lengths = None if lengths is None else _lengths("lengths", lengths, paths.shape)
    if original_length is not None:
        original_length = _lengths("original_length", original_length, original.shape)
    return _distances(original, original_length, paths, lengths, costs=costs)


def manhattan(
    original: Num[Array | np.ndarray, " n"], paths: Num[Array | np.ndarray, "*batch T"]
) -> Float[Array, "*batch"]:
    """Σ_i |τ₀_i - τ_i|, for sequences of numbers as long as the original.

    Raises:
        ValueError: the lengths differ.
    """
    return jnp.abs(_difference(original, paths)).sum(-1)


def euclidean(
    original: Num[Array | np.ndarray, " n"], paths: Num[Array | np.ndarray, "*batch T"]
) -> Float[Array, "*batch"]:
    """√(Σ_i (τ₀_i - τ_i)²), for sequences of numbers as long as the original.

    Raises:
        ValueError: the lengths differ.
    """
    return jnp.linalg.norm(_difference(original, paths), axis=-1)


def _difference(original, paths) -> Float[Array, "*batch n"]:
    if np.ndim(original) != 1 or np.ndim(paths) < 1 or np.shape(paths)[-1] != np.shape(original)[0]:
        raise UserError(
            f"paths: expected sequences as long as the original, [..., n] for [n], "
            f"got {np.shape(paths)} for {np.shape(original)}; `levenshtein` compares unequal lengths"
        )
    floating = jnp.result_type(float)  # int32 differences would overflow
    return jnp.asarray(paths, floating) - jnp.asarray(original, floating)


def _integers(name: str, values) -> Array | np.ndarray:
    """`values` as int32."""
    if not isinstance(values, jax.Array):
        values = np.asarray(values)
    elif values.dtype == np.int32:
        return values
    if values.size == 0:
        return jnp.zeros(values.shape, jnp.int32)
    if not jnp.issubdtype(values.dtype, jnp.integer):
        raise TypeError(f"{name}: expected integers, got {values.dtype}")
    if isinstance(values, np.ndarray) and not np.can_cast(values.dtype, np.int32):
        low, high = int(values.min()), int(values.max())
        if low < PAD or high > np.iinfo(np.int32).max:
            raise UserError(f"{name}: expected integers in [0, 2147483647] or PAD ({PAD}), got {low} to {high}")
    return values if values.dtype == np.int32 else values.astype(np.int32)


def _lengths(name: str, lengths, shape: tuple[int, ...]) -> Array | np.ndarray:
    """`lengths` as int32, one for each sequence of an array of this shape."""
    *batch, room = shape
    lengths = _integers(name, lengths)
    if lengths.shape != tuple(batch):
        raise UserError(f"{name}: expected one for each sequence, shape {tuple(batch)}, got shape {lengths.shape}")
    if (
        isinstance(lengths, np.ndarray | np.integer)
        and lengths.size
        and not 0 <= lengths.min() <= lengths.max() <= room
    ):
        raise UserError(f"{name}: expected lengths in [0, {room}], got {lengths.min()} to {lengths.max()}")
    return lengths


@partial(jax.jit, static_argnames="costs")
def _distances(original, original_length, paths, lengths, *, costs: EditCosts) -> Num[Array, "*batch"]:
    *batch, room = paths.shape
    lengths = _up_to_pad(paths) if lengths is None else lengths
    original_length = _up_to_pad(original) if original_length is None else original_length
    flat, flat_lengths = paths.reshape(math.prod(batch), room), lengths.reshape(-1)
    if costs.unit and 0 < original.shape[0] <= WORD_BITS and room and len(flat) >= BULK:
        operands = (original, original_length, flat, flat_lengths)
        if room <= STEPS and paths.dtype == jnp.uint8:
            result = bit_words.bulk(jnp.where(original > 255, PAD, original), *operands[1:])
        elif room <= STEPS:
            narrow = original.max() - original.min() < SYMBOL_RANGE
            result = jax.lax.cond(narrow, bit_words.bulk_bytes, bit_words.bulk_words, *operands)
        else:
            result = bit_words.bulk_words(*operands)
    else:
        result = jax.vmap(partial(between, original, original_length, costs=costs))(flat, flat_lengths)
    return result.reshape(batch)


def _up_to_pad(symbols: Int[Array, "*batch T"]) -> Int[Array, "*batch"]:
    room = symbols.shape[-1]
    return jnp.where(symbols.astype(jnp.int32) == PAD, jnp.arange(room), room).min(-1, initial=room)


def between(
    original: Num[Array, "n ..."],
    original_length: Int[Array, ""],
    path: Num[Array, "T ..."],
    length: Int[Array, ""],
    *,
    costs: Costs = EditCosts(),
) -> Num[Array, ""]:
    """D[original_length, length] of one pair, one appended symbol after the other."""

    def step(column, x):
        t, symbol = x
        grown = append(column, matches(original, symbol, costs), costs)
        return jax.tree.map(lambda new, old: jnp.where(t < length, new, old), grown, column), None

    column, _ = jax.lax.scan(step, start(original, costs), (jnp.arange(path.shape[0]), path))
    return distance(column, original_length, costs)


def _chained(upper: tuple[Array, Array], lower: tuple[Array, Array]) -> tuple[Array, Array]:
    """Of two neighbouring runs of places: the least at the end of both, and what it costs to drop them all."""
    (least, dropped), (other, more) = upper, lower
    return jnp.minimum(least + more, other), dropped + more


def _append_bits(column: BitColumn, match: UInt32[Array, " W"]) -> BitColumn:
    plus, minus = [], []
    carry = TOP
    for w in range(match.shape[0]):
        vp, vn, carry = append_word(column.plus[w], column.minus[w], match[w], carry)
        plus.append(vp)
        minus.append(vn)
    return BitColumn(plus=jnp.stack(plus), minus=jnp.stack(minus), t=column.t + 1)


def _low_bits(count: Int[Array, ""]) -> Array:
    """uint32 with the lowest `count` bits set; none below 0, all from 32 on."""
    some = (jnp.uint32(1) << jnp.clip(count, 0, WORD_BITS - 1).astype(jnp.uint32)) - jnp.uint32(1)
    return jnp.where(count >= WORD_BITS, jnp.uint32(0xFFFFFFFF), some)


def _count(word: Array) -> Int[Array, ""]:
    return jax.lax.population_count(word).astype(jnp.int32)
