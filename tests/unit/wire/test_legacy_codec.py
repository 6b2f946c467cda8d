from __future__ import annotations

import json

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import NIL_ID, guid_to_text
from rollq.base.jobs import Status
from rollq.wire import messages as m
from rollq.wire.compact import Message
from rollq.wire.frame import Frame
from rollq.wire.message_codec import Dialect, decode_message, encode_message
from rollq.wire.models import JobResult, encode_model, job_request
from tests.unit.wire.golden_vectors import RESULT as RESULT_JSON
from tests.unit.wire.samples import HELD, JOB, OPTIONS, OTHER, SAMPLES

# The numbers of the legacy documents.
SUBMIT_JOB = 1
ASSIGN_JOB = 2
ACK_JOB = 3
CREDIT = 4
RESULT = 5
CACHE_PUT = 6
HELLO_CLIENT = 9
HELLO_WORKER = 10
NOT_LEADER = 20


def _encode(message: Message) -> Frame:
    return encode_message(message, Dialect.LEGACY)


def _decode(frame: Frame) -> Message:
    return decode_message(frame, Dialect.LEGACY)


def _refusal(frame: Frame) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        _decode(frame)
    return caught.value


def test_types_of_ours_are_the_same_in_both_dialects() -> None:
    for sample in SAMPLES:
        frame = encode_message(sample, Dialect.COMPACT, "g1")
        if frame.type > NOT_LEADER:
            assert encode_message(sample, Dialect.LEGACY, "g1") == frame
            assert _decode(frame) == sample


# --- hellos


def test_client_names_itself_in_the_subject_or_in_the_payload() -> None:
    by_subject = Frame(HELLO_CLIENT, subject="clientA")
    by_payload = Frame(HELLO_CLIENT, payload=b'{"ClientId":"clientA"}')
    both = Frame(HELLO_CLIENT, subject="other", payload=b'{"ClientId":"clientA"}')
    cap_only = Frame(HELLO_CLIENT, subject="clientA", payload=b'{"DesiredParallelism":4}')
    for frame in (by_subject, by_payload, both):
        assert _decode(frame) == m.HelloClient("clientA")
    assert _decode(cap_only) == m.HelloClient("clientA", 4)
    assert _decode(Frame(HELLO_CLIENT)) == m.HelloClient("")
    broken = Frame(HELLO_CLIENT, subject="clientA", payload=b"not json")
    assert _refusal(broken).code == ErrorCode.BAD_PAYLOAD


def test_plain_worker_hello_is_the_legacy_one() -> None:
    frame = _encode(m.HelloWorker(JOB, ("job.assign.>",)))
    assert frame == Frame(HELLO_WORKER, JOB, subject="job.assign.>")
    assert _decode(Frame(HELLO_WORKER, subject="a")) == m.HelloWorker(NIL_ID, ("a",))
    assert _decode(Frame(HELLO_WORKER, JOB)) == m.HelloWorker(JOB, ("",))


def test_worker_hello_carries_the_rest_as_json() -> None:
    hello = m.HelloWorker(JOB, ("a", "b.*"), "w1", 2, 3, HELD, ("compact",))
    frame = _encode(hello)
    assert frame.subject == "a"
    assert json.loads(frame.payload)["Holding"][0]["JobId"] == guid_to_text(JOB)
    assert _decode(frame) == hello
    named = Frame(HELLO_WORKER, JOB, subject="x", payload=b'{"Name":"w1"}')
    assert _decode(named) == m.HelloWorker(JOB, ("x",), "w1")
    bad = b'{"Holding":[{"JobId":"x","Attempt":1,"Fence":1}]}'
    assert _refusal(Frame(HELLO_WORKER, JOB, payload=bad)).code == ErrorCode.BAD_ID


def test_not_leader_may_know_nobody() -> None:
    for payload in (b"", b"{}", b'{"leader":null}', b'{"leader":""}'):
        assert _decode(Frame(NOT_LEADER, payload=payload)) == m.NotLeader()
    message = m.NotLeader("a:1", ("a:1", "b:2"))
    assert _decode(_encode(message)) == message


