"""Checks the histories of stopped members: each accepted job ended exactly once, and all members
have the same history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rollq.grid import events
from rollq.history.schema import from_line
from rollq.history.segments import Segments
from rollq.store.real_disk import RealDisk

ACCEPTED: Final = (events.JOB_ENQUEUED, events.JOB_DELAYED, events.JOB_BLOCKED)
ENDED: Final = (events.JOB_ACKED, events.JOB_DEAD, events.JOB_EXPIRED, events.JOB_CANCELLED)
RUN_AGAIN: Final = (events.JOB_TIMED_OUT, events.JOB_WORKER_LOST, events.JOB_NACKED)


@dataclass(slots=True)
class Audit:
    """The outcome of a check."""

    members: int = 0
    rows: int = 0
    accepted: dict[str, None] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    adopted: int = 0
    run_again: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """Accepted jobs without an end."""
        return [job_id for job_id in self.accepted if not self.ends[job_id]]

    @property
    def ended_twice(self) -> list[str]:
        """Jobs with more than one end."""
        return [job_id for job_id, count in self.ends.items() if count > 1]


def audit(state_dirs: list[Path]) -> Audit:
    """Compare the sealed histories of stopped members, and count the ends of every job.

    Members stop one after another, so some may lack the last rows; but the end of every job must
    be in each history.
    """
    stories = [_story(state_dir) for state_dir in state_dirs]
    longest = max(stories, key=len)
    audit = Audit(members=len(stories), rows=len(longest))
    _count(audit, longest)
    last_end = max((n for n, line in enumerate(longest, 1) if _is_end(line)), default=0)
    for state_dir, story in zip(state_dirs, stories, strict=True):
        if story != longest[: len(story)]:
            audit.problems.append(f"the history of {state_dir.name} differs from the others")
        if len(story) < last_end:
            audit.problems.append(f"{state_dir.name} lacks the ends of some jobs")
    return audit


def _count(audit: Audit, story: list[bytes]) -> None:
    for line in story:
        row = from_line(line)
        if row.type in ACCEPTED:
            audit.accepted[row.jobId] = None
        elif row.type in ENDED:
            audit.ends[row.jobId] += 1
        elif row.type in RUN_AGAIN:
            audit.run_again += 1
        elif row.type == events.ATTEMPT_ADOPTED:
            audit.adopted += 1
    for jobs, what in ((audit.lost, "never ended"), (audit.ended_twice, "ended twice")):
        if jobs:
            audit.problems.append(f"{len(jobs)} accepted jobs {what}, the first is {jobs[0]}")


def _is_end(line: bytes) -> bool:
    return from_line(line).type in ENDED


def _story(state_dir: Path) -> list[bytes]:
    """The rows of a member from the first index up to the first gap."""
    disk = RealDisk(state_dir)
    try:
        segments = Segments(disk)
        return list(segments.read(1, segments.covered_to()))
    finally:
        disk.close()
