"""The one exception for mistakes of a caller."""

from __future__ import annotations


class UserError(ValueError):
    """What was asked for can't be had: the message says what was wrong, where, and what was expected.

    The commands print it in one line. Any other exception is a fault of this project, and they show it with its trace.
    """
