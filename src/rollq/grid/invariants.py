"""The invariants of the state, one function each; `check` names every one that is violated.

Each reads the whole state, so they are for tests and the simulator, not for a running member.
Derived fields are compared with those of a state that was written to a snapshot and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from rollq.base.access_checks import why_bad_account, why_bad_role
from rollq.base.edges import each_edge
from rollq.base.errors import DiskError
from rollq.base.ids import JobId
from rollq.base.jobs import BlobRef
from rollq.base.limits import READERS_MAX
from rollq.base.staged import chunk_crc, ids_of
from rollq.base.topic_limits import TOPICS_BYTES_MAX
from rollq.grid.arrays import is_taken
from rollq.grid.chunks import bytes_of, groups_of
from rollq.grid.commands import NOBODY
from rollq.grid.edge_records import Ending
from rollq.grid.edges import ending_of, open_edges
from rollq.grid.limits import limit_text, tokens_in
from rollq.grid.moves import starts_of
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.snapshot_staged import chunks_by_client, staged_chunks
from rollq.grid.state import (
    ASSIGNED,
    BLOCKED,
    CANCELLED,
    DEAD,
    DELAYED,
    DONE,
    ENDED_STATES,
    PREFIX_BYTES,
    QUEUED,
    ArrayRecord,
    CacheHolder,
    GridState,
    Holder,
)
from rollq.grid.tasks import task_end

STARTED: Final = (QUEUED, DELAYED, ASSIGNED, DONE, DEAD)  # states of jobs that are not blocked

Law: TypeAlias = Callable[[GridState], Iterator[str]]


def check(state: GridState) -> list[str]:
    """Every violation, by name; empty if the state is sound."""
    return _breaches(state, STRUCTURE) or _breaches(state, LAWS)


def _breaches(state: GridState, laws: tuple[Law, ...]) -> list[str]:
    return [f"{law.__name__}: {breach}" for law in laws for breach in law(state)]


def keys_name_records(state: GridState) -> Iterator[str]:
    """A table's key is the id of the record under it."""
    for job_id, record in state.jobs.items():
        if record.job_id != job_id:
            yield f"job {job_id.hex()}"
    for prefix, array in state.arrays.items():
        if array.array_id[:PREFIX_BYTES] != prefix:
            yield f"array {prefix.hex()}"
    for client_id, client in state.clients.items():
        if client.client_id != client_id:
            yield f"client {client_id}"
    for worker_id, worker in state.workers.items():
        if worker.worker_id != worker_id:
            yield f"worker {worker_id.hex()}"


def owners_are_in_the_tables(state: GridState) -> Iterator[str]:
    """A record's client, queue and array are those in the tables, not copies."""
    for record in state.jobs.values():
        if state.clients.get(record.client.client_id) is not record.client:
            yield f"client of {record.job_id.hex()}"
        if record.queue not in state.queues:
            yield f"queue of {record.job_id.hex()}"
        if (
            record.array is not None
            and state.arrays.get(record.job_id[:PREFIX_BYTES]) is not record.array
        ):
            yield f"array of {record.job_id.hex()}"


def ended_jobs_have_an_end(state: GridState) -> Iterator[str]:
    """Exactly the jobs in a terminal state have an EndRecord, and no worker holds them."""
    for record in state.jobs.values():
        if (record.state in ENDED_STATES) != (record.end is not None):
            yield f"{record.job_id.hex()} is {record.state.name}"
        if record.end is not None and record.cancel_requested:
            yield f"{record.job_id.hex()} ended, and is asked to stop"


def attempts_are_fenced(state: GridState) -> Iterator[str]:
    """A running attempt has a worker and a fence of its own; a waiting job has neither."""
    fences: dict[int, bytes] = {}
    for record in state.jobs.values():
        text = record.job_id.hex()
        if record.state is ASSIGNED:
            if record.worker_id not in state.workers or not record.attempt:
                yield f"{text} runs on no worker"
            if not 0 < record.fence <= state.last_fence or record.fence in fences:
                yield f"{text} has fence {record.fence}"
            fences[record.fence] = record.job_id
        elif record.end is None and (record.fence or record.worker_id != NOBODY):
            yield f"{text} waits, but has a fence or a worker"


def only_delayed_jobs_have_a_delay(state: GridState) -> Iterator[str]:
    """DELAYED and `delay_ms` go together."""
    for record in state.jobs.values():
        if (record.state is DELAYED) != (record.delay_ms > 0):
            yield f"{record.job_id.hex()} is {record.state.name} for {record.delay_ms} ms"


