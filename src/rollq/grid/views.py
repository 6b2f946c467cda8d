"""Views: copies of parts of the state, for people and tools. Read only.

Cost: one record, or one page. `grid_counts` walks the queues and nothing larger.
"""

from __future__ import annotations

from heapq import nsmallest

import msgspec
from msgspec.structs import replace

from rollq.base.access_rules import is_client_of
from rollq.base.edges import each_edge
from rollq.base.ids import ClientId, JobId, WorkerId, guid_to_text
from rollq.base.jobs import DEFAULT_OPTIONS, BlobRef, CacheEntry, JobOptions
from rollq.base.needs import Amounts, WorkerLoad
from rollq.base.requests import Request, request_in
from rollq.grid.chunks import find_staged
from rollq.grid.commands import NOBODY
from rollq.grid.edges import edges_of, ending_of
from rollq.grid.facts import cut_result_of
from rollq.grid.state import (
    BLOCKED,
    DELAYED,
    PREFIX_BYTES,
    QUEUED,
    ArrayRecord,
    AttemptOutcome,
    CacheRecord,
    EndRecord,
    GridState,
    JobRecord,
    JobState,
    QueueRecord,
    WorkerRecord,
)
from rollq.grid.tasks import task_end


class RawEndView(msgspec.Struct, frozen=True):
    """How a job ended."""

    status: int
    result: bytes
    exit_code: int
    signal: int
    run_ms: int
    peak_bytes: int
    cause: int
    detail: str
    confirmed: bool
    blobs: tuple[BlobRef, ...] = ()


class RawParentView(msgspec.Struct, frozen=True):
    """A parent of a job: a job or array."""

    job_id: JobId
    condition: int  # Condition
    ending: int  # grid.edge_records.Ending
    is_met: bool  # it has ended as the condition requires


class RawJobView(msgspec.Struct, frozen=True):
    """One job, or one task."""

    job_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    state: str
    attempt: int
    options: JobOptions
    body_bytes: int
    stamp_ms: int
    delay_ms: int = 0
    worker_id: WorkerId = b""
    fence: int = 0
    lease_ms: int = 0
    cancel_requested: bool = False
    array_id: JobId = b""
    end: RawEndView | None = None
    attempts: tuple[AttemptOutcome, ...] = ()
    blobs: tuple[BlobRef, ...] = ()  # its inputs, until it can never run again
    caches: tuple[str, ...] = ()
    key: str = ""  # its owner's name for it
    request: Request | None = None  # its request
    is_changed: bool = False  # a redrive has replaced the request
    parents: tuple[RawParentView, ...] = ()  # its parents; not in lists
    task: int | None = None  # its number in its array


class RawArrayView(msgspec.Struct, frozen=True):
    """One array, and its tasks by state."""

    array_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    task_count: int
    running_max: int
    delayed: bool
    waiting: int
    open: int  # started at least once and not ended
    running: int
    done: int
    dead: int
    cancelled: int
    failed: int = 0  # of those that are done: their program did not end well
    first_task: int = 0  # task n has the id task_id(array_id, first_task + n)


class RawQueueView(msgspec.Struct, frozen=True):
    """One queue, or all of them: jobs by state. Tasks count as soon as they are accepted."""

    name: str
    paused: bool
    queued: int
    delayed: int
    assigned: int
    done: int
    dead: int
    cancelled: int
    blocked: int = 0
    failed: int = 0  # of those that are done: their program did not end well


class CountsView(RawQueueView, frozen=True):
    """The sum of all queues, and other totals."""

    blobs: int = 0
    caches: int = 0
    expired: int = 0  # of the dead: tasks that expired unassigned, which no list of dead jobs shows


class UnservedView(msgspec.Struct, frozen=True):
    """Jobs of one queue and need that no connected worker can run."""

    queue: str
    worker_name: str  # the worker that they name; empty: any
    program: str  # empty: several
    waiting: int  # waiting jobs and tasks of the queue, whatever they need
    workers: str  # workers that serve the queue and cannot run them; empty: none serves it
    lacks: str = ""  # labels and resources that these workers lack; empty: they lack the program


