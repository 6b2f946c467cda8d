"""`rollq init`: a directory with everything for a cluster, which can be taken apart and moved."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rollq.cli import leader, logs
from rollq.cli.main import app
from rollq.roles.member.setup import MemberSetup
from rollq.security.authority import read_pem
from rollq.security.certificates import facts_of
from rollq.security.files import load_credentials
from tests.unit.security.handshakes import shake


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def init(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["init", "grid", *words])
    assert result.exit_code == code, result.output
    return result


def config(name: str) -> dict[str, Any]:
    return tomllib.loads(Path("grid", name, "rollq.toml").read_text())


def test_every_process_has_a_directory_with_all_that_it_needs() -> None:
    init("--cluster", "render")
    holders = {
        "member-1": "member",
        "member-2": "member",
        "member-3": "member",
        "worker-1": "worker",
        "client": "client",
        "admin": "admin",
    }
    assert {*os.listdir("grid")} == {*holders, "ca", "exec", "systemd"}
    keys = set()
    for name, role in holders.items():
        directory = Path("grid", name)
        assert directory.stat().st_mode & 0o777 == 0o700
        credentials = load_credentials(directory)
        assert credentials.certificate is not None
        identity = facts_of(read_pem(directory / "cert.pem")).identity
        assert identity is not None
        assert identity.uri == f"rollq://render/{role}/{name}"
        assert (credentials.cluster_key is not None) == (role == "member")
        if credentials.cluster_key is not None:
            keys.add(credentials.cluster_key.reveal())
        shake(server=Path("grid/member-1"), client=directory)
    assert len(keys) == 1, "members share one key"


def test_members_of_one_machine_have_ports_of_their_own() -> None:
    init("--port", "6000", "--members", "2")
    assert config("member-2")["leader"] == {
        "credentials": ".",
        "group": "rollq",
        "port": 6001,
        "host": "127.0.0.1",
        "peers": ["127.0.0.1:6000"],
    }
    assert config("client") == {
        "credentials": ".",
        "servers": ["127.0.0.1:6000", "127.0.0.1:6001"],
    }


def test_members_of_other_machines_listen_for_all_and_say_where_they_are() -> None:
    init("--hosts", "10.0.0.1,h2:6000,[fd00::1]")
    told = [config(f"member-{number}")["leader"] for number in (1, 2, 3)]
    assert [(one["host"], one["advertise"], one["port"]) for one in told] == [
        ("0.0.0.0", "10.0.0.1:5000", 5000),
        ("0.0.0.0", "h2:6000", 6000),
        ("::", "[fd00::1]:5000", 5000),
    ]
    assert told[0]["peers"] == ["h2:6000", "[fd00::1]:5000"]
    worker = config("worker-1")["worker"]
    assert (worker["host"], worker["port"]) == ("10.0.0.1", 5000)
    assert worker["servers"] == ["h2:6000", "[fd00::1]:5000"]


def test_a_configuration_is_taken_wherever_its_directory_is_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[MemberSetup] = []

    async def serve(setup: MemberSetup, *_: Any, **_more: Any) -> None:
        seen.append(setup)

    monkeypatch.setattr(leader, "_serve", serve)
    monkeypatch.setattr(logs, "set_up_logs", lambda *_, **_more: None)
    init("--hosts", "10.0.0.1,10.0.0.2,10.0.0.3")
    Path("etc").mkdir()
    Path("grid/member-2").rename("etc/rollq")
    words = ["--config", "etc/rollq/rollq.toml", "leader"]
    ended = CliRunner().invoke(app, words, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    (setup,) = seen
    assert (setup.address, setup.group) == ("10.0.0.2:5000", "rollq")
    assert setup.peers == ("10.0.0.1:5000", "10.0.0.3:5000")
    assert (setup.tls, setup.auth) == ("require", "require")
    assert setup.credentials.certificate == tuple(
        str(Path("etc/rollq", name).absolute()) for name in ("cert.pem", "key.pem")
    )


def test_the_commands_name_every_process_and_a_first_job() -> None:
    told = init("--workers", "2").stdout
    for name in ("member-1", "member-2", "member-3"):
        assert f"  rollq --config grid/{name}/rollq.toml leader\n" in told
    for name in ("worker-1", "worker-2"):
        assert f"  rollq --config grid/{name}/rollq.toml worker --exec-dir grid/exec\n" in told
    assert "  rollq --config grid/client/rollq.toml submit hello world --wait\n" in told
    assert "  rollq --config grid/admin/rollq.toml status\n" in told
    assert "rollq" in told


def test_json_has_the_same_commands() -> None:
    document = json.loads(init("--members", "1", "--json").stdout)
    assert document["members"] == ["127.0.0.1:5000"]
    assert [one["name"] for one in document["commands"]] == [
        *("member-1", "worker-1", "client", "admin")
    ]
    assert document["commands"][0]["words"] == [
        *("rollq", "--config", "grid/member-1/rollq.toml", "leader")
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--hosts", "a,a"),
        ("--hosts", "a:1,b:x"),
        ("--hosts", "a b"),
        ("--hosts", "a:" + "9" * 5_000),
        ("--hosts", "fd00::1"),
        ("--hosts", ",".join(f"h{number}" for number in range(10))),
        ("--members", "0"),
        ("--days", "0"),
    ],
)
def test_what_cannot_be_makes_nothing(words: tuple[str, ...]) -> None:
    init(*words, code=2)
    assert not Path("grid").exists()


def test_a_name_that_cannot_be_makes_nothing() -> None:
    init("--cluster", "a/b", code=2)
    assert not Path("grid").exists()


def test_a_directory_that_is_used_is_left_alone() -> None:
    init()
    key = Path("grid/ca/ca.key").read_bytes()
    init(code=2)
    assert Path("grid/ca/ca.key").read_bytes() == key
