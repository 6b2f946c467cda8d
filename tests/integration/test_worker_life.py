"""A worker's life: sessions, restarts, drains, and being killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError, RollqError
from rollq.base.jobs import AttemptRef, JobOptions
from rollq.roles.worker import executor
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.results import ResultTable
from rollq.roles.worker.setup import NodeSetup
from rollq.wire import messages as wire
from tests.integration import sample_app, worker_process
from tests.integration.fake_member import FakeMember, job_id
from tests.integration.patience import DEADLINE_S
from tests.integration.workers import eventually, is_alive, lines_of, running, write_program


def test_a_finished_attempt_is_not_run_again_after_a_restart(tmp_path: Path) -> None:
    write_program(tmp_path, "once", "echo ran >> $1\n")

    async def story() -> None:
        deaf = FakeMember(takes_acks=False)
        async with running(tmp_path, deaf) as (_, member):
            member.assign(1, "once", str(tmp_path / "runs"))
            await member.outcome(1)
        (first,) = deaf.hellos
        async with running(tmp_path) as (node, member):
            hello = member.hellos[0]
            assert (hello.worker_id, hello.incarnation) == (first.worker_id, 2)
            assert [ref.job_id for ref in hello.holding] == [job_id(1)]
            await member.outcome(1)
            member.assign(1, "once", str(tmp_path / "runs"))
            member.assign(2, "once", str(tmp_path / "other"))
            await member.outcome(2)
            assert len(lines_of(tmp_path / "runs")) == 1
            await eventually(lambda: not node.machine.holding)
        async with running(tmp_path) as (_, member):
            assert member.hellos[0].holding == ()

    asyncio.run(story())


def test_what_ended_and_was_not_told_yet_survives_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "REPORT_MS", 3_600_000)
    write_program(tmp_path, "quick", "")
    write_program(tmp_path, "long", "exec sleep 1000\n")

    async def story() -> None:
        async with running(tmp_path, slots=1) as (node, member):
            for number, program in enumerate(("quick", "long", "quick"), 1):
                member.assign(number, program)
            await eventually(lambda: node._executor._ends)
            await node.stop()
            assert all(not isinstance(said, wire.AckJob) for said in member.received)
        async with running(tmp_path, slots=1) as (_, member):
            assert [ref.job_id for ref in member.hellos[0].holding] == [job_id(1)]
            await member.outcome(1)

    asyncio.run(story())


def test_what_ends_while_it_begins_to_stop_survives_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "REPORT_MS", 3_600_000)
    write_program(tmp_path, "quick", "")
    write_program(tmp_path, "long", "exec sleep 1000\n")

    async def story() -> None:
        async with running(tmp_path, slots=1) as (node, member):
            for number, program in enumerate(("quick", "long", "quick"), 1):
                member.assign(number, program)
            await eventually(lambda: node._executor._ends)
            node._stop_soon()
            node._executor._report_ends()
            await node.stop()
        async with running(tmp_path, slots=1) as (_, member):
            assert [ref.job_id for ref in member.hellos[0].holding] == [job_id(1)]

    asyncio.run(story())


def test_a_stop_leaves_no_upload_of_what_it_killed(tmp_path: Path) -> None:
    size = 100_000
    write_program(tmp_path, "long", f"head -c {size} /dev/zero | tr '\\0' x; exec sleep 1000\n")

    async def story() -> None:
        async with running(tmp_path) as (node, member):
            member.assign(1, "long")
            ref = AttemptRef(job_id(1), 1, 1)
            tails = await eventually(lambda: node._executor.tails(ref))
            await eventually(lambda: tails[0].total == size)
            await node.stop()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


def test_a_lost_leader_ends_nothing_and_a_redirect_is_followed(tmp_path: Path) -> None:
    write_program(tmp_path, "slow", "echo up > $1; while [ ! -e $2 ]; do sleep 0.02; done; echo ok")
    up, go = tmp_path / "up", tmp_path / "go"

    async def story() -> None:
        second = FakeMember()
        await second.start()
        async with running(tmp_path) as (node, first):
            first.assign(1, "slow", str(up), str(go))
            await eventually(up.exists)
            first.send(wire.NotLeader(second.address, (first.address, second.address)))
            hello = (await second.until(lambda: second.hellos))[0]
            assert [ref.job_id for ref in hello.holding] == [job_id(1)]
            go.touch()
            _, result = await second.outcome(1)
            assert result.stdout == "ok\n"
            await node.stop()
            await second.until(lambda: isinstance(second.received[-1], wire.Goodbye))
        await second.stop()

    asyncio.run(story())


def test_a_leader_that_does_not_answer_is_told_as_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "rollq.worker")

    async def story() -> None:
        member = FakeMember()
        member.ping_ms = 50
        async with running(tmp_path, member) as (node, _):
            await eventually(lambda: node._counted.disconnected)
            assert f"connection to {member.address} lost: no answer" in caplog.messages

    asyncio.run(story())


@pytest.mark.parametrize(("ahead", "most"), [(0, 2), (3, 5)])
def test_credit_follows_the_slots_and_looks_ahead_for_short_jobs(
    tmp_path: Path, ahead: int, most: int
) -> None:
    async def story() -> None:
        async with running(tmp_path, slots=2, ahead=ahead, apps=(sample_app.__name__,)) as (
            _,
            member,
        ):
            assert member.granted == 2, "nothing is known of the jobs yet"
            number = 0
            async with asyncio.timeout(DEADLINE_S):
                while number < 100 or member.granted - number < most:
                    await member.until(lambda: member.granted > len(member.acks))
                    assert member.granted - number <= most
                    number += 1
                    member.assign(number, "noop")
                    await member.outcome(number)

    asyncio.run(story())


def test_a_busy_computer_gets_one_job_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = [0.0]
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: load[0])
    apps = (sample_app.__name__,)

    async def story() -> None:
        async with running(tmp_path, cpu_cap=0.5, ahead=64, apps=apps) as (node, member):
            load[0] = 100.0
            await eventually(lambda: node._cpu.busy)
            for number in (1, 2):
                member.assign(number, "noop")
            for number in (1, 2):
                await member.outcome(number)
            await member.until(lambda: member.granted == 3)
            load[0] = 0.0
            await member.until(lambda: member.granted > 3)

    asyncio.run(story())


def test_a_drain_gives_no_more_credit(tmp_path: Path) -> None:
    write_program(tmp_path, "slow", "echo up > $1; while [ ! -e $2 ]; do sleep 0.02; done")
    up, go = tmp_path / "up", tmp_path / "go"

    async def story() -> None:
        async with running(tmp_path, ahead=64) as (node, member):
            member.assign(1, "slow", str(up), str(go))
            await eventually(up.exists)
            granted = member.granted
            node.drain()
            go.touch()
            await node.wait()
            await member.until(lambda: isinstance(member.received[-1], wire.Goodbye))
            assert job_id(1) in member.acks
            assert member.granted == granted

    asyncio.run(story())


def test_one_that_is_dismissed_ends_at_once_also_in_a_drain(tmp_path: Path) -> None:
    write_program(tmp_path, "slow", "echo $$ > $1.new; mv $1.new $1; sleep 1000")
    up = tmp_path / "up"

    async def story(drains: bool) -> None:
        async with running(tmp_path, drain_ms=3_600_000) as (node, member):
            member.assign(1, "slow", str(up))
            await eventually(up.exists)
            pid = int(up.read_text())
            up.unlink()
            if drains:
                node.drain()
            member.send(wire.Error(wire.NOT_ASKED, int(ErrorCode.DISMISSED), "go"))
            await node.wait()
            assert not is_alive(pid)
            await member.until(lambda: isinstance(member.received[-1], wire.Goodbye))
            assert not member.acks
            assert len(member.hellos) == 1

    for drains in (False, True):
        asyncio.run(story(drains))


def test_an_end_is_told_while_others_run_and_wait(tmp_path: Path) -> None:
    write_program(tmp_path, "quick", "echo quick\n")
    write_program(tmp_path, "hold", f"while [ ! -e {tmp_path}/told ]; do sleep 0.01; done\n")

    async def story() -> None:
        async with running(tmp_path, slots=1) as (_, member):
            for number, name in enumerate(("quick", "quick", "hold", "quick"), 1):
                # Once, or what waits for long would be given back.
                member.assign(number, name, options=JobOptions(max_attempts=1))
            for number in (1, 2):
                _, result = await member.outcome(number)
                assert result.stdout == "quick\n"
            (tmp_path / "told").touch()
            for number in (3, 4):
                ack, _ = await member.outcome(number)
                assert ack.exit_code == 0

    asyncio.run(story())


def test_what_waits_behind_a_long_job_is_given_back(tmp_path: Path) -> None:
    write_program(tmp_path, "long", "sleep 600\n")
    once = JobOptions(max_attempts=1)

    async def story() -> None:
        async with running(tmp_path, slots=1, ahead=4) as (_, member):
            member.assign(1, "long")
            member.assign(2, "long")
            member.assign(3, "long", options=once)
            member.assign(4, "long", attempt=2)
            await member.until(lambda: len(member.nacks) == 3)
            assert list(member.nacks) == [job_id(2), job_id(3), job_id(4)]
            assert all("no slot came free" in nack.detail for nack in member.nacks.values())
            assert all(nack.not_started for nack in member.nacks.values())
            assert not member.acks

    asyncio.run(story())


def test_a_job_that_an_older_member_would_charge_for_it_is_not_given_back(tmp_path: Path) -> None:
    write_program(tmp_path, "long", "sleep 600\n")
    once = JobOptions(max_attempts=1)

    async def story() -> None:
        member = FakeMember(features=("compact", "accepted", "lease", "patterns"))
        async with running(tmp_path, member, slots=1, ahead=4) as (node, _):
            member.assign(1, "long")
            member.assign(2, "long")
            member.assign(3, "long", options=once)
            member.assign(4, "long", attempt=2)
            await member.until(lambda: member.nacks.get(job_id(2)))
            await eventually(lambda: len(node.machine.holding) == 3)
            assert list(member.nacks) == [job_id(2)]

    asyncio.run(story())


def test_a_drain_gives_back_what_waits_for_a_slot_and_runs_what_runs(tmp_path: Path) -> None:
    write_program(tmp_path, "short", 'while [ ! -e "$0.go" ]; do sleep 0.05; done\n')

    async def story() -> None:
        async with running(tmp_path, slots=1, ahead=4) as (node, member):
            member.assign(1, "short")
            member.assign(2, "short", options=JobOptions(max_attempts=1))
            await eventually(lambda: node.machine.waiting_count == 1)
            node.drain()
            nack = await member.until(lambda: member.nacks.get(job_id(2)))
            assert (nack.detail, nack.not_started) == ("draining", True)
            (tmp_path / "exec" / "short.go").touch()
            await member.until(lambda: member.acks.get(job_id(1)))

    asyncio.run(story())


@contextlib.asynccontextmanager
async def worker_on(
    member: FakeMember, directory: Path, drain_ms: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, welcomed."""
    await member.start()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", worker_process.__name__),
        *(member.address, str(directory), str(drain_ms)),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await member.until(lambda: member.granted)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
        await member.stop()


