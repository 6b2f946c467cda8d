"""Axes, time steps, and the formatting of figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rollq.spark.report.words import say

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

FINE_MS_MAX: Final = 6 * HOUR  # longer periods use gold's hours
SLOTS_MAX: Final = 120
_FINE_STEPS: Final = (
    *(200, 500),
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5)),
)
_COARSE_STEPS: Final = ((240, HOUR), (1_440, 6 * HOUR), (9_600, DAY))  # (most hours, step)
_TIME_STEPS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91)),
)
_DURATIONS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * SECOND for n in (1, 2, 5, 10, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 30)),
    *(n * HOUR for n in (1, 3, 6, 12)),
    *(n * DAY for n in (1, 3, 10, 30, 100, 300)),
)

_UNITS: Final = ((1, SECOND, "ms"), (SECOND, MINUTE, "s"), (MINUTE, HOUR, "min"), (HOUR, DAY, "h"))


def slot_ms_for(period_ms: int) -> int:
    """The length of the slots of a period: seconds for a minute, hours for days."""
    if period_ms <= FINE_MS_MAX:
        return next(step for step in _FINE_STEPS if period_ms <= step * SLOTS_MAX)
    hours = period_ms / HOUR
    return next((step for most, step in _COARSE_STEPS if hours <= most), 7 * DAY)


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps a value to a fraction of the height: 0 at the bottom, 1 at the top."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def place(self, value: float) -> float:
        """The position of a value; clamped to the ends."""
        kept = min(max(value, self.low), self.high)
        if self.is_log:
            return math.log(kept / self.low) / math.log(self.high / self.low)
        return (kept - self.low) / (self.high - self.low)


def count_axis(values: Sequence[float]) -> Axis:
    """An axis for counts: from 0 to a round number, in three to five steps."""
    top = max(values, default=0) or 1
    power = 10.0 ** math.floor(math.log10(top / 4)) if top > 4 else 1.0
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power * 4 >= top)
    if step != int(step):
        step = math.ceil(step)
    steps = math.ceil(top / step)
    return Axis(0, steps * step, tuple(step * n for n in range(steps + 1)))


def duration_axis(values: Sequence[float]) -> Axis:
    """A logarithmic axis for durations, because p99 is often many times p50."""
    known = [max(value, 1.0) for value in values] or [1.0, 1_000.0]
    low = max((one for one in _DURATIONS if one <= min(known)), default=1)
    high = next((one for one in _DURATIONS if one >= max(known)), _DURATIONS[-1])
    if high <= low:
        place = _DURATIONS.index(low)
        low, high = _DURATIONS[max(0, place - 1)], _DURATIONS[min(place + 1, len(_DURATIONS) - 1)]
    inside = [one for one in _DURATIONS if low <= one <= high]
    every = math.ceil(len(inside) / 5)
    return Axis(low, high, tuple(inside[::every]), is_log=True)


def time_ticks(first_ms: int, last_ms: int, most: int = 7) -> list[tuple[int, str]]:
    """Round times in a period, with their labels."""
    length = max(1, last_ms - first_ms)
    step = next((one for one in _TIME_STEPS if length / one <= most), _TIME_STEPS[-1])
    start = -(-first_ms // step) * step
    return [(at, _tick_words(at, step)) for at in range(start, last_ms + 1, step)]


def length_ticks(length_ms: int, most: int = 5) -> list[tuple[int, str]]:
    """Round durations up to a length, with their labels."""
    step = next((one for one in _DURATIONS if length_ms / one <= most), _DURATIONS[-1])
    return [(after, f"+{duration(after)}") for after in range(step, length_ms + 1, step)]


def _tick_words(at_ms: int, step_ms: int) -> str:
    at = moment(at_ms)
    if step_ms >= DAY or at_ms % DAY == 0:
        return _day(at)
    return f"{at:%H:%M:%S}" if step_ms < MINUTE else f"{at:%H:%M}"


def _day(at: datetime) -> str:
    return say("{month} {day}", month=f"{at:%b}", number=at.month, day=at.day)


def moment(at_ms: int) -> datetime:
    """A time in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def when(at_ms: int, *, exact: bool = False) -> str:
    """A time as text, to the second or to the millisecond."""
    at = moment(at_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at.microsecond // 1000:03d}" if exact else "")


def slot_words(start_ms: int, step_ms: int) -> str:
    """A slot as text."""
    start, end = moment(start_ms), moment(start_ms + step_ms)
    if step_ms >= DAY:
        return _day(start)
    if step_ms < SECOND:
        return f"{_day(start)}, {start:%H:%M:%S}.{start.microsecond // 100_000}"
    clock = "%H:%M" if step_ms % MINUTE == 0 else "%H:%M:%S"
    return f"{_day(start)}, {start.strftime(clock)}–{end.strftime(clock)}"


def every(step_ms: int) -> str:
    """A frequency as text: every hour, every 5 s."""
    names = {SECOND: "second", MINUTE: "minute", HOUR: "hour", DAY: "day", 7 * DAY: "week"}
    name = names.get(step_ms)
    return say(f"every {name}") if name else say("every {length}", length=duration(step_ms))


def count(value: float) -> str:
    """A number with thousands separators; a large one in millions."""
    if abs(value) >= 10_000_000:
        return f"{value / 1_000_000:,.1f} M"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def ratio(value: float) -> str:
    """A factor, in three significant digits."""
    return f"{float(f'{value:.3g}'):,.12g}"


def tick_count(value: float) -> str:
    """A number on an axis, shortened."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def duration(value_ms: float) -> str:
    """A duration in a suitable unit."""
    if value_ms < 1:
        return "0 ms" if value_ms <= 0 else "<1 ms"
    for size_ms, next_ms, unit in _UNITS:
        if value_ms < next_ms:
            return f"{_three(value_ms / size_ms)} {unit}"
    return f"{_three(value_ms / DAY)} d"


def size(value: float) -> str:
    """A size in a suitable unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{_three(value)} {unit}"
        value /= 1024
    return f"{_three(value)} TiB"


def share(part: float, whole: float) -> str:
    """A percentage; never rounded to 0 or 100 % unless it is exact."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.3g} %"


def _three(value: float) -> str:
    """Three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
