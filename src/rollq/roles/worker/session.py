"""The worker's session with one member at a time. Pure.

Dials, sends the hello, follows redirects, leaves a silent member, renews leases, and announces
programs to the leader. The attempts are passed in."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rollq.base.ids import WorkerId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    GREETING_MS_MAX,
    HOLDINGS_PER_MESSAGE_MAX,
    PROGRAMS_MAX,
    SILENCE_MS_MAX,
)
from rollq.base.needs import Amounts, WorkerLoad
from rollq.base.stamp import Jitter
from rollq.roles.offers import Offers
from rollq.roles.redial import Redial
from rollq.roles.refusals import Refusals, is_refusal
from rollq.roles.silence import Silence, Verdict
from rollq.roles.worker.orders import Orders
from rollq.roles.worker.signals import Connect, Disconnect, ProgramsFound
from rollq.wire import messages as wire
from rollq.wire.features import (
    ACCEPTED,
    ALIVE,
    BATCH,
    CACHE,
    COMPACT,
    DRAIN,
    HOLDINGS,
    LEASE,
    OUTPUT,
    PACKED,
    PATTERNS,
    PROGRAMS,
    RETURNS,
    RUNS,
    SUBJECTS,
)
from rollq.wire.subject_messages import Publish

IDLE_HEARTBEAT_MS: Final = 10_000
# The features that a worker offers.
FEATURES: Final = (
    COMPACT,
    ACCEPTED,
    LEASE,
    PATTERNS,
    BATCH,
    OUTPUT,
    CACHE,
    ALIVE,
    PROGRAMS,
    RETURNS,
    HOLDINGS,
    RUNS,
    DRAIN,
    SUBJECTS,
    *PACKED,
)


@dataclass(slots=True, frozen=True)
class WorkerSetup:
    """The identity and options of a worker. `incarnation` grows with each start of the process."""

    worker_id: WorkerId
    addresses: tuple[str, ...]
    patterns: tuple[str, ...]
    name: str = ""
    incarnation: int = 1
    slots: int = 1  # parallel executions
    features: tuple[str, ...] = ()
    ahead: int = 0  # maximum of prefetched jobs
    blob_address: str = ""  # where other workers may fetch blobs
    # Functions that run in the shell's event loop, one after the other unless they wait: their
    # calls share one slot (the line).
    calls: frozenset[str] = frozenset()
    layers: tuple[str, ...] = ()  # of the jobs' sandbox
    labels: tuple[str, ...] = ()
    resources: Amounts = ()  # total capacity


class LinkState(enum.IntEnum):
    """The state of the session with a member."""

    DOWN = 0
    GREETING = 1
    OPEN = 2
    LEFT = 3  # drained or stopped; nothing follows


DOWN: Final = LinkState.DOWN
OPEN: Final = LinkState.OPEN


class LeaderSession:
    """The connection to a member, and the features of that member.

    Attributes:
        state: Only an OPEN session carries credit and reports.
        is_legacy: The member speaks the legacy protocol: it does not answer the hello, and does
            not confirm results. Valid while the state is not DOWN.
        takes_runs: The leader supports runs of acks. From the last Welcome.
        returns_are_free: The leader does not count an attempt for jobs returned before their start,
            and supports Announce; older ones do neither. From the last Welcome.
    """

    __slots__ = (
        "_counted",
        "_found",
        "_knows_returns",
        "_now_ms",
        "_offers",
        "_orders",
        "_ping_ms",
        "_redial",
        "_refusals",
        "_renewed_ms",
        "_setup",
        "_silence",
        "_takes_publishes",
        "_was_heard",
        "_whole_hello_at",
        "is_legacy",
        "returns_are_free",
        "state",
        "takes_runs",
    )

    def __init__(self, setup: WorkerSetup, jitter: Jitter, orders: Orders) -> None:
        self._setup = setup
        self._orders = orders
        self._redial = Redial(setup.addresses, jitter)
        # A worker's hello is answered after an entry of the log.
        self._silence = Silence(GREETING_MS_MAX, SILENCE_MS_MAX)
        self._offers = Offers()
        self._refusals = Refusals()
        self._was_heard = False  # a message arrived in this session
        self._counted = False  # the hello of this session only counts the held attempts
        # Members that closed the connection after such a hello: the next hello to them names all
        # attempts; if they close again, the one after counts again. Few addresses are known.
        self._whole_hello_at: set[str] = set()
        self._ping_ms = 0  # of this session; 0: its member does not answer pings
        self._knows_returns = False  # the member supports a Goodbye with `returns`
        self._now_ms = 0  # of the last tick
        self._renewed_ms = 0  # of the last renewal of leases
        self._found: ProgramsFound | None = None  # None before the first scan
        self.state = DOWN
        self.is_legacy = False
        self.returns_are_free = False
        self.takes_runs = self._takes_publishes = False

    @property
    def is_patient(self) -> bool:
        """Whether more silence than at first is permitted."""
        return self._silence.is_patient

    # --- opening

    def dial(self) -> None:
        """Dial the first address."""
        self._orders.give(Connect(self._redial.address, 0))

    def greet(self, holding: tuple[AttemptRef, ...]) -> None:
        """The connection is open: send the hello with the held attempts."""
        setup = self._setup
        self._counted = False
        self._ping_ms = 0
        self._knows_returns = False
        self._silence.opened(self._now_ms, self._redial.address)
        self.is_legacy = self._offers.is_plain(self._redial.address)
        self._was_heard = False
        if self.is_legacy:  # it does not answer the hello, and reads the first pattern only
            self.state = OPEN
            self.returns_are_free = False
            self.takes_runs = self._takes_publishes = False
            hello = wire.HelloWorker(setup.worker_id, setup.patterns[:1], plain=True)
        else:
            self.state = LinkState.GREETING
            can_count = HOLDINGS in setup.features
            can_count &= self._redial.address not in self._whole_hello_at
            self._counted = can_count and len(holding) > 0
            hello = wire.HelloWorker(
                setup.worker_id,
                setup.patterns,
                setup.name,
                setup.incarnation,
                setup.slots,
                () if self._counted else holding,
                setup.features,
                setup.blob_address,
                plain=self._counted,  # makes a member without support of counts disconnect
                holding_count=len(holding) if self._counted else 0,
                labels=setup.labels,
                resources=setup.resources,
            )
        self._orders.send(hello)
        if self._counted:
            for at in range(0, len(holding), HOLDINGS_PER_MESSAGE_MAX):
                self._orders.send(wire.Holdings(holding[at : at + HOLDINGS_PER_MESSAGE_MAX]))

    def welcomed(self, message: wire.Welcome) -> None:
        """The leader sent Welcome."""
        self.state = OPEN
        self._ping_ms = message.ping_ms if ALIVE in message.features else 0
        self._knows_returns = RETURNS in message.features
        self.returns_are_free = PROGRAMS in message.features
        self.takes_runs = RUNS in message.features
        self._takes_publishes = SUBJECTS in message.features
        self._announce(frozenset())
        self._redial.welcomed(message.members)
        self._offers.welcomed()
        self._refusals.over()
        self._renewed_ms = self._now_ms

    def publish(self, message: Publish) -> None:
        """Publish a message. Lost without a leader that supports publishes."""
        if self.state is OPEN and self._takes_publishes:
            self._orders.send(message)

    def heard(self, messages: Sequence[wire.MemberMessage]) -> None:
        """Messages arrived."""
        for message in messages if self.state is LinkState.GREETING else ():
            if type(message) is wire.Error:
                if is_refusal(message):
                    self._refusals.noted(message)
                else:
                    self._refusals.over()
        # A current member answers a legacy hello with an error; a legacy leader sends none.
        self._was_heard |= any(type(message) is not wire.Error for message in messages)
        self._silence.heard(self._now_ms, is_answer=self.state is OPEN)

    # --- end of the session

    def lost(self, refusal: wire.Error | None = None) -> None:
        """The connection broke, or the session was refused: dial again."""
        if self.is_legacy and self.state is OPEN and not self._was_heard:
            self._offers.hung_up(self._redial.address)
        if self.state is LinkState.GREETING and self._counted:
            self._whole_hello_at.add(self._redial.address)
        elif self.state is LinkState.GREETING:
            self._whole_hello_at.discard(self._redial.address)
        self.state = DOWN
        if refusal is not None:
            self._refusals.noted(refusal)
        redial = self._redial
        is_refused = self._refusals.final is not None
        self._orders.give(Connect(*(redial.refused() if is_refused else redial.failed())))

    def redirected(self, message: wire.NotLeader) -> None:
        """Another member leads: dial it."""
        self._refusals.over()
        self.state = DOWN
        self._orders.give(Disconnect())
        self._orders.give(Connect(*self._redial.redirected(message.leader, message.members)))

    def leave(self, why: str) -> None:
        """Send Goodbye and disconnect, for good."""
        if self.state is OPEN:
            self._orders.send(wire.Goodbye(why))
        if self.state is not DOWN:
            self._orders.give(Disconnect())
        self.state = LinkState.LEFT

    # --- time

    def tick(self, now_ms: int) -> None:
        """Check the session for silence."""
        self._now_ms = now_ms
        if self.state is not DOWN:
            self._maybe_leave_member()

    def _maybe_leave_member(self) -> None:
        """Ping a silent member, or leave it for the next."""
        is_greeting = self.state is LinkState.GREETING
        verdict = self._silence.judge(self._now_ms, is_greeting=is_greeting, ping_ms=self._ping_ms)
        if verdict is Verdict.PING:
            self._orders.send(wire.Ping())
        elif verdict is Verdict.HANG_UP:
            if is_greeting:
                self._offers.unanswered(self._redial.address)
            elif self._knows_returns:
                # Perhaps only the way to us is broken: then our disconnect would look like a crash.
                self._orders.send(wire.Goodbye("the member is silent", returns=True))
            self.state = DOWN
            self._orders.give(Disconnect(stuck=True))
            self._orders.give(Connect(*self._redial.silent()))

    def is_renewal_due(self, lease_ms: Iterable[int]) -> bool:
        """Whether a third of the shortest lease has passed; without leases, an idle worker still
        sends heartbeats."""
        if self.state is not OPEN or self.is_legacy:
            return False
        shortest_ms = min(lease_ms, default=3 * IDLE_HEARTBEAT_MS)
        return self._now_ms - self._renewed_ms >= shortest_ms // 3

    def renew(
        self, holding: tuple[AttemptRef, ...], *, is_capped: bool, load: WorkerLoad | None
    ) -> None:
        """Send a heartbeat: renews the leases of all held attempts, and reports load and CPU
        cap."""
        self._orders.send(wire.Heartbeat(holding, is_capped, load))
        self._renewed_ms = self._now_ms

    # --- programs

    def found(self, event: ProgramsFound) -> None:
        """The programs were scanned; announce changes."""
        before = self._found.names if self._found is not None else frozenset()
        is_new = self._found != event
        self._found = event
        if is_new:
            self._announce(before)

    def _announce(self, before: frozenset[str]) -> None:
        """Announce the changes since `before`; if there are too many names, `is_any`."""
        found = self._found
        if found is None or not self.returns_are_free or self.state is not OPEN:
            return
        if len(found.names) > PROGRAMS_MAX:
            self._orders.send(
                wire.Announce(is_any=True, ships=found.ships, layers=self._setup.layers)
            )
            return
        if len(before) > PROGRAMS_MAX:
            before = frozenset()
        added, removed = sorted(found.names - before), sorted(before - found.names)
        self._orders.send(
            wire.Announce(
                tuple(added), tuple(removed), ships=found.ships, layers=self._setup.layers
            )
        )
