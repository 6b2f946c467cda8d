"""The checker of leaders: what it must object to, and what it must let pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.grid.effects import Applied
from rollq.grid.state import GridState
from rollq.raft.types import Entry, Role
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.consensus import OneLeader
from rollq.testing.ledger import Ledger


def ledger_of(*entries: tuple[int, int]) -> Ledger:
    """Entries as (their term, the term of the member that applied them first)."""
    ledger = Ledger()
    for index, (term, applied_term) in enumerate(entries, 1):
        member: Any = SimpleNamespace(name="m1", term=applied_term)
        ledger.on_apply(member, Entry(term, index, 0, b""), Applied(index, 0, [], [], []), STATE)
    return ledger


def leader(term: int, log: list[int]) -> Any:
    """A driver whose raft leads, with entries of these terms."""
    raft = SimpleNamespace(
        role=Role.LEADER,
        term=term,
        member_id=3,
        config=SimpleNamespace(voters=[SimpleNamespace(id=3)]),
        first_index=1,
        applied=0,
        last_index=len(log),
        entry_slice=lambda low, high: [],
        term_at=lambda index: log[index - 1] if index <= len(log) else None,
    )
    return SimpleNamespace(raft=raft)


STATE = GridState()
MEMBER: Any = SimpleNamespace(name="m3")


def test_a_leader_without_what_was_committed_before_its_term_is_found() -> None:
    checker = OneLeader(ledger_of((1, 1), (3, 3)))
    with pytest.raises(Violation, match="without committed entry 2 of term 3"):
        checker.on_turn(MEMBER, leader(4, [1, 4]))


def test_a_leader_seen_late_need_not_have_what_a_later_term_committed() -> None:
    # Elected in term 4 without entry 2, then suspended. The leader of term 5 had the entry and
    # committed it with one of its own. Then the first leader wakes up and is seen.
    checker = OneLeader(ledger_of((1, 1), (3, 5), (5, 5)))
    checker.on_turn(MEMBER, leader(4, [1, 4]))
    assert checker.term_count == 1
