"""Reader links of a router: views of all groups, or of the one named in the hello."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from rollq.base.access import Principal
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.net.link import Link
from rollq.roles.client.addresses import as_addresses
from rollq.roles.router.groups import ROUTER, Groups
from rollq.roles.router.machine import RouterMachine
from rollq.roles.router.upstream import Upstream, find_server
from rollq.roles.service import end_tasks
from rollq.security.credentials import Credentials
from rollq.wire.compact import Message
from rollq.wire.features import VIEWS
from rollq.wire.messages import Error, Welcome
from rollq.wire.reader_messages import HelloReader

AGAIN_S: Final = 1.0  # between attempts to reach missing groups


class ReaderLinks:
    """The router's service for reader links.

    Args:
        groups: The groups that are read.
        shown: Returns the credentials to present to the groups for a link.
        make: Makes the machine of a link.
    """

    def __init__(
        self,
        groups: Groups,
        shown: Callable[[Link], Credentials],
        make: Callable[[], RouterMachine],
    ) -> None:
        self._groups = groups
        self._shown = shown
        self._make = make
        self._readers: dict[Link, _ReaderLink] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Handle messages of a link; the first message of a link is its hello."""
        reader = self._readers.get(link)
        if reader is not None:
            reader.hear(messages)
            return
        hello = messages[0]
        assert isinstance(hello, HelloReader), "the door lets in no others"
        names = self._groups.table.names
        if hello.group not in ("", ROUTER, *names.values()):
            text = f"no group here is named {hello.group[:64]!a}"
            hint = f"name one of {', '.join(names.values())}, or none to read all groups"
            link.send(Error(NIL_ID, int(ErrorCode.BAD_HANDSHAKE), text, hint))
            link.close(text)
        elif VIEWS not in hello.features:
            text = "a router serves views, but neither history nor tables"
            hint = f"read from a member of a group: {', '.join(names.values())}"
            link.send(Error(NIL_ID, int(ErrorCode.BAD_HANDSHAKE), text, hint))
            link.close(text)
        else:
            made = _ReaderLink(link, hello.group, self._groups, self._shown(link), self._make())
            self._readers[link] = made

    def closed(self, link: Link, reason: str) -> None:
        """Handle the loss of a link."""
        reader = self._readers.pop(link, None)
        if reader is not None:
            task = link.loop.create_task(reader.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Close all links."""
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            await reader.stop()
        await asyncio.gather(*self._ending, return_exceptions=True)


class _ReaderLink:
    """One reader link and its upstream links."""

    def __init__(
        self,
        link: Link,
        name: str,
        groups: Groups,
        credentials: Credentials,
        machine: RouterMachine,
    ) -> None:
        self._link = link
        self._name = name
        self._groups = groups
        self._credentials = credentials
        self._machine = machine
        self._upstreams: dict[int, Upstream] = {}
        self._known: dict[int, None] = dict.fromkeys(groups.table.names)  # to the machine
        for number, group in groups.table.names.items():
            if not self._reads(group):
                machine.group_removed(number)  # not read here, so not missed
        self._opening = link.loop.create_task(self._keep())

    def hear(self, messages: list[Message]) -> None:
        """Handle queries of the reader."""
        self._machine.on_client_messages(messages)
        self._flush()

    async def stop(self) -> None:
        """Close the upstream links after the reader has gone."""
        await end_tasks([self._opening])
        upstreams, self._upstreams = self._upstreams, {}
        for upstream in upstreams.values():
            upstream.link.close("the reader is gone")
        self._machine.close()

    async def _keep(self) -> None:
        """Connect to the groups, and reconnect to lost ones."""
        answers = await self._reach_all()
        if not self._upstreams:
            lost = Error(NIL_ID, int(ErrorCode.NOT_READY), "no group can be reached", "", True)
            refusals = [one for one in answers if isinstance(one, Error)]
            error = refusals[0] if refusals else lost
            self._link.send(error)
            self._link.close(error.message)
            return
        self._link.send(Welcome(ROUTER, 0, (VIEWS,)))
        while self._link.is_open:
            await asyncio.sleep(AGAIN_S)
            self._follow()
            await self._reach_all()

    def _follow(self) -> None:
        """Take over groups that were added to the router, and removed from it."""
        names = self._groups.table.names
        for number in [one for one in self._known if one not in names]:
            del self._known[number]
            self._machine.group_removed(number)
            upstream = self._upstreams.pop(number, None)
            if upstream is not None:
                upstream.link.close("the group is not in use any more")
        for number in [one for one in names if one not in self._known]:
            self._known[number] = None
            if self._reads(names[number]):
                self._machine.group_added(number)
        self._flush()

    async def _reach_all(self) -> list[Upstream | Error | None]:
        names = self._groups.table.names
        wanted = [
            number
            for number, name in names.items()
            if self._reads(name)
            and number not in self._upstreams
            and not self._groups.is_away(number)
        ]
        return await asyncio.gather(*map(self._reach, wanted))

    def _reads(self, name: str) -> bool:
        return self._name in ("", ROUTER, name)

    async def _reach(self, number: int) -> Upstream | Error | None:
        group = self._groups.found.get(number)
        if group is None:  # it was removed meanwhile
            return None
        answer = await find_server(
            as_addresses(group.addresses),
            HelloReader("", (VIEWS,)),
            self._credentials,
            partial(self._on_group_messages, number),
            partial(self._lost, number),
        )
        if isinstance(answer, Upstream) and answer.link.is_open:
            self._upstreams[number] = answer
            self._machine.group_up(number)
            self._flush()
        return answer

    def _on_group_messages(self, number: int, messages: list[Message]) -> None:
        self._machine.on_group_messages(number, messages)
        self._flush()

    def _lost(self, number: int, reason: str) -> None:
        if self._upstreams.pop(number, None) is not None:
            self._machine.group_down(number, int(self._link.loop.time() * 1000))
            self._flush()

    def _flush(self) -> None:
        machine = self._machine
        to_groups, machine.to_groups = machine.to_groups, {}
        to_client, machine.to_client = machine.to_client, []
        for number, messages in to_groups.items():
            upstream = self._upstreams.get(number)
            if upstream is not None:
                upstream.link.send_all(messages)
        if to_client:
            self._link.send_all(to_client)
