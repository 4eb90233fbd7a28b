"""Objects on the host that JAX's programs know by a number, so that one program serves whatever a number stands for."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

_NUMBERS = itertools.count()
_REGISTERED: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def register(thing: Any) -> int:
    """The number by which programs know this object, as long as it lives."""
    number = next(_NUMBERS)
    _REGISTERED[number] = thing
    return number


def registered(number: Any) -> Any:
    """The object of this number; None where it is gone.

    Args:
        number: an int, of Python, NumPy or JAX.
    """
    return _REGISTERED.get(int(number))
