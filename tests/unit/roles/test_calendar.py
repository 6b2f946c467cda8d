"""Cron lines: what they say, and when local clocks show it, also where those are set."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.schedules import utc_text
from rollq.roles.member.calendar import ZoneCalendar, parse_cron

CALENDAR = ZoneCalendar()


def instants(line: str, zone: str, after: str, count: int) -> list[str]:
    """The next instants of a line, by the clocks of its zone; `after` is of those, too."""
    rules = ZoneInfo(zone)
    at_ms = 1_000 * int(datetime.fromisoformat(after).replace(tzinfo=rules).timestamp())
    found = []
    for _ in range(count):
        at_ms = CALENDAR.next_ms(line, zone, at_ms)
        found.append(datetime.fromtimestamp(at_ms // 1_000, rules).strftime("%m-%d %H:%M %z"))
    return found


# Tokyo sets no clocks. New York: 2026-03-08 02:00 to 03:00, 2026-11-01 02:00 to 01:00. London:
# 2026-03-29 01:00 to 02:00, 2026-10-25 02:00 to 01:00. Lord Howe: 2026-10-04 02:00 to 02:30,
# 2026-04-05 02:00 to 01:30.
TABLE = [
    ("30 2 * * *", "Asia/Tokyo", "2026-03-07 12:00", ["03-08 02:30 +0900", "03-09 02:30 +0900"]),
    (
        "*/30 1-2 * * *",
        "Asia/Tokyo",
        "2026-11-01 02:00",
        ["11-01 02:30 +0900", "11-02 01:00 +0900"],
    ),
    # A named time that never comes: when the clocks are set.
    (
        *("30 2 * * *", "America/New_York", "2026-03-07 02:30"),
        ["03-08 03:00 -0400", "03-09 02:30 -0400"],
    ),
    (
        *("0,30 2,3 * * *", "America/New_York", "2026-03-07 12:00"),
        ["03-08 03:00 -0400", "03-08 03:30 -0400", "03-09 02:00 -0400"],
    ),
    ("30 1 * * *", "Europe/London", "2026-03-28 12:00", ["03-29 02:00 +0100", "03-30 01:30 +0100"]),
    (
        *("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00"),
        ["10-04 02:30 +1100", "10-05 02:15 +1100"],
    ),
    # A named time that comes twice: the first.
    (
        *("30 1 * * *", "America/New_York", "2026-10-31 12:00"),
        ["11-01 01:30 -0400", "11-02 01:30 -0500"],
    ),
    (
        *("*/30 1 * * *", "America/New_York", "2026-11-01 00:00"),
        ["11-01 01:00 -0400", "11-01 01:30 -0400", "11-02 01:00 -0500"],
    ),
    ("30 1 * * *", "Europe/London", "2026-10-24 12:00", ["10-25 01:30 +0100", "10-26 01:30 +0000"]),
    (
        *("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00"),
        ["04-05 01:45 +1100", "04-06 01:45 +1030"],
    ),
    # Any hour: by the clocks as they are.
    (
        *("30 * * * *", "America/New_York", "2026-03-08 01:00"),
        ["03-08 01:30 -0500", "03-08 03:30 -0400"],
    ),
    (
        *("30 * * * *", "America/New_York", "2026-11-01 00:59"),
        ["11-01 01:30 -0400", "11-01 01:30 -0500", "11-01 02:30 -0500"],
    ),
    (
        "0 */2 * * *",
        "Europe/London",
        "2026-03-29 00:00",
        ["03-29 02:00 +0100", "03-29 04:00 +0100"],
    ),
    (
        *("*/15 * * * *", "Australia/Lord_Howe", "2026-04-05 01:29"),
        ["04-05 01:30 +1100", "04-05 01:45 +1100", "04-05 01:30 +1030", "04-05 01:45 +1030"],
    ),
    (
        *("*/15 * * * *", "Australia/Lord_Howe", "2026-10-04 01:45"),
        ["10-04 02:30 +1100", "10-04 02:45 +1100"],
    ),
    # Clocks that went back over midnight: the end of a day came again after the next had begun.
    (
        *("*/20 * * * *", "America/St_Johns", "2010-11-06 23:39"),
        ["11-06 23:40 -0230", "11-07 00:00 -0230", "11-06 23:20 -0330", "11-06 23:40 -0330"],
    ),
    # A day that never came.
    ("0 9 * * *", "Pacific/Apia", "2011-12-29 10:00", ["12-31 00:00 +1400", "12-31 09:00 +1400"]),
]


@pytest.mark.parametrize(("line", "zone", "after", "wanted"), TABLE)
def test_where_clocks_are_set(line: str, zone: str, after: str, wanted: list[str]) -> None:
    assert instants(line, zone, after, len(wanted)) == wanted


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@DAILY", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * sun"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 jan *"),
        ("@annually", "0 0 1 1 *"),
        ("0 0 * Jan-Mar MON-FRI", "0 0 * 1-3 1-5"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * fri-sun", "0 0 * * 5,6,0"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("  0\t0 * * * ", "0 0 * * *"),
    ],
)
def test_lines_that_say_the_same(line: str, same: str) -> None:
    assert parse_cron(line) == parse_cron(same)


@pytest.mark.parametrize(
    "line",
    [
        *("", "* * * *", "* * * * * *", "@reboot", "60 * * * *", "* 24 * * *", "* * 0 * *"),
        *("* * * 13 *", "* * * * 8", "*/0 * * * *", "5-1 * * * *", "a * * * *", "1,, * * * *"),
        *("-1 * * * *", "1- * * * *", "* * * feb-jan *", "1.5 * * * *", "٣ * * * *"),
        *("* * * * mon-", "99999 * * * *", "+1 * * * *"),
    ],
)
def test_lines_that_say_nothing(line: str) -> None:
    with pytest.raises(RemoteError) as refused:
        parse_cron(line)
    assert refused.value.code is ErrorCode.BAD_OPTIONS
    assert refused.value.hint


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "America", "../../etc/passwd", "a\0b"])
def test_zones_that_are_none(zone: str) -> None:
    with pytest.raises(RemoteError, match="zone"):
        CALENDAR.next_ms("* * * * *", zone, 0)


def test_a_day_that_no_month_has_never_comes() -> None:
    with pytest.raises(RemoteError, match="never"):
        CALENDAR.next_ms("0 0 30 2 *", "UTC", 0)
    assert instants("0 0 29 2 *", "UTC", "2096-03-01 00:00", 1) == ["02-29 00:00 +0000"]


def test_one_day_field_begins_with_a_star_or_either_day_counts() -> None:
    both = instants("0 0 13 * fri", "UTC", "2026-11-01 00:00", 3)
    assert both == ["11-06 00:00 +0000", "11-13 00:00 +0000", "11-20 00:00 +0000"]
    even_mondays = instants("0 0 */2 * mon", "UTC", "2026-11-01 00:00", 2)
    assert even_mondays == ["11-09 00:00 +0000", "11-23 00:00 +0000"]


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    """One field of a line."""
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    parts = st.one_of(number.map(str), ranges)
    return st.one_of(
        st.just("*"),
        st.integers(1, high).map(lambda step: f"*/{step}"),
        st.lists(parts, min_size=1, max_size=3).map(",".join),
    )


LINES = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 6)).map(
    " ".join
)
TIMES = st.integers(1_600_000_000, 2_500_000_000)


@given(LINES, TIMES)
def test_without_a_zone_it_is_what_another_library_says(line: str, after: int) -> None:
    try:
        simulated = CronSim(line, datetime.fromtimestamp(after, UTC))
        wanted = [int(next(simulated).timestamp()) for _ in range(3)]
    except (CronSimError, StopIteration):
        return  # it never comes, which the other one finds out in another way
    at_ms = 1_000 * after
    for one in wanted:
        at_ms = CALENDAR.next_ms(line, "UTC", at_ms)
        assert at_ms == 1_000 * one


ZONES = st.sampled_from(
    ("Asia/Tokyo", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Africa/Casablanca")
)


@given(LINES, ZONES, TIMES)
def test_instants_rise_and_none_is_between_two(line: str, zone: str, after: int) -> None:
    try:
        first = CALENDAR.next_ms(line, zone, 1_000 * after)
    except RemoteError:
        return
    second = CALENDAR.next_ms(line, zone, first)
    assert 1_000 * after < first < second
    for between in (1_000 * after, first - 1_000, (1_000 * after + first) // 2):
        if between < first:
            assert CALENDAR.next_ms(line, zone, max(between, 1_000 * after)) == first


@given(ZONES, st.integers(0, 23), st.integers(0, 59), st.integers(2020, 2037))
def test_a_named_time_fires_once_a_day(zone: str, hour: int, minute: int, year: int) -> None:
    """365 or 366 times a year, whatever clocks do."""
    rules = ZoneInfo(zone)
    start = 1_000 * int(datetime(year, 1, 1, tzinfo=rules).timestamp()) - 1_000
    end = 1_000 * int(datetime(year + 1, 1, 1, tzinfo=rules).timestamp())
    days = (datetime(year + 1, 1, 1, tzinfo=UTC) - datetime(year, 1, 1, tzinfo=UTC)).days
    at_ms, count = start, -1
    while at_ms < end:
        at_ms, count = CALENDAR.next_ms(f"{minute} {hour} * * *", zone, at_ms), count + 1
    assert count == days


@given(st.integers(0, 253_402_300_799))
def test_instants_as_text(seconds: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert utc_text(1_000 * seconds) == f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")