class CacheView(msgspec.Struct, frozen=True):
    """One cache; in lists without its `entries`."""

    cache_id: str
    file_count: int
    size_bytes: int
    targets: tuple[str, ...]
    stamp_ms: int
    removed: bool
    users: int  # jobs and arrays that need it
    entries: tuple[CacheEntry, ...] = ()


class RawHolderView(msgspec.Struct, frozen=True):
    """The progress of one worker with a cache, as reported to the leader; not part of the state."""

    worker_id: WorkerId
    name: str
    patterns: tuple[str, ...]
    status: str  # WAITING, MOVING, OK, SKIPPED or FAILED
    message: str
    done_bytes: int


class ClientView(msgspec.Struct, frozen=True):
    """One client."""

    client_id: ClientId
    cap: int
    in_flight: int
    records: int
    owed: int


class RawWorkerView(msgspec.Struct, frozen=True):
    """One worker."""

    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    slots: int
    held: tuple[JobId, ...]
    is_capped: bool = False  # above its CPU cap: one job at a time; known to the leader only
    layers: tuple[str, ...] = ()  # layers of its sandbox; known to the leader only
    connected: bool | None = None  # None: unknown, because this member is not the leader
    is_drained: bool = False  # it gets no new jobs
    labels: tuple[str, ...] = ()
    resources: Amounts = ()  # its capacity, by name
    in_use: Amounts = ()  # what its jobs hold of its capacity
    load: WorkerLoad | None = None  # of its host; known to the leader only


class RawDrainView(msgspec.Struct, frozen=True):
    """A drained worker, even if the group has no record of it."""

    worker_id: WorkerId
    name: str
    stamp_ms: int
    by: str  # who drained it
    is_known: bool  # it is connected, or gone for less than its grace
    held: int  # jobs that it still holds


class DeadPage(msgspec.Struct, frozen=True):
    """Dead jobs, oldest first. `after` is the position of the next page."""

    jobs: list[RawJobView]
    after: int


def job_view(state: GridState, job_id: JobId) -> RawJobView | None:
    """A job or task by id, including tasks without a record."""
    record = state.jobs.get(job_id)
    if record is not None:
        view = _job_view(state, record)
        known = state.edges.parents.get(job_id)
        return view if known is None else replace(view, parents=_parents(state, known.edges))
    if job_id in state.reserved:
        return _reserved_view(state, job_id)
    array = state.arrays.get(job_id[:PREFIX_BYTES])
    if array is None or (number := array.number_of(job_id)) >= array.task_count:
        return None
    return _task_view(array, number)


def _job_view(state: GridState, record: JobRecord) -> RawJobView:
    array = record.array
    request = request_in(state.bodies.load(record.body) or (array.body if array else b""))
    owner = record.past if array is None else array
    return RawJobView(
        record.job_id,
        record.client.client_id,
        queue=record.queue,
        exec_name=record.exec_name,
        state=record.state.name.lower(),
        attempt=record.attempt,
        options=record.options,
        body_bytes=request.body_bytes,
        stamp_ms=record.stamp_ms,
        delay_ms=record.delay_ms,
        worker_id=record.worker_id,
        fence=record.fence,
        lease_ms=record.lease_ms,
        cancel_requested=record.cancel_requested,
        array_id=b"" if array is None else array.array_id,
        end=None if record.end is None else _end_view(record.end),
        attempts=() if record.past is None else record.past.attempts,
        blobs=() if owner is None else owner.blobs,
        caches=() if owner is None else owner.caches,
        key=record.key,
        request=request,
        is_changed=record.past is not None and record.past.body_crc >= 0,
        task=None if array is None else array.number_of(record.job_id),
    )


def _parents(state: GridState, edges: bytearray) -> tuple[RawParentView, ...]:
    return tuple(
        RawParentView(parent_id, condition, ending_of(state, parent_id), is_met)
        for parent_id, condition, is_met in each_edge(edges)
    )


