"""Bytes written by hand are read as what they mean, and written the same way by us."""

from __future__ import annotations

import pytest

from rollq.base.ids import guid_from_text
from rollq.wire.frame import FrameDecoder, encode_frame
from rollq.wire.message_codec import decode_message, encode_message
from rollq.wire.registry import ROW_NUMBERED, Phase
from tests.unit.wire.golden_logins import LOGINS
from tests.unit.wire.golden_readers import READERS
from tests.unit.wire.golden_references import REFERENCES
from tests.unit.wire.golden_runs import RUNS
from tests.unit.wire.golden_staging import STAGING
from tests.unit.wire.golden_vectors import GUID_TEXT, JOB, VECTORS, Vector

ALL = VECTORS + LOGINS + REFERENCES + READERS + STAGING + RUNS
LEGACY_TYPES = [
    number for number, row in ROW_NUMBERED.items() if number <= 27 and row.phase is not Phase.LOGIN
]


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_golden_bytes_are_read(vector: Vector) -> None:
    decoder = FrameDecoder()
    decoder.feed(vector.data)
    [frame] = decoder.frames()
    assert decoder.buffered_bytes == 0
    assert decode_message(frame, vector.dialect) == vector.message


@pytest.mark.parametrize("vector", [v for v in ALL if v.ours], ids=lambda vector: vector.name)
def test_golden_bytes_are_written(vector: Vector) -> None:
    assert encode_frame(encode_message(vector.message, vector.dialect, "g1")) == vector.data


def test_every_legacy_type_has_a_vector() -> None:
    assert {vector.data[4] for vector in VECTORS} >= set(LEGACY_TYPES)


def test_guid_bytes_are_those_of_dotnet() -> None:
    assert guid_from_text(GUID_TEXT) == JOB
    assert JOB.hex() == "33221100554477668899aabbccddeeff"
