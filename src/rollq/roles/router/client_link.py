"""One client of a router: its link, its machine, and its sessions with the groups.

All messages of one read are handled together, and each receiver gets its messages in one write.
Backpressure: a client is not read while a group's send buffer is full, and groups are not read
while the client's is.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.limits import MULTI_GATHER_MS, PING_MS
from rollq.base.log_events import GROUP_TOO_OLD, tell
from rollq.base.router_limits import ROUTER_AHEAD_BYTES_MAX
from rollq.net.link import Link
from rollq.roles.client.session.relay_session import RelaySession
from rollq.roles.router.groups import ROUTER, Groups
from rollq.roles.router.machine import RouterMachine
from rollq.security.credentials import Credentials
from rollq.wire.compact import Message
from rollq.wire.features import (
    ACCEPTED,
    ALIVE,
    BATCH,
    COMPACT,
    OUTPUT,
    OWN,
    RUNS,
    TASKS,
    agree,
)
from rollq.wire.messages import Error, HelloClient, Welcome

log = logging.getLogger("rollq.router")

FORWARDED_FEATURES = (COMPACT, ACCEPTED, BATCH, OUTPUT, OWN, ALIVE, TASKS, RUNS)
NAMELESS = "nameless-"  # prefix of the generated name of a client without one, as in members
MEMBER_ID = 0  # in a Welcome: a router is not a member


class ClientLink:
    """A client that has sent its hello.

    Args:
        link: Its link.
        hello: Its hello.
        groups: The groups of the router.
        machine: Its requests in progress.
        credentials: Verify members, and hold the client's token.
    """

    def __init__(
        self,
        link: Link,
        hello: HelloClient,
        *,
        groups: Groups,
        machine: RouterMachine,
        credentials: Credentials,
    ) -> None:
        self.link = link
        self.machine = machine
        self._hello = hello
        self._groups = groups
        self._credentials = credentials
        self._agreed = agreed_with(hello)
        self._sessions: dict[int, RelaySession] = {}
        # A client without a name gets a random one, the same in every session, because results are
        # delivered by name. With a token the groups name it after its account instead.
        is_nameless = not hello.client_id and credentials.token is None
        self._name = f"{NAMELESS}{secrets.token_hex(16)}" if is_nameless else hello.client_id
        self._early: list[Message] | None = []  # messages before the welcome; None after it
        self._gather_until_s = link.loop.time() + MULTI_GATHER_MS / 1000
        self._is_paused = False  # reading from the client is paused
        self._are_paused = False  # reading from the groups is paused
        self._is_over = False
        self._ending: set[asyncio.Task[None]] = set()  # sessions with groups that were removed

    def start(self) -> None:
        """Open a session with every group."""
        for number in list(self._groups.found):
            self._open(number)
        self._maybe_begin()

    def stop(self, why: Error | None = None) -> list[asyncio.Task[None]]:
        """End all sessions, and send `why` to the client if it is refused; returns tasks to
        await."""
        self._is_over = True
        if why is not None and self.link.is_open:
            self.link.send(why)
            self.link.close(why.message)
        self.machine.close()
        loop = self.link.loop
        ending = [loop.create_task(session.stop()) for session in self._sessions.values()]
        return [*ending, *self._ending]

    def hear(self, messages: list[Message]) -> None:
        """Handle messages of the client; those before the welcome are held."""
        if self._early is not None:
            self._early += messages
            self.link.pause()
            return
        self.machine.on_client_messages(messages)
        self._flush()

    def add_group(self, number: int) -> None:
        """Open a session with a new group."""
        self.machine.group_added(number)
        self._open(number)

    def remove_group(self, number: int) -> None:
        """Stop using a group."""
        self.machine.group_removed(number)
        self._flush()

    def tick(self, now_s: float) -> Error | None:
        """Run the timers; returns the refusal if no group accepts the client."""
        self._maybe_begin()
        if self._early is None:
            self.machine.tick(int(now_s * 1000))
            self._flush()
        self._maybe_resume()
        return self._refusal()

    def _refusal(self) -> Error | None:
        """The refusal if every reachable group refuses the client; None if one accepts it, or
        may."""
        refusals = [
            session.refusal
            for number, session in self._sessions.items()
            if session.is_open or session.refusal is not None or not self._groups.is_away(number)
        ]
        return refusals[0] if refusals and all(refusals) else None

    # --- sessions with the groups

    def _open(self, number: int) -> None:
        session = RelaySession(
            self._groups.found[number].addresses,
            self._name,
            desired_parallelism=self._hello.desired_parallelism,
            features=tuple(dict.fromkeys((*self._agreed, ALIVE))),
            credentials=self._credentials,
            is_awaiting=lambda: self.machine.is_busy,
            on_session_change=partial(self._on_session_change, number),
            on_messages=partial(self._on_messages, number),
        )
        self._sessions[number] = session
        session.start()

    def _on_session_change(self, number: int, is_open: bool) -> None:
        if self._is_over:
            return
        if not is_open:
            self.machine.group_down(number, int(self.link.loop.time() * 1000))
        else:
            lacking = set(self._agreed) - set(self._sessions[number].features)
            if lacking:
                name = self._groups.table.names.get(number, "")
                tell(log, GROUP_TOO_OLD, group=name, features=",".join(sorted(lacking)))
                return
            self.machine.group_up(number)
            if self._are_paused:
                self._sessions[number].stop_reading()
        self._maybe_begin()
        self._flush()

    def _on_messages(self, number: int, messages: list[Message]) -> None:
        if not self._is_over:
            self.machine.on_group_messages(number, messages)
            self._flush()

    def _maybe_begin(self) -> None:
        """Send the welcome and the messages held until now, once every group is connected, known to
        be unreachable, or has been waited for long enough. Otherwise the first group to connect
        would get all jobs."""
        if self._early is None or self._is_over:
            return
        is_late = self.link.loop.time() >= self._gather_until_s
        if not is_late and not all(map(self._is_settled, self._sessions)):
            return
        if self._refusal() is not None:
            return  # reported by `tick`
        early, self._early = self._early, None
        if self._agreed:
            ping_ms = PING_MS if ALIVE in self._agreed else 0
            self.link.send(Welcome(ROUTER, MEMBER_ID, self._agreed, ping_ms=ping_ms))
        self.link.resume()
        if early:
            self.link.hand_over(early)
        self._flush()

    def _is_settled(self, number: int) -> bool:
        session = self._sessions[number]
        return session.is_open or session.refusal is not None or self._groups.is_away(number)

    # --- output

    def _flush(self) -> None:
        machine = self.machine
        is_early = self._early is not None  # results wait for the welcome
        while machine.to_groups or machine.left or (machine.to_client and not is_early):
            to_groups, machine.to_groups = machine.to_groups, {}
            to_client: list[Message] = []
            if not is_early:
                to_client, machine.to_client = machine.to_client, []
            for number, messages in to_groups.items():
                session = self._sessions.get(number)
                if session is not None:
                    session.relay(messages)
                    if session.waiting_bytes > ROUTER_AHEAD_BYTES_MAX:
                        self._pause()
            if to_client:
                self.link.post_all(to_client)
                self.link.flush()
            left, machine.left = machine.left, []
            for number in left:
                session = self._sessions.pop(number, None)
                if session is not None:
                    task = self.link.loop.create_task(session.stop())
                    self._ending.add(task)
                    task.add_done_callback(self._ending.discard)
        if machine.unanswered_bytes > ROUTER_AHEAD_BYTES_MAX:
            self._pause()
        if self.link.waiting_bytes > ROUTER_AHEAD_BYTES_MAX and not self._are_paused:
            self._are_paused = True
            for session in self._sessions.values():
                session.stop_reading()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.link.pause()

    def _maybe_resume(self) -> None:
        half = ROUTER_AHEAD_BYTES_MAX // 2
        if self._are_paused and self.link.waiting_bytes <= half:
            self._are_paused = False
            for session in self._sessions.values():
                session.read_on()
        waiting = [session.waiting_bytes for session in self._sessions.values()]
        if self._is_paused and max((self.machine.unanswered_bytes, *waiting)) <= half:
            self._is_paused = False
            self.link.resume()


def agreed_with(hello: HelloClient) -> tuple[str, ...]:
    """Features of the client that the router forwards; none for a legacy client."""
    return tuple(one for one in agree(hello.features) if one in FORWARDED_FEATURES)


def refused(message: str, hint: str, code: ErrorCode = ErrorCode.LOGIN_FAILED) -> Error:
    """The error for a client that is refused."""
    return Error(NIL_ID, int(code), message, hint)
