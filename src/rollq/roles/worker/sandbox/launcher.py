"""The worker's end of the launcher (`launcher_main`): each request starts one program."""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rollq.base.errors import ErrorCode, StateError
from rollq.roles.worker.sandbox import launcher_main
from rollq.roles.worker.spawn import Cwd, ProgramFd, Spawner

HEAD: Final = struct.Struct("<I")
ANSWER_BYTES: Final = 4_096
ANSWER_S_MAX: Final = 20.0  # a start takes milliseconds; the event loop waits for it
EXEC: Final = "exec"  # the layer in errors of the program itself


class NotLayeredError(StateError):
    """A layer could not be applied, so the program was not started; no attempt of the job."""


@dataclass(slots=True, frozen=True)
class Launched:
    """A program that was started."""

    pid: int
    init_pid: int = 0  # of process 1 in its PID namespace; 0: none


class Launcher:
    """The launcher process. Started by `open`, and again by `launch` if it has died.

    Args:
        environ: Its own environment, as NAME=value; programs may read it.
    """

    def __init__(self, environ: Sequence[bytes]) -> None:
        self._environ = environ
        self._link: socket.socket | None = None
        self.pid = 0

    def open(self) -> None:
        """Start the process; raises OSError."""
        ours, theirs = socket.socketpair()
        argv = [sys.executable, "-I", "-S", str(Path(launcher_main.__file__))]
        with theirs:
            self.pid = Spawner(self._environ).spawn(
                [os.fsencode(arg) for arg in argv], (), b"/", (theirs.fileno(), 2, 2)
            )
        ours.settimeout(ANSWER_S_MAX)
        self._link = ours

    def close(self) -> None:
        """End the process. Idempotent."""
        if self._link is not None:
            self._link.close()
            self._link = None
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            _bury(self.pid)
            self.pid = 0

    def launch(
        self,
        wanted: dict[str, Any],
        cwd: Cwd,
        stdio: tuple[int, int, int],
        program: ProgramFd | None = None,
    ) -> Launched:
        """Start a program in its layers.

        Raises:
            NotLayeredError: a layer cannot be applied; the program was not started.
            OSError: the program cannot be started.
        """
        if self._link is None:
            self.open()
        assert self._link is not None, "opened"
        more = {
            "cwd": None if isinstance(cwd, int) else cwd,
            "is_open": program is not None,
            "is_script": program is not None and program.is_read,
        }
        body = marshal.dumps(wanted | more)
        answer, theirs = os.pipe()
        try:
            fds = [*stdio, cwd if isinstance(cwd, int) else stdio[0], theirs]
            if program is not None:
                fds.append(program.fd)
            try:
                socket.send_fds(self._link, [HEAD.pack(len(body))], fds)
                self._link.sendall(body)
            except OSError as error:
                self.close()
                raise NotLayeredError(
                    ErrorCode.NO_SANDBOX, f"the launcher does not answer: {error}"
                ) from None
            finally:
                os.close(theirs)
            lines = _read_answer(answer)
        finally:
            os.close(answer)
        return self._launched(lines, os.fsdecode(wanted["argv"][0]))

    def _launched(self, lines: list[str], program: str) -> Launched:
        pids = {line[0]: int(line[2:]) for line in lines if line[:1] in "hip"}
        if "h" in pids:
            _bury(pids["h"])
        wrong = next((line for line in lines if line.startswith("e ")), "")
        if "p" in pids and not wrong:
            return Launched(pids["p"], pids.get("i", 0))
        for pid in (pids.get("i"), pids.get("p")):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in (pids.get("p"), pids.get("i")):  # an init waits for its whole namespace
            if pid:
                _bury(pid)
        if not wrong:
            self.close()
            raise NotLayeredError(ErrorCode.NO_SANDBOX, "the launcher does not answer in time")
        _, layer, number, why = wrong.split(" ", 3)
        if layer == EXEC:
            raise OSError(int(number), os.strerror(int(number)), program)
        cause = os.strerror(int(number)) if int(number) else ""
        raise NotLayeredError(
            ErrorCode.NO_SANDBOX,
            f"the layer {layer} cannot be put on: {': '.join(filter(None, (why, cause)))}",
        )


def _read_answer(fd: int) -> list[str]:
    """All lines, until every writer has closed the pipe; empty if that takes too long."""
    data = b""
    deadline_s = time.monotonic() + ANSWER_S_MAX
    while select.select([fd], [], [], max(0, deadline_s - time.monotonic()))[0]:
        more = os.read(fd, ANSWER_BYTES)
        if not more:
            return data.decode(errors="replace").splitlines()
        data += more
    return []


def _bury(pid: int) -> None:
    """Reap a child that has exited, or is about to."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
