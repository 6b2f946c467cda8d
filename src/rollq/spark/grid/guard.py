"""Cancels the jobs of a Spark task that was killed.

Spark kills the Python process of a cancelled task with SIGKILL, so that process cannot cancel its
jobs. A small process beside it can: it receives the ids of open jobs on a pipe, and cancels them at
end of file without an end marker. It imports almost nothing before it is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Final

START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from rollq.spark.grid.guard import main; main(*sys.argv[2:])"
)
TIMEOUT_S: Final = 20.0
END: Final = b".\n"


class TaskGuard:
    """The task's side of the pipe.

    Args:
        servers: Members of the group.
        client_id: The client of the jobs.
        credentials: The directory of credentials, if any.
    """

    def __init__(self, servers: str, client_id: str, credentials: str = "") -> None:
        code = [sys.executable, "-I", "-S", "-c", START, json.dumps(sys.path)]
        code += [servers, client_id, credentials]
        self._process = subprocess.Popen(
            code,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # not killed with the task's process group
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        self._lock = threading.Lock()  # `opened` is called from the client's thread

    def opened(self, job_ids: Iterable[bytes]) -> None:
        """Register new jobs."""
        self._write("".join([f"+{one.hex()}\n" for one in job_ids]).encode())

    def ended(self, job_ids: Iterable[bytes]) -> None:
        """Unregister ended jobs."""
        self._write("".join([f"-{one.hex()}\n" for one in job_ids]).encode())

    def close(self) -> None:
        """Normal end of the task: cancel nothing."""
        self._write(END)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _write(self, words: bytes) -> None:
        left = memoryview(words)
        try:
            with self._lock:
                while left:
                    left = left[os.write(self._pipe, left) :]
        except BrokenPipeError:
            return  # the guard was killed: the task continues without it


def main(servers: str, client_id: str, credentials: str) -> None:
    """The guard process: read until the pipe closes."""
    open_ids: dict[str, None] = {}
    for line in sys.stdin:
        if line[0] == "+":
            open_ids[line[1:].strip()] = None
        elif line[0] == "-":
            open_ids.pop(line[1:].strip(), None)
        else:
            return
    if open_ids:
        cancel(servers, client_id, list(open_ids), credentials)


def cancel(servers: str, client_id: str, job_ids: list[str], credentials: str) -> None:
    """Cancel jobs."""
    from rollq.base.errors import RollqError
    from rollq.roles.client.blocking.clients import BlockingClient

    try:
        with BlockingClient(
            servers, client_id=client_id, timeout=TIMEOUT_S, credentials=credentials
        ) as client:
            client.cancel(*map(bytes.fromhex, job_ids))
    except RollqError as error:
        sys.stderr.write(f"{len(job_ids)} jobs of a killed task go on: {error}\n")
