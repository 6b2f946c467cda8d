"""What a leader answers to questions: a group of one on a virtual disk, asked over its sessions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.grid.matching import JobFilter
from rollq.grid.pages import JobPage
from rollq.grid.views import ClientView, RawWorkerView
from rollq.history.schema import from_line
from rollq.history.segments import Segments
from rollq.roles.member import queries
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import CloseSession, Mishap, ToSession
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.status import ClusterView
from rollq.testing.disk import VirtualDisk
from rollq.testing.jitter import SeededJitter
from rollq.wire import messages as wire

SESSION = 7
JOB = b"j" * 16


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 1_000

    def now_us(self) -> int:
        return 1_000_000

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class Member:
    """A driver whose turns are made by hand."""

    def __init__(self, disk: VirtualDisk) -> None:
        self.closed: list[int] = []
        self.mishaps: list[Mishap] = []
        setup = MemberSetup("here:1")
        self.driver = Driver(
            *(setup, disk, Clock(), SeededJitter("reads"), lambda point: None),
            calendar=ZoneCalendar(),
        )
        for _ in range(100):
            self.driver.tick()
            self.turns()
            if self.driver.leading:
                break
        self.say(wire.HelloClient("ann"))

    def turns(self) -> list[Any]:
        said = []
        while (work := self.driver.begin()) is not None:
            work.run()
            self.driver.finish(work)
        for output in self.driver.take_outputs():
            if isinstance(output, ToSession):
                said.extend(output.messages)
            elif isinstance(output, CloseSession):
                self.closed.append(output.session)
            elif isinstance(output, Mishap):
                self.mishaps.append(output)
        return said

    def say(self, message: wire.ToMemberMessage) -> list[Any]:
        self.driver.session_message(SESSION, message)
        return self.turns()

    def ask(self, what: str, key: bytes = b"", limit: int = 100) -> Any:
        (answer,) = self.say(wire.Query(b"q" * 16, what, key, limit))
        return answer


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


@pytest.fixture
def member(disk: VirtualDisk) -> Member:
    made = Member(disk)
    made.say(wire.SubmitJob(JOB, "ann", "", "calc", b"body"))
    return made


def test_the_group_is_shown_by_its_leader(member: Member) -> None:
    view = msgspec.msgpack.decode(member.ask("cluster").value, type=ClusterView)
    assert (view.leader, view.term) == ("here:1", 1)
    assert view.applied == view.commit == view.last_index
    (one,) = view.members
    assert (one.address, one.role, one.lag, one.active) == ("here:1", "leader", 0, True)
    assert one.match == view.last_index


def test_lists_are_decoded_as_they_were_made(member: Member) -> None:
    key = msgspec.msgpack.encode(JobFilter(state="queued"))
    page = msgspec.msgpack.decode(member.ask("jobs", key).value, type=JobPage)
    assert [job.job_id for job in page.jobs] == [JOB]
    assert msgspec.msgpack.decode(member.ask("jobs").value, type=JobPage) == page
    clients = msgspec.msgpack.decode(member.ask("clients").value, type=list[ClientView])
    assert [client.client_id for client in clients] == ["ann"]
    assert msgspec.msgpack.decode(member.ask("workers").value, type=list[RawWorkerView]) == []


def test_history_is_read_from_any_place_on(member: Member) -> None:
    first, last, lines = msgspec.msgpack.decode(member.ask("history").value)
    rows = [from_line(line) for line in lines]
    assert first == 1
    assert last == member.driver.state.applied_index
    assert [row.type for row in rows] == ["client_open", "enqueue"]
    later = msgspec.msgpack.decode(member.ask("history", (last + 1).to_bytes(8, "big")).value)
    assert later == [last + 1, last, []]


@pytest.mark.parametrize(
    ("what", "key", "limit"),
    [
        ("jobs", b"\xff", 1),
        ("jobs", msgspec.msgpack.encode(JobFilter(after=-1)), 1),
        ("jobs", msgspec.msgpack.encode(JobFilter(after=2**63 - 1)), 1),
        ("jobs", msgspec.msgpack.encode(JobFilter(queue="x" * 2_000)), 1),
        ("dead", b"\xff" * 9, 1),
        ("dead", b"\xff" * 8, 1),
        ("history", b"\xff" * 9, 1),
        ("history", b"\x80" + bytes(7), 1),
        ("client", b"\xff", 1),
        ("nothing", b"", 1),
    ],
)
def test_a_bad_question_is_refused(member: Member, what: str, key: bytes, limit: int) -> None:
    answer = member.ask(what, key, limit)
    assert isinstance(answer, wire.Error)
    assert answer.code == ErrorCode.BAD_PAYLOAD
    assert isinstance(member.ask("counts"), wire.Answer)


def test_a_view_that_fails_ends_its_session_and_not_the_member(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = queries.VIEWS["counts"]._replace(read=lambda *_: 1 // 0)
    monkeypatch.setitem(queries.VIEWS, "counts", failing)
    answer = member.ask("counts")
    assert isinstance(answer, wire.Error)
    assert (answer.code, answer.retryable) == (ErrorCode.BUG, False)
    assert [type(one.error) for one in member.mishaps] == [ZeroDivisionError]
    assert member.closed == [SESSION]


def test_an_answer_that_fits_no_frame_is_refused(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "ANSWER_BYTES_MAX", 10)
    answer = member.ask("jobs")
    assert isinstance(answer, wire.Error)
    assert (answer.code, answer.retryable) == (ErrorCode.ANSWER_TOO_LARGE, False)


def test_a_member_that_stops_leaves_its_history_whole(member: Member, disk: VirtualDisk) -> None:
    applied = member.driver.state.applied_index
    member.driver.close()
    assert Segments(disk).covered_to() == applied
    again = Member(disk)
    again.driver.close()
    segments = Segments(disk)
    assert segments.covered_to() == again.driver.state.applied_index > applied
    names = segments.names()
    assert len(names) == len(dict.fromkeys(names)) == 2
    rows = [from_line(line) for line in segments.read(1, 1_000)]
    assert [row.type for row in rows].count("enqueue") == 1
