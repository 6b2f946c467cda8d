"""Dependencies of a job as bytes, as the state and events have them: the id of each parent, then
one byte for its condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import Condition

EDGE_BYTES: Final = GUID_BYTES + 1
MET: Final = 0x80  # in the byte of the condition: the parent has ended as it had to
CONDITION_WORDS: Final = {int(one): one.name.lower() for one in Condition}


def each_edge(edges: bytes | bytearray) -> Iterator[tuple[JobId, int, bool]]:
    """Parent, condition and whether it is met, of each edge."""
    for at in range(0, len(edges), EDGE_BYTES):
        word = edges[at + GUID_BYTES]
        yield bytes(edges[at : at + GUID_BYTES]), word & ~MET, word & MET > 0