def attempts_stay_below_their_maximum(state: GridState) -> Iterator[str]:
    """No job has more counted attempts since its last redrive than any rule allows."""
    for record in state.jobs.values():
        starts, most = starts_of(record), record.options.max_attempts
        if starts < 0 or (most and starts > most):
            yield f"{record.job_id.hex()} started {starts} times of {most}"


def running_tasks_stay_below_their_maximum(state: GridState) -> Iterator[str]:
    """No array has more running tasks than its running_max."""
    for array in state.arrays.values():
        if array.running_max and array.running > array.running_max:
            yield f"{array.array_id.hex()} runs {array.running} of {array.running_max}"


def sequence_numbers_are_unique(state: GridState) -> Iterator[str]:
    """No two records share a number in any order, and none is above the counter."""
    seen: dict[int, str] = {}
    for seq, name in _places(state):
        if not 0 < seq <= state.last_seq:
            yield f"{name} has {seq}, but the last is {state.last_seq}"
        if seq in seen:
            yield f"{name} and {seen[seq]} share {seq}"
        seen[seq] = name


def _places(state: GridState) -> Iterator[tuple[int, str]]:
    for record in state.jobs.values():
        yield record.seq, f"job {record.job_id.hex()}"
        if record.end is not None:
            yield record.end.seq, f"end of {record.job_id.hex()}"
            if record.end.confirmed_seq:
                yield record.end.confirmed_seq, f"confirmation of {record.job_id.hex()}"
    for array in state.arrays.values():
        yield array.seq, f"array {array.array_id.hex()}"
        if array.cut_seq:
            yield array.cut_seq, f"cut of {array.array_id.hex()}"
    for client in state.clients.values():
        if client.idle_seq:
            yield client.idle_seq, f"rest of {client.client_id}"


def tasks_are_accounted_for(state: GridState) -> Iterator[str]:
    """Every task of an array waits, is a record, or has its end in the bitmap; counts agree."""
    for array in state.arrays.values():
        text = array.array_id.hex()
        counts = dict.fromkeys(ENDED_STATES, 0)
        for number in range(array.cut_at):
            end = task_end(array, number)
            if end is not None:
                counts[end] += 1
            record = state.jobs.get(array.id_of(number))
            is_open = record is not None and record.array is array and record.end is None
            if (number < array.next_number) != (is_open or end is not None):
                yield f"task {number} of {text}"
        counts[array.cut_as] += array.task_count - array.cut_at
        if any(array.ended_counts[end] != counts[end] for end in ENDED_STATES):
            yield f"ends of {text} are {array.ended_counts}, not {counts}"
        if array.tasks_waiting and is_taken(state, array.id_of(array.next_number)):
            yield f"the next task of {text} has an id that is taken"


def tasks_agree_with_their_arrays(state: GridState) -> Iterator[str]:
    """A task's record and its array agree on its end."""
    for record in state.jobs.values():
        if record.array is not None:
            number = record.array.number_of(record.job_id)
            end = task_end(record.array, number)
            if end != (record.state if record.end is not None else None):
                yield f"{record.job_id.hex()} is {record.state.name}, its array says {end}"


def nothing_empty_is_kept(state: GridState) -> Iterator[str]:
    """A queue has jobs or is paused; a client without records is in the idle index."""
    for queue in state.queues.values():
        if queue.is_empty and not queue.paused:
            yield f"queue {queue.name}"
    for client in state.clients.values():
        if (client.record_count == 0) != (client.idle_seq > 0):
            yield f"client {client.client_id}"


def references_are_counted(state: GridState) -> Iterator[str]:
    """Blobs and caches have as many references as jobs, ends, arrays and caches name; none has 0.
    Counted here from the records, independent of the code that maintains the counts."""
    blobs: dict[bytes, dict[Holder, int]] = {}
    users: dict[str, int] = {}
    for holder, refs, caches in _references(state):
        for ref in refs:
            held = blobs.setdefault(ref.digest, {})
            held[holder] = held.get(holder, 0) + 1
            known = state.blobs.get(ref.digest)
            if known is not None and known.size != ref.size:
                yield f"blob {ref.digest.hex()} has {known.size} bytes, and {ref.size}"
        for cache_id in caches:
            users[cache_id] = users.get(cache_id, 0) + 1
    for digest in sorted({**state.blobs, **blobs}):
        known = state.blobs.get(digest)
        count = 0 if known is None else known.count
        held = blobs.get(digest, {})
        if count != sum(held.values()) or not count:
            yield f"blob {digest.hex()} is counted {count} times, not {sum(held.values())}"
        elif known is not None and (known.holders or {known.holder: count}) != held:
            yield f"blob {digest.hex()} is held by others than those that refer to it"
    for cache_id in sorted({**state.caches, **users}):
        cache = state.caches.get(cache_id)
        wanted = users.get(cache_id, 0)
        if cache is None or cache.user_count != wanted or (cache.removed and not wanted):
            yield f"cache {cache_id}: {wanted} need it"


