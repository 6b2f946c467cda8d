"""How far jobs are, as real programs and functions say."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq import Client, ErrorCode, Result, RollqError
from rollq.base.job_events import JobProgress, decode_event
from rollq.subjects.reserved import job_event_subject
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

APP = "tests.integration.progress_app"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grid")


@pytest.fixture(scope="module")
def grid(directory: Path) -> Iterator[SmallGrid]:
    with SmallGrid(directory, APP) as running:
        yield running


def told(grid: SmallGrid, exec_name: str, *args: str) -> tuple[list[JobProgress], Result]:
    """What those who listen hear of the progress of a job, and its result."""

    async def scenario() -> tuple[list[JobProgress], Result]:
        heard: list[JobProgress] = []
        async with Client(grid.address) as client:
            job = await client.submit(exec_name, args, delay=0.3)
            async with await client.subscribe(job_event_subject(job.job_id)) as events:
                result = await job.result(DEADLINE_S)
                while True:
                    try:
                        message = await events.next(0)
                    except TimeoutError:
                        return heard, result
                    event = decode_event(message.payload)
                    assert event is not None
                    if event.progress is not None:
                        assert event.attempt == 1
                        heard.append(event.progress)

    return asyncio.run(scenario())


def test_the_life_of_a_job_is_told_to_its_end(grid: SmallGrid, directory: Path) -> None:
    write_program(directory, "third", "[ $ROLLQ_ATTEMPT -ge 3 ] || exit 75\n")

    async def scenario() -> None:
        async with Client(grid.address) as client:
            job = await client.submit("third", delay=0.3, retry_exit_codes=[75], retry_base=0.01)
            life = [event async for event in job.events()]
            kinds = [event.kind for event in life]
            assert kinds[0] == "release"
            assert kinds.count("assign") == 3
            assert kinds.count("retry_requeue") == 2
            assert (kinds[-1], life[-1].status, life[-1].attempt) == ("ack", "ok", 3)
            assert all(event.stamp_ms for event in life)
            (end,) = [event async for event in job.events()]  # it is over: that is told
            assert (end.kind, end.attempt) == ("ack", 3)
            assert await client.progress(job.job_id) is None
            with pytest.raises(RollqError) as unknown:
                await anext(client.events(b"x" * 16))
            assert unknown.value.code is ErrorCode.UNKNOWN_JOB

    asyncio.run(scenario())


def test_what_a_job_said_last_can_be_asked_for(grid: SmallGrid, directory: Path) -> None:
    go = directory / "go"
    text = f"""echo '{{"done": 1, "total": 2}}' > "$ROLLQ_PROGRESS"
while [ ! -e {go} ]; do sleep 0.05; done
"""
    write_program(directory, "half", text)

    async def scenario() -> None:
        async with Client(grid.address) as client:
            job = await client.submit("half")
            async with asyncio.timeout(DEADLINE_S):
                async for event in job.events():
                    if event.progress is not None:
                        break
                assert await client.progress(job.job_id) == JobProgress(1, 2)
                go.touch()
                (await job.result()).raise_for_status()
            assert await client.progress(job.job_id) is None

    asyncio.run(scenario())


def test_a_program_says_how_far_it_is(grid: SmallGrid, directory: Path) -> None:
    write_program(
        directory,
        "steps",
        """for n in 1 2 3; do
  echo "{\\"done\\": $n, \\"total\\": 3, \\"note\\": \\"row $n\\"}" > "$ROLLQ_PROGRESS"
  sleep 0.6
done
ls -A "$TMPDIR"
""",
    )
    heard, result = told(grid, "steps")
    assert result.raise_for_status().stdout == "rollq-progress\n"
    assert heard[-1] == JobProgress(3, 3, "row 3")
    assert heard == sorted(heard, key=lambda one: one.done)
    assert not result.files  # it is no output


def test_a_python_program_says_it_by_a_function(grid: SmallGrid, directory: Path) -> None:
    code = "import rollq; rollq.progress(1, 2, 'half'); rollq.progress(2, 2)"
    write_program(directory, "inpython", f'exec {sys.executable} -c "{code}"\n')
    heard, result = told(grid, "inpython")
    result.raise_for_status()
    assert heard[-1] == JobProgress(2, 2)


def test_what_is_no_progress_is_ignored_with_a_remark(grid: SmallGrid, directory: Path) -> None:
    write_program(
        directory, "garbage", 'head -c 100000 /dev/urandom > "$ROLLQ_PROGRESS"\nsleep 1\n'
    )
    heard, result = told(grid, "garbage")
    assert heard == []
    assert result.raise_for_status().ok
    assert "ignored progress" in (result.note or "")


def test_what_is_no_file_is_left_alone(grid: SmallGrid, directory: Path) -> None:
    write_program(directory, "fifo", 'mkfifo "$ROLLQ_PROGRESS"\nsleep 1\n')
    write_program(directory, "link", 'ln -s /etc/passwd "$ROLLQ_PROGRESS"\nsleep 1\n')
    for name in ("fifo", "link"):
        heard, result = told(grid, name)
        assert heard == []
        assert result.raise_for_status().ok


def test_a_flood_is_told_a_few_times(grid: SmallGrid, directory: Path) -> None:
    write_program(
        directory,
        "flood",
        """i=0
while [ $i -lt 20000 ]; do i=$((i+1)); echo "{\\"done\\": $i}"; done > "$ROLLQ_PROGRESS"
""",
    )
    heard, result = told(grid, "flood")
    result.raise_for_status()
    assert heard[-1] == JobProgress(20_000)
    assert len(heard) < 50


@pytest.mark.parametrize("name", ["count_warm", "count_in_loop"])
def test_a_function_says_how_far_it_is(grid: SmallGrid, name: str) -> None:
    heard, result = told(grid, name, "3")
    assert result.raise_for_status().json() == 3
    assert heard[-1] == JobProgress(3, 3, "row 3")
    assert heard == sorted(heard, key=lambda one: one.done)


def test_a_function_may_say_it_as_often_as_it_likes(grid: SmallGrid) -> None:
    heard, result = told(grid, "flood_warm", "200000")
    assert result.raise_for_status().json() == 200_000
    assert heard[-1] == JobProgress(200_000, 200_000)
    assert len(heard) < 50
