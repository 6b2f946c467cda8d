"""Processes of a case: started on free ports, awaited with a deadline, ended with their trees."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

HOST: Final = "127.0.0.1"
READY_S_MAX: Final = 180.0  # on a machine that is busy with something else, too
STOP_S_MAX: Final = 20.0
POLL_S: Final = 0.005
ROOT: Final = Path(__file__).resolve().parent.parent
# What is measured is the tree that this file is in, whatever is installed.
OUR_TREE: Final = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36


class NotReadyError(Exception):
    """Something did not come up in time, or ended instead."""


class Process:
    """One started program, with its output in a file of the case's folder."""

    def __init__(
        self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.argv = list(argv)
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **OUR_TREE, **(env or {})},
                cwd=log.parent,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def wait_for(self, is_ready: Callable[[], bool], what: str, seconds: float = 0) -> None:
        """Return when `is_ready`; raises NotReadyError if the process ends or time runs out."""

        def check() -> bool:
            if not self.is_running:
                raise NotReadyError(f"{self.argv[0]} ended: {tail(self.log)}")
            return is_ready()

        try:
            wait_until(check, what, seconds or READY_S_MAX)
        except NotReadyError as error:
            raise NotReadyError(f"{error}; {tail(self.log)}") from None

    def wait_for_port(self, port: int) -> None:
        """Return when it accepts connections."""
        self.wait_for(lambda: is_listening(port), f"port {port}")

    def wait_for_text(self, text: str) -> None:
        """Return when its output contains a text."""
        wanted = text.encode()
        self.wait_for(lambda: wanted in self.log.read_bytes(), f"{text!r} in the output")

    def rss_mb(self) -> float:
        """Resident memory of it, without children: a fork shares its pages."""
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def wait(self, seconds: float) -> None:
        """Return when it has ended well; raises NotReadyError if it has not by then."""
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NotReadyError(f"waited {seconds:.0f} s for the end of {self.argv}") from None
        if code:
            raise NotReadyError(f"{self.argv} ended with {code}: {tail(self.log)}")

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._popen.kill()
        self._popen.wait()

    def stop(self) -> float:
        """End it politely, then not so; how long it took in seconds. Safe to call twice."""
        started = time.perf_counter()
        if self.is_running:
            self._popen.send_signal(signal.SIGCONT)
            self._popen.terminate()
            try:
                self._popen.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
        return time.perf_counter() - started


def stop_all(processes: Iterable[Process]) -> None:
    """End several processes, last started first."""
    for process in reversed(list(processes)):
        process.stop()


def wait_until(is_done: Callable[[], bool], what: str, seconds: float = READY_S_MAX) -> None:
    """Poll until it is so; raises NotReadyError when time is over."""
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            raise NotReadyError(f"waited {seconds:.0f} s for {what}")
        time.sleep(POLL_S)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections on a port."""
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


def tail(log: Path, size: int = 1_500) -> str:
    """The end of a log file, for an error message."""
    if not log.exists():
        return "(no output)"
    return log.read_bytes()[-size:].decode(errors="replace").strip() or "(no output)"


def python(module: str, *args: str) -> list[str]:
    """A command that runs a module of ours or of a peer with this interpreter."""
    return [sys.executable, "-m", module, *args]


def program(name: str, *elsewhere: str) -> str:
    """The path of a program: beside this interpreter, on PATH, or at a known place; else empty."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    return found or next((path for path in elsewhere if os.access(path, os.X_OK)), "")


def missing_module(*names: str) -> str:
    """Why a case cannot run: the first module that is not installed. Empty: all are."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            return f"no module {name}: pip install -e '.[bench]'"
    return ""


def missing_program(name: str, package: str, *elsewhere: str) -> str:
    """Why a case cannot run: a program that is not installed, and which package has it."""
    return "" if program(name, *elsewhere) else f"no {name}: apt-get install {package}"


def output_of(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """What a short command prints."""
    done = subprocess.run(
        list(argv),
        capture_output=True,
        text=True,
        timeout=READY_S_MAX,
        check=False,
        env={**os.environ, **(env or {})},
    )
    return (done.stdout or done.stderr).strip()


def disk_bytes(folder: Path) -> int:
    """Bytes of disk that a folder takes, as blocks."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(root, name)).st_blocks * 512
    return total


def adopt_orphans() -> None:
    """Let daemons of this process's children stay its descendants, so that they can be ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be told to end when the parent is gone."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end_politely() -> None:
    """Leave by an exception when told to end, so that what was started is stopped."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(_signal: int, _frame: object) -> None:
    raise SystemExit(1)


def kill_descendants(pid: int) -> None:
    """kill -9 everything below a process that is not reaped yet, until there is nothing."""
    root = psutil.Process(pid)
    while family := [one for one in root.children(recursive=True) if _is_alive(one)]:
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(family, timeout=1)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