def _references(state: GridState) -> Iterator[tuple[Holder, Sequence[BlobRef], Sequence[str]]]:
    for cache in state.caches.values():
        yield CacheHolder(cache.cache_id), [entry.blob for entry in cache.entries], ()
    for array in state.arrays.values():
        if not array.is_ended or array.ended_counts[DEAD]:
            yield array.client.client_id, array.blobs, array.caches
    for client_id, chunk in chunks_by_client(state):
        yield client_id, chunk.blobs, chunk.caches
    for record in state.jobs.values():
        if record.past is not None:
            yield record.client.client_id, record.past.blobs, record.past.caches
        if record.end is not None:
            yield record.client.client_id, record.end.blobs, ()


def only_runnable_jobs_need_files(state: GridState) -> Iterator[str]:
    """A job that is done or cancelled references no inputs."""
    for record in state.jobs.values():
        past = record.past
        if past is not None and record.state in (DONE, CANCELLED) and (past.blobs or past.caches):
            yield f"{record.job_id.hex()} is {record.state.name}"


def accepted_jobs_are_reserved(state: GridState) -> Iterator[str]:
    """Exactly the jobs of committed batches that are not unpacked are reserved: new ones have no
    record yet, those to redrive are dead."""
    wanted: dict[JobId, bool] = {}  # whether it runs again
    for (client_id, batch_key), batch in state.committed.items():
        if (batch.client.client_id, batch.batch_key) != (client_id, batch_key):
            yield f"batch {batch_key!r} of {client_id}"
        if state.clients.get(client_id) is not batch.client or not batch.chunks:
            yield f"batch {batch_key!r} of {client_id} has nothing left, or no client"
        if batch.left != sum(chunk.count for chunk in batch.chunks):
            yield f"batch {batch_key!r} of {client_id} has {batch.left} jobs left"
        for chunk in batch.chunks:
            wanted.update(dict.fromkeys(ids_of(chunk.job_ids), chunk.redrives))
        for job_id in batch.known:
            wanted.pop(job_id, None)
    if wanted.keys() != state.reserved.keys():
        yield f"{len(state.reserved)} jobs are reserved, not {len(wanted)}"
    for job_id, runs_again in wanted.items():
        record = state.jobs.get(job_id)
        if (record is not None and record.state is DEAD) != runs_again:
            yield f"{job_id.hex()} is reserved, and a job that cannot be"


def what_is_staged_is_counted(state: GridState) -> Iterator[str]:
    """Bytes and jobs that are staged or being unpacked, and the invariants of each chunk."""
    chunks = list(staged_chunks(state))
    count = sum(chunk.count for chunk in chunks)
    if count != state.staged_count:
        yield f"{state.staged_count} jobs are staged, not {count}"
    size_bytes = sum(bytes_of(state, chunk) for chunk in chunks)
    if size_bytes != state.staged_bytes:
        yield f"{state.staged_bytes} bytes are staged, not {size_bytes}"
    for chunk in chunks:
        groups = groups_of(state, chunk)
        if b"".join(group.job_ids for group in groups) != chunk.job_ids:
            yield "a chunk has other ids than its jobs"
        if chunk_crc(groups) != chunk.crc:
            yield "a chunk has another check sum than its jobs"


def readers_are_few_and_bounded(state: GridState) -> Iterator[str]:
    """The number of readers is bounded, and each has a valid index."""
    if len(state.readers) > READERS_MAX:
        yield f"{len(state.readers)} readers"
    for name, reader in state.readers.items():
        if not name or reader.index < 1:
            yield f"reader {name!r} at {reader.index}"


