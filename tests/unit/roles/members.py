"""Members on virtual disks whose turns are made by hand: no loop, no socket, no clock of its own.

A `Group` carries messages between its members at once and in order, and keeps what each session
was told. A test breaks what it wants to break: isolates a member, kills it, damages its disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from rollq.base.errors import RollqError
from rollq.base.jobs import BlobRef
from rollq.raft.node import RaftOptions
from rollq.raft.types import RaftMessage
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.driver import Driver
from rollq.roles.member.inlining import completed
from rollq.roles.member.outputs import (
    ClosePeer,
    CloseSession,
    Complete,
    KeepBlobs,
    LogLine,
    Mishap,
    ProvePeer,
    ToPeer,
    ToSession,
)
from rollq.roles.member.setup import MemberSetup
from rollq.testing.disk import VirtualDisk
from rollq.testing.jitter import SeededJitter
from rollq.wire import messages as wire

OURS = ("compact", "accepted", "lease", "patterns")
TICK_MS = 25
TICKS_MAX = 400
LETTERS_MAX = 100_000  # between two ticks
CLIENT = 1  # the session of the client that `three_members` have

M = TypeVar("M", bound=wire.SessionMessage)


def job(number: int) -> bytes:
    """The id of a test's job."""
    return number.to_bytes(16, "big")


def submit(number: int, subject: str = "calc", **fields: Any) -> wire.SubmitJob:
    """A small job."""
    values: dict[str, Any] = {"exec_name": "calc", "body": b"{}", "client_id": "ann"} | fields
    return wire.SubmitJob(job(number), subject=subject, **values)


class Clock:
    """Moves when the group ticks, or when a test moves it."""

    def __init__(self) -> None:
        self.ms = 1_000_000
        self.wall_ahead_ms = 0

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return self.ms

    def now_us(self) -> int:
        """The same in microseconds."""
        return self.ms * 1_000

    def wall_ms(self) -> int:
        """The same, as if the world began with the test, unless somebody sets it."""
        return self.ms + self.wall_ahead_ms


class OtherClock:
    """The clock of one member, which may be set wrong."""

    def __init__(self, clock: Clock) -> None:
        self.wall_ahead_ms = 0
        self._clock = clock

    def now_ms(self) -> int:
        """As the group's."""
        return self._clock.now_ms()

    def now_us(self) -> int:
        """As the group's."""
        return self._clock.now_us()

    def wall_ms(self) -> int:
        """As the group's, if it is right."""
        return self._clock.wall_ms() + self.wall_ahead_ms


