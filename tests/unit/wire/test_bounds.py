"""The table of bounds: complete, exact at both ends of every rule, and answered by request id."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import NIL_ID
from rollq.base.jobs import AttemptRef, BlobRef, JobOptions, Status
from rollq.base.limits import FRAME_BYTES_MAX, RUN_MS_MAX, USED_BYTES_MAX
from rollq.wire import messages as m
from rollq.wire.checks import BOUNDS, COMPACT_BYTES_MAX, check_message
from rollq.wire.compact import ENCODE, decode_compact
from rollq.wire.connection import Connection
from rollq.wire.features import FEATURES, agree
from rollq.wire.frame import Frame, encode_frame
from rollq.wire.handshake import (
    Side,
    Stage,
)
from rollq.wire.models import encode_model, job_request
from rollq.wire.registry import NUMBER_OF, REQUEST_ID_OF
from rollq.wire.rules import (
    INT64_MAX,
    Bytes,
    Int,
    Many,
    Name,
    OutOfBoundsError,
    Struct,
    Text,
    bounds,
    compile_bounds,
)
from tests.unit.wire.samples import JOB, OTHER, SAMPLES

HEAVY = 65_536  # longer values are not made


class Sample(msgspec.Struct, array_like=True, frozen=True):
    number: int = 0
    text: str = "é"
    data: bytes = b"d"
    ident: bytes = JOB
    many: tuple[int, ...] = (1,)
    deep: tuple[tuple[BlobRef, ...], ...] = ()
    inner: AttemptRef | None = None


RULES = bounds(
    number=Int(-1, 5),
    text=Text(4, 1),
    data=Bytes(3, 1),
    ident=Name(),
    many=Many(2, Int(0, 9), 1),
    deep=Many(1, Many(2, Struct(BlobRef))),
    inner=Struct(AttemptRef, optional=True),
)
CHECK = compile_bounds(Sample, RULES, dict.fromkeys(BOUNDS, check_message))
BLOB = BlobRef(bytes(32), 0)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("number", [-1, 5], [-2, 6, 2**63, 2**64]),
        ("text", ["a", "aaaa", "éé", "\U0001f600"], ["", "aaaaa", "ééa", "\U0001f600a"]),
        ("data", [b"a", b"aaa"], [b"", b"aaaa"]),
        ("ident", [OTHER], [NIL_ID, b"", b"x" * 17]),
        ("many", [(0,), (9, 9)], [(), (1, 1, 1), (-1,), (10,)]),
        ("deep", [((BLOB, BLOB),)], [((), ()), ((BLOB,) * 3,), ((BlobRef(b"", 0),),)]),
        ("inner", [None, AttemptRef(JOB, 1, 1)], [AttemptRef(JOB, -1, 1)]),
    ],
)
def test_a_rule_holds_at_both_ends(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        sample = msgspec.structs.replace(Sample(), **{field: value})
        assert CHECK(sample) is sample
    for value in bad:
        with pytest.raises(RemoteError) as caught:
            CHECK(msgspec.structs.replace(Sample(), **{field: value}))
        assert caught.value.code is (
            ErrorCode.BAD_ID if field == "ident" else ErrorCode.BAD_PAYLOAD
        )


def test_a_payload_that_no_fields_could_fill_is_not_decoded() -> None:
    most = COMPACT_BYTES_MAX[NUMBER_OF[m.Ping]]
    assert most < 100_000 < COMPACT_BYTES_MAX[NUMBER_OF[m.SubmitJob]] == FRAME_BYTES_MAX
    fits = Frame(NUMBER_OF[m.Ping], payload=ENCODE((bytes(most - 10),)))
    assert decode_compact(fits) == m.Ping()
    with pytest.raises(RemoteError) as caught:
        decode_compact(Frame(NUMBER_OF[m.Ping], payload=ENCODE((bytes(most),))))
    assert caught.value.code == ErrorCode.FRAME_TOO_LARGE


def test_a_row_names_every_field() -> None:
    with pytest.raises(AssertionError):
        compile_bounds(AttemptRef, bounds(job_id=Name(), attempt=Int(0, 1)), {})


def test_no_message_is_without_bounds_and_every_sample_keeps_to_its_own() -> None:
    assert set(NUMBER_OF) <= set(BOUNDS)
    assert set(REQUEST_ID_OF) <= set(NUMBER_OF)
    for sample in SAMPLES:
        assert check_message(sample) is sample


def _beyond(rule: Any) -> list[Any]:
    """Values that break a rule by as little as can be, and by much."""
    if isinstance(rule, Int):
        return [rule.low - 1, rule.high + 1, 2**64]
    if isinstance(rule, Bytes) and rule.high <= HEAVY:
        return [bytes(rule.high + 1)]
    if isinstance(rule, Text) and rule.high <= HEAVY:
        return ["x" * (rule.high + 1), "é" * (rule.high // 2 + 1)]
    return []


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_every_field_of_every_message_is_bounded(sample: Any) -> None:
    for name, rule in BOUNDS[type(sample)].items():
        for value in _beyond(rule):
            with pytest.raises(OutOfBoundsError) as caught:
                check_message(msgspec.structs.replace(sample, **{name: value}))
            assert f"{type(sample).__name__}.{name}" in caught.value.message
            assert caught.value.hint


def test_numbers_fit_63_bits() -> None:
    for kind, rules in BOUNDS.items():
        for name, rule in rules.items():
            if isinstance(rule, Int):
                assert -(2**63) <= rule.low <= rule.high <= INT64_MAX, (kind, name)


def test_what_a_worker_measured_is_cut_to_its_bounds() -> None:
    ack = m.AckJob(JOB, 1, 2, 0, b"r", 2**64, -1, 2**63, 2**64, (), -5, 2**70)
    assert check_message(ack) == m.AckJob(
        JOB, 1, 2, 0, b"r", 2**32 - 1, 0, RUN_MS_MAX, USED_BYTES_MAX, (), 0, USED_BYTES_MAX
    )


def _session(hello: m.HelloClient | m.HelloWorker) -> tuple[Connection, Connection]:
    peer, member = Connection(Side.DIALER, "g"), Connection(Side.ACCEPTER, "g")
    member.receive_data(peer.send(hello))
    peer.receive_data(member.send(m.Welcome("g", 1, agree(hello.features))))
    return peer, member


@pytest.mark.parametrize("features", [FEATURES, ("compact",), ("compact", "header2")])
def test_a_request_out_of_bounds_is_refused_under_its_id(features: tuple[str, ...]) -> None:
    peer, member = _session(m.HelloClient("ann", 0, features))
    wild = m.SubmitJob(JOB, "ann", "q", "calc", b"x", JobOptions(priority=10))
    query = m.Query(OTHER, "counts")
    assert member.receive_data(peer.send_all([wild, query])) == [query]
    assert member.error is None
    (error,) = member.take_refusals()
    assert isinstance(error, m.Error)
    assert (error.request_id, error.code) == (JOB, ErrorCode.BAD_OPTIONS)
    assert not error.retryable
    assert member.take_refusals() == []


def test_a_legacy_client_is_told_by_a_failed_result() -> None:
    peer, member = Connection(Side.DIALER), Connection(Side.ACCEPTER)
    member.receive_data(peer.send(m.HelloClient("ann")))
    body = encode_model(job_request(JOB, "ann", "calc", options=JobOptions(priority=10)))
    wild = m.SubmitJob(JOB, "ann", "calc", "calc", body)
    assert member.receive_data(peer.send(wild)) == []
    (told,) = peer.receive_data(member.send_all(member.take_refusals()))
    assert isinstance(told, m.Result)
    assert (told.job_id, told.status) == (JOB, Status.FAILED)
    assert b"JobOptions.priority is 10" in told.result
    assert member.error is None


def test_what_is_asked_under_no_id_ends_the_connection() -> None:
    peer, member = _session(m.HelloWorker(JOB, ("a",), features=FEATURES))
    assert member.receive_data(peer.send(m.Heartbeat((AttemptRef(JOB, -1, 0),)))) == []
    assert member.error is not None
    assert member.state is Stage.CLOSED


def test_a_member_out_of_bounds_is_left() -> None:
    """Workers and clients do not answer: they hang up, and look for another."""
    peer, _ = _session(m.HelloWorker(JOB, ("a",), features=("compact",)))
    frame = Frame(NUMBER_OF[m.AckTaken], payload=ENCODE((JOB, -1)))
    assert peer.receive_data(encode_frame(frame)) == []
    assert peer.error is not None
    assert peer.error.code is ErrorCode.BAD_PAYLOAD
