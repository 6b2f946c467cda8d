"""`rollq clientx` over three groups, each a member and a worker."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq.cli.main import app
from rollq.net.ports import free_ports
from rollq.roles.client.several_groups import machine as multi_machine
from tests.integration.small_grid import SmallGrid

JOBS = 60


def groups(stack: ExitStack, tmp_path: Path, count: int) -> list[str]:
    """The addresses of that many groups, whose programs say w0, w1…"""
    addresses = []
    for number in range(count):
        folder = tmp_path / f"g{number}"
        grid = stack.enter_context(SmallGrid(folder))
        program = folder / "exec" / "calcA"
        program.write_text(f"#!/bin/sh\necho got $1 w{number}\n")
        program.chmod(0o755)
        addresses.append(grid.address)
    return addresses


def spread(addresses: list[str], *options: str) -> Counter[str]:
    """How many jobs each group ran for the command."""
    arguments = ["clientx", "clientA", *addresses, "12", "--count", str(JOBS), "--json", *options]
    result = CliRunner().invoke(app, arguments, env={"ROLLQ_TIMEOUT": "60"})
    assert result.exit_code == 0, result.output
    *ends, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(last["groups"].values()) == JOBS
    assert sorted(int(end["stdout"].split()[1]) for end in ends) == list(range(1, JOBS + 1))
    return Counter(end["stdout"].split()[2] for end in ends)


@pytest.mark.parametrize("policy", ["round-robin", "least-inflight"])
def test_every_group_gets_work(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_machine, "MULTI_GATHER_MS", 60_000)  # on a busy machine too
    with ExitStack() as stack:
        found = spread(groups(stack, tmp_path, 3), "--policy", policy)
    assert found.keys() == {"w0", "w1", "w2"}
    if policy == "round-robin":
        assert found == {"w0": 20, "w1": 20, "w2": 20}


def test_a_group_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with ExitStack() as stack:
        there = groups(stack, tmp_path, 2)
        found = spread([f"127.0.0.1:{free_ports(1)[0]}", *there])
    assert found.total() == JOBS


def test_routes_and_weights_are_kept_to_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_machine, "MULTI_GATHER_MS", 60_000)  # on a busy machine too
    with ExitStack() as stack:
        addresses = groups(stack, tmp_path, 3)
        named = [f"g{n}={address}" for n, address in enumerate(addresses)]
        found = spread(named, "--weight", "g0=2")
        routed = spread(named, "--route", "calca=g1:2,g2:1", "--weight", "g0=2")
    assert found == {"w0": 30, "w1": 15, "w2": 15}
    assert routed == {"w1": 40, "w2": 20}
