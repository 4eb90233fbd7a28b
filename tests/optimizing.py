"""For tests whose programs run long: what they compile is optimized as far as running it pays for."""

from contextlib import contextmanager

import pytest

OPTIONS = {"xla_backend_optimization_level": "1"}


@contextmanager
def optimizing():
    """What is compiled within is compiled with OPTIONS. JAX has no public setting for all that it compiles."""
    from jax._src import compiler  # here: conftest sets what JAX reads when it is imported

    plain = compiler.get_compile_options

    def options(*args, env_options_overrides=None, **others):
        return plain(*args, env_options_overrides={**(env_options_overrides or {}), **OPTIONS}, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", options)
        yield
