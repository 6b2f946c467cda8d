"""Numbers among the options of a job, from what a caller gives to what is stored. One that is wrong
raises TypeError, ValueError or OverflowError; `NUMBER_HINTS` says what to give instead."""

from __future__ import annotations

from typing import Any, Final

from rollq.base.limits import DURATION_MS_MAX

SECONDS_MAX: Final = DURATION_MS_MAX // 1_000
EXIT_CODE_MAX: Final = 255  # a program has no other; 128 + n: a signal ended it


def whole_number(value: Any) -> int:
    """As it is. Its bounds are those of the option."""
    if not isinstance(value, int):
        raise TypeError
    return value


def milliseconds(seconds: Any) -> int:
    """A duration."""
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError
    # A duration that was asked for is not the cluster's default, however short.
    return max(1, round(seconds * 1000)) if seconds else 0


def exit_codes(given: Any) -> tuple[int, ...]:
    """Exit codes that a program can have, and that are not success."""
    codes = tuple(given)
    if not all(isinstance(code, int) and 0 < code <= EXIT_CODE_MAX for code in codes):
        raise ValueError
    return codes


NUMBER_HINTS: Final[dict[Any, str]] = {
    whole_number: "give a whole number",
    milliseconds: f"give seconds, from 0 to {SECONDS_MAX} ({SECONDS_MAX // 86_400} days)",
    exit_codes: f"give a list of exit codes, each from 1 to {EXIT_CODE_MAX}: [75]",
}
