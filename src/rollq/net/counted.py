"""Counters over all links of this process."""

from __future__ import annotations

from typing import Final

from rollq.base.counters import Family, counter, counters_by


class LinkCounters:
    """Counters since the process began: one addition per read or write.

    Attributes:
        read_bytes: Bytes received, without TLS.
        written_bytes: Bytes passed to the system, without TLS.
        reads: The number of reads.
        writes: The number of writes.
        saved_bytes: Written bytes saved by compression.
        cut_off: Links that this side ended because of what the peer did or did not do.
    """

    __slots__ = ("cut_off", "read_bytes", "reads", "saved_bytes", "writes", "written_bytes")

    def __init__(self) -> None:
        self.read_bytes = self.written_bytes = self.reads = self.writes = self.cut_off = 0
        self.saved_bytes = 0

    def families(self) -> list[Family]:
        """The counters as metric families."""
        moved_bytes = {"in": self.read_bytes, "out": self.written_bytes}
        return [
            counters_by("rollq_link_bytes_total", "direction", moved_bytes),
            counters_by(
                "rollq_link_moves_total", "direction", {"in": self.reads, "out": self.writes}
            ),
            counter("rollq_link_saved_bytes_total", self.saved_bytes),
            counter("rollq_links_cut_total", self.cut_off),
        ]


LINKS: Final = LinkCounters()
