"""Messages of runs: columns agree, what is measured is cut, and only `runs` makes them legal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import BlobRef
from rollq.base.limits import INLINE_BYTES_MAX, RUN_JOBS_MAX, RUN_MS_MAX
from rollq.wire import messages as m
from rollq.wire.checks import check_message
from rollq.wire.connection import Connection
from rollq.wire.features import FEATURES, agree
from rollq.wire.handshake import Side
from rollq.wire.rules import OutOfBoundsError
from rollq.wire.run_messages import (
    AckRun,
    AcksTaken,
    AssignRun,
    RefusedJob,
    ResultRun,
    RunAccepted,
    SubmitRun,
)
from tests.unit.wire.samples import JOB, OTHER

IDS = JOB + OTHER
SUBMIT = SubmitRun(JOB, "ann", "calc", "calc", IDS, (b"a", b"b"))
ASSIGN = AssignRun(IDS, 1, 7, 30_000, "calc", "calc", (b"a", b"b"))
RESULT = ResultRun(IDS, (b"a", b"b"), "done")
TAKEN = AcksTaken(IDS, (1, 1), (1,))
# Ids whose bytes hold 16 zeros, and none of which is nil.
SHIFTED = b"\x01" + bytes(15) + bytes(15) + b"\x01"


@pytest.mark.parametrize(
    "message",
    [
        SUBMIT,
        replace(SUBMIT, keys="a\0b", blobs=((), ())),
        replace(SUBMIT, keys="k" * 256 + "\0"),
        replace(SUBMIT, bodies=(bytes(INLINE_BYTES_MAX), b"")),
        replace(SUBMIT, job_ids=JOB * RUN_JOBS_MAX, bodies=(b"",) * RUN_JOBS_MAX),
        replace(SUBMIT, job_ids=SHIFTED),
        ASSIGN,
        replace(RESULT, run_ms=(1, 2)),
        TAKEN,
        RunAccepted(JOB, 1, (0,), (), (RefusedJob(RUN_JOBS_MAX - 1, 205, "full"),)),
    ],
)
def test_columns_that_agree_are_taken(message: Any) -> None:
    assert check_message(message) is message


@pytest.mark.parametrize(
    "message",
    [
        replace(SUBMIT, job_ids=b""),
        replace(SUBMIT, job_ids=IDS[:-1]),
        replace(SUBMIT, bodies=(b"a",)),
        replace(SUBMIT, bodies=()),
        replace(SUBMIT, bodies=(bytes(INLINE_BYTES_MAX + 1), b"")),
        replace(SUBMIT, job_ids=JOB * (RUN_JOBS_MAX + 1), bodies=(b"",) * (RUN_JOBS_MAX + 1)),
        replace(SUBMIT, keys="a"),
        replace(SUBMIT, keys="a\0b\0c"),
        replace(SUBMIT, keys="k" * 257 + "\0"),
        replace(SUBMIT, keys="é" * 129 + "\0"),
        replace(SUBMIT, blobs=((),)),
        replace(ASSIGN, bodies=(b"a", b"b", b"c")),
        replace(ASSIGN, blobs=((), (), ())),
        replace(RESULT, results=()),
        replace(RESULT, run_ms=(1,)),
        replace(RESULT, run_ms=(1, -1)),
        replace(TAKEN, attempts=(1,)),
        replace(TAKEN, stale=(2,)),
        replace(TAKEN, stale=(-1,)),
        AckRun(()),
        RunAccepted(JOB, 1, (RUN_JOBS_MAX,)),
        RunAccepted(JOB, 1, refused=(RefusedJob(-1, 205, "full"),)),
    ],
)
def test_columns_that_do_not_agree_are_refused(message: Any) -> None:
    with pytest.raises(OutOfBoundsError) as caught:
        check_message(message)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    assert caught.value.request_id == (JOB if isinstance(message, SubmitRun) else bytes(16))


@pytest.mark.parametrize("message", [SUBMIT, ASSIGN, RESULT, TAKEN])
def test_an_id_of_a_run_that_names_nothing_ends_the_connection(message: Any) -> None:
    with pytest.raises(RemoteError) as caught:
        check_message(replace(message, job_ids=JOB + bytes(16)))
    assert not isinstance(caught.value, OutOfBoundsError)
    assert caught.value.code is ErrorCode.BAD_ID


def test_what_a_worker_measured_is_cut_in_a_run_too() -> None:
    good = m.AckJob(OTHER, 1, 8, run_ms=3)
    wild = m.AckJob(JOB, 1, 7, result=b"worth more", run_ms=2**62, signal=-1)
    checked = check_message(AckRun((wild, good)))
    assert checked.acks == (replace(wild, run_ms=RUN_MS_MAX, signal=0), good)
    assert checked.acks[1] is good


def test_an_ack_out_of_bounds_is_not_cut() -> None:
    with pytest.raises(OutOfBoundsError):
        check_message(AckRun((m.AckJob(JOB, -1, 7),)))


def talk(offered: tuple[str, ...], known: tuple[str, ...]) -> tuple[Connection, Connection]:
    """A client that offers features and a member that knows some."""
    client, member = Connection(Side.DIALER), Connection(Side.ACCEPTER)
    member.receive_data(client.send(m.HelloClient("ann", 0, offered)))
    agreed = tuple(one for one in agree(offered) if one in known)
    client.receive_data(member.send(m.Welcome("g", 1, agreed)))
    return client, member


def test_runs_travel_where_both_speak_them() -> None:
    client, member = talk(("compact", "batch", "runs"), FEATURES)
    submits = [SUBMIT, m.SubmitJob(JOB, "ann", "calc", "calc", b"")]
    assert member.receive_data(client.send_all(submits)) == submits
    results = [RESULT, m.Result(JOB, "done")]
    assert client.receive_data(member.send_all(results)) == results
    assert (client.error, member.error) == (None, None)


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        (("compact", "batch"), FEATURES),  # an older client
        (("compact", "batch", "runs"), ("compact", "batch")),  # an older member
        (("accepted", "runs"), FEATURES),  # runs are compact
    ],
)
def test_runs_are_not_sent_to_a_peer_that_did_not_agree(
    offered: tuple[str, ...], known: tuple[str, ...]
) -> None:
    client, member = talk(offered, known)
    assert client.send(SUBMIT) == b""
    assert member.send(RESULT) == b""


def test_a_run_that_was_not_agreed_on_ends_the_connection() -> None:
    _, member = talk(("compact",), FEATURES)
    other, _ = talk(("compact", "runs"), FEATURES)
    assert member.receive_data(other.send(SUBMIT)) == []
    assert member.error is not None
    assert member.error.code is ErrorCode.BAD_HANDSHAKE


WHOLE = m.AckJob(JOB, 1, 7, 1, b"r", 3, 9, 1_000, 2**40, (), 2**41, 5)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"job_id": bytes(16)},
        {"attempt": -1},
        {"attempt": 2**31},
        {"fence": 2**63},
        {"status": 3},
        {"status": -1},
        {"result": bytes(4 * 1024 * 1024 + 1)},
        {"exit_code": 2**32},
        {"signal": 128},
        {"run_ms": -1},
        {"peak_bytes": 2**60},
        {"fetched_bytes": -1},
        {"held_bytes": 2**60},
        {"blobs": (BlobRef(bytes(32), -1),)},
        {"blobs": (BlobRef(bytes(32), 5),)},
    ],
)
def test_a_run_of_acks_keeps_to_what_each_of_them_must(fields: dict[str, Any]) -> None:
    ack = replace(WHOLE, **fields)
    alone, code = checked(ack)
    run, code_of_run = checked(AckRun((WHOLE, ack)))
    assert code_of_run is code
    assert run is None if alone is None else run.acks == (WHOLE, alone)


def checked(message: Any) -> tuple[Any, ErrorCode | None]:
    try:
        return check_message(message), None
    except RemoteError as error:
        return None, error.code


def test_a_run_of_too_many_acks_is_refused() -> None:
    assert check_message(AckRun((WHOLE,) * RUN_JOBS_MAX))
    with pytest.raises(OutOfBoundsError):
        check_message(AckRun((WHOLE,) * (RUN_JOBS_MAX + 1)))
