"""Builders for tests of a single RaftNode: a log from its terms, a node that plays a part."""

from __future__ import annotations

from typing import TypeVar

from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.ready import Ready
from rollq.raft.types import (
    Entry,
    EntryKind,
    HardState,
    Position,
    RaftMessage,
    Role,
    SnapshotMeta,
    VoteResponse,
)
from tests.unit.raft.network import SeededJitter, voters_config

M = TypeVar("M", bound=RaftMessage)


def entries_of(*terms: int, first: int = 1) -> list[Entry]:
    """A log whose entry at `first`, `first` + 1... has these terms."""
    return [
        Entry(term, first + at, int(EntryKind.NORMAL), b"%d" % (first + at))
        for at, term in enumerate(terms)
    ]


def make_node(
    *terms: int,
    term: int = 0,
    vote: int = 0,
    commit: int = 0,
    voters: tuple[int, ...] = (1, 2, 3),
    suspect: Position | None = None,
    options: RaftOptions | None = None,
) -> RaftNode:
    """Member 1 with a log of these terms."""
    start = RaftStart(
        hard_state=HardState(term or (terms[-1] if terms else 0), vote, commit),
        snapshot=SnapshotMeta(config=voters_config(*voters)),
        entries=entries_of(*terms),
        suspect=suspect,
    )
    return RaftNode(1, options or RaftOptions(), start, SeededJitter(1))


def run_ready(node: RaftNode) -> list[RaftMessage]:
    """Carry out all that is ready; returns what was sent."""
    sent: list[RaftMessage] = []
    while node.has_ready():
        ready = node.ready()
        sent += (*ready.send_now, *ready.send_after_persist)
        node.advance(ready)
    return sent


def drain(node: RaftNode) -> list[Ready]:
    """Carry out all that is ready; returns the Readys."""
    readies = []
    while node.has_ready():
        readies.append(node.ready())
        node.advance(readies[-1])
    return readies


def of_kind(messages: list[RaftMessage], kind: type[M]) -> list[M]:
    """Those messages that are of a kind."""
    return [message for message in messages if isinstance(message, kind)]


def make_leader(node: RaftNode, voters: tuple[int, ...] = (2, 3)) -> list[RaftMessage]:
    """Have member 1 elected by the votes of others; returns what it sends as a leader."""
    node.campaign()
    run_ready(node)
    for pre in (True, False):
        if node.role is (Role.PRE_CANDIDATE if pre else Role.CANDIDATE):
            term = node.term + 1 if pre else node.term
            for voter in voters:
                node.step(VoteResponse(to=1, sender=voter, term=term, granted=True, pre=pre))
            if pre:
                run_ready(node)
    assert node.role is Role.LEADER
    return run_ready(node)
