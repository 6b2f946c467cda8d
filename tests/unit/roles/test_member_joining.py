"""Commands of one turn that are alike become one run, and each asker hears of its own jobs."""

from __future__ import annotations

from typing import Any

from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid import commands as c
from rollq.grid.effects import Applied, Outcome, Refused, RunDone
from rollq.grid.outcomes import DUPLICATE_OPEN, JOBS_FULL
from rollq.roles.member.leader.joining import count_of, joined
from rollq.roles.member.leader.origins import SILENT, Origin, Proposal

BLOB = BlobRef(b"b" * 32, 7)
NOTHING = Applied(1, 0, [], [], [])


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def submit(number: int, client: str = "ann", queue: str = "q", **more: Any) -> c.SubmitRun:
    return c.SubmitRun(client, queue, "exe", name(number), (b"body",), **more)


def ack(number: int, **more: Any) -> c.AckRun:
    fields = {"attempt": 1, "status": 0, **more}
    return c.AckRun(job_ids=name(number), fences=(number,), results=(b"result",), **fields)


def silent(*commands: c.Command) -> list[Proposal]:
    return [(command, SILENT, 10) for command in commands]


def commands_of(batch: list[Proposal]) -> list[c.Command]:
    return [command for command, _, _ in batch]


def test_submits_of_one_client_that_are_alike_are_one_run() -> None:
    made = joined(silent(submit(1), submit(2, "bob"), submit(3, keys="k"), submit(4, "bob")))
    assert commands_of(made) == [
        c.SubmitRun("ann", "q", "exe", name(1) + name(3), (b"body",) * 2, keys="\0k"),
        c.SubmitRun("bob", "q", "exe", name(2) + name(4), (b"body",) * 2),
    ]
    assert [size_bytes for _, _, size_bytes in made] == [20, 20]


def test_submits_of_a_client_stay_in_their_order() -> None:
    urgent = JobOptions(priority=5)
    batch = silent(submit(1), submit(2, options=urgent), submit(3), submit(4, queue="r"))
    assert joined(batch) == batch


def test_acks_of_attempts_that_ended_alike_are_one_run() -> None:
    made = joined(
        silent(ack(1), ack(2, run_ms=(5,)), ack(3, status=1), ack(4, blobs=((BLOB,),)), ack(5))
    )
    assert commands_of(made) == [
        c.AckRun(
            1,
            0,
            name(1) + name(2) + name(4) + name(5),
            (1, 2, 4, 5),
            (b"result",) * 4,
            run_ms=(0, 5, 0, 0),
            blobs=((), (), (BLOB,), ()),
        ),
        ack(3, status=1),
    ]


def test_nothing_is_moved_in_front_of_what_is_no_run() -> None:
    batch = silent(submit(1), c.CancelJobs((name(1),)), submit(1))
    assert joined(batch) == batch
    assign = c.AssignRun(name(9), 1, 1, 50, name(7))
    made = joined(silent(ack(1), assign, ack(2)))
    assert [type(command) for command in commands_of(made)] == [c.AckRun, c.AssignRun]


def test_a_run_is_not_longer_than_it_may_be() -> None:
    many = RUN_JOBS_MAX - 1
    ids = b"".join(map(name, range(many)))
    large = c.ConfirmRun("ann", ids)
    made = joined(silent(large, c.ConfirmRun("ann", name(1)), c.ConfirmRun("ann", name(2))))
    assert [count_of(command) for command in commands_of(made)] == [RUN_JOBS_MAX, 1]


def test_each_asker_hears_of_its_own_jobs() -> None:
    heard: list[tuple[c.Command, Outcome]] = []

    def settle(origin: Origin, command: c.Command, outcome: Outcome, applied: Applied) -> None:
        heard.append((command, outcome))

    two = c.SubmitRun("ann", "q", "exe", name(2) + name(3), (b"body",) * 2)
    parts = [submit(1), two, submit(4), submit(5)]
    origins = [Origin(settle), Origin(settle), SILENT, Origin(settle)]
    ((run, origin, _),) = joined(
        [(part, origin, 1) for part, origin in zip(parts, origins, strict=True)]
    )
    origin.settle(origin, run, RunDone(3, ((2, DUPLICATE_OPEN), (4, JOBS_FULL))), NOTHING)
    assert heard == [
        (parts[0], RunDone(1)),
        (two, RunDone(1, ((1, DUPLICATE_OPEN),))),
        (parts[3], RunDone(0, ((0, JOBS_FULL),))),
    ]
    heard.clear()
    refused = Refused(JOBS_FULL.code)
    origin.settle(origin, run, refused, NOTHING)
    assert [outcome for _, outcome in heard] == [refused] * 3


def test_a_run_that_was_put_back_is_joined_again() -> None:
    heard: list[Outcome] = []
    asker = Origin(lambda origin, command, outcome, applied: heard.append(outcome))
    first = joined([(submit(1), asker, 1), (submit(2), asker, 1)])
    ((run, origin, _),) = joined([*first, (submit(3), asker, 1)])
    assert count_of(run) == 3
    origin.settle(origin, run, RunDone(2, ((1, DUPLICATE_OPEN),)), NOTHING)
    assert heard == [RunDone(1), RunDone(0, ((0, DUPLICATE_OPEN),)), RunDone(1)]
