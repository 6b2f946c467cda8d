"""Transfer counters of a blob server."""

from __future__ import annotations

from rollq.base.counters import Family, counters_by


class TransferCounters:
    """Counts since the process started: incoming blobs when they are verified, outgoing ones when
    they begin."""

    __slots__ = ("bytes_in", "bytes_out", "count_in", "count_out")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.count_in = self.count_out = 0

    def count_incoming(self, size_bytes: int) -> None:
        """Count an incoming blob."""
        self.count_in += 1
        self.bytes_in += size_bytes

    def count_outgoing(self, size_bytes: int) -> None:
        """Count an outgoing blob."""
        self.count_out += 1
        self.bytes_out += size_bytes

    def families(self) -> list[Family]:
        """Metrics."""
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
