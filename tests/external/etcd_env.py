"""The environment that etcd-raft scripts play in, with our members in the place of theirs.

Where ours is stricter or leaves a duty to the shell, the environment does what a shell would do: it
asks again for a configuration change that came before the first commit of the term, and it carries
a follower's proposal to the leader. It also keeps what happened to each node, to be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rollq.base.errors import ErrorCode, StateError
from rollq.raft.codec import decode_change
from rollq.raft.ready import Ready
from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    ConfigChange,
    Entry,
    EntryKind,
    InstallSnapshot,
    InstallSnapshotResponse,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    RaftMessage,
    RequestVote,
    Role,
    TimeoutNow,
    VoteResponse,
)
from tests.external.etcd_expect import CHANGE_LETTERS, LogLine, Shown
from tests.scenarios.raft.member import FakeMember

CHANGE_LETTERS_OF = {int(kind): letter for letter, kind in CHANGE_LETTERS.items()}
MESSAGE_NAMES: dict[type, str] = {
    AppendEntries: "MsgApp",
    AppendResponse: "MsgAppResp",
    RaftHeartbeat: "MsgHeartbeat",
    RaftHeartbeatResponse: "MsgHeartbeatResp",
    InstallSnapshot: "MsgSnap",
    InstallSnapshotResponse: "MsgAppResp",
    TimeoutNow: "MsgTimeoutNow",
}


class UnsupportedError(Exception):
    """The script needs something that ours does not have by design."""


@dataclass(slots=True, frozen=True)
class Forwarded:
    """What a follower was asked for, on its way to the leader."""

    to: int
    sender: int
    name: str  # as scripts call such a message
    ask: Callable[[int], object]  # asks the node with this id


class Env:
    """The members of one script, and the mail between them."""

    def __init__(self) -> None:
        self.members: list[FakeMember] = []
        self.mail: list[RaftMessage | Forwarded] = []
        self.level = "debug"
        # Proposals that wait for the first commit of a leader's term, by leader, in order.
        self.parked: dict[int, list[Callable[[], object]]] = {}
        self.stay_when_removed: set[int] = set()
        self.shown: dict[int, Shown] = {}  # what happened to each node during the block
        self._standing: dict[int, tuple[Role, int, int]] = {}  # role, term and vote last noted

    def member(self, node: int) -> FakeMember:
        """The member with this id; scripts number them from 1."""
        if not 1 <= node <= len(self.members):
            raise LookupError(f"no node {node}")
        return self.members[node - 1]

    def process_ready(self, node: int) -> None:
        """One Ready of one node, and what a shell does besides."""
        member = self.member(node)
        was_leader = member.node.role is Role.LEADER
        self.mail.extend(member.handle_ready(lambda ready: self._watch(member, ready)))
        self.note(member)
        self._offer_snapshot(member)
        in_office = any(each.id == node for each in member.node.config.voters)
        left_office = was_leader and member.node.role is not Role.LEADER and not in_office
        if left_office and node in self.stay_when_removed:
            raise UnsupportedError("a removed leader that stays in office; ours steps down")
        if member.node.role is not Role.LEADER:
            self.parked.pop(node, None)
        elif node in self.parked and term_is_settled(member):
            for ask in self.parked.pop(node):
                ask()

    def deliver(self, node: int, kind: str = "", drop: bool = False) -> None:
        """All mail for a node, or only that of a kind."""
        taken: list[RaftMessage | Forwarded] = []
        left: list[RaftMessage | Forwarded] = []
        for message in self.mail:
            mine = message.to == node and (not kind or message_name(message) == kind)
            (taken if mine else left).append(message)
        self.mail = left
        for message in taken if not drop else ():
            if isinstance(message, Forwarded):
                message.ask(node)
            else:
                self.member(node).node.step(message)
            self.note(self.member(node))

    def propose(self, node: int, data: bytes) -> bool:
        """Propose on any node; false if it was dropped."""
        member = self.member(node)
        if node in self.parked:
            self.parked[node].append(lambda: member.node.propose(data))
            return True
        try:
            member.node.propose(data)
        except StateError as error:
            return self._forward(error, node, "MsgProp", lambda to: self.propose(to, data))
        return True

    def propose_change(self, node: int, change: ConfigChange) -> bool:
        """Propose a configuration change; false if it was dropped."""
        member = self.member(node)
        try:
            member.node.propose_config(change)
        except StateError as error:
            if error.code is not ErrorCode.CONFIG_CHANGE_PENDING:
                return self._forward(
                    error, node, "MsgProp", lambda to: self.propose_change(to, change)
                )
            if term_is_settled(member):
                member.node.propose(b"")  # etcd puts an empty entry in its place
            else:
                later = self.parked.setdefault(node, [])
                later.append(lambda: member.node.propose_config(change))
        return True

    def transfer(self, node: int, heir: int) -> None:
        """Ask any node for a change of leader."""
        try:
            self.member(node).node.transfer_leadership(heir)
        except StateError as error:
            self._forward(error, node, "MsgTransferLeader", lambda to: self.transfer(to, heir))

    def _forward(
        self, error: StateError, node: int, name: str, ask: Callable[[int], object]
    ) -> bool:
        """Send on to the leader what a follower refused; false if that cannot be."""
        leader_id = self.member(node).node.leader_id
        if error.code is not ErrorCode.NOT_LEADER or not leader_id:
            return False
        self.mail.append(Forwarded(leader_id, node, name, ask))
        return True

    def note(self, member: FakeMember) -> None:
        """Keep a change of role, term or vote, as etcd's nodes log it at the moment it happens."""
        role, term, vote = now = (member.node.role, member.node.term, member.node.vote)
        before = self._standing.get(member.id)
        shown = self.shown.setdefault(member.id, Shown())
        if before is None or before[:2] != (role, term):
            shown.became.append((role, term))
        if vote not in (0, member.id) and (before is None or before[1:] != (term, vote)):
            shown.cast.append((vote, term))
        self._standing[member.id] = now

    def _watch(self, member: FakeMember, ready: Ready) -> None:
        shown = self.shown.setdefault(member.id, Shown())
        if ready.hard_state is not None:
            state = ready.hard_state
            shown.persisted.append((state.term, state.vote, state.commit))
        if ready.role is not None or ready.leader_id is not None:
            role = member.role if ready.role is None else ready.role
            leader = member.leader_id if ready.leader_id is None else ready.leader_id
            shown.announced.append((role, leader))
        shown.appended.extend(as_line(entry) for entry in ready.entries)
        shown.applied.extend(as_line(entry) for entry in ready.committed)

    def _offer_snapshot(self, member: FakeMember) -> None:
        """etcd's environment has a snapshot of the newest applied state at any time."""
        if member.state_index and member.state_index not in member.taken:
            member.node.snapshot_taken(member.snapshot_meta(), member.disk.first_index - 1)


def as_line(entry: Entry) -> LogLine:
    """An entry of ours as a script would show it."""
    if entry.kind != EntryKind.CONFIG:
        return LogLine(entry.term, entry.index, False, entry.data)
    steps = decode_change(entry.data).changes
    text = " ".join(f"{CHANGE_LETTERS_OF[step.kind]}{step.member.id}" for step in steps)
    return LogLine(entry.term, entry.index, True, text.encode())


def term_is_settled(member: FakeMember) -> bool:
    """Whether an entry of the member's term is committed."""
    return member.node.term_at(member.node.commit) == member.node.term


def message_name(message: RaftMessage | Forwarded) -> str:
    """What a script calls such a message."""
    if isinstance(message, Forwarded):
        return message.name
    if isinstance(message, RequestVote):
        return "MsgPreVote" if message.pre else "MsgVote"
    if isinstance(message, VoteResponse):
        return "MsgPreVoteResp" if message.pre else "MsgVoteResp"
    return MESSAGE_NAMES.get(type(message), "")
