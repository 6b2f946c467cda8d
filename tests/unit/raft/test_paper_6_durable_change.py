"""§6: a member that has applied a configuration knows it after a power cut."""

from __future__ import annotations

from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.types import (
    ChangeKind,
    Config,
    ConfigChange,
    EntryKind,
    HardState,
    Member,
    MemberChange,
    SnapshotMeta,
)
from tests.unit.roles.chance import MiddleJitter


def test_the_commit_of_a_change_is_synced_before_the_change_is_applied() -> None:
    start = RaftStart(HardState(), SnapshotMeta(config=Config((Member(1, "a"),))), [])
    raft = RaftNode(1, RaftOptions(pre_vote=False), start, MiddleJitter())
    raft.campaign()
    while raft.has_ready():
        raft.advance(raft.ready())
    change = MemberChange(ChangeKind.ADD_LEARNER, Member(2, "b"))
    index = raft.propose_config(ConfigChange((change,)))
    handed_out = False
    while raft.has_ready():
        ready = raft.ready()
        if any(entry.kind == EntryKind.CONFIG for entry in ready.committed):
            handed_out = True
            assert ready.must_sync
            assert ready.hard_state is not None
            assert ready.hard_state.commit >= index
        raft.advance(ready)
    assert handed_out
