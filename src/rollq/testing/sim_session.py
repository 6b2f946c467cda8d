"""The network's side of a simulated client or worker: what happens to its one connection."""

from __future__ import annotations

from typing import Any

from rollq.roles import dialogue
from rollq.testing.network import SessionLink


class SimSession:
    """Turns what the network tells into events of a machine."""

    def __init__(self) -> None:
        self._link: SessionLink | None = None
        self._ticket = 0  # of the last dial; an earlier one's fate does not matter

    def connected(self, link: SessionLink) -> None:
        """The connection is open."""
        self._link = link
        self._feed(dialogue.Connected())

    def refused(self, ticket: int) -> None:
        """The connection could not be made."""
        if ticket == self._ticket:
            self._feed(dialogue.Disconnected())

    def receive(self, link: SessionLink, message: Any) -> None:
        """A message of the member."""
        if link is self._link:
            self._feed(dialogue.Received(message))

    def lost(self, link: SessionLink) -> None:
        """The connection is over."""
        if link is self._link:
            self._link = None
            self._feed(dialogue.Disconnected())

    def _feed(self, event: Any) -> None:
        raise NotImplementedError