def access_lists_are_sound(state: GridState) -> Iterator[str]:
    """Accounts and roles are within bounds and valid, and no account has an unknown role."""
    access = state.access
    if len(access.accounts) > state.bounds.accounts or len(access.roles) > state.bounds.roles:
        yield f"{len(access.accounts)} accounts, {len(access.roles)} roles"
    for name, account in access.accounts.items():
        if account.name != name or why_bad_account(account):
            yield f"account {name!r}: {why_bad_account(account)}"
        for role in account.roles:
            if access.role(role) is None:
                yield f"account {name!r} has the role {role!r}"
    for name, one in access.roles.items():
        if one.name != name or why_bad_role(one):
            yield f"role {name!r}: {why_bad_role(one)}"


def tokens_are_counted(state: GridState) -> Iterator[str]:
    """Each limit's running tokens are those that jobs in ASSIGNED hold, recounted; the number of
    rules is bounded, and those without a rate have no clock."""
    for key, limit in state.limits.items():
        running = [one for one in state.jobs.values() if one.state is ASSIGNED]
        tokens = sum([tokens_in(limit, record) for record in running])
        if limit.running != tokens or key != (limit.scope, limit.name):
            yield f"{limit_text(limit)} counts {limit.running} tokens, not {tokens}"
        if limit.due_us and not limit.rate:
            yield f"{limit_text(limit)} has no rate, and a clock at {limit.due_us}"
    tables = len(state.limits), len(state.policies), len(state.weights)
    bounds = state.bounds.limits, state.bounds.policies, state.bounds.weights
    if any(size > bound for size, bound in zip(tables, bounds, strict=True)):
        yield f"{tables[0]} limits, {tables[1]} policies, {tables[2]} weights"


def topics_are_counted_and_bounded(state: GridState) -> Iterator[str]:
    """Indexes without gaps, nothing beyond a bound, sums equal to the records, no cursor past the
    end."""
    table = state.topics
    topics = list(table.by_name.values())
    for name, topic in table.by_name.items():
        indexes = range(topic.first_index, topic.last_index + 1)
        if topic.name != name or list(topic.messages) != list(indexes):
            yield f"the messages of {name!r}"
        sizes = [message.size_bytes for message in topic.messages.values()]
        if topic.size_bytes != sum(sizes):
            yield f"{name!r} keeps {sum(sizes)} bytes, not {topic.size_bytes}"
        if len(sizes) > topic.count_max or topic.size_bytes > topic.bytes_max:
            yield f"{name!r} keeps too much"
        for durable, cursor in topic.cursors.items():
            if cursor.index > topic.last_index:
                yield f"{durable!r} of {name!r} is ahead"
    sums = (
        sum(topic.size_bytes for topic in topics),
        sum(topic.first_index for topic in topics),
        sum(topic.last_index for topic in topics),
        sum(cursor.index for topic in topics for cursor in topic.cursors.values()),
    )
    if sums != (table.size_bytes, table.first_sum, table.last_sum, table.cursor_sum):
        yield f"sums of topics, which are {sums}"
    bytes_max = sum(topic.bytes_max for topic in topics)
    if len(topics) > state.bounds.topics or bytes_max > TOPICS_BYTES_MAX:
        yield f"{len(topics)} topics"


def children_wait_for_their_parents(state: GridState) -> Iterator[str]:
    """A job is blocked as long as it has an open edge, and each open edge of such a job is on the
    list of its parent, which has not ended or is unsettled."""
    table = state.edges
    for record in state.jobs.values():
        parents = table.parents.get(record.job_id)
        is_open = parents is not None and open_edges(parents.edges) > 0
        if (record.state is BLOCKED and not is_open) or (is_open and record.state in STARTED):
            yield f"{record.job_id.hex()} is {record.state.name}, edges open: {is_open}"
        if parents is None or record.state is not BLOCKED:
            continue
        for parent_id, _, is_met in each_edge(parents.edges):
            unsettled = table.unsettled.get(parent_id)
            is_listed = record.job_id in table.children.get(parent_id, ())
            is_told = unsettled is not None and record.job_id in unsettled.waiting
            if not is_met and not is_listed and not is_told:
                yield f"{record.job_id.hex()} waits for {parent_id.hex()}, which does not know it"
    for parent_id, children in table.children.items():
        if ending_of(state, parent_id) is not Ending.OPEN or not children:
            yield f"{parent_id.hex()} has ended, or has no children"
    for job_id in table.parents:
        if job_id not in state.jobs:
            yield f"{job_id.hex()} has parents, and is no job"


