"""A guard over a real state with some accounts, and a door behind which everything is noted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from rollq.base.access import LinkRole, Principal
from rollq.base.access_rules import Account, Rule, TokenHash
from rollq.base.access_table import AccessTable
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.grid import commands as c
from rollq.net.link import Link
from rollq.roles.access import Decisions, RefusedError
from rollq.roles.door import Door
from rollq.roles.login import LoginSetup
from rollq.roles.member.guard.given import GivenBlobs
from rollq.roles.member.guard.guard import AccountGuard
from rollq.roles.member.guard.targets import Targets
from rollq.roles.member.leader.addressing import Addressing
from rollq.security.identity import CertificateIdentity
from rollq.security.legacy_accounts import LegacyAccounts
from rollq.security.mode import Mode
from rollq.security.tokens import parse_token
from rollq.wire.compact import Message
from rollq.wire.login_messages import Login
from tests.unit.grid.kit import job_id
from tests.unit.grid.staged import Staged

HIS_BLOB = BlobRef(b"h" * 32, 5)  # an input of bob
MY_BLOB = BlobRef(b"m" * 32, 5)  # an input of ann
HIS_RESULT = BlobRef(b"r" * 32, 5)
CACHED = BlobRef(b"c" * 32, 5)
NOBODYS = BlobRef(b"n" * 32, 5)
TOKENS = {name: f"rollq_{name}_{index:040x}" for index, name in enumerate(("ann", "bob"), 1)}


def allow(action: str, resource: str) -> Rule:
    return Rule("allow", action, resource)


def deny(action: str, resource: str) -> Rule:
    return Rule("deny", action, resource)


def token_hash(name: str) -> TokenHash:
    parsed = parse_token(TOKENS[name].encode())
    assert parsed is not None
    return TokenHash("t", parsed.sha256)


class FixedJitter:
    """No chance."""

    def draw(self, low: int, high: int) -> int:
        return low

    def draw_id(self) -> bytes:
        return bytes(15) + b"\7"


class World:
    """Jobs of ann and bob, and a guard that judges who may do what with them.

    Attributes:
        refused: Account, action and resource of every refusal.
        pending: Commands that are not applied.
    """

    def __init__(self, *accounts: Account) -> None:
        grid = self.grid = Staged()
        grid.apply(
            c.SubmitJob(job_id("mine"), "ann/1", "q", "exe", b"", None, (MY_BLOB,)),
            c.SubmitJob(job_id("his"), "bob/1", "q", "exe", b"", None, (HIS_BLOB,)),
            c.SubmitJob(job_id("ended"), "bob/1", "q", "exe", b""),
            c.SubmitArray(job_id("tasks"), "bob/1", "q", "exe", b"", 10),
            c.PutCache("data", (CacheEntry("f", CACHED),), ">"),
        )
        grid.assign("ended")
        grid.ack("ended", blobs=(HIS_RESULT,))
        table = AccessTable(
            [
                Account("ann", ("client",), tokens=(token_hash("ann"),)),
                Account("bob", ("client",), tokens=(token_hash("bob"),)),
                Account("ops", ("operator",)),
                Account("box", ("worker",)),
                Account("eye", ("reader",)),
                Account("root", ("admin",)),
                Account("none"),
                *accounts,
            ],
            version=1,
        )
        self.table = table
        self.refused: list[tuple[str, str, str]] = []
        self.pending: list[c.Command] = []
        self.now_ms = 0
        self.addressing = Addressing()
        self.given = GivenBlobs(1_000, lambda: self.now_ms)
        self.about_to_lead = False
        targets = Targets(
            lambda: self.grid.state,
            pending=lambda: self.pending,
            queue_named=self.addressing.target_queue,
            table_of=lambda export, number: "jobs" if export == "e" and number == 0 else "",
            given=self.given,
        )
        decisions = Decisions(lambda: self.table, self._note)
        self.guard = AccountGuard(
            decisions, targets, lambda: self.about_to_lead, jitter=FixedJitter()
        )

    def _note(self, principal: Principal, action: str, resource: str) -> None:
        self.refused.append((principal.account, str(action), resource))

    def judge(self, principal: Principal, message: Message) -> Any:
        """What is let in of a message."""
        return self.guard.judge(principal, message)

    def error(self, principal: Principal, message: Message) -> Any:
        """The first answer to a message that is refused."""
        try:
            taken = self.judge(principal, message)
        except RefusedError as refused:
            return refused.answers[0]
        raise AssertionError(f"taken: {taken}")

    def door(self, room: Room, mode: Mode = Mode.REQUIRE, legacy: tuple[str, ...] = ()) -> Door:
        """A door to a room for all roles."""
        logins = LoginSetup(
            mode,
            "g",
            accounts=lambda: self.table.accounts,
            now_ms=lambda: self.now_ms,
            draw_nonce=lambda: bytes(32),
            legacy=LegacyAccounts(legacy),
        )
        return Door(dict.fromkeys(LinkRole, room), logins, self.guard)


def client(account: str, name: str = "") -> Principal:
    """An account on the session of a client."""
    return Principal(LinkRole.CLIENT, name or f"{account}/1", "10.0.0.1:5", account, "token")


def other(role: LinkRole, account: str, name: str = "") -> Principal:
    """An account on another link."""
    return Principal(role, name or account, "10.0.0.1:5", account, "token")


class Line:
    """A link that only notes what is done to it."""

    def __init__(self, certificate: CertificateIdentity | None = None) -> None:
        self.address = "10.0.0.1:5"
        self.certificate = certificate
        self.sent: list[Any] = []
        self.closed = ""
        self.loop = self
        self.is_paused = False
        self.door: Door | None = None

    def time(self) -> float:
        return 0.0

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def close(self, reason: str) -> None:
        self.closed = reason

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def hand_over(self, messages: list[Message]) -> None:
        assert self.door is not None
        self.door.messages(cast(Link, self), messages)

    def says(self, door: Door, *messages: Message) -> None:
        self.door = door
        door.messages(cast(Link, self), list(messages))


class Room:
    """A service that notes what it is given."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.principals: list[Principal] = []

    def hear(self, link: Link, messages: Iterable[Message], principal: Principal) -> None:
        self.heard += messages
        self.principals.append(principal)

    def closed(self, link: Link, reason: str) -> None:
        """Nobody asks."""


def login(account: str, token: str = "") -> Login:
    """A login by token."""
    return Login("token", account, (token or TOKENS[account]).encode())
