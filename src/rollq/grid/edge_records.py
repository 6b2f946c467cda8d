"""Which job waits for which: the records of dependencies, apart from those of jobs, because most
jobs have none. No rule lives here: `edges` and `settling` change them."""

from __future__ import annotations

import enum

import msgspec

from rollq.base.ids import JobId


class Ending(enum.IntEnum):
    """How a parent ended, as far as its children care. Kept in snapshots."""

    OPEN = 0
    OK = 1
    FAILED = 2  # its program failed, or it is dead
    CANCELLED = 3
    UNKNOWN = 4  # it is forgotten


class ParentsRecord(msgspec.Struct, eq=False, gc=False):
    """The parents of a job; kept as long as the job."""

    edges: bytearray  # as in `base.edges`
    # derived
    open_count: int = 0  # edges that are not MET; BLOCKED jobs have some


class UnsettledParent(msgspec.Struct, eq=False):
    """A parent whose end not all of its children have been told. They go by how it stands then;
    `ending` counts if it is forgotten by then."""

    ending: Ending
    waiting: list[JobId]  # its children, the next one last


class EdgeTable:
    """All dependencies of the grid. Orders are those in which records came, and are kept."""

    __slots__ = ("children", "parents", "position", "unsettled")

    def __init__(self) -> None:
        self.parents: dict[JobId, ParentsRecord] = {}  # by child
        # By parent, which has not ended: those that wait for it, in the order in which they came,
        # and perhaps some that wait no more.
        self.children: dict[JobId, list[JobId]] = {}
        self.unsettled: dict[JobId, UnsettledParent] = {}  # by parent, oldest first
        self.position: int = 0  # children of `unsettled` that were looked at, ever
