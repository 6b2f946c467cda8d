"""How much of a protection is asked of links. Pure."""

from __future__ import annotations

import enum

from rollq.security.credentials import Credentials


class Mode(enum.StrEnum):
    """How much of a protection is asked of links."""

    OFF = "off"
    ALLOW = "allow"  # links with and without it are served: for a cluster on its way
    REQUIRE = "require"


def tls_of_dialer(credentials: Credentials) -> Mode:
    """What a client or worker with these asks of members: whoever can check them does so always,
    or nobody who answers in their place would be found out."""
    return Mode.REQUIRE if credentials.ca else Mode.OFF


def tls_of_listener(credentials: Credentials) -> Mode:
    """What is asked of those who dial a process with these, unless it is told otherwise."""
    return Mode.REQUIRE if credentials.certificate is not None else Mode.OFF
