"""etcd: puts with fresh keys over gRPC, one member or three. It syncs its log before every ack.

The two messages that are needed are written by hand, so that no generated stubs are.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final, cast

from bench.figures import Sample
from bench.loops import ASYNCIO, run
from bench.procs import (
    HOST,
    Process,
    free_ports,
    missing_module,
    missing_program,
    output_of,
    program,
    stop_all,
    wait_until,
)
from bench.window import IDLE_S_MAX, Rate, drive_async

PUT: Final = "/etcdserverpb.KV/Put"
STATUS: Final = "/etcdserverpb.Maintenance/Status"
RANGE: Final = "/etcdserverpb.KV/Range"
PUT_S_MAX: Final = 0.5
JOBS: Final = b"job-"
JOBS_END: Final = b"job."  # the next prefix


class Etcd:
    """Modes: `r1`, `r3`. Members by name, so that one can be ended and started again."""

    def __init__(self, mode: str) -> None:
        self._count = 3 if mode == "r3" else 1
        self.members: dict[str, Process] = {}
        self.ports: dict[str, int] = {}
        self._argv: dict[str, list[str]] = {}
        self.folder = Path()

    def available(self) -> str:
        """etcd is a system package, the client is grpcio."""
        return missing_program("etcd", "etcd-server") or missing_module("grpc")

    def version(self) -> str:
        """Server and client."""
        server = output_of([program("etcd"), "--version"]).splitlines()[0]
        return f"{server}, grpcio {version_of('grpcio')}"

    def start(self, folder: Path) -> None:
        """Returns when a put is acked."""
        self.folder = folder
        ports = free_ports(2 * self._count)
        names = [f"e{number}" for number in range(self._count)]
        peers = {name: f"http://{HOST}:{ports[self._count + n]}" for n, name in enumerate(names)}
        for number, name in enumerate(names):
            self.ports[name] = ports[number]
            client = f"http://{HOST}:{ports[number]}"
            self._argv[name] = [
                *(program("etcd"), "--name", name, "--data-dir", str(folder / name)),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name]),
                *("--initial-cluster", ",".join(f"{one}={url}" for one, url in peers.items())),
                *("--log-level", "error", "--quota-backend-bytes", str(8 << 30)),
            ]
            self.start_member(name)
        first = self.members[names[0]]
        first.wait_for(lambda: asyncio.run(self._answers(ports[0])), "a put")

    def start_member(self, name: str) -> None:
        """Start one member, or start it again on the disk it had."""
        self.members[name] = Process(self._argv[name], self.folder / f"{name}.log")

    def stop(self) -> None:
        """End all."""
        stop_all(self.members.values())
        self.members.clear()

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """One coroutine for each outstanding put. gRPC waits in threads of its own on any loop."""
        for window in windows:
            yield window, run(self._submit(payload, window, seconds), ASYNCIO)

    # --- fail-over

    def leader(self) -> str:
        """The member that leads; waits until there is one."""
        found = ""

        def look() -> bool:
            nonlocal found
            found = asyncio.run(self._leader())
            return bool(found)

        wait_until(look, "a leader")
        return found

    def kill(self, name: str) -> None:
        """kill -9 of a member."""
        self.members[name].kill()

    def revive(self, name: str) -> None:
        """Start it again; it follows when it answers a put."""
        self.start_member(name)
        wait_until(lambda: asyncio.run(self._answers(self.ports[name])), "a member to follow")

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.members[name].signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.members[name].signal(signal.SIGCONT)
        wait_until(lambda: asyncio.run(self._answers(self.ports[name])), "a member to follow")

    def load(self, payload: bytes) -> EtcdLoad:
        """Puts that move to the next member when one fails."""
        return EtcdLoad(list(self.ports.values()), payload)

    # --- helpers

    async def _leader(self) -> str:
        """The name of the running member whose own id is the leader's."""
        for name, member in self.members.items():
            if not member.is_running:
                continue
            try:
                async with open_channel(self.ports[name]) as channel:
                    status = fields(await channel.unary_unary(STATUS)(b"", timeout=1))
            except Exception:  # grpc's errors are private classes; the caller waits with a deadline
                continue
            header = fields(cast(bytes, status[1]))
            if status.get(4) == header.get(2):
                return name
        return ""

    async def _submit(self, payload: bytes, window: int, seconds: float) -> Rate:
        async with open_channel(next(iter(self.ports.values()))) as channel:
            put = channel.unary_unary(PUT)
            last = 0

            async def submit() -> None:
                nonlocal last
                last += 1
                await put(put_request(b"%d-%d" % (window, last), payload), timeout=IDLE_S_MAX)

            return await drive_async(submit, window, seconds)

    async def _answers(self, port: int) -> bool:
        try:
            async with open_channel(port) as channel:
                await channel.unary_unary(PUT)(put_request(b"first", b""), timeout=2)
        except Exception:  # grpc's errors are private classes; the caller waits with a deadline
            return False
        return True


class EtcdLoad:
    """Puts under fresh keys, sent to the next member when one does not answer."""

    results = None  # not measured

    def __init__(self, ports: list[int], payload: bytes) -> None:
        self._ports = ports
        self._payload = payload
        self._channels: list[Any] = []
        self._puts: list[Any] = []
        self._at = 0
        self._last = 0
        self._acked = 0

    async def open(self) -> None:
        """A channel to each member."""
        self._channels = [open_channel(port) for port in self._ports]
        self._puts = [channel.unary_unary(PUT) for channel in self._channels]

    async def submit(self) -> None:
        """One put."""
        self._last += 1
        request = put_request(JOBS + b"%d" % self._last, self._payload)
        while True:
            at = self._at
            try:
                await self._puts[at](request, timeout=PUT_S_MAX)
            except Exception:  # grpc's errors are private classes; the put is sent again
                if at == self._at:
                    self._at = (at + 1) % len(self._puts)
                await asyncio.sleep(0)
                continue
            self._acked += 1
            return

    async def close(self) -> list[Sample]:
        """More acks than keys: some were lost."""
        request = b"\x0a" + _sized(JOBS) + b"\x12" + _sized(JOBS_END) + b"\x48\x01"
        answer = await self._channels[self._at].unary_unary(RANGE)(request, timeout=IDLE_S_MAX)
        stored = int(fields(answer).get(4, 0))
        for channel in self._channels:
            await channel.close()
        return [Sample("lost", max(0, self._acked - stored))]


def open_channel(port: int) -> Any:
    """A channel to one member."""
    import grpc.aio  # noqa: PLC0415 - not a dependency

    return grpc.aio.insecure_channel(f"{HOST}:{port}")


def put_request(key: bytes, value: bytes) -> bytes:
    """PutRequest{key = 1, value = 2}."""
    return b"\x0a" + _sized(key) + b"\x12" + _sized(value)


def _sized(data: bytes) -> bytes:
    size = len(data)
    head = bytearray()
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def fields(message: bytes) -> dict[int, int | bytes]:
    """The fields of a protobuf message that has only numbers and bytes; the last of each counts."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at)
        if key & 7 == 2:
            found[key >> 3] = message[at : at + value]
            at += value
        else:
            found[key >> 3] = value
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
