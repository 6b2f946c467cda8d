"""One member or one no-op worker as a process: `python -m bench.rollq_proc member|worker …`.

The least that serves: no settings, no logging to speak of. The member runs until SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import logging
import signal
from pathlib import Path

import uvloop

from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.wire import messages as m
from rollq.wire.compact import Message
from rollq.wire.handshake import FEATURES

HOST = "127.0.0.1"
CREDIT = 128  # two slots with 64 fetched ahead, as the other peers' workers do


def main() -> None:
    """Run what the arguments name until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m bench.rollq_proc")
    parser.add_argument("role", choices=("member", "worker"))
    parser.add_argument("port", type=int)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--peers", default="")
    parser.add_argument("--profile", type=Path, help="write a cProfile dump here at the end")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    if options.role == "member":
        peers = tuple(peer for peer in options.peers.split(",") if peer)
        work = run_member(options.port, options.state, peers)
    else:
        work = run_worker(options.port)
    profile = cProfile.Profile() if options.profile else None
    if profile is None:
        uvloop.run(work)
        return
    profile.enable()
    uvloop.run(work)
    profile.disable()
    profile.dump_stats(options.profile)


async def run_member(port: int, state: Path, peers: tuple[str, ...]) -> None:
    """Serve until told to stop."""
    node = MemberNode(MemberSetup(f"{HOST}:{port}", peers), HOST, port, state)
    await node.start()
    await until_told()
    await node.stop()


async def run_worker(port: int) -> None:
    """Answer every job at once."""

    def on_messages(link: Link, messages: list[Message]) -> None:
        done = 0
        for message in messages:
            if type(message) is m.AssignJob:
                done += 1
                link.send(m.AckJob(message.job_id, message.attempt, message.fence, 0, b"ok"))
            elif type(message) is m.Welcome:
                link.send(m.Credit(CREDIT))
                print("worker ready", flush=True)
        if done:
            link.send(m.Credit(done))

    gone = asyncio.Event()
    link = await dial(f"{HOST}:{port}", "default", on_messages, lambda _link, _why: gone.set())
    hello = m.HelloWorker(b"w" * 16, ("job.assign.>",), "w", 1, CREDIT, (), FEATURES)
    link.send(hello)
    await until_told()
    link.close("done")
    await gone.wait()


async def until_told() -> None:
    """Until SIGTERM."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()


if __name__ == "__main__":
    main()
