"""Functions that try what no job may do."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from pathlib import Path

from rollq import task

MIB = 1024**2


@task("call-read")
def read(path: str) -> str:
    """What somebody else's file says."""
    return Path(path).read_text(errors="replace")


@task("call-dial")
def dial(port: int) -> str:
    """Whether a service of this computer can be reached."""
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        return "connected"


@task("call-eat")
def eat(count_mib: int) -> int:
    """Take memory and touch it."""
    held = [b"x" * MIB for _ in range(count_mib)]
    time.sleep(60)
    return len(held)


@task("call-fork")
def fork(count: int) -> int:
    """Start children that do nothing, until there are so many."""
    for _ in range(count):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    return count


@task("call-fill")
def fill(count_mib: int) -> None:
    """Write small files for as long as nobody minds."""
    folder = Path(tempfile.gettempdir())
    for number in range(count_mib):
        (folder / str(number)).write_bytes(b"x" * MIB)
    time.sleep(60)


@task("call-temporary")
def temporary() -> str:
    """Where temporary files go; one is left there."""
    folder = tempfile.gettempdir()
    Path(folder, "left").write_text("x")
    return folder
