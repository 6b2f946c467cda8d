"""Checker of dependencies: no child starts before its parents, and no child stays blocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollq.base.edges import each_edge
from rollq.base.ids import JobId
from rollq.base.jobs import Condition, Status
from rollq.grid import events as facts
from rollq.grid.effects import Applied
from rollq.grid.events import Event
from rollq.grid.state import BLOCKED, DONE, GridState
from rollq.testing.checkers.base import LogChecker

if TYPE_CHECKING:
    from rollq.testing.sim_member import SimMember

# The conditions that each kind of end fulfils.
BY_OK = frozenset((Condition.OK, Condition.RESULT, Condition.ENDED))
BY_FAILURE = frozenset((Condition.FAILED, Condition.ENDED))
BY_CANCEL = frozenset((Condition.ENDED,))


class Flows(LogChecker):
    """A model of the dependencies, built from events."""

    name = "no child before its parents"

    def __init__(self) -> None:
        super().__init__()
        self._parents: dict[JobId, list[tuple[JobId, int]]] = {}
        self._fulfilled: dict[JobId, frozenset[Condition]] = {}  # by job, of all its ends

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """Process the events of an entry."""
        for event in facts.each_of(applied.events):
            self._follow(event)
            if event.kind == facts.ARRAY_ENDED:
                # The ends of its tasks are in its record only; the events name only the array.
                array = state.array_of(event.array_id)
                is_ok = array is not None and array.ended_counts[DONE] - array.failed == event.count
                self._end(event.array_id, BY_OK if is_ok else BY_FAILURE | BY_CANCEL)

    def _follow(self, event: Event) -> None:
        job_id = event.job_id
        if event.parents:
            self._parents[job_id] = [(one, word) for one, word, _ in each_edge(event.parents)]
        if event.kind == facts.JOB_ASSIGNED:
            self._check(job_id)
        elif event.kind == facts.JOB_ACKED:
            self._end(job_id, BY_OK if event.status == Status.OK else BY_FAILURE)
        elif event.kind in (facts.JOB_DEAD, facts.JOB_EXPIRED):
            self._end(job_id, BY_FAILURE)
        elif event.kind == facts.JOB_CANCELLED:
            self._end(job_id, BY_CANCEL)

    def _end(self, job_id: JobId, fulfils: frozenset[Condition]) -> None:
        if job_id:
            self._fulfilled[job_id] = self._fulfilled.get(job_id, frozenset()) | fulfils

    def _check(self, job_id: JobId) -> None:
        for parent_id, condition in self._parents.get(job_id, ()):
            if condition not in self._fulfilled.get(parent_id, ()):
                self.fail(f"job {job_id.hex()} starts before {parent_id.hex()} ended as it had to")

    def on_finish(self, members: list[SimMember]) -> None:
        """After convergence no job is blocked."""
        for member in members:
            if member.driver is None:
                continue
            state = member.driver.replica.state
            left = [one.job_id.hex() for one in state.jobs.values() if one.state is BLOCKED]
            if left or state.edges.unsettled:
                self.fail(f"{member.name} has blocked jobs left: {left[:3]}")
