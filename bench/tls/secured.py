"""rollq as a cluster that faces a network runs it: every link with TLS, everybody proved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench.loops import run
from bench.peers.rollq import Rollq, run_one
from bench.window import Rate, drive_until
from rollq.roles.client.client import Client
from rollq.security.authority import Authority
from rollq.security.identity import CertificateRole

ADMIN = "bench"


class SecuredRollq(Rollq):
    """Members and workers with certificates; the client has that of an admin."""

    def start(self, folder: Path) -> None:
        """Make the certificates, then as ever."""
        self._keys = folder.with_name(f"{folder.name}-keys")
        self._authority = Authority.make(self._keys / "ca", "bench", datetime.now(UTC))
        self._issue(ADMIN, CertificateRole.ADMIN)
        super().start(folder)

    @property
    def credentials(self) -> Path:
        """Of the client."""
        return self._keys / ADMIN

    def environment(self, name: str) -> dict[str, str]:
        """Where a process has its certificate."""
        kind = CertificateRole.MEMBER if name.startswith("member") else CertificateRole.WORKER
        return {"ROLLQ_CREDENTIALS": str(self._issue(name, kind))}

    def client(self, name: str) -> Client:
        """A client that knows every member."""
        return Client(self.servers, client_id=name, credentials=self.credentials)

    def lone_until(self, payload: bytes, is_over: Callable[[], bool], seconds_max: float) -> Rate:
        """One no-op job after the other until something else is over."""
        self.serve_noop(1)
        return run(self._lone_until(payload, is_over, seconds_max))

    def leader(self) -> str:
        """The address of the member that leads; waits until there is one."""
        return run(self._leader())

    async def _leader(self) -> str:
        async with self.client("looks") as client:
            await client.counts()
            return client.leader

    async def _lone_until(
        self, payload: bytes, is_over: Callable[[], bool], seconds_max: float
    ) -> Rate:
        async with self.client("lone") as client:
            return await drive_until(lambda: run_one(client, payload), is_over, seconds_max)

    def _issue(self, name: str, role: CertificateRole) -> Path:
        made = self._keys / name
        if not made.exists():
            self._authority.issue(made, role, name, datetime.now(UTC))
        return made
