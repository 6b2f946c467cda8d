"""Networks whose ways can be made to swallow: what is sent there is lost, and nobody is told.

A way is (from, to), by the names of hosts. With root and iproute2 every process has a network
namespace of its own on a bridge in another one, and a way is broken by a wrong hardware address of
the neighbour: packets leave and nobody takes them. Without, there is a relay in front of every
member that takes connections, knows the dialer by its process, and drops bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable
from typing import Final, Protocol

from bench.procs import HOST, free_ports

Way = tuple[str, str]

PORT: Final = 5000
NOWHERE: Final = "02:00:00:00:00:fe"  # no interface has this hardware address
READ_BYTES: Final = 65_536


class Wires(Protocol):
    """What connects the hosts of a round."""

    kind: str

    def listen(self, name: str) -> tuple[str, int]:
        """Where the process of a member listens."""

    def address(self, name: str) -> str:
        """How everybody reaches it."""

    def prefix(self, name: str) -> list[str]:
        """What stands before the command of a process."""

    def started(self, name: str, pid: int) -> None:
        """The process of a host runs."""

    def swallow(self, ways: Iterable[Way]) -> None:
        """Lose everything on these ways from now on."""

    def heal(self) -> None:
        """All ways are good again."""

    def close(self) -> None:
        """Remove everything."""


def make_wires(members: list[str], others: list[str], *, relay: bool = False) -> Wires:
    """Namespaces where they can be had."""
    if not relay and os.geteuid() == 0 and shutil.which("ip"):
        with contextlib.suppress(subprocess.CalledProcessError):
            return Namespaces([*members, *others])
    return Relays(members)


class Namespaces:
    """A namespace a host. Nothing in them reaches anything outside."""

    kind = "network namespaces"

    def __init__(self, names: list[str]) -> None:
        self._prefix = f"rq{os.getpid()}"
        self._hub = f"{self._prefix}-hub"
        self._hosts = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}
        self._made: list[str] = []
        self._swallowing: dict[Way, None] = {}
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        self._add(self._hub)
        _ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "bridge", "up")
        for number, (name, host) in enumerate(self._hosts.items(), 1):
            space = self._space(name)
            self._add(space)
            port = f"port{number}"
            end = ["peer", "name", "eth0", "netns", space]
            _ip("-n", self._hub, "link", "add", port, "type", "veth", *end)
            _ip("-n", self._hub, "link", "set", port, "master", "bridge", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _add(self, space: str) -> None:
        _ip("netns", "add", space)
        self._made.append(space)

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def listen(self, name: str) -> tuple[str, int]:
        """On its own address."""
        return self._hosts[name], PORT

    def address(self, name: str) -> str:
        """The same."""
        return f"{self._hosts[name]}:{PORT}"

    def prefix(self, name: str) -> list[str]:
        """Run in the namespace; `ip` becomes the command, so its process id is the command's."""
        return ["ip", "netns", "exec", self._space(name)]

    def started(self, name: str, pid: int) -> None:
        """Of no concern: a host is known by its namespace."""

    def swallow(self, ways: Iterable[Way]) -> None:
        """Send to a hardware address that nobody has."""
        for source, target in ways:
            entry = [self._hosts[target], "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent"]
            _ip("-n", self._space(source), "neigh", "replace", *entry)
            self._swallowing[source, target] = None

    def heal(self) -> None:
        """Let the hosts find each other again."""
        for source, target in self._swallowing:
            _ip("-n", self._space(source), "neigh", "del", self._hosts[target], "dev", "eth0")
        self._swallowing.clear()

    def close(self) -> None:
        """Interfaces go with their namespaces."""
        for space in self._made:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        self._made.clear()


class Relays:
    """A relay in front of every member, all in one thread."""

    kind = "relays on loopback"

    def __init__(self, members: list[str]) -> None:
        ports = free_ports(2 * len(members))
        self._inner = dict(zip(members, ports, strict=False))
        self._outer = dict(zip(members, ports[len(members) :], strict=True))
        self._pids: dict[int, str] = {}
        self._swallowing: dict[Way, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result()

    def listen(self, name: str) -> tuple[str, int]:
        """Behind its relay."""
        return HOST, self._inner[name]

    def address(self, name: str) -> str:
        """That of its relay."""
        return f"{HOST}:{self._outer[name]}"

    def prefix(self, name: str) -> list[str]:
        """Nothing."""
        return []

    def started(self, name: str, pid: int) -> None:
        """Know the dialer of a connection by this."""
        self._pids[pid] = name

    def swallow(self, ways: Iterable[Way]) -> None:
        """Drop what comes that way; a connection that lost bytes is stuck for good."""
        self._swallowing.update(dict.fromkeys(ways))

    def heal(self) -> None:
        """Pass on what new connections bring."""
        self._swallowing.clear()

    def close(self) -> None:
        """Hang up everywhere."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        self._servers = [
            await asyncio.start_server(self._taker(name), HOST, port)
            for name, port in self._outer.items()
        ]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _taker(self, name: str):  # type: ignore[no-untyped-def]
        def take(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._relay(name, near, back))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            # By the callback: a task that is cancelled before it begins runs none of its own lines.
            task.add_done_callback(lambda _: back.transport.abort())

        return take

    async def _relay(
        self, name: str, near: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        dialer = self._dialer(back.get_extra_info("peername")[1])
        try:
            far, forth = await asyncio.open_connection(HOST, self._inner[name])
        except OSError:
            return
        try:
            passing = [
                asyncio.ensure_future(self._pass((dialer, name), near, forth)),
                asyncio.ensure_future(self._pass((name, dialer), far, back)),
            ]
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in passing:
                    one.cancel()
        finally:
            forth.transport.abort()

    async def _pass(
        self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        is_stuck = False
        with contextlib.suppress(OSError):
            while data := await source.read(READ_BYTES):
                is_stuck = is_stuck or way in self._swallowing
                if not is_stuck:
                    sink.write(data)
                    await sink.drain()
        if is_stuck or way in self._swallowing:
            await asyncio.Event().wait()  # the end of a connection is swallowed too

    def _dialer(self, port: int) -> str:
        """The host whose process has the other end. Everybody waits for it, and all of them dial
        again if it takes long: so the table of sockets is read once, not once a process."""
        handle_of_it = f"socket:[{_inode_of(port)}]"
        for pid, name in self._pids.items():
            with contextlib.suppress(OSError):  # it has ended
                for handle in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):  # it is closed
                        if os.readlink(f"/proc/{pid}/fd/{handle}") == handle_of_it:
                            return name
        return "?"


def _inode_of(port: int) -> str:
    """The number of the socket that dialed from a port of HOST; "" if there is none. A connection
    from this port that was closed a moment ago may stand there too, without a socket."""
    own = f"{socket.inet_aton(HOST)[::-1].hex()}:{port:04x}".upper()
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = map(str.split, table)
        return next((row[9] for row in rows if row[1] == own and row[9] != "0"), "")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
