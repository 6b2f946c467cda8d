"""CPU time of all processes of a case, by role: this process is the client, the rest is below it.

A child that has ended and was waited for counts at its parent, so that what short processes did
(a snapshot, a sealed segment, a program) is not lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import psutil

from bench.figures import Sample

Roles = Mapping[str, Iterable[int]]  # "server", "worker": process ids


@runtime_checkable
class HasRoles(Protocol):
    """A peer that knows which of its processes does what."""

    def roles(self) -> Roles:
        """Process ids of servers and workers. The rest counts only in the sum."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Seconds of CPU.

    Attributes:
        all: Of everything that the case runs, itself included.
        server: Of the servers alone.
        upkeep: Of the servers' children: snapshots, sealed history, rewritten files.
        worker: Of the workers with their children.
        client: Of this process.
    """

    all: float = 0.0
    server: float = 0.0
    upkeep: float = 0.0
    worker: float = 0.0
    client: float = 0.0

    def since(self, before: CpuUse) -> CpuUse:
        """What was used after another reading."""
        return CpuUse(
            *(getattr(self, one.name) - getattr(before, one.name) for one in fields(self))
        )

    def samples(self, jobs: int, has_roles: bool) -> Iterator[Sample]:
        """Microseconds a job."""
        for one in fields(self):
            if jobs and (has_roles or one.name in ("all", "client")):
                yield Sample(f"cpu_{one.name}_us", getattr(self, one.name) * 1e6 / jobs)


class Meter:
    """Reads what a peer and this process have used, and what its servers hold in memory."""

    def __init__(self, peer: object) -> None:
        self._peer = peer
        self.has_roles = isinstance(peer, HasRoles)

    def read(self) -> CpuUse:
        """What was used until now."""
        family = _family()
        roles = self._peer.roles() if isinstance(self._peer, HasRoles) else {}
        servers, workers = list(roles.get("server", ())), list(roles.get("worker", ()))
        server = sum(family[pid].alone_s for pid in servers if pid in family)
        return CpuUse(
            all=_tree_s(family, os.getpid()),
            server=server,
            upkeep=sum(_tree_s(family, pid) for pid in servers) - server,
            worker=sum(_tree_s(family, pid) for pid in workers),
            client=family[os.getpid()].alone_s,
        )

    def server_mb(self) -> float:
        """Resident memory of the servers, without children: a fork shares its pages."""
        if not isinstance(self._peer, HasRoles):
            return 0.0
        found = (psutil.Process(pid) for pid in self._peer.roles().get("server", ()))
        return sum(float(one.memory_info().rss) for one in found) / 1e6


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    alone_s: float
    gone_s: float  # of children that were waited for


def _family() -> dict[int, _Process]:
    """This process and all below it, read at about the same time."""
    here = psutil.Process()
    found = {}
    for one in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times, parent = one.cpu_times(), one.ppid()
            gone_s = times.children_user + times.children_system
            found[one.pid] = _Process(parent, times.user + times.system, gone_s)
    return found


def _tree_s(family: Mapping[int, _Process], pid: int) -> float:
    """Seconds of a process and of all that it started, living or gone."""
    if pid not in family:
        return 0.0
    one = family[pid]
    below = (_tree_s(family, child) for child, other in family.items() if other.parent == pid)
    return one.alone_s + one.gone_s + sum(below)
