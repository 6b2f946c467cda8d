"""Amounts in human-readable form: 20G, 7d."""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, LocalError

SIZES: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
AGES_S: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 job, 2 jobs."""
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


def size_text(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def time_text(length_ms: int) -> str:
    """A duration in at most two units: 700 ms, 3.5 s, 2 min 5 s, 3 h 10 min."""
    if length_ms < 1_000:
        return f"{length_ms} ms"
    if length_ms < 60_000:
        return f"{length_ms / 1_000:.4g} s"
    left_s = length_ms // 1_000
    for unit, size, less, less_size in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if left_s >= size:
            rest = left_s % size // less_size
            return f"{left_s // size} {unit}" + (f" {rest} {less}" if rest else "")
    raise AssertionError("a minute or more")
