"""rollq as its users run it: members and workers as processes, the client library here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench.cpu import Roles
from bench.loops import run
from bench.peers.local import INPUT, SCRIPT, TRUE
from bench.peers.rollq_backlog import first_assignment, longest_answer_ms
from bench.peers.rollq_failover import HELD_JOBS, RollqLoad
from bench.peers.rollq_load import BEGAN
from bench.peers.rollq_wire import RawClient, SubmitPipeline, who_leads
from bench.procs import (
    HOST,
    READY_S_MAX,
    Process,
    disk_bytes,
    free_ports,
    python,
    stop_all,
    wait_until,
)
from bench.window import Rate, Recorder, drive_async, drive_until, pipeline_rates
from rollq import __version__
from rollq.base.limits import BATCH_JOBS_MAX
from rollq.roles.client.client import Client
from rollq.roles.client.jobs.specs import JobSpec

SLOTS: Final = 2
AHEAD: Final = 1_024  # at most, its default; the other peers' two workers fetch 64 each
EXEC_WINDOW: Final = 64
TIMED_EVERY_S: Final = 0.02
LOAD_MORE_S: Final = 30.0  # the load outlasts what is measured beside it
LOAD_S_MAX: Final = 300.0


class RollqServers:
    """Modes: `r1` is one member, `r3` three, each on its own state directory."""

    module = "rollq"  # whose command line starts members and workers

    def __init__(self, mode: str) -> None:
        self._count = 3 if mode == "r3" else 1
        self.members: dict[str, Process] = {}  # by address
        self.folder = Path()
        self._workers: list[Process] = []

    def available(self) -> str:
        """It is here."""
        return ""

    def version(self) -> str:
        """What is measured."""
        return f"rollq {__version__}"

    def start(self, folder: Path) -> None:
        """Start the members; returns when one leads."""
        folder.mkdir(parents=True)
        self.folder = folder
        addresses = [f"{HOST}:{port}" for port in free_ports(self._count)]
        for address in addresses:
            self.start_member(address, addresses)
        self.leader()

    def start_member(self, address: str, addresses: Iterable[str] = ()) -> Process:
        """Start one member, or start it again on the disk it had; returns when it listens."""
        port = address.rpartition(":")[2]
        peers = ",".join(other for other in addresses or self.members if other != address)
        argv = python(self.module, "leader", port, "--state", str(self.state_of(address)))
        if peers:
            argv += ["--peers", peers]
        process = Process(
            argv, self.folder / f"member-{port}.log", self.environment(f"member-{port}")
        )
        self.members[address] = process
        process.wait_for_port(int(port))
        return process

    def state_of(self, address: str) -> Path:
        """A member's state directory."""
        return self.folder / f"state-{address.rpartition(':')[2]}"

    def start_worker(
        self,
        name: str,
        pattern: str,
        *,
        slots: int = SLOTS,
        ahead: int = 0,
        programs: Path | None = None,
    ) -> Process:
        """Start a worker: of the bench's functions, or of the programs of a folder."""
        host, _, port = next(iter(self.members)).rpartition(":")
        argv = python(self.module, "worker", host, port, pattern, "--servers", self.servers)
        argv += ["--slots", str(slots), "--ahead", str(ahead), "--cpu-cap", "1", "--name", name]
        argv += ["--jobs-dir", str(self.folder / "jobs"), "--state", str(self.folder / name)]
        argv += ["--exec-dir", str(programs)] if programs else ["--app", "bench.rollq_app"]
        worker = Process(argv, self.folder / f"{name}.log", self.environment(name))
        self._workers.append(worker)
        worker.wait_for_text("rollq worker")
        return worker

    def environment(self, _name: str) -> dict[str, str]:
        """What a process is told beside its arguments."""
        return {}

    def stop(self) -> None:
        """End workers, then members."""
        stop_all(self._workers)
        stop_all(self.members.values())
        self._workers.clear()
        self.members.clear()

    def roles(self) -> Roles:
        """Members and workers."""
        return {
            "server": [one.pid for one in self.members.values()],
            "worker": [one.pid for one in self._workers],
        }

    @property
    def servers(self) -> str:
        """Every member's address."""
        return ",".join(self.members)

    def client(self, name: str) -> Client:
        """A client that knows every member."""
        return Client(self.servers, client_id=name)

    def leader(self) -> str:
        """The address of the member that leads; waits until there is one."""
        found = ""

        def look() -> bool:
            nonlocal found
            running = [one for one, process in self.members.items() if process.is_running]
            found = next((one for one in running if who_leads(one) == one), "")
            return bool(found)

        wait_until(look, "a leader")
        return found


