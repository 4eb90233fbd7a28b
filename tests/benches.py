"""What tests take from bench/, which is no package."""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "bench"


def bench(name):
    """The module of that name."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # its dataclasses look there
    spec.loader.exec_module(module)
    return module
