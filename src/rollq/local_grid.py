"""A whole grid in this process: one member and one worker in a thread, on a port of their own.

For tests and for trying things out. It is the real thing, with its disk and its sockets; only the
processes are missing, and a second member.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from rollq.net.ports import free_ports
from rollq.roles.client.blocking import BlockingClient
from rollq.roles.client.loop_thread import LoopThread
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup


class LocalGrid:
    """A member and a worker, inside a `with` or between `start` and `stop`.

    Coroutine functions run in this process, plain ones in warm processes beside it, programs as
    ever.

    Args:
        directory: What the member and the worker keep is below it, and programs in its `exec`.
        apps: Modules that register functions.
        port: The member's; 0: one that is free.
        settings: Of the worker: `slots`, `labels`, `resources`.
    """

    def __init__(self, directory: Path, *apps: str, port: int = 0, **settings: Any) -> None:
        self.address = f"127.0.0.1:{port or free_ports(1)[0]}"
        self.exec_dir = directory / "exec"
        self.exec_dir.mkdir(exist_ok=True, parents=True)
        self._directory = directory
        self._thread = LoopThread("rollq-grid")
        self._member: MemberNode | None = None
        # However busy the machine is: whoever tests does not want to wait for that.
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
        """Start both; returns when the member serves."""
        self._thread.start()
        self.start_member()
        self._thread.run(self._worker.start())

    def stop(self) -> None:
        """Stop both. What they keep stays below the directory."""
        self._thread.run(self._worker.stop())
        self.stop_member()
        self._thread.stop()

    def client(self, client_id: str = "") -> BlockingClient:
        """A client of this grid, for a `with`."""
        return BlockingClient(self.address, client_id=client_id)

    def add_program(self, name: str, text: str) -> None:
        """A script that jobs may run, with its first line `#!…`."""
        path = self.exec_dir / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def start_member(self) -> None:
        """Start the member on what it left on disk."""
        self._thread.run(self._start())

    def stop_member(self) -> None:
        """Stop the member; its disk stays. Whoever asks meanwhile finds nobody."""
        if self._member is not None:
            self._thread.run(self._member.stop())
            self._member = None

    def member_setup(self) -> MemberSetup:
        """What the member is told when it starts."""
        return MemberSetup(self.address)

    async def _start(self) -> None:
        host, _, port = self.address.rpartition(":")
        state = self._directory / "member"
        self._member = MemberNode(self.member_setup(), host, int(port), state)
        await self._member.start()
