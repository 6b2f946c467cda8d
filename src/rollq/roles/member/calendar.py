"""The next firing time of a cron line in a time zone. Holds no state of the group.

A line names times of local clocks. At a change of the clocks:

- an ambiguous local time (clocks go back) is the first of the two;
- a skipped local time (clocks go forward) is the moment of the change;
- a line whose hour field is `*` or `*/n` follows the clocks as they run: it fires in both hours of
  the same name, and not in a skipped hour.

So a line with named hours fires once a day for each named time, except that skipped times merge.
The rules of a zone come from the zone data of this machine.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from rollq.base.errors import ErrorCode, RemoteError

FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NAMES: Final[tuple[dict[str, int], ...]] = (
    *({}, {}, {}),
    {name: number for number, name in enumerate(MONTHS, 1)},
    {name: number for number, name in enumerate(WEEKDAYS)},
)
SHORTHANDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
YEARS_MAX: Final = 9  # 29 February is 8 years away at most, where a century has no leap year
DAY: Final = timedelta(days=1)
LINES_KEPT: Final = 16_384  # in the cache; thousands of schedules use them each minute
DATES_END: Final = date(9990, 1, 1)  # well before the last date of datetime


class CronLine(NamedTuple):
    """A parsed cron line.

    Attributes:
        minutes: Of the day, ascending: when it fires on a matching day.
        days: Of the month.
        months: Of the year.
        weekdays: 0 is Sunday.
        any_day: Whether a day must match both `days` and `weekdays` instead of either: one of the
            two fields begins with `*`.
        any_hour: Whether the hour field begins with `*`; see the head of the module.
    """

    minutes: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_hour: bool

    def has(self, day: date) -> bool:
        """Whether the line fires on this day."""
        in_month = day.day in self.days
        in_week = day.isoweekday() % 7 in self.weekdays
        return (in_month and in_week) if self.any_day else (in_month or in_week)


class ZoneCalendar:
    """The calendar with the zone data of this machine."""

    def next_ms(self, cron: str, zone: str, after_ms: int) -> int:
        """The first firing time of a line after `after_ms`.

        Raises:
            RemoteError: BAD_OPTIONS: invalid line, unknown zone, or the line never fires.
        """
        line, rules, after = parse_cron(cron), zone_named(zone), after_ms // 1_000
        today = datetime.fromtimestamp(after, UTC).astimezone(rules).date()
        day = today - DAY  # where clocks go back, yesterday's date may come again
        last = date(day.year + YEARS_MAX, 1, 1) if day < DATES_END else day
        while day <= last:
            if day.month not in line.months:
                day = day.replace(day=1) + monthrange(day.year, day.month)[1] * DAY
                continue
            found = _next_on(line, rules, day, after)
            if found is not None:
                # Where clocks go back, the end of a day may repeat after the start of the next day.
                other = _next_on(line, rules, day + DAY, after) if found[1] else None
                return 1_000 * min(found[0], found[0] if other is None else other[0])
            day += DAY
        raise _refused(f"{cron[:64]!r} never fires", "check its day and month")


@lru_cache(LINES_KEPT)
def parse_cron(text: str) -> CronLine:
    """Parse a line.

    Raises:
        RemoteError: BAD_OPTIONS.
    """
    expanded = SHORTHANDS.get(text.strip().lower(), text)
    fields = expanded.lower().split()
    if len(fields) != len(FIELDS):
        shorthands = " ".join(SHORTHANDS)
        raise _refused(
            f"{text[:64]!r} is not a cron line",
            f"write five fields (minute hour day month weekday) or one of {shorthands}",
        )
    minutes, hours, days, months, weekdays = (
        frozenset(_field(number, field)) for number, field in enumerate(fields)
    )
    return CronLine(
        tuple(sorted(60 * hour + minute for hour in hours for minute in minutes)),
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        any_day=fields[2].startswith("*") or fields[4].startswith("*"),
        any_hour=fields[1].startswith("*"),
    )


def _field(number: int, text: str) -> list[int]:
    """The values of a field: a comma-separated list of numbers, names, ranges and steps."""
    found: list[int] = []
    low, high = BOUNDS[number]
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(number, step_text, text) if slash else 1
        first, dash, last = span.partition("-")
        if span == "*":
            start, end = low, high if number < 4 else 6
        else:
            start = _value(number, first, text)
            end = _value(number, last, text) if dash else high if slash else start
        if number == 4 and dash and start > end == 0:
            end = 7  # fri-sun
        if not low <= start <= end <= high or not step:
            raise _bad_field(number, text)
        found += range(start, end + 1, step)
    return found


def _value(number: int, text: str, field: str) -> int:
    named = NAMES[number].get(text)
    return _number(number, text, field) if named is None else named


def _number(number: int, text: str, field: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise _bad_field(number, field)
    return int(text)


def _bad_field(number: int, text: str) -> RemoteError:
    low, high = BOUNDS[number]
    names = f", names as {next(iter(NAMES[number]))}" if NAMES[number] else ""
    return _refused(
        f"{text[:64]!r} is not a valid {FIELDS[number]}",
        f"use {low} to {high}{names}, *, ranges as {low}-{high}, steps as */2, lists as 1,2",
    )


@lru_cache(1_024)
def zone_named(name: str) -> ZoneInfo:
    """The zone with this name.

    Raises:
        RemoteError: BAD_OPTIONS.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found, a directory, not a valid name
        raise _refused(
            f"the leader does not know the time zone {name[:64]!r}",
            "use a name of the IANA list, as Asia/Tokyo, and install the package tzdata there",
        ) from None


def _next_on(line: CronLine, zone: ZoneInfo, day: date, after: int) -> tuple[int, bool] | None:
    """The first firing time of a line on `day` and after `after`, in seconds since 1970, and
    whether the clocks change on that day."""
    if day.month not in line.months or not line.has(day):
        return None
    start, is_changed = _start_of(zone, day)
    if not is_changed:
        place = bisect_right(line.minutes, (after - start) // 60)
        return (start + 60 * line.minutes[place], False) if place < len(line.minutes) else None
    left = [instant for instant in _instants(line, zone, day) if instant > after]
    return (min(left), True) if left else None


@lru_cache(4_096)
def _start_of(zone: ZoneInfo, day: date) -> tuple[int, bool]:
    """The start of a day in seconds since 1970, and whether the clocks change on it."""
    start = datetime(day.year, day.month, day.day, tzinfo=zone)
    around = (start - DAY, start + DAY, start.replace(fold=1), (start + DAY).replace(fold=1))
    offset = start.utcoffset()
    return int(start.timestamp()), any(one.utcoffset() != offset for one in around)


def _instants(line: CronLine, zone: ZoneInfo, day: date) -> list[int]:
    """When a line fires on a day on which the clocks change."""
    found: list[int] = []
    for minute in line.minutes:
        # Local arithmetic: adding a timedelta ignores the zone.
        local = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(minutes=minute)
        earlier, later = int(local.timestamp()), int(local.replace(fold=1).timestamp())
        if earlier <= later:  # exists once or twice
            found += (earlier, later) if line.any_hour else (earlier,)
        elif not line.any_hour:  # skipped: the two values lie on both sides of the gap
            found.append(_set_at(zone, later, earlier))
    return found


def _set_at(zone: ZoneInfo, before: int, after: int) -> int:
    """The first second of a change of clocks between two instants."""
    offset = datetime.fromtimestamp(before, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def _refused(message: str, hint: str) -> RemoteError:
    return RemoteError(ErrorCode.BAD_OPTIONS, message, hint)
