"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich import progress as bars
from rich.console import Console


@contextlib.contextmanager
def progress_bar(
    title: str, total: float, *, done: int = 0, enabled: bool | None = None
) -> Iterator[Callable[..., None]]:
    """A function that advances the bar by so many of `total` paths; safe to call from several threads.

    Its second argument, if there is one, is a text that stands behind the bar from then on.

    Args:
        done: paths that were done before, which tell nothing of the speed.
        enabled: default: where stderr is a terminal.
    """
    console = Console(stderr=True)
    shown = console.is_terminal if enabled is None else enabled
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        bars.TextColumn("{task.fields[speed]}"),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.fields[note]}"),
    )
    with bars.Progress(*columns, console=console, disable=not shown, transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done, speed="", note="")

        def advance(amount: float, note: str | None = None) -> None:
            bar.advance(task, amount)
            speed = bar.tasks[task].speed
            bar.update(task, speed="" if speed is None else f"{speed:,.1f} paths/s")
            if note is not None:
                bar.update(task, note=note)

        yield advance
