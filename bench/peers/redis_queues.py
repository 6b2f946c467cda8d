"""Redis with an fsynced append-only file, and the task queues that stand on it.

`redis-list` is LPUSH by a raw pipelining client: what a server that commits in groups can do.
Celery, RQ and Dramatiq run as their documentation says, with two worker processes.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from bench.cpu import Roles
from bench.peers.fresh import fresh_start_s
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
from bench.window import Rate, drive_calls, keep_busy, pipeline_rates

SOCKET_S_MAX: Final = 20.0
RECV_BYTES: Final = 1 << 18
RESULT_S_MAX: Final = 30
PUSH_VALUES: Final = 256
WORKERS: Final = 2
URL: Final = "BENCH_REDIS_URL"


class RedisServer:
    """redis-server in a mode: `durable` syncs every write before it answers, `default` is stock."""

    modules: tuple[str, ...] = ("redis",)

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.port = 0
        self.folder = Path()
        self.server: Process | None = None
        self.processes: list[Process] = []  # workers

    def available(self) -> str:
        """redis-server is a system package, the queues come from PyPI."""
        return missing_program("redis-server", "redis-server") or missing_module(*self.modules)

    def version(self) -> str:
        """Server and libraries."""
        server = output_of([program("redis-server"), "--version"]).split(" sha=")[0]
        return ", ".join([server, *(f"{name} {version_of(name)}" for name in self.modules)])

    def start(self, folder: Path) -> None:
        """Returns when it serves."""
        folder.mkdir(parents=True)
        self.folder = folder
        (self.port,) = free_ports(1)
        self.start_server()

    def start_server(self) -> None:
        """Start it, or start it again on the disk it had; returns when it accepts connections."""
        argv = [program("redis-server"), "--bind", HOST, "--port", str(self.port)]
        argv += ["--dir", str(self.folder)]
        if self._mode == "durable":
            argv += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.server = Process(argv, self.folder / "redis.log")
        self.server.wait_for_port(self.port)

    def stop(self) -> None:
        """End workers, then the server."""
        stop_all(self.processes)
        self.processes.clear()
        if self.server is not None:
            self.server.stop()

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"redis://{HOST}:{self.port}/0"

    def roles(self) -> Roles:
        """redis and the workers."""
        return {
            "server": [self.server.pid] if self.server else [],
            "worker": [one.pid for one in self.processes],
        }

    def start_workers(self, count: int, argv: list[str]) -> None:
        """Start worker processes that read the server's address from the environment."""
        for number in range(count):
            log = self.folder / f"worker-{number}.log"
            self.processes.append(Process(argv, log, {URL: self.url}))


class RedisBacklog(RedisServer):
    """Many jobs in a list, until somebody takes one."""

    key = "jobs"

    def fill(self, payload: bytes, count: int) -> float:
        """Push jobs; seconds until all are stored."""
        with open_link(self.port) as link:
            return push_many(link, self.key, self.messages(payload), count)

    def messages(self, payload: bytes) -> Iterator[bytes]:
        """What is pushed, one after the other."""
        return itertools.repeat(payload)

    def rss_mb(self) -> float:
        """Memory of the server."""
        return self.server.rss_mb() if self.server else 0.0

    def disk_bytes(self) -> int:
        """What its files take."""
        return disk_bytes(self.folder)

    def restart(self, with_kill: bool) -> float:
        """End the server and start it; seconds until a job is popped."""
        if self.server is not None:
            if with_kill:
                self.server.kill()
            else:
                self.server.stop()
        started = time.perf_counter()
        self.start_server()
        wait_until(self._pops, "a job")
        return time.perf_counter() - started

    def longest_stall_ms(self, payload: bytes) -> float | None:
        """Not looked for: with an append-only file alone it takes no snapshots by itself."""
        return None

    def _pops(self) -> bool:
        """Whether a job came; while it loads its file it says so instead."""
        with open_link(self.port) as link:
            link.sendall(command(b"RPOP", self.key.encode()))
            answer = link.recv(RECV_BYTES)
        return answer.startswith(b"$") and not answer.startswith(b"$-1")


class RedisList(RedisBacklog):
    """LPUSH with as many in flight as told."""

    modules = ()

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """Raw pipelining."""
        with open_link(self.port) as link:
            yield from pipeline_rates(PushPipeline(link, self.key, payload), windows, seconds)


class PushPipeline:
    """One LPUSH after the other; each is answered by a line with the list's length."""

    def __init__(self, link: socket.socket, key: str, payload: bytes) -> None:
        self._link = link
        self._one = command(b"LPUSH", key.encode(), payload)

    def send(self, count: int) -> None:
        """Send so many more."""
        self._link.sendall(self._one * count)

    def acked(self) -> int:
        """How many were stored since."""
        while True:
            data = self._link.recv(RECV_BYTES)
            if not data or b"-" in data:
                raise ConnectionError(f"redis said {data[:100]!r}")
            if count := data.count(b"\n"):
                return count


