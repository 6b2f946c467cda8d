"""Why a job waits, or failed: for each situation the word, the sentence and the commands."""

from __future__ import annotations

import pytest

from rollq.base.ids import guid_to_text
from rollq.base.reasons import Reason
from rollq.policy.endings import ResultDetail
from tests.unit.grid.kit import job_id
from tests.unit.policy.kit import Desk
from tests.unit.policy.rule_situations import RULE_ROWS
from tests.unit.policy.situations import BUILT, A, Row, row
from tests.unit.policy.typed import parse

ROWS = [
    row("staged", "waiting", Reason.STAGED, "accepted with a batch, on its way into its queue"),
    row("delayed", "delayed", Reason.DELAYED, "delayed for 1 min 30 s"),
    row(
        "paused",
        "waiting",
        Reason.PAUSED,
        "queue q is paused; waiting in it: 2 jobs",
        "rollq queue resume q",
    ),
    row(
        "cap_of_its_client",
        "waiting",
        Reason.CAP,
        "client ann is at its cap of 1, which it declares itself",
    ),
    row(
        "cap_of_the_settings",
        "waiting",
        Reason.CAP,
        "client ann is at its cap of 1, which the settings say",
        "rollq settings set client_cap=2",
    ),
    row(
        "array_at_its_limit",
        "running",
        Reason.ARRAY_LIMIT,
        "its array is at its running_max of 2; of 5 tasks: 3 waiting, 2 running",
        "rollq job ID",
    ),
    row(
        "task_that_waits_with_its_array",
        "waiting",
        Reason.ARRAY_LIMIT,
        "its array is at its running_max of 2; 2 tasks of its array before it",
        "rollq job ARRAY",
    ),
    row(
        "array_that_is_delayed",
        "delayed",
        Reason.DELAYED,
        "delayed for 50 ms; of 5 tasks: 5 waiting",
    ),
    row(
        "no_worker_at_all",
        "waiting",
        Reason.NO_WORKER,
        "no worker serves queue render.fast; there are 0 connected workers",
        "rollq worker 10.0.0.1 5000 render.fast",
    ),
    row(
        "no_worker_for_the_queue",
        "waiting",
        Reason.NO_WORKER,
        "no worker serves queue q; there is 1 connected worker",
        "rollq worker 10.0.0.1 5000 q",
    ),
    row(
        "no_worker_of_that_name",
        "waiting",
        Reason.NO_WORKER,
        "no worker named gpu 1 serves queue q; there is 1 connected worker",
        "rollq worker 10.0.0.1 5000 q --name 'gpu 1'",
    ),
    row(
        "only_drained_workers",
        "waiting",
        Reason.DRAINING,
        "all 2 workers for queue q are draining: gpu 1, w",
        "rollq drain w 'gpu 1' --undo",
    ),
    row(
        "program_that_nobody_has",
        "waiting",
        Reason.PROGRAM_MISSING,
        "no connected worker has program or function exe; workers serving the queue: u, v, w, x, "
        "y and 1 more; put a program into the exec directory of one, and if its file is there: "
        "chmod +x; start one with the module of a function as --app",
        "chmod +x exe",
        "rollq worker 10.0.0.1 5000 q --app MODULE",
    ),
    row(
        "program_that_comes_with_its_job",
        "waiting",
        Reason.SHIPPING_REFUSED,
        "program exe comes with the job, and no connected worker allows that (start one with "
        "--allow-shipped-execs); workers serving the queue: w",
        "rollq worker 10.0.0.1 5000 q --allow-shipped-execs",
    ),
    row(
        "no_free_slot",
        "waiting",
        Reason.NO_SLOT,
        "all 2 workers for queue q have no free slot; jobs there now: 2 (v, w)",
        "rollq worker 10.0.0.1 5000 q",
    ),
    row(
        "no_free_slot_where_the_program_is",
        "waiting",
        Reason.NO_SLOT,
        "the only worker for queue q with program exe has no free slot; jobs there now: 1 (w)",
        "rollq worker 10.0.0.1 5000 q",
    ),
    row(
        "cpu_cap",
        "waiting",
        Reason.CPU_CAP,
        "the only worker for queue q is at its CPU cap and takes one job at a time; jobs "
        "there now: 1 (w)",
        "rollq worker 10.0.0.1 5000 q",
    ),
    row(
        "behind_others",
        "waiting",
        Reason.BEHIND,
        "waiting behind other jobs of queue q: 3 of client ann, which come first, and 2 more,"
        " which take turns with it by priority and client",
        "rollq queue list",
    ),
    row(
        "being_assigned",
        "waiting",
        Reason.ASSIGNING,
        "being assigned to worker w",
    ),
    row(
        "retried_for_its_exit_code",
        "delayed",
        Reason.RETRYING,
        "delayed for 2 s, after attempt 1 on worker w: its program ended with exit code 75: "
        "lock is held; 1 of 3 attempts are used",
        "rollq job ID",
    ),
    row(
        "retried_after_its_worker_was_lost",
        "delayed",
        Reason.RETRYING,
        "delayed for 500 ms, after attempt 1 on worker 00000000-0000-0000-0000-000000000077: "
        "its worker is gone; 1 of 5 attempts are used",
        "rollq job ID",
    ),
    row(
        "secret_that_the_worker_lacks",
        "delayed",
        Reason.SECRET_MISSING,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "no_secret (232): this worker has no secret 'github'; add it to its vault; 0 of 5 "
        "attempts are used",
        "rollq worker 10.0.0.1 5000 q --vault DIR",
        "rollq job ID",
    ),
    row(
        "program_that_may_not_run",
        "delayed",
        Reason.EXEC_DIGEST,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "no_program (213): 'exe' may not run on this worker: its digest is not listed; 0 of 5"
        " attempts are used",
        "rollq exec digest exe",
        "rollq job ID",
    ),
    row(
        "program_that_cannot_be_started",
        "delayed",
        Reason.PROGRAM_MISSING,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "no_program (213): cannot run 'exe': plain is not executable; 0 of 5 attempts are "
        "used",
        "chmod +x exe",
        "rollq job ID",
    ),
    row(
        "program_that_the_system_refuses",
        "delayed",
        Reason.PROGRAM_MISSING,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "no_program (213): cannot start 'exe': its first line asks for '/bin/none'; 0 of 5 "
        "attempts are used",
        "rollq job ID",
    ),
    row(
        "layer_that_cannot_be_had",
        "delayed",
        Reason.SANDBOX_REFUSED,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "no_sandbox (509): the launcher does not answer in time; 0 of 5 attempts are used",
        "rollq status --workers",
        "rollq job ID",
    ),
    row(
        "input_that_is_gone",
        "delayed",
        Reason.INPUT_MISSING,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "blob_missing (217): nobody has blob 00ff; 0 of 5 attempts are used",
        "rollq job ID",
    ),
    row(
        "input_that_does_not_come",
        "delayed",
        Reason.TRANSFER,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "unreachable (600): no member answers; 0 of 5 attempts are used",
        "rollq doctor",
        "rollq job ID",
    ),
    row(
        "no_room_for_inputs",
        "delayed",
        Reason.DISK_FULL,
        "delayed for 500 ms, after attempt 1 on worker w: its worker could not run it: "
        "disk_full (402): no room for its inputs on this worker; 0 of 5 attempts are used",
        "rollq doctor",
        "rollq job ID",
    ),
    row(
        "running",
        "running",
        Reason.RUNNING,
        "it is running on worker w, attempt 1 of 3",
        "rollq logs ID --follow",
        "rollq cancel ID",
    ),
    row(
        "running_on_a_worker_that_is_away",
        "running",
        Reason.LEASE,
        "its worker w is not connected: it goes to another worker when its lease of 30 s is "
        "over, or the worker's grace of 10 s, unless the worker comes back",
        "rollq status --workers",
    ),
    row(
        "being_cancelled",
        "running",
        Reason.CANCELLING,
        "it is to be cancelled: worker w was told, and has not confirmed it yet",
        "rollq job ID",
    ),
    row(
        "ended_well",
        "ok",
        Reason.OK,
        "its program ended well on worker w after 1.2 s: left out: core cannot be read",
    ),
    row(
        "exit_code",
        "failed",
        Reason.EXIT_CODE,
        "its program ended with exit code 3 on worker w after 1.2 s: no such row: 7",
        "rollq logs ID --stderr",
    ),
    row(
        "exit_code_until_no_attempt_was_left",
        "dead",
        Reason.EXIT_CODE,
        "its program ended with exit code 75 on worker w after 700 ms, attempt 2; all of its "
        "attempts are used: 2 of 2",
        "rollq logs ID",
        "rollq dlq redrive ID",
    ),
    row(
        "signal",
        "failed",
        Reason.SIGNAL,
        "SIGSEGV (11) ended its program on worker w after 1.2 s, memory peak 12 MiB",
        "rollq logs ID",
    ),
    row(
        "killed_by_somebody_else",
        "failed",
        Reason.SIGNAL,
        "SIGKILL (9) ended its program on worker w after 1.2 s; no limit of the grid did: the"
        " system kills when its memory runs out",
        "rollq logs ID",
    ),
    row(
        "out_of_memory",
        "failed",
        Reason.OOM,
        "killed, memory limit of 96 MiB exceeded (out of memory); on worker w after 1.2 s, "
        "memory peak 95 MiB",
        "rollq logs ID",
    ),
    row(
        "time_limit",
        "failed",
        Reason.TIME_LIMIT,
        "killed, run limit of 1 s exceeded; on worker w after 1.2 s",
        "rollq logs ID",
    ),
    row(
        "cpu_limit",
        "failed",
        Reason.CPU_LIMIT,
        "killed, limit of 2 s of CPU time exceeded; on worker w after 1.2 s",
        "rollq logs ID",
    ),
    row(
        "disk_limit",
        "failed",
        Reason.DISK_LIMIT,
        "killed, disk limit of 24 MiB exceeded: it wrote 25 MiB or more; on worker w after 1.2 s",
        "rollq logs ID",
    ),
    row(
        "process_limit",
        "failed",
        Reason.PROCESS_LIMIT,
        "limit of 40 processes reached: 3 more refused; on worker w after 1.2 s",
        "rollq logs ID",
    ),
    row(
        "output_limit",
        "failed",
        Reason.OUTPUT_LIMIT,
        "the returned value is too large for this grid, which keeps no blobs; on worker w "
        "after 1.2 s",
        "rollq logs ID",
    ),
    row(
        "request_that_no_worker_can_run",
        "failed",
        Reason.BAD_REQUEST,
        "worker w refused it: bad_payload (102): the arguments are too long for this system",
        "rollq job ID",
    ),
    row(
        "dead_as_its_workers_were_lost",
        "dead",
        Reason.WORKER_LOST,
        "its worker is gone (worker 00000000-0000-0000-0000-000000000077, attempt 1); all of "
        "its attempts are used: 1 of 1",
        "rollq dlq redrive ID",
    ),
    row(
        "dead_as_its_worker_was_silent",
        "dead",
        Reason.WORKER_LOST,
        "its worker fell silent, and the lease ran out (worker w, attempt 1); all of its "
        "attempts are used: 1 of 1",
        "rollq dlq redrive ID",
    ),
    row(
        "dead_as_its_outputs_were_lost",
        "dead",
        Reason.TRANSFER,
        "it ran, but its outputs cannot be uploaded: unreachable (600): no member answers "
        "(worker w, attempt 1); all of its attempts are used: 1 of 1",
        "rollq doctor",
        "rollq dlq redrive ID",
    ),
    row(
        "dead_for_a_reason_of_its_own",
        "dead",
        Reason.NACK,
        "its worker could not run it: no room to run it: [Errno 24] Too many open files "
        "(worker w, attempt 1); all of its attempts are used: 1 of 1",
        "rollq dlq redrive ID",
    ),
    row(
        "expired",
        "dead",
        Reason.EXPIRED,
        "it waited longer than the 5 s that it may",
        "rollq dlq redrive ID",
    ),
    row(
        "cancelled_while_it_waited",
        "cancelled",
        Reason.CANCELLED_BY,
        "cancelled by `rollq cancel` of eve",
    ),
    row(
        "cancelled_while_it_ran",
        "cancelled",
        Reason.CANCELLED_BY,
        "cancelled while it ran on worker w after 1 min 1 s",
    ),
    row(
        "array_of_which_all_is_under_way",
        "running",
        Reason.RUNNING,
        "of 2 tasks: 2 running",
        "rollq job ID",
    ),
    row(
        "array_with_tasks_that_failed",
        "failed",
        Reason.TASKS_FAILED,
        "of 4 tasks: 1 ok, 2 failed, 1 cancelled",
        "rollq logs 00000000-0000-0000-0000-00616a6f6201 --stderr",
    ),
    row(
        "array_that_was_cancelled",
        "cancelled",
        Reason.CANCELLED_BY,
        "of 4 tasks: 4 cancelled",
        "rollq job ID",
    ),
    row(
        "task_that_expired_with_its_array",
        "dead",
        Reason.EXPIRED,
        "its array waited longer than the 1 h that it may; the task never started",
    ),
    row(
        "task_that_is_forgotten",
        "ok",
        Reason.FORGOTTEN,
        "it has ended; its outcome is no longer kept",
        "rollq history tail --from 1 --job ID",
    ),
    *RULE_ROWS,
]


