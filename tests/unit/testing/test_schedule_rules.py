"""What the simulator's checker of schedules must let pass, and what not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rollq.base.schedules import firing_key
from rollq.grid import events as facts
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Done
from rollq.grid.events import AccessFact, Event
from rollq.grid.schedule_commands import (
    FireSchedule,
    PauseSchedule,
    PutSchedule,
    RemoveSchedule,
    ResumeSchedule,
    ScheduleSpec,
)
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.schedules import OVERDUE_MS, SchedulesKept

MEMBER: Any = SimpleNamespace(name="m1")
BEGIN_MS = 1_700_000_040_000  # a whole minute
FIRST_MS = BEGIN_MS + 2_000
SPEC = ScheduleSpec("beat", "schedule.beat", "q", "exe", b"", every_ms=2_000)
FIRE = FireSchedule("beat", 1, FIRST_MS, FIRST_MS, FIRST_MS + 2_000)
SECOND = FireSchedule("beat", 1, FIRST_MS + 2_000, FIRST_MS + 2_000, FIRST_MS + 4_000)


class Story:
    """A schedule that was put by the first entry."""

    def __init__(self, **fields: Any) -> None:
        self.checker = SchedulesKept()
        self.index = 0
        self.time_ms = BEGIN_MS
        self.tell(PutSchedule(replace(SPEC, **fields), FIRST_MS))

    def tell(self, command: Command, *events: Event, at_ms: int = 0) -> None:
        """An entry with one command, at a time."""
        self.time_ms = at_ms or self.time_ms
        self.index += 1
        entry = Entry(1, self.index, 0, encode_batch(self.time_ms, [command]))
        applied = Applied(self.index, self.time_ms, [Done(1)], list(events), [])
        self.checker.on_apply(MEMBER, entry, applied, GridState())

    def fire(self, command: FireSchedule, *events: Event, late_ms: int = 0) -> None:
        """An instant is taken, and its job made."""
        newest_ms = command.fire_ms or command.due_ms
        told = [fact(facts.SCHEDULE_FIRED, command.fire_ms)] if command.fire_ms else []
        self.tell(command, *(events or told), at_ms=newest_ms + late_ms)


def job_of(due_ms: int) -> bytes:
    """The id of the job of an instant."""
    return due_ms.to_bytes(16, "big")


def fact(kind: str, due_ms: int) -> Event:
    """What became of an instant."""
    detail, access = firing_key("beat", due_ms), AccessFact(resource="schedule:beat")
    return Event(kind, job_of(due_ms), detail=detail, access=access)


def ended(due_ms: int) -> Event:
    """The job of an instant has ended."""
    return Event(facts.JOB_ACKED, job_of(due_ms))


def test_a_schedule_that_does_as_it_should() -> None:
    story = Story()
    story.fire(FIRE)
    story.fire(SECOND, fact(facts.SCHEDULE_SKIPPED, SECOND.fire_ms))
    third = FireSchedule("beat", 1, SECOND.next_ms, SECOND.next_ms, SECOND.next_ms + 2_000)
    story.fire(third, ended(FIRST_MS), fact(facts.SCHEDULE_FIRED, third.fire_ms))
    story.tell(PauseSchedule("beat"))
    assert not story.checker.overdue(third.next_ms + 60_000)
    resumed_ms = third.next_ms + 60_000
    story.tell(ResumeSchedule("beat", resumed_ms, version=1), at_ms=resumed_ms - 2_000)
    assert not story.checker.overdue(resumed_ms + OVERDUE_MS)
    assert story.checker.overdue(resumed_ms + OVERDUE_MS + 1) == ["beat"]
    assert list(story.checker.open) == [job_of(third.fire_ms)]
    story.tell(RemoveSchedule("beat"))
    assert not story.checker.ghosts


def test_an_instant_is_taken_once() -> None:
    story = Story()
    story.fire(FIRE)
    with pytest.raises(Violation, match="its next instant is"):
        story.fire(FIRE)


def test_an_instant_is_not_fired_by_two_versions() -> None:
    story = Story()
    story.fire(FIRE)
    story.tell(RemoveSchedule("beat"))
    story.tell(PutSchedule(SPEC, FIRST_MS))
    with pytest.raises(Violation, match=r"which it did at 2"):
        story.fire(replace(FIRE, version=4))


@pytest.mark.parametrize(
    "change",
    [PauseSchedule("beat"), RemoveSchedule("beat"), PutSchedule(SPEC, FIRST_MS)],
)
def test_a_decision_from_before_a_change_is_void(change: Command) -> None:
    story = Story()
    story.tell(change)
    with pytest.raises(Violation, match="void"):
        story.fire(FIRE)


def test_a_resume_that_knows_no_put_goes_on_with_the_instant_of_the_put() -> None:
    story = Story()
    story.tell(PauseSchedule("beat"))
    story.tell(PutSchedule(replace(SPEC, every_ms=1_000), BEGIN_MS + 1_000))
    story.tell(ResumeSchedule("beat", FIRST_MS, version=1))
    assert story.checker.ghosts["beat"].next_ms == BEGIN_MS + 1_000


def test_a_first_instant_is_one_of_the_schedule() -> None:
    with pytest.raises(Violation, match="begins 2000 ms from now"):
        Story(every_ms=1_000)
    with pytest.raises(Violation, match="is no instant of"):
        Story(every_ms=0, cron="* * * * *", zone="UTC")


@pytest.mark.parametrize(
    ("rules", "command", "late_ms", "complaint"),
    [
        ({}, FIRE, -1, "before it has come"),
        ({}, replace(FIRE, next_ms=FIRST_MS + 3_000), 0, "goes from"),
        ({}, replace(FIRE, next_ms=FIRST_MS + 4_000), 20_000, "goes from"),
        ({}, replace(SECOND, due_ms=FIRST_MS), 20_000, "counts 0 as missed"),
        ({}, replace(SECOND, due_ms=FIRST_MS, missed=1), 10_000, "10000 ms late"),
        ({"catch_up": "all"}, replace(SECOND, due_ms=FIRST_MS, missed=1), 20_000, "'all'"),
        ({}, replace(FIRE, fire_ms=0, missed=1), 20_000, "fires none of 1, by the rule 'last'"),
    ],
)
def test_an_instant_that_is_passed_over_without_a_rule(
    rules: dict[str, Any], command: FireSchedule, late_ms: int, complaint: str
) -> None:
    with pytest.raises(Violation, match=complaint):
        Story(**rules).fire(command, late_ms=late_ms)


def test_what_the_catch_up_rules_pass_over() -> None:
    Story().fire(replace(SECOND, due_ms=FIRST_MS, missed=1), late_ms=10_001)
    Story(catch_up="none").fire(replace(FIRE, fire_ms=0, missed=1), late_ms=10_001)
    Story(catch_up="all").fire(FIRE, late_ms=10_001)


@pytest.mark.parametrize(
    ("overlap", "kind", "complaint"),
    [
        ("skip", facts.SCHEDULE_FIRED, "has not ended"),
        ("queue", facts.SCHEDULE_SKIPPED, "by the rule 'queue'"),
        ("cancel", facts.SCHEDULE_FIRED, "was not cancelled"),
    ],
)
def test_the_overlap_rule_is_kept(overlap: str, kind: str, complaint: str) -> None:
    story = Story(overlap=overlap)
    story.fire(FIRE)
    with pytest.raises(Violation, match=complaint):
        story.fire(SECOND, fact(kind, SECOND.fire_ms))


def test_a_job_that_is_asked_to_end_makes_way() -> None:
    story = Story(overlap="cancel")
    story.fire(FIRE)
    asked = Event(facts.JOB_CANCEL_REQUESTED, job_of(FIRST_MS))
    story.fire(SECOND, asked, fact(facts.SCHEDULE_FIRED, SECOND.fire_ms))


def test_nothing_is_skipped_if_nothing_runs() -> None:
    with pytest.raises(Violation, match="was skipped"):
        Story().fire(FIRE, fact(facts.SCHEDULE_SKIPPED, FIRST_MS))


def test_a_firing_is_told_of() -> None:
    with pytest.raises(Violation, match="nothing is told of beat@"):
        Story().tell(FIRE, at_ms=FIRST_MS)
    with pytest.raises(Violation, match="nothing was due"):
        Story().tell(PauseSchedule("beat"), fact(facts.SCHEDULE_FIRED, FIRST_MS))
