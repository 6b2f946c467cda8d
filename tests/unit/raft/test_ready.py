from __future__ import annotations

from rollq.raft.ready import Ready, SnapshotChunk
from rollq.raft.types import Config, Entry, SnapshotMeta

ONE, TWO, THREE = (Entry(1, index, 0, b"") for index in (1, 2, 3))


def test_what_is_on_disk_already_is_ready_to_apply() -> None:
    assert Ready(1, committed=[ONE, TWO]).ready_to_apply == [ONE, TWO]
    assert Ready(1, entries=[THREE], committed=[ONE, TWO]).ready_to_apply == [ONE, TWO]
    assert Ready(1, entries=[ONE]).ready_to_apply == []


def test_what_is_still_to_be_written_is_not() -> None:
    assert Ready(1, entries=[TWO, THREE], committed=[ONE, TWO]).ready_to_apply == [ONE]
    assert Ready(1, entries=[ONE, TWO], committed=[TWO]).ready_to_apply == []


def test_nothing_is_before_a_configuration_or_a_snapshot_is_on_disk() -> None:
    assert Ready(1, committed=[ONE], changes_config=True).ready_to_apply == []
    chunk = SnapshotChunk(SnapshotMeta(1, 1, Config(), 0, b""), 0, b"", done=False)
    assert Ready(1, committed=[ONE], snapshot_chunks=[chunk]).ready_to_apply == []
