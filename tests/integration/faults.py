"""For tests of files in trouble: a tap between two ends, small disks, workers to be killed."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.patience import DEADLINE_S
from tests.integration.procs import ROOT, MemberProcess
from tests.integration.talk import find_leader

MIB = 1024 * 1024
SLACK_BYTES = MIB  # what is said beside the bytes of a blob, and a chunk that was cut


class Tap:
    """Passes on what comes to a member, counts it, and stops a connection in its middle.

    Attributes:
        up: Bytes that went to the member.
        down: Bytes that came from it.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.up = self.down = 0
        self._news = threading.Condition()
        self._limits: dict[str, int | None] = {"up": None, "down": None}
        self._held = 0
        self._sockets: list[socket.socket] = []
        self._over = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._over = True
            self._news.notify_all()
        for one in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def hold(self, way: str, after_bytes: int) -> None:
        """No connection passes on more than this, until `release`."""
        with self._news:
            self._limits[way] = after_bytes
            self._held = 0

    def until_held(self) -> None:
        """Until a connection has come so far."""
        with self._news:
            assert self._news.wait_for(lambda: self._held, DEADLINE_S), (self.up, self.down)

    def release(self) -> None:
        """Let all of it through."""
        with self._news:
            self._limits = {"up": None, "down": None}
            self._news.notify_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                try:
                    far = socket.create_connection(self._target, DEADLINE_S)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                self._sockets += (near, far)
                for way, source, sink in (("up", near, far), ("down", far, near)):
                    threading.Thread(
                        target=self._pass, args=(way, source, sink), daemon=True
                    ).start()

    def _pass(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                passed += len(data)
                with self._news:
                    limit = self._limits[way]
                    if limit is not None and passed > limit:
                        self._held += 1
                        self._news.notify_all()
                        self._news.wait_for(lambda: self._over or self._limits[way] is None)
                sink.sendall(data)
                with self._news:
                    setattr(self, way, getattr(self, way) + len(data))
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def start_alone(state: Path) -> MemberProcess:
    """A member without others, once it leads: it tells nobody the way past a tap."""
    member = MemberProcess(state).start()
    find_leader([member.address])[1].close()
    return member


class WorkerProcess:
    """A worker that may be killed."""

    def __init__(self, address: str, directory: Path) -> None:
        self._arguments = (address, str(directory), "1000")
        self.state = directory / "state"
        (directory / "exec").mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Start it, and do not wait."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.worker_process", *self._arguments],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )

    def kill(self) -> None:
        """kill -9, and wait."""
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def __enter__(self) -> WorkerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def environment(**more: str) -> dict[str, str]:
    """Of a process that runs this rollq."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))} | more


@contextlib.contextmanager
def small_disk(path: Path, mib: int) -> Iterator[Path]:
    """A disk of this size; only root can make one."""
    if os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root alone")
    path.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(folder: Path, leave_bytes: int) -> Path:
    """A file that takes all of a disk but so much."""
    path = folder / "filler"
    with path.open("wb") as file:
        while True:
            disk = os.statvfs(folder)
            count = disk.f_bavail * disk.f_frsize - leave_bytes
            with contextlib.suppress(OSError):  # somebody took some of it just now
                os.posix_fallocate(file.fileno(), 0, max(1, count))
                return path
