"""Finds the member of a group that serves blob or reader links."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from rollq.base.errors import RollqError
from rollq.base.limits import BLOB_GREETING_MS, MEMBERS_TOLD_MAX
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.security.credentials import Credentials
from rollq.wire.compact import Message
from rollq.wire.messages import Error, NotLeader, Welcome


class Upstream:
    """An open link to a member that has sent its welcome."""

    def __init__(self, link: Link, welcome: Welcome) -> None:
        self.link = link
        self.welcome = welcome


async def find_server(
    addresses: tuple[str, ...],
    hello: Message,
    credentials: Credentials,
    on_messages: Callable[[list[Message]], None],
    on_closed: Callable[[str], None],
) -> Upstream | Error | None:
    """Dial the members of a group, and those that they redirect to, until one accepts the hello.

    Args:
        addresses: Of its members.
        hello: The first message.
        credentials: As for `dial`.
        on_messages: Called with all messages after the welcome.
        on_closed: Called with the reason when the link is lost.

    Returns:
        The link, the refusal of the last member that refused, or None if none answers.
    """
    todo, seen = deque(addresses), set(addresses)
    refusal: Error | None = None
    while todo:
        answer = await _greet(todo.popleft(), hello, credentials, on_messages, on_closed)
        if isinstance(answer, Upstream):
            return answer
        if isinstance(answer, NotLeader):
            for address in (*answer.members, answer.leader):
                if address and address not in seen and len(seen) < MEMBERS_TOLD_MAX:
                    seen.add(address)
                    todo.appendleft(address)
        elif answer is not None:
            refusal = answer
    return refusal


async def _greet(
    address: str,
    hello: Message,
    credentials: Credentials,
    on_messages: Callable[[list[Message]], None],
    on_closed: Callable[[str], None],
) -> Upstream | NotLeader | Error | None:
    greeted: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def hear(_: Link, messages: list[Message]) -> None:
        if not greeted.done():
            greeted.set_result(messages[0])
            messages = messages[1:]
        if messages:
            on_messages(messages)

    def closed(_: Link, reason: str) -> None:
        if greeted.done():
            on_closed(reason)
        else:
            greeted.set_result(None)

    try:
        link = await dial(address, "", hear, closed, credentials=credentials)
    except RollqError:
        return None
    link.send(hello)
    try:
        async with asyncio.timeout(BLOB_GREETING_MS / 1000):
            answer = await greeted
    except TimeoutError:
        link.abort("no answer to the hello")
        return None
    except BaseException:
        link.close("cancelled")
        raise
    if isinstance(answer, Welcome) and link.is_open:
        return Upstream(link, answer)
    link.hand_to(lambda *_: None, lambda *_: None)
    link.close("not served here")
    return answer if isinstance(answer, NotLeader | Error) else None
