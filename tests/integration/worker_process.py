"""Runs a worker as a process of its own, for tests that kill it: member, directory, drain time."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup


def main() -> None:
    """Serve until told to stop."""
    address, directory, drain_ms = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    asyncio.run(serve(address, Path(directory), int(drain_ms)))


async def serve(address: str, directory: Path, drain_ms: int) -> None:
    """One worker on the programs in `directory`."""
    node = WorkerNode(
        NodeSetup(
            (address,),
            exec_dir=directory / "exec",
            jobs_dir=directory / "jobs",
            state_dir=directory / "state",
            slots=2,
            cpu_cap=1.0,
            drain_ms=drain_ms,
        )
    )
    await node.run()


if __name__ == "__main__":
    main()
