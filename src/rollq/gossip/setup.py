"""What a process is told in order to gossip. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rollq.security.federation_key import FederationKey


@dataclass(frozen=True, slots=True)
class FederationSetup:
    """Keys and where to begin.

    Attributes:
        keys: The first signs, all are taken.
        seeds: Addresses of others; one that is there is enough.
    """

    keys: tuple[FederationKey, ...]
    seeds: tuple[str, ...] = ()
