"""Converts numeric options of a job. An invalid value raises TypeError, ValueError or
OverflowError; `NUMBER_HINTS` has the hint for the error message."""

from __future__ import annotations

from typing import Any, Final

from rollq.base.limits import DURATION_MS_MAX

SECONDS_MAX: Final = DURATION_MS_MAX // 1_000
EXIT_CODE_MAX: Final = 255  # 128 + n: killed by signal n


def whole_number(value: Any) -> int:
    """The value itself. Its bounds depend on the option."""
    if not isinstance(value, int):
        raise TypeError
    return value


def milliseconds(seconds: Any) -> int:
    """A duration in milliseconds."""
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError
    # 0 means the cluster's default, so a positive duration must not round to 0.
    return max(1, round(seconds * 1000)) if seconds else 0


def exit_codes(given: Any) -> tuple[int, ...]:
    """Exit codes from 1 to 255."""
    codes = tuple(given)
    if not all(isinstance(code, int) and 0 < code <= EXIT_CODE_MAX for code in codes):
        raise ValueError
    return codes


NUMBER_HINTS: Final[dict[Any, str]] = {
    whole_number: "give a whole number",
    milliseconds: f"give seconds, from 0 to {SECONDS_MAX} ({SECONDS_MAX // 86_400} days)",
    exit_codes: f"give a list of exit codes, each from 1 to {EXIT_CODE_MAX}: [75]",
}
