"""RefusalNotes on their way into the history, and who the history says has asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.limits import REFUSALS_NOTE_MS, REFUSALS_PER_NOTE_MAX
from rollq.grid.access_commands import NoteRefusals, Refusal
from rollq.history.schema import from_line
from rollq.roles.member.leader.refusals import ALL_OTHERS, OTHERS, RefusalNotes
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, submit

CLIENT, REQUEST = 1, b"r" * 16


def admin(action: str, **arguments: Any) -> wire.Admin:
    return wire.Admin(REQUEST, action, msgspec.msgpack.encode(arguments))


def history(group: Group, *kinds: str) -> list[dict[str, Any]]:
    driver = group.leader
    rows = driver.replica.history.rows(1, driver.state.applied_index)
    assert rows is not None
    found = [msgspec.structs.asdict(from_line(line)) for line in rows.lines]
    return [row for row in found if row["type"] in kinds]


def test_the_first_are_noted_at_once_and_the_next_together() -> None:
    refusals = RefusalNotes()
    assert refusals.due(10) == []
    refusals.add("ann", "jobs.read", "client:bob", "10.0.0.7:40112")
    (first,) = refusals.due(10)
    assert first == NoteRefusals((Refusal("ann", "jobs.read", "client:bob", "10.0.0.7"),))
    for port in range(1_000):
        refusals.add("ann", "jobs.read", "client:bob", f"10.0.0.7:{port}")
    refusals.add("ann", "jobs.cancel", "client:bob", "[::1]:5")
    assert refusals.due(9 + REFUSALS_NOTE_MS) == []
    (joined,) = refusals.due(10 + REFUSALS_NOTE_MS)
    assert [(one.action, one.address, one.count) for one in joined.refusals] == [
        ("jobs.read", "10.0.0.7", 1_000),
        ("jobs.cancel", "[::1]", 1),
    ]
    assert refusals.due(10**9) == []


def test_no_number_of_refusals_makes_more_than_a_note_holds() -> None:
    refusals = RefusalNotes()
    for number in range(200):
        refusals.add("ann", "jobs.read", f"client:{number}{'x' * 2_000}", "h:1")
    for number in range(200):
        refusals.add(f"a{number}", "jobs.read", "client:bob", "h:1")
    (note,) = refusals.due(0)
    assert len(note.refusals) == REFUSALS_PER_NOTE_MAX
    assert sum(one.count for one in note.refusals) == 400
    assert note.refusals[-2] == Refusal("ann", "jobs.read", OTHERS, "h", 200 - 62)
    assert note.refusals[-1] == Refusal(*ALL_OTHERS, 200)
    group = one_member()
    refusals = group.leader.leader_state.refusals
    for number in range(400):
        refusals.add("ann", "jobs.read", f"client:{'ø' * 400}{number}", "h:1")
    group.run()
    assert sum(row["count"] for row in history(group, "refused")) == 400  # and none is refused


def one_member() -> Group:
    group = Group()
    group.elect()
    group.leader.leader_state.shell.account_of = lambda number: "olga" if number == CLIENT else ""
    group.client(CLIENT)
    return group


def test_refusals_of_a_leader_are_in_the_history() -> None:
    group = one_member()
    group.leader.leader_state.refusals.add("eve", "jobs.read", "client:bob", "10.0.0.7:40112")
    group.run()
    (row,) = history(group, "refused")
    assert {name: row[name] for name in ("by", "action", "resource", "address", "count")} == {
        "by": "eve",
        "action": "jobs.read",
        "resource": "client:bob",
        "address": "10.0.0.7",
        "count": 1,
    }


def test_a_leader_that_is_one_no_more_forgets_what_it_refused() -> None:
    group = Group("a", "b", "c")
    group.elect()
    leader = group.leader
    leader.leader_state.refusals.add("eve", "jobs.read", "client:bob", "h:1")
    leader.leader_state.lose("", leader.raft.config)
    assert leader.leader_state.refusals.due(10**9) == []


def test_an_act_names_the_account_and_not_what_the_client_calls_itself() -> None:
    group = one_member()
    group.say(CLIENT, admin("pause", queue="calc"), submit(1))
    group.say(CLIENT, wire.Cancel(REQUEST, (submit(1).job_id,)))
    group.say(CLIENT, admin("access_put_account", account=["ann", ["client"]]))
    rows = history(group, "queue_pause", "cancel", "account_put")
    assert [(row["type"], row["by"]) for row in rows] == [
        ("queue_pause", "olga"),
        ("cancel", "olga"),
        ("account_put", "olga"),
    ]
    assert rows[-1]["account"] == "ann"


def test_a_client_without_an_account_is_named_by_its_id() -> None:
    group = one_member()
    group.client(7, "carl")
    group.say(7, admin("pause", queue="calc"))
    (row,) = history(group, "queue_pause")
    assert row["by"] == "carl"


@pytest.mark.parametrize(
    ("act", "resource"),
    [
        (
            admin("dismiss", worker_ids=[b"\x01" * 16]),
            "worker:01010101-0101-0101-0101-010101010101",
        ),
        (admin("add_member", member_id=77, address="h:1"), "member:77"),
    ],
)
def test_acts_that_are_no_commands_are_in_the_history(act: wire.Admin, resource: str) -> None:
    group = one_member()
    group.say(CLIENT, act)
    (row,) = history(group, "act")
    assert (row["by"], row["detail"], row["resource"]) == ("olga", act.action, resource)
    assert row["action"] in ("workers.dismiss", "cluster.change")


def test_a_transfer_is_in_the_history_before_it_happens() -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    before = group.leader
    other = next(one for one in group.members.values() if one is not before)
    answers = group.say(CLIENT, admin("transfer", member_id=other.raft.member_id))
    assert wire.Accepted(REQUEST) in answers
    group.run()
    assert group.leader is other
    (row,) = history(group, "act")
    assert (row["detail"], row["resource"]) == ("transfer", f"member:{other.raft.member_id}")
