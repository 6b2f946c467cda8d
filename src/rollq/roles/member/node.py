"""The member process: the driver with a disk, a persist thread, sockets and a clock around it.

Everything runs on one loop. A turn of the driver starts when there is input and no disk work under
way. Disk work with an fsync runs on the persist thread; inputs that arrive meanwhile wait for the
next turn, so one fsync serves all inputs that arrived during the last one. Where the disk is faster
than the hand-over to a thread, the loop does small writes itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import secrets
import time
from functools import partial
from pathlib import Path

from rollq.base.access import LinkRole, Principal
from rollq.base.errors import DiskError, ErrorCode, LocalError, RollqError
from rollq.base.ids import WorkerId
from rollq.base.limits import STOP_MS_MAX, TURNS_MS_MAX
from rollq.base.log_events import HANDS_OVER, tell
from rollq.gossip.node import GossipNode
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.net.listener import Listener
from rollq.raft.types import Role
from rollq.roles.door import Door
from rollq.roles.login import LoginSetup
from rollq.roles.member.blobs.blob_work import BlobWork
from rollq.roles.member.blobs.member import MemberBlobs
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.disk_meter import DiskMeter
from rollq.roles.member.driver import Driver
from rollq.roles.member.early_links import EarlyLinks
from rollq.roles.member.federation import start_gossip
from rollq.roles.member.guard.given import GivenBlobs
from rollq.roles.member.guard.guard import AccountGuard
from rollq.roles.member.guard.of_member import guard_of
from rollq.roles.member.membership import is_current
from rollq.roles.member.node_log import NodeLog
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
from rollq.roles.member.peer_links import IncomingPeers, PeerLinks
from rollq.roles.member.readers.server import ReaderServer
from rollq.roles.member.session_links import SessionLinks
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.shell_figures import shell_families
from rollq.roles.member.snapshot_runner import SnapshotRunner, trim_memory
from rollq.roles.member.status_log import StatusLog
from rollq.roles.member.tables.exports import remove_exports
from rollq.roles.member.timers import Ticker, WakeTimer
from rollq.roles.member.work import Work
from rollq.roles.persist import PersistThread
from rollq.roles.service import SystemClock, SystemJitter
from rollq.security.mode import Mode
from rollq.security.tls import tls_files
from rollq.store.real_disk import RealDisk
from rollq.wire.compact import Message
from rollq.wire.login_messages import NONCE_BYTES
from rollq.wire.messages import LeaderHello

log = logging.getLogger("rollq.member")


class MemberNode:
    """One running member. `start` returns once it listens; `wait` once it stopped or failed."""

    def __init__(
        self,
        setup: MemberSetup,
        host: str,
        port: int,
        state_dir: Path,
        limits: LinkLimits = DEFAULT_LIMITS,
    ) -> None:
        self.setup = setup
        self.port = port
        self.failure: RollqError | None = None
        self._host = host
        self._state_dir = state_dir
        self._disk: RealDisk | None = None
        self._driver: Driver | None = None
        self._gossip: GossipNode | None = None
        self._listener = Listener(
            setup.group,
            self._messages,
            self._link_closed,
            limits=limits,
            knows_worker=self._knows_worker,
            credentials=setup.credentials,
            tls=setup.tls,
        )
        self._peers = PeerLinks(
            setup.group,
            self._hello,
            keys=lambda: self.driver.roll.keys,
            credentials=setup.credentials,
            tls=setup.tls,
            features=lambda address: self.driver.roll.features_at.get(address, ()),
        )
        self._persist = PersistThread("persist")
        self._door: Door | None = None  # set once the member serves
        self._early = EarlyLinks()  # used until then
        self._status_log = StatusLog()
        self._log = NodeLog()
        self._rules_version = 0
        self._turn_due = False
        self._working = False
        self._ticker = Ticker(setup.tick_ms, self._tick)
        self._wake_timer = WakeTimer(self._wake)
        self._shutting_down: asyncio.Task[None] | None = None  # held, or it might be collected
        self._live_due = False
        self._stopping = False
        self._stopped = asyncio.Event()
        self._deposed = asyncio.Event()

    @property
    def driver(self) -> Driver:
        """The running driver."""
        assert self._driver is not None, "not started"
        return self._driver

    async def start(self) -> None:
        """Recover from disk and serve. Raises RollqError if it cannot."""
        if self._driver is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._disk = RealDisk(self._state_dir)
        try:
            self.port = await self._listener.start(self._host, self.port)
            driver, blobs = await self._loop.run_in_executor(self._persist, self._recover)
            self._gossip = await start_gossip(self.setup, driver, self._host, self.port)
        except RollqError:
            await self._listener.stop("cannot start")
            self._disk.close()
            self._persist.shutdown()
            raise
        self._disk_meter = DiskMeter(
            self._state_dir, lambda: blobs.bytes_stored, reports=driver.reports
        )
        await self._disk_meter.start()
        blobs.start()
        self._sessions = SessionLinks(driver, self._wake, self._wake_live)
        shell = driver.leader_state.shell
        shell.has_room, shell.blobs = self._sessions.has_room, blobs.knowledge
        shell.account_of = self._sessions.account_of
        shell.logs_jobs = log.isEnabledFor(logging.DEBUG)
        shell.has_admin_certificates = self.setup.tls is not Mode.OFF
        self._readers = ReaderServer(driver, self._disk, self.setup, self._state_dir, self._wake)
        self._incoming = IncomingPeers(driver, self._wake)
        self._driver, self._blobs = driver, blobs
        self._door = Door(
            {
                LinkRole.CLIENT: self._sessions,
                LinkRole.WORKER: self._sessions,
                LinkRole.MEMBER: self._incoming,
                LinkRole.BLOBS: blobs.server,
                LinkRole.READER: self._readers,
            },
            LoginSetup(
                self.setup.auth,
                self.setup.group,
                accounts=lambda: driver.state.access.accounts,
                now_ms=driver.time.now_ms,
                draw_nonce=lambda: secrets.token_bytes(NONCE_BYTES),
                tls=self.setup.tls,
                is_current=lambda: is_current(driver.raft, driver.state.applied_index),
                legacy=self.setup.legacy,
                address=self.setup.address,
                cluster_keys=lambda: driver.roll.keys.held,
            ),
            None if self.setup.auth is Mode.OFF else self._guard(driver, blobs),
        )
        self._door.held = self._sessions.held
        driver.counters.shell = partial(
            shell_families, self._door, self._listener, blobs, self._gossip
        )
        self._blob_work = BlobWork(driver, blobs, self._wake)
        self._snapshots = SnapshotRunner(driver, self._disk, self._persist, self._snapshot_over)
        self._early.hand_over()
        self._ticker.start()
        listen = f"{self._host}:{self.port}"
        self._log.started(self.setup, driver, listen, str(self._state_dir))

    async def wait(self) -> None:
        """Wait until the member has stopped, by itself or by `stop`."""
        await self._stopped.wait()

    async def stop(self) -> None:
        """Transfer leadership away, finish pending writes, and close."""
        if self._driver is None:
            return
        if not self._stopping and self.failure is None:
            await self._hand_over()
        await self._shut("the member stops")

    # --- inputs

    def _guard(self, driver: Driver, blobs: MemberBlobs) -> AccountGuard:
        """The permission checks for links of accounts."""
        given = GivenBlobs(self.setup.blobs.lease_ms, blobs.now_ms)
        blobs.server.on_proved = lambda account, digest: given.add(digest, account)
        table_of, on_refused = self._readers.table_of, self._refused
        return guard_of(driver, given, SystemJitter(), table_of=table_of, on_refused=on_refused)

    def _refused(self, principal: Principal, action: str, resource: str) -> None:
        """An account was refused. The leader adds its own refusals to the history of the group;
        those of other members are only in their logs."""
        if self.driver.leading:
            who = principal.account or principal.name
            self.driver.leader_state.refusals.add(who, action, resource, principal.address)
            self._wake()
        self._log.refused(principal, action, resource)

    def _knows_worker(self, worker_id: WorkerId) -> bool:
        """Whether this worker is registered in the group, and not lost."""
        return self._driver is not None and worker_id in self._driver.state.workers

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if self._stopping:
            link.close("the member stops")
        elif self._door is None:
            self._early.add(link, messages)
        else:
            self._door.messages(link, messages)

    def _link_closed(self, link: Link, reason: str) -> None:
        if self._door is None:
            self._early.closed(link)
        else:
            self._door.closed(link, reason)

    def _tick(self, late_s: float) -> None:
        try:
            self.driver.tick()
        except Exception as error:
            self._fail(error)
            return
        self.driver.counters.tick_late_us.add(max(0, int(late_s * 1_000_000)))
        self._log.ticked(late_s)
        self._wake()

    # --- the loop of turns

    def _wake(self) -> None:
        if not self._turn_due and not self._working:
            self._turn_due = True
            self._loop.call_soon(self._turn)
        elif self._working:
            self._wake_live()

    def _wake_live(self) -> None:
        """Schedule the sending of published messages, which waits for no turn and no disk write."""
        if not self._turn_due and not self._live_due:
            self._live_due = True
            self._loop.call_soon(self._send_live)

    def _send_live(self) -> None:
        self._live_due = False
        if not self._stopping:
            self._deliver() if self._working else self._send()

    def _deliver(self) -> None:
        batches = self.driver.leader_state.publishing.take()
        if batches:
            self._sessions.deliver(batches)

    def _turn(self) -> None:
        """Run turns until there is nothing to do, one needs the disk, or other callbacks of the
        loop (heartbeats, votes) have waited for TURNS_MS_MAX."""
        self._turn_due = False
        if self._working or self._stopping:
            return
        driver = self.driver
        yield_at = time.monotonic() + TURNS_MS_MAX / 1000
        try:
            while (work := driver.begin()) is not None:
                self._send()
                if not work.needs_sync:
                    work.run()
                elif self._persist.may_stay() and work.is_light:
                    self._write(work)
                else:
                    self._working = True
                    self._persist.post(partial(self._run, work))
                    driver.meanwhile(work)
                    self._send()
                    return
                driver.finish(work)
                self._send()  # before the next turn: a receiver must not wait for it
                if time.monotonic() > yield_at:
                    self._wake()
                    break
            self._send()
            self._snapshots.maybe_begin()
            self._blobs.follow()
        except Exception as error:
            self._fail(error)
            return
        self._follow_rules(driver)
        self._status_log.log_changes(driver.raft)
        self._status_log.log_roll(driver.roll, self.setup.peers, driver.raft.last_index)
        if driver.raft.role is not Role.LEADER:
            self._deposed.set()
        if driver.leading:
            self._wake_timer.set(driver.leader_state.wait_ms())
        self._sessions.maybe_resume()

    def _follow_rules(self, driver: Driver) -> None:
        """Check links again when rules changed or a login expired, and resume held ones."""
        if self._door is None or self.setup.auth is Mode.OFF:
            return
        version = driver.state.access.version
        expires_ms = self._door.expires_ms
        has_expired = expires_ms and expires_ms <= driver.time.now_ms()
        if has_expired or version != self._rules_version:
            self._rules_version = version
            self._door.judge_again()
        if not driver.is_about_to_lead:
            self._door.go_on()

    def _run(self, work: Work) -> None:
        """On the persist thread."""
        failure: Exception | None = None
        try:
            self._write(work)
        except Exception as error:
            failure = error
        self._loop.call_soon_threadsafe(self._work_over, work, failure)

    def _write(self, work: Work) -> None:
        began_s = time.perf_counter()
        counters = self.driver.counters
        try:
            work.run()
        except RollqError:
            counters.sync_failed += 1
            raise
        took_s = time.perf_counter() - began_s
        self._persist.synced(took_s)
        counters.sync_us.add(int(took_s * 1_000_000))
        self._log.wrote(took_s)

    def _work_over(self, work: Work, failure: Exception | None) -> None:
        self._working = False
        try:
            if failure is not None:
                raise failure
            self.driver.finish(work)
            self._send()
            self._snapshots.maybe_begin()
            self._blobs.follow()
            self._sessions.maybe_resume()
        except Exception as error:
            self._fail(error)
            return
        self._turn()

    def _snapshot_over(self, error: RollqError | None) -> None:
        if error is not None:
            self._fail(error)
        else:
            self._wake()

    def _send(self) -> None:
        """Send the outputs of a turn: one write for each receiver."""
        self._deliver()
        outputs = self.driver.take_outputs()
        if not outputs:
            return
        links: dict[Link, None] = {}
        for output in outputs:
            if isinstance(output, ToSession):
                link = self._sessions.get(output.session)
                if link is not None:
                    link.post_all(output.messages)
                    links[link] = None
            elif isinstance(output, ToPeer):
                self._peers.send(output.address, output.message)
            elif isinstance(output, CloseSession):
                link = self._sessions.get(output.session)
                if link is not None:
                    link.close(output.reason)
            elif isinstance(output, KeepBlobs | Complete):
                self._blob_work.begin(output)
            elif isinstance(output, ClosePeer):
                self._peers.cut(output.address, output.reason)
                self._incoming.silent(output.address, output.reason)
            elif isinstance(output, ProvePeer):
                self._peers.prove(output.address)
            elif isinstance(output, LogLine | Mishap):
                self._status_log.log_changes(self.driver.raft)  # log a change of the leader first
                self._log.output(output)
        for link in reversed(links):  # assignments and results, then answers to who brought them
            link.flush()
        self._peers.flush()

    # --- helpers

    def _recover(self) -> tuple[Driver, MemberBlobs]:
        assert self._disk is not None
        # Recovery makes no garbage, and its objects live long: frozen, they are never scanned by
        # the collector, which would stop the loop for as long as the state is large.
        gc.disable()
        try:
            remove_exports(self._state_dir)
            began_s = time.perf_counter()
            driver = Driver(
                *(self.setup, self._disk, SystemClock(), SystemJitter(), _no_crash),
                calendar=ZoneCalendar(),
            )
            self._log.recovered(driver, began_s)
            if self.setup.tls is not Mode.OFF:
                files = tls_files(self.setup.credentials)
                driver.reports.certificate_ends_ms = lambda: files.current.ends_ms
            return driver, MemberBlobs(self.setup, self._state_dir, driver)
        finally:
            gc.freeze()
            gc.enable()
            trim_memory()  # free what reading the snapshot and the log took

    def _hello(self, address: str) -> LeaderHello:
        return self.driver.hello(address)

    async def _hand_over(self) -> None:
        """Transfer leadership to the most advanced follower, so that no election is needed."""
        raft = self.driver.raft
        others = [voter for voter in raft.config.voters if voter.id != raft.member_id]
        if raft.role is not Role.LEADER or not others:
            return
        ahead = max(others, key=lambda voter: raft.progress[voter.id].match)
        tell(log, HANDS_OVER, to=ahead.address, term=raft.term)
        raft.transfer_leadership(ahead.id)
        self._deposed.clear()
        self._wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_MS_MAX / 1000):
                await self._deposed.wait()

    def _fail(self, error: Exception) -> None:
        """The disk failed or refuses to go on, or a bug interrupted a turn: stop and acknowledge
        nothing more. Everything acknowledged is on disk."""
        if self.failure is not None:
            return
        if isinstance(error, RollqError):
            self._log.failed(str(error))
            self.failure = error
        else:
            self._log.failed("the member loop failed", error)
            self.failure = LocalError(
                ErrorCode.BUG, f"the member loop failed: {error!r}", "report the log"
            )
        self._shutting_down = self._loop.create_task(self._shut(str(self.failure)))

    async def _shut(self, reason: str) -> None:
        if self._stopping:
            await self._stopped.wait()
            return
        self._stopping = True
        self._log.stopping("told to" if self.failure is None else str(self.failure))
        self._incoming.stop()
        if self._gossip is not None:
            await self._gossip.stop()
        self._ticker.stop()
        self._wake_timer.stop()
        self._snapshots.stop()
        await self._readers.stop()
        await self._disk_meter.stop()
        await self._blob_work.stop()
        await self._blobs.stop()
        await self._peers.stop(reason)
        await self._listener.stop(reason)
        await self._loop.run_in_executor(self._persist, self._close_disk)
        self._persist.shutdown()
        self._log.stopped()
        self._stopped.set()

    def _close_disk(self) -> None:
        if self._driver is not None and self.failure is None:
            try:
                self._driver.close()
            except DiskError as error:
                self._log.failed(f"closing the log: {error}")
        if self._disk is not None:
            self._disk.close()


def _no_crash(_point: str) -> None:
    """A crash point outside the simulator: does nothing."""
