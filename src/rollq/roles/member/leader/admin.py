"""What operators ask of the leader: queues, dead jobs, settings, caches, workers, members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from rollq.base import limits
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.hints import ExecHint
from rollq.base.ids import GUID_BYTES, ClientId, JobId, MemberId, WorkerId
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.base.names import checked_tree
from rollq.grid import commands
from rollq.raft.node import RaftNode
from rollq.raft.types import ChangeKind, ConfigChange, Member, MemberChange
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.proposals import Origin, Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import ClientSession
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.leader.workers import Workers
from rollq.roles.member.membership import find
from rollq.subjects.grammar import parse_pattern
from rollq.subjects.queues import queue_of, worker_pattern
from rollq.wire.checks import BOUNDS as WIRE_BOUNDS
from rollq.wire.messages import Admin
from rollq.wire.rules import (
    INT64_MAX,
    Bounds,
    Bytes,
    Free,
    Int,
    Many,
    Struct,
    Text,
    bounds,
    compile_table,
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


class AdminRequests:
    """Requests of operators on one leader."""

    def __init__(
        self,
        proposals: Proposals,
        replies: Replies,
        workers: Workers,
        caches: GroupCaches,
        *,
        shell: Shell,
        raft: Callable[[], RaftNode],
    ) -> None:
        self._proposals = proposals
        self._replies = replies
        self._workers = workers
        self._caches = caches
        self._shell = shell
        self._raft = raft

    def handle(self, session: ClientSession, message: Admin) -> None:
        """Do what an action asks for."""
        action = ACTIONS.get(message.action)
        if action is None:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"unknown action {message.action[:64]!r}",
                f"use one of: {' '.join(ACTIONS)}",
            )
        action(self, session, message)

    def propose(self, session: ClientSession, message: Admin) -> None:
        """An action that is one command."""
        command = COMMANDS[message.action](message.arguments, session.client_id)
        origin = Origin(self._replies.settle_request, session.number, message.request_id)
        self._proposals.add(command, origin)

    def put_cache(self, session: ClientSession, message: Admin) -> None:
        """Give the group a cache, whose files it holds."""
        command = _put_cache(_decode(message.arguments, PutCacheArguments), session.client_id)
        self._shell.check_held(
            tuple(entry.blob for entry in command.entries), limits.CACHE_ENTRIES_MAX
        )
        self._change_cache(session, message, command)

    def remove_cache(self, session: ClientSession, message: Admin) -> None:
        """Take a cache from the group."""
        cache_id = _decode(message.arguments, RemoveCacheArguments).cache_id
        self._change_cache(session, message, commands.RemoveCache(cache_id, session.client_id))

    def _change_cache(
        self, session: ClientSession, message: Admin, command: commands.Command
    ) -> None:
        origin = Origin(self._caches.settle_change, session.number, message.request_id)
        self._proposals.add(command, origin)

    def dismiss(self, session: ClientSession, message: Admin) -> None:
        """Tell workers to end."""
        worker_ids = _decode(message.arguments, DismissArguments).worker_ids
        told = self._workers.dismiss(worker_ids, session.client_id)
        self._replies.accept(session.number, message.request_id, told)

    def add_member(self, session: ClientSession, message: Admin) -> None:
        """Let a member in as a learner; it is promoted when it has caught up."""
        wanted = _decode(message.arguments, MemberArguments)
        member = Member(wanted.member_id, wanted.address)
        self._change_members(session, message, MemberChange(ChangeKind.ADD_LEARNER, member))

    def remove_member(self, session: ClientSession, message: Admin) -> None:
        """Take a member out."""
        member = self._known(_decode(message.arguments, MemberArguments).member_id)
        self._change_members(session, message, MemberChange(ChangeKind.REMOVE, member))

    def transfer(self, session: ClientSession, message: Admin) -> None:
        """Hand leadership to a member."""
        member = self._known(_decode(message.arguments, MemberArguments).member_id)
        self._raft().transfer_leadership(member.id)
        self._replies.accept(session.number, message.request_id)

    def _change_members(self, session: ClientSession, message: Admin, change: MemberChange) -> None:
        self._raft().propose_config(ConfigChange((change,)))
        self._replies.accept(session.number, message.request_id)

    def _known(self, member_id: MemberId) -> Member:
        member = find(self._raft().config, member_id)
        if member is None:
            raise StateError(ErrorCode.BAD_CONFIG_CHANGE, f"no member {member_id} in this group")
        return member


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


def _hold(wanted: HoldArguments, by: ClientId) -> commands.HoldHistory:
    return commands.HoldHistory(wanted.name, wanted.index, by)


DURATION = Int(0, limits.DURATION_MS_MAX)
NUMBER = Int(0, INT64_MAX)
READER_NAME = Text(limits.READER_NAME_BYTES_MAX)
CACHE_ID = Text(limits.CACHE_ID_BYTES_MAX)
JOB_ID = Bytes(GUID_BYTES, GUID_BYTES)
IDS_MAX = limits.IDS_PER_MESSAGE_MAX
EXEC_NAME = Text(limits.EXEC_NAME_BYTES_MAX)

# The bounds of every argument, as `wire.checks` has those of every message. What is narrower than
# this (a lease has a least length) is the grid's answer.
BOUNDS: dict[type[msgspec.Struct], Bounds] = {
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
    commands.RedriveItem: bounds(job_id=JOB_ID, body=Free()),
    ExecHint: bounds(
        exec_name=EXEC_NAME, p50_ms=DURATION, p95_ms=DURATION, p99_ms=DURATION, count=NUMBER
    ),
    BlobRef: WIRE_BOUNDS[BlobRef],
    CacheEntry: bounds(
        name=Text(limits.FILE_NAME_BYTES_MAX), blob=Struct(BlobRef), mode=Int(0, 0o777)
    ),
    QueueArguments: bounds(queue=Text(limits.SUBJECT_BYTES_MAX)),
    RedriveArguments: bounds(items=Many(IDS_MAX, Struct(commands.RedriveItem))),
    PurgeArguments: bounds(job_ids=Many(IDS_MAX, JOB_ID)),
    SettingsArguments: bounds(settings=Struct(commands.Settings)),
    HintsArguments: bounds(hints=Many(limits.HINTS_MAX, Struct(ExecHint))),
    PutCacheArguments: bounds(
        cache_id=CACHE_ID,
        entries=Many(limits.CACHE_ENTRIES_MAX, Struct(CacheEntry)),
        target_pattern=Text(limits.PATTERN_BYTES_MAX),
    ),
    RemoveCacheArguments: bounds(cache_id=CACHE_ID),
    HoldArguments: bounds(name=READER_NAME, index=Int(1, INT64_MAX)),
    FreeArguments: bounds(name=READER_NAME),
    DismissArguments: bounds(worker_ids=Many(IDS_MAX, JOB_ID)),
    MemberArguments: bounds(member_id=Int(1, INT64_MAX), address=Text(limits.ADDRESS_BYTES_MAX)),
}
CHECKS = compile_table(BOUNDS, dict.fromkeys((commands.Settings, ExecHint), ErrorCode.BAD_OPTIONS))

# Actions that are one command: made of the arguments and the client id.
COMMANDS: Final[dict[str, Callable[[bytes, ClientId], commands.Command]]] = {
    "pause": lambda raw, by: commands.PauseQueue(_queue(raw), by),
    "resume": lambda raw, by: commands.ResumeQueue(_queue(raw), by),
    "redrive": lambda raw, by: commands.RedriveJobs(_decode(raw, RedriveArguments).items, by),
    "purge": lambda raw, by: commands.PurgeJobs(_decode(raw, PurgeArguments).job_ids, by),
    "settings": lambda raw, by: commands.SetSettings(_decode(raw, SettingsArguments).settings, by),
    "set_hints": lambda raw, by: commands.SetHints(_decode(raw, HintsArguments).hints, by),
    "hold_history": lambda raw, by: _hold(_decode(raw, HoldArguments), by),
    "free_history": lambda raw, by: commands.FreeHistory(_decode(raw, FreeArguments).name, 0, by),
}

ACTIONS: Final[dict[str, Callable[[AdminRequests, ClientSession, Admin], None]]] = {
    **dict.fromkeys(COMMANDS, AdminRequests.propose),
    "put_cache": AdminRequests.put_cache,
    "remove_cache": AdminRequests.remove_cache,
    "dismiss": AdminRequests.dismiss,
    "add_member": AdminRequests.add_member,
    "remove_member": AdminRequests.remove_member,
    "transfer": AdminRequests.transfer,
}
