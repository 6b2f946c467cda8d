"""The records of a report, filled from the tables. Times are milliseconds since 1970 in UTC; an
empty list means that nothing of the kind happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReportSpan:
    """The range of a group's history that the figures cover."""

    group: str
    first_index: int
    last_index: int
    events: int


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a duration in milliseconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Slot:
    """The figures of one slot of the period."""

    start_ms: int
    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    retried: int = 0
    wait: Percentiles | None = None
    run: Percentiles | None = None

    @property
    def ended(self) -> int:
        """Jobs that ended, with any outcome."""
        return self.succeeded + self.failed + self.dead + self.cancelled


@dataclass(frozen=True, slots=True)
class Depth:
    """Waiting and running jobs at the end of a slot."""

    start_ms: int
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """The utilisation of a worker by slot; None where it was not connected."""

    name: str
    slots: int
    utilisation: float
    cells: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Heat:
    """The utilisation of workers over time."""

    starts_ms: tuple[int, ...] = ()
    step_ms: int = 1
    rows: tuple[WorkerFigures, ...] = ()
    left_out: int = 0  # number of workers that are not shown


@dataclass(frozen=True, slots=True)
class CauseRow:
    """The count of a cause, and its most frequent programs."""

    cause: str
    count: int
    execs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ExecRow:
    """The figures of a program in the period."""

    exec_name: str
    jobs: int  # that ended
    run: Percentiles | None
    wait: Percentiles | None
    failed: int = 0
    dead: int = 0
    retried: int = 0


@dataclass(frozen=True, slots=True)
class CheckRow:
    """The outcomes of a check, over all batches of a group."""

    name: str
    group: str
    batches: int
    failed: int = 0
    unknown: int = 0
    last_failed: int = 0  # the batch


@dataclass(frozen=True, slots=True)
class ShareRow:
    """The figures of one queue, or of one client."""

    name: str
    submitted: int
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    retried: int
    wait: Percentiles | None = None
    run: Percentiles | None = None


@dataclass(frozen=True, slots=True)
class EarlierFigures:
    """The figures of the preceding period of the same length."""

    first_ms: int
    last_ms: int
    submitted: int
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    retried: int
    wait: Percentiles | None = None
    run: Percentiles | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """An event of the grid rather than of a job."""

    at_ms: int
    kind: str  # leader, again (workers connected again), lost (workers), paused (a queue)
    what: str = ""  # names of workers, or of the queue
    more: int = 0  # number of further workers
    count: int = 0  # reconnected workers, or lost jobs
    until_ms: int | None = None  # the end of a pause; None: it is open


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a job. `ready_ms` is when the job became ready to be assigned."""

    number: int
    worker: str
    ready_ms: int
    assigned_ms: int
    ended_ms: int | None
    outcome: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event of a job."""

    at_ms: int
    place: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Story:
    """The timeline of one job."""

    job_id: str
    why: str  # the reason why it is shown
    state: str
    exec_name: str
    queue: str = ""
    client: str = ""
    key: str = ""
    submitted_ms: int | None = None
    ended_ms: int | None = None
    detail: str = ""
    attempts: Sequence[Attempt] = ()
    facts: Sequence[TimelineEvent] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All data of the page."""

    made_ms: int
    source: str  # the location of the tables
    spans: Sequence[ReportSpan] = ()
    first_ms: int = 0
    last_ms: int = 0
    slot_ms: int = 1
    slots: Sequence[Slot] = ()
    wait: Percentiles | None = None
    run: Percentiles | None = None
    depth_ms: int = 1
    depth: Sequence[Depth] = ()
    heat: Heat = field(default_factory=Heat)
    retries: Sequence[CauseRow] = ()
    dead: Sequence[CauseRow] = ()
    execs: Sequence[ExecRow] = ()
    execs_left_out: int = 0
    stories: Sequence[Story] = ()
    bytes_moved: int = 0
    cache_hit_bytes: int = 0
    cache_miss_bytes: int = 0
    open_before: int = 0  # open jobs at the start of the period
    redriven: int = 0  # redrives of dead jobs
    checks: Sequence[CheckRow] = ()
    incidents: Sequence[Incident] = ()  # in order of time
    incidents_left_out: int = 0
    queues: Sequence[ShareRow] = ()
    queues_left_out: int = 0
    clients: Sequence[ShareRow] = ()
    clients_left_out: int = 0
    earlier: EarlierFigures | None = None  # the preceding period, for comparison

    @property
    def open_after(self) -> int:
        """Open jobs at the end; negative if the beginning of the history is missing."""
        begun = self.open_before + self.total("submitted") + self.redriven
        return begun - self.total("ended")

    def total(self, name: str) -> int:
        """The sum of a count over all slots."""
        return sum(getattr(slot, name) for slot in self.slots)
