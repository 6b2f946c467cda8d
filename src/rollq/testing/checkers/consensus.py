"""Checkers of consensus: election safety, leader completeness, and persistence before sending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rollq.base.ids import MemberId
from rollq.raft.types import AppendResponse, EntryKind, Role, VoteResponse
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import ToPeer
from rollq.roles.member.work import Work
from rollq.testing.checkers.base import Checker
from rollq.testing.ledger import Ledger
from rollq.testing.sim_member import SimMember


class OneLeader(Checker):
    """At most one leader per term, and it holds all entries committed in earlier terms."""

    name = "one leader per term; leader completeness"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._leaders: dict[int, MemberId] = {}
        self.on_elected: Callable[[SimMember], None] | None = None
        self.term_count = 0

    def on_write(self, member: SimMember, driver: Driver, work: Work) -> None:
        self.on_turn(member, driver)  # check a new leader before its first message is sent

    def on_turn(self, member: SimMember, driver: Driver) -> None:
        raft = driver.raft
        if raft.role is not Role.LEADER:
            return
        self._check_config(member, driver)
        known = self._leaders.get(raft.term)
        if known is None:
            self._leaders[raft.term] = raft.member_id
            self.term_count += 1
            self._check_complete(member, driver)
            if self.on_elected is not None:
                self.on_elected(member)
        elif known != raft.member_id:
            self.fail(f"term {raft.term} has two leaders, {known:x} and {raft.member_id:x}")

    def _check_config(self, member: SimMember, driver: Driver) -> None:
        """A leader is a voter of its configuration, and has at most one pending change of it."""
        raft = driver.raft
        if all(voter.id != raft.member_id for voter in raft.config.voters):
            self.fail(f"{member.name} leads term {raft.term} and has no vote in it")
        pending = raft.entry_slice(raft.applied + 1, raft.last_index + 1)
        if len([entry for entry in pending if entry.kind == EntryKind.CONFIG]) > 1:
            self.fail(f"{member.name} has two changes of configuration under way")

    def _check_complete(self, member: SimMember, driver: Driver) -> None:
        """The log has all entries committed before the leader's term. A leader that was suspended
        after its election is checked late, and need not have what later terms committed."""
        raft = driver.raft
        for index in range(raft.first_index, self._ledger.last_index + 1):
            line = self._ledger.lines[index - 1]
            if line.applied_term < raft.term and raft.term_at(index) != line.term:
                self.fail(
                    f"{member.name} leads term {raft.term} without committed entry {index} "
                    f"of term {line.term}; it has {raft.term_at(index)} there"
                )


@dataclass(slots=True)
class Promise:
    """What a member id has acknowledged to others."""

    term: int = 0
    index: int = 0
    entry_term: int = 0


class Promises(Checker):
    """Terms, votes and acknowledgements that a member sent are on its disk when it restarts; and a
    member on an older copy of its disk sends none."""

    name = "persisted before sent"

    def __init__(self) -> None:
        self._promises: dict[MemberId, Promise] = {}
        self._votes: dict[tuple[MemberId, int], MemberId] = {}

    def on_send(self, member: SimMember, driver: Driver, output: Any) -> None:
        if not isinstance(output, ToPeer):
            return
        message = output.message
        if isinstance(message, VoteResponse):
            if message.granted and not message.pre:
                self._check_present(member, message.sender)
                self._vote(member, message)
        elif isinstance(message, AppendResponse) and not message.rejected:
            self._check_present(member, message.sender)
            promise = self._promises.setdefault(message.sender, Promise())
            promise.term = max(promise.term, message.term)
            entry_term = driver.raft.term_at(message.index)
            if entry_term is not None and message.index >= promise.index:
                promise.index, promise.entry_term = message.index, entry_term

    def _check_present(self, member: SimMember, member_id: MemberId) -> None:
        if member.past_id == member_id:
            self.fail(f"{member.name} takes part although its disk is an older copy")

    def _vote(self, member: SimMember, message: VoteResponse) -> None:
        key = (message.sender, message.term)
        if self._votes.setdefault(key, message.to) != message.to:
            self.fail(
                f"{member.name} voted in term {message.term} for {self._votes[key]:x} "
                f"and for {message.to:x}"
            )
        promise = self._promises.setdefault(message.sender, Promise())
        promise.term = max(promise.term, message.term)

    def on_write(self, member: SimMember, driver: Driver, work: Work) -> None:
        """A leader may replace the tail of the log: acknowledgements of it no longer bind."""
        promise = self._promises.get(driver.raft.member_id)
        if promise is None or work.ready is None:
            return
        if work.ready.entries and work.ready.entries[0].index <= promise.index:
            promise.index = work.ready.entries[0].index - 1
            promise.entry_term = driver.raft.term_at(promise.index) or 0
        if work.ready.snapshot_chunks:
            promise.index = 0

    def on_start(self, member: SimMember, driver: Driver) -> None:
        raft = driver.raft
        promise = self._promises.get(raft.member_id)
        if promise is None or member.damaged:
            return
        if raft.suspect is not None:
            self.fail(f"{member.name} calls its log suspect, but its disk was never damaged")
        if raft.term < promise.term:
            self.fail(f"{member.name} forgot term {promise.term}; its disk says {raft.term}")
        voted = self._votes.get((raft.member_id, raft.term))
        if voted is not None and raft.vote != voted:
            self.fail(f"{member.name} forgot its vote of term {raft.term}")
        if not promise.index or not promise.entry_term:
            return
        if promise.index < raft.first_index:
            return
        if raft.term_at(promise.index) != promise.entry_term:
            self.fail(
                f"{member.name} acknowledged entry {promise.index} of term {promise.entry_term}; "
                f"its disk has {raft.term_at(promise.index)} there"
            )