def _reserved_view(state: GridState, job_id: JobId) -> RawJobView | None:
    """A job of a committed batch that is not unpacked: shown to its owner as waiting."""
    found = find_staged(state, job_id)
    if found is None:
        return None
    batch, group, item = found
    options = group.options or DEFAULT_OPTIONS
    return RawJobView(
        job_id,
        batch.client.client_id,
        queue=group.queue,
        exec_name=group.exec_name,
        state=(BLOCKED if options.after else DELAYED if options.delay_ms else QUEUED).name.lower(),
        attempt=0,
        options=replace(options, after=()),
        body_bytes=len(item.body),
        stamp_ms=batch.stamp_ms,
        delay_ms=0 if options.after else options.delay_ms,
        worker_id=NOBODY,
        blobs=item.blobs,
        caches=group.caches,
        key=item.key,
        request=request_in(item.body),
        parents=_parents(state, bytearray(edges_of(options.after))),
    )


def _end_view(end: EndRecord) -> RawEndView:
    return RawEndView(
        end.status,
        end.result,
        exit_code=end.exit_code,
        signal=end.signal,
        run_ms=end.run_ms,
        peak_bytes=end.peak_bytes,
        cause=end.cause,
        detail=end.detail,
        confirmed=end.confirmed_seq > 0,
        blobs=end.blobs,
    )


def _task_view(array: ArrayRecord, number: int) -> RawJobView:
    state = task_end(array, number)
    if state is None:
        state = DELAYED if array.delayed else QUEUED
    return RawJobView(
        array.id_of(number),
        array.client.client_id,
        queue=array.queue,
        exec_name=array.exec_name,
        state=state.name.lower(),
        attempt=0,
        options=array.options,
        body_bytes=len(array.body),
        stamp_ms=array.stamp_ms,
        array_id=array.array_id,
        end=_cut_view(array) if number >= array.cut_at else None,
        request=request_in(array.body),
        task=number,
    )


def _cut_view(array: ArrayRecord) -> RawEndView:
    """The end of a task that was never assigned."""
    return replace(_end_view(cut_result_of(array).ends[0]), confirmed=not array.cut_seq)


def array_view(state: GridState, array_id: JobId) -> RawArrayView | None:
    """An array by its id."""
    array = state.array_of(array_id)
    if array is None:
        return None
    return RawArrayView(
        array.array_id,
        array.client.client_id,
        queue=array.queue,
        exec_name=array.exec_name,
        task_count=array.task_count,
        running_max=array.running_max,
        delayed=array.delayed,
        waiting=array.tasks_waiting,
        open=len(array.open_tasks),
        running=array.running,
        done=array.ended_counts[JobState.DONE],
        dead=array.ended_counts[JobState.DEAD],
        cancelled=array.ended_counts[JobState.CANCELLED],
        failed=array.failed,
        first_task=array.first_task,
    )


def queue_view(state: GridState, name: str) -> RawQueueView | None:
    """A queue by its name."""
    is_known = name in state.queues or name in state.cut_counts
    return _queue_view(state, name) if is_known else None


def queue_page(state: GridState, after: str, limit: int) -> list[RawQueueView]:
    """Up to `limit` queues whose names come after this one, by name."""
    names = sorted(name for name in {**state.queues, **state.cut_counts} if name > after)
    return [_queue_view(state, name) for name in names[:limit]]


def _queue_view(state: GridState, name: str) -> RawQueueView:
    queue = state.queues.get(name) or QueueRecord(name)
    counts = [*queue.counts, queue.failed]
    counts[QUEUED] += queue.tasks_waiting
    for job_state, count in enumerate(state.cut_counts.get(name, ())):
        counts[job_state] += count
    return RawQueueView(name, queue.paused, *counts)