def schedules_are_bounded(state: GridState) -> Iterator[str]:
    """Schedules are keyed by name, and the sum of their next instants is correct."""
    table = state.schedules
    for name, schedule in table.by_name.items():
        if schedule.name != name:
            yield f"schedule {schedule.name!r} is kept as {name!r}"
        if schedule.next_ms <= schedule.last_due_ms:
            yield f"schedule {name!r} would fire {schedule.next_ms} after {schedule.last_due_ms}"
    next_sum = sum(schedule.next_ms for schedule in table.by_name.values())
    if next_sum != table.next_sum:
        yield f"sum of instants, which is {next_sum}"
    if len(table.by_name) > state.bounds.schedules:
        yield f"{len(table.by_name)} schedules"


def derived_fields_follow(state: GridState) -> Iterator[str]:
    """Derived counts, indexes and references equal those rebuilt from the persisted fields, in the
    same order."""
    data = encode_snapshot(state)
    try:
        fresh = decode_snapshot(data)
    except DiskError as error:
        yield str(error)
        return
    if encode_snapshot(fresh) != data:
        yield "a snapshot of the state differs from one of its copy"
    for name in sorted({**state.queues, **fresh.queues}):
        if _queue_counts(state, name) != _queue_counts(fresh, name):
            yield f"queue {name}: {_queue_counts(state, name)}, not {_queue_counts(fresh, name)}"
    for client_id, client in fresh.clients.items():
        mine = state.clients[client_id]
        if mine.in_flight != client.in_flight:
            yield f"{client_id} has {client.in_flight} in flight, not {mine.in_flight}"
        if mine.record_count != client.record_count:
            yield f"{client_id} has {client.record_count} records, not {mine.record_count}"
        if list(mine.owed.items()) != list(client.owed.items()):
            yield f"what {client_id} is owed"
    for worker_id, worker in fresh.workers.items():
        if list(state.workers[worker_id].held) != list(worker.held):
            yield f"what worker {worker_id.hex()} holds"
    for array_prefix, array in fresh.arrays.items():
        if _array_counts(state.arrays[array_prefix]) != _array_counts(array):
            yield f"counts of array {array.array_id.hex()}"
    for key, limit in fresh.limits.items():
        mine_running = state.limits[key].running
        if mine_running != limit.running:
            yield f"{limit_text(limit)} has {limit.running} tokens running, not {mine_running}"
    if [one.open_count for one in state.edges.parents.values()] != [
        one.open_count for one in fresh.edges.parents.values()
    ]:
        yield "edges that are open"
    if state.cut_counts != fresh.cut_counts:
        yield f"tasks that ended unassigned: {state.cut_counts}, not {fresh.cut_counts}"
    if state.reserved.keys() != fresh.reserved.keys():
        yield "what is reserved"
    if list(state.job_index.after(0)) != list(fresh.job_index.after(0)):
        yield "the index of jobs"
    for name in ("array_ids", "batch_names", "client_ids", "worker_ids"):
        if list(getattr(state, name)) != list(getattr(fresh, name)):
            yield f"the order of {name}"
    for index in ("dead", "confirmed", "idle_clients"):
        if list(getattr(state, index).items()) != list(getattr(fresh, index).items()):
            yield f"index {index}"


def _queue_counts(state: GridState, name: str) -> tuple[list[int], int, int] | None:
    queue = state.queues.get(name)
    return None if queue is None else (queue.counts, queue.tasks_waiting, queue.failed)


def _array_counts(array: ArrayRecord) -> tuple[int, int, list[JobId]]:
    return array.running, array.record_count, list(array.open_tasks)


# Invariants that the others rely on.
STRUCTURE: Final[tuple[Law, ...]] = (keys_name_records, owners_are_in_the_tables)
LAWS: Final[tuple[Law, ...]] = (
    ended_jobs_have_an_end,
    attempts_are_fenced,
    only_delayed_jobs_have_a_delay,
    attempts_stay_below_their_maximum,
    running_tasks_stay_below_their_maximum,
    sequence_numbers_are_unique,
    tasks_are_accounted_for,
    tasks_agree_with_their_arrays,
    nothing_empty_is_kept,
    references_are_counted,
    only_runnable_jobs_need_files,
    accepted_jobs_are_reserved,
    what_is_staged_is_counted,
    readers_are_few_and_bounded,
    access_lists_are_sound,
    tokens_are_counted,
    topics_are_counted_and_bounded,
    children_wait_for_their_parents,
    schedules_are_bounded,
    derived_fields_follow,
)
