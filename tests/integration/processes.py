"""Processes of `rollq` started by command lines, in a directory of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from rollq.leash import Leash
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until


class Processes:
    """Processes by name. Inside a `with`; all that still run are killed at its end."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        self.directory = directory
        self.python = python  # of those that are started from now on
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._leash = Leash()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        self._leash.let_go()

    def start(self, name: str, *words: str) -> None:
        """Start one, again or for the first time; what it says goes to the end of its log."""
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self.python, "-m", "rollq", *words],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._leash.environment,
                pass_fds=(self._leash.handle,),
            )

    def stop(self, name: str) -> None:
        """SIGTERM, and wait for the end, which must be a good one."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0, self.said(name)

    def kill(self, name: str) -> None:
        """kill -9, and wait for the end."""
        process = self._running.pop(name)
        process.kill()
        process.wait(DEADLINE_S)

    def send(self, name: str, number: int) -> None:
        """A signal."""
        self._running[name].send_signal(number)

    def said(self, name: str) -> str:
        """All that it wrote."""
        return self._log(name).read_text(encoding="utf-8", errors="replace")

    def until_said(self, name: str, text: str, times: int = 1) -> None:
        """Wait until it has said something so often."""

        def has() -> bool:
            assert self._running[name].poll() is None, self.said(name)
            return self.said(name).count(text) >= times

        until(has)

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"