async def logged(process: asyncio.subprocess.Process, words: bytes) -> None:
    """Wait until the process has logged a line with these words."""
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE_S):
        while words not in (line := await process.stderr.readline()):
            assert line, "the process ended before it said so"


def test_sigterm_drains(tmp_path: Path) -> None:
    write_program(tmp_path, "slow", "echo up > $1; while [ ! -e $2 ]; do sleep 0.02; done; echo ok")
    up, go = tmp_path / "up", tmp_path / "go"

    async def story() -> None:
        member = FakeMember()
        async with worker_on(member, tmp_path, 60_000) as process:
            member.assign(1, "slow", str(up), str(go))
            await eventually(up.exists)
            process.send_signal(signal.SIGTERM)
            await logged(process, b"draining")
            member.assign(2, "slow", str(up), str(go))
            await member.until(lambda: member.nacks)
            go.touch()
            _, result = await member.outcome(1)
            assert result.stdout == "ok\n"
            assert await process.wait() == 0
            assert isinstance(member.received[-1], wire.Goodbye)

    asyncio.run(story())


@pytest.mark.parametrize("how", ["kill", "two signals", "drain deadline"])
def test_nothing_outlives_a_worker(tmp_path: Path, how: str) -> None:
    write_program(
        tmp_path,
        "stay",
        "trap '' TERM; (setsid sh -c 'echo $$; exec sleep 600' >>$1 &); echo $$ >>$1; sleep 600\n",
    )
    pids = tmp_path / "pids"

    async def story() -> None:
        member = FakeMember()
        drain_ms = 300 if how == "drain deadline" else 60_000
        async with worker_on(member, tmp_path, drain_ms) as process:
            member.assign(1, "stay", str(pids))
            found = [int(line) for line in await eventually(lambda: lines_of(pids, 2))]
            if how == "kill":
                process.kill()
            else:
                process.terminate()
                await logged(process, b"draining")
                if how == "two signals":
                    process.send_signal(signal.SIGINT)
            await process.wait()
            await eventually(lambda: not any(map(is_alive, found)))
            assert not member.acks, "a job that was cut off is not ended: the grid runs it again"

    asyncio.run(story())


