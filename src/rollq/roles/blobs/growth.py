"""How far a blob has come that is passed on while it comes in. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Growth:
    """Attributes:
    ready: So many of its bytes can be read.
    """

    def __init__(self, ready: int) -> None:
        self.ready = ready
        self._listeners: list[Callable[[int], None]] = []

    def grow(self, ready: int) -> None:
        """More can be read."""
        self.ready = ready
        for listener in tuple(self._listeners):
            listener(ready)

    @contextmanager
    def told(self, listener: Callable[[int], None]) -> Iterator[None]:
        """Somebody is told of all growth for a time."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
