"""The disk of every member, wherever it is asked for: real processes on a real disk."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq.web.setup import WebSetup
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import Members, until
from tests.integration.talk import accepted, find_leader, hang_up_all
from tests.integration.web_grid import client_of, in_loop, serving

LARGE = b"x" * 200_000  # kept as a blob, by a majority at least


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def rollq(servers: str, *words: str) -> str:
    command = [sys.executable, "-m", "rollq", *words, "--servers", servers]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def disks(servers: str) -> dict[str, dict[str, int] | None]:
    """Of each member, as `rollq status` has them."""
    document = json.loads(rollq(servers, "status", "--json"))
    return {one["address"]: one["disk"] for one in document["cluster"]["members"]}


@in_loop
async def test_each_member_shows_its_figures_wherever_one_asks(tmp_path: Path) -> None:
    total = shutil.disk_usage(tmp_path).total
    with Members(tmp_path, 3, snapshot_entries=5) as members:
        leader, talker = find_leader(members.addresses)
        for number in range(1, 20):
            assert accepted(talker, [number])
        assert accepted(talker, [20], LARGE)
        follower = next(one for one in members.addresses if one != leader)

        def whole() -> dict[str, dict[str, Any]] | None:
            """Once all members have measured what was written."""
            found = {address: disk for address, disk in disks(follower).items() if disk}
            parts = ("log_bytes", "snapshot_bytes", "history_bytes")
            counted = [all(disk[part] for part in parts) for disk in found.values()]
            stored = sum(disk["blob_bytes"] >= len(LARGE) for disk in found.values())
            return found if sum(counted) == 3 and stored >= 2 else None

        found = until(whole)
        assert found.keys() == set(members.addresses)
        for disk in found.values():
            assert disk["total_bytes"] == total
            assert 0 < disk["free_bytes"] < total
            parts = [disk[f"{name}_bytes"] for name in ("log", "snapshot", "history", "blob")]
            assert disk["used_bytes"] == sum(parts) + disk["other_bytes"]
        free = re.compile(r"of \d[\d.]* \w+$", re.MULTILINE)
        until(lambda: len(free.findall(rollq(leader, "status"))) == 3)
        async with serving(WebSetup(follower)) as server, client_of(server) as client:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    told = (await client.get("cluster")).json()["members"]
                    if all(one["disk"] for one in told):
                        break
            assert {one["disk"]["total_bytes"] for one in told} == {total}
            metrics = (await client.get(f"{server.url}metrics")).text
            (size,) = re.findall(r"^rollq_disk_size_bytes (\S+)$", metrics, re.MULTILINE)
            assert float(size) == total
