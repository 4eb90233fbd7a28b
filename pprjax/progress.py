"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich import progress as bars
from rich.console import Console


@contextlib.contextmanager
def progress_bar(title: str, total: float, *, enabled: bool | None = None) -> Iterator[Callable[[float], None]]:
    """A function that advances the bar by so many of `total`; safe to call from several threads.

    Args:
        enabled: default: where stderr is a terminal.
    """
    console = Console(stderr=True)
    shown = console.is_terminal if enabled is None else enabled
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console, disable=not shown, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)
