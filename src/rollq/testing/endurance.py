"""`python -m rollq.testing.endurance`: a virtual day of a cluster, to find unbounded growth.

A light steady load with occasional crashes exercises snapshots, compaction, recycled segments, and
the retention of history and results. At regular intervals everything of the product that could grow
is measured: files and bytes on disk, the log, tables, sessions, timers. It fails if the second half
of the run has more of anything than the first.

python -m rollq.testing.endurance --hours 24
python -m rollq.testing.endurance --hours 1 --without retention     (must fail)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, TypeGuard
from unittest.mock import patch

from rollq.base.jobs import BulkItem, JobOptions
from rollq.grid.commands import Settings
from rollq.history.retention import Retention
from rollq.policy.expiry import Expiry
from rollq.raft.state import RaftOptions
from rollq.roles.member.snapshot_order import SnapshotPace
from rollq.store.wal import Wal
from rollq.testing.applications import QUEUES
from rollq.testing.checkers.base import Violation
from rollq.testing.clock import MS
from rollq.testing.cluster import SimCluster
from rollq.testing.sim_member import SimMember
from rollq.testing.swarm import Swarm
from rollq.testing.workload import JobPlan, body_of
from rollq.wire import messages as wire

SAMPLES: Final = 24
REQUEST_MS: Final = 4_000  # mean time between two requests of a client
GROWTH_PER_CENT: Final = 130  # maximum of the second half, in per cent of that of the first
HOUR_MS: Final = 3_600_000
SWITCHES: Final = ("compaction", "retention", "forgetting", "snapshots")


@dataclass(slots=True)
class SizeSamples:
    """Samples of all measured sizes: the maximum over all members."""

    samples: list[dict[str, int]] = field(default_factory=list)

    def take(self, members: list[SimMember]) -> None:
        """Measure all running members."""
        most: dict[str, int] = {}
        for member in members:
            for name, value in _sizes_of(member):
                most[name] = max(most.get(name, 0), value)
        self.samples.append(most)

    def grown(self) -> list[str]:
        """What has grown in the second half, as text. The first sample is ignored."""
        early, late = self.samples[1 : SAMPLES // 2], self.samples[SAMPLES // 2 :]
        grown = []
        for name in late[-1]:
            before = max(sample.get(name, 0) for sample in early)
            after = max(sample.get(name, 0) for sample in late)
            if after * 100 > before * GROWTH_PER_CENT + SLACK.get(name, 16) * 100:
                grown.append(f"{name}: at most {before} in the first half, {after} in the second")
        return grown


SNAPSHOT_ENTRIES: Final = 60
# Tolerated beyond GROWTH_PER_CENT. A failed or late snapshot leaves its work to the next ones.
SLACK: Final = {
    "disk bytes": 64 * 1024,
    "log bytes": 8 * 1024,
    "history bytes": 16 * 1024,
    "history in memory": 2 * SNAPSHOT_ENTRIES,
    "log entries after the snapshot": 2 * SNAPSHOT_ENTRIES,
    "GridState.bodies._tail": 4 * 1024,  # bytes
}


def _sizes_of(member: SimMember) -> Iterator[tuple[str, int]]:
    """All sizes of a member that could grow."""
    disk, driver = member.disk, member.driver
    yield "disk bytes", disk.used_bytes
    for folder in ("wal", "snapshots", "bodies", "history", "spill", "broken"):
        yield f"{folder} files", len(disk.names(folder))
    if driver is None:
        return
    history = driver.replica.history
    yield "history bytes", sum(size for _, _, size in history.segments.sizes())
    yield "history in memory", len(history.unsealed(driver.state.applied_index))
    raft = driver.raft
    entries = raft.entry_slice(raft.first_index, raft.last_index + 1)
    yield "log entries in memory", len(entries)
    yield "log bytes", sum(len(entry.data) for entry in entries)
    yield "log entries after the snapshot", raft.last_index + 1 - raft.first_index
    for part in (driver.state, driver.leader_state, driver, driver.replica.dispatcher):
        yield from _tables_of(part)


def _tables_of(part: object) -> Iterator[tuple[str, int]]:
    """The lengths of all containers in an object of the product, and in its direct attributes."""
    kind = type(part).__name__
    for name in _fields_of(part):
        value = getattr(part, name, None)
        if _is_table(value):
            yield f"{kind}.{name}", len(value)
        elif type(value).__module__.startswith("rollq.") and not hasattr(value, "applied_index"):
            for inner in _fields_of(value):
                table = getattr(value, inner, None)
                if _is_table(table):
                    yield f"{kind}.{name}.{inner}", len(table)


def _is_table(value: object) -> TypeGuard[Sized]:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | tuple | type)


def _fields_of(part: object) -> list[str]:
    slots = [name for cls in type(part).__mro__ for name in getattr(cls, "__slots__", ())]
    return [*slots, *getattr(part, "__dict__", {})]


class SteadyLoad:
    """The endless, steady load of one client."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        self._client = cluster.clients[name]
        self._timeline = cluster.timeline
        self._chance = cluster.streams.named(f"{name}/steady")
        self._last = b""

    def start(self) -> None:
        """Start sending requests."""
        self._timeline.after(self._chance.draw(1, REQUEST_MS) * MS, self._want)

    def _want(self) -> None:
        self._timeline.after(self._chance.draw(1, 2 * REQUEST_MS) * MS, self._want)
        chance, client = self._chance, self._client
        client.results.clear()  # the application has used them
        dice = chance.draw(0, 100)
        job_id, queue = chance.draw_id(), chance.pick(QUEUES)
        if dice < 70:
            options = JobOptions(max_attempts=1, delay_ms=chance.pick((0, 0, 0, 3_000)))
            client.ask(
                wire.SubmitJob(
                    job_id, client.client_id, f"job.submit.{queue}", "tool", self._body(), options
                )
            )
            self._last = job_id
        elif dice < 80:
            items = tuple(BulkItem(chance.draw_id(), self._body()) for _ in range(4))
            client.ask(wire.SubmitBulk(job_id, client.client_id, queue, "tool", items))
        elif dice < 88:
            client.ask(
                wire.SubmitArray(
                    job_id, client.client_id, queue, "tool", self._body(), task_count=6
                )
            )
        elif dice < 94 and self._last:
            client.ask(wire.Cancel(job_id, (self._last,)))
        else:
            client.ask(wire.Query(job_id, "counts"))

    def _body(self) -> bytes:
        chance = self._chance
        plan = JobPlan(chance.draw(1, 2_000), chance.pick((0, 0, 0, 1)), 0, chance.draw(0, 1 << 30))
        return body_of(plan)


