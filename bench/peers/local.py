"""What the machine gives without any broker: bare fdatasync, and ways to run executables."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from bench.procs import missing_program, output_of, program
from bench.window import Rate, drive_calls

BLOCK_BYTES: Final = 4_096
WRITTEN_BYTES: Final = 16 << 20
SLOTS: Final = 2
INPUT: Final = b"i" * 1_024
SCRIPT: Final = "cat input; echo done"
TRUE: Final = "/bin/true"


class Local:
    """Modes: `overwrite`, `append` for the disk; `spawn`, `pool`, `xargs` for executables."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._folder = Path()

    def available(self) -> str:
        """Only xargs may be missing."""
        return missing_program("xargs", "findutils") if self._mode == "xargs" else ""

    def version(self) -> str:
        """The program's, where there is one."""
        if self._mode == "xargs":
            return output_of([program("xargs"), "--version"]).splitlines()[0]
        return f"{os.uname().sysname} {os.uname().release}"

    def start(self, folder: Path) -> None:
        """A folder is all it needs."""
        folder.mkdir(parents=True)
        self._folder = folder

    def stop(self) -> None:
        """Nothing runs between works."""

    # --- the disk

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """4 KiB, or the payload if it is larger, and one fdatasync each.

        At the end of a file, or one after the other over zeros written before, as a log does that
        fills its segments.
        """
        block = payload.ljust(BLOCK_BYTES, b"x")
        blocks = WRITTEN_BYTES // len(block)
        with (self._folder / "blocks").open("wb", buffering=0) as file:
            fd = file.fileno()
            if self._mode == "overwrite":
                file.write(bytes(blocks * len(block)))
                os.fsync(fd)
            count = 0

            def write() -> None:
                nonlocal count
                at = count % blocks if self._mode == "overwrite" else count
                os.pwrite(fd, block, at * len(block))
                os.fdatasync(fd)
                count += 1

            yield 1, drive_calls(write, seconds)

    # --- executables

    def run_true(self, count: int) -> float:
        """/bin/true, so many times; runs a second."""
        if self._mode == "xargs":
            return self._xargs([TRUE], count)
        if self._mode == "pool":
            return self._pool(_run_true, count)
        return self._spawn(lambda _slot: [TRUE], count, with_files=False)

    def run_files(self, count: int) -> float:
        """A script in a fresh directory with an input file, its stdout collected."""
        if self._mode == "xargs":
            (self._folder / "input").write_bytes(INPUT)
            line = f'd=$(mktemp -d) && cp input "$d" && (cd "$d" && {SCRIPT}) && rm -r "$d"'
            return self._xargs(["sh", "-c", line, "job"], count)
        if self._mode == "pool":
            return self._pool(run_in_folder, count)
        return self._spawn(lambda _slot: ["/bin/sh", "-c", SCRIPT], count, with_files=True)

    def _xargs(self, command: list[str], count: int) -> float:
        started = time.perf_counter()
        subprocess.run(
            [program("xargs"), "-P", str(SLOTS), "-n", "1", *command],
            input="\n".join(str(number) for number in range(count)),
            text=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            check=True,
        )
        return count / (time.perf_counter() - started)

    def _pool(self, function: Callable[[str], int], count: int) -> float:
        with ProcessPoolExecutor(SLOTS) as pool:
            list(pool.map(_nothing, range(SLOTS)))
            started = time.perf_counter()
            done = list(pool.map(function, [str(self._folder)] * count))
            seconds = time.perf_counter() - started
        if not all(done):
            raise RuntimeError("an executable gave no output")
        return count / seconds

    def _spawn(self, command: Callable[[int], list[str]], count: int, with_files: bool) -> float:
        """One thread with two posix_spawn slots."""
        started = time.perf_counter()
        running: dict[int, Path | None] = {}
        left = count
        while left or running:
            while left and len(running) < SLOTS:
                folder = _fresh_folder(self._folder) if with_files else None
                running[_start(command(left), folder)] = folder
                left -= 1
            pid, status = os.waitpid(-1, 0)
            folder = running.pop(pid)
            if status:
                raise RuntimeError(f"an executable ended with {status}")
            if folder is not None:
                _collect(folder)
        return count / (time.perf_counter() - started)


def run_in_folder(parent: str) -> int:
    """The script in a fresh directory by `subprocess`; how much it printed."""
    folder = _fresh_folder(Path(parent))
    done = subprocess.run(["/bin/sh", "-c", SCRIPT], cwd=folder, capture_output=True, check=True)
    shutil.rmtree(folder)
    return len(done.stdout)


def _run_true(_parent: str) -> int:
    subprocess.run([TRUE], check=True)
    return 1


def _nothing(_number: int) -> None:
    """Make the pool start its processes."""


def _fresh_folder(parent: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=parent))
    (folder / "input").write_bytes(INPUT)
    return folder


def _start(command: list[str], folder: Path | None) -> int:
    if folder is None:
        return os.posix_spawn(command[0], command, os.environ)
    out = folder / "stdout"
    opened = (os.POSIX_SPAWN_OPEN, 1, str(out), os.O_WRONLY | os.O_CREAT, 0o600)
    # posix_spawn sets no working directory, so the shell is told where to go.
    moved = [*command[:2], f"cd {folder}; {command[2]}"]
    return os.posix_spawn(moved[0], moved, os.environ, file_actions=[opened])


def _collect(folder: Path) -> None:
    if not (folder / "stdout").read_bytes().endswith(b"done\n"):
        raise RuntimeError("an executable gave no output")
    shutil.rmtree(folder)
