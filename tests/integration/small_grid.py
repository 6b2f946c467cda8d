"""One real member and one real worker in a thread, for tests of clients that block."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from rollq.net.ports import free_ports
from rollq.roles.client.loop_thread import LoopThread
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup


class SmallGrid:
    """A grid of one member and one worker that runs programs of `exec` and a module's functions."""

    def __init__(
        self,
        directory: Path,
        *apps: str,
        port: int = 0,
        member: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.port = port or free_ports(1)[0]
        self.address = f"127.0.0.1:{self.port}"
        (directory / "exec").mkdir(exist_ok=True, parents=True)
        self._thread = LoopThread("grid")
        self._member: MemberNode | None = None
        self._state_dir = directory / "member"
        self._member_settings = member or {}
        defaults: dict[str, Any] = {"slots": 2, "ahead": 256, "cpu_cap": 1.0}
        self._worker = WorkerNode(
            NodeSetup(
                (self.address,),
                exec_dir=directory / "exec",
                jobs_dir=directory / "jobs",
                state_dir=directory / "worker",
                apps=apps,
                **(defaults | settings),
            )
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self.start_member()
        self._thread.run(self._worker.start())
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.run(self._worker.stop())
        self.stop_member()
        self._thread.stop()

    def start_member(self) -> None:
        """Start the member on what it left on disk."""
        self._thread.run(self._start())

    async def _start(self) -> None:
        setup = MemberSetup(self.address, **self._member_settings)
        self._member = MemberNode(setup, "127.0.0.1", self.port, self._state_dir)
        await self._member.start()

    def stop_member(self) -> None:
        """Stop the member; its disk stays."""
        if self._member is not None:
            self._thread.run(self._member.stop())
            self._member = None
