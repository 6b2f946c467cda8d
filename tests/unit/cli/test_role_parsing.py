"""What `rollq leader` and `rollq worker` take and refuse, without a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.cli import leader, worker
from rollq.cli.main import app
from rollq.cli.places import LEGACY_EXEC_DIR
from rollq.roles.worker.setup import NodeSetup

pytestmark = pytest.mark.usefixtures("no_config")
runner = CliRunner()


def test_a_worker_that_could_run_nothing_names_the_directories_that_it_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["worker", "127.0.0.1", "5000", "job.assign.*"])
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert f"neither {LEGACY_EXEC_DIR} nor ./exec is a directory" in told
    assert "--allow-shipped-execs" in told


def test_the_legacy_variables_reach_a_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[NodeSetup] = []

    async def serve(setup: NodeSetup, **_: Any) -> None:
        seen.append(setup)

    monkeypatch.setattr(worker, "_serve", serve)
    monkeypatch.setenv("WORKER_MAX_PAR", "7")
    monkeypatch.setenv("WORKER_CPU_CAP", "0.5")
    (tmp_path / "exec").mkdir()
    plain = ["worker", "127.0.0.1", "5000", "a.*,b.*", "-s", "127.0.0.1:5001,127.0.0.1:5000"]
    assert runner.invoke(app, plain).exit_code == 0
    assert runner.invoke(app, [*plain, "--slots", "2", "--name", "w"]).exit_code == 0
    first, second = seen
    assert (first.slots, first.cpu_cap, second.slots) == (7, 0.5, 2)
    assert first.patterns == ("a.*", "b.*")
    assert first.addresses == ("127.0.0.1:5000", "127.0.0.1:5001")
    assert first.exec_dir == tmp_path / "exec"
    assert (first.state_dir.name, second.state_dir.name) == ("worker", "worker-w")


def test_a_new_group_is_not_named_with_a_space(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.touch()
    words = ["restore", str(backup), "--state", str(tmp_path / "state"), "--group", "a b"]
    for command in (words, ["init", str(tmp_path / "cluster"), "--cluster", "a b"]):
        result = runner.invoke(app, command)
        assert (result.exit_code, "cannot be the name of a" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == [backup]


def test_a_worker_goes_where_the_command_line_says_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[str, ...]] = []

    async def serve(setup: NodeSetup, **_: Any) -> None:
        seen.append(setup.addresses)

    monkeypatch.setattr(worker, "_serve", serve)
    monkeypatch.setenv("ROLLQ_SERVERS", "127.0.0.1:1")
    config = tmp_path / "rollq.toml"
    config.write_text('servers = "127.0.0.1:2"\n[worker]\nhost = "127.0.0.1"\nport = 3')
    base = ["--config", str(config), "worker"]
    programs = ["--exec-dir", str(tmp_path)]
    for words in [["127.0.0.1", "4"], ["127.0.0.1", "4", "-s", "h:5"], ["-s", "h:5"], []]:
        assert runner.invoke(app, [*base, *words, *programs]).exit_code == 0
    assert seen == [
        ("127.0.0.1:4",),
        ("127.0.0.1:4", "h:5"),
        ("h:5",),
        ("127.0.0.1:3", "127.0.0.1:2"),
    ]


def test_a_worker_is_given_addresses_that_can_be_dialed(tmp_path: Path) -> None:
    place = ["h", "5000", "-s", "h:0"]
    result = runner.invoke(app, ["worker", *place, "--exec-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "not host:port: 'h:0'" in result.stderr
    assert "a port from 1 to 65535" in result.stderr


@pytest.mark.parametrize("host", ["", "http://h", "h:5000", "a b"])
def test_a_host_that_cannot_be_dialed_is_named_as_it_was_typed(host: str, tmp_path: Path) -> None:
    for words in (
        ["worker", host, "5000", "--exec-dir", str(tmp_path)],
        ["client", host, "1", "c"],
    ):
        result = runner.invoke(app, words)
        assert result.exit_code == 2
        assert f"rollq: not a host: {host!r} [bad_address]" in result.stderr
        assert "write its name or IP address alone, as in 127.0.0.1" in result.stderr


def test_a_member_knows_how_others_reach_it() -> None:
    address = leader._address
    assert address("127.0.0.1", 5, "", has_peers=True) == "127.0.0.1:5"
    assert address("::1", 5, "", has_peers=True) == "[::1]:5"
    assert address("0.0.0.0", 5, "here", has_peers=True) == "here:5"
    assert address("0.0.0.0", 5, "here:9", has_peers=True) == "here:9"
    assert address("0.0.0.0", 5, "", has_peers=False) == "127.0.0.1:5"
