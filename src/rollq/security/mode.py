"""How much of a protection is asked of links. Pure."""

from __future__ import annotations

import enum


class Mode(enum.StrEnum):
    """How much of a protection is asked of links."""

    OFF = "off"
    ALLOW = "allow"  # links with and without it are served: for a cluster on its way
    REQUIRE = "require"
