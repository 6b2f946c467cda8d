"""A grid in this process, for tests and trials: one member and one worker in a thread.

They are the real ones, with disk and sockets; only the processes and further members are missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from rollq.net.ports import free_ports
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup


class LocalGrid:
    """A member and a worker, within `with` or between `start` and `stop`.

    Coroutine functions run in this process, other functions in warm processes, programs in
    processes of their own.

    Args:
        directory: Where member and worker store their state; programs are in its `exec`.
        apps: Modules that register functions.
        port: The port of the member; 0: a free one.
        settings: Settings of the worker: `slots`, `labels`, `resources`.
    """

    def __init__(self, directory: Path, *apps: str, port: int = 0, **settings: Any) -> None:
        self.address = f"127.0.0.1:{port or free_ports(1)[0]}"
        self.exec_dir = directory / "exec"
        self.exec_dir.mkdir(exist_ok=True, parents=True)
        self._directory = directory
        self._thread = LoopThread("rollq-grid")
        self._member: MemberNode | None = None
        # No CPU cap: tests must not wait for a busy machine.
        defaults: dict[str, Any] = {"slots": 2, "ahead": 256, "cpu_cap": 1.0}
        self._worker = WorkerNode(
            NodeSetup(
                (self.address,),
                exec_dir=self.exec_dir,
                jobs_dir=directory / "jobs",
                state_dir=directory / "worker",
                apps=apps,
                **(defaults | settings),
            )
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start both; returns when the member accepts connections."""
        self._thread.start()
        self.start_member()
        self._thread.run(self._worker.start())

    def stop(self) -> None:
        """Stop both. Their state stays in the directory."""
        self._thread.run(self._worker.stop())
        self.stop_member()
        self._thread.stop()

    def client(self, client_id: str = "") -> BlockingClient:
        """Create a client of this grid, for a `with` block."""
        return BlockingClient(self.address, client_id=client_id)

    def add_program(self, name: str, text: str) -> None:
        """Add a script that jobs can run; its first line is `#!…`."""
        path = self.exec_dir / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def start_member(self) -> None:
        """Start the member, with its state on disk."""
        self._thread.run(self._start())

    def stop_member(self) -> None:
        """Stop the member; its state stays on disk. Clients cannot connect until `start_member`."""
        if self._member is not None:
            self._thread.run(self._member.stop())
            self._member = None

    def member_setup(self) -> MemberSetup:
        """The settings of the member."""
        return MemberSetup(self.address)

    async def _start(self) -> None:
        host, _, port = self.address.rpartition(":")
        state = self._directory / "member"
        self._member = MemberNode(self.member_setup(), host, int(port), state)
        await self._member.start()
