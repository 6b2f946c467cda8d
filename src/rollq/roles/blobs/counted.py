"""Blobs that a server of blobs took and gave."""

from __future__ import annotations

from rollq.base.counters import Family, counters_by


class TransferCounters:
    """Numbers since the process began. What comes counts when it is whole and verified, what goes
    when it begins to."""

    __slots__ = ("bytes_in", "bytes_out", "count_in", "count_out")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.count_in = self.count_out = 0

    def took(self, size_bytes: int) -> None:
        """A blob has come."""
        self.count_in += 1
        self.bytes_in += size_bytes

    def gives(self, size_bytes: int) -> None:
        """A blob begins to go."""
        self.count_out += 1
        self.bytes_out += size_bytes

    def families(self) -> list[Family]:
        """The same under their names."""
        return [
            counters_by(
                "rollq_blob_transfers_total",
                "direction",
                {"in": self.count_in, "out": self.count_out},
            ),
            counters_by(
                "rollq_blob_transfer_bytes_total",
                "direction",
                {"in": self.bytes_in, "out": self.bytes_out},
            ),
        ]
