"""A router's machine for one client, and words of clients and groups."""

from __future__ import annotations

from typing import Any

from rollq.roles.client.several_groups.routes import GroupRoute, GroupTable, Policy
from rollq.roles.router.machine import RouterMachine
from rollq.roles.router.owners import JobOwners, KeptBytes
from rollq.wire import messages as wire
from rollq.wire.run_messages import SubmitRun

R = b"r" * 16


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


J, K, L = job(1), job(2), job(3)


def submit(job_id: bytes, subject: str = "calc", body: bytes = b"{}") -> wire.SubmitJob:
    return wire.SubmitJob(job_id, "ann", subject, "calc", body)


def run(first: int, count: int, subject: str = "calc") -> SubmitRun:
    ids = b"".join(job(first + n) for n in range(count))
    bodies = tuple(str(first + n).encode() for n in range(count))
    return SubmitRun(R, "ann", subject, "calc", ids, bodies)


def done(job_id: bytes) -> wire.Result:
    return wire.Result(job_id, "done", result=b"ok")


class Kit:
    """A machine, and what it said since it was last asked."""

    def __init__(
        self, count: int = 2, *routes: GroupRoute, is_legacy: bool = False, up: bool = True
    ) -> None:
        self.table = GroupTable(routes, Policy.ROUND_ROBIN)
        for number in range(count):
            self.table.add("abcd"[number])
        self.owners, self.kept = JobOwners(), KeptBytes()
        self.machine = RouterMachine(
            self.table, self.owners, self.kept, base_id=b"d" * 16, is_legacy=is_legacy
        )
        for number in range(count) if up else ():
            self.machine.group_up(number)

    def says(self, *messages: Any) -> list[Any]:
        """The client speaks; what it is answered at once."""
        self.machine.on_client_messages(messages)
        return self.told()

    def group(self, number: int, *messages: Any) -> list[Any]:
        """A group speaks; what the client is told."""
        self.machine.on_group_messages(number, messages)
        return self.told()

    def told(self) -> list[Any]:
        told, self.machine.to_client = self.machine.to_client, []
        return told

    def sent(self, number: int) -> list[Any]:
        return self.machine.to_groups.pop(number, [])
