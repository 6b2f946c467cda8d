from __future__ import annotations

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import NIL_ID
from rollq.base.jobs import AttemptRef, BulkItem
from rollq.base.limits import (
    CLIENT_ID_BYTES_MAX,
    CREDIT_MAX,
    OUTPUT_CHUNK_BYTES_MAX,
    PATTERNS_PER_WORKER_MAX,
)
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire.compact import Message
from rollq.wire.frame import Frame
from rollq.wire.message_codec import Dialect, decode_message, encode_message
from rollq.wire.registry import NUMBER_OF
from tests.unit.wire.samples import JOB, SAMPLES


def _refusal(kind: int, payload: bytes) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        decode_message(Frame(kind, payload=payload), Dialect.COMPACT)
    return caught.value


def _refused_message(message: Message) -> ErrorCode:
    frame = encode_message(message, Dialect.COMPACT)
    return _refusal(frame.type, frame.payload).code


def test_every_type_has_a_message_and_a_sample() -> None:
    assert {type(sample) for sample in SAMPLES} == set(NUMBER_OF)


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back(message: Message) -> None:
    frame = encode_message(message, Dialect.COMPACT, "g1")
    assert frame.type == NUMBER_OF[type(message)]
    back = decode_message(frame, Dialect.COMPACT)
    assert type(back) is type(message)
    assert back == message


def test_payload_is_the_fields_alone() -> None:
    payload = encode_message(m.Goodbye("x"), Dialect.COMPACT).payload
    assert payload == bytes.fromhex("92 a1 78 c2")


def test_members_name_their_group_and_area() -> None:
    subjects = {
        encode_message(sample, Dialect.COMPACT, "g1").subject
        for sample in SAMPLES
        if 60 <= NUMBER_OF[type(sample)] < 70 or 20 < NUMBER_OF[type(sample)] < 30
    }
    areas = ("raft", "roll", "history", "report")
    assert subjects == {f"cluster.g1.{area}" for area in areas}
    assert encode_message(m.Goodbye(), Dialect.COMPACT, "g1").subject == ""


def test_newer_and_older_peers_are_understood() -> None:
    newer = msgspec.msgpack.encode((JOB, 1, 2, "detail", True, "a field of tomorrow"))
    assert decode_message(Frame(40, payload=newer), Dialect.COMPACT) == m.Nack(
        JOB, 1, 2, "detail", True
    )
    older = msgspec.msgpack.encode((JOB, 1, 2))
    assert decode_message(Frame(40, payload=older), Dialect.COMPACT) == m.Nack(JOB, 1, 2)


def test_unknown_type_is_refused() -> None:
    assert _refusal(8, b"\x90").code == ErrorCode.UNKNOWN_MESSAGE


def test_misfits_name_the_field() -> None:
    error = _refusal(40, msgspec.msgpack.encode((JOB, "one", 2)))
    assert error.code == ErrorCode.BAD_PAYLOAD
    assert "Nack" in error.message
    assert "attempt" in error.message
    for garbage in (b"", b"\xc1", b"\x80", b"\xdd\xff\xff\xff\xff", b"\x93" * 100_000):
        assert _refusal(40, garbage).code == ErrorCode.BAD_PAYLOAD


def test_text_must_be_utf8() -> None:
    assert _refusal(44, b"\x91\xa1\xff").code == ErrorCode.BAD_PAYLOAD


def test_ids_have_sixteen_bytes_wherever_they_are() -> None:
    error = _refusal(40, msgspec.msgpack.encode((JOB[:15], 1, 2)))
    assert error.code == ErrorCode.BAD_ID
    assert "job_id" in error.message
    assert _refusal(36, msgspec.msgpack.encode(((JOB, b"x"),))).code == ErrorCode.BAD_ID
    short = AttemptRef(b"short", 1, 2)
    assert _refused_message(m.Heartbeat((short,))) == ErrorCode.BAD_ID
    assert _refused_message(m.HelloWorker(JOB, ("a",), holding=(short,))) == ErrorCode.BAD_ID
    bulk = m.SubmitBulk(JOB, "c", "q", "e", (BulkItem(b"short", b""),))
    assert _refused_message(bulk) == ErrorCode.BAD_ID


def test_jobs_have_an_id_that_is_not_nil() -> None:
    for message in (
        m.SubmitJob(NIL_ID, "c", "q", "e", b""),
        m.SubmitArray(NIL_ID, "c", "q", "e", b"", 1),
        m.AckJob(NIL_ID),
        m.AssignJob(NIL_ID, 1, 1, 1, "q", "e", b""),
    ):
        assert _refused_message(message) == ErrorCode.BAD_ID


def test_output_is_where_output_can_be() -> None:
    for message in (
        o.WatchOutput(JOB, JOB, 1, (-2, 0)),
        o.WatchOutput(JOB, JOB, 1, (-1, -1)),
        o.TellOutput(JOB, JOB, 1, 1, (0, -2)),
        o.OutputChunk(JOB, 1, data=bytes(OUTPUT_CHUNK_BYTES_MAX + 1)),
        o.OutputChunk(JOB, 1, stream=2),
        o.OutputChunk(JOB, 1, stream=-1),
        o.OutputChunk(JOB, 1, offset=-1),
        o.OutputChunk(JOB, 1, totals=(0, -1)),
        o.OutputChunk(JOB, 1, end=3),
    ):
        assert _refused_message(message) == ErrorCode.BAD_PAYLOAD
    assert _refused_message(o.WatchOutput(JOB, NIL_ID)) == ErrorCode.BAD_ID


def test_credit_is_bounded() -> None:
    assert _refused_message(m.Credit(-1)) == ErrorCode.BAD_CREDIT
    for count in (0, CREDIT_MAX, CREDIT_MAX + 1, 2**31 - 1):
        frame = encode_message(m.Credit(count), Dialect.COMPACT)
        assert decode_message(frame, Dialect.COMPACT) == m.Credit(count)


def test_hellos_are_bounded() -> None:
    for client_id in ("x" * (CLIENT_ID_BYTES_MAX + 1), "日" * (CLIENT_ID_BYTES_MAX // 3 + 1)):
        assert _refused_message(m.HelloClient(client_id)) == ErrorCode.BAD_HANDSHAKE
    patterns = ("a",) * (PATTERNS_PER_WORKER_MAX + 1)
    assert _refused_message(m.HelloWorker(JOB, patterns)) == ErrorCode.BAD_HANDSHAKE


def test_unknown_status_is_refused() -> None:
    assert _refused_message(m.AckJob(JOB, status=3)) == ErrorCode.BAD_PAYLOAD
