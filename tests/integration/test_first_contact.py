"""The first submit of a client of members that are just starting, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollq.base.errors import DialError
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.roles.client.client import Client
from rollq.wire.compact import Message
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members, until


class Dials:
    """Every connection that clients make to these members, and how it went. A client of an earlier
    test may still look for its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, members: list[MemberProcess]) -> None:
        self._addresses = {member.address for member in members}
        self.made: list[str] = []
        self.refused: list[str] = []
        self.ended: list[str] = []  # why those that were made are gone
        monkeypatch.setattr("rollq.roles.client.session.group_session.dial", self._dial)

    async def _dial(
        self,
        address: str,
        group: str,
        on_messages: Callable[[Link, list[Message]], None],
        on_closed: Callable[[Link, str], None],
        **given: Any,
    ) -> Link:
        if address not in self._addresses:
            return await dial(address, group, on_messages, on_closed, **given)

        def closed(link: Link, reason: str) -> None:
            self.ended.append(reason)
            on_closed(link, reason)

        try:
            link = await dial(address, group, on_messages, closed, **given)
        except DialError:
            self.refused.append(address)
            raise
        self.made.append(address)
        return link


@contextlib.contextmanager
def starting(directory: Path, count: int) -> Iterator[list[MemberProcess]]:
    """Members that take connections; nobody waited for them to serve."""
    members = Members(directory, count).all
    try:
        for member in members:
            member.spawn()
        for member in members:
            until(partial(takes_connections, member.port))
        yield members
    finally:
        for member in members:
            member.kill()


def takes_connections(port: int) -> bool:
    """Whether a connection is accepted; it is closed without a word."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


async def submit_first(members: list[MemberProcess], dials: Dials) -> list[str]:
    """Submit a job; returns why links ended before it was accepted."""
    async with asyncio.timeout(DEADLINE_S):
        async with Client(",".join(member.address for member in members)) as client:
            await client.submit("calc")
            return list(dials.ended)


def test_the_first_submit_to_a_lone_member_needs_one_dial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with starting(tmp_path, 1) as members:
        dials = Dials(monkeypatch, members)
        ended = asyncio.run(submit_first(members, dials))
    assert (len(dials.made), dials.refused, ended) == (1, [], [])


def test_no_member_of_a_group_that_comes_together_turns_a_client_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with starting(tmp_path, 3) as members:
        dials = Dials(monkeypatch, members)
        ended = asyncio.run(submit_first(members, dials))
    assert dials.refused == []
    # It may lose patience by itself, and is told who leads; nobody hangs up on it otherwise.
    assert not [reason for reason in ended if "hung up" in reason]
