"""Looks at a member with many waiting jobs from outside, through plain sockets."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final

from bench.peers.rollq_wire import FEATURES, RawClient
from bench.procs import NotReadyError
from rollq.wire import messages as m
from rollq.wire.features import LEASE, PATTERNS

ASSIGN_S_MAX: Final = 120.0
STALL_WINDOW: Final = 64
STALL_S_MAX: Final = 60.0
AFTER_SNAPSHOT_S: Final = 1.0


def first_assignment(address: str) -> None:
    """Connect as a worker with one slot until a job comes."""
    deadline = time.monotonic() + ASSIGN_S_MAX
    hello = m.HelloWorker(
        secrets.token_bytes(16), ("job.assign.>",), "first", 1, 1, (), (*FEATURES, LEASE, PATTERNS)
    )
    while time.monotonic() < deadline:
        try:
            with RawClient(address, "", hello) as worker:
                if not isinstance(worker.greeting, m.Welcome):
                    continue
                worker.send(m.Credit(1))
                worker.flush()
                while not any(isinstance(one, m.AssignJob) for one in worker.receive()):
                    pass
                worker.send(m.Goodbye("seen"))
                worker.flush()
                return
        except OSError:
            continue
    raise NotReadyError(f"no job was assigned within {ASSIGN_S_MAX:.0f} s")


def longest_answer_ms(address: str, snapshots: Path, payload: bytes) -> float | None:
    """Submit at a moderate pace until a snapshot has been taken, asking for the counts meanwhile.

    The answer to a read waits for the turn of the loop that runs, and for its sync: so this is a
    little more than the stall itself.
    """
    before = set(snapshots.glob("*"))
    longest = 0.0
    end = time.monotonic() + STALL_S_MAX
    is_taken = False
    with RawClient(address, "stall") as client, RawClient(address, "asks") as asker:
        while time.monotonic() < end:
            for _ in range(STALL_WINDOW):
                client.submit(payload)
            client.flush()
            asked = time.perf_counter()
            asker.send(m.Query(secrets.token_bytes(16), "counts"))
            asker.flush()
            _wait_for(asker, m.Answer, 1)
            longest = max(longest, time.perf_counter() - asked)
            _wait_for(client, m.Accepted, STALL_WINDOW)
            new = set(snapshots.glob("*")) - before
            if not is_taken and any(one.suffix != ".tmp" for one in new):
                is_taken = True
                end = min(end, time.monotonic() + AFTER_SNAPSHOT_S)
    return longest * 1e3 if is_taken else None


def _wait_for(client: RawClient, kind: type[m.Accepted] | type[m.Answer], count: int) -> None:
    while count > 0:
        count -= sum(type(one) is kind for one in client.receive())
