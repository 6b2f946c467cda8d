"""What a web process is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rollq.net.addresses import is_loopback
from rollq.security.credentials import NONE, Credentials


@dataclass(frozen=True, slots=True)
class WebSetup:
    """What a web process is started with.

    Attributes:
        servers: Members of the group, `host:port,host:port…`.
        host: Where it listens.
        port: Where it listens; 0: on any free port.
        credentials: An authority to check members by, and a certificate to speak HTTPS with. Its
            account is never used: a request brings its own token.
        group: The name of the group, which is shown.
        prefer: The member whose applied state is read, as long as it answers; empty: any.
        names: More names under which browsers reach it, beside addresses and `localhost`.
        is_unprotected: Whoever reaches the port is let in, also without TLS or a login.
        tables: Where `rollq pipeline run` writes; None: history is not shown.
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
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def speaks_tls(self) -> bool:
        """Whether it serves HTTPS."""
        return self.credentials.certificate is not None

    @property
    def needs_login(self) -> bool:
        """Whether the group must ask everybody who they are: other machines reach this port."""
        return not self.is_local and not self.is_unprotected
