"""The event log of a run: values in a ring buffer, formatted only when printed."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from rollq.testing.clock import VirtualTimeline

LINES_KEPT: Final = 5_000
VALUE_CHARS_MAX: Final = 160


class Trace:
    """The latest events of one run."""

    __slots__ = ("_lines", "_timeline", "live")

    def __init__(self, timeline: VirtualTimeline, *, live: bool = False) -> None:
        self._timeline = timeline
        self._lines: deque[tuple[int, str, str, tuple[Any, ...]]] = deque(maxlen=LINES_KEPT)
        self.live = live  # print immediately

    def note(self, who: str, what: str, *values: Any) -> None:
        """Record an event: `what` happened at the node `who`."""
        line = (self._timeline.now_us, who, what, values)
        self._lines.append(line)
        if self.live:
            print(as_text(line))

    def lines(self, count: int) -> list[str]:
        """The latest events as text, oldest first."""
        return [as_text(line) for line in list(self._lines)[-count:]]


def as_text(line: tuple[int, str, str, tuple[Any, ...]]) -> str:
    """An event as text."""
    now_us, who, what, values = line
    words = " ".join(short(value) for value in values)
    return f"{now_us / 1_000_000:10.6f} {who:<8} {what:<12} {words}"


def short(value: Any) -> str:
    """A value, shortened; an id by its first bytes and its last."""
    if isinstance(value, bytes):
        return (value[:3] + value[-1:]).hex() if len(value) == 16 else f"<{len(value)} bytes>"
    if isinstance(value, str | int | bool) or value is None:
        return str(value)
    if isinstance(value, tuple | list):
        shown = ",".join(short(item) for item in value[:6])
        return f"[{shown}{',…' if len(value) > 6 else ''}]"
    fields = getattr(value, "__struct_fields__", None) or getattr(value, "__slots__", None)
    if fields is None:
        return str(value)[:VALUE_CHARS_MAX]
    shown = " ".join(f"{name}={short(getattr(value, name))}" for name in fields)
    return f"{type(value).__name__}({shown})"[:VALUE_CHARS_MAX]
