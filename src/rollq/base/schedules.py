"""Words of schedules, and what follows from a name and an instant alone: the same on every member
and in every build. Instants are whole seconds since 1970 UTC, in milliseconds."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from rollq.base.schedule_limits import SCHEDULE_NAME_BYTES_MAX

# What becomes of a firing while the job of the one before has not ended.
SKIP: Final = "skip"  # nothing is run
QUEUE: Final = "queue"  # the new job is queued as well
CANCEL: Final = "cancel"  # the older job is cancelled
OVERLAPS: Final = (SKIP, QUEUE, CANCEL)

# What becomes of instants that were missed: the group was down.
NONE: Final = "none"  # nothing
LAST: Final = "last"  # the newest of them is fired
ALL: Final = "all"  # each is fired
CATCH_UPS: Final = (NONE, LAST, ALL)

DAY_MS: Final = 86_400_000
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?")


def is_schedule_name(name: str) -> bool:
    """Whether a schedule can have this name: a-z, A-Z and 0-9, with _ . / - in between."""
    return len(name) <= SCHEDULE_NAME_BYTES_MAX and _NAME.fullmatch(name) is not None


def owner_of(account: str, name: str) -> str:
    """The client id of the jobs of a schedule: one that belongs to whoever made it."""
    return f"{account}/schedule.{name}" if account else f"schedule.{name}"


def firing_key(name: str, due_ms: int) -> str:
    """What the job of a firing is called: `nightly@2026-11-18T02:00:00Z`."""
    return f"{name}@{utc_text(due_ms)}"


def jitter_of(name: str, due_ms: int, jitter_ms: int) -> int:
    """How long after its instant a firing is: less than `jitter_ms`, and known beforehand."""
    if not jitter_ms:
        return 0
    digest = blake2b(f"{name}@{due_ms}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % jitter_ms


def utc_text(ms: int) -> str:
    """An instant by the Gregorian calendar, to the second: 2026-11-18T02:00:00Z."""
    days, rest_ms = divmod(ms, DAY_MS)
    hours, rest_ms = divmod(rest_ms, 3_600_000)
    minutes, rest_ms = divmod(rest_ms, 60_000)
    # Years are counted from March on here, so that the day of a leap year is the last of one.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153  # 0 is March
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + era * 400 + (month >= 10)
    month += 3 if month < 10 else -9
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{rest_ms // 1_000:02}Z"
