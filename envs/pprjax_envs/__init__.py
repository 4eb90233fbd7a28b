"""The worlds of pprjax: each a gymnax Environment, an agent or two, and an experiment."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pprjax_envs.gridworld import GridWorld as GridWorld
    from pprjax_envs.mario import MarioEnv as MarioEnv
    from pprjax_envs.mario_table import MarioTable as MarioTable
    from pprjax_envs.sequence import SequenceEnv as SequenceEnv
    from pprjax_envs.tabular import TabularMDP as TabularMDP
    from pprjax_envs.text import TextEnv as TextEnv

_HOMES = {
    "GridWorld": "gridworld",
    "MarioEnv": "mario",
    "MarioTable": "mario_table",
    "SequenceEnv": "sequence",
    "TabularMDP": "tabular",
    "TextEnv": "text",
}

_ROOMS = {*_HOMES.values(), "temperature"}

__all__ = [*_HOMES]


def __getattr__(name: str):
    """Import a world, or a world's module, when it is first used: gymnax alone takes seconds."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"pprjax_envs.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"pprjax_envs.{name}")
    raise AttributeError(f"module 'pprjax_envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
