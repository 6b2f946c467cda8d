"""The settings of a web process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rollq.net.addresses import is_loopback
from rollq.security.credentials import NONE, Credentials


@dataclass(frozen=True, slots=True)
class WebSetup:
    """The settings of a web process.

    Attributes:
        servers: Members of the group, `host:port,host:port…`.
        host: The address to listen on.
        port: The port to listen on; 0: any free port.
        credentials: An authority to verify members by, and a certificate for HTTPS. Its account is
            never used: requests carry their own tokens.
        group: The name of the group; empty: that of the members.
        prefer: The member to read from, while it responds; empty: any.
        names: Accepted host names, in addition to addresses and `localhost`.
        is_unprotected: Whether to accept everybody, also without TLS or logins.
        tables: The directory of `rollq pipeline run`; None: no history charts.
    """

    servers: str
    host: str = "127.0.0.1"
    port: int = 0
    credentials: Credentials = NONE
    group: str = ""
    prefer: str = ""
    names: tuple[str, ...] = ()
    is_unprotected: bool = False
    tables: Path | None = None
    static: Path = field(default=Path(__file__).parent / "static")

    @property
    def is_local(self) -> bool:
        """Whether it listens on this machine only."""
        return is_loopback(self.host)

    @property
    def speaks_tls(self) -> bool:
        """Whether it serves HTTPS."""
        return self.credentials.certificate is not None

    @property
    def needs_login(self) -> bool:
        """Whether the group must require logins, because other machines can reach this port."""
        return not self.is_local and not self.is_unprotected
