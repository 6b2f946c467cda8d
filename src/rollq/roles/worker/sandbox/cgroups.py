"""Groups of the kernel that bound memory, processes and CPU of a job: of version 2 or 1, below the
group in which the worker is, where it may make any.

A worker has one group, named by its id, and below it one a program. Whatever an earlier life of the
worker left there is ended and removed when it starts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

CONTROLLERS: Final = ("memory", "pids", "cpu")
PERIOD_US: Final = 100_000
OWN_GROUP: Final = "worker"  # into which a worker goes to make room, with version 2
MOUNTS: Final = Path("/proc/self/mountinfo")
OWN: Final = Path("/proc/self/cgroup")
REMOVE_TRIES: Final = 100  # what was ended takes a moment to be gone
REMOVE_PAUSE_S: Final = 0.005


@dataclass(slots=True, frozen=True)
class Places:
    """Where this process is: the folder of its group for each controller. `is_v2`: all are one."""

    folders: dict[str, Path]
    is_v2: bool

    @property
    def name(self) -> str:
        """For people."""
        return f"v{2 if self.is_v2 else 1}: {', '.join(self.folders)}"


@dataclass(slots=True, frozen=True)
class Limits:
    """Of one job; 0: none."""

    memory_bytes: int = 0
    pids_max: int = 0
    cpus: float = 0.0


class NoGroupsError(Exception):
    """No groups can be made, and why."""


class WorkerGroup:
    """The group of a worker. `open` before the first job, `close` after the last."""

    def __init__(self, places: Places, name: str) -> None:
        self._places = places
        self._name = name
        self._count = 0
        self.folders: dict[str, Path] = {}  # by controller

    def open(self, limits: Limits) -> None:
        """Make it, without what an earlier life left, and see that a job can have all limits.

        Raises:
            NoGroupsError: it cannot be made.
        """
        try:
            if self._places.is_v2:
                _make_room(self._places.folders["memory"])
            for controller, above in self._places.folders.items():
                folder = above / f"rollq-{self._name}"
                _end_tree(folder)
                folder.mkdir(exist_ok=True)
                self.folders[controller] = folder
                if self._places.is_v2:
                    _hand_down(folder)
                    self.folders = dict.fromkeys(self._places.folders, folder)
                    break
            self.make(limits).remove()
        except OSError as error:
            self.close()
            raise NoGroupsError(f"{error.filename or 'a group'}: {error.strerror}") from None

    def make(self, limits: Limits) -> JobGroup:
        """A group for one program; raises OSError."""
        self._count += 1
        folders = {name: folder / str(self._count) for name, folder in self.folders.items()}
        group = JobGroup(folders, self._places.is_v2)
        try:
            group.make(limits)
        except OSError:
            group.remove()
            raise
        return group

    def close(self) -> None:
        """Remove it, and end what is left in it."""
        for folder in dict.fromkeys(self.folders.values()):
            _end_tree(folder)
        self.folders.clear()


class JobGroup:
    """The group of one program, in the hierarchy of every controller."""

    __slots__ = ("_folders", "_is_v2")

    def __init__(self, folders: dict[str, Path], is_v2: bool) -> None:
        self._folders = folders
        self._is_v2 = is_v2

    @property
    def procs(self) -> list[str]:
        """The files by which a process enters."""
        return [str(folder / "cgroup.procs") for folder in dict.fromkeys(self._folders.values())]

    def make(self, limits: Limits) -> None:
        """Make the folders and set the limits; raises OSError."""
        for folder in dict.fromkeys(self._folders.values()):
            folder.mkdir()
        memory, pids, cpu = (self._folders[name] for name in CONTROLLERS)
        if limits.memory_bytes:
            text = str(limits.memory_bytes)
            if self._is_v2:
                _write(memory / "memory.max", text)
                _write_if_there(memory / "memory.swap.max", "0")
                _write_if_there(memory / "memory.oom.group", "1")
            else:
                _write(memory / "memory.limit_in_bytes", text)
                _write_if_there(memory / "memory.memsw.limit_in_bytes", text)
        if limits.pids_max:
            _write(pids / "pids.max", str(limits.pids_max))
        if limits.cpus:
            quota_us = max(1_000, int(limits.cpus * PERIOD_US))
            if self._is_v2:
                _write(cpu / "cpu.max", f"{quota_us} {PERIOD_US}")
            else:
                _write(cpu / "cpu.cfs_period_us", str(PERIOD_US))
                _write(cpu / "cpu.cfs_quota_us", str(quota_us))

    def oom_kills(self) -> int:
        """How many processes the kernel ended because there was too little memory for all."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        return _field(self._folders["memory"] / name, "oom_kill")

    def forks_refused(self) -> int:
        """How often a process could not be made because there were too many."""
        return _field(self._folders["pids"] / "pids.events", "max")

    def kill(self) -> None:
        """End all that is in it."""
        for folder in dict.fromkeys(self._folders.values()):
            _end_processes(folder)

    def remove(self) -> bool:
        """Remove it; False if something in it has not ended yet."""
        is_gone = True
        for folder in dict.fromkeys(self._folders.values()):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                is_gone = False
        return is_gone


