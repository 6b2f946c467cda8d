"""A worker that holds many attempts comes back: none is run again, whatever version is there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq import Client
from rollq.base.jobs import AttemptRef
from rollq.net.ports import free_ports
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.wire import messages as wire
from rollq.wire.features import FEATURES, HOLDINGS, RUNS
from tests.integration.fake_member import FakeMember, job_id
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess
from tests.integration.talk import Talker, accepted, client, hang_up_all, worker
from tests.integration.workers import eventually, lines_of, running, write_program

HELD = 200
BEFORE = tuple(feature for feature in FEATURES if feature not in (HOLDINGS, RUNS))


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def test_a_worker_that_holds_many_attempts_keeps_them_when_its_member_restarts(
    tmp_path: Path,
) -> None:
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    os.mkfifo(gate)
    write_program(tmp_path, "gated", 'echo run >> "$1"; read -r line < "$2"; exit 0\n')
    port = free_ports(1)[0]
    address = f"127.0.0.1:{port}"

    async def started() -> MemberNode:
        member = MemberNode(MemberSetup(address), "127.0.0.1", port, tmp_path / "member")
        await member.start()
        return member

    def opened() -> bool:
        """Let all who wait go on, if anybody waits."""
        try:
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return True
        return False

    async def story() -> None:
        member = await started()
        setup = NodeSetup(
            (address,),
            exec_dir=tmp_path / "exec",
            jobs_dir=tmp_path / "jobs",
            state_dir=tmp_path / "worker",
            slots=HELD,
            cpu_cap=1.0,
        )
        node = WorkerNode(setup)
        await node.start()
        async with Client(address) as asking:
            jobs = [await asking.submit("gated", [str(runs), str(gate)]) for _ in range(HELD)]
            ends = [asyncio.ensure_future(one.result()) for one in jobs]
            await eventually(
                lambda: lines_of(runs, HELD),
                lambda: (
                    f"{len(lines_of(runs))} began, {len(node.machine.holding)} are held, ended: "
                    f"{[end.result() for end in ends if end.done()][:3]}"
                ),
            )
            assert len(node.machine.holding) == HELD
            await member.stop()
            member = await started()
            await eventually(member.driver.leader_state.sessions.workers)
            (session,) = member.driver.leader_state.sessions.workers()
            await eventually(lambda: session.opened)
            await eventually(opened)
            results = await asyncio.wait_for(asyncio.gather(*ends), DEADLINE_S)
            assert all(result.ok for result in results)
            assert {result.attempts for result in results} == {1}
        assert len(lines_of(runs)) == HELD
        await node.stop()
        await member.stop()

    asyncio.run(story())


@pytest.mark.parametrize("features", [FEATURES, BEFORE])
def test_a_worker_names_all_that_it_holds_to_a_member_of_either_version(
    tmp_path: Path, features: tuple[str, ...]
) -> None:
    write_program(tmp_path, "once", "echo ran >> $1\n")
    runs = tmp_path / "runs"

    async def story() -> None:
        deaf = FakeMember(takes_acks=False)
        # A slot for each: what waits for one is given back after a while.
        async with running(tmp_path, deaf, slots=HELD) as (_, member):
            for number in range(1, HELD + 1):
                member.assign(number, "once", str(runs))
            await member.until(lambda: len(member.acks) == HELD)
        other = FakeMember(features=features)
        async with running(tmp_path, other) as (node, member):
            (hello,) = member.hellos
            assert {ref.job_id for ref in hello.holding} == set(map(job_id, range(1, HELD + 1)))
            is_before = features is BEFORE
            assert (member.refused, hello.holding_count) == ((1, 0) if is_before else (0, HELD))
            await member.until(lambda: len(member.acks) == HELD)
            await eventually(lambda: not node.machine.holding)
        assert len(lines_of(runs)) == HELD

    asyncio.run(story())


def test_a_known_worker_of_the_version_before_may_name_much_and_a_stranger_may_not(
    tmp_path: Path,
) -> None:
    member = MemberProcess(tmp_path / "state")
    member.start()
    accepted(client(member.address), range(1, HELD + 1))
    first = worker(member.address, 7, HELD)
    given = [first.hear(wire.AssignJob) for _ in range(HELD)]
    holding = tuple(AttemptRef(one.job_id, one.attempt, one.fence) for one in given)
    first.close()

    def hello(number: int) -> wire.HelloWorker:
        return wire.HelloWorker(bytes([number]) * 16, ("",), "", 1, 0, holding, BEFORE)

    stranger = Talker(member.address)
    stranger.say(hello(8))
    assert stranger.is_over()
    again = Talker(member.address)
    again.say(hello(7))
    assert again.hear(wire.Welcome).owed == 0
    last = holding[-1]
    again.say(wire.AckJob(last.job_id, last.attempt, last.fence))
    assert again.hear(wire.AckTaken) == wire.AckTaken(last.job_id, last.attempt)
    assert member.stop() == 0
