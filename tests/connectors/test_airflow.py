"""Airflow itself, with a member and a worker: `make connectors`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.local_grid import LocalGrid
from tests.connectors.kit import RUN_S, jobs_of, read_line
from tests.integration.console import run_page

pytest.importorskip("airflow", reason="make connectors runs these where Airflow is")

PAGE = Path(__file__).parents[2] / "docs/connectors/airflow.md"

DAGS = Path(__file__).with_name("airflow_dags.py")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGrid]:
    place = tmp_path_factory.mktemp("grid")
    os.mkfifo(place / "begun")
    with LocalGrid(place) as grid:
        grid.add_program("fail", "#!/bin/sh\necho out of luck >&2\nexit 3\n")
        grid.add_program("shy", '#!/bin/sh\ntest "$1" = 2\n')
        grid.add_program("wait", f"#!/bin/sh\necho $ROLLQ_JOB_ID > {place}/begun\nsleep 3600\n")
        grid.add_program("sleep", "#!/bin/sh\nsleep 3600\n")
        yield grid


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Airflow's database and the DAGs."""
    place = tmp_path_factory.mktemp("airflow")
    (place / "dags").mkdir()
    shutil.copy(DAGS, place / "dags")
    migrate = [str(Path(sys.executable).with_name("airflow")), "db", "migrate"]
    subprocess.run(migrate, env=env_of(place), check=True, capture_output=True, timeout=RUN_S)
    return place


def test_the_page_is_true(tmp_path: Path) -> None:
    run_page(PAGE.read_text(encoding="utf-8"), tmp_path, command_s=RUN_S)


def test_a_task_ends_as_its_job_does(grid: LocalGrid, home: Path) -> None:
    with started("endings", grid, home) as process:
        with grid.client() as client:
            client.cancel(read_line(grid.exec_dir.parent / "begun").strip())
        said, _ = process.communicate(timeout=RUN_S)
    states = json.loads(said.splitlines()[-1])
    ends = dict.fromkeys(("fails", "nobody", "cancelled", "slow"), "failed")
    assert states == ends | {"shy": "success"}, said
    assert "[stderr] out of luck" in said
    assert "failed with exit code 3" in said
    assert "nothing listens at 127.0.0.1:1" in said
    ended = [(one["exec"], one["state"]) for one in jobs_of(grid)]
    assert sorted(ended) == [
        ("fail", "failed"),
        ("shy", "failed"),
        ("shy", "ok"),
        ("sleep", "cancelled"),  # its task had run out of time
        ("wait", "cancelled"),  # and is not tried again
    ]


def test_whoever_kills_a_task_cancels_its_job(grid: LocalGrid, home: Path) -> None:
    with started("waits", grid, home) as process:
        job_id = read_line(grid.exec_dir.parent / "begun").strip()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=RUN_S)
    assert json.loads(said.splitlines()[-1]) == {"killed": "failed"}, said
    assert {one["id"]: one["state"] for one in jobs_of(grid)}[job_id] == "cancelled"


def started(name: str, grid: LocalGrid, home: Path) -> subprocess.Popen[str]:
    """A run of a DAG."""
    return subprocess.Popen(
        [sys.executable, home / "dags" / DAGS.name, name],
        cwd=home,
        env=env_of(home) | {"ROLLQ_SERVERS": grid.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def env_of(home: Path) -> dict[str, str]:
    settings = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    return os.environ | settings
