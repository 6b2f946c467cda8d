"""Times and ages for display."""

from __future__ import annotations

import time
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def when(stamp_ms: int) -> str:
    """A time stamp in local time."""
    if not stamp_ms:
        return ""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stamp_ms / 1000))
    return f"{clock}.{stamp_ms % 1000:03d}"


def when_in(zone: str, stamp_ms: int) -> str:
    """A time stamp in a time zone; empty if this machine does not know the zone."""
    try:
        local = datetime.fromtimestamp(stamp_ms / 1000, ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ""
    return f"{local:%Y-%m-%d %H:%M:%S}.{stamp_ms % 1000:03d}"


def ago(stamp_ms: int) -> str:
    """The age of a time stamp, in one unit: 12s, 5m, 3h, 2d."""
    return age(max(0, int(time.time() - stamp_ms / 1000)))


def age(seconds: int) -> str:
    """A duration, in one unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