def test_every_situation_has_its_row() -> None:
    assert len(ROWS) >= 30
    assert [one.situation for one in ROWS] == list(BUILT)


def test_every_word_is_told_somewhere() -> None:
    assert {one.code for one in ROWS} == set(Reason)


@pytest.mark.parametrize("wanted", ROWS, ids=[one.situation for one in ROWS])
def test_explanation(wanted: Row) -> None:
    desk, asked, said = BUILT[wanted.situation]()
    told = desk.explained(asked, said)
    ids = {guid_to_text(A): "ARRAY", guid_to_text(asked): "ID"}

    def named(text: str) -> str:
        for found, name in ids.items():
            text = text.replace(found, name)
        return text

    assert (told.job_id, told.state, told.code) == (asked, wanted.state, wanted.code)
    assert named(told.why) == wanted.why
    assert tuple(map(named, told.todo)) == wanted.todo
    for command in told.todo:
        parse(command)


def test_nothing_is_told_of_what_nobody_knows() -> None:
    desk = Desk()
    told = desk.dispatcher.explain(
        job_id("never"), is_capped=lambda _: False, address="h:1", read=lambda _: ResultDetail()
    )
    assert told is None


def test_attempts_are_told_one_by_one() -> None:
    desk, asked, said = BUILT["exit_code_until_no_attempt_was_left"]()
    told = desk.explained(asked, said)
    assert [(one.attempt, one.worker, one.what) for one in told.attempts] == [
        (1, "w", "its program ended with exit code 75"),
        (2, "w", "its program ended with exit code 75"),
    ]


def test_tasks_are_told_by_reason() -> None:
    desk, asked, said = BUILT["array_with_tasks_that_failed"]()
    told = desk.explained(asked, said)
    assert [(one.count, one.state, one.code) for one in told.groups] == [
        (2, "failed", Reason.EXIT_CODE),
        (1, "cancelled", Reason.CANCELLED_BY),
    ]
    assert told.groups[0].job_id == desk.array("a").id_of(1)


def test_a_large_array_is_told_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollq.policy.array_reasons.FAILURES_READ_MAX", 1)
    monkeypatch.setattr("rollq.policy.array_reasons.TASKS_LOOKED_AT_MAX", 2)
    desk, asked, said = BUILT["array_with_tasks_that_failed"]()
    told = desk.explained(asked, said)
    assert [one.count for one in told.groups] == [1]
    assert told.why == "of 4 tasks: 1 ok, 2 failed, 1 cancelled"
