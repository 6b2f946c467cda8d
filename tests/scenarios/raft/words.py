"""How scenarios put consensus into words: messages, members, entries, progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollq.raft.codec import decode_change
from rollq.raft.progress import ProgressView
from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    ChangeKind,
    Config,
    Entry,
    EntryKind,
    InstallSnapshot,
    InstallSnapshotResponse,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    RaftMessage,
    ReadIndex,
    ReadIndexResponse,
    RequestVote,
    Role,
    TimeoutNow,
    VoteResponse,
)
from tests.scenarios.raft.member import FakeMember

ROLE_WORDS = {
    Role.FOLLOWER: "follower",
    Role.PRE_CANDIDATE: "pre-candidate",
    Role.CANDIDATE: "candidate",
    Role.LEADER: "leader",
}
CHANGE_WORDS = {
    ChangeKind.ADD_VOTER: "voter",
    ChangeKind.ADD_LEARNER: "learner",
    ChangeKind.REMOVE: "remove",
    ChangeKind.UPDATE: "update",
}
KINDS: dict[type, str] = {
    AppendEntries: "append",
    AppendResponse: "append-answer",
    RaftHeartbeat: "heartbeat",
    RaftHeartbeatResponse: "heartbeat-answer",
    InstallSnapshot: "snapshot",
    InstallSnapshotResponse: "snapshot-answer",
    ReadIndex: "read",
    ReadIndexResponse: "read-answer",
    RequestVote: "vote",
    TimeoutNow: "timeout-now",
    VoteResponse: "vote-answer",
}


def describe_member(member: FakeMember) -> str:
    """Where a member stands, in one line; `term/index` is the end of its log."""
    node = member.node
    parts = [f"{member.id}: {ROLE_WORDS[node.role]} term {node.term}"]
    if node.vote:
        parts.append(f"vote {node.vote}")
    if node.leader_id:
        parts.append(f"leader {node.leader_id}")
    parts.append(f"log {node.last_term}/{node.last_index} commit {node.commit}")
    if node.suspect is not None:
        parts.append(f"suspect {node.suspect.term}/{node.suspect.index}")
    return ", ".join(parts)


def describe_config(config: Config) -> str:
    """Voters and learners."""
    voters = " ".join(str(each.id) for each in config.voters)
    learners = " ".join(str(each.id) for each in config.learners)
    return f"voters {voters or '-'}" + (f" learners {learners}" if learners else "")


def describe_entry(entry: Entry) -> str:
    """`term/index data`; the no-op of a new term is a dot."""
    if entry.kind == EntryKind.CONFIG:
        changes = decode_change(entry.data).changes
        text = " ".join(f"{CHANGE_WORDS[ChangeKind(c.kind)]}:{c.member.id}" for c in changes)
    else:
        text = entry.data.decode() or "."
    return f"{entry.term}/{entry.index} {text}"


def describe_progress(member: FakeMember) -> str:
    """What the leader knows of everybody else, one line a member."""
    views = {who: view for who, view in member.node.progress.items() if who != member.id}
    return "\n".join(_progress_line(who, view) for who, view in views.items())


def _progress_line(who: int, view: ProgressView) -> str:
    words = f"{who}: {view.state.name.lower()} match {view.match} next {view.next}"
    for told, word in (
        (view.learner, "learner"),
        (view.inflight, f"in flight {view.inflight}"),
        (view.full, "full"),
        (view.paused, "paused"),
        (view.snapshot_index, f"snapshot {view.snapshot_index}"),
        (not view.active, "silent"),
    ):
        words += f", {word}" if told else ""
    return words


def describe_message(message: RaftMessage) -> str:
    """`from>to kind details`, at the sender's term."""
    detail = DETAILS[type(message)](message)
    words = f"{message.sender}>{message.to} {KINDS[type(message)]} t{message.term}"
    return f"{words} {detail}".rstrip()


def _vote(message: Any) -> str:
    flags = ("pre " if message.pre else "") + ("transfer " if message.transfer else "")
    return f"{flags}log {message.last_term}/{message.last_index}"


def _vote_answer(message: Any) -> str:
    return ("pre " if message.pre else "") + ("yes" if message.granted else "no")


def _append(message: Any) -> str:
    after = f"after {message.prev_term}/{message.prev_index} commit {message.commit}"
    if not message.entries:
        return after
    first, last = message.entries[0].index, message.entries[-1].index
    return f"{after} entries {first}" + (f"-{last}" if last != first else "")


def _append_answer(message: Any) -> str:
    if message.rejected:
        return f"no {message.index} hint {message.hint_term}/{message.hint_index}"
    return f"yes {message.index}"


def _heartbeat(message: Any) -> str:
    return f"commit {message.commit}" + (" round" if message.context else "")


def _heartbeat_answer(message: Any) -> str:
    return "round" if message.context else ""


def _snapshot(message: Any) -> str:
    meta = message.meta
    end = message.offset + message.length
    return f"{meta.term}/{meta.index} bytes {message.offset}-{end} of {meta.size_bytes}"


def _snapshot_answer(message: Any) -> str:
    return f"{message.index} " + ("installed" if message.installed else f"wants {message.offset}")


def _read_answer(message: Any) -> str:
    return f"index {message.index}"  # requests are renumbered on the way, from a number by chance


def _nothing(message: Any) -> str:
    return ""


DETAILS: dict[type, Callable[[Any], str]] = {
    AppendEntries: _append,
    AppendResponse: _append_answer,
    RaftHeartbeat: _heartbeat,
    RaftHeartbeatResponse: _heartbeat_answer,
    InstallSnapshot: _snapshot,
    InstallSnapshotResponse: _snapshot_answer,
    ReadIndex: _nothing,
    ReadIndexResponse: _read_answer,
    RequestVote: _vote,
    TimeoutNow: _nothing,
    VoteResponse: _vote_answer,
}