class LongRun(SimCluster):
    """A cluster with an endless load."""

    def __init__(self, seed: int, hours: float) -> None:
        self._run_ms = int(hours * HOUR_MS)
        super().__init__(seed, _swarm(self._run_ms))
        self.samples = SizeSamples()

    def run_all(self) -> None:
        """Run to the end. Raises Violation if something grows, or an invariant is broken."""
        starts = [member.start for member in self.members]
        starts += [worker.start for worker in self.workers]
        starts += [client.start for client in self.clients.values()]
        for start in starts:
            start()
        for name in self.clients:
            SteadyLoad(self, name).start()
        self._ask_settings()
        self._operate()
        self.nemesis.start()
        for number in range(1, SAMPLES + 1):
            self.timeline.run_until(number * self._run_ms // SAMPLES * MS)
            self.samples.take(self.members)
        grown = self.samples.grown()
        if grown:
            raise Violation("bounded disk and memory", "; ".join(grown))


def _swarm(run_ms: int) -> Swarm:
    return Swarm(
        clients=2,
        workers=2,
        slots=4,
        faults=("crash_kill", "crash_power", "worker_crash", "client_crash", "transfer"),
        fault_ms_min=run_ms // 96,
        fault_ms_max=run_ms // 24,
        tick_ms=250,
        snapshot_entries=SNAPSHOT_ENTRIES,
        raft=RaftOptions(log_tail_bytes=2_048),
        settings=Settings(
            lease_ms=10_000,
            result_ttl_ms=run_ms // 24,
            dead_ttl_ms=run_ms // 12,
            results_kept_max=200,
        ),
        retention=Retention(run_ms // 40, run_ms // 12),  # bytes and milliseconds
    )


@contextmanager
def switched_off(what: str) -> Iterator[None]:
    """Disable one of the mechanisms that bound growth, to test that it is noticed."""
    switches: dict[str, tuple[Any, str, Any]] = {
        "compaction": (Wal, "compact_next", lambda self, index: False),
        "forgetting": (Expiry, "_forgotten", lambda self, state, now_ms, count_max: ()),
        "retention": (Retention, "sweep", lambda self, segments, now_ms, hold_from=None: 0),
        "snapshots": (SnapshotPace, "is_due", lambda self, *, idle: False),
    }
    if not what:
        yield
        return
    with patch.object(*switches[what]):
        yield


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m rollq.testing.endurance", description=__doc__)
    parser.add_argument("--hours", type=float, default=24, help="virtual hours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", choices=SWITCHES, default="", help="break this; it must fail")
    options = parser.parse_args(arguments)
    began = perf_counter()
    run = LongRun(options.seed, options.hours)
    failure = ""
    with switched_off(options.without):
        try:
            run.run_all()
        except Violation as violation:
            failure = str(violation)
    print_report(run, perf_counter() - began)
    if failure:
        print(f"failed: {failure}")
    return 1 if failure else 0


def print_report(run: LongRun, seconds: float) -> None:
    """Print the maxima of each half."""
    samples = run.samples.samples
    half = len(samples) // 2
    print(f"{'':<44} {'first half':>12} {'second half':>12}")
    for name in sorted({name for sample in samples for name in sample}):
        early = max((sample.get(name, 0) for sample in samples[1:half]), default=0)
        late = max((sample.get(name, 0) for sample in samples[half:]), default=0)
        if early or late:
            print(f"{name:<44} {early:>12} {late:>12}")
    print(f"virtual hours      {run.timeline.now_us / HOUR_MS / MS:.2f}")
    print(f"entries committed  {run.ledger.last_index}")
    print(f"jobs ended         {run.ledger.ended_count}")
    print(f"faults injected    {sum(run.faults.values())}")
    print(f"wall seconds       {seconds:.1f}")


if __name__ == "__main__":
    sys.exit(main())
