"""Python functions under a real worker: in warm processes and in the loop."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest

from rollq.base.jobs import JobOptions, Status
from rollq.wire import messages as wire
from tests.integration.fake_member import job_id
from tests.integration.workers import eventually, is_alive, lines_of, running

APPS = ("tests.integration.sample_app",)


def test_functions_take_arguments_or_a_payload(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS) as (_, member):
            member.assign(1, "add", "20", "22")
            member.assign(2, "raw", body=b"\x00\xfeabc")
            member.assign(3, "order", body=b'{"item": "pear", "count": 3}')
            member.assign(4, "greet_in_loop", "you")
            member.assign(5, "noop", body=b"x" * 200)
            results = {number: (await member.outcome(number))[1] for number in range(1, 6)}
            assert {result.status for result in results.values()} == {"OK"}
            assert results[1].stdout == "42"
            assert results[2].data == b"cba\xfe\x00"
            assert results[3].stdout == '{"pear":3}'
            assert results[4].stdout == "hello you"
            assert results[5].stdout == ""

    asyncio.run(story())


def test_calls_in_the_loop_share_a_task_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS) as (_, member):
            member.assign(1, "wait_in_loop")
            member.assign(2, "leave_in_loop")
            for number in range(3, 9):
                member.assign(number, "trace_in_loop", str(number))
            for number in range(2, 9):
                ack, result = await member.outcome(number)
                assert (ack.status, result.stdout) == (Status.OK, "")
            member.send(wire.StopJob(job_id(1), 1, 1))
            assert (await member.outcome(1))[0].status == Status.CANCELLED
            member.assign(9, "greet_in_loop", "you")
            assert (await member.outcome(9))[1].stdout == "hello you"

    asyncio.run(story())


def test_a_function_that_its_module_lost_fails_and_the_process_lives(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=("tests.integration.changed_app", *APPS)) as (_, member):
            member.assign(1, "gone")
            ack, result = await member.outcome(1)
            assert (ack.status, result.exit_code) == (Status.FAILED, 1)
            assert "no task 'gone'" in (result.stderr or "")
            member.assign(2, "add", "20", "22")
            assert (await member.outcome(2))[1].stdout == "42"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "body", "stderr"),
    [
        ("fails", b"", "ValueError: no such luck"),
        ("odd", b"", "TypeError"),
        ("order", b"{", "DecodeError"),
        ("order", b'{"item": 3}', "ValidationError"),
        ("exit_in_loop", b"", "SystemExit: 3"),
        ("greet_in_loop", b"", "missing 1 required positional argument"),
    ],
)
def test_what_goes_wrong_in_a_function_is_its_result(
    tmp_path: Path, name: str, body: bytes, stderr: str
) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS) as (_, member):
            member.assign(1, name, body=body)
            ack, result = await member.outcome(1)
            assert (ack.status, ack.exit_code) == (Status.FAILED, 1)
            assert stderr in str(result.stderr)
            assert "warm_main" not in str(result.stderr)

    asyncio.run(story())


def test_functions_take_no_files(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS) as (_, member):
            member.assign(1, "add", "1", "2", files={"a": b""})
            ack, result = await member.outcome(1)
            assert (ack.status, ack.exit_code) == (Status.FAILED, 126)
            assert "takes no files" in str(result.stderr)

    asyncio.run(story())


def test_a_process_that_dies_fails_its_job_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS, slots=1) as (_, member):
            member.assign(1, "dies")
            ack, result = await member.outcome(1)
            assert (ack.status, ack.signal) == (Status.FAILED, signal.SIGABRT)
            assert "is gone" in str(result.note)
            member.assign(2, "add", "1", "2")
            ack, _ = await member.outcome(2)
            assert ack.status == Status.OK

    asyncio.run(story())


def test_a_soft_limit_raises_in_the_function_and_a_hard_one_ends_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS) as (_, member):
            await member.until(lambda: member.granted)
            soft, hard = tmp_path / "soft", tmp_path / "hard"
            member.assign(1, "naps", str(soft), options=JobOptions(run_ms_soft=2_000))
            member.assign(2, "parent", str(hard), options=JobOptions(run_ms_max=2_000))
            child = int((await eventually(lambda: lines_of(hard)))[0])
            ack, result = await member.outcome(1)
            assert ack.status == Status.FAILED
            assert "TimeoutError" in str(result.stderr)
            assert lines_of(soft, 2)[1] == "cleaned up"
            ack, result = await member.outcome(2)
            assert (ack.status, ack.signal) == (Status.FAILED, signal.SIGKILL)
            assert "killed, run limit of 2 s exceeded" in str(result.note)
            await eventually(lambda: not is_alive(child))

    asyncio.run(story())


def test_a_limit_holds_whatever_an_earlier_function_did_to_signals(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS, slots=1) as (_, member):
            member.assign(1, "deaf")
            ack, _ = await member.outcome(1)
            assert ack.status == Status.OK
            member.assign(2, "naps", str(tmp_path / "nap"), options=JobOptions(run_ms_soft=300))
            _, result = await member.outcome(2)
            assert "TimeoutError" in str(result.stderr)
            member.assign(3, "add", "1", "2")
            ack, _ = await member.outcome(3)
            assert ack.status == Status.OK

    asyncio.run(story())


def test_functions_can_be_cancelled_running_or_waiting(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, apps=APPS, slots=1, ahead=2) as (_, member):
            pids = tmp_path / "pids"
            once = JobOptions(max_attempts=1)  # or what waits for long would be given back
            member.assign(1, "naps", str(pids), options=once)
            member.assign(2, "wait_in_loop", options=once)
            member.assign(3, "naps", str(pids), options=once)
            (pid,) = [int(line) for line in await eventually(lambda: lines_of(pids))]
            for number in (3, 1):
                member.send(wire.StopJob(job_id(number), 1, number))
                ack = await member.until(partial(member.acks.get, job_id(number)))
                assert ack.status == Status.CANCELLED
            await eventually(lambda: not is_alive(pid))
            member.send(wire.StopJob(job_id(2), 1, 2))
            ack = await member.until(lambda: member.acks.get(job_id(2)))
            assert ack.status == Status.CANCELLED
            assert len(lines_of(pids)) == 1, "the third never ran"
            member.assign(4, "wait_in_loop", options=JobOptions(run_ms_max=50))
            ack, result = await member.outcome(4)
            assert (ack.status, result.note) == (
                Status.FAILED,
                "cancelled, run limit of 0.05 s exceeded",
            )

    asyncio.run(story())
