"""What Dask, Ray, Celery, RQ and Dramatiq run in their workers."""

from __future__ import annotations

import os
import subprocess

from bench.peers.local import TRUE, run_in_folder


def noop(_payload: bytes | str) -> bytes:
    """Do nothing."""
    return b"ok"


def run_true(_payload: bytes) -> bytes:
    """Run /bin/true."""
    subprocess.run([TRUE], check=True)
    return b"ok"


def run_files(parent: bytes) -> bytes:
    """Run the script in a fresh directory."""
    return b"%d" % run_in_folder(os.fsdecode(parent))


def squared(number: int) -> int:
    """As tiny as a call can be."""
    return number * number