class Rollq(RollqServers):
    """The product's own client."""

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """No-op jobs, through a function in the worker's loop."""
        self.serve_noop(1)
        return run(self._noop(payload, window, seconds))

    def serve_noop(self, workers: int) -> None:
        """Have at least so many workers for no-op jobs."""
        for number in range(len(self._workers), workers):
            self.start_worker(f"noop{number}", "job.assign.>", ahead=AHEAD)

    def noop_of_many(self, payload: bytes, clients: int, window: int, seconds: float) -> Rate:
        """The same by several clients of this process, which share the window."""
        self.serve_noop(1)
        return run(self._noop_of_many(payload, clients, window, seconds))

    def array(self, payload: bytes, tasks: int) -> float:
        """Tasks a second of one array of no-ops, from its submit to its last result."""
        self.serve_noop(1)
        return run(self._array(payload, tasks))

    def lone(self, payload: bytes, seconds: float) -> Rate:
        """One no-op job after the other, each from its submit to its result."""
        self.serve_noop(1)
        return run(self._lone(payload, seconds))

    def lone_beside_load(self, payload: bytes, per_s: float, seconds: float) -> Rate:
        """The same while another client's no-op jobs come at a steady rate."""
        self.serve_noop(1)
        load = self._start_load("steady", str(per_s), str(seconds + LOAD_MORE_S))
        try:
            return self.lone(payload, seconds)
        finally:
            load.stop()

    def submits_beside(self, payload: bytes, how: str, count: int) -> Rate:
        """Single submits while another client submits many jobs, or commits them."""
        load = self._start_load(how, str(count))
        try:
            return run(self._submits_beside(payload, load))
        finally:
            load.stop()

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """One coroutine for each outstanding submit; there is no worker, so jobs wait."""
        for window in windows:
            yield window, run(self._submit(payload, window, seconds))

    def submit_many(self, payload: bytes, count: int) -> float:
        """Jobs a second accepted through `submit_many`."""
        return run(self._submit_many(payload, count))

    def stage_and_commit(self, payload: bytes, count: int) -> float:
        """Jobs a second accepted through `stage` and `commit`, as many as a batch may have."""
        return run(self._stage(payload, min(count, BATCH_JOBS_MAX)))

    def run_true(self, count: int) -> float:
        """/bin/true through the worker's executor."""
        self._start_executor()
        return run(self._run_specs([JobSpec("true") for _ in range(count)]))

    def run_files(self, count: int) -> float:
        """A script with an input file that comes with the job."""
        self._start_executor()
        files = {"input": INPUT}
        specs = [JobSpec("catjob", files=files) for _ in range(count)]
        return run(self._run_specs(specs, b"done\n"))

    # --- fail-over

    def kill(self, name: str) -> None:
        """kill -9 of a member."""
        self.members[name].kill()

    def revive(self, name: str) -> None:
        """Start it again; it follows when it can say who leads."""
        self.start_member(name)
        wait_until(lambda: who_leads(name) not in ("", name), "a member to follow")

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.members[name].signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.members[name].signal(signal.SIGCONT)
        wait_until(lambda: who_leads(name) not in ("", name), "a member to follow")

    def load(self, payload: bytes) -> RollqLoad:
        """A client, with workers for its jobs."""
        self.start_worker("noop", "job.assign.noop", ahead=AHEAD)
        self.start_worker("hold", "job.assign.hold", slots=HELD_JOBS)
        states = [self.state_of(address) for address in self.members]
        return RollqLoad(self.client("failover"), payload, self.folder / "runs", states)

    # --- backlog

    def first_result_s(self, payload: bytes) -> float:
        """From starting a member, a worker and a client to the first result."""
        self.stop()
        (port,) = free_ports(1)
        started = time.perf_counter()
        self.start_member(f"{HOST}:{port}")
        self.start_worker("first", "job.assign.>")
        run(self._first(payload))
        return time.perf_counter() - started

    def fill(self, payload: bytes, count: int) -> float:
        """Let jobs wait; seconds until all are accepted."""
        return count / self.submit_many(payload, count)

    def rss_mb(self) -> float:
        """Memory of the member."""
        return next(iter(self.members.values())).rss_mb()

    def disk_bytes(self) -> int:
        """What its state directory takes."""
        return disk_bytes(self.state_of(next(iter(self.members))))

    def restart(self, with_kill: bool) -> float:
        """End the member and start it; seconds from its start to the first job at a worker."""
        ((address, process),) = self.members.items()
        if with_kill:
            process.kill()
        else:
            process.stop()
        started = time.perf_counter()
        self.start_member(address)
        first_assignment(address)
        return time.perf_counter() - started

    def longest_stall_ms(self, payload: bytes) -> float | None:
        """The slowest answer to a read while a snapshot is taken; None if none was."""
        address = self.leader()
        return longest_answer_ms(address, self.state_of(address) / "snapshots", payload)

    # --- helpers

    async def _first(self, payload: bytes) -> None:
        async with self.client("first") as client:
            await run_one(client, payload)

    async def _noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """`map`, and now and then a job beside it whose way is timed."""
        async with self.client("noop") as client:
            await run_one(client, payload)
            seen = Recorder()
            timing = asyncio.create_task(time_some(client, payload, seen))
            await map_noop(client, payload, window, seconds, seen)
            timing.cancel()
            return seen.rate()

    async def _noop_of_many(
        self, payload: bytes, clients: int, window: int, seconds: float
    ) -> Rate:
        async with contextlib.AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(self.client(f"noop{number}"))
                for number in range(clients)
            ]
            for client in opened:
                await run_one(client, payload)
            share = max(1, window // clients)
            seen = Recorder()
            await asyncio.gather(
                *(map_noop(client, payload, share, seconds, seen) for client in opened)
            )
            return seen.rate()

    async def _array(self, payload: bytes, tasks: int) -> float:
        async with self.client("array") as client:
            await run_one(client, payload)
            started = time.perf_counter()
            batch = await client.submit_array("noop", tasks, payload=payload)
            done = 0
            async for result in batch.results():
                if not result.ok:
                    raise RuntimeError(f"a task failed: {result.status}")
                done += 1
            return done / (time.perf_counter() - started)

    async def _lone(self, payload: bytes, seconds: float) -> Rate:
        async with self.client("lone") as client:
            await run_one(client, payload)
            return await drive_async(lambda: run_one(client, payload), 1, seconds)

    async def _submits_beside(self, payload: bytes, load: Process) -> Rate:
        async with self.client("single") as client:
            await client.submit("noop", payload=payload)
            await asyncio.to_thread(load.wait_for_text, BEGAN)
            rate = await drive_until(
                lambda: client.submit("noop", payload=payload),
                lambda: not load.is_running,
                LOAD_S_MAX,
            )
        load.wait(0)
        return rate

    def _start_load(self, *arguments: str) -> Process:
        argv = python("bench.peers.rollq_load", self.servers, *arguments)
        return Process(argv, self.folder / f"load-{arguments[0]}.log")

    async def _submit(self, payload: bytes, window: int, seconds: float) -> Rate:
        async with self.client(f"submit{window}") as client:
            await client.submit("noop", payload=payload)
            return await drive_async(
                lambda: client.submit("noop", payload=payload), window, seconds
            )

    async def _submit_many(self, payload: bytes, count: int) -> float:
        async with self.client("bulk") as client:
            await client.submit("noop", payload=payload)
            started = time.perf_counter()
            await client.submit_many("noop", (payload for _ in range(count)), keep_results=False)
            return count / (time.perf_counter() - started)

    async def _stage(self, payload: bytes, count: int) -> float:
        async with self.client("staged") as client:
            await client.submit("noop", payload=payload)
            spec = JobSpec("noop", payload=payload)
            started = time.perf_counter()
            part = await client.stage("batch", "0", (spec for _ in range(count)))
            await client.commit("batch", [part])
            return count / (time.perf_counter() - started)

    def _start_executor(self) -> None:
        if self._workers:
            return
        programs = self.folder / "programs"
        programs.mkdir()
        shutil.copy(TRUE, programs / "true")
        script = programs / "catjob"
        script.write_text(f"#!/bin/sh\n{SCRIPT}\n")
        os.chmod(script, 0o755)
        self.start_worker("execs", "job.assign.>", ahead=AHEAD, programs=programs)

    async def _run_specs(self, specs: list[JobSpec], ending: bytes = b"") -> float:
        async with self.client("execs") as client:
            started = time.perf_counter()
            async for result in client.map(specs, window=EXEC_WINDOW):
                if not result.ok or not result.stdout.endswith(ending.decode()):
                    raise RuntimeError(f"a job failed: {result.status} {result.stderr!r}")
            return len(specs) / (time.perf_counter() - started)


class RollqRaw(RollqServers):
    """The same members with a client that pipelines."""

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """Submits without a coroutine each."""
        with RawClient(self.leader(), "submit") as client:
            yield from pipeline_rates(SubmitPipeline(client, payload), windows, seconds)


async def run_one(client: Client, payload: bytes) -> None:
    """A job and its result."""
    job = await client.submit("noop", payload=payload)
    (await job.result(READY_S_MAX)).raise_for_status()


async def map_noop(
    client: Client, payload: bytes, window: int, seconds: float, seen: Recorder
) -> None:
    """Jobs by `map` until time is over, then the rest."""
    clock = time.perf_counter
    payloads = payloads_until(clock() + seconds, payload)
    async for result in client.map("noop", payloads, window=window):
        if not result.ok:
            raise RuntimeError(f"a job failed: {result.status}")
        seen.count(clock())


async def time_some(client: Client, payload: bytes, seen: Recorder) -> None:
    """A job every now and then, as one of many would see it; until it is cancelled."""
    while True:
        await asyncio.sleep(TIMED_EVERY_S)
        sent_at = time.perf_counter()
        await run_one(client, payload)
        seen.time(time.perf_counter() - sent_at)


def payloads_until(end: float, payload: bytes) -> Iterator[bytes]:
    """One payload after the other until time is over."""
    while time.perf_counter() < end:
        yield payload
