"""The worker's machine: inputs that come late, not at all or damaged; outputs that are lost."""

from __future__ import annotations

from msgspec.structs import replace

from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.jobs import AttemptRef, BlobRef, Status
from rollq.roles.worker.attempts import AttemptPhase
from rollq.roles.worker.signals import (
    DrainRequested,
    DropInputs,
    FailJob,
    InputsFailed,
    InputsReady,
    MessageReceived,
    PrepareInputs,
    UploadFailed,
    UploadOutputs,
)
from rollq.wire import messages as wire
from tests.unit.roles.worker_machines import (
    Worker,
    ack,
    assign,
    finished,
    forget,
    job,
    machine,
    of_type,
    received,
    ref,
    run_to_offer,
    say,
    started,
    stop,
    stored,
    welcomed,
)

BLOBS = (BlobRef(b"b" * 32, 8),)


def assign_with_inputs(of: AttemptRef) -> MessageReceived:
    (message,) = assign(of).messages
    assert isinstance(message, wire.AssignJob)
    return MessageReceived([replace(message, blobs=BLOBS)])


def preparing(of: AttemptRef, slots: int = 1) -> Worker:
    worker = welcomed(slots)
    (out,) = worker.handle(assign_with_inputs(of))
    assert isinstance(out, PrepareInputs)
    assert [one for _, one in out.jobs] == [of]
    return worker


def test_a_job_takes_its_slot_when_its_inputs_are_there() -> None:
    worker = preparing(ref(1))
    assert worker.phase(job(1)) is AttemptPhase.PREPARING
    assert worker.running_count == 0
    assert started(worker.handle(assign(ref(2)))) == [ref(2)], "others do not wait for it"
    assert started(worker.handle(InputsReady([ref(1)]))) == []
    assert started(worker.handle(finished(ref(2)))) == [ref(1)]


def test_a_file_in_a_cache_is_an_input() -> None:
    worker = welcomed()
    (message,) = assign(ref(1)).messages
    assert isinstance(message, wire.AssignJob)
    body = b'{"Files": [{"Name": "a", "CacheId" : "c"}]}'
    out = worker.handle(MessageReceived([replace(message, body=body)]))
    assert [type(one) for one in out] == [PrepareInputs]


def refused(error: RollqError) -> wire.Nack:
    worker = preparing(ref(1))
    out = worker.handle(InputsFailed(ref(1), error))
    assert of_type(out, DropInputs) == [], "whoever brings them clears them away"
    (first, credit) = out
    assert credit == say(wire.Credit(1))
    assert worker.phase(job(1)) is AttemptPhase.REFUSED
    nack = first.messages[0]  # type: ignore[union-attr]
    assert isinstance(nack, wire.Nack)
    return nack


def test_inputs_that_cannot_be_had_here_are_a_nack() -> None:
    missing = refused(StateError(ErrorCode.BLOB_MISSING, "no blob"))
    assert (missing.not_started, "no blob" in missing.detail) == (False, True)
    corrupt = refused(RemoteError(ErrorCode.BLOB_CORRUPT, "other bytes"))
    assert (corrupt.not_started, "other bytes" in corrupt.detail) == (False, True)


def test_a_program_that_may_not_come_with_its_job_is_given_back() -> None:
    assert refused(StateError(ErrorCode.NO_PROGRAM, "not here")).not_started


def test_a_full_disk_uses_up_no_attempt_of_the_job() -> None:
    assert refused(StateError(ErrorCode.DISK_FULL, "no room")).not_started


def test_a_job_whose_own_names_are_wrong_fails_with_the_cause() -> None:
    worker = preparing(ref(1))
    (fail,) = worker.handle(InputsFailed(ref(1), RemoteError(ErrorCode.BAD_PAYLOAD, "../name")))
    assert isinstance(fail, FailJob)
    assert (fail.ref, "../name" in fail.detail) == (ref(1), True)
    assert worker.phase(job(1)) is AttemptPhase.ENDING
    worker.handle(finished(ref(1), Status.FAILED, b"why"))
    assert worker.handle(stored(ref(1))) == [ack(ref(1), Status.FAILED, b"why")]


def test_inputs_of_what_does_not_start_are_dropped() -> None:
    worker = preparing(ref(1))
    out = worker.handle(stop(ref(1)))
    assert out[0] == DropInputs([ref(1)])
    assert worker.phase(job(1)) is AttemptPhase.STORING
    worker = preparing(ref(1))
    out = worker.handle(assign_with_inputs(ref(1, attempt=2)))
    assert out[0] == DropInputs([ref(1)])
    assert started(worker.handle(InputsReady([ref(1)]))) == [], "it came too late"
    assert started(worker.handle(InputsReady([ref(1, attempt=2)]))) == [ref(1, attempt=2)]


def test_a_drain_gives_back_what_still_waits_for_its_inputs() -> None:
    worker = machine(slots=1)
    worker.handle(received(wire.Welcome("g", 1, ("programs",))))
    worker.handle(assign_with_inputs(ref(1)))
    drop, nack = worker.handle(DrainRequested())
    assert drop == DropInputs([ref(1)])
    assert nack == say(wire.Nack(job(1), 1, ref(1).fence, "draining", True))


def missing_outputs(of: AttemptRef) -> MessageReceived:
    return received(wire.Error(of.job_id, ErrorCode.BLOB_MISSING, "1 of 1"))


def test_outputs_that_the_group_lacks_are_uploaded_before_the_ack_is_repeated() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1))
    (upload,) = worker.handle(missing_outputs(ref(1)))
    assert isinstance(upload, UploadOutputs)
    assert upload.result.ref == ref(1)
    assert worker.handle(stored(ref(1))) == [ack(ref(1), result=b"r")]
    assert worker.handle(missing_outputs(ref(2))) == []
    assert worker.handle(received(wire.Error(job(1), ErrorCode.BAD_PAYLOAD, ""))) == []


def test_outputs_that_are_lost_are_a_nack() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1))
    out = worker.handle(UploadFailed(ref(1), "gone"))
    assert out == [forget(ref(1)), say(wire.Nack(job(1), 1, ref(1).fence, "gone"))]
    assert worker.handle(UploadFailed(ref(1), "gone")) == []
