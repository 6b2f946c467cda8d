"""Settings of gossip. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rollq.security.federation_key import FederationKey


@dataclass(frozen=True, slots=True)
class FederationSetup:
    """Keys and seeds.

    Attributes:
        keys: The first signs; all are accepted.
        seeds: Addresses of other nodes; one that answers is enough.
    """

    keys: tuple[FederationKey, ...]
    seeds: tuple[str, ...] = ()
