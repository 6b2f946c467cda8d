"""Amounts as people write them: 20G, 7d."""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, LocalError

SIZES: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
AGES_S: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def counted(count: int, noun: str) -> str:
    """So many of something: 1 job, 2 jobs."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def amount(text: str, units: dict[str, int], option: str) -> int:
    """A whole number, with a unit or without. Raises LocalError that names the option."""
    unit = text.lstrip("0123456789")
    digits = text.removesuffix(unit)
    if not digits or unit not in units:
        known = " ".join(filter(None, units))
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{option} {text!r} is not a valid amount",
            f"use a whole number, optionally with a unit: {known}",
        )
    return int(digits) * units[unit]
