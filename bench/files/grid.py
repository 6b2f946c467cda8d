"""Members and workers whose blobs are counted, and files to move between them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.files.counted import COUNTS_FILE, Counts
from bench.peers.rollq import RollqServers
from bench.procs import Process

MIB: Final = 1024 * 1024
PIECE_BYTES: Final = MIB
PROGRAMS: Final = {
    "count": "wc -c < in.bin",
    "other": "{ printf x; cat in.bin; } > out.bin",
}


class Grid(RollqServers):
    """So many members; workers that run `PROGRAMS`."""

    module = "bench.files.counted"

    def __init__(self, members: int) -> None:
        super().__init__("r3" if members == 3 else "r1")
        self.workers: dict[str, Process] = {}

    def add_worker(self, name: str) -> None:
        """Start one with two slots."""
        programs = self.folder / "programs"
        if not programs.is_dir():
            programs.mkdir()
            for program, script in PROGRAMS.items():
                (programs / program).write_text(f"#!/bin/sh\n{script}\n")
                os.chmod(programs / program, 0o755)
        self.workers[name] = self.start_worker(name, "job.assign.>", programs=programs)

    def add_functions(self, name: str) -> None:
        """Start one that runs the bench's functions."""
        self.workers[name] = self.start_worker(name, "job.assign.>")

    def environment(self, name: str) -> dict[str, str]:
        """Where it leaves its counts."""
        return {COUNTS_FILE: str(self._counts_file(name))}

    def counts_of_members(self) -> list[Counts]:
        """What they moved. They must have ended."""
        return [self._counts(f"member-{address.rpartition(':')[2]}") for address in self.all]

    def counts_of_workers(self) -> list[Counts]:
        """The same."""
        return [self._counts(name) for name in self.workers]

    def blob_of(self, worker: str, digest: str) -> Path:
        """Where a worker has a blob."""
        return self.folder / worker / "blobs" / digest[:2] / digest[2:]

    def start(self, folder: Path) -> None:
        """Start the members; returns when one leads."""
        super().start(folder)
        self.all = list(self.members)

    def _counts(self, name: str) -> Counts:
        return msgspec.json.decode(self._counts_file(name).read_bytes(), type=Counts)

    def _counts_file(self, name: str) -> Path:
        return self.folder / f"{name}.counts"


@contextlib.contextmanager
def running(folder: Path, members: int, workers: int) -> Iterator[Grid]:
    """A grid in a folder, both gone afterwards."""
    grid = Grid(members)
    try:
        grid.start(folder)
        for number in range(workers):
            grid.add_worker(f"worker{number + 1}")
        yield grid
    finally:
        grid.stop()
        shutil.rmtree(folder, ignore_errors=True)


def write_noise(path: Path, size: int) -> str:
    """A file that cannot be compressed, on the disk; its digest."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for at in range(0, size, PIECE_BYTES):
            piece = os.urandom(min(PIECE_BYTES, size - at))
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """Of a file; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def memory_bytes(pid: int, field: str) -> int:
    """What a process has in memory (VmRSS), or had at most (VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(match.group(1)) if match else 0
