"""What a report is made of: plain records, filled from the tables. Times are
milliseconds since 1970 in UTC; a list that is empty means that nothing of it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReportSpan:
    """Which part of a group's history the figures come from."""

    group: str
    first_index: int
    last_index: int
    events: int


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a time in milliseconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Slot:
    """One piece of the period: what happened in it."""

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
        """Jobs that came to an end, whichever."""
        return self.succeeded + self.failed + self.dead + self.cancelled


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs were there at the end of a piece of the period."""

    start_ms: int
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A worker's share of busy slots, piece by piece; None where it was not there."""

    name: str
    slots: int
    utilisation: float
    cells: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Heat:
    """Utilisation of workers over the pieces of the period."""

    starts_ms: tuple[int, ...] = ()
    step_ms: int = 1
    rows: tuple[WorkerFigures, ...] = ()
    left_out: int = 0  # workers beyond those that are shown


@dataclass(frozen=True, slots=True)
class CauseRow:
    """So many for one cause, and which programs had most of them."""

    cause: str
    count: int
    execs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ExecRow:
    """What is known of a program."""

    exec_name: str
    jobs: int
    run: Percentiles | None
    wait: Percentiles | None
    failed: int = 0
    dead: int = 0
    retried: int = 0


@dataclass(frozen=True, slots=True)
class CheckRow:
    """How a check of the data went, over all batches of a group."""

    name: str
    group: str
    batches: int
    failed: int = 0
    unknown: int = 0
    last_failed: int = 0  # the batch


@dataclass(frozen=True, slots=True)
class ShareRow:
    """What became of the jobs of one queue, or one client."""

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
    """The time before the period, as long as that."""

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
    """Something that happened to the grid and not to a job."""

    at_ms: int
    kind: str  # leader, again (workers connected again), lost (workers), paused (a queue)
    what: str = ""  # names of the workers, or the queue
    more: int = 0  # workers beyond those that are named
    count: int = 0  # workers that connected again; jobs that were lost
    until_ms: int | None = None  # when a pause ended; None: it has not


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a job. `ready_ms` is when it began to wait for a worker."""

    number: int
    worker: str
    ready_ms: int
    assigned_ms: int
    ended_ms: int | None
    outcome: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A row of the history of one job."""

    at_ms: int
    place: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Story:
    """The life of one job."""

    job_id: str
    why: str  # why this one is shown
    state: str
    exec_name: str
    queue: str = ""
    client: str = ""
    key: str = ""
    submitted_ms: int | None = None
    ended_ms: int | None = None
    detail: str = ""
    attempts: Sequence[Attempt] = ()
    facts: Sequence[Fact] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page."""

    made_ms: int
    source: str  # where the tables are
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
    open_before: int = 0  # jobs that were open when the period began
    redriven: int = 0  # dead jobs that were sent back to their queues
    checks: Sequence[CheckRow] = ()
    incidents: Sequence[Incident] = ()  # in order of time
    incidents_left_out: int = 0
    queues: Sequence[ShareRow] = ()
    queues_left_out: int = 0
    clients: Sequence[ShareRow] = ()
    clients_left_out: int = 0
    earlier: EarlierFigures | None = None  # to be compared with

    @property
    def open_after(self) -> int:
        """Jobs that are open at the end; below 0 if the beginning of the history is missing."""
        begun = self.open_before + self.total("submitted") + self.redriven
        return begun - self.total("ended")

    def total(self, name: str) -> int:
        """The sum of one count over all slots."""
        return sum(getattr(slot, name) for slot in self.slots)
