"""Options of the sandbox, and what `doctor` says of layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.cli import logs, worker
from rollq.cli.health import layer_findings
from rollq.cli.main import app
from rollq.grid.views import RawWorkerView
from rollq.roles.worker.sandbox.layers import SandboxLevel, SandboxSetup
from rollq.roles.worker.setup import NodeSetup


def asked(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str) -> SandboxSetup:
    """What a worker with these options would be told."""
    seen: list[NodeSetup] = []

    async def serve(setup: NodeSetup, **_: Any) -> None:
        seen.append(setup)

    monkeypatch.chdir(folder)
    monkeypatch.setattr(worker, "_serve", serve)
    monkeypatch.setattr(logs, "set_up_logs", lambda *_, **_more: None)  # it would stay
    line = ["worker", "127.0.0.1", "5000", "--allow-shipped-execs", *options]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    return seen[0].sandbox


def test_nothing_is_asked_for_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert asked(monkeypatch, tmp_path) == SandboxSetup()


def test_every_option_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = (
        "--sandbox strict --require-layers landlock,net-ns --require-layers disk --memory 2G "
        "--pids 200 --cpus 1.5 --cpu-time 60 --open-files 256 --disk 10G --no-network "
        "--job-users 70000-70007 --no-cgroups --allow-read a --allow-read b --allow-write c"
    )
    assert asked(monkeypatch, tmp_path, *line.split()) == SandboxSetup(
        SandboxLevel.STRICT,
        ("landlock", "net-ns", "disk"),
        memory_bytes=2 * 1024**3,
        pids_max=200,
        cpus=1.5,
        cpu_s=60,
        open_files=256,
        disk_bytes=10 * 1024**3,
        network=False,
        users=(70_000, 70_007),
        cgroups=False,
        readable=(tmp_path / "a", tmp_path / "b"),
        writable=(tmp_path / "c",),
    )


def test_no_range_of_users_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["worker", "127.0.0.1", "5000", "--allow-shipped-execs", "--job-users", "nobody"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 2
    assert "--job-users 'nobody' is not a range of user ids" in result.stderr


def test_workers_with_the_same_layers_share_a_line() -> None:
    def view(name: str, *layers: str) -> RawWorkerView:
        return RawWorkerView(bytes(16), 1, name, (">",), 4, (), layers=layers)

    workers = [view("a", "rlimits"), view("b", "rlimits", "landlock"), view("c", "rlimits")]
    told = [found.what for found in layer_findings([*workers, view("old")])]
    assert told == [
        "jobs on a, c run in the layers rlimits",
        "jobs on b run in the layers rlimits, landlock",
    ]
