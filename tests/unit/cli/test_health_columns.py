from __future__ import annotations

from rollq.base.limits import COLUMNS_BYTES_MIN
from rollq.cli.health import history_findings
from rollq.history.segments import Segments, columns_name
from rollq.testing.disk import VirtualDisk


def test_the_doctor_notes_history_that_readers_get_as_lines() -> None:
    disk = VirtualDisk()
    segments = Segments(disk)
    segments.seal(1, 1, [b'{"index":1,"text":"%b"}' % (b"x" * COLUMNS_BYTES_MIN)])
    segments.seal(2, 2, [b'{"index":2,"text":"short"}'])
    [finding] = history_findings(disk)
    assert finding.severity == "note"
    assert "1 of 1 history segments have no Arrow columns" in finding.what
    disk.write(columns_name(1, 1), 0, b"arrow")
    assert history_findings(disk) == []
