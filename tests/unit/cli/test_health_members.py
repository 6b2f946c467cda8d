from __future__ import annotations

import asyncio

import pytest

from rollq.cli import health
from rollq.cli.health import member_findings
from rollq.roles.member.status import ClusterView, MemberView

UP = "127.0.0.1:5000"
DOWN = "127.0.0.1:6000"
STOPPED = "127.0.0.1:7000"


def told(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[tuple[str, str]]:
    """What is said of members at these addresses, of which one does not answer."""

    async def trouble(address: str) -> str:
        return {UP: "", STOPPED: health.SILENT, DOWN: f"nothing listens at {DOWN}"}[address]

    monkeypatch.setattr(health, "_trouble", trouble)
    members = [
        MemberView(number, address, "leader", 1, 0, True, "replicate")
        for number, address in enumerate(addresses)
    ]
    view = ClusterView(0, addresses[0], 1, 1, 1, 1, b"", members)
    return [(found.what, found.todo) for found in asyncio.run(member_findings(view))]


def test_a_member_that_is_down_is_named_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, UP, DOWN) == [
        (
            f"member {DOWN} is down: nothing listens at {DOWN}",
            f"start it again, or remove it: rollq cluster remove {DOWN}",
        ),
        ("2 voters tolerate no more failures than 1 would", "add one, or remove one"),
    ]


def test_a_member_that_is_stopped_is_not_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = told(monkeypatch, UP, STOPPED)
    assert first == (f"member {STOPPED} {health.SILENT}", health.WAKE)


def test_members_behind_a_router_are_asked_and_not_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told(monkeypatch, f"g1/{UP}", f"g2/{UP}") == []
    (found,) = told(monkeypatch, f"g1/{UP}", f"g2/{DOWN}")
    assert found == (
        f"member g2/{DOWN} is down: nothing listens at {DOWN}",
        f"start it again, or remove it: rollq cluster remove {DOWN}",
    )
