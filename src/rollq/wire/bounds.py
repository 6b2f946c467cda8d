"""The bounds of every field of every message: the one table that each message passes.

A row names all fields of its struct, in their order. A message that a peer sends, in either
dialect, is checked by its row before anything else sees it (`checks`). So what a handler gets fits
63 bits, a frame and the tables of the grid, and so does what reaches a command. What else a request
must be (a queue that exists, a state that allows it) is the business of whoever answers it.

A new message, or a new field of one, needs its bounds here, or the package cannot be imported.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base import limits as most
from rollq.base.digests import DIGEST_BYTES
from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef, BlobRef, BulkItem, JobOptions, Status
from rollq.base.staged import SAME_BODY, StagedGroup, StagedPart
from rollq.raft import types as raft
from rollq.wire import blob_messages as b
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire import reader_messages as r
from rollq.wire import staging_messages as s
from rollq.wire import table_messages as t
from rollq.wire.rules import (
    INT64_MAX,
    Bytes,
    Check,
    Free,
    Int,
    Many,
    Measured,
    Name,
    Row,
    Struct,
    Text,
    compile_table,
    row,
)

FREE: Final = Free()
ID: Final = Free()  # its length is the decoder's to check
NAME: Final = Name()
NUMBER: Final = Int(0, INT64_MAX)
INT32: Final = Int(-(2**31), 2**31 - 1)
COUNT: Final = Int(0, 2**31 - 1)
PAYLOAD: Final = Bytes(most.FRAME_BYTES_MAX)
LINE: Final = Text(4 * most.DETAIL_BYTES_MAX)  # a sentence; details are cut to so many characters
ADDRESS: Final = Text(most.ADDRESS_BYTES_MAX)
FEATURES: Final = Many(most.FEATURES_MAX, Text(most.FEATURE_BYTES_MAX))
GROUP: Final = Text(most.GROUP_BYTES_MAX)
SUBJECT: Final = Text(most.SUBJECT_BYTES_MAX)
CLIENT: Final = Text(most.CLIENT_ID_BYTES_MAX)
EXEC: Final = Text(most.EXEC_NAME_BYTES_MAX)
KEY: Final = Text(most.JOB_KEY_BYTES_MAX)
OPTIONS: Final = Struct(JobOptions, optional=True)
DURATION: Final = Int(0, most.DURATION_MS_MAX)
BLOBS: Final = Many(most.BLOBS_PER_JOB_MAX, Struct(BlobRef))
CACHES: Final = Many(most.CACHES_PER_JOB_MAX, Text(most.CACHE_ID_BYTES_MAX))
IDS: Final = Many(most.IDS_PER_MESSAGE_MAX, ID)
HELD: Final = Many(most.IDS_PER_MESSAGE_MAX, Struct(AttemptRef))
EXIT_CODE: Final = Measured(-(2**31), 2**32 - 1)  # Windows has unsigned ones
SIGNAL: Final = Measured(0, 127)
RUN_MS: Final = Measured(0, most.RUN_MS_MAX)
USED_BYTES: Final = Measured(0, most.USED_BYTES_MAX)
DIGEST: Final = Bytes(DIGEST_BYTES, DIGEST_BYTES)
OFFSETS: Final = Many(2, Int(o.UNWANTED, INT64_MAX), 2)
ERROR: Final = Int(0, 2**16 - 1)
MEMBER: Final = NUMBER
MEMBERS: Final = Many(most.MEMBERS_TOLD_MAX, Struct(raft.Member))
BOOTS: Final = Many(most.MEMBERS_TOLD_MAX, Many(2, NUMBER, 2))
ENTRIES: Final = Many(most.APPEND_BYTES_MAX // 4, Struct(raft.Entry))

# Structs within messages. They are also part of the log and of snapshots, where nothing is checked:
# what was written once must be readable for ever.
PARTS: Final[dict[type[msgspec.Struct], Row]] = {
    JobOptions: row(
        priority=Int(0, most.PRIORITY_MAX),
        delay_ms=DURATION,
        max_attempts=Int(0, most.ATTEMPTS_MAX),
        lease_ms=DURATION,
        run_ms_soft=DURATION,
        run_ms_max=DURATION,
        expire_ms=DURATION,
        result_ttl_ms=DURATION,
        retry_base_ms=DURATION,
        retry_exit_codes=Many(most.RETRY_EXIT_CODES_MAX, Int(*EXIT_CODE)),
        worker_name=Text(most.WORKER_NAME_BYTES_MAX),
        ships_exec=FREE,
    ),
    AttemptRef: row(job_id=NAME, attempt=COUNT, fence=NUMBER),
    BlobRef: row(digest=DIGEST, size=Int(0, most.BLOB_BYTES_MAX)),
    BulkItem: row(job_id=NAME, body=PAYLOAD, blobs=BLOBS, key=KEY),
    StagedGroup: row(
        queue=SUBJECT,
        exec_name=EXEC,
        job_ids=PAYLOAD,
        sizes=Many(most.IDS_PER_MESSAGE_MAX, Int(SAME_BODY, most.FRAME_BYTES_MAX)),
        bodies=PAYLOAD,
        options=OPTIONS,
        caches=CACHES,
        keys=Text(most.FRAME_BYTES_MAX),
        blobs=Many(most.IDS_PER_MESSAGE_MAX, BLOBS),
        redrives=FREE,
    ),
    StagedPart: row(part=Text(most.BATCH_KEY_BYTES_MAX), count=NUMBER, crc=Int(0, 2**32 - 1)),
    raft.Entry: row(term=NUMBER, index=NUMBER, kind=Int(0, max(raft.EntryKind)), data=PAYLOAD),
    raft.Member: row(id=MEMBER, address=ADDRESS),
    raft.Config: row(voters=MEMBERS, learners=MEMBERS),
    raft.SnapshotMeta: row(
        index=NUMBER,
        term=NUMBER,
        config=Struct(raft.Config),
        size_bytes=NUMBER,
        sha256=Bytes(DIGEST_BYTES),
    ),
    r.Cut: row(first=NUMBER, last=NUMBER, size_bytes=NUMBER, has_columns=FREE),
    t.TablePart: row(table=Text(most.TABLE_NAME_BYTES_MAX), row_count=NUMBER, size_bytes=NUMBER),
}

SESSIONS: Final[dict[type[msgspec.Struct], Row]] = {
    # a client speaks
    m.HelloClient: row(client_id=CLIENT, desired_parallelism=INT32, features=FEATURES, plain=FREE),
    m.SubmitJob: row(
        job_id=NAME,
        client_id=CLIENT,
        subject=SUBJECT,
        exec_name=EXEC,
        body=PAYLOAD,
        options=OPTIONS,
        blobs=BLOBS,
        caches=CACHES,
        job_key=KEY,
    ),
    m.SubmitBulk: row(
        request_id=ID,
        client_id=CLIENT,
        subject=SUBJECT,
        exec_name=EXEC,
        items=Many(most.IDS_PER_MESSAGE_MAX, Struct(BulkItem)),
        options=OPTIONS,
        batch_key=Text(most.BATCH_KEY_BYTES_MAX),
        caches=CACHES,
    ),
    m.SubmitArray: row(
        array_id=NAME,
        client_id=CLIENT,
        subject=SUBJECT,
        exec_name=EXEC,
        body=PAYLOAD,
        task_count=Int(1, most.ARRAY_TASKS_MAX),
        options=OPTIONS,
        running_max=COUNT,
        blobs=BLOBS,
        caches=CACHES,
        first_task=Int(0, 1),
    ),
    m.Cancel: row(request_id=ID, job_ids=IDS),
    m.Confirm: row(job_ids=IDS),
    m.Query: row(
        request_id=ID,
        what=Text(most.ACTION_BYTES_MAX),
        key=Bytes(most.QUERY_KEY_BYTES_MAX),
        limit=Int(1, most.QUERY_ROWS_MAX),
    ),
    m.Admin: row(request_id=ID, action=Text(most.ACTION_BYTES_MAX), arguments=PAYLOAD),
    o.WatchOutput: row(
        request_id=ID, job_id=NAME, attempt=COUNT, offsets=OFFSETS, on=FREE, whole=FREE
    ),
    s.StageJobs: row(
        request_id=ID,
        batch_key=Text(most.BATCH_KEY_BYTES_MAX),
        part=Text(most.BATCH_KEY_BYTES_MAX),
        number=NUMBER,
        groups=Many(most.STAGE_CHUNK_JOBS_MAX, Struct(StagedGroup)),
        client_id=CLIENT,
    ),
    s.CommitBatch: row(
        request_id=ID,
        batch_key=Text(most.BATCH_KEY_BYTES_MAX),
        parts=Many(most.STAGED_PARTS_MAX, Struct(StagedPart)),
        client_id=CLIENT,
    ),
    s.DropBatch: row(request_id=ID, batch_key=Text(most.BATCH_KEY_BYTES_MAX), client_id=CLIENT),
    # a worker speaks
    m.HelloWorker: row(
        worker_id=ID,  # nil: one of the first legacy form
        patterns=Many(most.PATTERNS_PER_WORKER_MAX, Text(most.PATTERN_BYTES_MAX)),
        name=Text(most.WORKER_NAME_BYTES_MAX),
        incarnation=NUMBER,
        slots=COUNT,
        holding=HELD,
        features=FEATURES,
        blob_address=ADDRESS,
        plain=FREE,
    ),
    m.Credit: row(count=COUNT),  # limited to CREDIT_MAX where it is kept
    m.AckJob: row(
        job_id=NAME,
        attempt=COUNT,
        fence=NUMBER,
        status=Int(0, max(Status)),
        result=PAYLOAD,
        exit_code=EXIT_CODE,
        signal=SIGNAL,
        run_ms=RUN_MS,
        peak_bytes=USED_BYTES,
        blobs=BLOBS,
        fetched_bytes=USED_BYTES,
        held_bytes=USED_BYTES,
    ),
    m.Nack: row(
        job_id=NAME,
        attempt=COUNT,
        fence=NUMBER,
        detail=Text(most.INLINE_BYTES_MAX),
        not_started=FREE,
    ),
    m.Heartbeat: row(holding=HELD),
    m.Announce: row(
        added=Many(most.PROGRAMS_MAX, EXEC),
        removed=Many(most.PROGRAMS_MAX, EXEC),
        is_any=FREE,
        ships=FREE,
    ),
    m.Goodbye: row(reason=LINE),
    m.Ping: row(),
    o.OutputChunk: row(
        watch_id=ID,
        attempt=COUNT,
        stream=Int(0, len(o.STREAMS) - 1),
        offset=NUMBER,
        data=Bytes(most.OUTPUT_CHUNK_BYTES_MAX),
        totals=Many(2, NUMBER, 2),
        end=Int(0, o.JOB_ENDED),
    ),
    # a member answers
    m.Welcome: row(group=GROUP, member_id=MEMBER, features=FEATURES, owed=COUNT, ping_ms=DURATION),
    m.Pong: row(),
    m.NotLeader: row(leader=ADDRESS, members=Many(most.MEMBERS_TOLD_MAX, ADDRESS)),
    m.Accepted: row(request_id=ID, count=NUMBER, known=FREE, ended=FREE),
    m.Error: row(request_id=ID, code=ERROR, message=LINE, hint=LINE, retryable=FREE),
    m.Result: row(
        job_id=NAME,
        outcome=Text(most.ACTION_BYTES_MAX),
        status=COUNT,
        result=PAYLOAD,
        exec_name=EXEC,
        exit_code=EXIT_CODE,
        signal=SIGNAL,
        run_ms=RUN_MS,
        attempt=COUNT,
        cause=COUNT,
        detail=LINE,
        client_id=CLIENT,
        count=COUNT,
        blobs=BLOBS,
        job_key=KEY,
        worker=Text(most.WORKER_NAME_BYTES_MAX),
    ),
    m.Answer: row(request_id=ID, index=NUMBER, value=PAYLOAD),
    m.AssignJob: row(
        job_id=NAME,
        attempt=COUNT,
        fence=NUMBER,
        lease_ms=DURATION,
        subject=SUBJECT,
        exec_name=EXEC,
        body=PAYLOAD,
        options=OPTIONS,
        client_id=CLIENT,
        task_number=Int(-1, most.ARRAY_TASKS_MAX),
        blobs=BLOBS,
        expect_ms=DURATION,
    ),
    m.StopJob: row(job_id=NAME, attempt=COUNT, fence=NUMBER),
    m.AckTaken: row(job_id=ID, attempt=COUNT, stale=FREE),
    o.TellOutput: row(
        watch_id=ID, job_id=NAME, attempt=COUNT, fence=NUMBER, offsets=OFFSETS, on=FREE, whole=FREE
    ),
    # both ways
    m.CachePut: row(request_id=ID, payload=PAYLOAD),
    m.CacheAck: row(request_id=ID, payload=PAYLOAD),
}

LINKS: Final[dict[type[msgspec.Struct], Row]] = {
    # between members
    m.LeaderHello: row(
        member_id=MEMBER,
        address=ADDRESS,
        cluster_id=Bytes(most.CLUSTER_ID_BYTES_MAX),
        boot=NUMBER,
        last_index=NUMBER,
        newcomer=FREE,
        lives=Many(most.LIVES_MAX, NUMBER),
        features=FEATURES,
    ),
    m.RollAnswer: row(
        member_id=MEMBER,
        address=ADDRESS,
        cluster_id=Bytes(most.CLUSTER_ID_BYTES_MAX),
        boot_known=NUMBER,
        to_boot=NUMBER,
        newcomer=FREE,
        roster=MEMBERS,
        config=Struct(raft.Config),
        config_index=NUMBER,
        boots=BOOTS,
        features=FEATURES,
        noted=FREE,
    ),
    m.HistoryFetch: row(first=NUMBER, last=NUMBER),
    m.HistoryRows: row(first=NUMBER, last=NUMBER, lines=Many(most.FRAME_BYTES_MAX // 2, FREE)),
    m.MemberReport: row(
        member_id=MEMBER, wall_ms=NUMBER, index=NUMBER, state_hash=Bytes(most.STATE_HASH_BYTES_MAX)
    ),
    raft.RequestVote: row(
        to=MEMBER,
        sender=MEMBER,
        term=NUMBER,
        last_index=NUMBER,
        last_term=NUMBER,
        pre=FREE,
        transfer=FREE,
    ),
    raft.VoteResponse: row(
        to=MEMBER,
        sender=MEMBER,
        term=NUMBER,
        granted=FREE,
        pre=FREE,
        commit=NUMBER,
        commit_term=NUMBER,
    ),
    raft.AppendEntries: row(
        to=MEMBER,
        sender=MEMBER,
        term=NUMBER,
        prev_index=NUMBER,
        prev_term=NUMBER,
        commit=NUMBER,
        entries=ENTRIES,
    ),
    raft.AppendResponse: row(
        to=MEMBER,
        sender=MEMBER,
        term=NUMBER,
        index=NUMBER,
        rejected=FREE,
        hint_index=NUMBER,
        hint_term=NUMBER,
    ),
    raft.Heartbeat: row(to=MEMBER, sender=MEMBER, term=NUMBER, commit=NUMBER, context=NUMBER),
    raft.HeartbeatResponse: row(to=MEMBER, sender=MEMBER, term=NUMBER, context=NUMBER),
    raft.InstallSnapshot: row(
        to=MEMBER,
        sender=MEMBER,
        term=NUMBER,
        meta=Struct(raft.SnapshotMeta),
        offset=NUMBER,
        length=Int(0, most.FRAME_BYTES_MAX),
        data=PAYLOAD,
    ),
    raft.InstallSnapshotResponse: row(
        to=MEMBER, sender=MEMBER, term=NUMBER, index=NUMBER, offset=NUMBER, installed=FREE
    ),
    raft.TimeoutNow: row(to=MEMBER, sender=MEMBER, term=NUMBER),
    raft.ReadIndex: row(to=MEMBER, sender=MEMBER, term=NUMBER, request=NUMBER),
    raft.ReadIndexResponse: row(
        to=MEMBER, sender=MEMBER, term=NUMBER, request=NUMBER, index=NUMBER
    ),
    # on links for blobs
    b.HelloBlobs: row(who=Text(most.ACTION_BYTES_MAX), group=GROUP, features=FEATURES),
    b.BlobAsk: row(request_id=ID, digests=Many(most.BLOB_ASK_MAX, FREE)),
    b.BlobHave: row(
        request_id=ID, sizes=Many(most.BLOB_ASK_MAX, Int(b.MISSING, most.BLOB_BYTES_MAX))
    ),
    b.BlobPut: row(digest=DIGEST, size=NUMBER),
    b.BlobGo: row(digest=DIGEST, offset=Int(b.COMPLETE, INT64_MAX), error=ERROR, detail=LINE),
    b.BlobChunk: row(
        digest=DIGEST, offset=NUMBER, data=PAYLOAD, packed=Int(0, most.BLOB_CHUNK_BYTES_MAX)
    ),
    b.BlobStored: row(digest=DIGEST, error=ERROR, detail=LINE),
    b.BlobGet: row(digest=DIGEST, offset=NUMBER),
    b.BlobInfo: row(digest=DIGEST, size=NUMBER, error=ERROR, detail=LINE),
    b.BlobMore: row(digest=DIGEST, offset=NUMBER),
    b.BlobDrop: row(digest=DIGEST, error=ERROR),
    # on links of readers
    r.HelloReader: row(group=GROUP, features=FEATURES),
    r.SpanAsk: row(request_id=ID, fresh=FREE, first=NUMBER, last=NUMBER),
    r.SpanTold: row(
        request_id=ID,
        floor=NUMBER,
        applied=NUMBER,
        leads=FREE,
        cuts=Many(most.READER_CUTS_MAX, Struct(r.Cut)),
    ),
    r.PiecesAsk: row(
        request_id=ID, first=NUMBER, last=NUMBER, forms=Many(16, Text(most.ACTION_BYTES_MAX))
    ),
    r.PieceChunk: row(
        request_id=ID,
        first=NUMBER,
        last=NUMBER,
        form=Text(most.ACTION_BYTES_MAX),
        size_bytes=NUMBER,
        offset=NUMBER,
        data=PAYLOAD,
        packed=FREE,
    ),
    t.TableAsk: row(
        request_id=ID,
        tables=Many(64, Text(most.TABLE_NAME_BYTES_MAX)),
        index_min=NUMBER,
        fresh=FREE,
    ),
    t.TableTold: row(
        request_id=ID,
        export_id=Text(most.ACTION_BYTES_MAX),
        index=NUMBER,
        parts=Many(most.FRAME_BYTES_MAX // 8, Struct(t.TablePart)),
    ),
    t.PartAsk: row(
        request_id=ID, export_id=Text(most.ACTION_BYTES_MAX), number=COUNT, offset=NUMBER
    ),
    t.ResultsAsk: row(request_id=ID, job_ids=Many(most.RESULTS_ASK_MAX, ID), index_min=NUMBER),
}

BOUNDS: Final[dict[type[msgspec.Struct], Row]] = {**PARTS, **SESSIONS, **LINKS}

# The code of a refusal, where it is not BAD_PAYLOAD.
CODES: Final[dict[type[msgspec.Struct], ErrorCode]] = {
    JobOptions: ErrorCode.BAD_OPTIONS,
    m.HelloClient: ErrorCode.BAD_HANDSHAKE,
    m.HelloWorker: ErrorCode.BAD_HANDSHAKE,
    m.Credit: ErrorCode.BAD_CREDIT,
}

CHECKS: Final[dict[type[msgspec.Struct], Check]] = compile_table(BOUNDS, CODES)