class Group:
    """Some members, and everything that was said to their sessions."""

    def __init__(self, *addresses: str, **settings: Any) -> None:
        self.clock = Clock()
        self.clocks: dict[str, OtherClock] = {}
        self.disks: dict[str, VirtualDisk] = {}
        self.members: dict[str, Driver] = {}
        self.isolated: dict[str, None] = {}
        self.lost: tuple[type, ...] = ()  # kinds of messages that do not arrive
        self.closed: dict[int, str] = {}
        self.cut: list[ClosePeer] = []  # links that members ended
        self.mishaps: list[Mishap] = []
        self.points: list[str] = []  # crash points that were passed
        self.warned: list[str] = []  # to the log of a process
        self.details: list[str] = []  # written to the log of those who look at every job
        self.news: list[str] = []  # written to the log, and nothing to worry about
        self.asides: list[tuple[str, KeepBlobs | Complete]] = []  # with who asked for it
        self.holds_asides = False  # nothing is done of these for now
        self.keep_error: RollqError | None = None  # why nothing can be kept
        self.kept: dict[bytes, bytes] = {}  # blobs of large bodies and results
        self.letters: list[tuple[str, str, object]] = []  # from, to, message: all of them
        self._said: dict[int, list[Any]] = {}
        self._homes: dict[int, str] = {}
        # With the boot of the sender and the key that its links prove.
        self._mail: deque[tuple[str, str, RaftMessage | wire.PeerMessage, int, bytes]] = deque()
        self._initial = addresses or ("a",)
        self._settings = settings
        self._lives = 0
        for address in self._initial:
            self.start(address)

    # --- members

    def start(self, address: str, disk: VirtualDisk | None = None) -> Driver:
        """Start a member on its disk, or on another one."""
        if disk is not None or address not in self.disks:
            self.disks[address] = disk or VirtualDisk()
        peers = tuple(other for other in self._initial if other != address)
        options = RaftOptions(fixed_leader=self._initial == (address,))
        settings: dict[str, Any] = {"raft": options, "segment_bytes": 64 * 1024} | self._settings
        self._lives += 1
        driver = Driver(
            MemberSetup(address, peers, **settings),
            self.disks[address],
            self.clocks.setdefault(address, OtherClock(self.clock)),
            SeededJitter(f"{address}{self._lives}"),
            self.points.append,
            calendar=ZoneCalendar(),
        )
        self.members[address] = driver
        return driver

    def kill(self, address: str) -> None:
        """The process dies; its disk stays as it is."""
        del self.members[address]
        self.disks[address].kill()
        for other in self.members.values():
            other.peer_lost(address)

    @property
    def leader(self) -> Driver:
        """The member that leads."""
        leading = [driver for driver in self.members.values() if driver.leading]
        return max(leading, key=lambda driver: driver.raft.term)

    def address_of(self, driver: Driver) -> str:
        """Under which address a member was started."""
        return next(address for address, one in self.members.items() if one is driver)

    def follower(self) -> str:
        """The address of a member that does not lead."""
        return next(address for address, one in self.members.items() if not one.leading)

    # --- time and messages

    def elect(self) -> Driver:
        """Time passes until somebody that can be reached leads."""
        for _ in range(TICKS_MAX):
            for address, driver in self.members.items():
                if driver.leading and address not in self.isolated:
                    return driver
            self.run()
        raise AssertionError("nobody was elected")

    def until(self, condition: Callable[[], object]) -> None:
        """Time passes until something has come about."""
        for _ in range(TICKS_MAX):
            if condition():
                return
            self.run()
        raise AssertionError("it did not come about")

    def run(self, ticks: int = 1) -> None:
        """Time passes, and everything that can arrive does."""
        for _ in range(ticks):
            self.clock.ms += TICK_MS
            for driver in list(self.members.values()):
                driver.tick()
            self.settle()

    def settle(self) -> None:
        """Turns and messages until there is nothing to do."""
        for address in list(self.members):
            self.turn(address)
        letters = len(self.letters)
        while self._mail:
            assert len(self.letters) - letters < LETTERS_MAX, "members answer without end"
            sender, to, message, boot, key = self._mail.popleft()
            arrives = to in self.members and not isinstance(message, self.lost)
            if arrives and not {sender, to} & self.isolated.keys():
                is_proven = key in self.members[to].roll.keys.held
                self.members[to].peer_message(sender, message, boot, is_proven=is_proven)
                self.turn(to)

    def turn(self, address: str) -> None:
        """All turns that a member has to make now."""
        self._turn(address)
        while self.asides and not self.holds_asides:
            self.do_asides()
            self._turn(address)

    def _turn(self, address: str) -> None:
        driver = self.members[address]
        self.collect(address)
        while (work := driver.begin()) is not None:
            self.collect(address)
            work.run()
            driver.finish(work)
            self.collect(address)
        self.collect(address)
        order = driver.begin_snapshot()
        if order is not None:
            order.publish(order.write())
            driver.finish_snapshot(order)

    def collect(self, address: str) -> None:
        """Take what a member hands out to where it belongs."""
        driver = self.members[address]
        for output in driver.take_outputs():
            if isinstance(output, ToPeer):
                self.letters.append((address, output.address, output.message))
                key = (*driver.roll.keys.held, b"")[0]
                letter = (address, output.address, output.message)
                self._mail.append((*letter, driver.roll.boot, key))
            elif isinstance(output, ToSession):
                self._said.setdefault(output.session, []).extend(output.messages)
            elif isinstance(output, CloseSession):
                self.closed.setdefault(output.session, output.reason)
            elif isinstance(output, ClosePeer):
                self.cut.append(output)
            elif isinstance(output, ProvePeer):
                pass  # every letter proves what its sender holds
            elif isinstance(output, Mishap):
                self.mishaps.append(output)
            elif isinstance(output, LogLine):
                level, text = output.event.level, output.event.text.format_map(output.fields)
                kept = {"debug": self.details, "info": self.news}.get(level, self.warned)
                kept.append(text)
            else:
                self.asides.append((address, output))
        for batch in driver.leader_state.publishing.take():
            for session in batch.receivers:
                self._said.setdefault(session, []).extend(batch.messages)

    def do_asides(self) -> None:
        """Do all work with blobs that members asked for: whatever is kept is kept by everybody."""
        asides, self.asides = self.asides, []
        for address, order in asides:
            driver = self.members.get(address)
            if driver is None:
                continue
            if isinstance(order, Complete):
                read = self._read_kept
                whole = completed(order.message, read, knows_blobs=order.knows_blobs)
                driver.completed(order.ticket, whole)
            elif self.keep_error is not None:
                driver.kept(order.ticket, (), self.keep_error)
            else:
                refs = [BlobRef(sha256(part).digest(), len(part)) for part in order.parts]
                self.kept.update(
                    {ref.digest: part for ref, part in zip(refs, order.parts, strict=True)}
                )
                driver.kept(order.ticket, refs)

    def _read_kept(self, ref: BlobRef) -> bytes:
        return self.kept[ref.digest]

    # --- sessions

    def tell(self, session: int, *messages: wire.ToMemberMessage, to: str = "") -> None:
        """A session says something; no turn is made. It lives with the leader unless `to` says."""
        home = self._homes.get(session) or to or self.address_of(self.leader)
        self._homes[session] = home
        for message in messages:
            self.members[home].session_message(session, message)

    def say(self, session: int, *messages: wire.ToMemberMessage, to: str = "") -> list[Any]:
        """A session says something; what it is told until everything has settled."""
        self.tell(session, *messages, to=to)
        self.settle()
        return self.hear(session)

    def hang_up(self, session: int) -> None:
        """The connection of a session breaks."""
        self.members[self._homes.pop(session)].session_closed(session)
        self.settle()

    def hear(self, session: int) -> list[Any]:
        """What a session was told since it was asked last."""
        return self._said.pop(session, [])

    def heard(self, session: int, kind: type[M]) -> list[M]:
        """Of what a session was told, the messages of one kind."""
        return [message for message in self.hear(session) if isinstance(message, kind)]

    def client(self, session: int, name: str = "ann", features: tuple[str, ...] = OURS) -> None:
        """A client says hello to the leader."""
        self.say(session, wire.HelloClient(name, 0, features))

    def worker(
        self,
        session: int,
        credit: int = 0,
        features: tuple[str, ...] = OURS,
        **fields: Any,
    ) -> list[Any]:
        """A worker says hello to the leader and grants credit; what it is told."""
        values: dict[str, Any] = {"worker_id": worker(session), "patterns": ("",)} | fields
        told = self.say(session, wire.HelloWorker(features=features, **values))
        if credit:
            told += self.say(session, wire.Credit(credit))
        return told


def worker(number: int) -> bytes:
    """The id of a test's worker."""
    return bytes([number]) * 16


def three_members(count: int = 3, **settings: object) -> Group:
    """Three members, one of them elected, with a client and some jobs."""
    group = Group("a", "b", "c", **settings)
    group.elect()
    group.client(CLIENT)
    for number in range(1, count + 1):
        group.say(CLIENT, submit(number))
    group.run(4)
    return group


def sent(group: Group, kind: type) -> list[object]:
    """The messages of one kind that members sent since this was asked last."""
    found = [message for _, _, message in group.letters if isinstance(message, kind)]
    group.letters.clear()
    return found
