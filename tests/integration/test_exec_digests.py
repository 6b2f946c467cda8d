"""A worker that runs only what is listed, in a real grid."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient, ErrorCode, JobView, LocalError
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.cli.main import app
from rollq.roles.worker.setup import NodeSetup
from rollq.security.exec_digests import digest_line, sign_list
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs, two of them listed by the command, and a signature."""
    folder = tmp_path_factory.mktemp("digests")
    write_program(folder, "good", 'echo "good $1"')
    write_program(folder, "changed.sh", "echo before")
    write_program(folder, "unlisted", "echo evil")
    write_program(folder, "shipped", 'echo "shipped $LD_PRELOAD"')
    names = [str(folder / "exec" / name) for name in ("good", "changed.sh", "shipped")]
    made = CliRunner().invoke(app, ["exec", "digest", *names])
    (folder / "list").write_text(made.stdout)
    (folder / "exec" / "shipped").rename(folder / "shipped")
    assert CliRunner().invoke(app, ["exec", "key", str(folder / "key")]).exit_code == 0
    signed = CliRunner().invoke(
        app, ["exec", "sign", str(folder / "list"), "--key", str(folder / "key")]
    )
    assert signed.exit_code == 0
    return folder


@pytest.fixture(scope="module")
def grid(folder: Path) -> Iterator[SmallGrid]:
    with SmallGrid(
        folder,
        slots=1,
        allow_shipped_execs=True,
        exec_digests=folder / "list",
        exec_digests_key=folder / "key.pub",
    ) as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def refusal(client: BlockingClient, job_id: bytes) -> str:
    """Why an attempt was given back."""

    def tried() -> JobView | None:
        view = client.status(job_id)
        return view if view is not None and view.attempts else None

    view = until(tried)
    assert view.state != "dead"
    assert client.cancel(job_id) == 1
    return view.attempts[0].detail


def test_what_is_listed_runs(client: BlockingClient) -> None:
    assert client.submit("good", ["day"]).result(DEADLINE_S).stdout == "good day\n"
    assert client.submit("good", ["again"]).result(DEADLINE_S).stdout == "good again\n"


def test_a_worker_does_not_offer_what_is_not_listed(client: BlockingClient) -> None:
    waiting = client.submit("unlisted")
    assert client.submit("good", ["x"]).result(DEADLINE_S).ok
    assert "no connected worker has program or function unlisted" in str(
        client.explain(waiting.job_id)
    )
    assert client.cancel(waiting.job_id) == 1


def test_a_file_that_changes_runs_no_more(client: BlockingClient, folder: Path) -> None:
    assert client.submit("changed").result(DEADLINE_S).stdout == "before\n"
    write_program(folder, "changed.sh", "echo after")
    told = refusal(client, client.submit("changed", max_attempts=1).job_id)
    assert "'changed' may not run on this worker" in told
    assert "sha256:" in told


def test_a_shipped_program_must_be_listed(client: BlockingClient, folder: Path) -> None:
    listed = client.submit("shipped", files={"shipped": folder / "shipped"})
    assert listed.result(DEADLINE_S).stdout == "shipped \n"
    evil = folder / "evil"
    evil.write_text("#!/bin/sh\necho evil\n")
    evil.chmod(0o755)
    handle = client.submit("shipped", files={"shipped": evil})
    assert "another digest" in refusal(client, handle.job_id)


def test_a_large_shipped_program_is_checked_as_any_other(
    client: BlockingClient, folder: Path
) -> None:
    """It comes as a blob, which is put into the directory of the job or run where it is kept."""
    padding = "#" * INLINE_BYTES_MAX
    large = folder / "large"
    large.write_text(f"#!/bin/sh\necho large\n{padding}\n")
    large.chmod(0o755)
    handle = client.submit("large", files={"large": large})
    assert "no digest is listed" in refusal(client, handle.job_id)
    with open(folder / "list", "a") as file:
        file.write(digest_line(large, "large") + "\n")
    sign_list(folder / "list", folder / "key")
    handle = client.submit("large", files={"large": large})
    assert handle.result(DEADLINE_S).stdout == "large\n"
    large.write_text(f"#!/bin/sh\necho worse\n{padding}\n")
    handle = client.submit("large", files={"large": large})
    assert "another digest" in refusal(client, handle.job_id)


def test_a_job_loads_nothing_into_what_is_listed(client: BlockingClient) -> None:
    """Also where shipped programs are allowed, whose jobs may set what they like elsewhere."""
    result = client.submit("good", env={"LD_PRELOAD": "./mine.so"}).result(DEADLINE_S)
    assert not result.ok
    assert "LD_PRELOAD" in result.stderr


def test_what_cannot_hold_is_refused_at_the_start(folder: Path) -> None:
    setup = {"addresses": ("127.0.0.1:1",), "exec_dir": folder / "exec"}
    for more in (
        {"exec_digests_key": folder / "key.pub"},
        {"exec_digests": folder / "list", "own_execs": True},
    ):
        with pytest.raises(LocalError) as caught:
            NodeSetup(**setup, **more).check()  # type: ignore[arg-type]
        assert caught.value.code is ErrorCode.BAD_SETUP


def test_names_that_no_job_can_call_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("x")
    runner = CliRunner()
    assert runner.invoke(app, ["exec", "digest", str(tmp_path / "a b")]).exit_code == 2
    named = runner.invoke(app, ["exec", "digest", "--name", "ab", str(tmp_path / "a b")])
    assert named.stdout.startswith("ab sha256:")
    assert runner.invoke(app, ["exec", "digest", os.devnull + "x"]).exit_code == 2
