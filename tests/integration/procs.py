"""Members as processes of their own: start, watch, stop, kill. Also what runs in them.

Nothing here sleeps to wait for something: a line, an end or a condition is waited for, with a
deadline.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import uvloop

from rollq.base.errors import ErrorCode, RemoteError, RollqError
from rollq.net.link import LinkLimits
from rollq.net.ports import free_ports
from rollq.raft.node import RaftOptions
from rollq.roles.login import LoginMachine
from rollq.roles.member.keyring import KeyRing
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import BlobsSetup, MemberSetup
from rollq.security.files import as_credentials
from rollq.security.mode import Mode
from rollq.security.tls import reload_all
from tests.integration.patience import DEADLINE_S

ROOT = Path(__file__).parents[2]

T = TypeVar("T")


class MemberProcess:
    """One member in a process. Its settings are those of `serve`."""

    def __init__(
        self, state: Path, port: int = 0, prefix: tuple[str, ...] = (), **settings: Any
    ) -> None:
        self.port = port or free_ports(1)[0]
        self.address = f"127.0.0.1:{self.port}"
        self.state = state
        self.lines: list[str] = []
        self._settings = {"port": self.port, "state": str(state)} | settings
        self._prefix = prefix
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def spawn(self) -> MemberProcess:
        """Start it, and do not wait."""
        self.lines.clear()
        self._process = subprocess.Popen(
            [*self._prefix, sys.executable, "-m", __name__, json.dumps(self._settings)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self

    def start(self) -> MemberProcess:
        """Start it; returns when it serves."""
        self.spawn()
        self.until_line("serving")
        return self

    def until_line(self, text: str) -> str:
        """The first line with this text in it, once it is there."""

        def found() -> str:
            return next((line for line in self.lines if text in line), "")

        with self._news:
            assert self._news.wait_for(lambda: found() or self._ended(), DEADLINE_S), self._story()
            assert found(), self._story()
            return found()

    def change(self, **settings: Any) -> None:
        """With what it is started the next time."""
        self._settings |= settings

    def send(self, number: int) -> None:
        """A signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait."""
        if self.is_running:
            self.send(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """SIGTERM, and wait."""
        self.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        if self._process is None or self._reader is None:
            return 0
        try:
            code = self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(self._story()) from None
        self._reader.join(DEADLINE_S)
        return code

    @property
    def is_running(self) -> bool:
        """Whether its process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _story(self) -> str:
        return "what the member said:\n" + "\n".join(self.lines[-40:])

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        process.wait()
        with self._news:
            self._news.notify_all()


class Members:
    """Some members that are each other's peers; all of them are killed at the end."""

    def __init__(self, directory: Path, count: int, **settings: Any) -> None:
        ports = free_ports(count)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.all = [
            MemberProcess(
                directory / f"m{port}",
                port,
                peers=[address for address in addresses if not address.endswith(f":{port}")],
                **settings,
            )
            for port in ports
        ]

    def __enter__(self) -> Members:
        for member in self.all:
            member.spawn()
        for member in self.all:
            member.until_line("serving")
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.all:
            member.kill()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all."""
        return tuple(member.address for member in self.all)

    def at(self, address: str) -> MemberProcess:
        """The member with this address."""
        return next(member for member in self.all if member.address == address)


def until(condition: Callable[[], T | None]) -> T:
    """Wait for what nobody tells; returns what the condition gave."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
    return value


# --- in the process


async def serve(
    port: int,
    state: str,
    peers: tuple[str, ...] = (),
    *,
    group: str = "default",
    snapshot_entries: int = 10_000,
    blobs: dict[str, Any] | None = None,
    copies_niceness: int | None = None,
    credentials: str = "",
    tls: str = "off",
    auth: str = "off",
    knows_keys: bool = True,
    **limits: int,
) -> int:
    """Serve until told to stop; says when it serves, and why it cannot."""
    if not knows_keys:
        forget_keys()
    # Four times as patient as by default: tests talk to the leader that they found, and on a busy
    # machine a member may be silent for a while.
    options = RaftOptions(
        election_ticks_min=40, election_ticks_max=80, quorum_ticks=80, fixed_leader=not peers
    )
    setup = MemberSetup(
        f"127.0.0.1:{port}",
        tuple(peers),
        group,
        raft=options,
        snapshot_entries=snapshot_entries,
        blobs=BlobsSetup(**(blobs or {})),
        copies_niceness=copies_niceness,
        credentials=as_credentials(credentials),
        tls=Mode(tls),
        auth=Mode(auth),
    )
    node = MemberNode(setup, "127.0.0.1", port, Path(state), LinkLimits(**limits))
    try:
        await node.start()
    except RollqError as error:
        print(f"cannot start: {error}", flush=True)
        return 2
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_all)
    print(f"serving {node.driver.raft.member_id}", flush=True)
    ends = [asyncio.create_task(node.wait()), asyncio.create_task(told.wait())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await node.stop()
    for end in ends:
        end.cancel()
    if node.failure is not None:
        print(f"failed: {node.failure}", flush=True)
        return 1
    print("stopped", flush=True)
    return 0


def forget_keys() -> None:
    """Be a member of a version that knows neither logins nor cluster keys."""

    def refuse(_: LoginMachine, message: object) -> NoReturn:
        raise RemoteError(ErrorCode.BAD_HANDSHAKE, f"{type(message).__name__} is no hello")

    unknown: dict[str, Any] = {
        "features": property(lambda _: ()),
        "share_for": lambda *_: b"",
        "form": lambda *_: None,
        "advance": lambda *_: None,
        "call": lambda *_: b"",
        "is_answer": lambda *_: False,
        "take": lambda *_: False,
    }
    for name, value in unknown.items():
        assert hasattr(KeyRing, name), f"{name} has another name now"
        setattr(KeyRing, name, value)
    LoginMachine.hear = refuse  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(uvloop.run(serve(**json.loads(sys.argv[1]))))
