"""What an operator looks for in the log of a member: who leads, and who belongs to the group.

Every change is told once. Only looks at consensus; nothing depends on it.
"""

from __future__ import annotations

import logging

from rollq.raft.membership import address_of
from rollq.raft.node import RaftNode
from rollq.raft.types import NO_MEMBER, Config
from rollq.roles.member.rollcall import RollCall

log = logging.getLogger("rollq.member")


class StatusLog:
    """Compares consensus with what was told last; cheap while nothing changes."""

    __slots__ = ("_config", "_leader", "_term", "_waited_for")

    def __init__(self) -> None:
        self._config = Config()
        self._leader = NO_MEMBER
        self._term = 0
        self._waited_for: tuple[str, ...] = ()

    def tell_roll(self, roll: RollCall, peers: tuple[str, ...]) -> None:
        """Log whom this member waits for before it takes part, when that changes."""
        missing = roll.missing(peers)
        if missing == self._waited_for:
            return
        self._waited_for = missing
        if missing:
            count = len({*peers, roll.me.address})
            met = count - len(missing)
            log.info("waiting for peers %s (%d of %d connected)", ", ".join(missing), met, count)

    def tell(self, raft: RaftNode) -> None:
        """Log what is new since the last call."""
        if raft.config is not self._config:
            self._tell_members(raft)
        if raft.leader_id != self._leader or raft.term != self._term:
            self._tell_leader(raft)

    def _tell_members(self, raft: RaftNode) -> None:
        before, now = self._config, raft.config
        self._config = now
        if before == now:
            return
        own = raft.member_id
        if _has(before, own) and not _has(now, own):
            log.warning("this member was removed from the group: stop it")
            return
        listening = ", ".join(member.address for member in now.learners)
        log.info(
            "the group is %s%s",
            ", ".join(member.address for member in now.voters),
            f"; not voting yet: {listening}" if listening else "",
        )

    def _tell_leader(self, raft: RaftNode) -> None:
        had_leader = self._leader != NO_MEMBER
        self._leader, self._term = raft.leader_id, raft.term
        if raft.leader_id == raft.member_id:
            log.info("this member is the leader in term %d", raft.term)
        elif raft.leader_id != NO_MEMBER:
            address = address_of(raft.config, raft.leader_id) or f"member {raft.leader_id}"
            log.info("%s is the leader in term %d", address, raft.term)
        elif had_leader:
            log.warning("no leader in term %d", raft.term)


def _has(config: Config, member_id: int) -> bool:
    return any(member.id == member_id for member in (*config.voters, *config.learners))
