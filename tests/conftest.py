"""Where the reference data is: in the folder that PPRJAX_DATA names, or beside it; without the variable tests skip."""

import json
import os
import tempfile
from pathlib import Path

import pytest


def pytest_configure(config):
    """The workers, and the programs that tests start, share what they compile."""
    if "PYTEST_XDIST_WORKER" not in os.environ and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        shared = tempfile.TemporaryDirectory(prefix="pprjax-compiled-")
        config.add_cleanup(shared.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = shared.name


@pytest.fixture(scope="session")
def reference():
    """A function from a folder and a file name to the path of that file."""
    if "PPRJAX_DATA" not in os.environ:
        pytest.skip("PPRJAX_DATA is not set")
    root = Path(os.environ["PPRJAX_DATA"]).resolve()
    return lambda folder, name: next(base for base in (root, root.parent) if (base / folder).is_dir()) / folder / name


@pytest.fixture(scope="session")
def oracle(reference):
    """A function from a name to the values of that oracle."""
    return lambda name: json.loads(reference("oracles", f"{name}.json").read_text())