def find_places(mountinfo: str, own: str) -> Places:
    """Where this process is, by what /proc says; pure.

    Raises:
        NoGroupsError: the controllers are not all there.
    """
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    mounts: dict[str, tuple[str, str]] = {}  # by controller; of version 2 by the empty name
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, at = fields.split(" ")[3:5]
        if kind == "cgroup2":
            mounts.setdefault("", (root, at))
        elif kind == "cgroup":
            for name in options.split(" ")[-1].split(","):
                mounts.setdefault(name, (root, at))
    if all(name in mounts and name in paths for name in CONTROLLERS):
        return Places({name: _folder(*mounts[name], paths[name]) for name in CONTROLLERS}, False)
    if "" in mounts and "" in paths:
        return Places(dict.fromkeys(CONTROLLERS, _folder(*mounts[""], paths[""])), True)
    raise NoGroupsError("no groups of the kernel for memory, pids and cpu are mounted")


def look_for_places() -> Places:
    """The same of this process.

    Raises:
        NoGroupsError: there are none.
    """
    try:
        return find_places(MOUNTS.read_text(), OWN.read_text())
    except OSError as error:
        raise NoGroupsError(f"{error.filename}: {error.strerror}") from None


def _folder(root: str, at: str, path: str) -> Path:
    """Where a group is, if `root` of the hierarchy is mounted at `at`."""
    below = path.removeprefix(root) if root != "/" else path
    return Path(at) / below.lstrip("/")


def _make_room(folder: Path) -> None:
    """With version 2 a group either has processes or hands its controllers down. In a group that is
    ours (delegated to us, and with nobody else in it) we step aside, into a group below."""
    available = (folder / "cgroup.controllers").read_text().split()
    lacking = [name for name in CONTROLLERS if name not in available]
    if lacking:
        raise OSError(errno.EOPNOTSUPP, f"no controller {', '.join(lacking)}", str(folder))
    try:
        _hand_down(folder)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        pids = (folder / "cgroup.procs").read_text().split()
        ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        if not ours.issuperset(map(int, pids)):
            raise OSError(errno.EBUSY, "others are in this group too", str(folder)) from None
        aside = folder / f"rollq-{OWN_GROUP}"
        aside.mkdir(exist_ok=True)
        for pid in pids:
            _write(aside / "cgroup.procs", pid)
        _hand_down(folder)


def _hand_down(folder: Path) -> None:
    _write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))


def _end_tree(folder: Path) -> None:
    """End what is in a group and in those below, and remove them as far as that goes."""
    if not folder.is_dir():
        return
    for below in [one for one in folder.iterdir() if one.is_dir()]:
        _end_tree(below)
    for _ in range(REMOVE_TRIES):
        _end_processes(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(REMOVE_PAUSE_S)


def _end_processes(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for word in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(word), signal.SIGKILL)


def _write(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _write_if_there(path: Path, text: str) -> None:
    """Of controllers that a kernel may be built without."""
    with contextlib.suppress(OSError):
        _write(path, text)


def _field(path: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[0] == name:
                return int(words[1])
    return 0
