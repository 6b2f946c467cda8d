"""Secrets by reference in a real grid: jobs get values, and nothing else ever has them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, JobSpec, JobView
from rollq.cli.main import app
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import ROOT, MemberProcess, until
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

APPS = ("tests.integration.sample_app",)
MARKER = "marker-b1f7c0de"  # no value may be seen, and all have this in them
TOKEN = f"{MARKER}-token"
PEM = f"-----BEGIN {MARKER}-----\nline\n-----END-----\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a vault."""
    folder = tmp_path_factory.mktemp("secrets")
    vault = folder / "vault"
    vault.mkdir()
    for name, value in (("github", TOKEN + "\n"), ("site.pem", PEM), ("open", TOKEN)):
        (vault / name).write_text(value)
        (vault / name).chmod(0o644 if name == "open" else 0o600)
    (vault / "binary").write_bytes(b"\0" + MARKER.encode())
    (vault / "binary").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def grid(folder: Path) -> Iterator[SmallGrid]:
    write_program(folder, "length", 'printf %s "$TOKEN" | wc -c; printf %s "$TOKEN" | md5sum')
    write_program(folder, "leak", 'echo "a $TOKEN b"; echo "$TOKEN" >&2; echo "c $TOKEN" > out')
    write_program(folder, "slow", "printf 'one marker-b1f7'; sleep 0.1; printf 'c0de-token two'")
    write_program(folder, "file", 'stat -c "%a %s" "$KEY"; md5sum < "$KEY"; echo "$KEY"')
    write_program(folder, "plain", 'echo "${TOKEN-none}"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VAULT_db", f"{MARKER}-db")
        with SmallGrid(
            folder,
            *APPS,
            slots=1,
            vault=folder / "vault",
            vault_env="VAULT_",
            pass_env=("VAULT_*",),
        ) as running:
            yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def test_a_job_gets_a_value_by_its_name(client: BlockingClient) -> None:
    told = client.submit("length", secrets={"TOKEN": "github"}).result(DEADLINE_S).stdout
    assert told.split()[0] == str(len(TOKEN))
    told = client.submit("length", secrets={"TOKEN": "db"}).result(DEADLINE_S).stdout
    assert told.split()[0] == str(len(f"{MARKER}-db"))
    assert client.submit("plain").result(DEADLINE_S).stdout == "none\n"


def test_every_way_to_submit_takes_them(client: BlockingClient) -> None:
    asked = {"TOKEN": "github"}
    specs = [JobSpec("length", options={"secrets": asked}) for _ in range(3)]
    found = [one.stdout.split()[0] for one in client.map(specs)]
    found += [
        one.stdout.split()[0] for one in client.submit_array("length", 2, secrets=asked).results()
    ]
    payload = client.submit("length", payload=b"bare", secrets=asked)
    found.append(payload.result(DEADLINE_S).stdout.split()[0])
    assert found == [str(len(TOKEN))] * 6


def test_a_value_may_be_a_file_that_is_the_jobs_alone(client: BlockingClient) -> None:
    handle = client.submit("file", secrets={"KEY": "file:site.pem"})
    mode, _, path = handle.result(DEADLINE_S).raise_for_status().stdout.splitlines()
    assert mode == f"600 {len(PEM)}"
    assert not Path(path).exists()
    assert not handle.result(DEADLINE_S).outputs


def test_what_a_job_prints_is_masked(client: BlockingClient) -> None:
    result = client.submit("leak", secrets={"TOKEN": "github"}).result(DEADLINE_S)
    assert (result.stdout, result.stderr) == ("a *** b\n", "***\n")
    slow = client.submit("slow", secrets={"TOKEN": "github"}).result(DEADLINE_S)
    assert slow.stdout == "one *** two"


def test_functions_have_them_for_the_time_of_a_call(client: BlockingClient) -> None:
    got = client.submit("environment_of", ["TOKEN"], secrets={"TOKEN": "github"}).result(DEADLINE_S)
    assert got.stdout == "***"
    assert client.submit("environment_of", ["TOKEN"]).result(DEADLINE_S).stdout == ""
    raised = client.submit("raise_with", ["TOKEN"], secrets={"TOKEN": "github"}).result(DEADLINE_S)
    assert "ValueError: ***" in raised.stderr
    as_file = client.submit("environment_of", ["K"], secrets={"K": "file:github"})
    assert "functions have none" in as_file.result(DEADLINE_S).stderr
    in_loop = client.submit("greet_in_loop", ["a"], secrets={"TOKEN": "github"}).result(DEADLINE_S)
    assert "no environment of its own" in in_loop.stderr


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"TOKEN": "nowhere"}, "no secret 'nowhere'"),
        ({"TOKEN": "open"}, "cannot use its secret 'open'"),
        ({"TOKEN": "binary"}, "cannot hold the secret 'binary'"),
    ],
)
def test_what_is_missing_is_told_by_name_and_costs_no_attempt(
    client: BlockingClient, asked: dict[str, str], told: str
) -> None:
    handle = client.submit("plain", secrets=asked, max_attempts=1)

    view = until(lambda: _tried(client, handle.job_id))
    assert told in view.attempts[0].detail
    assert view.state != "dead"
    assert told in until(lambda: _why_delayed(client, handle.job_id))
    assert client.cancel(handle.job_id) == 1


