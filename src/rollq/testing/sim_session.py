"""The connection of a simulated client or worker, between its machine and the network."""

from __future__ import annotations

from typing import Any

from rollq.roles import dialogue
from rollq.testing.clock import MS
from rollq.testing.network import SessionLink
from rollq.testing.sim_member import World


class SimSession:
    """Turns network events into events of a machine, and its instructions into messages."""

    world: World
    name: str
    life: int  # of the process; scheduled actions of earlier lives are ignored

    def __init__(self) -> None:
        self._link: SessionLink | None = None
        self._ticket = 0  # of the last dial; the outcome of earlier ones is ignored

    def connected(self, link: SessionLink) -> None:
        """The connection is open."""
        self._link = link
        self._feed(dialogue.Connected())

    def refused(self, ticket: int) -> None:
        """The connection attempt failed."""
        if ticket == self._ticket:
            self._feed(dialogue.Disconnected())

    def receive(self, link: SessionLink, message: Any) -> None:
        """A message of the member."""
        if link is self._link:
            self._feed(dialogue.Received(message))

    def lost(self, link: SessionLink) -> None:
        """The connection was lost."""
        if link is self._link:
            self._link = None
            self._feed(dialogue.Disconnected())

    def _do_send(self, instruction: dialogue.SendToLeader) -> None:
        if self._link is not None:
            self.world.trace.note(self.name, "says", instruction.message)
            self.world.network.to_member(self._link, instruction.message)

    def _do_connect(self, instruction: dialogue.Connect) -> None:
        self._ticket += 1
        self.world.timeline.after(
            instruction.delay_ms * MS, self._dial, self.life, self._ticket, instruction.address
        )

    def _dial(self, life: int, ticket: int, address: str) -> None:
        if life == self.life and ticket == self._ticket:
            self.world.network.dial(self, address, ticket)

    def _do_disconnect(self, instruction: dialogue.Disconnect) -> None:
        if self._link is not None:
            self.world.network.close_by_endpoint(self._link)
            self._link = None

    def _feed(self, event: Any) -> None:
        raise NotImplementedError
