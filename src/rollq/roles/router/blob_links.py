"""Blob links of a router's clients: each has an upstream link to every reachable group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from rollq.base.access import Principal
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.net.link import Link
from rollq.roles.client.addresses import as_addresses
from rollq.roles.router.blob_machine import BlobRelay
from rollq.roles.router.groups import ROUTER, Groups
from rollq.roles.router.upstream import Upstream, find_server
from rollq.roles.service import end_tasks
from rollq.security.credentials import Credentials
from rollq.wire.blob_messages import CLIENT, READER, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.messages import Error, Welcome


class BlobLinks:
    """The router's service for blob links.

    Args:
        groups: The groups that blobs are stored in.
        shown: Returns the credentials to present to the groups for a link.
    """

    def __init__(self, groups: Groups, shown: Callable[[Link], Credentials]) -> None:
        self._groups = groups
        self._shown = shown
        self._relays: dict[Link, _BlobLink] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Handle messages of a link; the first message of a link is its hello."""
        relay = self._relays.get(link)
        if relay is not None:
            relay.hear(messages)
            return
        hello = messages[0]
        assert isinstance(hello, HelloBlobs), "the door lets in no others"
        wanted = [
            number
            for number, name in self._groups.table.names.items()
            if hello.group in ("", ROUTER, name) and not self._groups.is_away(number)
        ]
        if hello.who not in (CLIENT, READER) or not wanted:
            text = "no group can be reached" if not wanted else f"no {hello.who} is served here"
            link.send(Error(NIL_ID, int(ErrorCode.NOT_READY), text, "try again", True))
            link.close(text)
            return
        self._relays[link] = _BlobLink(link, hello, self._groups, self._shown(link), wanted)

    def closed(self, link: Link, reason: str) -> None:
        """Handle the loss of a link."""
        relay = self._relays.pop(link, None)
        if relay is not None:
            task = link.loop.create_task(relay.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Close all links."""
        relays, self._relays = self._relays, {}
        for relay in relays.values():
            await relay.stop()
        await asyncio.gather(*self._ending, return_exceptions=True)


class _BlobLink:
    """One client link and its upstream links."""

    def __init__(
        self,
        link: Link,
        hello: HelloBlobs,
        groups: Groups,
        credentials: Credentials,
        wanted: list[int],
    ) -> None:
        self._link = link
        self._hello = HelloBlobs(hello.who)  # no compression: chunks may be forwarded in part
        self._groups = groups
        self._credentials = credentials
        self._upstreams: dict[int, Upstream] = {}  # open links, by group
        self._relay: BlobRelay | None = None
        self._opening = link.loop.create_task(self._open(wanted))

    def hear(self, messages: list[Message]) -> None:
        """Forward messages of the client; those before the welcome are dropped."""
        if self._relay is not None:
            self._relay.on_client_messages(messages)
            self._flush(self._relay)

    async def stop(self) -> None:
        """Close the upstream links after the client has gone."""
        self._relay = None
        await end_tasks([self._opening])
        for upstream in self._upstreams.values():
            upstream.link.close("the client is gone")

    async def _open(self, wanted: list[int]) -> None:
        answers = await asyncio.gather(*map(self._reach, wanted))
        if not self._upstreams:
            refusals = [one for one in answers if isinstance(one, Error)]
            lost = Error(NIL_ID, int(ErrorCode.NOT_READY), "no group can be reached", "", True)
            error = refusals[0] if refusals else lost
            self._link.send(error)
            self._link.close(error.message)
            return
        self._relay = BlobRelay(self._upstreams)
        self._link.send(Welcome(ROUTER, 0))

    async def _reach(self, number: int) -> Upstream | Error | None:
        group = self._groups.found.get(number)
        if group is None:  # it was removed meanwhile
            return None
        answer = await find_server(
            as_addresses(group.addresses),
            self._hello,
            self._credentials,
            partial(self._on_group_messages, number),
            partial(self._lost, number),
        )
        if isinstance(answer, Upstream) and answer.link.is_open:
            self._upstreams[number] = answer
        return answer

    def _on_group_messages(self, number: int, messages: list[Message]) -> None:
        if self._relay is not None:
            self._relay.on_group_messages(number, messages)
            self._flush(self._relay)

    def _lost(self, number: int, reason: str) -> None:
        self._upstreams.pop(number, None)
        if self._relay is not None:
            self._relay.lose(number)
            self._flush(self._relay)

    def _flush(self, relay: BlobRelay) -> None:
        to_client, relay.to_client = relay.to_client, []
        to_groups, relay.to_groups = relay.to_groups, []
        self._link.send_all(to_client)
        for number, message in to_groups:
            upstream = self._upstreams.get(number)
            if upstream is not None:
                upstream.link.send(message)
        if relay.failure:
            self._link.close(relay.failure)
