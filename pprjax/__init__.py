"""Personalized Path Recourse in JAX.

An agent took a path that ended badly. pprjax edits it into one that reaches the goal, stays close to the original, and
is what this very agent would do (Hong and Wang, arXiv 2312.08724), and proves how far that is from the best edit.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pprjax import baselines as baselines
    from pprjax.amortized import Amortized as Amortized
    from pprjax.amortized import amortize as amortize
    from pprjax.config import Config as Config
    from pprjax.constraints import Constraints as Constraints
    from pprjax.edit_distance import euclidean as euclidean
    from pprjax.edit_distance import levenshtein as levenshtein
    from pprjax.edit_distance import manhattan as manhattan
    from pprjax.goals import at_least as at_least
    from pprjax.goals import improved as improved
    from pprjax.goals import reached as reached
    from pprjax.logs import Log as Log
    from pprjax.optimum import exact as exact
    from pprjax.paths import Paths as Paths
    from pprjax.policy import Policy as Policy
    from pprjax.policy import TablePolicy as TablePolicy
    from pprjax.policy import softmax as softmax
    from pprjax.reward import link as link
    from pprjax.reward import similarity as similarity
    from pprjax.scoring import score as score
    from pprjax.solve import recourse as recourse
    from pprjax.task import Task as Task
    from pprjax.task import World as World

_HOMES = {
    "Amortized": "amortized",
    "Config": "config",
    "Constraints": "constraints",
    "Log": "logs",
    "Paths": "paths",
    "Policy": "policy",
    "TablePolicy": "policy",
    "Task": "task",
    "World": "task",
    "amortize": "amortized",
    "at_least": "goals",
    "euclidean": "edit_distance",
    "exact": "optimum",
    "improved": "goals",
    "levenshtein": "edit_distance",
    "link": "reward",
    "manhattan": "edit_distance",
    "reached": "goals",
    "recourse": "solve",
    "score": "scoring",
    "similarity": "reward",
    "softmax": "policy",
}

__all__ = [*_HOMES]


def __getattr__(name: str):
    """Import a public name when it is first used, so that `pprjax --help` need not wait for JAX."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"pprjax.{_HOMES[name]}"), name)
    if name == "baselines":
        return importlib.import_module("pprjax.baselines")
    raise AttributeError(f"module 'pprjax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
