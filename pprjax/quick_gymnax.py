"""gymnax without what it imports for the pictures of some of its worlds: more than half of the time that it takes."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


class _WhenUsed(ModuleType):
    """Stands in for a module until something of it is asked for."""

    def __getattr__(self, name: str):
        self.withdraw()
        return getattr(importlib.import_module(self.__name__), name)

    def withdraw(self) -> None:
        """From now on an import gives the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


_stand_ins = [_WhenUsed(name) for name in ("seaborn", "matplotlib.pyplot") if name not in sys.modules]
sys.modules.update({module.__name__: module for module in _stand_ins})
try:
    from gymnax.environments import environment, spaces
finally:
    for _module in _stand_ins:
        _module.withdraw()

__all__ = ["environment", "spaces"]
