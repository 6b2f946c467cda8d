"""Jobs that try what they must not, in real layers of a real kernel: each is refused, or ended with
the cause named. With groups of the kernel and without; programs and functions alike."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, Reader
from rollq.cli.main import app as cli
from rollq.roles.worker import app
from rollq.roles.worker.sandbox.layers import Layer, SandboxLevel, SandboxSetup
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

MIB = 1024**2
APPS = ("tests.integration.sandbox_app",)
SECRET = "only for the worker"
FORKS = "i=0; while [ $i -lt 10000 ]; do sleep 60 & i=$((i+1)); done; wait"
LIMITED = partial(SandboxSetup, memory_bytes=96 * MIB, pids_max=40, disk_bytes=24 * MIB)
WAYS = {
    "with groups": LIMITED(SandboxLevel.STRICT),
    "without groups": LIMITED(SandboxLevel.STRICT, cgroups=False),
    "own users": LIMITED(users=(70_000, 70_007), cgroups=False, network=False),
}
PROGRAMS = {
    "read": 'cat "$1"',
    "dial": 'bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" && echo connected',
    "eat": "head -c 4G /dev/zero | tail",
    "fork": FORKS,
    "one-large-file": "exec head -c 64M /dev/zero > large",
    "fill": "for i in 1 2 3 4 5 6 7 8 9; do head -c 8M /dev/zero > $i; done; sleep 60",
    "key": 'stat -c %a "$KEY"; wc -c < "$KEY"',
    "terminal": "exec < /dev/tty",
    "hold": "echo hidden > mine; sleep 60",
    "who": "id -u; id -G; grep NoNewPrivs /proc/self/status; ulimit -c",
    "work": 'cat in/a; echo new > out; echo x > "$TMPDIR/t"; echo y >> in/a; '
    "ln -s /etc/passwd link; mkdir -p deep/er; : > deep/er/f; chmod 0 deep; pwd",
}


class Sandboxed:
    """A grid whose jobs run in layers, and a client of it."""

    def __init__(
        self, directory: Path, address: str, client: BlockingClient, setup: SandboxSetup
    ) -> None:
        self.directory = directory
        self.address = address
        self.client = client
        self.setup = setup

    def both(self, name: str) -> list[str]:
        """A program, and the function that does the same. Python cannot be reached by users of
        jobs on every computer, so there are none for these."""
        return [name] if self.setup.users else [name, f"call-{name}"]

    def run(self, name: str, *args: str) -> tuple[str, str, str]:
        """How a job ended, what it wrote, and what it complained of."""
        result = self.client.submit(name, *args).result(DEADLINE_S)
        return result.ending, result.stdout, result.stderr


@pytest.fixture(scope="module", params=list(WAYS.values()), ids=list(WAYS))
def sandboxed(request: pytest.FixtureRequest) -> Iterator[Sandboxed]:
    setup: SandboxSetup = request.param
    if setup.users is not None and os.geteuid() != 0:
        pytest.skip("only root can start jobs as other users")
    # Users of jobs must be able to pass, which the directories of pytest do not allow.
    directory = Path(tempfile.mkdtemp(prefix="rollq-sandbox-"))
    directory.chmod(0o755)
    for name, text in PROGRAMS.items():
        write_program(directory, name, text + "\n")
    vault = directory / "vault"
    vault.mkdir()
    for name in ("given", "other"):
        (vault / name).write_text(f"{SECRET}, {name}")
        (vault / name).chmod(0o600)
    apps = () if setup.users is not None else APPS
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WORKER_SECRET", SECRET)
            if not apps:  # others have registered functions in this process
                patch.setattr(app, "TASKS", {})
            grid = SmallGrid(directory, *apps, sandbox=setup, vault=vault)
            with grid, BlockingClient(grid.address) as client:
                yield Sandboxed(directory, grid.address, client, setup)
        for name in os.listdir(directory / "jobs"):  # a worker's, by its id
            assert not list(Path("/sys/fs/cgroup").glob(f"**/rollq-{name}"))
    finally:
        shutil.rmtree(directory)


def test_the_worker_tells_its_layers(sandboxed: Sandboxed) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not (told := [one for one in sandboxed.client.admin.workers() if one.layers]):
        assert time.monotonic() < deadline_s, "the worker did not tell its layers"
        time.sleep(0.01)
    (worker,) = told
    assert {"environment", "no-new-privs", "rlimits", "net-ns", "disk"} <= set(worker.layers)
    assert ("cgroup" in worker.layers) <= sandboxed.setup.cgroups
    assert (Layer.USER in worker.layers) == (sandboxed.setup.users is not None)


def test_a_job_works_in_its_layers(sandboxed: Sandboxed) -> None:
    job = sandboxed.client.submit("work", files={"in/a": b"input\n"})
    result = job.result(DEADLINE_S).raise_for_status()
    assert result.stdout.startswith("input\n")
    assert result.files["out"] == b"new\n"
    assert result.files["in/a"] == b"input\ny\n"
    assert "link" not in result.files


def test_what_a_job_leaves_is_cleared_away(sandboxed: Sandboxed) -> None:
    """Whosever it is, and whatever it leads to."""
    job = sandboxed.client.submit("work", files={"in/a": b"input\n"})
    where = Path(job.result(DEADLINE_S).stdout.splitlines()[-1])
    assert where.is_relative_to((sandboxed.directory / "jobs").resolve())
    deadline_s = time.monotonic() + DEADLINE_S
    while os.path.lexists(where / "link") or os.path.lexists(where / "deep"):
        assert time.monotonic() < deadline_s, "the directory was not cleared"
        time.sleep(0.01)
    assert Path("/etc/passwd").exists()


def test_a_job_gains_no_rights(sandboxed: Sandboxed) -> None:
    _, stdout, _ = sandboxed.run("who")
    user, groups, new_privs, core = stdout.splitlines()
    assert new_privs.split() == ["NoNewPrivs:", "1"]
    assert core == "0"
    if sandboxed.setup.users is not None:
        assert 70_000 <= int(user) <= 70_007
        assert groups == user


def test_the_environment_of_the_worker_is_not_read(sandboxed: Sandboxed) -> None:
    for name in sandboxed.both("read"):
        ending, stdout, stderr = sandboxed.run(name, f"/proc/{os.getpid()}/environ")
        assert ending.startswith("failed"), name
        assert SECRET not in stdout + stderr


def test_the_state_directory_is_not_read(sandboxed: Sandboxed) -> None:
    state = sandboxed.directory / "worker" / "secret"
    state.write_text(SECRET)
    for name in sandboxed.both("read"):
        ending, stdout, stderr = sandboxed.run(name, str(state))
        assert ending.startswith("failed"), name
        assert SECRET not in stdout
        assert "No such file" in stderr or "Permission denied" in stderr


def test_secrets_are_given_and_no_others_are_read(sandboxed: Sandboxed) -> None:
    job = sandboxed.client.submit("key", secrets={"KEY": "file:given"})
    assert job.result(DEADLINE_S).raise_for_status().stdout.split() == ["600", "26"]
    for name in sandboxed.both("read"):
        ending, stdout, _ = sandboxed.run(name, str(sandboxed.directory / "vault" / "other"))
        assert ending.startswith("failed"), name
        assert SECRET not in stdout


def test_a_job_has_no_terminal(sandboxed: Sandboxed) -> None:
    ending, _, _ = sandboxed.run("terminal")
    assert ending.startswith("failed")


def test_the_directory_of_another_job_is_not_read(sandboxed: Sandboxed) -> None:
    held = sandboxed.client.submit("hold")
    deadline_s = time.monotonic() + DEADLINE_S
    while not (found := list((sandboxed.directory / "jobs").glob("*/*/mine"))):
        assert time.monotonic() < deadline_s, "the other job did not begin"
        time.sleep(0.01)
    for name in sandboxed.both("read"):
        ending, stdout, _ = sandboxed.run(name, str(found[0]))
        assert ending.startswith("failed"), name
        assert "hidden" not in stdout
    held.cancel()
    assert held.result(DEADLINE_S).state == "cancelled"


def test_the_network_is_not_reached(sandboxed: Sandboxed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name in sandboxed.both("dial"):
            ending, stdout, _ = sandboxed.run(name, str(server.getsockname()[1]))
            assert ending.startswith("failed"), name
            assert "connected" not in stdout


def test_ten_thousand_children_are_refused(sandboxed: Sandboxed) -> None:
    for name in sandboxed.both("fork"):
        ending, _, _ = sandboxed.run(name, "10000")
        assert "limit of 40 processes" in ending, name


def test_memory_is_bounded(sandboxed: Sandboxed) -> None:
    for name in sandboxed.both("eat"):
        ending, _, _ = sandboxed.run(name, "4096")
        assert "memory limit of 96 MiB" in ending, name


def test_one_large_file_is_refused(sandboxed: Sandboxed) -> None:
    ending, _, _ = sandboxed.run("one-large-file")
    assert "killed, disk limit of 24 MiB exceeded" in ending


def test_many_files_are_bounded(sandboxed: Sandboxed) -> None:
    for name in sandboxed.both("fill"):
        ending, _, _ = sandboxed.run(name, "200")
        assert "killed, disk limit of 24 MiB exceeded" in ending, name


def test_the_cause_is_explained(sandboxed: Sandboxed) -> None:
    job = sandboxed.client.submit("fill", "200")
    job.result(DEADLINE_S)
    why = str(sandboxed.client.explain(job.id))
    assert "killed, disk limit of 24 MiB exceeded" in why


def test_layers_are_shown(sandboxed: Sandboxed) -> None:
    servers = ["--servers", sandboxed.address]
    shown = CliRunner().invoke(cli, ["status", "--workers", *servers])
    assert "layers of " in shown.stdout
    assert "net-ns" in shown.stdout
    shown = CliRunner().invoke(cli, ["doctor", *servers])
    assert "run in the layers" in shown.stdout


def test_the_cause_is_in_the_history(sandboxed: Sandboxed) -> None:
    job = sandboxed.client.submit("one-large-file")
    job.result(DEADLINE_S)
    with Reader(sandboxed.address) as reader:
        (row,) = reader.results([job.id])
    assert "killed, disk limit of 24 MiB exceeded" in (row.note or "")
