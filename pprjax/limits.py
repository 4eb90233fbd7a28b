"""How much a certificate may take, and the few sizes that its programs come in."""

from __future__ import annotations

from pprjax.errors import UserError

MAX_LAYER = 20_000
"""The most nodes in a layer of the unrolled world: states, or pairs (state, R_goal so far) where the goal reads it."""

MAX_BYTES = 2**30
"""The most memory that the values of one original may take."""

MAX_EDGES = 2**28
"""The most numbers that say where all actions lead in all layers of the unrolled world: a GiB of them."""

BLOCK_FLOATS = 2**23
"""The most bounds held at once: originals are worked through in blocks."""

_SIZES = sorted({part * 2**k for part in (2, 3) for k in range(2, 39)})
_FINE_SIZES = sorted({*_SIZES, *(part * 2**k for part in (5, 7) for k in range(2, 38))})


class TooLargeError(UserError):
    """A certificate would take more memory than it may."""


def check_edges(num_layers: int, num_states: int, num_actions: int) -> None:
    """Raise a TooLargeError where a table of layers × states × actions is too large."""
    if num_layers * num_states * num_actions > MAX_EDGES:
        raise TooLargeError(
            f"task: where {num_actions:,} actions lead in {num_states:,} states, at {num_layers:,} times, takes "
            f"{num_layers * num_states * num_actions * 4 / 2**30:.1f} GiB: too much for a certificate"
        )


def size_of(count: int, *, finely: bool = False) -> int:
    """The smallest of a few sizes that is at least `count`: arrays of few sizes share their programs.

    finely: of twice as many sizes, for what whole worlds have once and every layer of theirs pays for.
    """
    return next(size for size in (_FINE_SIZES if finely else _SIZES) if size >= count)