def grid_counts(state: GridState) -> CountsView:
    """The sum of all queues, as a queue without a name, and the totals of blobs and caches."""
    queues = list(state.queues.values())
    none = [0] * len(JobState)
    totals = [sum(column) for column in zip(none, *(queue.counts for queue in queues), strict=True)]
    totals[QUEUED] += sum(queue.tasks_waiting for queue in queues)
    failed = sum(queue.failed for queue in queues)
    expired = sum(cut[JobState.DEAD] for cut in state.cut_counts.values())
    for cut in state.cut_counts.values():
        for job_state in JobState:
            totals[job_state] += cut[job_state]
    counts = [*totals, failed, len(state.blobs), len(state.caches), expired]
    return CountsView("", False, *counts)


def cache_view(state: GridState, cache_id: str) -> CacheView | None:
    """A cache by its name, with its files."""
    cache = state.caches.get(cache_id)
    return None if cache is None else _cache_view(cache, cache.entries)


def cache_page(state: GridState, after: str, limit: int) -> list[CacheView]:
    """Up to `limit` caches whose names come after this one, by name."""
    names = sorted(name for name in state.caches if name > after)
    return [_cache_view(state.caches[name], ()) for name in names[:limit]]


def _cache_view(cache: CacheRecord, entries: tuple[CacheEntry, ...]) -> CacheView:
    return CacheView(
        cache.cache_id,
        len(cache.entries),
        size_bytes=sum(entry.blob.size for entry in cache.entries),
        targets=cache.targets,
        stamp_ms=cache.stamp_ms,
        removed=cache.removed,
        users=cache.user_count,
        entries=entries,
    )


def client_view(state: GridState, client_id: ClientId) -> ClientView | None:
    """A client by its id, with its effective cap."""
    client = state.clients.get(client_id)
    if client is None:
        return None
    return ClientView(
        client.client_id,
        state.cap_of(client),
        in_flight=client.in_flight,
        records=client.record_count,
        owed=len(client.owed),
    )


def worker_view(state: GridState, worker_id: WorkerId) -> RawWorkerView | None:
    """A worker by its id."""
    worker = state.workers.get(worker_id)
    if worker is None:
        return None
    return RawWorkerView(
        worker.worker_id,
        worker.incarnation,
        name=worker.name,
        patterns=worker.patterns,
        slots=worker.slots,
        held=tuple(worker.held),
        is_drained=worker_id in state.drained,
        labels=worker.labels,
        resources=worker.resources,
        in_use=_in_use(state, worker),
    )


def _in_use(state: GridState, worker: WorkerRecord) -> Amounts:
    """The resources that the jobs of a worker hold."""
    sums: dict[str, int] = {}
    for job_id in worker.held:
        for name, amount in state.jobs[job_id].options.resources:
            sums[name] = sums.get(name, 0) + amount
    return tuple(sorted(sums.items()))


def drain_page(state: GridState, after: WorkerId, limit: int) -> list[RawDrainView]:
    """Up to `limit` drained workers whose ids come after this one, by id."""
    ids = nsmallest(limit, (each for each in state.drained if each > after))
    return [_drain_view(state, each) for each in ids]


def _drain_view(state: GridState, worker_id: WorkerId) -> RawDrainView:
    mark, worker = state.drained[worker_id], state.workers.get(worker_id)
    name = mark.name if worker is None else worker.name
    held = 0 if worker is None else len(worker.held)
    return RawDrainView(worker_id, name, mark.stamp_ms, mark.by, worker is not None, held)


def worker_called(state: GridState, worker_id: WorkerId) -> str:
    """The display name of a worker: its name, else its id; empty for none."""
    if worker_id == NOBODY or not worker_id:
        return ""
    worker = state.workers.get(worker_id)
    return worker.name if worker is not None and worker.name else guid_to_text(worker_id)


def dead_page(state: GridState, after: int, limit: int, account: str = "") -> DeadPage:
    """Up to `limit` dead jobs from a position on; begin with 0, continue with the page's
    `after`."""
    jobs: list[RawJobView] = []
    while not jobs and (page := list(state.dead.page(after, limit))):
        records = [state.jobs[job_id] for _, job_id in page]
        jobs = [
            _job_view(state, record)
            for record in records
            if is_client_of(record.client.client_id, account)
        ]
        after = page[-1][0]
    return DeadPage(jobs, after)
