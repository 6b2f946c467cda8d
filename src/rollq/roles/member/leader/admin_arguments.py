"""The arguments of admin verbs, with their bounds; used by `VERBS` of `admin`."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits, need_limits
from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash
from rollq.base.digests import DIGEST_BYTES
from rollq.base.hints import ExecHint
from rollq.base.ids import GUID_BYTES
from rollq.base.jobs import BlobRef, CacheEntry, JobOptions, JobSecret, ParentRef
from rollq.base.needs import SCORES
from rollq.base.topic_limits import TOPIC_PATTERNS_MAX
from rollq.grid import commands
from rollq.wire.checks import BOUNDS as WIRE_BOUNDS
from rollq.wire.fields import Address, ClientId, Duration, JobId, Subject
from rollq.wire.rules import INT64_MAX, Amount, Bounds, Bytes, Free, Int, Many, Struct, Text, bounds
from rollq.wire.subject_messages import DurableName, TopicName

# The types of arguments: as those of messages (`wire.fields`).
ID: Final = Bytes(GUID_BYTES, GUID_BYTES)
IDS_MAX: Final = limits.IDS_PER_MESSAGE_MAX
Ids: TypeAlias = Annotated[tuple[bytes, ...], Many(IDS_MAX, ID)]
RedriveItems: TypeAlias = Annotated[
    tuple[commands.RedriveItem, ...], Many(IDS_MAX, Struct(commands.RedriveItem))
]
Hints: TypeAlias = Annotated[tuple[ExecHint, ...], Many(limits.HINTS_MAX, Struct(ExecHint))]
CacheId: TypeAlias = Annotated[str, Text(limits.CACHE_ID_BYTES_MAX)]
CacheEntries: TypeAlias = Annotated[
    tuple[CacheEntry, ...], Many(limits.CACHE_ENTRIES_MAX, Struct(CacheEntry))
]
Pattern: TypeAlias = Annotated[str, Text(limits.PATTERN_BYTES_MAX)]
Patterns: TypeAlias = Annotated[
    tuple[str, ...], Many(TOPIC_PATTERNS_MAX, Text(limits.PATTERN_BYTES_MAX), 1)
]
ReaderName: TypeAlias = Annotated[str, Text(limits.READER_NAME_BYTES_MAX)]
Positive: TypeAlias = Annotated[int, Int(1, INT64_MAX)]
AccessName: TypeAlias = Annotated[str, Text(limits.ACCOUNT_NAME_BYTES_MAX)]
AccessVersion: TypeAlias = Annotated[int, Int(0, INT64_MAX)]


class QueueArguments(msgspec.Struct):
    """pause, resume"""

    queue: Subject


class RedriveArguments(msgspec.Struct):
    """redrive"""

    items: RedriveItems


class PurgeArguments(msgspec.Struct):
    """purge"""

    job_ids: Ids


class SettingsArguments(msgspec.Struct):
    """settings"""

    settings: commands.Settings


class HintsArguments(msgspec.Struct):
    """set_hints"""

    hints: Hints


class PutCacheArguments(msgspec.Struct):
    """put_cache"""

    cache_id: CacheId
    entries: CacheEntries
    target_pattern: Pattern


class RemoveCacheArguments(msgspec.Struct):
    """remove_cache"""

    cache_id: CacheId


class PutTopicArguments(msgspec.Struct):
    """put_topic"""

    name: TopicName
    patterns: Patterns
    age_ms: Duration
    bytes_max: Positive
    count_max: Positive


class RemoveTopicArguments(msgspec.Struct):
    """remove_topic"""

    name: TopicName


class ForgetCursorArguments(msgspec.Struct):
    """forget_cursor"""

    topic: TopicName
    durable: DurableName


class HoldArguments(msgspec.Struct):
    """hold_history"""

    name: ReaderName
    index: Positive


class FreeArguments(msgspec.Struct):
    """free_history"""

    name: ReaderName


class DismissArguments(msgspec.Struct):
    """dismiss"""

    worker_ids: Ids


class DrainArguments(msgspec.Struct):
    """drain, undrain"""

    worker_ids: Ids


class MemberArguments(msgspec.Struct):
    """add_member, remove_member, transfer"""

    member_id: Positive
    address: Address = ""


class PutAccountArguments(msgspec.Struct):
    """access_put_account"""

    account: Account
    version: AccessVersion = 0


class PutRoleArguments(msgspec.Struct):
    """access_put_role"""

    role: AccessRole
    version: AccessVersion = 0


class AccessNameArguments(msgspec.Struct):
    """access_remove_account, access_remove_role"""

    name: AccessName


Args: TypeAlias = Annotated[
    tuple[str, ...], Many(limits.JOB_ARGS_MAX, Text(limits.INLINE_BYTES_MAX))
]
Variables: TypeAlias = Annotated[
    tuple[tuple[str, str], ...],
    Many(limits.JOB_ENV_MAX, Many(2, Text(limits.JOB_ENV_BYTES_MAX), 2)),
]
VariableNames: TypeAlias = Annotated[
    tuple[str, ...], Many(limits.JOB_ENV_MAX, Text(limits.JOB_ENV_BYTES_MAX))
]


class RedriveChangedArguments(msgspec.Struct):
    """redrive_changed"""

    job_ids: Ids
    keeps_args: bool = True
    args: Args = ()  # used if `keeps_args` is false
    env: Variables = ()  # variables to set
    unset: VariableNames = ()
    queue: Subject = ""  # empty: the queue of each job


class AgainArguments(msgspec.Struct):
    """again"""

    job_id: JobId
    keeps_args: bool = True
    args: Args = ()
    env: Variables = ()
    unset: VariableNames = ()
    queue: Subject = ""


PairWeight: TypeAlias = Annotated[
    tuple[tuple[str, int], ...],
    Many(len(SCORES), Amount(need_limits.NEED_NAME_BYTES_MAX, 0, need_limits.SCORE_WEIGHT_MAX)),
]
Word: TypeAlias = Annotated[str, Text(limits.ACTION_BYTES_MAX)]
LimitName: TypeAlias = Annotated[str, Text(need_limits.LIMIT_NAME_BYTES_MAX)]
TokenCount: TypeAlias = Annotated[int, Int(0, need_limits.TOKENS_MAX)]
Rate: TypeAlias = Annotated[int, Int(0, need_limits.RATE_MAX)]
ShareWeight: TypeAlias = Annotated[int, Int(1, need_limits.CLIENT_WEIGHT_MAX)]


class PutPolicyArguments(msgspec.Struct):
    """put_policy"""

    pattern: Subject
    placement: Word
    weights: PairWeight = ()


class PatternArguments(msgspec.Struct):
    """remove_policy"""

    pattern: Subject


class PutLimitArguments(msgspec.Struct):
    """put_limit"""

    scope: Word
    name: LimitName
    running_max: TokenCount = 0
    rate: Rate = 0
    burst: TokenCount = 0


class LimitArguments(msgspec.Struct):
    """remove_limit"""

    scope: Word
    name: LimitName


class WeightArguments(msgspec.Struct):
    """put_weight"""

    client_id: ClientId
    weight: ShareWeight


DURATION: Final = Int(0, limits.DURATION_MS_MAX)
NUMBER: Final = Int(0, INT64_MAX)

# Structs within arguments that are also part of commands. Tighter bounds (a minimal lease) are
# checked by the grid.
SHARED: Final[dict[type[msgspec.Struct], Bounds]] = {
    commands.Settings: bounds(
        max_attempts=NUMBER,
        lease_ms=DURATION,
        worker_grace_ms=DURATION,
        retry_base_ms=DURATION,
        retry_max_ms=DURATION,
        result_ttl_ms=DURATION,
        dead_ttl_ms=DURATION,
        results_kept_max=NUMBER,
        client_cap=NUMBER,
        use_hints=Free(),
    ),
    commands.RedriveItem: bounds(job_id=ID, body=Free(), queue=Text(0)),  # no bounds of its own
    ExecHint: bounds(
        exec_name=Text(limits.EXEC_NAME_BYTES_MAX),
        p50_ms=DURATION,
        p95_ms=DURATION,
        p99_ms=DURATION,
        count=NUMBER,
    ),
    BlobRef: WIRE_BOUNDS[BlobRef],
    JobOptions: WIRE_BOUNDS[JobOptions],
    JobSecret: WIRE_BOUNDS[JobSecret],
    ParentRef: WIRE_BOUNDS[ParentRef],
    CacheEntry: bounds(
        name=Text(limits.FILE_NAME_BYTES_MAX), blob=Struct(BlobRef), mode=Int(0, 0o777)
    ),
    Rule: bounds(
        effect=Free(),
        action=Text(limits.ACTION_BYTES_MAX),
        resource=Text(limits.ACCESS_RESOURCE_BYTES_MAX),
    ),
    TokenHash: bounds(
        id=Text(limits.TOKEN_ID_BYTES_MAX), sha256=Bytes(DIGEST_BYTES), expires_ms=NUMBER
    ),
    AccessRole: bounds(
        name=Text(limits.ACCOUNT_NAME_BYTES_MAX),
        rules=Many(limits.ACCESS_RULES_MAX, Struct(Rule)),
    ),
    Account: bounds(
        name=Text(limits.ACCOUNT_NAME_BYTES_MAX),
        roles=Many(limits.ACCOUNT_ROLES_MAX, Text(limits.ACCOUNT_NAME_BYTES_MAX)),
        rules=Many(limits.ACCESS_RULES_MAX, Struct(Rule)),
        tokens=Many(limits.TOKENS_PER_ACCOUNT_MAX, Struct(TokenHash)),
        public_keys=Many(limits.KEYS_PER_ACCOUNT_MAX, Bytes(limits.PUBLIC_KEY_BYTES)),
        is_disabled=Free(),
    ),
}
