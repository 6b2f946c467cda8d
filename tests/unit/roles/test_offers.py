"""Legacy leaders do not answer offers: how workers and clients find out, and go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import LOOK_MS
from rollq.roles.client.session import signals as c
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import ClientSetup
from rollq.roles.worker import signals as w
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.session import WorkerSetup
from rollq.wire import messages as wire
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.members import Group

WORKER = b"w" * 16
TICKS_MAX = 1_000


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Story:
    """A worker or a client, and a leader that takes connections and says nothing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.now_ms = 0
        self.machine: Any
        if kind == "worker":
            self.signals: Any = w
            patterns = ("job.assign.a", "job.assign.b")
            who = WorkerSetup(WORKER, ("m1",), patterns, "me", 7, 2, ("compact",))
            self.machine = WorkerMachine(who, MiddleJitter())
        else:
            self.signals = c
            setup = ClientSetup("ann", ("m1",), 3, ("compact", "accepted"))
            self.machine = ClientMachine(setup, MiddleJitter())
        self.feed(self.signals.Started())

    def feed(self, event: Any) -> list[Any]:
        """What the machine says: messages as they are, other instructions too."""
        told: list[Any] = []
        out = self.machine.handle(event)
        if self.kind == "worker":
            out = out + self.machine.handle(w.TurnOver())
        for one in out:
            told += getattr(one, "messages", None) or [getattr(one, "message", one)]
        return told

    def connect(self) -> Any:
        """The hello on a new connection."""
        self.said = self.feed(self.signals.Connected())
        return self.said[0]

    def hear(self, message: wire.MemberMessage) -> list[Any]:
        event = (
            w.MessageReceived([message]) if self.kind == "worker" else c.MessagesReceived([message])
        )
        return self.feed(event)

    def tick(self) -> list[Any]:
        self.now_ms += LOOK_MS
        tick = w.Tick if self.kind == "worker" else c.ClientTick
        return self.feed(tick(self.now_ms))

    def until_left(self) -> None:
        """Time passes until it hangs up."""
        for _ in range(TICKS_MAX):
            if any(isinstance(one, self.signals.Disconnect) for one in self.tick()):
                return
        raise AssertionError("it waits for ever")


