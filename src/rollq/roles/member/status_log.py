"""Log lines about the group: its leader and its members.

Every change is logged once. Only reads raft; nothing depends on it.
"""

from __future__ import annotations

import logging
import time

from rollq.base.log_events import (
    ELECTED,
    FOLLOWS,
    GROUP_CHANGED,
    LOST_LEADERSHIP,
    NO_LEADER,
    NOT_A_MEMBER,
    REMOVED,
    WAITING_FOR_PEERS,
    tell,
)
from rollq.raft.membership import address_of
from rollq.raft.node import RaftNode
from rollq.raft.types import NO_MEMBER, Config
from rollq.roles.member.rollcall import RollCall

log = logging.getLogger("rollq.member")


class StatusLog:
    """Compares raft with what was logged last; cheap while nothing changes."""

    __slots__ = (
        *("_config", "_is_removal_logged", "_leader", "_term", "_transferee", "_unled_ms"),
        "_waited_for",
    )

    def __init__(self) -> None:
        self._config = Config()
        self._leader = NO_MEMBER
        self._term = 0
        self._transferee = NO_MEMBER  # to which this member was transferring leadership
        self._unled_ms = _now_ms()  # since when no leader is known
        self._waited_for: tuple[str, ...] = ()
        self._is_removal_logged = False  # of one before this start

    def log_roll(self, roll: RollCall, peers: tuple[str, ...], last_index: int) -> None:
        """Log the members that this one waits for before it takes part, when that changes, and once
        that it was removed from the group before it started. `last_index`: of our log."""
        if not self._is_removal_logged and roll.is_removed(last_index):
            self._is_removal_logged = True
            tell(log, NOT_A_MEMBER, voters=", ".join(voter.address for voter in roll.voters))
        missing = roll.missing(peers)
        if missing == self._waited_for:
            return
        self._waited_for = missing
        if missing:
            count = len({*peers, roll.me.address})
            met = count - len(missing)
            tell(log, WAITING_FOR_PEERS, peers=", ".join(missing), met=met, count=count)

    def log_changes(self, raft: RaftNode) -> None:
        """Log the changes since the last call."""
        if raft.config is not self._config:
            self._log_members(raft)
        if raft.leader_id != self._leader or raft.term != self._term:
            self._log_leader(raft)
        self._transferee = raft.transferee

    def _log_members(self, raft: RaftNode) -> None:
        before, now = self._config, raft.config
        self._config = now
        if before == now:
            return
        own = raft.member_id
        voters = ", ".join(member.address for member in now.voters)
        if _has(before, own) and not _has(now, own):
            tell(log, REMOVED)
            return
        learners = tuple(member.address for member in now.learners)
        tell(log, GROUP_CHANGED, voters=voters, learners=learners)

    def _log_leader(self, raft: RaftNode) -> None:
        lost, lost_term = self._leader, self._term
        self._leader, self._term = raft.leader_id, raft.term
        if lost == raft.member_id:
            self._log_lost(raft, lost_term)
        if lost != NO_MEMBER:
            self._unled_ms = _now_ms()
        unled_ms = _now_ms() - self._unled_ms
        if raft.leader_id == raft.member_id:
            voters = len(raft.config.voters)
            tell(log, ELECTED, term=raft.term, voters=voters, unled_ms=unled_ms)
        elif raft.leader_id != NO_MEMBER:
            leader = _name(raft.config, raft.leader_id)
            tell(log, FOLLOWS, leader=leader, term=raft.term, unled_ms=unled_ms)
        elif lost != NO_MEMBER:
            tell(log, NO_LEADER, term=raft.term, lost=_name(raft.config, lost))

    def _log_lost(self, raft: RaftNode, term: int) -> None:
        if self._transferee != NO_MEMBER:
            cause = f"it handed over to {_name(raft.config, self._transferee)}"
        elif raft.term > term:
            cause = f"another member is in term {raft.term}"
        elif not _has(raft.config, raft.member_id):
            cause = "it was removed from the group"
        else:
            cause = "too few members answered"
        tell(log, LOST_LEADERSHIP, cause=cause, term=term)


def _name(config: Config, member_id: int) -> str:
    return address_of(config, member_id) or f"member {member_id}"


def _has(config: Config, member_id: int) -> bool:
    return any(member.id == member_id for member in (*config.voters, *config.learners))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
