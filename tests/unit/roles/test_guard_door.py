"""A door with a guard: who is told what, what waits, and who has to go when rules change."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rollq.base.access import LinkRole
from rollq.base.access_rules import Account, TokenHash, decide
from rollq.base.errors import ErrorCode
from rollq.base.limits import DECISIONS_KEPT_MAX, GIVEN_BLOBS_MAX
from rollq.roles import access
from rollq.roles.access import Decisions
from rollq.roles.member.guard import guard as guard_module
from rollq.roles.member.guard.given import GivenBlobs
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.mode import Mode
from rollq.wire import messages as m
from rollq.wire.reader_messages import HelloReader, SpanAsk
from tests.unit.grid.kit import job_id
from tests.unit.roles.guard_kit import Line, Room, World, client, deny, login

REQUEST = bytes(15) + b"\1"
HELLO = m.HelloClient("ann/1", 0, ("compact", "accepted"))
SUBMIT = m.SubmitJob(job_id("new"), "ann/1", "q", "exe", b"")
FORGED = m.SubmitJob(job_id("new"), "bob/1", "q", "exe", b"")


def test_what_is_refused_is_answered_and_the_link_goes_on() -> None:
    world, room, line = World(), Room(), Line()
    door = world.door(room)
    line.says(door, login("ann"), HELLO)
    line.says(door, SUBMIT, FORGED, m.Ping())
    assert room.heard == [HELLO, SUBMIT, m.Ping()]
    (error,) = line.sent
    assert (error.request_id, error.code) == (job_id("new"), ErrorCode.ACCESS_DENIED)
    assert not line.closed


def test_a_hello_that_is_refused_ends_the_link() -> None:
    world, room, line = World(), Room(), Line()
    line.says(world.door(room), login("ann"), m.HelloClient("bob/1", 0, ("accepted",)), SUBMIT)
    assert not room.heard
    (error,) = line.sent
    assert error.code == ErrorCode.ACCESS_DENIED
    assert "client:bob/1" in line.closed


def test_a_worker_without_the_right_to_run_is_hung_up_on() -> None:
    world = World(Account("al", ("worker",), (deny("jobs.run", "*"),)))
    room, line = Room(), Line(CertificateIdentity("c", CertificateRole.WORKER, "al"))
    hello = m.HelloWorker(job_id("w"), (), "al", features=("compact",))
    door = world.door(room)
    line.says(door, hello)
    line.says(door, m.AckJob(job_id("his"), 1, 1))
    assert (room.heard, line.sent[0].code) == ([hello], ErrorCode.ACCESS_DENIED)
    assert "jobs.run" in line.closed


def test_one_that_reads_no_errors_gets_a_failed_result() -> None:
    world, room, line = World(), Room(), Line()
    door = world.door(room, Mode.REQUIRE)
    line.says(door, login("ann"), m.HelloClient(""), SUBMIT, FORGED)
    named, taken = room.heard
    assert isinstance(named, m.HelloClient)
    assert named.client_id.startswith("ann/nameless-")
    assert room.principals[0].name == named.client_id
    assert taken is SUBMIT
    (result,) = line.sent
    assert isinstance(result, m.Result)
    assert b"client:bob/1" in result.result


def test_whoever_proves_nothing_may_do_all_where_that_is_let_in() -> None:
    """Accounts are held to their rights there as well."""
    world, room, line = World(), Room(), Line()
    door = world.door(room, Mode.ALLOW)
    anybody = m.HelloClient("bob/1", 0, ("accepted",))
    line.says(door, anybody, FORGED, m.Cancel(REQUEST, (job_id("his"),)))
    assert len(room.heard) == 3
    known = Line()
    known.says(door, login("ann"), HELLO, FORGED)
    assert (len(room.heard), known.sent[0].code) == (4, ErrorCode.ACCESS_DENIED)


def test_sessions_wait_until_this_member_knows_whose_their_jobs_are() -> None:
    """A member that was just elected may lack the account, or the job that its client cancels."""
    world, room, line, reader = World(), Room(), Line(), Line()
    door = world.door(room)
    world.about_to_lead = True
    line.says(door, login("ann"), HELLO)
    assert (room.heard, line.is_paused) == ([], True)
    line.says(door, SUBMIT)
    reader.says(door, login("ann"), HelloReader())  # any member serves those
    assert room.heard == [HelloReader()]
    door.go_on()
    assert (len(room.heard), line.is_paused) == (1, True)
    world.about_to_lead = False
    door.go_on()
    assert (room.heard[1:], line.is_paused) == ([HELLO, SUBMIT], False)
    gone = Line()
    world.about_to_lead = True
    gone.says(door, login("ann"), HELLO)
    door.closed(gone, "over")  # type: ignore[arg-type]
    world.about_to_lead = False
    door.go_on()
    assert len(room.heard) == 3


@pytest.mark.parametrize("is_disabled", [True, False])
def test_links_of_an_account_that_loses_its_rights_end(is_disabled: bool) -> None:
    world, room = World(), Room()
    door = world.door(room)
    ann, bob = Line(), Line()
    ann.says(door, login("ann"), HELLO)
    bob.says(door, login("bob"), m.HelloClient("bob/1", 0, ("accepted",)))
    if is_disabled:
        world.table.accounts["ann"] = replace(world.table.accounts["ann"], is_disabled=True)
    else:
        del world.table.accounts["ann"]
    world.table.version += 1
    door.judge_again()
    assert "client.connect" in ann.closed
    assert not bob.closed
    assert not bob.sent


def test_links_end_with_the_token_that_opened_them() -> None:
    """Revoked, or expired while it is open; the links of another token of the account stay."""
    world, room = World(), Room()
    door = world.door(room)
    (revoked,) = world.table.accounts["ann"].tokens
    first, second, third = Line(), Line(), Line()
    first.says(door, login("ann"), HELLO)
    expiring = TokenHash("short", revoked.sha256, world.now_ms + 100)
    world.table.accounts["ann"] = Account("ann", ("client",), tokens=(expiring,))
    second.says(door, login("ann"), m.HelloClient("ann/2", 0, ("accepted",)))
    third.says(door, login("bob"), m.HelloClient("bob/1", 0, ("accepted",)))
    assert door.expires_ms == world.now_ms + 100
    door.judge_again()
    assert "was removed" in first.closed
    assert first.sent[-1].code == ErrorCode.LOGIN_FAILED
    assert not second.closed
    door.closed(first, "over")  # type: ignore[arg-type]
    world.now_ms += 100
    door.judge_again()
    assert "has expired" in second.closed
    assert (third.closed, door.expires_ms) == ("", 0)


def test_a_certificate_without_an_account_has_the_role_that_it_names() -> None:
    world = World()

    def line_of(role: CertificateRole, *messages: Any) -> tuple[Line, Room]:
        line, room = Line(CertificateIdentity("c", role, "new")), Room()
        line.says(world.door(room), *messages)
        return line, room

    hello = m.HelloClient("new/1", 0, ("accepted",))
    for role in (CertificateRole.CLIENT, CertificateRole.ADMIN):
        assert line_of(role, hello)[1].heard == [hello]
    for role in (CertificateRole.WORKER, CertificateRole.MEMBER):
        line, room = line_of(role, hello)
        assert (line.sent[0].code, room.heard) == (ErrorCode.ACCESS_DENIED, [])
    pause = m.Admin(REQUEST, "pause", b"\x81\xa5queue\xa1x")
    assert line_of(CertificateRole.ADMIN, hello, pause)[1].heard == [hello, pause]
    assert line_of(CertificateRole.CLIENT, hello, pause)[1].heard == [hello]
    # An account of that name takes its place, with what the group says of it.
    world.table.accounts["new"] = Account("new")
    world.table.version += 1
    assert line_of(CertificateRole.ADMIN, hello)[1].heard == []
    assert line_of(CertificateRole.CLIENT, HelloReader(), SpanAsk(REQUEST))[1].heard == []


def test_decisions_are_kept_until_the_rules_change_and_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    scans = []

    def counted(*args: Any) -> bool:
        scans.append(args[3])
        return decide(*args)

    monkeypatch.setattr(access, "decide", counted)
    decisions = Decisions(lambda: world.table)
    ann = client("ann")
    for _ in range(3):
        assert decisions.may(ann, "jobs.submit", "queue:q")
        assert not decisions.may(ann, "queues.pause", "queue:q")
    assert len(scans) == 2
    world.table.accounts["ann"] = Account("ann", ("operator",))
    world.table.version += 1
    assert decisions.may(ann, "queues.pause", "queue:q")
    assert not decisions.may(ann._replace(account="bob"), "queues.pause", "queue:q")
    for number in range(DECISIONS_KEPT_MAX + 2):
        decisions.may(ann, "jobs.submit", f"queue:{number}")
    assert len(decisions._kept) <= DECISIONS_KEPT_MAX


def test_gifts_are_bounded_and_end_with_their_lease() -> None:
    now_ms = 0
    given = GivenBlobs(100, lambda: now_ms)
    given.add(b"a", "ann")
    given.add(b"a", "bob")
    now_ms = 50
    given.add(b"a", "ann")
    now_ms = 100
    assert list(given.by(b"a")) == ["ann"]
    for number in range(GIVEN_BLOBS_MAX + 5):
        given.add(b"%d" % number, "ann")
    assert len(given._until) == GIVEN_BLOBS_MAX == sum(map(len, given._by.values()))
    assert given.by(b"a") == ()


def test_every_role_is_judged() -> None:
    """Only what is proved in another way is not: members, by the key of their cluster."""
    world = World()
    nobody = client("nobody")
    unjudged = {role for role in LinkRole if guard_module.is_trusted(nobody._replace(role=role))}
    assert unjudged == {LinkRole.MEMBER}
    assert world.error(nobody, HELLO).code == ErrorCode.ACCESS_DENIED


@pytest.mark.parametrize(
    ("legacy", "account"),
    [
        ((), ""),
        (("10.0.0.2=ann",), ""),
        (("10.0.0.1=ann",), "ann"),
        (("10.0.0.0/8=bob", "10.0.0.0/24=ann"), "ann"),
        (("10.0.0.1=nobody",), ""),
    ],
)
def test_a_legacy_peer_has_the_account_of_its_address(
    legacy: tuple[str, ...], account: str
) -> None:
    """If one is set; it is judged as any other then."""
    world, room, line = World(), Room(), Line()
    door = world.door(room, legacy=legacy)
    line.says(door, m.HelloClient("ann/1"), SUBMIT, FORGED)
    assert room.heard == ([m.HelloClient("ann/1"), SUBMIT] if account else [])
    assert [one.account for one in room.principals] == ([account] if account else [])
    # Whoever offers features can log in, and must.
    modern = Line()
    modern.says(door, HELLO)
    assert modern.sent[0].code == ErrorCode.LOGIN_REQUIRED


def test_a_legacy_account_that_is_disabled_lets_nobody_in() -> None:
    world, room, line = World(Account("old", ("client",), is_disabled=True)), Room(), Line()
    line.says(world.door(room, legacy=("10.0.0.1=old",)), m.HelloClient("old/1"))
    assert room.heard == []
