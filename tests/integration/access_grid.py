"""A member that wants TLS and accounts, a worker, and clients with certificates of their own."""

from __future__ import annotations

import asyncio
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
from tests.integration.procs import until
from tests.unit.security.kit import Cluster


@dataclass
class AccessGrid:
    """The addresses of its members, and credentials by name."""

    address: str
    cluster: Cluster
    members: list[MemberNode]
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
async def access_grid(directory: Path, count: int = 1) -> AsyncIterator[AccessGrid]:
    """Members and one worker."""
    cluster = Cluster(directory)
    ports = free_ports(count)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    (directory / "exec").mkdir()
    script = directory / "exec" / "show"
    script.write_text('#!/bin/sh\nexec cat -- "$@"\n')
    script.chmod(0o755)
    members = []
    for address, port in zip(addresses, ports, strict=True):
        setup = MemberSetup(
            address,
            tuple(other for other in addresses if other != address),
            credentials=cluster.credentials(CertificateRole.MEMBER, f"member-{port}"),
            tls=Mode.REQUIRE,
            auth=Mode.REQUIRE,
        )
        members.append(MemberNode(setup, "127.0.0.1", port, directory / f"state-{port}"))
    worker = WorkerNode(
        NodeSetup(
            tuple(addresses),
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
    try:
        await asyncio.gather(*(member.start() for member in members))
        # Before one leads none knows whether it has all accounts.
        await asyncio.to_thread(until, lambda: any(one.driver.leading for one in members))
        await worker.start()
        try:
            yield AccessGrid(",".join(addresses), cluster, members)
        finally:
            await worker.stop()
    finally:
        for member in members:
            await member.stop()