def test_a_disk_that_fails_stops_the_worker_and_nothing_is_acked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, "quick", "")

    def fail(*_: object) -> None:
        raise DiskError(ErrorCode.DISK_FULL, "no room")

    async def story() -> None:
        async with running(tmp_path) as (node, member):
            monkeypatch.setattr(ResultTable, "commit", fail)
            member.assign(1, "quick")
            with pytest.raises(DiskError):
                await node.wait()
            assert not member.acks

    asyncio.run(story())


def test_it_says_why_it_cannot_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as (node, member):
            twin = WorkerNode(node.setup)
            with pytest.raises(DiskError, match="uses the state directory"):
                await twin.start()
            await twin.stop()
            broken = NodeSetup((member.address,), state_dir=tmp_path / "s", apps=("no.such.app",))
            with pytest.raises(LocalError, match=r"no\.such\.app"):
                await WorkerNode(broken).start()
            (tmp_path / "file").touch()
            blocked = NodeSetup((member.address,), state_dir=tmp_path / "file")
            with pytest.raises(RollqError, match="state directory"):
                await WorkerNode(blocked).start()
            jobs = NodeSetup(
                (member.address,), state_dir=tmp_path / "t", jobs_dir=tmp_path / "file"
            )
            with pytest.raises(LocalError, match="jobs directory"):
                await WorkerNode(jobs).start()
            wordy = NodeSetup((member.address,), ("q" * 1_000, "r" * 1_000), state_dir=tmp_path)
            with pytest.raises(LocalError, match="patterns of 3000 bytes"):
                wordy.check()
            await node.start()
            await node.stop()
            await node.stop()

    asyncio.run(story())
