"""Progress: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from rich import progress as bars
from rich.console import Console

EVERY = 30.0
"""Seconds between two lines."""

Advance = Callable[..., None]


@contextlib.contextmanager
def progress_bar(
    title: str,
    total: float,
    *,
    done: int = 0,
    enabled: bool | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """A function that advances the progress by so many of `total` paths; safe to call from several threads.

    Its second argument, if there is one, is a text that stands after the rest from then on.

    Args:
        done: paths that were done before, which tell nothing of the speed.
        enabled: a bar, or nothing; default: a bar where stderr is a terminal, else a line on stderr every 30 seconds.
        clock: in seconds.
    """
    console = Console(stderr=True)
    if enabled or (enabled is None and console.is_terminal):
        with _bar(console, title, total, done) as advance:
            yield advance
    else:
        yield _lines(title, total, done, clock) if enabled is None else lambda amount, note=None: None


@contextlib.contextmanager
def _bar(console: Console, title: str, total: float, done: int) -> Iterator[Advance]:
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        bars.TextColumn("{task.fields[speed]}"),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.fields[note]}"),
    )
    with bars.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done, speed="", note="")

        def advance(amount: float, note: str | None = None) -> None:
            bar.advance(task, amount)
            speed = bar.tasks[task].speed
            bar.update(task, speed="" if speed is None else f"{speed:,.1f} paths/s")
            if note is not None:
                bar.update(task, note=note)

        yield advance


def _lines(title: str, total: float, done: int, clock: Callable[[], float]) -> Advance:
    lock, began = threading.Lock(), clock()
    completed, said, shown = float(done), began, ""

    def advance(amount: float, note: str | None = None) -> None:
        nonlocal completed, said, shown
        with lock:
            completed += amount
            shown = shown if note is None else note
            now = clock()
            if now - said < EVERY or completed >= total:
                return
            said = now
            told = f", {shown}" if shown else ""
            if completed - done >= 1:  # before the first path is done, most was compiling
                speed = (completed - done) / (now - began)
                told = f", {speed:,.3g}/s, about {_rounded((total - completed) / speed)} left{told}"
            line = f"{title}: {completed:,.0f} of {total:,.0f}{told}"
            print(line, file=sys.stderr, flush=True)

    return advance


def _rounded(seconds: float) -> str:
    """Seconds, minutes or hours."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