# --- submit and assign


def test_submit_takes_its_ids_from_the_request() -> None:
    body = encode_model(job_request(JOB, "clientA", "calcA", options=OPTIONS))
    frame = Frame(SUBMIT_JOB, OTHER, subject="job.submit.x", payload=body)
    assert _decode(frame) == m.SubmitJob(JOB, "clientA", "job.submit.x", "calcA", body, OPTIONS)


@pytest.mark.parametrize(
    ("subject", "exec_name"),
    [
        ("job.submit.calcA", "calcA"),
        ("JOB.Submit.calcA", "calcA"),
        ("job.assign.group.calcA", "calcA"),
        ("groupA", "groupA"),
        ("a..b.", "b"),
        ("job.submit", "default"),
        ("", "default"),
    ],
)
def test_opaque_job_is_named_by_its_frame(subject: str, exec_name: str) -> None:
    frame = Frame(SUBMIT_JOB, JOB, subject=subject, payload=b'{"not":"a request"}')
    assert _decode(frame) == m.SubmitJob(JOB, "", subject, exec_name, frame.payload)


def test_request_without_a_program_means_its_subject() -> None:
    body = b'{"JobId":"' + guid_to_text(JOB).encode() + b'"}'
    submit = _decode(Frame(SUBMIT_JOB, subject="job.submit.calcA", payload=body))
    assert submit == m.SubmitJob(JOB, "", "job.submit.calcA", "calcA", body)


def test_submit_without_a_valid_id_is_refused() -> None:
    assert _refusal(Frame(SUBMIT_JOB, payload=b"opaque")).code == ErrorCode.BAD_ID
    assert _refusal(Frame(SUBMIT_JOB, JOB, payload=b'{"JobId":"x"}')).code == ErrorCode.BAD_ID
    nil = b'{"JobId":"00000000-0000-0000-0000-000000000000"}'
    assert _refusal(Frame(SUBMIT_JOB, JOB, payload=nil)).code == ErrorCode.BAD_ID


def test_assign_gives_the_body_unchanged() -> None:
    body = encode_model(job_request(JOB, "clientA", "calcA", options=OPTIONS))
    assign = m.AssignJob(JOB, 3, 9, 1_000, "calcA", "calcA", body, OPTIONS, "clientA")
    frame = _encode(assign)
    assert frame == Frame(ASSIGN_JOB, JOB, JOB, "job.assign.calcA", body)
    # A legacy peer has no attempts, fences and leases.
    assert _decode(frame) == m.AssignJob(
        JOB, 0, 0, 0, "job.assign.calcA", "calcA", body, OPTIONS, "clientA"
    )
    by_corr = Frame(ASSIGN_JOB, corr_id=JOB, subject="job.assign.calcA", payload=b"x")
    assert _decode(by_corr) == m.AssignJob(JOB, 0, 0, 0, "job.assign.calcA", "calcA", b"x")


# --- acks and results


def test_ack_finds_its_job() -> None:
    assert _decode(Frame(ACK_JOB, OTHER, JOB)) == m.AckJob(JOB)
    assert _decode(Frame(ACK_JOB, JOB)) == m.AckJob(JOB)
    result = encode_model(JobResult(guid_to_text(JOB), "c", "e", "OK"))
    assert _decode(Frame(ACK_JOB, OTHER, payload=result)) == m.AckJob(JOB, result=result)
    assert _refusal(Frame(ACK_JOB)).code == ErrorCode.BAD_ID


@pytest.mark.parametrize(
    ("status", "meant"),
    [("OK", Status.OK), ("ok", Status.OK), ("FAILED", Status.FAILED), ("?", Status.FAILED)],
)
def test_ack_takes_status_and_figures_from_the_result(status: str, meant: Status) -> None:
    result = encode_model(
        JobResult(
            guid_to_text(JOB), "c", "e", status, exit_code=3, signal=9, run_ms=5, peak_bytes=7
        )
    )
    assert _decode(Frame(ACK_JOB, corr_id=JOB, payload=result)) == m.AckJob(
        JOB, status=meant, result=result, exit_code=3, signal=9, run_ms=5, peak_bytes=7
    )


