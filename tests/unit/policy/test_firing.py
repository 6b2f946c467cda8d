"""Which schedules fire: when, what of what was missed, and once through any change of leader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.schedule_limits import (
    FIRE_AGAIN_MS,
    INSTANTS_PER_TURN_MAX,
    MISSED_AFTER_MS,
    MISSED_STEPS_MAX,
)
from rollq.base.schedules import ALL, CATCH_UPS, LAST, NONE, jitter_of
from rollq.grid.events import SCHEDULE_FIRED, SCHEDULE_MISSED
from rollq.grid.schedule_commands import FireSchedule, PauseSchedule, PutSchedule, ScheduleSpec
from rollq.policy.firing import Firing
from tests.unit.grid.kit import Grid

START_MS = 1_795_000_000_000
EVERY_MS = 1_000


class OddMinutes:
    """A calendar of its own: every two minutes; it does not know the zone `none`."""

    def next_ms(self, cron: str, zone: str, after_ms: int) -> int:
        if zone == "none":
            raise RemoteError(ErrorCode.BAD_OPTIONS, "no such zone")
        return (after_ms // 120_000 + 1) * 120_000


class Leaders:
    """A grid with one schedule, and whoever leads it."""

    def __init__(self, name: str = "beat", **fields: Any) -> None:
        self.grid = Grid()
        self.firing = Firing(OddMinutes())
        self.fired: list[int] = []
        self.missed = 0
        what: dict[str, Any] = {"every_ms": EVERY_MS, "overlap": "queue"} | fields
        self.spec = ScheduleSpec(name, "ann", "q", "exe", b"", **what)
        self.first_ms = START_MS + (self.spec.every_ms or 120_000)
        self.apply(PutSchedule(self.spec, self.first_ms))

    def apply(self, *commands: Any) -> None:
        """An entry is applied."""
        applied = self.grid.apply(*commands)
        self.firing.observe(applied.events, self.grid.state)
        for event in applied.events:
            if event.kind == SCHEDULE_FIRED:
                self.fired.append(self.grid.state.schedules.by_name[self.spec.name].last_due_ms)
            elif event.kind == SCHEDULE_MISSED:
                self.missed += event.count

    def due(self, time_ms: int) -> list[FireSchedule]:
        """What the leader proposes now."""
        return self.firing.due(self.grid.state, time_ms, 1_024)

    def run(self, time_ms: int) -> None:
        """All that is due by now is proposed and applied, entry by entry."""
        while due := self.due(time_ms):
            self.apply(*due)

    def change(self) -> None:
        """Another member leads."""
        self.firing.step_down()
        self.firing = Firing(OddMinutes())
        self.firing.gain(self.grid.state)

    @property
    def next_ms(self) -> int:
        """The next instant."""
        return self.grid.state.schedules.by_name[self.spec.name].next_ms


def instants(count: int, first: int = 1) -> list[int]:
    """Of a schedule of a second."""
    return [START_MS + number * EVERY_MS for number in range(first, first + count)]


def test_an_instant_is_proposed_when_it_has_come() -> None:
    leaders = Leaders()
    assert leaders.due(leaders.first_ms - 1) == []
    (fire,) = leaders.due(leaders.first_ms)
    assert (fire.due_ms, fire.fire_ms, fire.next_ms) == (*instants(1), *instants(2))
    leaders.apply(fire)
    assert leaders.fired == instants(1)


def test_a_proposal_that_is_lost_is_made_again_and_does_no_harm() -> None:
    leaders = Leaders()
    (fire,) = leaders.due(leaders.first_ms)
    assert leaders.due(leaders.first_ms + FIRE_AGAIN_MS - 1) == []
    assert leaders.due(leaders.first_ms + FIRE_AGAIN_MS) == [fire]
    leaders.change()
    (again,) = leaders.due(leaders.first_ms + 1_500)
    leaders.apply(fire, again)
    assert leaders.fired == instants(1)


def test_cron_lines_ask_the_calendar() -> None:
    leaders = Leaders(every_ms=0, cron="odd", zone="UTC")
    leaders.run(leaders.first_ms)
    assert leaders.next_ms == (leaders.first_ms // 120_000 + 1) * 120_000


def test_a_zone_that_the_leader_does_not_know_leaves_the_instant_due() -> None:
    leaders = Leaders(every_ms=0, cron="odd", zone="none")
    assert leaders.due(leaders.first_ms) == []
    assert leaders.next_ms == leaders.first_ms


def test_what_is_paused_or_removed_is_not_due() -> None:
    leaders = Leaders()
    leaders.apply(PauseSchedule("beat"))
    assert leaders.due(leaders.first_ms) == []
    leaders.change()
    assert leaders.due(leaders.first_ms) == []


@pytest.mark.parametrize("rule", CATCH_UPS)
def test_a_change_of_leader_costs_no_instant(rule: str) -> None:
    leaders = Leaders(catch_up=rule)
    leaders.run(START_MS + 3_000)
    leaders.change()
    leaders.run(START_MS + 3_000 + MISSED_AFTER_MS)
    assert leaders.fired == instants(13)
    assert leaders.missed == 0


@pytest.mark.parametrize(
    ("rule", "caught_up", "missed"),
    [(NONE, [], 50), (LAST, instants(1, 50), 49), (ALL, instants(50), 0)],
)
def test_after_an_outage_the_rule_counts(rule: str, caught_up: list[int], missed: int) -> None:
    leaders = Leaders(catch_up=rule)
    leaders.change()
    leaders.run(START_MS + 51_000 + MISSED_AFTER_MS)
    not_missed = instants(1 + MISSED_AFTER_MS // EVERY_MS, 51)
    assert leaders.fired == caught_up + not_missed
    assert leaders.missed == missed


@pytest.mark.parametrize(("rule", "caught_up"), [(NONE, 0), (LAST, 1)])
def test_a_long_outage_is_passed_over_step_by_step(rule: str, caught_up: int) -> None:
    leaders = Leaders(catch_up=rule)
    gone = 3 * MISSED_STEPS_MAX
    leaders.change()
    (first,) = leaders.due(START_MS + gone * EVERY_MS)
    assert (first.fire_ms, first.missed) == (0, MISSED_STEPS_MAX)
    leaders.apply(first)
    leaders.run(START_MS + gone * EVERY_MS)
    not_missed = 1 + MISSED_AFTER_MS // EVERY_MS
    assert len(leaders.fired) == not_missed + caught_up
    assert leaders.missed == gone - not_missed - caught_up
    assert leaders.fired[-1] == instants(gone)[-1]


def test_a_turn_looks_at_a_bounded_number_of_instants_whatever_was_missed() -> None:
    """A leader that took longer would be replaced, and the next one do the same."""
    leaders = Leaders(catch_up=NONE)
    count = 2 * INSTANTS_PER_TURN_MAX // MISSED_STEPS_MAX
    others = [structs.replace(leaders.spec, name=f"beat-{number}") for number in range(count)]
    leaders.apply(*(PutSchedule(spec, leaders.first_ms) for spec in others))
    leaders.change()
    time_ms = START_MS + MISSED_STEPS_MAX * EVERY_MS + 2 * MISSED_AFTER_MS
    first = leaders.due(time_ms)
    assert sum(fire.missed for fire in first) < INSTANTS_PER_TURN_MAX + MISSED_STEPS_MAX
    second = leaders.due(time_ms)  # those that had no turn are due still
    assert {fire.name for fire in first}.isdisjoint(fire.name for fire in second)
    leaders.apply(*first, *second)
    leaders.run(time_ms)
    assert {one.next_ms for one in leaders.grid.state.schedules.by_name.values()} == {
        time_ms + EVERY_MS
    }


def test_jitter_puts_a_firing_off_by_what_its_instant_says() -> None:
    leaders = Leaders(every_ms=60_000, jitter_ms=30_000)
    late_ms = jitter_of("beat", leaders.first_ms, 30_000)
    assert 0 < late_ms < 30_000
    assert leaders.due(leaders.first_ms + late_ms - 1) == []
    assert len(leaders.due(leaders.first_ms + late_ms)) == 1
    assert len({jitter_of("beat", START_MS + 1_000 * n, 30_000) for n in range(100)}) > 90
    assert jitter_of("beat", START_MS, 0) == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("run", "lose", "change", "twice")),
        st.integers(1, 3 * MISSED_AFTER_MS),
    ),
    max_size=20,
)


@given(STEPS, st.sampled_from(CATCH_UPS), st.sampled_from((0, 1_000, 7_000)))
def test_each_instant_once_or_by_its_rule(
    steps: list[tuple[str, int]], rule: str, jitter_ms: int
) -> None:
    """Entries are lost or come twice, leaders change, and time goes on."""
    leaders = Leaders(catch_up=rule, jitter_ms=jitter_ms)
    time_ms = START_MS
    for what, passed_ms in steps:
        time_ms += passed_ms
        if what == "change":
            leaders.change()
        elif what == "lose":
            leaders.due(time_ms)
        else:
            leaders.run(time_ms)
            if what == "twice":
                due = leaders.due(time_ms + FIRE_AGAIN_MS)
                leaders.apply(*due, *due)
    leaders.change()
    leaders.run(time_ms)
    passed = (leaders.next_ms - leaders.first_ms) // EVERY_MS
    wanted = instants(passed)
    assert leaders.fired == sorted(set(leaders.fired))
    assert set(leaders.fired) <= set(wanted)
    assert len(leaders.fired) + leaders.missed == passed
    if rule == ALL:
        assert leaders.fired == wanted
