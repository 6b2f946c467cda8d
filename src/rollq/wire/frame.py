"""Frames: how messages are cut out of a stream of bytes.

  [len:4 LE][type:1][msgId:16][corrId:16][subjectLen:2 LE][subject utf-8][payloadLen:4 LE][payload]

`len` counts what follows it. It is checked as soon as its four bytes are received, so a peer cannot
make us allocate memory for a frame that we would refuse. Payloads are opaque here; types are
numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID, MessageId
from rollq.base.limits import FRAME_BYTES_MAX, SUBJECT_BYTES_MAX

HEAD: Final = struct.Struct("<IB16s16sH")
LENGTH: Final = struct.Struct("<I")
HEAD_BYTES: Final = HEAD.size
# The minimum of `len`: type, ids, subject length and payload length of an empty frame.
LEN_MIN: Final = 1 + 2 * GUID_BYTES + 2 + 4


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A decoded frame."""

    type: int
    msg_id: MessageId = NIL_ID
    corr_id: MessageId = NIL_ID
    subject: str = ""
    payload: bytes = b""


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame.

    Raises:
        LocalError: if the frame exceeds a bound of the format.
    """
    subject = frame.subject.encode()
    length = LEN_MIN + len(subject) + len(frame.payload)
    if length > FRAME_BYTES_MAX:
        raise LocalError(
            ErrorCode.FRAME_TOO_LARGE,
            f"a frame of {length} bytes; at most {FRAME_BYTES_MAX}",
            "send large payloads as blobs",
        )
    if len(subject) > SUBJECT_BYTES_MAX:
        raise LocalError(
            ErrorCode.BAD_SUBJECT, f"a subject of {len(subject)} bytes; at most {SUBJECT_BYTES_MAX}"
        )
    # struct silently truncates or pads an id of another length.
    if len(frame.msg_id) != GUID_BYTES or len(frame.corr_id) != GUID_BYTES:
        raise LocalError(ErrorCode.BAD_ID, f"ids of a frame have {GUID_BYTES} bytes")
    head = HEAD.pack(length, frame.type, frame.msg_id, frame.corr_id, len(subject))
    return b"".join((head, subject, LENGTH.pack(len(frame.payload)), frame.payload))


def nothing_larger(kind: int, msg_id: MessageId) -> int:
    """No first frame has a larger bound."""
    return 0


class FrameDecoder:
    """Decodes frames from bytes that arrive in pieces of any size.

    `feed` adds bytes, `frames` returns every complete frame. Frames before an invalid one are
    returned first; from then on `frames` raises and no more bytes are accepted.

    Args:
        first_bytes_max: The bound of the first frame, whose sender is not authenticated.
        first_larger: The bound of a larger first frame, by its type and msgId; 0 if it has none.
        first_larger_max: No such bound is over this.
        before_first: Types of frames that may precede the first one, with its bound.
    """

    __slots__ = (
        "_before_first",
        "_error",
        "_first_larger",
        "_first_larger_max",
        "_limit",
        "_need",
        "_pending",
        "_whole",
    )

    def __init__(
        self,
        first_bytes_max: int = FRAME_BYTES_MAX,
        first_larger: Callable[[int, MessageId], int] = nothing_larger,
        first_larger_max: int = 0,
        before_first: frozenset[int] = frozenset(),
    ) -> None:
        self._limit = first_bytes_max  # FRAME_BYTES_MAX once the first frame is there
        self._first_larger = first_larger
        self._first_larger_max = first_larger_max  # under FRAME_BYTES_MAX: of no meaning then
        self._before_first = before_first
        self._pending = bytearray()  # the beginning of a frame that is not all there
        self._need = LENGTH.size  # length of `_pending` from which decoding can go on
        self._whole: list[Frame] = []
        self._error: RemoteError | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes of incomplete frames."""
        return len(self._pending)

    def feed(self, data: bytes) -> None:
        """Add received bytes; `frames` returns the frames in them."""
        if self._error is not None:
            return
        pending = self._pending
        if pending:
            # A large frame in small pieces must not be copied for each piece.
            pending += data
            if len(pending) < self._need:
                return
            data = bytes(pending)
        try:
            rest = self._cut(data)
        except RemoteError as error:
            self._error = error
            rest = len(data)
        self._pending = bytearray(data[rest:])

    def frames(self) -> list[Frame]:
        """Every frame that is complete, in order; each is handed out once.

        Raises:
            RemoteError: BAD_FRAME, FRAME_TOO_LARGE or BAD_SUBJECT, after all frames before it.
        """
        whole = self._whole
        if whole:
            self._whole = []
        elif self._error is not None:
            raise self._error
        return whole

    def _cut(self, data: bytes) -> int:
        """Decode complete frames; returns the offset of the first incomplete one."""
        take = self._whole.append
        unpack_head, unpack_length = HEAD.unpack_from, LENGTH.unpack_from
        limit, size, at = self._limit, len(data), 0
        while size - at >= HEAD_BYTES:
            length, kind, msg_id, corr_id, subject_bytes = unpack_head(data, at)
            if not LEN_MIN <= length <= limit and not self._is_larger(length, kind, msg_id):
                raise _bad_length(length, limit)
            end = at + 4 + length
            subject_at = at + HEAD_BYTES
            subject_end = subject_at + subject_bytes
            if subject_bytes > SUBJECT_BYTES_MAX or subject_end + 4 > end:
                raise _bad_subject_length(subject_bytes, length)
            if end > size:
                break
            if unpack_length(data, subject_end)[0] != end - subject_end - 4:
                raise _bad_payload_length(
                    unpack_length(data, subject_end)[0], end - subject_end - 4
                )
            subject = _text(data[subject_at:subject_end]) if subject_bytes else ""
            take(Frame(kind, msg_id, corr_id, subject, data[subject_end + 4 : end]))
            if limit < FRAME_BYTES_MAX and kind not in self._before_first:
                limit = FRAME_BYTES_MAX
            at = end
        self._limit = limit
        self._need = self._wanted(data, at)
        return at

    def _is_larger(self, length: int, kind: int, msg_id: MessageId) -> bool:
        """Whether a first frame over the bound is allowed."""
        is_asked = self._limit < length <= self._first_larger_max
        return is_asked and length <= self._first_larger(kind, msg_id)

    def _wanted(self, data: bytes, at: int) -> int:
        """The length of the rest from which decoding can go on."""
        if len(data) - at < LENGTH.size:
            return LENGTH.size
        length: int = LENGTH.unpack_from(data, at)[0]
        if len(data) - at >= HEAD_BYTES:
            return LENGTH.size + length  # `_cut` has checked the head
        limit = max(self._limit, self._first_larger_max)
        if not LEN_MIN <= length <= limit:
            raise _bad_length(length, limit)
        return HEAD_BYTES


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise RemoteError(ErrorCode.BAD_FRAME, "the subject is not UTF-8") from None


def _bad_length(length: int, limit: int) -> RemoteError:
    if length < LEN_MIN:
        return RemoteError(ErrorCode.BAD_FRAME, f"len is {length}; the empty frame has {LEN_MIN}")
    return RemoteError(
        ErrorCode.FRAME_TOO_LARGE,
        f"a frame of {length} bytes; at most {limit} here",
        "send large payloads as blobs",
    )


def _bad_subject_length(subject_bytes: int, length: int) -> RemoteError:
    if subject_bytes > SUBJECT_BYTES_MAX:
        return RemoteError(
            ErrorCode.BAD_SUBJECT,
            f"a subject of {subject_bytes} bytes; at most {SUBJECT_BYTES_MAX}",
        )
    return RemoteError(
        ErrorCode.BAD_FRAME, f"a subject of {subject_bytes} bytes in a frame of {length}"
    )


def _bad_payload_length(said: int, there: int) -> RemoteError:
    return RemoteError(ErrorCode.BAD_FRAME, f"payloadLen is {said}, but len leaves {there} bytes")
