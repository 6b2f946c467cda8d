"""Workers that have different programs, on real sockets: jobs go to those who can run them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rollq.cli.health import group_findings
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.tasks import Task
from tests.integration.procs import until
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program


def test_a_job_waits_for_its_program_and_runs_when_a_worker_gets_it(tmp_path: Path) -> None:
    write_program(tmp_path, "here", "echo here\n")
    with SmallGrid(tmp_path) as grid, BlockingClient(grid.address) as client:
        late = client.submit("late", max_attempts=1)
        assert client.submit("here").result().stdout == "here\n"  # it waits for no other program
        assert "no connected worker has program or function late" in str(
            client.explain(late.job_id)
        )
        write_program(tmp_path, "late", "echo late\n")
        result = late.result()
        assert (result.stdout, result.attempts) == ("late\n", 1)


def test_a_worker_that_serves_one_program_gets_the_jobs_of_callers_that_name_no_queue(
    tmp_path: Path,
) -> None:
    write_program(tmp_path, "calcA", "echo $1\n")
    with (
        SmallGrid(tmp_path, patterns=("job.assign.calcA",)) as grid,
        BlockingClient(grid.address) as client,
    ):
        assert client.submit("calcA", ["one"]).result().stdout == "one\n"
        mapped = client.map("calcA", [["2"], ["3"]], ordered=True)
        assert [result.stdout for result in mapped] == ["2\n", "3\n"]
        tasks = client.submit_array("calcA", 2, ["task"])
        assert [result.stdout for result in tasks.results()] == ["task\n", "task\n"]
        kept = client.submit("calcA", queue="default")
        assert "no worker serves queue default" in str(client.explain(kept.job_id))
        queues = [queue.name for queue in client.queues()]
        assert queues == ["calca", "default"]


def test_doctor_names_queues_that_nobody_serves_and_programs_that_nobody_has(
    tmp_path: Path,
) -> None:
    write_program(tmp_path, "here", "echo here\n")
    with (
        SmallGrid(tmp_path, patterns=("served",)) as grid,
        BlockingClient(grid.address) as client,
    ):
        assert client.submit("here", queue="served").result().ok  # so the worker is connected
        client.submit("tool", queue="served")
        client.submit("tool", queue="lost")
        _, findings = asyncio.run(group_findings(grid.address, 60))
        problems = [one.what for one in findings if one.severity == "problem"]
        assert len(problems) == 2
        assert "1 job waits in queue lost, and no connected worker serves it" in problems
        assert any("no connected worker has program or function tool" in one for one in problems)


def test_a_program_is_not_run_for_a_function_of_its_name(tmp_path: Path) -> None:
    """It would see none of the arguments, and what it prints would be what the call returned."""
    write_program(tmp_path, "adder", "echo 1000\n")
    adder = Task("adder", lambda left, right: left + right)  # which no module registers here
    with SmallGrid(tmp_path) as grid, BlockingClient(grid.address) as client:
        job = client.submit(adder, 1, 2)
        until(lambda: "the job calls a function" in str(client.explain(job.job_id)) or None)
        assert client.submit("adder", ["1", "2"]).result().stdout == "1000\n"
        assert not job.is_done