def test_ack_with_opaque_bytes_is_well() -> None:
    assert _decode(Frame(ACK_JOB, corr_id=JOB, payload=b"42")) == m.AckJob(JOB, result=b"42")


def test_failed_ack_says_so_even_if_its_bytes_do_not() -> None:
    frame = _encode(m.AckJob(JOB, status=Status.FAILED, result=b"boom"))
    ack = _decode(frame)
    assert isinstance(ack, m.AckJob)
    assert ack.status == Status.FAILED
    assert json.loads(frame.payload)["Stdout"] == "boom"
    assert _encode(m.AckJob(JOB, result=b"42")).payload == b"42"


def test_result_passes_as_the_worker_sent_it() -> None:
    result = m.Result(JOB, "done", result=RESULT_JSON, exec_name="calcA", client_id="clientA")
    assert _encode(result) == Frame(RESULT, JOB, JOB, payload=RESULT_JSON)
    assert _decode(_encode(result)) == result
    assert _decode(Frame(RESULT, corr_id=JOB, payload=b"42")) == m.Result(JOB, "done", result=b"42")


def test_result_of_a_dead_job_is_made_up() -> None:
    for outcome, raw in (("dead", b""), ("cancelled", b""), ("cancelled", RESULT_JSON)):
        message = m.Result(
            JOB, outcome, 0, raw, "calcA", cause=2, detail="worker gone", client_id="clientA"
        )
        frame = _encode(message)
        made = json.loads(frame.payload)
        assert (made["JobId"], made["Status"]) == (guid_to_text(JOB), "FAILED")
        assert (made["ClientId"], made["ExecName"]) == ("clientA", "calcA")
        assert made["Stderr"] == f"rollq: {outcome} (worker_down) worker gone"


def test_result_of_a_failed_run_passes_though_the_job_is_dead() -> None:
    failed = encode_model(JobResult(guid_to_text(JOB), "c", "e", "FAILED"))
    assert _encode(m.Result(JOB, "dead", 1, failed)).payload == failed


def test_opaque_result_is_wrapped() -> None:
    text = json.loads(_encode(m.Result(JOB, "done", result=b"42")).payload)
    assert (text["Status"], text["Stdout"], text["OutputArchive"]) == ("OK", "42", None)
    binary = json.loads(_encode(m.Result(JOB, "done", 1, result=b"\xff")).payload)
    assert (binary["Status"], binary["Stdout"], binary["OutputArchive"]) == ("FAILED", "", "/w==")
    misfit = json.loads(_encode(m.Result(JOB, "done", result=b'{"Status":5}')).payload)
    assert misfit["Stdout"] == '{"Status":5}'


# --- credits and caches


def test_credit_is_a_bounded_int32() -> None:
    for payload in (b"", b"\x01", bytes(5)):
        assert _refusal(Frame(CREDIT, payload=payload)).code == ErrorCode.BAD_CREDIT
    for count in (-1, -(2**31)):
        payload = count.to_bytes(4, "little", signed=True)
        assert _refusal(Frame(CREDIT, payload=payload)).code == ErrorCode.BAD_CREDIT


def test_cache_messages_keep_who_asked() -> None:
    for message in (m.CachePut(JOB, b"p"), m.CacheAck(JOB, b"p")):
        assert _decode(_encode(message)) == message
    told = b'{"CacheId":"dataset-v1","Status":"OK"}'
    assert _encode(m.CacheAck(JOB, told)).subject == "cache.ack.dataset-v1"
    assert _encode(m.CacheAck(JOB, b'{"CacheId":7}')).subject == "cache.ack"
    from_client = Frame(CACHE_PUT, JOB, NIL_ID, "cache.put.x", b"p")
    from_leader = Frame(CACHE_PUT, OTHER, JOB, "cache.put", b"p")
    assert _decode(from_client) == _decode(from_leader) == m.CachePut(JOB, b"p")
