"""Sends live output to watchers, at a limited rate; idle without watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    OUTPUT_BYTES_PER_S,
    OUTPUT_PACE_MS,
    OUTPUT_WINDOW_BYTES,
)
from rollq.net.link import Link
from rollq.roles.worker.live_output import FindTails, LiveOutput
from rollq.wire.output_messages import TellOutput

SHARE_BYTES: Final = OUTPUT_BYTES_PER_S * OUTPUT_PACE_MS // 1_000


class LiveOutputSender:
    """The shell of `LiveOutput`: a timer, and the link of the watches."""

    def __init__(self, tails: FindTails, is_open: Callable[[AttemptRef], bool]) -> None:
        self._output = LiveOutput(tails, is_open)
        self._link: Link | None = None
        self._timer: asyncio.Handle | None = None
        self.sent_bytes = 0  # since the process began

    @property
    def watch_count(self) -> int:
        """The number of watches."""
        return self._output.watch_count

    def take(self, link: Link, message: TellOutput) -> None:
        """Handle the leader's message about a watch."""
        if link is not self._link:  # watches of an earlier session are void
            self._output.clear()
            self._link = link
        self._output.take(message)
        if self._timer is None and self._output:
            self._timer = asyncio.get_running_loop().call_soon(self._send)

    def stop(self) -> None:
        """Stop sending."""
        self._output.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer = None
        link = self._link
        if link is None or not link.is_open:
            self._output.clear()
        elif link.waiting_bytes < OUTPUT_WINDOW_BYTES:  # other messages must not wait behind output
            chunks = self._output.share(SHARE_BYTES)
            self.sent_bytes += sum([len(chunk.data) for chunk in chunks])
            link.send_all(chunks)
        if self._output:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(OUTPUT_PACE_MS / 1_000, self._send)
