"""What jobs see of the environment: what they need, what the worker passes on, and their own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, ErrorCode, JobSpec, LocalError
from rollq.cli.main import app
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

APPS = ("tests.integration.sample_app",)
OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")  # which runs the program
OURS = {"ROLLQ_JOB_ID", "ROLLQ_ATTEMPT", "ROLLQ_WORKER", "ROLLQ_RUN", "ROLLQ_PROGRESS"}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    directory = tmp_path_factory.mktemp("environment")
    write_program(directory, "show", "env -0")
    write_program(
        directory, "temporary", 'ls -A "$TMPDIR"; echo x > "$TMPDIR/left"; echo "$TMPDIR"'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKER_SECRET", "do not tell")
        patch.setenv("PASSED_ON", "told")
        patch.setenv("MANY_1", "one")
        patch.setenv("LC_TIME", "C.UTF-8")
        with SmallGrid(directory, *APPS, slots=1, pass_env=("PASSED_ON", "MANY_*")) as running:
            yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def seen(stdout: str) -> dict[str, str]:
    entries = (entry.partition("=") for entry in stdout.split("\0") if entry)
    # The shell that runs the program adds these.
    return {
        name: value for name, _, value in entries if name not in ("PWD", "SHLVL", "_", "OLDPWD")
    }


def test_a_program_sees_a_clean_environment(client: BlockingClient) -> None:
    env = seen(client.submit("show").result(DEADLINE_S).raise_for_status().stdout)
    assert "WORKER_SECRET" not in env
    allowed = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "PASSED_ON", "MANY_1"} | OURS
    assert {name for name in env if not name.startswith("LC_")} <= allowed
    assert {"PATH", "TMPDIR", *OURS} <= set(env)
    assert (env["PASSED_ON"], env["MANY_1"], env["LC_TIME"]) == ("told", "one", "C.UTF-8")


def test_no_process_of_the_worker_shows_its_environment(client: BlockingClient) -> None:
    """Programs may look into those of the same user: the guard, and processes for functions."""
    assert client.submit("show").result(DEADLINE_S).ok
    shown: dict[str, dict[str, str]] = {}
    for one in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            shown[" ".join(one.cmdline())] = one.environ()
    ours = {words: env for words, env in shown.items() if "_main" in words}
    assert any("guard_main" in words for words in ours)
    assert any("warm_main" in words for words in ours)
    assert not any("WORKER_SECRET" in env for env in ours.values())


def test_a_job_brings_its_own(client: BlockingClient) -> None:
    own = {"MODE": "fast é\n", "HOME": "/nowhere", "EMPTY": ""}
    env = seen(client.submit("show", env=own).result(DEADLINE_S).raise_for_status().stdout)
    assert {name: env[name] for name in own} == own
    after = seen(client.submit("show").result(DEADLINE_S).stdout)
    assert "MODE" not in after
    specs = [JobSpec("show", options={"env": {"N": str(number)}}) for number in range(3)]
    found = sorted(seen(result.stdout)["N"] for result in client.map(specs))
    assert found == ["0", "1", "2"]
    batch = client.submit_array("show", 2, env={"MODE": "array"})
    assert {seen(one.stdout)["MODE"] for one in batch.results()} == {"array"}


def test_temporary_files_are_no_outputs_and_not_left_to_the_next(client: BlockingClient) -> None:
    for _ in range(3):
        result = client.submit("temporary").result(DEADLINE_S).raise_for_status()
        (folder,) = result.stdout.splitlines()  # nothing was there before
        assert folder.endswith(".tmp")
        assert not result.outputs


def test_what_makes_programs_load_code_fails_the_job(client: BlockingClient) -> None:
    for name in ("LD_PRELOAD", "PATH", "PYTHONPATH", "BASH_ENV"):
        result = client.submit("show", env={name: "./evil"}).result(DEADLINE_S)
        assert (result.status, result.exit_code) == ("FAILED", 126)
        assert name in result.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"A=B": "x"},
        {"": "x"},
        {"1A": "x"},
        {"ROLLQ_JOB_ID": "x"},
        {"A": "x\0"},
        {"A": 5},
        {"A": "x" * 20_000},
        {f"A{number}": "" for number in range(300)},
        "A=B",
    ],
)
def test_what_cannot_be_is_refused_at_once(client: BlockingClient, env: dict[str, str]) -> None:
    with pytest.raises(LocalError) as caught:
        client.submit("show", env=env)
    assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_a_payload_has_no_environment(client: BlockingClient) -> None:
    with pytest.raises(LocalError, match="bare payload"):
        client.submit("show", payload=b"x", env={"A": "b"})


def test_functions_see_a_clean_environment_and_their_own(client: BlockingClient) -> None:
    def environ(**env: str) -> dict[str, str]:
        found = client.submit("environ", env=env).result(DEADLINE_S).raise_for_status().json()
        assert isinstance(found, dict)
        return found

    before = environ()
    assert "WORKER_SECRET" not in before
    assert before["PASSED_ON"] == "told"
    changed = environ(PASSED_ON="changed", MODE="fast")
    assert (changed["PASSED_ON"], changed["MODE"]) == ("changed", "fast")
    assert environ() == before, "the next call in the same process sees nothing of it"
    refused = client.submit("greet_in_loop", ["you"], env={"A": "b"}).result(DEADLINE_S)
    assert (refused.status, refused.exit_code) == ("FAILED", 126)
    assert "coroutine function" in refused.stderr


def test_the_command_line_gives_values_and_takes_those_of_here(grid: SmallGrid) -> None:
    def submit(*arguments: str, code: int = 0) -> str:
        env = {"ROLLQ_SERVERS": grid.address, "ROLLQ_TIMEOUT": "60", "HERE": "from here"}
        ended = CliRunner().invoke(app, ["submit", "show", "--wait", *arguments], env=env)
        assert ended.exit_code == code, ended.output
        return ended.stdout

    env = seen(submit("--env", "MODE=a=b", "--env", "HERE"))
    assert (env["MODE"], env["HERE"]) == ("a=b", "from here")
    submit("--env", "NOT_SET_ANYWHERE", code=2)


def test_jobs_of_a_file_bring_their_own(grid: SmallGrid, tmp_path: Path) -> None:
    lines = tmp_path / "jobs.jsonl"
    lines.write_text('{"exec": "show", "options": {"env": {"MODE": "file"}}}\n')
    env = {"ROLLQ_SERVERS": grid.address, "ROLLQ_TIMEOUT": "60"}
    asked = ["submit", "--from-file", str(lines), "--wait", "--json"]
    ended = CliRunner().invoke(app, asked, env=env)
    assert seen(json.loads(ended.stdout)["stdout"])["MODE"] == "file"
