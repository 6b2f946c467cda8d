"""Blobs that accounts uploaded to this member, before any job, result or cache refers to them.

An account that has sent all bytes of a blob may use it as an input. None of this is replicated: on
another leader the account must upload the bytes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollq.base.digests import Digest
from rollq.base.limits import GIVEN_BLOBS_MAX


class GivenBlobs:
    """Uploads by account, for the time of a lease.

    Args:
        lease_ms: How long an upload counts without a reference.
        now_ms: The time; monotonic.
    """

    def __init__(self, lease_ms: int, now_ms: Callable[[], int]) -> None:
        self._lease_ms = lease_ms
        self._now_ms = now_ms
        # Expiry by blob and account, oldest first; at most GIVEN_BLOBS_MAX.
        self._until: dict[tuple[Digest, str], int] = {}
        self._by: dict[Digest, dict[str, None]] = {}  # the same by blob

    def add(self, digest: Digest, account: str) -> None:
        """An account has uploaded all bytes of a blob."""
        key = (digest, account)
        self._until.pop(key, None)
        self._until[key] = self._now_ms() + self._lease_ms
        self._by.setdefault(digest, {})[account] = None
        self._forget()

    def by(self, digest: Digest) -> Sequence[str]:
        """The accounts whose upload of a blob has not expired."""
        known = self._by.get(digest)
        if known is None:
            return ()
        now_ms = self._now_ms()
        return [account for account in known if self._until[digest, account] > now_ms]

    def _forget(self) -> None:
        now_ms = self._now_ms()
        while self._until:
            (digest, account), until_ms = next(iter(self._until.items()))
            if until_ms > now_ms and len(self._until) <= GIVEN_BLOBS_MAX:
                return
            del self._until[digest, account]
            del self._by[digest][account]
            if not self._by[digest]:
                del self._by[digest]
