"""Levenshtein in machine words: one word of a column grown by a symbol, and thousands of paths grown side by side.

A word holds the vertical differences of as many places of the original as it has bits (Myers, J. ACM 46(3), 1999, in
Hyyrö's form). `pprjax.edit_distance` makes columns of words.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Num, UInt8

from pprjax.paths import PAD

WORD_BITS = 32
STEPS = 32  # symbols that `bulk_words` appends between one store of the column and the next
LANES = 64  # paths that it keeps side by side in memory: of bytes, a cache line
SYMBOL_RANGE = 254  # `bulk_bytes` needs symbols of the original that span less; 0 and 255 stand for all the others

TOP: tuple = (0, -1, 0)
"""The carry into the first word: D[0, t] grows by one with each symbol."""


def append_word(vp: Array, vn: Array, eq: Array, carry: tuple) -> tuple[Array, Array, tuple]:
    """A word of τ₀ further: the column's +1 and -1, and the carry into the next word, -1 (all bits) for each of: the
    sum overflowed, the row's last difference is +1, it is -1."""
    carry_sum, carry_up, carry_down = (jnp.asarray(c).astype(vp.dtype) for c in carry)
    x = eq | vn
    low = x & vp
    added = low + vp - carry_sum
    d0 = (added ^ vp) | x
    up = vn | ~(d0 | vp)
    down = d0 & vp
    up_in = up + up - carry_up
    down_in = down + down - carry_down
    last = jnp.asarray(jnp.iinfo(vp.dtype).bits - 1, vp.dtype)
    carry_out = (low | (vp & ~added), up, down)  # low is a subset of vp
    carry_out = tuple(jax.lax.shift_right_arithmetic(c, last) for c in carry_out)
    return down_in | ~(d0 | up_in), up_in & d0, carry_out


def match_word(
    piece: Num[Array, " k"], symbols: Num[Array, "*b"], weights: Sequence | Num[Array, " k"]
) -> Num[Array, "*b"]:
    """Σ_k weights[k] where a symbol is piece[k]; of the weights' type."""
    none = jnp.zeros((), weights[0].dtype)
    word = jnp.zeros(symbols.shape, none.dtype)
    for k in range(piece.shape[0]):
        word = word | jnp.where(symbols == piece[k], weights[k], none)
    return word


def bulk_bytes(original, original_length, paths, lengths) -> Int[Array, " B"]:
    """`bulk` for an original whose symbols span less than SYMBOL_RANGE: four times as many lanes in a register."""
    low = original.min() - 1  # clipped as int32, which XLA narrows well
    original, paths = (jnp.clip(symbols - low, 0, 255) for symbols in (original, paths))
    return bulk(original, original_length, paths.astype(jnp.uint8), lengths)


def bulk_words(original, original_length, paths, lengths) -> Int[Array, " B"]:
    return bulk(original, original_length, paths.astype(jnp.int32), lengths)


def bulk(original, original_length, paths, lengths) -> Int[Array, " B"]:
    """D[original_length, length] of many paths against at most 32 symbols, under unit costs, in words as wide as these.
    PAD in the original matches nothing.

    STEPS are unrolled, so that a column lives in registers, and the bottom row is summed up on the way: to count the
    bits of the last column instead takes LLVM minutes to compile. The barriers keep XLA from fusing what is fast
    only apart: words of different widths, a transposition and anything else.
    """
    barrier = jax.lax.optimization_barrier
    n, (count, room) = original.shape[0], paths.shape
    word, signed = (jnp.uint8, jnp.int8) if paths.dtype == jnp.uint8 else (jnp.uint32, jnp.int32)
    bits, steps = jnp.iinfo(word).bits, min(room + -room % 4, STEPS)
    paths = jnp.pad(paths, ((0, -count % LANES), (0, -room % steps)))
    blocks, segments = len(paths) // LANES, paths.shape[1] // steps
    shape = (blocks, LANES)

    symbols = (_time_major_bytes if word == jnp.uint8 else _time_major)(barrier(paths).reshape(blocks, LANES, -1))
    symbols = barrier(symbols.reshape(blocks, -1))  # [blocks, T * LANES]
    # the original's end is moved to the top bit; differences of 0 below its start hand the first row on unchanged
    rows = n + -n % bits
    place = jnp.arange(rows) - (rows - original_length)
    weights = jnp.where(place >= 0, 1 << jnp.arange(rows) % bits, 0).astype(word).reshape(-1, bits)
    row = original[place % n].reshape(-1, bits)
    pieces, marks = row.astype(paths.dtype), jnp.where(row == PAD, 0, weights).astype(word)
    matches = barrier([match_word(piece, symbols, mark) for piece, mark in zip(pieces, marks, strict=True)])
    matches = [m.reshape(blocks, segments, steps, LANES).swapaxes(0, 1) for m in matches]
    left = jnp.pad(lengths, (0, -count % LANES)).reshape(shape) - steps * jnp.arange(segments)[:, None, None]
    left = barrier(jnp.clip(left, 0, steps).astype(word))  # symbols still to come when a segment begins

    def segment(columns, x):
        columns, (match, left) = list(columns), x
        change = jnp.zeros(shape, signed)
        for t in range(steps):
            carry = TOP
            for w, m in enumerate(match):
                plus, minus = columns[w]
                plus, minus, carry = append_word(plus, minus, m[:, t], carry)
                columns[w] = plus, minus
            rose, fell = (carry[i].astype(signed) for i in (1, 2))  # -1 where D[original_length] did
            change = change + jnp.where(t < left, fell - rose, 0)
        return tuple(columns), change

    nothing = jnp.zeros(shape, word)
    first = tuple((jnp.broadcast_to(p, shape), nothing) for p in weights.sum(1, dtype=word))
    _, change = jax.lax.scan(segment, first, (matches, left))
    distances = original_length + barrier(change).astype(jnp.int32).sum(0).reshape(-1)[:count]
    return jnp.where(original_length > 0, distances, lengths)


def _time_major(symbols: Num[Array, "k lanes T"]) -> Num[Array, "k T lanes"]:
    return symbols.swapaxes(1, 2)


def _time_major_bytes(symbols: UInt8[Array, "k lanes T"]) -> UInt8[Array, "k T lanes"]:
    """`_time_major`, for lanes and T divisible by 4, several times as fast: words of four bytes are moved, and the
    bytes of four words are then exchanged in registers."""
    blocks, lanes, room = symbols.shape
    barrier = jax.lax.optimization_barrier
    words = barrier(jax.lax.bitcast_convert_type(symbols.reshape(-1, room // 4, 4), jnp.uint32))
    words = words.reshape(blocks, lanes // 4, 4, room // 4)
    a, b, c, d = (words[:, :, i].swapaxes(1, 2) for i in range(4))  # of four neighbours
    ab, cd = _exchange(a, b, 8, 0x00FF00FF), _exchange(c, d, 8, 0x00FF00FF)
    even, odd = (_exchange(x, y, 16, 0x0000FFFF) for x, y in zip(ab, cd, strict=True))
    times = barrier(jnp.stack([even[0], odd[0], even[1], odd[1]], axis=2))  # [k, T / 4, 4, lanes / 4]
    return jax.lax.bitcast_convert_type(times, jnp.uint8).reshape(blocks, room, lanes)


def _exchange(x: Array, y: Array, shift: int, low: int) -> tuple[Array, Array]:
    """The low halves of x and y beside each other, and the high ones; of every two bytes (shift 8) or words (16)."""
    mask = jnp.uint32(low)
    return (x & mask) | ((y & mask) << shift), ((x >> shift) & mask) | (y & ~mask)
