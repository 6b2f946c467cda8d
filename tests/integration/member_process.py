"""Runs a member as a process of its own, for tests that kill it: port, state directory, peers."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup


def main() -> None:
    """Serve until killed; says so on stdout once it listens."""
    port, state_dir, *peers = sys.argv[1:]
    asyncio.run(serve(int(port), Path(state_dir), tuple(peers)))


async def serve(port: int, state_dir: Path, peers: tuple[str, ...]) -> None:
    """One member."""
    setup = MemberSetup(f"127.0.0.1:{port}", peers)
    node = MemberNode(setup, "127.0.0.1", port, state_dir)
    await node.start()
    print("serves", flush=True)
    await node.wait()


if __name__ == "__main__":
    main()
