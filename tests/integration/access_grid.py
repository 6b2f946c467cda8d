"""A member that wants TLS and accounts, a worker, and clients with certificates of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollq.net.ports import free_ports
from rollq.roles.client.client import Client
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.security.credentials import Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode
from tests.unit.security.kit import Cluster


@dataclass
class AccessGrid:
    """The address, and credentials by name."""

    address: str
    cluster: Cluster
    member: MemberNode
    _made: dict[str, Credentials] = field(default_factory=dict)

    def credentials(
        self, name: str, role: CertificateRole = CertificateRole.CLIENT, **how: Any
    ) -> Credentials:
        """A certificate of this name."""
        if name not in self._made:
            self._made[name] = self.cluster.credentials(role, name, **how)
        return self._made[name]

    def client(self, name: str, **how: Any) -> Client:
        """A client with a certificate of this name."""
        role = CertificateRole.ADMIN if name == "root" else CertificateRole.CLIENT
        return Client(self.address, credentials=self.credentials(name, role), **how)


@asynccontextmanager
async def access_grid(directory: Path) -> AsyncIterator[AccessGrid]:
    """One member and one worker."""
    cluster = Cluster(directory)
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    (directory / "exec").mkdir()
    script = directory / "exec" / "show"
    script.write_text('#!/bin/sh\nexec cat -- "$@"\n')
    script.chmod(0o755)
    setup = MemberSetup(
        address,
        credentials=cluster.credentials(CertificateRole.MEMBER),
        tls=Mode.REQUIRE,
        auth=Mode.REQUIRE,
    )
    member = MemberNode(setup, "127.0.0.1", port, directory / "member-state")
    worker = WorkerNode(
        NodeSetup(
            (address,),
            exec_dir=directory / "exec",
            jobs_dir=directory / "jobs",
            state_dir=directory / "worker-state",
            patterns=("show",),
            slots=2,
            ahead=16,
            cpu_cap=1.0,
            credentials=cluster.credentials(CertificateRole.WORKER),
        )
    )
    await member.start()
    try:
        await worker.start()
        try:
            yield AccessGrid(address, cluster, member)
        finally:
            await worker.stop()
    finally:
        await member.stop()
