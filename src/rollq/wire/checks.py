"""Validation of received messages, in either dialect.

A message is checked before anything else reads it: each field by the rule in its type (`fields`),
and rules about several fields by the check of its row (`registry`). Other conditions (a queue that
exists, a state that allows it) are checked by its handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from rollq.base import limits as most
from rollq.base import need_limits as needs
from rollq.base.digests import DIGEST_BYTES
from rollq.base.disk_use import DiskUse
from rollq.base.errors import ErrorCode
from rollq.base.flow_limits import ENDS_TOLD_MAX, PARENTS_PER_JOB_MAX
from rollq.base.ids import NIL_ID
from rollq.base.jobs import (
    AttemptRef,
    BlobRef,
    BulkItem,
    Condition,
    JobOptions,
    JobSecret,
    ParentEnd,
    ParentRef,
    ParentResult,
)
from rollq.base.needs import WorkerLoad
from rollq.base.staged import SAME_BODY, StagedGroup, StagedPart
from rollq.raft import types as raft
from rollq.wire.fields import LABELS, RESOURCES, MessageId
from rollq.wire.messages import AckJob, SubmitJob
from rollq.wire.registry import REQUEST_ID_OF, ROWS, Phase
from rollq.wire.rules import (
    INT64_MAX,
    Amount,
    Bounds,
    Bytes,
    Check,
    Free,
    Int,
    Many,
    Measured,
    Name,
    OutOfBoundsError,
    Struct,
    Text,
    bounds,
    bounds_of,
    bytes_max,
    compile_columns,
    compile_table,
)
from rollq.wire.run_messages import AckRun
from rollq.wire.subject_messages import Deliver, Publish

M = TypeVar("M", bound=msgspec.Struct)


def check_message(message: M) -> M:
    """The message, with measured numbers clamped to their bounds.

    Raises:
        OutOfBoundsError: a field is out of its bounds.
        RemoteError: BAD_ID, for an id that is not valid.
    """
    kind = type(message)
    try:
        if isinstance(message, AckRun) and _are_acks_within(message):
            return message
        checked: M = CHECKS[kind](message)
        if kind in CHECKED_TOGETHER:
            CHECKED_TOGETHER[kind](checked)
    except OutOfBoundsError as error:
        error.request_id = request_id_of(message)
        error.is_job = kind is SubmitJob
        raise
    return checked


def are_within(messages: Sequence[msgspec.Struct]) -> bool:
    """Whether messages are all of one frequent kind, and within their bounds. If not, they are
    checked one by one."""
    are_columns_within = MANY_WITHIN.get(type(messages[0])) if len(messages) >= MANY_MIN else None
    if are_columns_within is None or len(set(map(type, messages))) > 1:
        return False
    return are_columns_within(messages)


def request_id_of(message: msgspec.Struct) -> MessageId:
    """The request id under which the sender expects an answer; nil: none."""
    name = REQUEST_ID_OF.get(type(message))
    request_id: MessageId = NIL_ID if name is None else getattr(message, name)
    return request_id


def _are_acks_within(message: AckRun) -> bool:
    """Whether a run of acks is valid; if not, they are checked one by one."""
    return 0 < len(message.acks) <= most.RUN_JOBS_MAX and ACKS_WITHIN(message.acks)


FREE: Final = Free()
NAME: Final = Name()
NUMBER: Final = Int(0, INT64_MAX)
PAYLOAD: Final = Bytes(most.FRAME_BYTES_MAX)
DURATION: Final = Int(0, most.DURATION_MS_MAX)
BLOBS: Final = Many(most.BLOBS_PER_JOB_MAX, Struct(BlobRef))
MEMBERS: Final = Many(most.MEMBERS_TOLD_MAX, Struct(raft.Member))

# Structs in messages that are also part of the log and of snapshots, where nothing is checked: what
# was written must stay readable.
SHARED: Final[Mapping[type[msgspec.Struct], Bounds]] = {
    JobOptions: bounds(
        priority=Int(0, most.PRIORITY_MAX),
        delay_ms=DURATION,
        max_attempts=Int(0, most.ATTEMPTS_MAX),
        lease_ms=DURATION,
        run_ms_soft=DURATION,
        run_ms_max=DURATION,
        expire_ms=DURATION,
        result_ttl_ms=DURATION,
        retry_base_ms=DURATION,
        retry_exit_codes=Many(most.RETRY_EXIT_CODES_MAX, Int(-(2**31), 2**32 - 1)),
        worker_name=Text(most.WORKER_NAME_BYTES_MAX),
        ships_exec=FREE,
        secrets=Many(most.SECRETS_PER_JOB_MAX, Struct(JobSecret)),
        resources=RESOURCES,
        labels=LABELS,
        limits=Many(
            needs.LIMITS_PER_JOB_MAX, Amount(needs.NEED_NAME_BYTES_MAX, 1, needs.TOKENS_MAX)
        ),
        sticky_key=Text(needs.STICKY_KEY_BYTES_MAX),
        after=Many(PARENTS_PER_JOB_MAX, Struct(ParentRef)),
    ),
    ParentRef: bounds(job_id=NAME, condition=Int(0, max(Condition))),
    ParentResult: bounds(job_id=NAME, result=PAYLOAD, blobs=BLOBS),
    ParentEnd: bounds(
        job_id=NAME,
        state=Text(most.ACTION_BYTES_MAX),
        exec_name=Text(most.EXEC_NAME_BYTES_MAX),
        queue=Text(most.SUBJECT_BYTES_MAX),
        key=Text(most.JOB_KEY_BYTES_MAX),
        exit_code=Measured(-(2**31), 2**32 - 1),
        signal=Measured(0, 127),
        run_ms=Measured(0, most.RUN_MS_MAX),
        attempts=Int(0, 2**31 - 1),
        cause=Int(0, 2**31 - 1),  # a newer member may have others
        ended_ms=NUMBER,
        tasks=Many(ENDS_TOLD_MAX, Int(0, most.ARRAY_TASKS_MAX)),
    ),
    JobSecret: bounds(
        variable=Text(most.SECRET_NAME_BYTES_MAX),
        name=Text(most.SECRET_NAME_BYTES_MAX),
        as_file=FREE,
    ),
    WorkerLoad: bounds(
        cpu_permille=Measured(0, 1_000),
        memory_used_bytes=Measured(0, most.USED_BYTES_MAX),
        memory_total_bytes=Measured(0, most.USED_BYTES_MAX),
        cache_bytes=Measured(0, most.USED_BYTES_MAX),
        disk_free_bytes=Measured(0, most.USED_BYTES_MAX),
    ),
    DiskUse: bounds(
        log_bytes=Measured(0, most.USED_BYTES_MAX),
        snapshot_bytes=Measured(0, most.USED_BYTES_MAX),
        history_bytes=Measured(0, most.USED_BYTES_MAX),
        blob_bytes=Measured(0, most.USED_BYTES_MAX),
        other_bytes=Measured(0, most.USED_BYTES_MAX),
        free_bytes=Measured(0, most.USED_BYTES_MAX),
        total_bytes=Measured(0, most.USED_BYTES_MAX),
    ),
    AttemptRef: bounds(job_id=NAME, attempt=Int(0, 2**31 - 1), fence=NUMBER),
    BlobRef: bounds(digest=Bytes(DIGEST_BYTES, DIGEST_BYTES), size=Int(0, most.BLOB_BYTES_MAX)),
    BulkItem: bounds(job_id=NAME, body=PAYLOAD, blobs=BLOBS, key=Text(most.JOB_KEY_BYTES_MAX)),
    StagedGroup: bounds(
        queue=Text(most.SUBJECT_BYTES_MAX),
        exec_name=Text(most.EXEC_NAME_BYTES_MAX),
        job_ids=PAYLOAD,
        sizes=Many(most.IDS_PER_MESSAGE_MAX, Int(SAME_BODY, most.FRAME_BYTES_MAX)),
        bodies=PAYLOAD,
        options=Struct(JobOptions, optional=True),
        caches=Many(most.CACHES_PER_JOB_MAX, Text(most.CACHE_ID_BYTES_MAX)),
        keys=Text(most.FRAME_BYTES_MAX),
        blobs=Many(most.IDS_PER_MESSAGE_MAX, BLOBS),
        redrives=FREE,
    ),
    StagedPart: bounds(part=Text(most.BATCH_KEY_BYTES_MAX), count=NUMBER, crc=Int(0, 2**32 - 1)),
    raft.Entry: bounds(term=NUMBER, index=NUMBER, kind=Int(0, max(raft.EntryKind)), data=PAYLOAD),
    raft.Member: bounds(id=NUMBER, address=Text(most.ADDRESS_BYTES_MAX)),
    raft.Config: bounds(voters=MEMBERS, learners=MEMBERS),
    raft.SnapshotMeta: bounds(
        index=NUMBER,
        term=NUMBER,
        config=Struct(raft.Config),
        size_bytes=NUMBER,
        sha256=Bytes(DIGEST_BYTES),
        large_count=NUMBER,
    ),
}

# Messages of raft, which does not depend on the wire.
RAFT: Final[Mapping[type[msgspec.Struct], Bounds]] = {
    raft.RequestVote: bounds(
        to=NUMBER,
        sender=NUMBER,
        term=NUMBER,
        last_index=NUMBER,
        last_term=NUMBER,
        pre=FREE,
        transfer=FREE,
    ),
    raft.VoteResponse: bounds(
        to=NUMBER,
        sender=NUMBER,
        term=NUMBER,
        granted=FREE,
        pre=FREE,
        commit=NUMBER,
        commit_term=NUMBER,
    ),
    raft.AppendEntries: bounds(
        to=NUMBER,
        sender=NUMBER,
        term=NUMBER,
        prev_index=NUMBER,
        prev_term=NUMBER,
        commit=NUMBER,
        entries=Many(most.APPEND_BYTES_MAX // 4, Struct(raft.Entry)),
    ),
    raft.AppendResponse: bounds(
        to=NUMBER,
        sender=NUMBER,
        term=NUMBER,
        index=NUMBER,
        rejected=FREE,
        hint_index=NUMBER,
        hint_term=NUMBER,
    ),
    raft.RaftHeartbeat: bounds(
        to=NUMBER, sender=NUMBER, term=NUMBER, commit=NUMBER, context=NUMBER
    ),
    raft.RaftHeartbeatResponse: bounds(to=NUMBER, sender=NUMBER, term=NUMBER, context=NUMBER),
    raft.InstallSnapshot: bounds(
        to=NUMBER,
        sender=NUMBER,
        term=NUMBER,
        meta=Struct(raft.SnapshotMeta),
        offset=NUMBER,
        length=Int(0, most.FRAME_BYTES_MAX),
        data=PAYLOAD,
    ),
    raft.InstallSnapshotResponse: bounds(
        to=NUMBER, sender=NUMBER, term=NUMBER, index=NUMBER, offset=NUMBER, installed=FREE
    ),
    raft.TimeoutNow: bounds(to=NUMBER, sender=NUMBER, term=NUMBER),
    raft.ReadIndex: bounds(to=NUMBER, sender=NUMBER, term=NUMBER, request=NUMBER),
    raft.ReadIndexResponse: bounds(
        to=NUMBER, sender=NUMBER, term=NUMBER, request=NUMBER, index=NUMBER
    ),
}


def _bounds_of_all() -> dict[type[msgspec.Struct], Bounds]:
    """The bounds of every message, and of every struct that is part of one."""
    known: dict[type[msgspec.Struct], Bounds] = {**SHARED, **RAFT}
    wanted = [row.struct for row in ROWS]
    while wanted:
        kind = wanted.pop()
        if kind not in known:
            known[kind] = bounds_of(kind)
            wanted.extend(_parts(known[kind]))
    return known


def _parts(rules: Bounds) -> Iterator[type[msgspec.Struct]]:
    for rule in rules.values():
        inner = rule
        while isinstance(inner, Many):
            inner = inner.each
        if isinstance(inner, Struct):
            yield inner.kind


BOUNDS: Final = _bounds_of_all()
CHECKS: Final[Mapping[type[msgspec.Struct], Check]] = compile_table(
    BOUNDS,
    {JobOptions: ErrorCode.BAD_OPTIONS} | {row.struct: row.refusal for row in ROWS},
)
ACKS_WITHIN: Final = compile_columns(BOUNDS[AckJob])
MANY_WITHIN: Final[Mapping[type[msgspec.Struct], Callable[[Sequence[Any]], bool]]] = {
    kind: compile_columns(BOUNDS[kind]) for kind in (Publish, Deliver)
}
MANY_MIN: Final = 4  # fewer are checked faster one by one
# The payload of a type in the compact dialect; more is refused before it is decoded. A newer peer
# may have appended fields.
COMPACT_BYTES_MAX: Final[Mapping[int, int]] = {
    row.number: min(
        bytes_max(row.struct, BOUNDS) + most.NEWER_FIELDS_BYTES_MAX,
        most.LOGIN_BYTES_MAX if row.phase is Phase.LOGIN else most.FRAME_BYTES_MAX,
    )
    for row in ROWS
}
CHECKED_TOGETHER: Final = {row.struct: row.check for row in ROWS if row.check is not None}
