"""How much a certificate may take, and the few sizes that its programs come in."""

from __future__ import annotations

from pprjax.errors import UserError

MAX_LAYER = 20_000
"""The most nodes in a layer of the unrolled world: states, or pairs (state, R_goal so far) where the goal reads it."""

MAX_BYTES = 2**30
"""The most memory that the values of one original may take."""

BLOCK_FLOATS = 2**23
"""The most bounds held at once: originals are worked through in blocks."""

_SIZES = sorted({part * 2**k for part in (2, 3) for k in range(2, 39)})
_FINE_SIZES = sorted({*_SIZES, *(part * 2**k for part in (5, 7) for k in range(2, 38))})


class TooLargeError(UserError):
    """A certificate would take more memory than it may."""


def size_of(count: int, *, finely: bool = False) -> int:
    """The smallest of a few sizes that is at least `count`: arrays of few sizes share their programs.

    finely: of twice as many sizes, for what whole worlds have once and every layer of theirs pays for.
    """
    return next(size for size in (_FINE_SIZES if finely else _SIZES) if size >= count)
