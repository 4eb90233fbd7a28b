"""Where the reference data is: in the folder that PPRJAX_DATA names, or beside it; without the variable tests skip."""

import gc
import json
import os
import tempfile
from pathlib import Path

import pytest
from optimizing import optimizing

QUICK = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"
)
"""What most tests compile runs for a moment, so that to optimize it takes longer than to run it as it is."""


def pytest_configure(config):
    """The workers, and the programs that tests start, compile quickly and share what they compiled and trained."""
    gc.set_threshold(100_000)  # tracing makes a great many objects that stay
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    trained = tempfile.TemporaryDirectory(prefix="pprjax-trained-")  # not what stands in the user's own
    config.add_cleanup(trained.cleanup)
    os.environ["PPRJAX_CACHE"] = trained.name
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        shared = tempfile.TemporaryDirectory(prefix="pprjax-compiled-")
        config.add_cleanup(shared.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = shared.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"


@pytest.fixture(scope="module")
def optimized():
    """For a module of tests whose programs run long."""
    with optimizing():
        yield


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
