"""Members and their disks in `rollq status`, and what `rollq doctor` says of a full one."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rollq.base.errors import ErrorCode
from rollq.cli import health
from rollq.cli.cluster import show_cluster
from rollq.cli.health import member_findings, room_findings
from rollq.documents.grid import cluster_document
from rollq.roles.member.reports import MAKE_ROOM, Alarm
from rollq.roles.member.status import ClusterView, MemberView
from rollq.store.check import PROBLEM

GIB = 1024**3
DISK = {
    **{"used_bytes": 15 * 1024, "log_bytes": 1024, "snapshot_bytes": 2 * 1024},
    **{"history_bytes": 4 * 1024, "blob_bytes": 8 * 1024, "other_bytes": 0},
    **{"free_bytes": 3 * GIB, "total_bytes": 4 * GIB},
}


def group(**more: Any) -> ClusterView:
    members = [
        MemberView(1, "a:1", "leader", 7, 0, True, "replicate", disk=DISK),
        MemberView(2, "b:1", "follower", 7, 0, True, "replicate"),
    ]
    return ClusterView(1, "a:1", 1, 7, 7, 7, b"", members, **more)


def test_a_disk_is_shown_by_part_and_one_that_is_not_told_as_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_cluster(cluster_document(group()))
    *_, head, told, not_told = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "disk of used log snapshots history blobs other free"
    cells = re.split(" {2,}", told)
    assert cells[1:] == ["15 KiB", "1 KiB", "2 KiB", "4 KiB", "8 KiB", "0 bytes", "3 GiB of 4 GiB"]
    assert not_told.split() == ["b:1", "unknown", "-", "-", "-", "-", "-", "unknown"]


def test_the_lag_of_a_member_that_is_down_is_not_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = group()
    view.members.append(MemberView(3, "c:1", "follower", 7, 0, False, "probe"))
    document = cluster_document(view)
    assert [one["lag"] for one in document["members"]] == [0, 0, None]
    show_cluster(document)
    (line,) = [one for one in capsys.readouterr().out.splitlines() if " probe " in one]
    assert line.split() == ["c:1", "follower", "7", "-", "no", "probe", "3"]


def test_the_document_of_a_disk_that_is_not_told_is_null() -> None:
    assert [one["disk"] for one in cluster_document(group())["members"]] == [DISK, None]


def test_doctor_says_which_disk_is_nearly_full(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reached(_: str) -> str:
        return ""

    monkeypatch.setattr(health, "_trouble", reached)
    alarm = Alarm(ErrorCode.DISK_LOW, 2, "only 1 GiB of 100 GiB are free", MAKE_ROOM)
    first, *_ = asyncio.run(member_findings(group(alarms=[alarm])))
    assert (first.severity, first.what, first.todo) == (PROBLEM, alarm.text, MAKE_ROOM)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(("free", "is_told"), [(GIB, True), (50 * GIB, False)])
def test_doctor_of_a_directory_has_the_same_rule(
    free: int, is_told: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, free))
    told = [one.what for one in room_findings(tmp_path)]
    assert told == ([f"only 1 GiB of 100 GiB are free on the disk of {tmp_path}"] * is_told)
