"""Which disk work is so light that it needs no thread."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.limits import QUICK_WRITE_BYTES_MAX
from rollq.raft.ready import Ready, SnapshotChunk
from rollq.raft.types import Config, Entry, SnapshotMeta
from rollq.roles.member.work import Work
from rollq.testing.disk import VirtualDisk
from tests.unit.roles.members import Group
from tests.unit.store.kit import entry, hard, new_wal


def work(**fields: Any) -> Work:
    group = Group()
    group.elect()
    values: dict[str, Any] = {"ready": Ready(1, entries=[entry(1)], must_sync=True)} | fields
    return Work(group.members["a"]._store, lambda _point: None, **values)


def test_a_few_entries_are_light() -> None:
    assert work().is_light


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": None},
        {"ready": Ready(1, entries=[Entry(1, 1, 0, bytes(QUICK_WRITE_BYTES_MAX + 1))])},
        {
            "ready": Ready(
                1, snapshot_chunks=[SnapshotChunk(SnapshotMeta(1, 1, Config()), 0, b"", True)]
            )
        },
        {"cluster": (b"", ())},
        {"boots": [None]},
        {"boots_relayed": {1: 1}},
        {"rows": [None]},
        {"clear_suspect": True},
        {"admitted": True},
        {"mark": True},
        {"scrub": True},
        {"doubted": SnapshotMeta(1, 1, Config())},
        {"sweep": lambda _segments: 0},
    ],
)
def test_whatever_takes_longer_is_not(fields: dict[str, Any]) -> None:
    assert not work(**fields).is_light


def test_a_batch_that_needs_a_new_segment_is_not() -> None:
    wal = new_wal(VirtualDisk(), segment_bytes=1_000)
    made = 0
    while wal.has_room(40):
        before = wal.segment_count
        made += 1
        wal.append(hard(1), [entry(made, size=40)])
        assert wal.segment_count == before
    assert made
    for index in range(made + 1, made + 9):
        wal.append(hard(1), [entry(index, size=40)])
    assert wal.segment_count > 1
