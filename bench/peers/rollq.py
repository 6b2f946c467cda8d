"""rollq itself: real member and worker processes, and a client on a blocking socket.

The client speaks through `wire.Connection`, as the product's client does, with as many submits in
flight as it is told; acks come in the order of the submits because one link is one order.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench.procs import HOST, Process, free_ports, python, stop_all, wait_until
from bench.window import Rate, pipeline_rates
from rollq import __version__
from rollq.base.jobs import BulkItem
from rollq.wire import messages as m
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import FEATURES, Side

RECV_BYTES: Final = 1 << 18
SOCKET_S_MAX: Final = 20.0
GROUP: Final = "default"
EXEC: Final = "noop"
BULK_JOBS: Final = 1_000
SUBJECT: Final = "job.submit.noop"


class Rollq:
    """One member or three, each on its own state directory."""

    def __init__(self, mode: str) -> None:
        self._count = 3 if mode == "r3" else 1
        self.members: dict[str, Process] = {}
        self.folder = Path()
        self._others: list[Process] = []

    def available(self) -> str:
        """It is here."""
        return ""

    def version(self) -> str:
        """What is measured."""
        return f"rollq {__version__}"

    def start(self, folder: Path) -> None:
        """Start the members; returns when there is a leader."""
        self.folder = folder
        addresses = [f"{HOST}:{port}" for port in free_ports(self._count)]
        for address in addresses:
            self.start_member(address, addresses)
        self.leader()

    def start_member(self, address: str, addresses: Iterable[str] = ()) -> Process:
        """Start one member, or start it again on the disk it had."""
        port = address.rpartition(":")[2]
        peers = ",".join(other for other in addresses or self.members if other != address)
        argv = python(
            "bench.rollq_proc", "member", port, "--state", str(self.state_of(address))
        )
        if peers:
            argv += ["--peers", peers]
        process = Process(argv, self.folder / f"member-{port}.log")
        self.members[address] = process
        process.wait_for_port(int(port))
        return process

    def state_of(self, address: str) -> Path:
        """A member's state directory."""
        return self.folder / f"state-{address.rpartition(':')[2]}"

    def start_worker(self) -> Process:
        """Start a no-op worker with two slots; returns when it is connected."""
        port = self.leader().rpartition(":")[2]
        argv = python("bench.rollq_proc", "worker", port)
        worker = Process(argv, self.folder / "worker.log")
        self._others.append(worker)
        worker.wait_for_text("worker ready")
        return worker

    def stop(self) -> None:
        """End workers, then members."""
        stop_all(self._others)
        stop_all(self.members.values())
        self._others.clear()
        self.members.clear()

    def leader(self) -> str:
        """The leader's address; waits until there is one."""
        found = ""

        def look() -> bool:
            nonlocal found
            found = next((one for one in self.members if who_leads(one) == one), "")
            return bool(found)

        wait_until(look, "a leader")
        return found

    # --- works

    def noop(self, payload: bytes, window: int, seconds: float) -> float:
        """No-op jobs a second, results back and confirmed."""
        self.start_worker()
        with RawClient(self.leader(), "noop") as client:
            client.run_jobs(payload, window, 0.3)
            return client.run_jobs(payload, window, seconds)

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """One by one, acked by Accepted."""
        with RawClient(self.leader(), "submit") as client:
            yield from pipeline_rates(SubmitPipeline(client, payload), windows, seconds)

    def submit_many(self, payload: bytes, count: int) -> float:
        """Jobs a second accepted in bulk messages, two in flight."""
        chunk = BULK_JOBS
        with RawClient(self.leader(), "bulk") as client:
            started = time.perf_counter()
            left, waiting = count, 0
            while left or waiting:
                while left and waiting < 2:
                    items = tuple(BulkItem(client.next_id(), payload) for _ in range(chunk))
                    client.send(m.SubmitBulk(client.next_id(), "bulk", SUBJECT, EXEC, items))
                    left -= min(chunk, left)
                    waiting += 1
                client.flush()
                waiting -= sum(type(message) is m.Accepted for message in client.receive())
            return count / (time.perf_counter() - started)


class RawClient:
    """A blocking client: messages in batches both ways."""

    def __init__(self, address: str, client_id: str) -> None:
        self.client_id = client_id
        self._connection = Connection(Side.DIALER, GROUP)
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SOCKET_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._outbox: list[bytes] = []
        self._last_id = time.time_ns() << 32
        self.send(m.HelloClient(client_id, 0, FEATURES))
        self.flush()
        self.first = self.receive()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def next_id(self) -> bytes:
        """A job id that was not used before."""
        self._last_id += 1
        return self._last_id.to_bytes(16, "big")

    def send(self, message: Message) -> None:
        """Queue a message until `flush`."""
        self._outbox.append(self._connection.send(message))

    def submit(self, payload: bytes, subject: str = SUBJECT, exec_name: str = EXEC) -> bytes:
        """Queue a submit; its id."""
        job_id = self.next_id()
        self.send(m.SubmitJob(job_id, self.client_id, subject, exec_name, payload))
        return job_id

    def flush(self) -> None:
        """Send what is queued."""
        if self._outbox:
            self._socket.sendall(b"".join(self._outbox))
            self._outbox.clear()

    def receive(self) -> list[Message]:
        """Wait for messages: all that one read gives.

        Raises:
            ConnectionError: the member is gone or hung up.
        """
        while True:
            data = self._socket.recv(RECV_BYTES)
            if not data:
                raise ConnectionError("the member hung up")
            messages = self._connection.receive_data(data)
            if self._connection.error is not None:
                raise self._connection.error
            if messages:
                return messages

    def run_jobs(self, payload: bytes, window: int, seconds: float) -> float:
        """Jobs a second from submit to confirmed result, `window` in flight."""
        started = time.perf_counter()
        end = started + seconds
        sent = done = 0
        while True:
            if time.perf_counter() < end:
                for _ in range(window - (sent - done)):
                    self.submit(payload)
                sent = done + window
            self.flush()
            if done >= sent:
                return done / (time.perf_counter() - started)
            ended = [one.job_id for one in self.receive() if type(one) is m.Result]
            if ended:
                done += len(ended)
                self.send(m.Confirm(tuple(ended)))


class SubmitPipeline:
    """Submits in flight on one link."""

    def __init__(self, client: RawClient, payload: bytes) -> None:
        self._client = client
        self._payload = payload

    def send(self, count: int) -> None:
        """Send so many more."""
        for _ in range(count):
            self._client.submit(self._payload)
        self._client.flush()

    def acked(self) -> int:
        """How many were accepted since."""
        while True:
            count = 0
            for message in self._client.receive():
                if type(message) is m.Accepted:
                    count += 1
                elif type(message) is m.Error:
                    raise RuntimeError(f"refused: {message.message}")
            if count:
                return count


def who_leads(address: str) -> str:
    """Whom a member takes for the leader; empty if it knows nobody or does not answer."""
    try:
        with RawClient(address, "probe") as client:
            answer = client.first[0]
    except OSError:
        return ""
    if isinstance(answer, m.NotLeader):
        return answer.leader
    return address if isinstance(answer, m.Welcome) else ""
