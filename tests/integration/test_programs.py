"""Workers that have different programs, on real sockets: jobs go to those who can run them."""

from __future__ import annotations

from pathlib import Path

from rollq.roles.client.blocking import BlockingClient
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program


def test_a_job_waits_for_its_program_and_runs_when_a_worker_gets_it(tmp_path: Path) -> None:
    write_program(tmp_path, "here", "echo here\n")
    with SmallGrid(tmp_path) as grid, BlockingClient(grid.address) as client:
        late = client.submit("late", max_attempts=1)
        assert client.submit("here").result().stdout == "here\n"  # it waits for no other program
        assert "no connected worker has program late" in client.explain(late.job_id)
        write_program(tmp_path, "late", "echo late\n")
        result = late.result()
        assert (result.stdout, result.attempts) == ("late\n", 1)
