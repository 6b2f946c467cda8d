"""What an operator may ask of a leader: queues, dead jobs, settings, caches, membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from rollq.base import limits
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.hints import ExecHint
from rollq.base.ids import GUID_BYTES, JobId, MemberId, WorkerId
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.base.names import checked_tree
from rollq.grid import commands
from rollq.raft.node import RaftNode
from rollq.raft.types import ChangeKind, ConfigChange, Member, MemberChange
from rollq.roles.member.membership import find
from rollq.subjects.grammar import parse_pattern
from rollq.subjects.queues import queue_of, worker_pattern
from rollq.wire import bounds as wire_bounds
from rollq.wire.rules import (
    INT64_MAX,
    Bytes,
    Free,
    Int,
    Many,
    Row,
    Struct,
    Text,
    compile_table,
    row,
)


class QueueArguments(msgspec.Struct):
    """pause, resume"""

    queue: str


class RedriveArguments(msgspec.Struct):
    """redrive"""

    items: tuple[commands.RedriveItem, ...]


class PurgeArguments(msgspec.Struct):
    """purge"""

    job_ids: tuple[JobId, ...]


class SettingsArguments(msgspec.Struct):
    """settings"""

    settings: commands.Settings


class HintsArguments(msgspec.Struct):
    """set_hints"""

    hints: tuple[ExecHint, ...]


class PutCacheArguments(msgspec.Struct):
    """put_cache"""

    cache_id: str
    entries: tuple[CacheEntry, ...]
    target_pattern: str


class RemoveCacheArguments(msgspec.Struct):
    """remove_cache"""

    cache_id: str


class HoldArguments(msgspec.Struct):
    """hold_history"""

    name: str
    index: int


class FreeArguments(msgspec.Struct):
    """free_history"""

    name: str


class DismissArguments(msgspec.Struct):
    """dismiss"""

    worker_ids: tuple[WorkerId, ...]


class MemberArguments(msgspec.Struct):
    """add_member, remove_member, transfer"""

    member_id: MemberId
    address: str = ""


ACTIONS = (
    "pause resume redrive purge settings set_hints put_cache remove_cache hold_history "
    "free_history dismiss add_member remove_member transfer"
)


def command_for(action: str, arguments: bytes, by: str) -> commands.Command:
    """The command that an action asks for."""
    if action == "pause":
        return commands.PauseQueue(_queue(arguments), by)
    if action == "resume":
        return commands.ResumeQueue(_queue(arguments), by)
    if action == "redrive":
        return commands.RedriveJobs(_decode(arguments, RedriveArguments).items, by)
    if action == "purge":
        return commands.PurgeJobs(_decode(arguments, PurgeArguments).job_ids, by)
    if action == "settings":
        return commands.SetSettings(_decode(arguments, SettingsArguments).settings, by)
    if action == "set_hints":
        return commands.SetHints(_decode(arguments, HintsArguments).hints, by)
    if action == "put_cache":
        return _put_cache(_decode(arguments, PutCacheArguments), by)
    if action == "remove_cache":
        return commands.RemoveCache(_decode(arguments, RemoveCacheArguments).cache_id, by)
    if action == "hold_history":
        hold = _decode(arguments, HoldArguments)
        return commands.HoldHistory(hold.name, hold.index, by)
    if action == "free_history":
        return commands.FreeHistory(_decode(arguments, FreeArguments).name, 0, by)
    raise RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"no action named {action[:64]!r}",
        f"ask for one of: {ACTIONS}",
    )


def workers_in(arguments: bytes) -> tuple[WorkerId, ...]:
    """Whom `dismiss` means."""
    return _decode(arguments, DismissArguments).worker_ids


def add_member(raft: RaftNode, arguments: bytes) -> None:
    """Let a member in as a learner; it is promoted when it has caught up."""
    wanted = _decode(arguments, MemberArguments)
    member = Member(wanted.member_id, wanted.address)
    raft.propose_config(ConfigChange((MemberChange(ChangeKind.ADD_LEARNER, member),)))


def remove_member(raft: RaftNode, arguments: bytes) -> None:
    """Take a member out."""
    member = _known(raft, _decode(arguments, MemberArguments).member_id)
    raft.propose_config(ConfigChange((MemberChange(ChangeKind.REMOVE, member),)))


def transfer(raft: RaftNode, arguments: bytes) -> None:
    """Hand leadership to a member."""
    raft.transfer_leadership(_known(raft, _decode(arguments, MemberArguments).member_id).id)


MEMBERSHIP_ACTIONS: dict[str, Callable[[RaftNode, bytes], None]] = {
    "add_member": add_member,
    "remove_member": remove_member,
    "transfer": transfer,
}

_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def _decode(arguments: bytes, kind: type[_Arguments]) -> _Arguments:
    try:
        decoded = msgspec.msgpack.decode(arguments, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"bad arguments: {error}") from None
    checked: _Arguments = CHECKS[kind](decoded)
    return checked


def _queue(arguments: bytes) -> str:
    """The queue as submits name it: without regard to case, and only a name that one could have."""
    return queue_of(_decode(arguments, QueueArguments).queue)


def _put_cache(wanted: PutCacheArguments, by: str) -> commands.PutCache:
    """Only names that every worker can give a file, and a pattern that a worker could have."""
    checked_tree(entry.name for entry in wanted.entries)
    pattern = ".".join(parse_pattern(worker_pattern(wanted.target_pattern)))
    return commands.PutCache(wanted.cache_id, wanted.entries, pattern, by)


DURATION = Int(0, limits.DURATION_MS_MAX)
NUMBER = Int(0, INT64_MAX)
READER_NAME = Text(limits.READER_NAME_BYTES_MAX)
CACHE_ID = Text(limits.CACHE_ID_BYTES_MAX)
JOB_ID = Bytes(GUID_BYTES, GUID_BYTES)
IDS_MAX = limits.IDS_PER_MESSAGE_MAX
EXEC_NAME = Text(limits.EXEC_NAME_BYTES_MAX)

# The bounds of every argument, as `wire.bounds` has those of every message. What is narrower than
# this (a lease has a least length) is the grid's answer.
BOUNDS: dict[type[msgspec.Struct], Row] = {
    commands.Settings: row(
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
    commands.RedriveItem: row(job_id=JOB_ID, body=Free()),
    ExecHint: row(
        exec_name=EXEC_NAME, p50_ms=DURATION, p95_ms=DURATION, p99_ms=DURATION, count=NUMBER
    ),
    BlobRef: wire_bounds.BOUNDS[BlobRef],
    CacheEntry: row(
        name=Text(limits.FILE_NAME_BYTES_MAX), blob=Struct(BlobRef), mode=Int(0, 0o777)
    ),
    QueueArguments: row(queue=Text(limits.SUBJECT_BYTES_MAX)),
    RedriveArguments: row(items=Many(IDS_MAX, Struct(commands.RedriveItem))),
    PurgeArguments: row(job_ids=Many(IDS_MAX, JOB_ID)),
    SettingsArguments: row(settings=Struct(commands.Settings)),
    HintsArguments: row(hints=Many(limits.HINTS_MAX, Struct(ExecHint))),
    PutCacheArguments: row(
        cache_id=CACHE_ID,
        entries=Many(limits.CACHE_ENTRIES_MAX, Struct(CacheEntry)),
        target_pattern=Text(limits.PATTERN_BYTES_MAX),
    ),
    RemoveCacheArguments: row(cache_id=CACHE_ID),
    HoldArguments: row(name=READER_NAME, index=Int(1, INT64_MAX)),
    FreeArguments: row(name=READER_NAME),
    DismissArguments: row(worker_ids=Many(IDS_MAX, JOB_ID)),
    MemberArguments: row(member_id=Int(1, INT64_MAX), address=Text(limits.ADDRESS_BYTES_MAX)),
}
CHECKS = compile_table(BOUNDS, dict.fromkeys((commands.Settings, ExecHint), ErrorCode.BAD_OPTIONS))


def _known(raft: RaftNode, member_id: MemberId) -> Member:
    member = find(raft.config, member_id)
    if member is None:
        raise StateError(ErrorCode.BAD_CONFIG_CHANGE, f"no member {member_id} in this group")
    return member
