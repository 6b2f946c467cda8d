"""etcd: puts with fresh keys over gRPC, one member or three. It syncs its log before every ack.

The two messages that are needed are written by hand, so that no generated stubs are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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
    stop_all,
    wait_until,
)
from bench.window import IDLE_S_MAX, Rate, drive_async

PUT: Final = "/etcdserverpb.KV/Put"
STATUS: Final = "/etcdserverpb.Maintenance/Status"


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
        wait_until(lambda: asyncio.run(self._answers()), "a put")

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
        """One coroutine for each outstanding put."""
        for window in windows:
            yield window, asyncio.run(self._submit(payload, window, seconds))

    async def _submit(self, payload: bytes, window: int, seconds: float) -> Rate:
        async with open_channel(next(iter(self.ports.values()))) as channel:
            put = channel.unary_unary(PUT)
            last = 0

            async def submit() -> None:
                nonlocal last
                last += 1
                await put(put_request(b"%d-%d" % (window, last), payload), timeout=IDLE_S_MAX)

            return await drive_async(submit, window, seconds)

    async def _answers(self) -> bool:
        try:
            async with open_channel(next(iter(self.ports.values()))) as channel:
                await channel.unary_unary(PUT)(put_request(b"first", b""), timeout=2)
        except Exception:  # grpc's errors are private classes; the caller waits with a deadline
            return False
        return True


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
