"""Commands of golden logs (`commands_log`) about what came later: topics and schedules."""

from __future__ import annotations

from collections.abc import Iterator

from rollq.base.jobs import JobOptions
from rollq.grid import commands as c
from rollq.grid import schedule_commands as s
from rollq.grid import topic_commands as t
from rollq.grid.state import GridState


def topics(turn: int) -> Iterator[c.Command]:
    """Topics and those who read them: put, published to, trimmed, moved, refused, removed."""
    if turn % 9 == 0:
        yield t.PutTopic("prices", ("price.>", "räte.*"), 60_000, 100_000, 20 + turn % 5, "olga")
        yield t.PutTopic("more", ("more", "price.oil"), 0, 100_000, 5)
        yield t.PutTopic("more", ("more",), 0, 100_000, 5)
        yield t.OpenCursor("prices", "desk-1", -1)
        yield t.OpenCursor("prices", f"desk-{turn}")
        yield t.OpenCursor("no-such", "desk-1")
    payloads = tuple(bytes([turn]) * (size * size * size) for size in range(turn % 17))
    replies = ("", "_inbox.a.1") * 8 if turn % 3 else ()
    subjects = tuple(f"price.{number % 3}" for number in range(len(payloads)))
    yield t.PublishKept("prices", subjects, payloads, replies[: len(payloads)])
    yield t.PublishKept("more", ("more",), (b"",))
    yield t.MoveCursors((t.CursorMove("prices", "desk-1", 3 * turn), t.CursorMove("x", "y", 1)))
    if turn % 6 == 2:
        yield t.TrimTopics((t.TopicTrim("prices", 4 * turn), t.TopicTrim("more", 2)))
        yield t.ForgetCursor("prices", f"desk-{turn - 2}", "olga")
    if turn % 13 == 7:
        yield t.RemoveTopic("more", "olga")


def schedules(state: GridState, turn: int) -> Iterator[c.Command]:
    """Schedules: put, known, changed, fired, fired twice, missed, paused, run, refused, removed."""
    first_ms = 1_700_000_000_000 + 10_000 * turn
    options = JobOptions(priority=3, max_attempts=2) if turn % 20 else None
    for name, overlap in (("ann/beat", "queue"), ("b", "skip"), ("old", "cancel"), ("ø", "skip")):
        every_ms, cron = (0, "*/5 * * * *") if name == "old" else (10_000, "")
        what = name, "ann/schedule", "q1", "exe", b"beat", options, ()
        put = s.ScheduleSpec(*what, cron, "Asia/Tokyo", every_ms, 2_000 * (turn // 20), overlap)
        if turn % 10 == 0:
            yield s.PutSchedule(put, first_ms, "olga")
            yield s.PutSchedule(put, first_ms, "olga")
    for record in list(state.schedules.by_name.values()):
        due_ms, next_ms = record.next_ms, record.next_ms + 10_000 + 300_000 * (turn % 5 == 4)
        fire_ms = 0 if turn % 7 == 3 else next_ms - 10_000
        fire = s.FireSchedule(record.name, record.version, due_ms, fire_ms, next_ms, turn % 5 // 4)
        yield fire
        yield fire
    if turn % 6 == 2:
        yield s.RunSchedule("ann/beat", bytes([turn]) * 16, "olga")
        yield s.PauseSchedule("b", "olga")
        yield s.PauseSchedule("no-such", "olga")
    if turn % 6 == 5:
        version = state.schedules.by_name["b"].version - turn % 4 // 2
        yield s.ResumeSchedule("b", first_ms + 10_000_000, "olga", version)
    if turn % 13 == 7:
        yield s.RemoveSchedule("old", "olga")
