"""How much a certificate may take, and the few sizes that its programs come in."""

from __future__ import annotations

MAX_LAYER = 20_000
"""The most nodes in a layer of the unrolled world: states, or pairs (state, R_goal so far) where the goal reads it."""

MAX_BYTES = 2**30
"""The most memory that the values of one original may take."""

BLOCK_FLOATS = 2**23
"""The most bounds held at once: originals are worked through in blocks."""

_SIZES = sorted({2**k for k in range(3, 40)} | {3 * 2**k for k in range(3, 39)})


class TooLargeError(ValueError):
    """A certificate would take more memory than it may."""


def size_of(count: int) -> int:
    """The smallest of a few sizes that is at least `count`: arrays of few sizes share their programs."""
    return next(size for size in _SIZES if size >= count)