def push_many(link: socket.socket, key: str, messages: Iterator[bytes], count: int) -> float:
    """Fill a list, many values with a command: redis syncs once for each 16 KiB that it reads or
    once for a command, whichever is more. Seconds until all are stored."""
    started = time.perf_counter()
    for first in range(0, count, PUSH_VALUES):
        values = itertools.islice(messages, min(PUSH_VALUES, count - first))
        link.sendall(command(b"LPUSH", key.encode(), *values))
        answer = link.recv(RECV_BYTES)
        if not answer.startswith(b":"):
            raise ConnectionError(f"redis said {answer[:100]!r}")
    return time.perf_counter() - started


def open_link(port: int) -> socket.socket:
    """A connection of the raw client."""
    link = socket.create_connection((HOST, port), SOCKET_S_MAX)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def command(*parts: bytes) -> bytes:
    """One command as redis reads it."""
    words = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n%b" % (len(parts), words)


class TaskQueue(RedisServer):
    """What the three libraries have in common: send a call, wait for its result."""

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """Jobs, results collected in the order of the calls."""
        if not self.processes:
            self.run_workers()
        send = self.sender(payload.decode())
        waiting: deque[Any] = deque([send()])
        self.wait(waiting.popleft())

        def collect() -> int:
            self.wait(waiting.popleft())
            return 1

        return keep_busy(lambda: waiting.append(send()), collect, window, seconds)

    def first_result_s(self, payload: bytes) -> float:
        """From starting redis, two workers and a client to the first result."""

        def first() -> None:
            self.run_workers()
            self.wait(self.sender(payload.decode())())

        return fresh_start_s(self, self.folder, first)

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """The libraries have no window: one call after the other."""
        send = self.sender(payload.decode())
        send()
        yield 1, drive_calls(send, seconds)

    def run_workers(self) -> None:
        """Start two slots of workers."""
        raise NotImplementedError

    def sender(self, payload: str) -> Callable[[], Any]:
        """A call that sends one job and returns what its result is asked of."""
        raise NotImplementedError

    def wait(self, handle: Any) -> None:
        """Until the result is here."""
        raise NotImplementedError


class Celery(TaskQueue, RedisBacklog):
    """Acks late, results in redis. A backlog is one message of its client, under fresh ids."""

    modules = ("celery", "redis")
    key = "celery"

    def messages(self, payload: bytes) -> Iterator[bytes]:
        """As Celery writes them."""
        sent = self.sender(payload.decode())().id
        with open_link(self.port) as link:
            link.sendall(command(b"RPOP", self.key.encode()))
            answer = b""
            while answer.count(b"\r\n") < 2:
                answer += link.recv(RECV_BYTES)
        message, name = answer.split(b"\r\n")[1], sent.encode()
        return (message.replace(name, str(uuid4()).encode()) for _ in itertools.count())

    def run_workers(self) -> None:
        """One worker with two processes."""
        argv = python("celery", "-A", "bench.peers.queue_apps.celery_app", "worker")
        argv += ["-c", str(WORKERS), "-l", "error", "--without-gossip", "--without-mingle"]
        self.start_workers(1, argv)

    def sender(self, payload: str) -> Callable[[], Any]:
        """`delay`."""
        from bench.peers.queue_apps.celery_app import make  # noqa: PLC0415 - its library is optional

        task = make(self.url)
        return lambda: task.delay(payload)

    def wait(self, handle: Any) -> None:
        """`get`."""
        handle.get(timeout=RESULT_S_MAX)


class Rq(TaskQueue):
    """The stock worker, which forks for every job; results are polled."""

    modules = ("rq", "redis")

    def run_workers(self) -> None:
        """Two workers."""
        self.start_workers(WORKERS, [program("rq"), "worker", "-q", "--url", self.url, "jobs"])

    def sender(self, payload: str) -> Callable[[], Any]:
        """`enqueue`."""
        from redis import Redis  # noqa: PLC0415
        from rq import Queue  # noqa: PLC0415

        queue = Queue("jobs", connection=Redis.from_url(self.url))
        return lambda: queue.enqueue("bench.peers.pool_tasks.noop", payload)

    def wait(self, handle: Any) -> None:
        """Ask until it is finished."""
        end = time.monotonic() + RESULT_S_MAX
        while not handle.is_finished:
            if handle.is_failed or time.monotonic() > end:
                raise RuntimeError("a job has no result")
            time.sleep(0.001)


class Dramatiq(TaskQueue):
    """Two processes of one thread, with its result middleware."""

    modules = ("dramatiq", "redis")

    def run_workers(self) -> None:
        """One supervisor with two processes."""
        argv = python("dramatiq", "bench.peers.queue_apps.dramatiq_app")
        self.start_workers(1, [*argv, "-p", str(WORKERS), "-t", "1"])

    def sender(self, payload: str) -> Callable[[], Any]:
        """`send`."""
        from bench.peers.queue_apps.dramatiq_app import make  # noqa: PLC0415

        actor = make(self.url)
        return lambda: actor.send(payload)

    def wait(self, handle: Any) -> None:
        """`get_result`."""
        handle.get_result(block=True, timeout=RESULT_S_MAX * 1000)
