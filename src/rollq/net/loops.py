"""The event loop that processes and clients run on."""

from __future__ import annotations

import asyncio

from rollq.net.standard import hold_standard_descriptors


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop available."""
    try:
        import uvloop  # noqa: PLC0415 - not on Windows, where asyncio's own loop serves
    except ImportError:
        return asyncio.new_event_loop()
    hold_standard_descriptors()  # libuv aborts the process when it closes one of these numbers
    return uvloop.new_event_loop()
