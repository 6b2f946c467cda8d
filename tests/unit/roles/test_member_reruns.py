"""Jobs that run once more, with other arguments: redriven under their ids, or as new ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollq.base.errors import ErrorCode, RollqError
from rollq.base.ids import guid_to_text
from rollq.base.jobs import JobOptions, Status
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.requests import kept_of
from rollq.grid.state import DEAD, QUEUED
from rollq.roles.member.leader.admin_arguments import AgainArguments
from rollq.roles.member.leader.reruns import changed_body
from rollq.wire import messages as wire
from rollq.wire.kept import BODY_MARK
from tests.unit.roles.members import Group, job
from tests.unit.roles.test_member_admin import CLIENT, REQUEST, WORKER, admin, one_member

ONCE = JobOptions(max_attempts=1)


def body(number: int, **fields: Any) -> bytes:
    known = {"JobId": guid_to_text(job(number)), "ClientId": "ann", "ExecName": "calc"}
    return json.dumps(known | {"Args": ["1"], "Future": {"x": [1]}} | fields).encode()


def change(**fields: Any) -> AgainArguments:
    return AgainArguments(job(1), **fields)


# --- the request


def test_only_what_was_asked_for_is_another() -> None:
    old = body(1, Env={"A": "1", "B": "2"}, Files=[{"Name": "f", "CacheId": "c"}])
    made = json.loads(
        changed_body(old, change(keeps_args=False, args=("x", ""), env=(("C", "3"),), unset=("A",)))
    )
    wanted = json.loads(old) | {"Args": ["x", ""], "Env": {"B": "2", "C": "3"}}
    assert made == wanted
    assert json.loads(changed_body(old, change())) == json.loads(old)
    assert "Env" not in json.loads(changed_body(old, change(unset=("A", "B", "C"))))
    assert json.loads(changed_body(body(1), change(keeps_args=False)))["Args"] == []


@pytest.mark.parametrize(
    ("old", "fields", "code"),
    [
        (b"payload", {"keeps_args": False}, ErrorCode.BAD_OPTIONS),
        (b"payload", {"env": (("A", "1"),)}, ErrorCode.BAD_OPTIONS),
        (BODY_MARK, {}, ErrorCode.WRONG_STATE),
        (kept_of(body(1, Env={"A": "1"})), {}, ErrorCode.WRONG_STATE),
        (body(1), {"env": (("1A", "x"),)}, ErrorCode.BAD_PAYLOAD),
        (body(1), {"env": (("ROLLQ_JOB_ID", "x"),)}, ErrorCode.BAD_PAYLOAD),
        (
            body(1),
            {"keeps_args": False, "args": ("x" * INLINE_BYTES_MAX,)},
            ErrorCode.BAD_OPTIONS,
        ),
    ],
    ids=["payload", "payload-env", "large", "not-kept", "bad-name", "own-name", "too-long"],
)
def test_a_request_that_cannot_be_changed_so(
    old: bytes, fields: dict[str, Any], code: ErrorCode
) -> None:
    with pytest.raises(RollqError) as raised:
        changed_body(old, change(**fields))
    assert raised.value.code is code


def test_a_payload_stays_as_it_is() -> None:
    assert changed_body(b"\x00payload", change(), {"JobId": "x"}) == b"\x00payload"


# --- a leader


def submit(number: int, content: bytes, options: JobOptions | None = None) -> wire.SubmitJob:
    return wire.SubmitJob(job(number), "ann", "calc", "calc", content, options)


def with_a_dead_job(content: bytes) -> Group:
    group = one_member()
    group.worker(WORKER, credit=1)
    group.say(CLIENT, submit(1, content, ONCE))
    (order,) = group.heard(WORKER, wire.AssignJob)
    group.say(WORKER, wire.Nack(order.job_id, order.attempt, order.fence, "no room"))
    assert group.leader.state.jobs[job(1)].state is DEAD
    group.hear(CLIENT)
    return group


def test_a_dead_job_runs_with_other_arguments_under_its_id() -> None:
    group = with_a_dead_job(body(1, Env={"A": "1"}))
    asked = admin("redrive_changed", job_ids=[job(1)], keeps_args=False, args=["2"], queue="Other")
    assert group.say(CLIENT, asked) == [wire.Accepted(REQUEST, 1)]
    order = group.say(WORKER, wire.Credit(1))[-1]
    assert (order.job_id, order.attempt) == (job(1), 2)
    assert json.loads(order.body) == json.loads(body(1, Env={"A": "1"}, Args=["2"]))
    assert group.leader.state.jobs[job(1)].queue == "other"
    assert "calc" not in group.leader.state.queues


def test_a_job_that_failed_is_not_redriven() -> None:
    group = one_member()
    group.worker(WORKER, credit=1)
    group.say(CLIENT, submit(1, body(1)))
    (order,) = group.heard(WORKER, wire.AssignJob)
    group.say(WORKER, wire.AckJob(order.job_id, 1, order.fence, Status.FAILED, b"{}", 3))
    asked = admin("redrive_changed", job_ids=[job(1)], keeps_args=False, args=["2"])
    (error,) = [one for one in group.say(CLIENT, asked) if isinstance(one, wire.Error)]
    assert error.code == ErrorCode.WRONG_STATE


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("redrive_changed", {"job_ids": [job(9)], "keeps_args": False}),
        ("again", {"job_id": job(9)}),
    ],
)
def test_a_job_that_nobody_knows(verb: str, fields: dict[str, Any]) -> None:
    (error,) = one_member().say(CLIENT, admin(verb, **fields))
    assert (error.request_id, error.code) == (REQUEST, ErrorCode.UNKNOWN_JOB)


def test_a_new_job_is_like_another_one() -> None:
    group = with_a_dead_job(body(1, Env={"A": "1"}))
    asked = admin("again", job_id=job(1), keeps_args=False, args=["2"], env=[["B", "2"]])
    assert group.say(CLIENT, asked) == [wire.Accepted(REQUEST)]
    made = group.leader.state.jobs[REQUEST]
    assert (made.state, made.options, made.exec_name) == (QUEUED, ONCE, "calc")
    assert group.leader.state.jobs[job(1)].state is DEAD
    order = group.say(WORKER, wire.Credit(1))[-1]
    wanted = body(1, JobId=guid_to_text(REQUEST), Args=["2"], Env={"A": "1", "B": "2"})
    assert json.loads(order.body) == json.loads(wanted)


def test_a_task_is_like_its_array_and_an_array_is_none() -> None:
    group = one_member()
    array = wire.SubmitArray(job(1), "ann", "calc", "calc", body(1), 3, first_task=1)
    group.say(CLIENT, array)
    (error,) = group.say(CLIENT, admin("again", job_id=job(1)))
    assert error.code == ErrorCode.WRONG_STATE
    first = job(1)[:-4] + (int.from_bytes(job(1)[-4:], "big") + 1).to_bytes(4, "big")
    assert group.say(CLIENT, admin("again", job_id=first)) == [wire.Accepted(REQUEST)]
    made = group.leader.state.jobs[REQUEST]
    assert json.loads(group.leader.state.bodies.load(made.body))["Task"] == 0


def test_a_task_with_a_payload_has_no_place_for_its_number() -> None:
    group = one_member()
    group.say(CLIENT, wire.SubmitArray(job(1), "ann", "calc", "calc", b"\x00payload", 3))
    second = job(1)[:-4] + (int.from_bytes(job(1)[-4:], "big") + 1).to_bytes(4, "big")
    (error,) = group.say(CLIENT, admin("again", job_id=second))
    assert error.code == ErrorCode.BAD_OPTIONS
