"""Lifetimes of certificates, and warnings before they end. Pure."""

from __future__ import annotations

from typing import Final

AUTHORITY_DAYS: Final = 3_650
CERTIFICATE_DAYS: Final = 365
DAY_MS: Final = 24 * 3600 * 1_000
WARN_DAYS: Final = 30
RENEW: Final = "renew it: rollq tls rotate DIR --ca DIR"  # what to do about a warning


def days_left(not_after_ms: int, now_ms: int) -> int:
    """Whole days until a certificate expires; negative if it has."""
    return (not_after_ms - now_ms) // DAY_MS


def is_expiring(not_after_ms: int, now_ms: int) -> bool:
    """Whether a certificate is due for renewal."""
    return days_left(not_after_ms, now_ms) < WARN_DAYS


def expiry_warning(whose: str, not_after_ms: int, now_ms: int) -> str:
    """The warning about a certificate; empty if none is due.

    Args:
        whose: Such as `member 10.0.0.1:5000`.
        not_after_ms: The end of its validity; 0: unknown.
        now_ms: The current time.
    """
    if not not_after_ms or not is_expiring(not_after_ms, now_ms):
        return ""
    left = days_left(not_after_ms, now_ms)
    if not_after_ms <= now_ms:
        return f"the certificate of {whose} has expired"
    when = "today" if left == 0 else "tomorrow" if left == 1 else f"in {left} days"
    return f"the certificate of {whose} expires {when}"
