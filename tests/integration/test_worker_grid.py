"""A real member, a real worker and a real client: programs and functions through the whole grid."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rollq import Client
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from tests.integration import sample_app
from tests.integration.workers import write_program

JOBS = 300


def test_programs_and_functions_through_the_grid(tmp_path: Path) -> None:
    write_program(tmp_path, "sum", "cat numbers; echo $1; exit $2\n")

    async def story() -> None:
        member = MemberNode(MemberSetup("127.0.0.1:0"), "127.0.0.1", 0, tmp_path / "member")
        await member.start()
        worker = WorkerNode(
            NodeSetup(
                (f"127.0.0.1:{member.port}",),
                exec_dir=tmp_path / "exec",
                jobs_dir=tmp_path / "jobs",
                state_dir=tmp_path / "worker",
                slots=2,
                cpu_cap=1.0,
                apps=(sample_app.__name__,),
                ahead=64,
            )
        )
        await worker.start()
        async with Client(f"127.0.0.1:{member.port}") as client:
            job = await client.submit("sum", ["3", "0"], files={"numbers": b"1\n2\n"})
            result = await job.result(timeout=25)
            assert (result.ok, result.stdout) == (True, "1\n2\n3\n")
            job = await client.submit("sum", ["3", "4"], files={"numbers": b""})
            result = await job.result(timeout=25)
            assert (result.ok, result.exit_code) == (False, 4)
            jobs = [await client.submit("add", [str(n), "1"]) for n in range(5)]
            assert [(await job.result(timeout=25)).stdout for job in jobs] == list("12345")
            jobs = await asyncio.gather(*(client.submit("noop", []) for _ in range(JOBS)))
            results = await asyncio.gather(*(job.result(timeout=25) for job in jobs))
            assert all(result.ok for result in results)
        await worker.stop()
        await member.stop()

    asyncio.run(story())
