"""Redis with an fsynced append-only file, and the task queues that stand on it.

`redis-list` is LPUSH by a raw pipelining client: what a server that commits in groups can do.
Celery, RQ and Dramatiq run as their documentation says, with two worker processes.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

from bench.procs import (
    HOST,
    Process,
    free_ports,
    missing_module,
    missing_program,
    output_of,
    program,
    python,
    stop_all,
)
from bench.window import Rate, drive_calls, keep_busy, pipeline_rates

SOCKET_S_MAX: Final = 20.0
RECV_BYTES: Final = 1 << 18
RESULT_S_MAX: Final = 30
WORKERS: Final = 2
URL: Final = "BENCH_REDIS_URL"


class RedisServer:
    """redis-server in a mode: `durable` syncs every write before it answers, `default` is stock."""

    modules: tuple[str, ...] = ("redis",)

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.port = 0
        self.folder = Path()
        self.processes: list[Process] = []

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
        argv = [program("redis-server"), "--bind", HOST, "--port", str(self.port)]
        argv += ["--dir", str(folder)]
        if self._mode == "durable":
            argv += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        server = Process(argv, folder / "redis.log")
        self.processes.append(server)
        server.wait_for_port(self.port)

    def stop(self) -> None:
        """End workers, then the server."""
        stop_all(self.processes)
        self.processes.clear()

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"redis://{HOST}:{self.port}/0"

    def start_workers(self, count: int, argv: list[str]) -> None:
        """Start worker processes that read the server's address from the environment."""
        for number in range(count):
            log = self.folder / f"worker-{number}.log"
            self.processes.append(Process(argv, log, {URL: self.url}))


class RedisList(RedisServer):
    """LPUSH with as many in flight as told."""

    modules = ()

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """Raw pipelining."""
        with socket.create_connection((HOST, self.port), SOCKET_S_MAX) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield from pipeline_rates(PushPipeline(link, payload), windows, seconds)


class PushPipeline:
    """One LPUSH after the other; each is answered by a line with the list's length."""

    def __init__(self, link: socket.socket, payload: bytes) -> None:
        self._link = link
        parts = (b"LPUSH", b"jobs", payload)
        self._one = b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)

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


class TaskQueue(RedisServer):
    """What the three libraries have in common: send a call, wait for its result."""

    def noop(self, payload: bytes, window: int, seconds: float) -> float:
        """Jobs a second, results collected in the order of the calls."""
        self.run_workers()
        send = self.sender(payload.decode())
        waiting: deque[Any] = deque([send()])
        self.wait(waiting.popleft())

        def collect() -> int:
            self.wait(waiting.popleft())
            return 1

        return keep_busy(lambda: waiting.append(send()), collect, window, seconds)

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


class Celery(TaskQueue):
    """Acks late, results in redis."""

    modules = ("celery", "redis")

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