def _why_delayed(client: BlockingClient, job_id: bytes) -> str:
    why = str(client.explain(job_id))
    return why if why.startswith("delayed") else ""


def _tried(client: BlockingClient, job_id: bytes) -> JobView | None:
    view = client.status(job_id)
    return view if view is not None and view.attempts else None


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "PYTHONPATH"])
def test_a_secret_is_no_way_to_load_code(client: BlockingClient, variable: str) -> None:
    result = client.submit("plain", secrets={variable: "github"}).result(DEADLINE_S)
    assert not result.ok
    assert "could make a program load code" in result.stderr


def test_the_command_line_shows_names_alone(grid: SmallGrid, folder: Path) -> None:
    runner = CliRunner()
    servers = ["--servers", grid.address, "--json"]
    asked = ["--secret", "TOKEN=github", "--secret", "KEY=file:site.pem"]
    ran = runner.invoke(app, ["submit", "leak", "--wait", *asked, *servers])
    assert ran.exit_code == 0, ran.output
    shown = runner.invoke(app, ["job", json.loads(ran.stdout)["id"], *servers])
    options = json.loads(shown.stdout)["options"]
    assert options["secrets"] == {"TOKEN": "github", "KEY": "file:site.pem"}
    assert MARKER not in ran.output + shown.output
    wrong = runner.invoke(app, ["submit", "leak", "--secret", MARKER, *servers])
    assert wrong.exit_code == 2


def test_no_value_is_left_anywhere(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Logs, history, results and all other files of a member and of a worker."""
    caplog.set_level(logging.DEBUG)
    base = folder / "again"
    asked = {"TOKEN": "github", "KEY": "file:site.pem"}
    seen: list[str] = []
    base.mkdir()
    write_program(base, "leak", 'echo "a $TOKEN b"; cat "$KEY"; exit 3')
    with (
        SmallGrid(base, *APPS, slots=1, vault=folder / "vault") as grid,
        BlockingClient(grid.address) as client,
    ):
        handle = client.submit("leak", secrets=asked)
        result = handle.result(DEADLINE_S)
        assert result.exit_code == 3
        seen += [repr(result), repr(client.status(handle.job_id)), repr(handle)]
        raised = client.submit("raise_with", ["TOKEN"], secrets={"TOKEN": "github"})
        seen.append(repr(raised.result(DEADLINE_S)))
    for path in base.rglob("*"):
        if path.is_file():
            assert MARKER.encode() not in path.read_bytes(), path
    assert sum(path.is_file() for path in base.rglob("*")) > 5
    assert "github" in "".join(seen)
    assert MARKER not in "".join([*seen, caplog.text])


def test_processes_of_a_grid_do_not_show_them(folder: Path, tmp_path: Path) -> None:
    """By commands, in processes of their own: arguments, what they write, and the history."""
    write_program(tmp_path, "look", 'cat /proc/[0-9]*/cmdline | tr "\\0" " "; echo "$TOKEN"')
    env = os.environ | {"VAULT_db": f"{MARKER}-db", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "rollq"]
    member = MemberProcess(tmp_path / "member").start()
    host, port = member.address.split(":")
    worker = subprocess.Popen(
        [
            *(*command, "worker", host, port, "--exec-dir", str(tmp_path / "exec")),
            *("--jobs-dir", str(tmp_path / "jobs"), "--state", str(tmp_path / "state")),
            *("--vault", str(folder / "vault"), "--vault-env", "VAULT_", "--log-level", "debug"),
        ],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = ""
        for asked in ("TOKEN=github", "TOKEN=db"):
            ran = subprocess.run(
                [*command, "submit", "look", "--wait", "-s", member.address, "--secret", asked],
                env=env,
                capture_output=True,
                check=True,
                text=True,
                timeout=DEADLINE_S,
            )
            assert ran.stdout.endswith("***\n")
            assert "--vault-env VAULT_" in ran.stdout
            said += ran.stdout + ran.stderr
        told = subprocess.run(
            [*command, "history", "export", "-s", member.address],
            env=env,
            capture_output=True,
            check=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert told.stdout.count('"execName":"look"') > 3
        said += told.stdout
    finally:
        worker.terminate()
        said += worker.communicate(timeout=DEADLINE_S)[0]
        member.kill()
    assert MARKER not in said + "\n".join(member.lines)
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert MARKER.encode() not in path.read_bytes(), path
