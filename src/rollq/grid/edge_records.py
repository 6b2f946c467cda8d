"""Records of dependencies between jobs, apart from the job records, because most jobs have none. No
logic here: `edges` and `settling` change them."""

from __future__ import annotations

import enum

import msgspec

from rollq.base.ids import JobId


class Ending(enum.IntEnum):
    """How a parent ended, as its children distinguish it. Stored in snapshots."""

    OPEN = 0
    OK = 1
    FAILED = 2  # its program failed, or it is dead
    CANCELLED = 3
    UNKNOWN = 4  # the parent is forgotten


class ParentsRecord(msgspec.Struct, eq=False, gc=False):
    """The parents of a job; kept as long as the job."""

    edges: bytearray  # as in `base.edges`
    # derived
    open_count: int = 0  # edges that are not MET; BLOCKED jobs have some


class UnsettledParent(msgspec.Struct, eq=False):
    """An ended parent, some of whose children are not settled yet. They are judged by its current
    ending; `ending` applies if it is forgotten by then."""

    ending: Ending
    waiting: list[JobId]  # its children, in reverse order


class EdgeTable:
    """All dependencies of the grid, in insertion order."""

    __slots__ = ("children", "parents", "position", "unsettled")

    def __init__(self) -> None:
        self.parents: dict[JobId, ParentsRecord] = {}  # by child
        # By parent that has not ended: its waiting children in insertion order, perhaps with some
        # that no longer wait.
        self.children: dict[JobId, list[JobId]] = {}
        self.unsettled: dict[JobId, UnsettledParent] = {}  # by parent, oldest first
        self.position: int = 0  # children of `unsettled` settled so far, in total
