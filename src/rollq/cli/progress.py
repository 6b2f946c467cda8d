"""Progress output on stderr: a bar on a terminal, else a line per 10 %."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

Advance: TypeAlias = Callable[[int, int | None], None]  # done, total (None: unknown)
STEPS = 10


@contextlib.contextmanager
def progress_bar(
    title: str, *, is_quiet: bool = False, in_bytes: bool = False, vanishes: bool = False
) -> Iterator[Advance]:
    """Yield the progress callback; nothing is shown before its first call. A bar that `vanishes` is
    erased at the end."""
    if is_quiet:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar(title, in_bytes=in_bytes, vanishes=vanishes) as advance:
            yield advance
    else:
        yield _Lines(f"{title}, bytes" if in_bytes else title).advance


@contextlib.contextmanager
def _bar(title: str, *, in_bytes: bool, vanishes: bool) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counts = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        *counts,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=vanishes)
    task = bar.add_task(title, total=None)

    def advance(done: int, total: int | None) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()


class _Lines:
    """Writes a line per 10 %."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._step = 0

    def advance(self, done: int, total: int | None) -> None:
        """Callback with the amount that is done."""
        step = STEPS * done // total if total else 0
        if step > self._step:
            self._step = step
            sys.stderr.write(f"{self._title}: {done} of {total}\n")


@contextlib.contextmanager
def spinner(title: str) -> Iterator[None]:
    """Show that work of unknown length is in progress: erased at the end on a terminal; elsewhere a
    line at the beginning."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{title}\n")
        sys.stderr.flush()
        yield
        return
    from rich.console import Console

    # A duplicate descriptor, because stderr may be redirected meanwhile.
    with (
        os.fdopen(os.dup(2), "w") as terminal,
        Console(file=terminal, force_terminal=True).status(title),
    ):
        yield
