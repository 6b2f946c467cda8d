"""What a member is told by `rollq leader`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rollq.cli import leader, logs
from rollq.cli.failures import EXIT_USAGE
from rollq.cli.main import app
from rollq.history.retention import DAY_MS, Retention
from rollq.roles.member.setup import MemberSetup
from rollq.security.authority import Authority
from rollq.security.identity import CertificateRole


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[MemberSetup]:
    """Setups of members that would run."""
    setups: list[MemberSetup] = []

    async def serve(setup: MemberSetup, *_: Any, **_more: Any) -> None:
        setups.append(setup)

    monkeypatch.setattr(leader, "_serve", serve)
    monkeypatch.setattr(logs, "set_up_logs", lambda *_, **_more: None)  # it would stay
    return setups


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["leader", "5000", *words], catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ((), Retention(10_000_000_000, 90 * DAY_MS)),
        (("--history-mb", "0", "--history-days", "0"), Retention()),
        (("--history-days", "7"), Retention(10_000_000_000, 7 * DAY_MS)),
    ],
)
def test_history_is_bounded_unless_it_is_told_otherwise(
    words: tuple[str, ...], kept: Retention, seen: list[MemberSetup]
) -> None:
    run(*words)
    assert [setup.retention for setup in seen] == [kept]


@pytest.mark.parametrize("name", ["a b", "a/b", ".a", "", "größe", "a" * 65])
def test_a_group_is_not_born_with_a_name_that_fits_nowhere(
    name: str, seen: list[MemberSetup], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ("--group", name, "--state", str(tmp_path / "state"))
    refused = run(*words)
    assert refused.exit_code == EXIT_USAGE
    assert "cannot be the name of a group" in refused.stderr
    assert (seen, caplog.messages) == ([], [])
    assert run(*words, "--peers", "127.0.0.1:5001").exit_code == 0  # they may have it already
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "LOCK").touch()
    assert run(*words).exit_code == 0  # one of an earlier version
    assert [setup.group for setup in seen] == [name, name]
    assert ["cannot be the name of a group" in one for one in caplog.messages] == [True, True]


@pytest.fixture
def credentials(tmp_path: Path) -> str:
    now = datetime.now(UTC)
    authority = Authority.make(tmp_path / "ca", "c", now)
    authority.issue(tmp_path / "m", CertificateRole.MEMBER, "m", now)
    return str(tmp_path / "m")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
@pytest.mark.parametrize(
    ("modes", "lacking"),
    [
        ((), ("--tls", "--auth")),
        (("--tls", "require", "--auth", "allow"), ("--auth",)),
        (("--tls", "allow", "--auth", "require"), ("--tls",)),
        (("--tls", "off"), ("--tls", "--auth")),
    ],
)
def test_other_machines_are_not_served_unprotected(
    host: str,
    modes: tuple[str, ...],
    lacking: tuple[str, ...],
    credentials: str,
    seen: list[MemberSetup],
) -> None:
    words = ["--host", host, *modes, *(["--credentials", credentials] if modes else [])]
    refused = run(*words)
    assert refused.exit_code == 2
    assert "[unprotected]" in refused.stderr
    assert "--unsafe-no-auth" in refused.stderr
    named = {option for option in ("--tls", "--auth") if f"{option} require" in refused.stderr}
    assert named == set(lacking)
    assert seen == []
    assert run(*words, "--unsafe-no-auth").exit_code == 0
    assert [setup.is_unprotected for setup in seen] == [True]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_this_machine_alone_is_served_with_nothing_to_set_up(
    host: str, seen: list[MemberSetup]
) -> None:
    run("--host", host)
    run("--host", host, "--unsafe-no-auth")
    assert [setup.is_unprotected for setup in seen] == [False, False]


def test_a_member_with_a_certificate_is_protected_by_default(
    credentials: str, seen: list[MemberSetup]
) -> None:
    assert run("--host", "0.0.0.0", "--credentials", credentials).exit_code == 0
    (setup,) = seen
    assert (setup.tls, setup.auth, setup.is_unprotected) == ("require", "require", False)


def test_members_elect_after_250_to_500_ms_without_a_heartbeat_of_every_100_ms(
    seen: list[MemberSetup], tmp_path: Path
) -> None:
    assert run("--peers", "127.0.0.1:5001", "--state", str(tmp_path)).exit_code == 0
    (setup,) = seen
    raft = setup.raft
    ticks = (raft.election_ticks_min, raft.election_ticks_max, raft.heartbeat_ticks)
    assert [one * setup.tick_ms for one in ticks] == [250, 500, 100]
