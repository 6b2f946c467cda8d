"""The worker's session with one member at a time. Pure.

It dials, says hello, follows redirects, leaves a member that falls silent, renews leases, and tells
the leader which programs are here. What the attempts are is not its concern: it is handed them.
"""

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
# What a worker offers.
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
    """Who this worker is. `incarnation` is larger at each start of the process."""

    worker_id: WorkerId
    addresses: tuple[str, ...]
    patterns: tuple[str, ...]
    name: str = ""
    incarnation: int = 1
    slots: int = 1  # how many run at once
    features: tuple[str, ...] = ()
    ahead: int = 0  # how many more may be prefetched, so that a slot need not wait for the next
    blob_address: str = ""  # where other workers may fetch blobs
    # Functions that run in the shell's loop, one after the other unless they wait: their calls
    # stand in line for one slot.
    calls: frozenset[str] = frozenset()
    layers: tuple[str, ...] = ()  # of the sandbox that jobs run in
    labels: tuple[str, ...] = ()
    resources: Amounts = ()  # its capacity


class LinkState(enum.IntEnum):
    """Where the session with a member stands."""

    DOWN = 0
    GREETING = 1
    OPEN = 2
    LEFT = 3  # drained or stopped; nothing follows


DOWN: Final = LinkState.DOWN
OPEN: Final = LinkState.OPEN


class LeaderSession:
    """The connection, and what the member at its other end knows.

    Attributes:
        state: Where it stands. Only an OPEN session carries credit and reports.
        is_legacy: The member speaks the legacy protocol: it answers no hello, and takes results
            without saying so. Meaningful while the state is not DOWN.
        takes_runs: The leader takes acks in runs. As the last Welcome had it.
        returns_are_free: The leader counts no attempt for what is given back unstarted, and knows
            Announce; older ones do neither. As the last Welcome had it.
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
        # A worker's hello is answered once it went through the log.
        self._silence = Silence(GREETING_MS_MAX, SILENCE_MS_MAX)
        self._offers = Offers()
        self._refusals = Refusals()
        self._was_heard = False  # in this session
        self._counted = False  # the hello of this session counts what is held, and names none
        # Members that hung up on such a hello: the next one to them names all, and if they hang up
        # on that the one after counts again. Few addresses are known.
        self._whole_hello_at: set[str] = set()
        self._ping_ms = 0  # of this session; 0: its member does not answer pings
        self._knows_returns = False  # the member of this session reads a Goodbye with `returns`
        self._now_ms = 0  # of the last tick
        self._renewed_ms = 0  # when leases were renewed last
        self._found: ProgramsFound | None = None  # None until the shell has looked
        self.state = DOWN
        self.is_legacy = False
        self.returns_are_free = False
        self.takes_runs = self._takes_publishes = False

    @property
    def is_patient(self) -> bool:
        """Whether the silence of a member is borne for longer than at first."""
        return self._silence.is_patient

    # --- opening

    def dial(self) -> None:
        """Look for the leader."""
        self._orders.give(Connect(self._redial.address, 0))

    def greet(self, holding: tuple[AttemptRef, ...]) -> None:
        """The connection is open: say who we are and what we hold."""
        setup = self._setup
        self._counted = False
        self._ping_ms = 0
        self._knows_returns = False
        self._silence.opened(self._now_ms, self._redial.address)
        self.is_legacy = self._offers.is_plain(self._redial.address)
        self._was_heard = False
        if self.is_legacy:  # it answers no hello, and reads the first pattern alone
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
                plain=self._counted,  # a member that does not know the count hangs up
                holding_count=len(holding) if self._counted else 0,
                labels=setup.labels,
                resources=setup.resources,
            )
        self._orders.send(hello)
        if self._counted:
            for at in range(0, len(holding), HOLDINGS_PER_MESSAGE_MAX):
                self._orders.send(wire.Holdings(holding[at : at + HOLDINGS_PER_MESSAGE_MAX]))

    def welcomed(self, message: wire.Welcome) -> None:
        """The leader took us in."""
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
        """Hand a message to whoever listens. Without a leader that takes it, it is lost."""
        if self.state is OPEN and self._takes_publishes:
            self._orders.send(message)

    def heard(self, messages: Sequence[wire.MemberMessage]) -> None:
        """Messages came."""
        for message in messages if self.state is LinkState.GREETING else ():
            if type(message) is wire.Error:
                if is_refusal(message):
                    self._refusals.noted(message)
                else:
                    self._refusals.over()
        # An error is what a member of ours answers to a legacy hello; a legacy leader sends none.
        self._was_heard |= any(type(message) is not wire.Error for message in messages)
        self._silence.heard(self._now_ms, is_answer=self.state is OPEN)

    # --- its end

    def lost(self, refusal: wire.Error | None = None) -> None:
        """The connection broke, or we are not let in: dial again."""
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
        """Another member leads."""
        self._refusals.over()
        self.state = DOWN
        self._orders.give(Disconnect())
        self._orders.give(Connect(*self._redial.redirected(message.leader, message.members)))

    def leave(self, why: str) -> None:
        """Say goodbye and hang up, for good."""
        if self.state is OPEN:
            self._orders.send(wire.Goodbye(why))
        if self.state is not DOWN:
            self._orders.give(Disconnect())
        self.state = LinkState.LEFT

    # --- time

    def tick(self, now_ms: int) -> None:
        """Time passes."""
        self._now_ms = now_ms
        if self.state is not DOWN:
            self._maybe_leave_member()

    def _maybe_leave_member(self) -> None:
        """Ping a member that says nothing, or leave it for the next."""
        is_greeting = self.state is LinkState.GREETING
        verdict = self._silence.judge(self._now_ms, is_greeting=is_greeting, ping_ms=self._ping_ms)
        if verdict is Verdict.PING:
            self._orders.send(wire.Ping())
        elif verdict is Verdict.HANG_UP:
            if is_greeting:
                self._offers.unanswered(self._redial.address)
            elif self._knows_returns:
                # Perhaps only the way to us is broken: else our hang-up looks like our death.
                self._orders.send(wire.Goodbye("the member is silent", returns=True))
            self.state = DOWN
            self._orders.give(Disconnect(stuck=True))
            self._orders.give(Connect(*self._redial.silent()))

    def is_renewal_due(self, lease_ms: Iterable[int]) -> bool:
        """Whether a third of the shortest of these leases is over; without any, an idle worker
        still shows that it is there."""
        if self.state is not OPEN or self.is_legacy:
            return False
        shortest_ms = min(lease_ms, default=3 * IDLE_HEARTBEAT_MS)
        return self._now_ms - self._renewed_ms >= shortest_ms // 3

    def renew(
        self, holding: tuple[AttemptRef, ...], *, is_capped: bool, load: WorkerLoad | None
    ) -> None:
        """Renew the leases of all that is held, and tell how busy the computer is, and whether the
        CPU cap holds jobs back."""
        self._orders.send(wire.Heartbeat(holding, is_capped, load))
        self._renewed_ms = self._now_ms

    # --- programs

    def found(self, event: ProgramsFound) -> None:
        """Programs came or went; the leader is told of changes."""
        before = self._found.names if self._found is not None else frozenset()
        is_new = self._found != event
        self._found = event
        if is_new:
            self._announce(before)

    def _announce(self, before: frozenset[str]) -> None:
        """Tell what changed since `before`. Too many names are not told: `is_any`."""
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
