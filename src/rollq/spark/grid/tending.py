"""A grid worker in a Spark task: a child process that ends with the task.

Spark kills the Python process of a cancelled task. The child holds one end of a pipe whose other
end is in that process, and drains when it closes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, StateError
from rollq.leash import Leash

if TYPE_CHECKING:
    import pyarrow as pa

SOON_S: Final = 60.0  # a worker that ends sooner has failed
TRIES: Final = 2  # consecutive failures
PAUSE_S: Final = 1.0
WORDS_MAX: Final = 2_000  # characters of its log in an error


@dataclass(frozen=True)
class WorkerPlan:
    """The parameters of all workers of a call. Pickled and sent to executors."""

    servers: tuple[str, ...]
    name: str
    patterns: tuple[str, ...]
    slots: int
    apps: tuple[str, ...]
    exec_dir: str
    cpu_cap: float
    drain_s: float
    allow_shipped_execs: bool
    credentials: str = ""  # a directory on every executor

    def name_of(self, number: int) -> str:
        """The name of a worker."""
        return f"{self.name}-{number}"

    def command(self, number: int, folder: Path) -> list[str]:
        """The command line of a worker."""
        host, _, port = self.servers[0].rpartition(":")
        argv = [sys.executable, "-m", "rollq", "worker", host.strip("[]"), port]
        argv += [",".join(self.patterns), "--servers", ",".join(self.servers)]
        argv += ["--name", self.name_of(number), "--slots", str(self.slots)]
        argv += ["--cpu-cap", str(self.cpu_cap), "--drain", str(self.drain_s)]
        argv += ["--state", str(folder / "state"), "--jobs-dir", str(folder / "jobs")]
        argv += ["--exec-dir", self.exec_dir] if self.exec_dir else []
        argv += ["--credentials", self.credentials] if self.credentials else []
        argv += ["--allow-shipped-execs"] if self.allow_shipped_execs else []
        return argv + [part for app in self.apps for part in ("--app", app)]


class Tending:
    """The function that Spark calls with worker numbers; it returns when they have ended."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                self._tend(number)
            yield batch

    def _tend(self, number: int) -> None:
        """Run a worker, with restarts on failure, until it ends normally.

        Raises:
            StateError: WRONG_STATE, after TRIES consecutive failures; with the end of its log.
        """
        folder = Path(tempfile.mkdtemp(prefix=f"{self._plan.name_of(number)}-", dir=_root()))
        failures = 0
        while failures < TRIES:
            began = time.monotonic()
            code = run_worker(self._plan.command(number, folder), folder)
            if code == 0:
                return  # it was drained
            failures = failures + 1 if time.monotonic() - began < SOON_S else 1
            time.sleep(PAUSE_S)
        words = (folder / "log").read_text(errors="replace")[-WORDS_MAX:]
        raise StateError(
            ErrorCode.WRONG_STATE,
            f"the worker {self._plan.name_of(number)} ended {failures} times: {words}",
            "its programs and modules must be on every executor",
        )


def run_worker(argv: list[str], folder: Path) -> int:
    """Run a worker until it ends; returns its exit code."""
    leash = Leash(drains=True)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ | leash.environment,
                cwd=folder,
                pass_fds=(leash.handle,),
                start_new_session=True,  # not signalled with this process group
            )
        return process.wait()
    finally:
        leash.let_go()


def _root() -> str | None:
    """A folder that Spark deletes with the executor."""
    from pyspark import SparkFiles

    root = SparkFiles._root_directory
    return root if root is not None and Path(root).is_dir() else None
