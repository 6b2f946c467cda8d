"""Whether links require a protection. Pure."""

from __future__ import annotations

import enum

from rollq.security.credentials import Credentials


class Mode(enum.StrEnum):
    """Whether links require a protection such as TLS."""

    OFF = "off"
    ALLOW = "allow"  # links with and without it are served, for migrations
    REQUIRE = "require"


def tls_of_dialer(credentials: Credentials) -> Mode:
    """The TLS mode of a client or worker: required if it can verify members, as an impostor could
    otherwise downgrade the link."""
    return Mode.REQUIRE if credentials.ca else Mode.OFF


def tls_of_listener(credentials: Credentials) -> Mode:
    """The default TLS mode of a process that accepts links."""
    return Mode.REQUIRE if credentials.certificate is not None else Mode.OFF
