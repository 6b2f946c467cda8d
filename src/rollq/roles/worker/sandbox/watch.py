"""Memory and processes of a job, measured by polling where the kernel enforces no limit."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """A process in /proc."""

    pid: int
    parent: int
    group: int


def family_of(roots: Iterable[int], processes: Iterable[Process]) -> list[int]:
    """The roots, their descendants, and all members of their process groups. Pure."""
    below: dict[int, list[int]] = defaultdict(list)
    grouped: dict[int, list[int]] = defaultdict(list)
    known: dict[int, None] = {}
    for one in processes:
        known[one.pid] = None
        below[one.parent].append(one.pid)
        grouped[one.group].append(one.pid)
    found = {pid: None for pid in roots if pid in known}
    waiting = list(found)
    while waiting:
        pid = waiting.pop()
        for other in (*below[pid], *grouped[pid]):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return list(found)


def all_processes() -> list[Process]:
    """The present processes in /proc."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    with open(f"/proc/{name}/stat", "rb") as file:
                        fields = file.read().rpartition(b")")[2].split()
                    found.append(Process(int(name), int(fields[1]), int(fields[2])))
    return found


def memory_of(pids: list[int], enough: int) -> int:
    """The memory used by these processes. Memory shared since a fork counts once, which is slow to
    measure: done only if the sum exceeds `enough`."""
    total = sum(map(_resident_bytes, pids))
    return total if total <= enough else sum(map(_own_share_bytes, pids))


def _resident_bytes(pid: int) -> int:
    """Resident memory without shared file pages."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared = file.read().split()[:3]
        return (int(resident) - int(shared)) * PAGE_BYTES
    return 0


def _own_share_bytes(pid: int) -> int:
    """Memory with shared pages divided among their processes."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss_Anon:"):
                    return int(line.split()[1]) * 1024
    except ProcessLookupError:
        return 0
    except OSError:
        pass
    return _resident_bytes(pid)
