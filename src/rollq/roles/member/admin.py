"""What an operator may ask of a leader: queues, dead jobs, settings, caches, membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.hints import ExecHint
from rollq.base.ids import JobId, MemberId, WorkerId
from rollq.base.jobs import CacheEntry
from rollq.base.names import checked_tree
from rollq.grid import commands
from rollq.raft.node import RaftNode
from rollq.raft.types import ChangeKind, ConfigChange, Member, MemberChange
from rollq.roles.member.membership import find
from rollq.subjects.grammar import parse_pattern
from rollq.subjects.queues import queue_of, worker_pattern


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

_Arguments = TypeVar("_Arguments")


def _decode(arguments: bytes, kind: type[_Arguments]) -> _Arguments:
    try:
        return msgspec.msgpack.decode(arguments, type=kind)
    except msgspec.MsgspecError as error:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"bad arguments: {error}") from None


def _queue(arguments: bytes) -> str:
    """The queue as submits name it: without regard to case, and only a name that one could have."""
    return queue_of(_decode(arguments, QueueArguments).queue)


def _put_cache(wanted: PutCacheArguments, by: str) -> commands.PutCache:
    """Only names that every worker can give a file, and a pattern that a worker could have."""
    checked_tree(entry.name for entry in wanted.entries)
    pattern = ".".join(parse_pattern(worker_pattern(wanted.target_pattern)))
    return commands.PutCache(wanted.cache_id, wanted.entries, pattern, by)


def _known(raft: RaftNode, member_id: MemberId) -> Member:
    member = find(raft.config, member_id)
    if member is None:
        raise StateError(ErrorCode.BAD_CONFIG_CHANGE, f"no member {member_id} in this group")
    return member
