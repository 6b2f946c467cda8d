"""A whole cluster in one thread, from one seed: members, workers, clients, faults, checkers.

Three phases. Chaos: faults are injected, and safety is checked at every step. Heal: faults stop and
all processes are restarted; the cluster must converge within a bounded virtual time. Silence: the
leader stops responding; results must come within a bound, and it must rejoin. Then a worker
receives nothing for a while, and must keep its running attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rollq.raft.types import Role
from rollq.roles.member.setup import MemberSetup
from rollq.testing.applications import QUEUES, Application
from rollq.testing.checkers.attempts import Starts
from rollq.testing.checkers.base import Checker, Violation
from rollq.testing.checkers.confirmations import Confirmations
from rollq.testing.checkers.consensus import OneLeader, Promises
from rollq.testing.checkers.drains import Drains
from rollq.testing.checkers.flows import Flows
from rollq.testing.checkers.keys import OneKey
from rollq.testing.checkers.limits import LimitsKept
from rollq.testing.checkers.needs import Needs
from rollq.testing.checkers.references import References
from rollq.testing.checkers.replicas import EqualHistory, EqualState
from rollq.testing.checkers.schedules import SchedulesKept
from rollq.testing.checkers.served import Served
from rollq.testing.checkers.sessions import ClientBook, Credits, Runs
from rollq.testing.checkers.times import Times
from rollq.testing.checkers.topics import TopicChecker
from rollq.testing.checkers.workers import WorkerRules
from rollq.testing.clock import MS, VirtualClock, VirtualTimeline
from rollq.testing.jitter import Streams
from rollq.testing.ledger import Ledger
from rollq.testing.nemesis import Nemesis, is_present
from rollq.testing.network import GROUP, Network
from rollq.testing.silences import can_deafen_worker, deafen_worker, silence_leader
from rollq.testing.sim_client import SimClient
from rollq.testing.sim_member import SimMember, World
from rollq.testing.sim_schedules import SimSchedules
from rollq.testing.sim_topics import SimTopic
from rollq.testing.sim_worker import SimWorker
from rollq.testing.swarm import Swarm
from rollq.testing.trace import Trace
from rollq.testing.workload import OFFERS, TOOLS
from rollq.wire.messages import Admin

OPERATOR_EVERY_MS = 400
HEAL_STEP_MS = 500
FROM_BEFORE_PER_MILLE = 400  # share of runs whose group starts without a cluster key


@dataclass(slots=True)
class RunReport:
    """The figures of one run."""

    virtual_us: int = 0
    event_count: int = 0
    ended_count: int = 0
    accepted_count: int = 0
    result_count: int = 0
    read_count: int = 0
    entry_count: int = 0
    term_count: int = 0
    fired_count: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class SimCluster:
    """One run."""

    def __init__(self, seed: int, swarm: Swarm, *, live_trace: bool = False) -> None:
        self.swarm = swarm
        self.streams = Streams(seed)
        self.timeline = VirtualTimeline()
        self.trace = Trace(self.timeline, live=live_trace)
        self.network = Network(self.timeline, self.streams.net, self.trace)
        self.faults: Counter[str] = Counter()
        self.ledger = Ledger()
        self.one_leader = OneLeader(self.ledger)
        self.runs = Runs(self.ledger)
        self.book = ClientBook(self.ledger)
        self.topic_checker = TopicChecker()
        self.schedule_checker = SchedulesKept()
        self.checkers: list[Checker] = [
            self.ledger,
            self.one_leader,
            Promises(),
            EqualState(),
            OneKey(),
            Credits(),
            self.runs,
            Starts(self.runs),
            WorkerRules(),
            self.book.batches,
            self.book,
            References(self.ledger),
            Confirmations(self.ledger),
            Drains(),
            Flows(),
            LimitsKept(),
            Served(),
            Needs(),
            self.topic_checker,
            self.schedule_checker,
            Times(self.timeline, self._stalled_ms),
        ]
        if not swarm.retention.is_bounded:
            self.checkers.append(EqualHistory(self.ledger))
        self.world = World(
            self.timeline, self.network, self.streams, self.trace, self.checkers, self.count
        )
        self.world.is_from_before = self.streams.named("keys").chance(FROM_BEFORE_PER_MILLE)
        self._healing = False
        self._build()
        self.nemesis = Nemesis(self)

    def _stalled_ms(self) -> int:
        return sum(member.clock.stalled_ms for member in self.members)

    def _build(self) -> None:
        swarm = self.swarm
        addresses = tuple(f"m{number}:5000" for number in range(1, swarm.members + 1))
        self.members = [self._member(number, addresses) for number in range(1, swarm.members + 1)]
        self.by_address = {member.address: member for member in self.members}
        self.network.members.update(self.by_address)
        self.workers = [
            SimWorker(
                self.world,
                f"w{number}",
                addresses=addresses,
                patterns=(">",) if number == 1 else (QUEUES[number % 2], "gamma.>"),
                slots=swarm.slots,
                ahead=swarm.ahead,
                programs=frozenset(TOOLS if number == 1 else TOOLS[: number % 3]),
                calls=frozenset(TOOLS[: number % 3]),
                offer=OFFERS[0 if number == 1 else number % len(OFFERS)],
                on_start=self.runs.begins,
                on_tried=self.runs.tried,
            )
            for number in range(1, swarm.workers + 1)
        ]
        self.clients = {
            f"c{number}": SimClient(self.world, f"c{number}", addresses, swarm.cap, self.book)
            for number in range(1, swarm.clients + 1)
        }
        ids = [worker.worker_id for worker in self.workers]
        self.applications = [
            Application(client, self.timeline, self.streams.named(f"{name}/wants"), swarm, ids)
            for name, client in self.clients.items()
        ]

        for name in ("t1", "t2"):
            self.clients[name] = SimClient(self.world, name, addresses, 0, self.book)
        self.topic = SimTopic(
            self.clients["t1"],
            self.clients["t2"],
            self.timeline,
            self.streams.named("topic"),
            self.topic_checker,
        )
        self.schedules: SimSchedules | None = None
        if swarm.scheduled:
            operator = SimClient(self.world, "s1", addresses, 0, self.book)
            self.clients["s1"] = operator
            chance = self.streams.named("schedules")
            self.schedules = SimSchedules(
                operator, self.timeline, chance, swarm, self.schedule_checker
            )

    def _member(self, number: int, addresses: tuple[str, ...]) -> SimMember:
        swarm = self.swarm
        address = addresses[number - 1]
        setup = MemberSetup(
            address,
            tuple(other for other in addresses if other != address),
            GROUP,
            swarm.tick_ms,
            swarm.raft,
            snapshot_entries=swarm.snapshot_entries,
            segment_bytes=swarm.segment_bytes,
            retention=swarm.retention,
            hot_bytes_max=swarm.hot_bytes_max,
            large_bytes_min=swarm.large_bytes_min,
        )
        member = SimMember(self.world, setup, number)
        clock = self.streams.clock
        member.clock = VirtualClock(self.timeline, clock.draw(-500, 500), clock.draw(0, 1_000_000))
        return member

    def count(self, kind: str) -> None:
        """Count a fault."""
        self.faults[kind] += 1

    # --- the run

    def run(self) -> RunReport:
        """Run all phases. Raises Violation."""
        starts = [member.start for member in self.members]
        starts += [worker.start for worker in self.workers]
        starts += [client.start for client in self.clients.values()]
        for start in starts:
            self.timeline.after(self.streams.schedule.draw(0, 200) * MS, start)
        for application in self.applications:
            application.start()
        self.topic.start()
        if self.schedules is not None:
            self.schedules.start()
        self._ask_settings()
        self.timeline.after(OPERATOR_EVERY_MS * MS, self._operate)
        self.nemesis.start()
        self.timeline.run_until(self.swarm.chaos_ms * MS)
        self._heal()
        self._converge()
        if self.swarm.silent_ms_max:
            silence_leader(self)
            self._heal()
            self._converge()
            if can_deafen_worker(self):
                deafen_worker(self)
                self._heal()
                self._converge()
        if self.schedules is not None:
            self.schedules.end()
            self._converge()
        for checker in self.checkers:
            checker.on_finish(self.members)
        return self._report()

    def _ask_settings(self) -> None:
        self._settings_id = self.applications[0].admin(
            "settings", {"settings": self.swarm.settings}
        )

    def _operate(self) -> None:
        """The operator: restarts stopped members, and repeats unanswered commands."""
        self.timeline.after(OPERATOR_EVERY_MS * MS, self._operate)
        chance = self.streams.schedule
        for member in self.members:
            if member.driver is None and (self._healing or chance.chance(350)):
                if member.stale or (member.damaged and "400" in member.halted):
                    member.replace_disk()
                member.start()
        if self._settings_id not in self.applications[0].client.pending:
            applied = any(
                m.driver and m.driver.state.settings == self.swarm.settings for m in self.members
            )
            if not applied:
                self._ask_settings()
        if self._healing:
            self._scrub()
            for worker in self.workers:  # a drained worker has exited
                worker.start()
            for application in self.applications:
                holds = application.paused or application.drained
                if holds and not _asks_admin(application.client):
                    application.resume_all()

    def _scrub(self) -> None:
        """Read the whole history once, which detects rot that no read has met."""
        for member in self.members:
            if member.driver is not None and member.scrubbed_life != member.life:
                member.scrubbed_life = member.life
                member.driver.replica.history.segments.scrub()

    def _heal(self) -> None:
        self.trace.note("nemesis", "heal")
        self._healing = True
        self.nemesis.stop()
        self.network.heal()
        self.world.files.heal()
        for member in self.members:
            if member.doomed:
                member.replace_disk()
            member.disk.fail_next_sync = member.disk.fail_next_write = False
            member.disk.bytes_max = -1
            member.disk.crash_at(-1)
            member.disk_ms_max = 2
            member.armed_point = ""
            member.clock.correct()
            member.resume(member.life)
        for worker in self.workers:
            worker.resume(worker.life)
            worker.start()
            worker.cpu(busy=False)
        for client in self.clients.values():
            client.start()

    def _converge(self) -> None:
        unmet, waited = self.run_until_met(self.unmet, HEAL_STEP_MS, self.swarm.heal_ms_max)
        if unmet:
            raise Violation("convergence", f"after {waited} without faults: " + "; ".join(unmet))

    def run_until_met(
        self, unmet: Callable[[], list[str]], step_ms: int, free_ms_max: int
    ) -> tuple[list[str], str]:
        """Run until nothing is unmet, or for too long: what is unmet then, and how long it was.

        Some jobs can run on the first worker alone. While it has no free slot they wait for their
        turn, and not for the group: how long, the workload decides. So this time counts apart.

        Args:
            unmet: What is waited for.
            step_ms: How often to look.
            free_ms_max: How long to wait while the first worker has a free slot.
        """
        able = self.workers[0]
        free_ms = full_ms = 0
        while True:
            self.timeline.run_until(self.timeline.now_us + step_ms * MS)
            if able.is_full:
                full_ms += step_ms
            else:
                free_ms += step_ms
            left = unmet()
            if not left or free_ms >= free_ms_max or full_ms >= self.swarm.full_ms_max:
                waited = f"{(free_ms + full_ms) // 1_000} s ({able.name} had no free slot for "
                return left, f"{waited}{full_ms // 1_000} s)"

    # --- views

    def leader(self) -> SimMember | None:
        """The leader of the highest term."""
        leaders = [m for m in self.members if m.driver and m.driver.raft.role is Role.LEADER]
        return max(leaders, key=lambda m: m.driver.raft.term if m.driver else 0, default=None)

    def is_whole(self, member: SimMember) -> bool:
        """Whether a member is a voter and has applied everything."""
        leader = self.leader()
        if leader is None or leader.driver is None or not is_present(member):
            return False
        assert member.driver is not None
        voters = [voter.id for voter in leader.driver.raft.config.voters]
        return (
            member.driver.raft.member_id in voters
            and member.driver.state.applied_index >= self.ledger.last_index
        )

    def all_voters(self) -> bool:
        """Whether every member is a voter."""
        leader = self.leader()
        return (
            leader is not None
            and leader.driver is not None
            and len(leader.driver.raft.config.voters) == len(self.members)
        )

    def unmet(self) -> list[str]:
        """Why the cluster has not converged yet; the first few reasons."""
        unmet: list[str] = []
        leader = self.leader()
        if leader is None or leader.driver is None or not leader.driver.leading:
            return ["no member leads"]
        last = self.ledger.last_index
        for member in self.members:
            driver = member.driver
            if driver is None:
                unmet.append(f"{member.name} is down: {member.halted}")
            elif not self.is_whole(member):
                unmet.append(
                    f"{member.name} is not whole: {driver.roll.phase.name}, applied "
                    f"{driver.state.applied_index} of {last}, suspect {driver.raft.suspect}, "
                    f"{driver.raft.role.name}, {len(driver.raft.config.voters)} voters"
                )
            elif driver.raft.last_index != last or driver.replica.history.gaps(last):
                unmet.append(f"{member.name} has gaps in its history or entries not applied")
            elif not driver.roll.keys.is_guarded:
                unmet.append(f"{member.name} has no cluster key that is sure")
        for client in self.clients.values():
            if client.pending:
                unmet.append(f"{client.name} waits for {len(client.pending)} answers")
        if self.schedules is not None:
            unmet += self.schedules.unmet(leader.driver.time.now_ms())
        return (unmet + self.topic.unmet() + self.book.missing(self.clients))[:8]

    def _report(self) -> RunReport:
        report = RunReport(
            self.timeline.now_us,
            self.timeline.event_count,
            self.ledger.ended_count,
            self.book.accepted_count,
            self.book.result_count,
            self.book.read_count,
            self.ledger.last_index,
            self.one_leader.term_count,
            self.schedule_checker.fired_count,
        )
        report.faults.update(self.faults)
        for kind, count in self.network.counts.items():
            if count and kind != "sent":
                report.faults[f"message_{kind}"] += count
        return report


def _asks_admin(client: SimClient) -> bool:
    return any(isinstance(request, Admin) for request in client.pending.values())
