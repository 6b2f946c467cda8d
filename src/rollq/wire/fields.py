"""The types of the fields of messages: Python type and bounds.

A field of a message is of one of these types, a flag, or a struct; any other type has no bounds,
and the package cannot be imported (`rules.rules_of`). So values in handlers fit 63 bits, a frame
and the tables of the grid. A type that only one module uses is defined there.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import ids
from rollq.base import limits as most
from rollq.base import need_limits as needs
from rollq.base.digests import DIGEST_BYTES
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from rollq.base.ids import GUID_BYTES
from rollq.base.jobs import AttemptRef, BlobRef, ParentEnd, ParentResult, Status
from rollq.wire.rules import INT64_MAX, Amount, Bytes, Free, Int, Many, Measured, Name, Struct, Text

# Ids of the wrong length are refused while a message is decoded.
Id: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=GUID_BYTES, max_length=GUID_BYTES), Free()]
MessageId: TypeAlias = Id
WorkerId: TypeAlias = Id  # nil: a worker of the first legacy form
# A job or an array; never nil.
JobId: TypeAlias = Annotated[
    bytes, msgspec.Meta(min_length=GUID_BYTES, max_length=GUID_BYTES), Name()
]
Digest: TypeAlias = Annotated[
    bytes,
    msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES),
    Bytes(DIGEST_BYTES, DIGEST_BYTES),
]
MemberId: TypeAlias = Annotated[ids.MemberId, Int(0, INT64_MAX)]
ClientId: TypeAlias = Annotated[ids.ClientId, Text(most.CLIENT_ID_BYTES_MAX)]
AccountName: TypeAlias = Annotated[str, Text(most.ACCOUNT_NAME_BYTES_MAX)]

# --- numbers
Number: TypeAlias = Annotated[int, Int(0, INT64_MAX)]
Count: TypeAlias = Annotated[int, Int(0, 2**31 - 1)]
Int32: TypeAlias = Annotated[int, Int(-(2**31), 2**31 - 1)]
Duration: TypeAlias = Annotated[int, Int(0, most.DURATION_MS_MAX)]  # in milliseconds
ErrorNumber: TypeAlias = Annotated[int, Int(0, 2**16 - 1)]
JobStatus: TypeAlias = Annotated[int, Int(0, int(max(Status)))]
# Measured by a worker: see `rules.Measured`.
ExitCode: TypeAlias = Annotated[int, Measured(-(2**31), 2**32 - 1)]  # Windows has unsigned ones
SignalNumber: TypeAlias = Annotated[int, Measured(0, 127)]
RunMs: TypeAlias = Annotated[int, Measured(0, most.RUN_MS_MAX)]
UsedBytes: TypeAlias = Annotated[int, Measured(0, most.USED_BYTES_MAX)]

# --- texts and bytes
Payload: TypeAlias = Annotated[bytes, Bytes(most.FRAME_BYTES_MAX)]
Line: TypeAlias = Annotated[str, Text(4 * most.DETAIL_BYTES_MAX)]  # details are cut by characters
Subject: TypeAlias = Annotated[str, Text(most.SUBJECT_BYTES_MAX)]
ExecName: TypeAlias = Annotated[str, Text(most.EXEC_NAME_BYTES_MAX)]
WorkerName: TypeAlias = Annotated[str, Text(most.WORKER_NAME_BYTES_MAX)]
GroupName: TypeAlias = Annotated[str, Text(most.GROUP_BYTES_MAX)]
JobKey: TypeAlias = Annotated[str, Text(most.JOB_KEY_BYTES_MAX)]
BatchKey: TypeAlias = Annotated[str, Text(most.BATCH_KEY_BYTES_MAX)]
TableName: TypeAlias = Annotated[str, Text(most.TABLE_NAME_BYTES_MAX)]
Keyword: TypeAlias = Annotated[str, Text(most.ACTION_BYTES_MAX)]  # of a view, a verb, a form …
Address: TypeAlias = Annotated[str, Text(most.ADDRESS_BYTES_MAX)]  # host:port

# --- several
Features: TypeAlias = Annotated[
    tuple[str, ...], Many(most.FEATURES_MAX, Text(most.FEATURE_BYTES_MAX))
]
LABELS: Final = Many(needs.LABELS_MAX, Text(needs.LABEL_BYTES_MAX, 1))
RESOURCES: Final = Many(needs.RESOURCES_MAX, Amount(needs.NEED_NAME_BYTES_MAX, 1, needs.AMOUNT_MAX))
Labels: TypeAlias = Annotated[tuple[str, ...], LABELS]
Resources: TypeAlias = Annotated[tuple[tuple[str, int], ...], RESOURCES]
JobIds: TypeAlias = Annotated[tuple[Id, ...], Many(most.IDS_PER_MESSAGE_MAX, Free())]
HeldAttempts: TypeAlias = Annotated[
    tuple[AttemptRef, ...], Many(most.IDS_PER_MESSAGE_MAX, Struct(AttemptRef))
]
HeldPart: TypeAlias = Annotated[
    tuple[AttemptRef, ...], Many(most.HOLDINGS_PER_MESSAGE_MAX, Struct(AttemptRef))
]
HeldCount: TypeAlias = Annotated[int, Int(0, most.IDS_PER_MESSAGE_MAX)]
Blobs: TypeAlias = Annotated[tuple[BlobRef, ...], Many(most.BLOBS_PER_JOB_MAX, Struct(BlobRef))]
ParentResults: TypeAlias = Annotated[
    tuple[ParentResult, ...], Many(PARENTS_PER_JOB_MAX, Struct(ParentResult))
]
ParentEnds: TypeAlias = Annotated[
    tuple[ParentEnd, ...], Many(PARENTS_PER_JOB_MAX, Struct(ParentEnd))
]
CacheIds: TypeAlias = Annotated[
    tuple[str, ...], Many(most.CACHES_PER_JOB_MAX, Text(most.CACHE_ID_BYTES_MAX))
]
