"""What the simulator's checker of durations must let pass, and what not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.grid import commands
from rollq.grid import events as facts
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import Settings
from rollq.grid.effects import Applied, Done
from rollq.grid.events import Event
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.times import Times
from rollq.testing.clock import MS, VirtualTimeline

JOB, ARRAY = b"j" * 16, b"a" * 16
MEMBER: Any = SimpleNamespace(name="m1")
TTL_MS = 5_000


class Story:
    def __init__(self, stalled_ms: int = 0) -> None:
        self.timeline = VirtualTimeline()
        self.checker = Times(self.timeline, lambda: stalled_ms)
        self.index = 0
        settings = Settings(result_ttl_ms=TTL_MS, dead_ttl_ms=TTL_MS)
        self.tell(commands.SetSettings(settings))

    def tell(self, command: commands.Command, *events: Event, after_ms: int = 0) -> None:
        self.timeline.run_until(self.timeline.now_us + after_ms * MS)
        self.index += 1
        entry = Entry(1, self.index, 0, encode_batch(0, [command]))
        applied = Applied(self.index, 0, [Done(1)], list(events), [])
        self.checker.on_apply(MEMBER, entry, applied, GridState())


def forget(story: Story, after_ms: int) -> None:
    story.tell(commands.AckJob(JOB, 1, 1, 0), Event(facts.JOB_ACKED, JOB))
    story.tell(commands.ForgetJobs((JOB,)), Event(facts.JOB_FORGOTTEN, JOB), after_ms=after_ms)


def test_an_end_that_is_forgotten_after_its_time_is_lawful() -> None:
    forget(Story(), TTL_MS)
    forget(Story(stalled_ms=1_000), TTL_MS - 1_000)


def test_an_end_that_is_forgotten_before_its_time_is_a_violation() -> None:
    with pytest.raises(Violation, match="given up after 4000 ms, and has 5000 ms"):
        forget(Story(), 4_000)


@pytest.mark.parametrize("first_task", [0, 1])
def test_an_array_goes_with_its_task_0_only_if_they_share_an_id(first_task: int) -> None:
    story = Story()
    array = commands.SubmitArray(ARRAY, "c", "q", "exe", b"", 1, first_task=first_task)
    story.tell(array, Event(facts.ARRAY_ENDED, array_id=ARRAY))
    gone = Event(facts.JOB_FORGOTTEN, array_id=ARRAY)
    if first_task:
        with pytest.raises(Violation):
            story.tell(commands.ForgetJobs((ARRAY,)), gone)
    else:
        story.tell(commands.ForgetJobs((ARRAY,)), gone)


def test_a_batch_that_is_dropped_too_soon_is_a_violation() -> None:
    story = Story()
    story.tell(commands.StageJobs("c", "key", "0", 0, ()))
    name = commands.BatchName("c", "key")
    story.tell(commands.DropBatches((name,), "c"))
    with pytest.raises(Violation, match="batch"):
        story.tell(commands.DropBatches((name,), "expired"))
