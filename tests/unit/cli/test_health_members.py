from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from rollq.cli import health
from rollq.cli.health import member_findings
from rollq.grid.views import RawWorkerView
from rollq.net import dialer
from rollq.roles.member.status import ClusterView, MemberView
from rollq.security.identity import CertificateRole
from tests.unit.security.kit import Cluster

UP = "127.0.0.1:5000"
DOWN = "127.0.0.1:6000"
STOPPED = "127.0.0.1:7000"


def told(
    monkeypatch: pytest.MonkeyPatch, *addresses: str, active: bool = True
) -> list[tuple[str, str]]:
    """What is said of members at these addresses, of which one does not answer."""

    async def trouble(address: str) -> str:
        return {UP: "", STOPPED: health.SILENT, DOWN: f"nothing listens at {DOWN}"}[address]

    monkeypatch.setattr(health, "_trouble", trouble)
    members = [
        MemberView(number, address, "leader", 1, 0, active, "replicate")
        for number, address in enumerate(addresses)
    ]
    view = ClusterView(0, addresses[0], 1, 1, 1, 1, b"", members)
    return [(found.what, found.todo) for found in asyncio.run(member_findings(view))]


def test_a_member_that_is_down_is_named_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, UP, DOWN) == [
        (
            f"member {DOWN} is down: nothing listens at {DOWN}",
            "start it, or mend the network to it; if it is gone for good: "
            f"rollq cluster remove {DOWN}",
        ),
        ("2 voters tolerate no more failures than 1 would", "add one, or remove one"),
    ]


def test_a_member_that_is_stopped_is_not_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = told(monkeypatch, UP, STOPPED)
    assert first == (f"member {STOPPED} {health.SILENT}", health.WAKE)


def test_a_member_that_answers_here_and_not_the_leader_is_not_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *_ = told(monkeypatch, UP, UP, active=False)
    assert first == (f"member {UP} runs, but does not answer the leader", health.APART)


def test_a_process_that_accepts_and_speaks_no_tls_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system accepts connections for it, so a login over TLS is waited for in vain."""
    monkeypatch.setattr(dialer, "TLS_MS_MAX", 50)
    credentials = Cluster(tmp_path).credentials(CertificateRole.CLIENT)
    monkeypatch.setattr(health, "given_credentials", lambda: credentials)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        address = f"127.0.0.1:{stopped.getsockname()[1]}"
        assert asyncio.run(health._trouble(address)) == health.SILENT


def test_workers_that_are_away_are_told_with_their_jobs() -> None:
    here = RawWorkerView(b"a" * 16, 1, "a", (), 1, (), connected=True)
    away = RawWorkerView(b"b" * 16, 1, "b", (), 1, (b"j" * 16,), connected=False)
    (found,) = health.away_findings([here, away])
    assert found.what == "not connected: worker b, with 1 job"
    assert health.away_findings([here]) == []


def test_members_behind_a_router_are_asked_and_not_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told(monkeypatch, f"g1/{UP}", f"g2/{UP}") == []
    (found,) = told(monkeypatch, f"g1/{UP}", f"g2/{DOWN}")
    assert found == (
        f"member g2/{DOWN} is down: nothing listens at {DOWN}",
        f"start it, or mend the network to it; if it is gone for good: rollq cluster remove {DOWN}",
    )