@pytest.fixture(params=["worker", "client"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(request.param)


def test_after_two_offers_without_a_word_nothing_is_offered(story: Story) -> None:
    for _ in range(2):
        hello = story.connect()
        assert hello.features
        assert not hello.plain
        story.until_left()
    hello = story.connect()
    assert (hello.features, hello.plain) == ((), True)
    for _ in range(TICKS_MAX):
        story.tick()  # silence means nothing there
    assert int(story.machine.link) == 2


def test_whoever_was_welcomed_once_offers_always(story: Story) -> None:
    story.connect()
    story.hear(wire.Welcome("g", 1, ("compact",)))
    story.feed(story.signals.Disconnected())
    for _ in range(5):
        assert story.connect().features
        story.until_left()


def test_a_member_that_hangs_up_on_a_plain_hello_is_offered_features_again(story: Story) -> None:
    for _ in range(2):
        story.connect()
        story.until_left()
    assert story.connect().plain
    story.feed(story.signals.Disconnected())
    assert story.connect().features


def test_an_error_to_a_plain_hello_is_said_by_a_member_of_ours(story: Story) -> None:
    for _ in range(2):
        story.connect()
        story.until_left()
    assert story.connect().plain
    story.hear(wire.Error(b"", ErrorCode.BAD_HANDSHAKE, "this member answers offers"))
    story.feed(story.signals.Disconnected())
    assert story.connect().features


def plainly(kind: str) -> Story:
    story = Story(kind)
    for _ in range(2):
        story.connect()
        story.until_left()
    assert story.connect().plain
    return story


def test_a_result_is_said_once_and_what_is_assigned_again_runs_again() -> None:
    story = plainly("worker")
    assert wire.Credit(2) in story.said
    assign = wire.AssignJob(job(1), 0, 0, 0, "job.assign.a", "calc", b"{}")
    ref = AttemptRef(job(1), 0, 0)
    for _ in range(2):
        assert any(isinstance(one, w.StartJobs) for one in story.hear(assign))
        story.feed(w.Finished([w.StoredResult(ref, 0, Status.OK, b"out")]))
        told = story.feed(w.ResultStored([ref]))
        assert wire.AckJob(job(1), status=Status.OK, result=b"out") in told
        assert not story.machine.holding


def test_a_job_that_cannot_be_run_is_a_failed_result() -> None:
    story = plainly("worker")
    story.hear(wire.AssignJob(job(1), 0, 0, 0, "job.assign.a", "calc", b"{}"))
    told = story.feed(w.StartFailed(AttemptRef(job(1), 0, 0), "no such program"))
    (ack,) = [one for one in told if isinstance(one, wire.AckJob)]
    assert ack.status == Status.FAILED
    assert json.loads(ack.result)["Stderr"] == "no such program"


def test_jobs_are_accepted_when_the_leader_has_shown_what_it_is_and_sent_until_they_end() -> None:
    story = plainly("client")
    jobs = [wire.SubmitJob(job(number), "ann", "q", "calc", b"") for number in (1, 2, 3)]
    assert story.feed(c.Requested(jobs[:1])) == jobs[:1]
    assert story.feed(c.Requested(jobs[1:])) == jobs[1:]
    assert story.tick() == []  # it may be a member of ours that is silent
    story.hear(wire.Result(job(2), "done"))
    (told,) = [one.answers for one in story.tick() if isinstance(one, c.DeliverResponses)]
    assert told == [wire.Accepted(job(1)), wire.Accepted(job(2)), wire.Accepted(job(3))]
    story.feed(story.signals.Disconnected())
    story.connect()
    assert [one.job_id for one in story.said[1:]] == [job(1), job(3)]


def test_accepted_jobs_outlive_sessions_that_bring_no_result() -> None:
    story = plainly("client")
    first = wire.SubmitJob(job(1), "ann", "q", "calc", b"1")
    story.feed(c.Requested((first,)))
    story.hear(wire.Result(job(2), "done"))
    assert any(isinstance(one, c.DeliverResponses) for one in story.tick())
    story.feed(story.signals.Disconnected())
    assert story.connect().plain
    story.feed(story.signals.Disconnected())  # before any result
    assert story.connect().features
    assert first in story.hear(wire.Welcome("g", 1, ("compact",)))


def test_what_a_legacy_leader_does_not_know_is_refused() -> None:
    story = plainly("client")
    assert story.feed(c.Requested((wire.SubmitArray(job(1), "ann", "q", "calc", b"", 3),))) == []
    story.hear(wire.Result(job(2), "done"))
    ((answer,),) = [one.answers for one in story.tick() if isinstance(one, c.DeliverResponses)]
    assert isinstance(answer, wire.Error)
    assert answer.code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "hello",
    [wire.HelloClient("ann", plain=True), wire.HelloWorker(WORKER, ("",), plain=True)],
)
def test_a_member_of_ours_hangs_up_on_whoever_takes_it_for_another(hello: Any) -> None:
    group = Group()
    group.elect()
    group.say(1, hello)
    assert list(group.closed) == [1]


def test_nothing_is_accepted_by_a_member_of_ours_that_was_silent() -> None:
    story = plainly("client")
    first = wire.SubmitJob(job(1), "ann", "q", "calc", b"1")
    story.feed(c.Requested((first,)))
    assert story.tick() == []
    story.feed(story.signals.Disconnected())
    assert story.connect().features
    assert first in story.hear(wire.Welcome("g", 1, ("compact",)))
    assert not [one for one in story.tick() if isinstance(one, c.DeliverResponses)]
