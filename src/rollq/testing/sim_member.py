"""A member in the simulator: the production `Driver` on a virtual disk, clock and network.

This is the shell of the member's loop: it ticks, passes inputs, simulates disk latency, and sends
the outputs. Faults act here: crashes at a named point or a disk operation, suspension, halts by
disk errors, and the operator who restarts the member.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollq.base.digests import Digest
from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import MemberId
from rollq.base.jobs import BlobRef
from rollq.grid.effects import Applied
from rollq.raft.types import Entry
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.driver import Driver
from rollq.roles.member.inlining import completed
from rollq.roles.member.leader.publishing import FanOut
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
from rollq.roles.member.rollcall import JoinPhase
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.snapshot_order import SnapshotOrder
from rollq.roles.member.work import Work
from rollq.testing.checkers.base import Checker
from rollq.testing.clock import MS, VirtualClock, VirtualTimeline
from rollq.testing.disk import DiskImage, VirtualDisk
from rollq.testing.faults import SimulatedCrash
from rollq.testing.jitter import SeededJitter, Streams
from rollq.testing.network import Network
from rollq.testing.sim_files import GroupFiles
from rollq.testing.trace import Trace
from rollq.wire.frame import FrameDecoder
from rollq.wire.message_codec import Dialect, decode_message
from rollq.wire.shared_frames import SharedForm, SharedFrames

PUBLISH_STEP_MS = 3
ONE_BY_ONE = SharedForm(has_batch=False)
HOOKS = ("on_start", "on_turn", "on_write", "on_send", "on_receive", "on_apply", "on_worker_event")
SNAPSHOT_MS_MAX = 400  # from the start of a snapshot to its last byte


@dataclass(slots=True)
class World:
    """Shared by all nodes of a run."""

    timeline: VirtualTimeline
    network: Network
    streams: Streams
    trace: Trace
    checkers: Sequence[Checker]
    count: Callable[[str], None]  # a fault of this kind struck
    kept: dict[Digest, bytes] = field(default_factory=dict)  # blobs of large bodies and results
    files: GroupFiles = field(default_factory=GroupFiles)  # blobs that jobs and results refer to
    is_from_before: bool = False  # the group starts without a cluster key, and gets one later
    # Hooks of the checkers that implement them; most checkers implement few.
    on_start: list[Callable[..., None]] = field(init=False)
    on_turn: list[Callable[..., None]] = field(init=False)
    on_write: list[Callable[..., None]] = field(init=False)
    on_send: list[Callable[..., None]] = field(init=False)
    on_receive: list[Callable[..., None]] = field(init=False)
    on_apply: list[Callable[..., None]] = field(init=False)
    on_worker_event: list[Callable[..., None]] = field(init=False)

    def __post_init__(self) -> None:
        for hook in HOOKS:
            setattr(self, hook, self._implemented(hook))

    def _implemented(self, hook: str) -> list[Callable[..., None]]:
        default = getattr(Checker, hook)
        return [getattr(c, hook) for c in self.checkers if getattr(type(c), hook) is not default]


class SimMember:
    """One member: its process, if it runs, its disk and its clock."""

    def __init__(self, world: World, setup: MemberSetup, number: int) -> None:
        self.world = world
        self.setup = setup
        self.address = setup.address
        self.number = number
        self.name = f"m{number}"
        self.disk = VirtualDisk()
        self.clock = VirtualClock(world.timeline)
        self.driver: Driver | None = None
        self.life = 0
        self.disk_ms_max = 2
        self.halted = ""  # the error that stopped the process; empty: none
        self.stale = False  # its disk is an older copy: the operator must empty it
        self.damaged = False  # its disk lost acknowledged data; see `nemesis`
        self.past_id = 0  # the member id on a restored older copy of its disk
        self.rotten_life = -1  # the life in which a bit of its disk was flipped
        self.rotten_history = ("", b"")  # the last corrupted history file, with its content
        self.scrubbed_life = -1
        self.doomed = False  # removed from the group: the operator will empty its disk
        self.images: list[tuple[DiskImage, int]] = []  # with the life in which each was taken
        self.present_life = 0  # the last life that took part in consensus
        self.armed_point = ""
        self.points_seen: dict[str, int] = {}
        self._paused = False
        self._alarm_us = 0  # the next wake-up between ticks; 0: none
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._busy = False
        self._jitter = SeededJitter("")

    # --- as seen by the network

    @property
    def reachable(self) -> bool:
        """Whether the process is up; a suspended one is."""
        return self.driver is not None

    @property
    def term(self) -> int:
        """The current term; 0 while it is down."""
        return self.driver.raft.term if self.driver is not None else 0

    @property
    def boot(self) -> int:
        """The boot number that it has announced."""
        return self.driver.roll.boot if self.driver is not None else 0

    def boot_noted(self, member_id: MemberId) -> int:
        """The newest boot number of another member that this one has recorded; 0: none."""
        if self.driver is None:
            return 0
        return self.driver._peers._boots_known.get(member_id, 0)

    @property
    def key(self) -> bytes:
        """The cluster key proven by its links; empty: none."""
        return (*self.driver.roll.keys.held, b"")[0] if self.driver is not None else b""

    def receive_peer(self, sender: str, message: Any, boot: int, key: bytes) -> None:
        """A message of another member, over a link with a proven key."""
        self._input(self._peer_message, sender, message, boot, key)

    def receive_session(self, session: int, message: Any) -> None:
        """A message of a session."""
        self._input(self._session_message, session, message)

    def session_gone(self, session: int) -> None:
        """A session was closed."""
        self._input(self._session_closed, session)

    def link_broke(self, address: str) -> None:
        """The connection to another member broke."""
        self._input(self._peer_lost, address)

    # --- lifecycle

    def start(self) -> None:
        """Start the process and recover from the disk."""
        if self.driver is not None:
            return
        self.life += 1
        self.halted = ""
        self._busy = self._paused = False
        self._backlog.clear()
        self._jitter = self.world.streams.named(f"{self.name}/{self.life}")
        self.world.trace.note(self.name, "start", self.life)
        try:
            driver = Driver(
                *(self.setup, self.disk, self.clock, self._jitter, self._crash_point),
                calendar=ZoneCalendar(),
            )
        except SimulatedCrash:
            self.crash("during recovery", power=True)
            return
        except DiskError as error:
            self._halt(error)
            return
        self._watch_applies(driver)
        driver.leader_state.shell.blobs = self.world.files
        if self.world.is_from_before:
            driver.roll.keys.share = b""
        self.driver = driver
        self.images = [*self.images[-3:], (self.disk.snapshot(), self.life)]
        for check in self.world.on_start:
            check(self, driver)
        first_us = self._jitter.draw(1, self.setup.tick_ms * MS)
        self.world.timeline.after(first_us, self._tick, self.life)

    def crash(self, why: str, *, power: bool) -> None:
        """Crash the process; with `power` unsynced data is lost as well."""
        self.world.trace.note(self.name, "crash", why, "power cut" if power else "kill")
        self._stop()
        if power:
            self.disk.crash(self.world.streams.crash)
        else:
            self.disk.kill()

    def replace_disk(self) -> None:
        """The operator replaces the disk by an empty one."""
        self.world.trace.note(self.name, "empty disk")
        self._stop()
        self.disk = VirtualDisk()
        self.images.clear()
        self.stale = self.doomed = False

    def pause(self) -> None:
        """Suspend the process: it misses ticks, and messages queue up."""
        self._paused = True
        self.world.trace.note(self.name, "pause")

    def resume(self, life: int) -> None:
        """Resume the process; all queued messages arrive at once."""
        if self.life != life or not self._paused:
            return
        self._paused = False
        self.world.trace.note(self.name, "resume")
        backlog, self._backlog = self._backlog, []
        for action, arguments in backlog:
            if self.driver is not None:
                self._input(action, *arguments)

    def _stop(self) -> None:
        alive = self.driver is not None
        self.driver = None
        self.life += 1
        self._busy = self._paused = False
        self._backlog.clear()
        self.armed_point = ""
        if alive:
            self.world.network.member_died(self)

    def _halt(self, error: DiskError) -> None:
        """The product stops itself."""
        self.world.trace.note(self.name, "halt", str(error))
        self.world.count(f"halt_{error.code.name.lower()}")
        self._stop()
        self.disk.kill()
        self.halted = str(error)
        if error.code is ErrorCode.WRONG_IDENTITY:
            self.stale = True

    def _crash_point(self, name: str) -> None:
        self.points_seen[name] = self.points_seen.get(name, 0) + 1
        if name == self.armed_point:
            self.armed_point = ""
            self.world.count(f"crash_at_{name}")
            raise SimulatedCrash

    # --- the loop

    def _tick(self, life: int) -> None:
        if self.life != life or self.driver is None:
            return
        self.world.timeline.after(self.setup.tick_ms * MS, self._tick, life)
        if not self._paused:  # a suspended process misses its ticks
            self._input(self._driver_tick)

    def _input(self, action: Callable[..., None], *arguments: Any) -> None:
        if self._paused:
            self._backlog.append((action, arguments))
            return
        driver = self.driver
        if driver is None:
            return
        try:
            action(driver, *arguments)
            if not self._busy:
                self._begin(driver)  # unless the action stopped it
        except SimulatedCrash:
            self.crash("at a crash point", power=True)
        except DiskError as error:
            self._halt(error)

    def _begin(self, driver: Driver) -> None:
        while not self._busy and self.driver is driver:
            work = driver.begin()
            if work is not None:
                for check in self.world.on_write:
                    check(self, driver, work)
            self._flush(driver)
            if work is not None:
                driver.meanwhile(work)
                self._flush(driver)
            self._maybe_snapshot(driver)
            if work is None:
                self._set_alarm(driver)
                return
            self._busy = True
            delay_us = self.world.streams.disk.draw(100, self.disk_ms_max * MS)
            self.world.timeline.after(delay_us, self._run, self.life, driver, work)

    def _set_alarm(self, driver: Driver) -> None:
        """As `roles.member.timers`: a rate may let a job start before the next tick."""
        wait_ms = driver.leader_state.wait_ms() if driver.leading else None
        if wait_ms is None:
            return
        now_us = self.world.timeline.now_us
        at_us = now_us + wait_ms * MS
        if not now_us < self._alarm_us <= at_us:
            self._alarm_us = at_us
            self.world.timeline.after(wait_ms * MS, self._ring, self.life)

    def _ring(self, life: int) -> None:
        if self.life == life:
            self._input(_nothing)

    def _run(self, life: int, driver: Driver, work: Work) -> None:
        if self.life != life:
            return
        if self._paused:
            self._backlog.append((self._late_run, (life, work)))
            return
        try:
            work.run()
            driver.finish(work)
            self._flush(driver)
            if driver.roll.phase is JoinPhase.PRESENT:
                self.present_life = self.life
            for check in self.world.on_turn:
                check(self, driver)
            self._busy = False
            self._begin(driver)
        except SimulatedCrash:
            self.crash("at a crash point", power=True)
        except DiskError as error:
            self._halt(error)

    def _maybe_snapshot(self, driver: Driver) -> None:
        """A child process would write it from the memory of this moment; it ends much later."""
        order = driver.begin_snapshot()
        if order is None:
            return
        chance = self.world.streams.disk
        steps: Iterator[None] = iter(())
        if chance.draw(0, 16) == 0:  # the child is killed
            self.world.count("snapshot_child_killed")
        else:
            steps = order.steps(order.write())
        delay_us = chance.draw(100, SNAPSHOT_MS_MAX * MS)
        self.world.timeline.after(delay_us, self._publish, self.life, driver, order, steps)

    def _publish(
        self, life: int, driver: Driver, order: SnapshotOrder, steps: Iterator[None]
    ) -> None:
        """Run one step; turns continue between the steps."""
        if self.life != life:
            return
        if self._paused:
            self._backlog.append((self._late_publish, (life, order, steps)))
            return
        try:
            if next(steps, steps) is not steps:
                self.world.timeline.after(
                    PUBLISH_STEP_MS * MS, self._publish, life, driver, order, steps
                )
                return
            driver.finish_snapshot(order)
            for check in self.world.on_turn:
                check(self, driver)
        except SimulatedCrash:
            self.crash("at a crash point", power=True)
        except DiskError as error:
            self._halt(error)

    def _late_publish(
        self, driver: Driver, life: int, order: SnapshotOrder, steps: Iterator[None]
    ) -> None:
        self._publish(life, driver, order, steps)

    def _late_run(self, driver: Driver, life: int, work: Work) -> None:
        self._run(life, driver, work)

    def _flush(self, driver: Driver) -> None:
        network = self.world.network
        for output in driver.take_outputs():
            for check in self.world.on_send:
                check(self, driver, output)
            if isinstance(output, ToPeer):
                network.send(self, output.address, output.message)
            elif isinstance(output, ToSession):
                for message in output.messages:
                    network.to_endpoint(output.session, message)
            elif isinstance(output, CloseSession):
                network.close_by_member(output.session)
            elif isinstance(output, ClosePeer):
                self.world.trace.note(self.name, "close peer", output)
                network.close_peer(self, output.address)
            elif isinstance(output, ProvePeer):
                pass  # messages carry the sender's key here
            elif isinstance(output, Mishap):
                raise output.error  # production continues after it; a test must not hide it
            elif isinstance(output, LogLine):
                self.world.trace.note(self.name, output.event.word, output.fields)
            else:
                delay_us = self.world.streams.disk.draw(100, self.disk_ms_max * MS)
                self.world.timeline.after(delay_us, self._aside, self.life, output)
        for batch in driver.leader_state.publishing.take():
            self._deliver(batch)

    def _deliver(self, batch: FanOut) -> None:
        """Encode once for all receivers."""
        decoder = FrameDecoder()
        decoder.feed(SharedFrames(batch.messages).encoded(ONE_BY_ONE))
        for frame in decoder.frames():
            message = decode_message(frame, Dialect.COMPACT)
            for number in batch.receivers:
                self.world.network.to_endpoint(number, message)

    def _aside(self, life: int, order: KeepBlobs | Complete) -> None:
        """Blobs in the simulator are stored at all members at once, and never lost."""
        if self.life == life:
            self._input(self._do_aside, order)

    def _do_aside(self, driver: Driver, order: KeepBlobs | Complete) -> None:
        kept = self.world.kept
        if isinstance(order, Complete):
            whole = completed(order.message, self._read_kept, knows_blobs=order.knows_blobs)
            driver.completed(order.ticket, whole)
            return
        refs = [BlobRef(hashlib.sha256(part).digest(), len(part)) for part in order.parts]
        kept.update(zip([ref.digest for ref in refs], order.parts, strict=True))
        self.world.count("large_body_kept")
        driver.kept(order.ticket, refs)

    def _read_kept(self, ref: BlobRef) -> bytes:
        return self.world.kept[ref.digest]

    # --- inputs of the driver, as plain functions so that they can be queued while suspended

    def _driver_tick(self, driver: Driver) -> None:
        driver.tick()

    def _peer_message(
        self, driver: Driver, sender: str, message: Any, boot: int, key: bytes
    ) -> None:
        is_proven = key in driver.roll.keys.held
        reason = driver.peer_message(sender, message, boot, is_proven=is_proven)
        if reason:
            self.world.trace.note(self.name, "closes the link of", sender, reason)

    def _session_message(self, driver: Driver, session: int, message: Any) -> None:
        for check in self.world.on_receive:
            check(self, session, message)
        driver.session_message(session, message)

    def _session_closed(self, driver: Driver, session: int) -> None:
        driver.session_closed(session)

    def _peer_lost(self, driver: Driver, address: str) -> None:
        driver.peer_lost(address)

    def _watch_applies(self, driver: Driver) -> None:
        """Call the checkers for every entry that is applied."""
        apply = driver.replica.apply
        checks = self.world.on_apply

        def watched(entry: Entry) -> Applied:
            applied = apply(entry)
            for check in checks:
                check(self, entry, applied, driver.replica.state)
            return applied

        driver.replica.apply = watched  # type: ignore[method-assign]


def _nothing(driver: Driver) -> None:
    """A turn without an input."""
