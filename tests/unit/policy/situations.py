"""Situations in which somebody asks why: each is built on a grid with its dispatcher, without a
clock or a process, and says what is asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rollq.base.ids import JobId
from rollq.base.jobs import Status
from rollq.base.reasons import Reason
from rollq.grid import commands as c
from rollq.policy.endings import ResultDetail
from rollq.policy.needs import ProgramSet
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.grid.staged import group, part
from tests.unit.policy.kit import NOTHING, Desk

Asked = tuple[Desk, JobId, ResultDetail]
A = job_id("a")


class Row(NamedTuple):
    """What is told of a situation. ID and ARRAY stand for ids."""

    situation: str
    state: str
    code: Reason
    why: str
    todo: tuple[str, ...]


def row(situation: str, state: str, code: Reason, why: str, *todo: str) -> Row:
    """One of a table."""
    return Row(situation, state, code, why, todo)


BUILT: dict[str, Callable[[], Asked]] = {}


def situation(build: Callable[[], Asked]) -> Callable[[], Asked]:
    """A situation by the name of its function."""
    BUILT[build.__name__] = build
    return build


def desk_with(**options: Any) -> Desk:
    """A job that waits, and a worker that may be given one."""
    desk = Desk()
    desk.submit("a", **options)
    desk.worker("w", 1)
    return desk


def ran(**options: Any) -> Desk:
    """The same, and it runs."""
    desk = desk_with(**options)
    assert desk.run() == ["a@w"]
    return desk


def ended(status: Status, note: str = "", stderr: str = "", **fields: Any) -> Asked:
    """A job that gave a result."""
    desk = ran()
    desk.ack("a", status, run_ms=1_200, **fields)
    return desk, A, ResultDetail(note, stderr)


def refused(detail: str) -> Asked:
    """A worker did not begin it, and it is tried again later."""
    desk = ran()
    desk.nack("a", 500, detail, not_started=True)
    return desk, A, NOTHING


# --- it waits


@situation
def staged() -> Asked:
    desk = Desk()
    desk.ask(c.StageJobs("ann", "b", "p", 0, (group("a"),)))
    desk.ask(c.CommitBatch("ann", "b", (part("p", (group("a"),)),)))
    return desk, A, NOTHING


@situation
def delayed() -> Asked:
    return desk_with(delay_ms=90_000), A, NOTHING


@situation
def paused() -> Asked:
    desk = desk_with()
    desk.apply(c.PauseQueue("q"))
    desk.submit("b")
    return desk, A, NOTHING


@situation
def cap_of_its_client() -> Asked:
    desk = Desk()
    desk.apply(c.OpenClient("ann", 1))
    desk.submit("z", "a")
    desk.worker("w", 9)
    desk.run()
    return desk, A, NOTHING


@situation
def cap_of_the_settings() -> Asked:
    desk = Desk()
    desk.apply(c.SetSettings(c.Settings(client_cap=1)))
    desk.submit("z", "a")
    desk.worker("w", 9)
    desk.run()
    return desk, A, NOTHING


@situation
def array_at_its_limit() -> Asked:
    desk = Desk()
    desk.submit_array("a", 5, running_max=2)
    desk.worker("w", 9)
    desk.run()
    return desk, A, NOTHING


@situation
def task_that_waits_with_its_array() -> Asked:
    desk, _, _ = array_at_its_limit()
    return desk, desk.array("a").id_of(4), NOTHING


@situation
def array_that_is_delayed() -> Asked:
    desk = Desk()
    desk.submit_array("a", 5, delay_ms=50)
    return desk, A, NOTHING


@situation
def no_worker_at_all() -> Asked:
    desk = Desk()
    desk.submit("a", queue="render.fast")
    return desk, A, NOTHING


@situation
def no_worker_for_the_queue() -> Asked:
    desk = Desk()
    desk.submit("a")
    desk.worker("w", 1, ("job.assign.other",))
    return desk, A, NOTHING


@situation
def no_worker_of_that_name() -> Asked:
    return desk_with(worker_name="gpu 1"), A, NOTHING


@situation
def only_drained_workers() -> Asked:
    desk = Desk()
    desk.submit("a")
    for name in ("w", "gpu 1"):
        desk.worker(name, 1)
    desk.apply(c.DrainWorkers((worker_id("w"), worker_id("gpu 1"))))
    return desk, A, NOTHING


@situation
def program_that_nobody_has() -> Asked:
    desk = Desk()
    desk.submit("a")
    for name in "uvwxyz":
        desk.worker(name, 1, programs=ProgramSet(frozenset({"other"})))
    desk.run()
    return desk, A, NOTHING


@situation
def program_that_comes_with_its_job() -> Asked:
    desk = Desk()
    desk.submit("a", ships_exec=True)
    desk.worker("w", 1, programs=ProgramSet(frozenset({"other"})))
    desk.run()
    return desk, A, NOTHING


@situation
def no_free_slot() -> Asked:
    desk = Desk()
    desk.submit("y", "z", "a")
    desk.worker("v", 1)
    desk.worker("w", 1)
    desk.run()
    return desk, A, NOTHING


@situation
def no_free_slot_where_the_program_is() -> Asked:
    desk = Desk()
    desk.submit("z", "a")
    desk.worker("v", 1, programs=ProgramSet(frozenset({"other"})))
    desk.worker("w", 1, programs=ProgramSet(frozenset({"exe"})))
    desk.run()
    return desk, A, NOTHING


@situation
def cpu_cap() -> Asked:
    desk = Desk()
    desk.submit("z", "a")
    desk.worker("w", 1)
    desk.run()
    desk.capped.add(worker_id("w"))
    return desk, A, NOTHING


@situation
def behind_others() -> Asked:
    desk = Desk()
    desk.submit("x", "y", "z", "a")
    desk.submit("n", client="bob")
    desk.submit("m", client="bob", priority=9)
    desk.worker("w", 1)
    return desk, A, NOTHING


@situation
def being_assigned() -> Asked:
    desk = desk_with()
    desk.decide()
    return desk, A, NOTHING


@situation
def retried_for_its_exit_code() -> Asked:
    desk = ran(retry_exit_codes=(75,), max_attempts=3)
    desk.ack("a", Status.FAILED, exit_code=75, retry_delay_ms=2_000, detail="x\nlock is held\n")
    return desk, A, NOTHING


@situation
def retried_after_its_worker_was_lost() -> Asked:
    desk = ran()
    desk.apply(c.CloseWorker(worker_id("w"), 1, (c.LostAttempt(A, 1, 500),)))
    return desk, A, NOTHING


# --- a worker lacks something


@situation
def secret_that_the_worker_lacks() -> Asked:
    return refused("no_secret (232): this worker has no secret 'github'; add it to its vault")


@situation
def program_that_may_not_run() -> Asked:
    return refused("no_program (213): 'exe' may not run on this worker: its digest is not listed")


@situation
def program_that_cannot_be_started() -> Asked:
    return refused("no_program (213): cannot run 'exe': plain is not executable")


@situation
def program_that_the_system_refuses() -> Asked:
    return refused("no_program (213): cannot start 'exe': its first line asks for '/bin/none'")


@situation
def layer_that_cannot_be_had() -> Asked:
    return refused("no_sandbox (509): the launcher does not answer in time")


@situation
def input_that_is_gone() -> Asked:
    return refused("blob_missing (217): nobody has blob 00ff")


@situation
def input_that_does_not_come() -> Asked:
    return refused("unreachable (600): no member answers")


@situation
def no_room_for_inputs() -> Asked:
    return refused("disk_full (402): no room for its inputs on this worker")


# --- it runs


@situation
def running() -> Asked:
    return ran(max_attempts=3), A, NOTHING


@situation
def running_on_a_worker_that_is_away() -> Asked:
    desk = ran()
    desk.dispatcher.close_worker(worker_id("w"))
    return desk, A, NOTHING


@situation
def being_cancelled() -> Asked:
    desk = ran()
    desk.apply(c.CancelJobs((A,), "rollq-cli"))
    return desk, A, NOTHING


# --- it has ended


@situation
def ended_well() -> Asked:
    return ended(Status.OK, "left out: core cannot be read")


@situation
def exit_code() -> Asked:
    return ended(Status.FAILED, stderr="reading\nno such row: 7\n", exit_code=3)


@situation
def exit_code_until_no_attempt_was_left() -> Asked:
    desk = ran(retry_exit_codes=(75,), max_attempts=2)
    desk.ack("a", Status.FAILED, exit_code=75)
    desk.grant("w", 1)
    assert desk.run() == ["a@w"]
    desk.ack("a", Status.FAILED, exit_code=75, run_ms=700)
    return desk, A, NOTHING


@situation
def signal() -> Asked:
    return ended(Status.FAILED, exit_code=139, signal=11, peak_bytes=12 << 20)


@situation
def killed_by_somebody_else() -> Asked:
    return ended(Status.FAILED, exit_code=137, signal=9)


@situation
def out_of_memory() -> Asked:
    note = "killed, memory limit of 96 MiB exceeded (out of memory)"
    return ended(Status.FAILED, note, exit_code=137, signal=9, peak_bytes=95 << 20)


@situation
def time_limit() -> Asked:
    return ended(Status.FAILED, "killed, run limit of 1 s exceeded", exit_code=137, signal=9)


@situation
def cpu_limit() -> Asked:
    return ended(Status.FAILED, "killed, limit of 2 s of CPU time exceeded", exit_code=152)


@situation
def disk_limit() -> Asked:
    note = "killed, disk limit of 24 MiB exceeded: it wrote 25 MiB or more"
    return ended(Status.FAILED, note, exit_code=137, signal=9)


@situation
def process_limit() -> Asked:
    note = "limit of 40 processes reached: 3 more refused"
    return ended(Status.FAILED, note, exit_code=1)


@situation
def output_limit() -> Asked:
    note = "the returned value is too large for this grid, which keeps no blobs"
    return ended(Status.FAILED, note, exit_code=1)


@situation
def request_that_no_worker_can_run() -> Asked:
    told = "rollq: bad_payload (102): the arguments are too long for this system\n"
    return ended(Status.FAILED, stderr=told, exit_code=126)


@situation
def dead_as_its_workers_were_lost() -> Asked:
    desk = ran(max_attempts=1)
    desk.apply(c.CloseWorker(worker_id("w"), 1, (c.LostAttempt(A, 1, 0),)))
    return desk, A, NOTHING


@situation
def dead_as_its_worker_was_silent() -> Asked:
    desk = ran(max_attempts=1)
    desk.apply(c.ExpireLeases((c.LostAttempt(A, 1, 0),)))
    return desk, A, NOTHING


@situation
def dead_as_its_outputs_were_lost() -> Asked:
    desk = ran(max_attempts=1)
    desk.nack("a", 0, "its outputs cannot be uploaded: unreachable (600): no member answers")
    return desk, A, NOTHING


@situation
def dead_for_a_reason_of_its_own() -> Asked:
    desk = ran(max_attempts=1)
    desk.nack("a", 0, "no room to run it: [Errno 24] Too many open files")
    return desk, A, NOTHING


@situation
def expired() -> Asked:
    desk = Desk()
    desk.submit("a", expire_ms=5_000)
    desk.apply(c.ExpireJobs((A,)))
    return desk, A, NOTHING


@situation
def cancelled_while_it_waited() -> Asked:
    desk = Desk()
    desk.submit("a")
    desk.apply(c.CancelJobs((A,), "eve/rollq-cli"))
    return desk, A, NOTHING


@situation
def cancelled_while_it_ran() -> Asked:
    desk, _, _ = being_cancelled()
    desk.ack("a", Status.CANCELLED, run_ms=61_000)
    return desk, A, NOTHING


# --- arrays


@situation
def array_of_which_all_is_under_way() -> Asked:
    desk = Desk()
    desk.submit_array("a", 2)
    desk.worker("w", 2)
    desk.run()
    return desk, A, NOTHING


@situation
def array_with_tasks_that_failed() -> Asked:
    desk = Desk()
    desk.submit_array("a", 4)
    desk.worker("w", 4)
    desk.run()
    for number, status in enumerate((Status.OK, Status.FAILED, Status.FAILED)):
        record = desk.state.jobs[desk.array("a").id_of(number)]
        ref = record.job_id, record.attempt, record.fence
        desk.apply(c.AckJob(*ref, status, result=b"r", exit_code=3 * bool(status), run_ms=40))
    desk.apply(c.CancelJobs((desk.array("a").id_of(3),), "ann"))
    record = desk.state.jobs[desk.array("a").id_of(3)]
    desk.apply(c.AckJob(record.job_id, 1, record.fence, Status.CANCELLED, result=b""))
    return desk, A, ResultDetail(stderr="no\n")


@situation
def array_that_was_cancelled() -> Asked:
    desk = Desk()
    desk.submit_array("a", 4)
    desk.apply(c.CancelJobs((A,), "ann"))
    return desk, A, NOTHING


@situation
def task_that_expired_with_its_array() -> Asked:
    desk = Desk()
    desk.submit_array("a", 4, expire_ms=3_600_000)
    desk.apply(c.ExpireJobs((A,)))
    return desk, desk.array("a").id_of(2), NOTHING


@situation
def task_that_is_forgotten() -> Asked:
    desk, _, said = array_with_tasks_that_failed()
    task = desk.array("a").id_of(1)
    desk.apply(c.ConfirmResults("ann", (task,)))
    desk.apply(c.ForgetJobs((task,)))
    return desk, task, said
