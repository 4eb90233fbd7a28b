"""How long JAX compiles, apart from how long programs run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import jax.monitoring


@dataclasses.dataclass
class Stopwatch:
    """Seconds so far."""

    seconds: float = 0.0


@contextlib.contextmanager
def compile_seconds() -> Iterator[Stopwatch]:
    """The seconds that JAX spends on tracing, lowering and compiling inside the block, all threads together."""
    watch = Stopwatch()

    def listen(event: str, duration_secs: float, **_) -> None:
        if event.startswith("/jax/core/compile/"):
            watch.seconds += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield watch
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
