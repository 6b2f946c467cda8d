from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import FRAME_BYTES_MAX, SUBJECT_BYTES_MAX
from rollq.wire.frame import LEN_MIN, Frame, FrameDecoder, encode_frame

SMALL = Frame(4, b"m" * 16, b"c" * 16, "job.日本", b"\x01\x00\x00\x00")
GOOD = encode_frame(SMALL)


def _refusal(*pieces: bytes, first_bytes_max: int = FRAME_BYTES_MAX) -> RemoteError:
    decoder = FrameDecoder(first_bytes_max)
    for piece in pieces:
        decoder.feed(piece)
    with pytest.raises(RemoteError) as caught:
        decoder.frames()
    return caught.value


def _head(length: int, subject_bytes: int = 0) -> bytes:
    return length.to_bytes(4, "little") + b"\x04" + bytes(32) + subject_bytes.to_bytes(2, "little")


def test_frames_come_out_byte_by_byte() -> None:
    decoder, out = FrameDecoder(), []
    for byte in GOOD * 3:
        decoder.feed(bytes([byte]))
        out += decoder.frames()
    assert out == [SMALL] * 3
    assert decoder.buffered_bytes == 0


def test_many_frames_come_out_of_one_piece() -> None:
    decoder = FrameDecoder()
    decoder.feed(GOOD * 100 + GOOD[:10])
    assert decoder.frames() == [SMALL] * 100
    assert decoder.frames() == []
    assert decoder.buffered_bytes == 10


def test_largest_frame_passes_in_small_pieces() -> None:
    largest = Frame(1, payload=bytes(FRAME_BYTES_MAX - LEN_MIN))
    raw = encode_frame(largest)
    decoder, most = FrameDecoder(), 0
    for at in range(0, len(raw), 65_536):
        decoder.feed(raw[at : at + 65_536])
        most = max(most, decoder.buffered_bytes)
    assert decoder.frames() == [largest]
    assert most <= FRAME_BYTES_MAX + 4


def test_a_frame_in_many_pieces_is_not_looked_at_once_a_piece() -> None:
    looks = []

    class Watched(FrameDecoder):
        def _cut(self, data: bytes) -> int:
            looks.append(len(data))
            return super()._cut(data)

    frame = Frame(1, payload=bytes(10_000))
    decoder = Watched()
    for byte in encode_frame(frame):
        decoder.feed(bytes([byte]))
    assert decoder.frames() == [frame]
    assert len(looks) <= 8


def test_oversized_frame_is_refused_by_its_first_four_bytes() -> None:
    error = _refusal((FRAME_BYTES_MAX + 1).to_bytes(4, "little"))
    assert error.code == ErrorCode.FRAME_TOO_LARGE
    assert str(FRAME_BYTES_MAX + 1) in error.message


def test_negative_length_is_refused() -> None:
    assert _refusal((-1).to_bytes(4, "little", signed=True)).code == ErrorCode.FRAME_TOO_LARGE
    assert _refusal(_head(-5 & 0xFFFFFFFF)).code == ErrorCode.FRAME_TOO_LARGE


def test_length_below_the_empty_frame_is_refused() -> None:
    assert _refusal((LEN_MIN - 1).to_bytes(4, "little")).code == ErrorCode.BAD_FRAME
    assert encode_frame(Frame(1))[:4] == LEN_MIN.to_bytes(4, "little")


def test_subject_beyond_its_frame_is_refused_before_the_rest_arrives() -> None:
    assert _refusal(_head(LEN_MIN + 5, 6)).code == ErrorCode.BAD_FRAME
    assert _refusal(_head(LEN_MIN + 5, 6)[:20], _head(LEN_MIN + 5, 6)[20:]).message == (
        "a subject of 6 bytes in a frame of 44"
    )


def test_long_subject_is_refused() -> None:
    error = _refusal(_head(60_000, SUBJECT_BYTES_MAX + 1))
    assert error.code == ErrorCode.BAD_SUBJECT


def test_payload_length_must_fit_exactly() -> None:
    for said in (0, 3, 5, 2**32 - 1):
        raw = _head(LEN_MIN + 4) + said.to_bytes(4, "little") + b"abcd"
        error = _refusal(raw)
        assert error.code == ErrorCode.BAD_FRAME
        assert f"payloadLen is {said}" in error.message


def test_subject_must_be_utf8() -> None:
    error = _refusal(_head(LEN_MIN + 1, 1) + b"\xff" + bytes(4))
    assert error.code == ErrorCode.BAD_FRAME


def test_frames_before_a_broken_one_are_handed_out_and_nothing_after() -> None:
    decoder = FrameDecoder()
    decoder.feed(GOOD + bytes(50) + GOOD)
    assert decoder.frames() == [SMALL]
    for _ in range(2):
        with pytest.raises(RemoteError):
            decoder.frames()
    decoder.feed(GOOD)
    assert decoder.buffered_bytes == 0
    with pytest.raises(RemoteError):
        decoder.frames()


def test_first_frame_may_have_a_lower_bound() -> None:
    big = encode_frame(Frame(1, payload=bytes(1_000)))
    assert _refusal(big, first_bytes_max=500).code == ErrorCode.FRAME_TOO_LARGE
    decoder = FrameDecoder(500)
    decoder.feed(GOOD + big)
    assert len(decoder.frames()) == 2


def test_a_frame_nobody_could_take_is_our_own_fault() -> None:
    for frame, code in (
        (Frame(1, payload=bytes(FRAME_BYTES_MAX)), ErrorCode.FRAME_TOO_LARGE),
        (Frame(1, subject="x" * (SUBJECT_BYTES_MAX + 1)), ErrorCode.BAD_SUBJECT),
        (Frame(1, msg_id=b"short"), ErrorCode.BAD_ID),
        (Frame(1, corr_id=b"x" * 17), ErrorCode.BAD_ID),
    ):
        with pytest.raises(LocalError) as caught:
            encode_frame(frame)
        assert caught.value.code == code
