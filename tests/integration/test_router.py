"""A router before three groups, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, Client, JobSpec, Options
from rollq.cli.main import app
from rollq.roles.client.results.result import Result
from rollq.roles.client.results.views import JobView
from tests.integration.legacy_peer import RESULT, SUBMIT_JOB, as_client, hang_up, request
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until
from tests.integration.routed import RoutedGrid

JOBS = 300


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoutedGrid]:
    made = RoutedGrid(
        tmp_path_factory.mktemp("routed"), 3, "--route", "calc.heavy=g1:3,g2:1", "--weight", "g0=2"
    )
    with made.running():
        yield made


def client(grid: RoutedGrid, name: str = "") -> Client:
    return Client(grid.address, client_id=name, timeout=DEADLINE_S)


def groups_of(results: list[Result]) -> Counter[str]:
    return Counter(result.stdout.split()[-1] for result in results)


def test_jobs_are_spread_by_weight_and_by_route(grid: RoutedGrid) -> None:
    async def story() -> None:
        async with client(grid) as one:
            results = [r async for r in one.map("calc", [(str(n),) for n in range(40)])]
            assert groups_of(results) == {"g0": 20, "g1": 10, "g2": 10}
            heavy = [
                JobSpec("calc", [str(n)], options=Options(queue="calc.heavy")) for n in range(40)
            ]
            batch = await one.submit_many(heavy)
            routed = [r async for r in batch.results()]
            assert groups_of(routed) == {"g1": 30, "g2": 10}
            array = await one.submit_array("calc", 9)
            tasks = [r async for r in array.results()]
            assert (len(tasks), len(groups_of(tasks))) == (9, 1)

    asyncio.run(story())


def test_sessions_take_turns_together(grid: RoutedGrid) -> None:
    async def story() -> None:
        results = []
        for _ in range(8):
            async with client(grid) as one:
                results.append(await (await one.submit("calc", ["x"])).result(DEADLINE_S))
        assert groups_of(results) == {"g0": 4, "g1": 2, "g2": 2}

    asyncio.run(story())


def test_files_go_in_and_come_out_whichever_group_has_the_job(
    grid: RoutedGrid, tmp_path: Path
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(3_000_000))

    async def story() -> None:
        async with client(grid) as one:
            jobs = [await one.submit("copy", files={"in.bin": large}) for _ in range(4)]
            results = [await job.result(DEADLINE_S) for job in jobs]
            assert set(groups_of(results)) == {"g0", "g1", "g2"}
            for result in results:
                assert await result.outputs["out.bin"].aread() == large.read_bytes()

    asyncio.run(story())


def test_a_job_is_cancelled_and_looked_at_where_it_is(grid: RoutedGrid) -> None:
    async def story() -> None:
        async with client(grid) as one, client(grid) as other:
            job = await one.submit("nap", ["600"])
            assert await other.query("job", job.job_id) is not None
            assert await job.cancel()
            assert (await job.result(DEADLINE_S)).status == "CANCELLED"

    asyncio.run(story())


def test_commands_show_all_groups(grid: RoutedGrid) -> None:
    shown = {}
    for words in (["status"], ["jobs"], ["queue", "list"]):
        result = CliRunner().invoke(app, [*words, "--servers", grid.address])
        assert result.exit_code == 0, result.output
        shown[words[0]] = result.stdout
    assert all(f"g{n}/127.0.0.1:{grid.members[n].port}" in shown["status"] for n in range(3))
    refused = CliRunner().invoke(app, ["queue", "pause", "calc", "--servers", grid.address])
    assert refused.exit_code != 0
    assert "ask a member of one group: g0, g1, g2" in refused.output


def test_a_legacy_client_gets_its_results(grid: RoutedGrid) -> None:
    try:
        peer = as_client(grid.port)
        wanted = [uuid.uuid4() for _ in range(6)]
        for job_id in wanted:
            body = request(job_id, "calc")
            peer.write(SUBMIT_JOB, uuid.uuid4(), subject="job.submit.calc", payload=body)
        found = []
        for _ in wanted:
            kind, _, corr_id, _, payload = peer.read()
            assert kind == RESULT
            assert b"got" in payload
            found.append(corr_id)
        assert sorted(found) == sorted(wanted)
    finally:
        hang_up()


def test_garbage_ends_its_connection_and_nothing_else(grid: RoutedGrid) -> None:
    async def story() -> None:
        async with client(grid) as one:
            await one.submit("calc", ["1"])
            for data in (b"GET / HTTP/1.0\r\n\r\n", os.urandom(4096), b"\x16\x03\x01" + bytes(50)):
                with socket.create_connection(("127.0.0.1", grid.port), DEADLINE_S) as stranger:
                    stranger.sendall(data)
                    stranger.shutdown(socket.SHUT_WR)
                    while await asyncio.to_thread(_read, stranger):
                        pass
            job = await one.submit("calc", ["2"])
            assert (await job.result(DEADLINE_S)).ok

    asyncio.run(story())


def _read(stranger: socket.socket) -> bytes:
    try:
        return stranger.recv(4096)
    except ConnectionError:
        return b""


async def flow(one: Client, from_number: int, count: int) -> list[Result]:
    """So many jobs, a few at a time; each has a result of its own."""
    jobs = []
    for number in range(from_number, from_number + count):
        jobs.append(await one.submit("calc", [str(number)]))
        await asyncio.sleep(0.002)
    results = [await job.result(DEADLINE_S) for job in jobs]
    assert [result.job_id for result in results] == [job.job_id for job in jobs]
    assert [result.stdout.split()[1] for result in results] == [
        str(number) for number in range(from_number, from_number + count)
    ]
    return results


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_no_job_is_lost_with_a_group(tmp_path: Path, how: signal.Signals) -> None:
    async def story(grid: RoutedGrid) -> None:
        async with client(grid) as one:
            before = await flow(one, 0, 30)
            assert set(groups_of(before)) == {"g0", "g1", "g2"}
            flowing = asyncio.ensure_future(flow(one, 30, JOBS))
            await asyncio.sleep(0.2)
            lost = grid.members[1]
            if how is signal.SIGKILL:
                await asyncio.to_thread(lost.kill)
            else:
                lost.send(signal.SIGSTOP)
            results = await flowing
            await asyncio.to_thread(grid.router.until_line, "group g1 cannot be reached")
            assert groups_of(results)["g0"] > 0
            assert groups_of(results)["g2"] > 0
            if how is signal.SIGKILL:
                await asyncio.to_thread(lost.start)
            else:
                lost.send(signal.SIGCONT)
            found: Counter[str] = Counter()
            while not found["g1"]:  # it is looked for again, and gets its share
                found += groups_of(await flow(one, 1_000, 6))

    grid = RoutedGrid(tmp_path, 3)
    with grid.running():
        asyncio.run(story(grid))
        assert grid.router.stop() == 0
        shown = grid.router.until_line("results by group")
        assert all(f"g{n} " in shown for n in range(3))


def test_commands_tell_of_a_group_that_is_gone(tmp_path: Path) -> None:
    grid = RoutedGrid(tmp_path, 2)

    def shown(code: int, *words: str) -> str:
        result = CliRunner().invoke(app, [*words, "--servers", grid.address])
        assert result.exit_code == code, result.output
        return result.output

    with grid.running():
        grid.members[1].kill()
        grid.router.until_line("group g1 cannot be reached")
        assert "ALARM group g1 cannot be reached" in shown(0, "status")
        assert "problem: group g1 cannot be reached" in shown(1, "doctor")
        asked = shown(3, "job", str(uuid.uuid4()), "--timeout", "1")
        assert "(group g1 cannot be reached) [timed_out]" in asked
        grid.members[1].start()
        until(lambda: "ALARM" not in shown(0, "status"))
        assert "[unknown_job]" in shown(4, "job", str(uuid.uuid4()))


def test_clients_go_on_when_the_router_is_killed_and_started_again(tmp_path: Path) -> None:
    async def story(grid: RoutedGrid) -> None:
        async with client(grid, "ann") as one:
            await flow(one, 0, 10)
            flowing = asyncio.ensure_future(flow(one, 10, JOBS))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(grid.router.kill)
            await asyncio.to_thread(grid.start_router)
            results = await flowing
            assert set(groups_of(results)) == {"g0", "g1", "g2"}

    grid = RoutedGrid(tmp_path, 3)
    with grid.running():
        asyncio.run(story(grid))


def test_results_that_are_owed_come_after_the_welcome(grid: RoutedGrid) -> None:
    async def story() -> None:
        async with client(grid, "bob") as one:
            jobs = [await one.submit("nap", ["0.2"]) for _ in range(6)]
        # They end while nobody is there to be told.
        await asyncio.to_thread(_wait_for, grid, [job.job_id for job in jobs])
        for _ in range(3):
            async with client(grid, "bob") as one:
                assert (await one.submit("calc", ["1"])).job_id
                results = [await one.jobs.result_of(job.job_id, timeout=DEADLINE_S) for job in jobs]
                assert all(result.ok for result in results)

    asyncio.run(story())


def _wait_for(grid: RoutedGrid, job_ids: list[bytes]) -> None:
    """Until these have ended, as somebody else sees it."""
    with BlockingClient(grid.address, timeout=DEADLINE_S) as other:
        until(lambda: all(_is_over(other.jobs.status(job_id)) for job_id in job_ids))


def _is_over(view: JobView | None) -> bool:
    return view is not None and view.state == "ok"
