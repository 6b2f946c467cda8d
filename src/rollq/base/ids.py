"""Identities and their text forms.

A job, array, worker or message id is 16 bytes in the order of a .NET ``Guid``: the first three
groups of the text form are little-endian on the wire. Inside rollq an id is always those bytes;
text is made only at the edges (JSON, CLI, history). Nothing here draws a random id: the shell does,
so that the simulator controls every id.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError

JobId: TypeAlias = bytes
WorkerId: TypeAlias = bytes
MessageId: TypeAlias = bytes
ClientId: TypeAlias = str
MemberId: TypeAlias = int

GUID_BYTES = 16
NIL_ID: bytes = bytes(GUID_BYTES)
TASK_INDEX_BYTES = 4
_GROUPS: Final = Struct("<IHH8s")  # the first three are numbers, the rest is bytes
_TEXT_BYTES: Final = 36
_FEW: Final = 16  # fewer texts are converted one by one
_ORDER: Final = (3, 2, 1, 0, 5, 4, 7, 6, *range(8, GUID_BYTES))  # of the bytes in the text
_PLACES: Final = [place for place in range(_TEXT_BYTES) if place not in (8, 13, 18, 23)]
# Of the digits in the text: where each stands, and which of the digits of the bytes it is.
_DIGITS: Final = list(
    zip(_PLACES, [2 * byte + half for byte in _ORDER for half in (0, 1)], strict=True)
)
GUID_TEXT_BYTES: Final = 36


def guid_to_text(guid: bytes) -> str:
    """The 36-character text form that .NET prints for these bytes."""
    if len(guid) != GUID_BYTES:
        raise ValueError(f"a guid has {GUID_BYTES} bytes, not {len(guid)}")
    first, second, third, rest = _GROUPS.unpack(guid)
    text = rest.hex()
    return f"{first:08x}-{second:04x}-{third:04x}-{text[:4]}-{text[4:]}"


def guids_to_text(guids: bytes) -> bytes:
    """The concatenated text forms of many guids, GUID_TEXT_BYTES each: vectorised over all
    guids."""
    digits = guids.hex().encode()
    text = bytearray(b"-") * (len(guids) // GUID_BYTES * GUID_TEXT_BYTES)
    for place, digit in _TEXT_PLACES:
        text[place::GUID_TEXT_BYTES] = digits[digit :: 2 * GUID_BYTES]
    return bytes(text)


def guid_texts(column: bytes) -> list[bytes]:
    """The text forms of many concatenated guids, as ASCII: vectorised over all guids."""
    count = len(column) // GUID_BYTES
    if count < _FEW:
        ids = [column[at : at + GUID_BYTES] for at in range(0, len(column), GUID_BYTES)]
        return [guid_to_text(one).encode() for one in ids]
    digits = column.hex().encode()
    texts = bytearray(b"-" * (_TEXT_BYTES * count))
    for place, digit in _DIGITS:
        texts[place::_TEXT_BYTES] = digits[digit :: 2 * GUID_BYTES]
    joined = bytes(texts)
    return [joined[at : at + _TEXT_BYTES] for at in range(0, len(joined), _TEXT_BYTES)]


def guid_from_text(text: str) -> bytes:
    """Bytes of a guid given with or without dashes and braces."""
    digits = text.strip().strip("{}").replace("-", "")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if len(raw) != GUID_BYTES or len(digits) != 2 * GUID_BYTES:
        raise RemoteError(ErrorCode.BAD_ID, f"not a guid: {text[:64]!r}")
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def task_id(array_id: JobId, number: int) -> JobId:
    """The array's id with its last four bytes advanced. Arrays number their tasks from 1 in this
    way, so that none has the array's own id; those of older clients from 0."""
    tail = int.from_bytes(array_id[-TASK_INDEX_BYTES:], "big")
    return array_id[:-TASK_INDEX_BYTES] + ((tail + number) & 0xFFFFFFFF).to_bytes(4, "big")


def task_number(array_id: JobId, job_id: JobId, first_task: int = 0) -> int:
    """The inverse of `task_id(array_id, first_task + number)`."""
    tail = int.from_bytes(array_id[-TASK_INDEX_BYTES:], "big") + first_task
    return (int.from_bytes(job_id[-TASK_INDEX_BYTES:], "big") - tail) & 0xFFFFFFFF


def job_id_of_key(client_id: ClientId, key: str) -> JobId:
    """The permanent id of the job with this key of a client: BLAKE2b with a digest of 16 bytes, of
    the client's id, a zero byte and the key."""
    return blake2b(f"{client_id}\0{key}".encode(), digest_size=GUID_BYTES).digest()


# Which hex digit of a guid stands where in its text.
_TEXT_PLACES: Final = tuple(
    (place, int(digit, 36))
    for place, digit in enumerate("67452301-ab89-efcd-ghij-klmnopqrstuv")
    if digit != "-"
)
