"""Commands on their way into the log: batches of bounded size, in order."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef, BulkItem
from rollq.base.limits import (
    CONFIRM_JOBS_MAX,
    ENTRY_BYTES_MAX,
    FRAME_BYTES_MAX,
    INLINE_BYTES_MAX,
    PENDING_BYTES_MAX,
    PENDING_BYTES_PAUSE,
    PENDING_COMMANDS_MAX,
    PENDING_COMMANDS_PAUSE,
    TURN_COMMANDS_MAX,
)
from rollq.grid import commands
from rollq.grid.command_codec import encode_batch
from rollq.roles.member.proposals import SILENT, Origin, Proposals, Waiter, size_bytes_of
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job

IDS = tuple(job(number) for number in range(1, 2_001))
LARGE = commands.SubmitJob(job(1), "ann", "q", "calc", bytes(INLINE_BYTES_MAX))
SMALL = commands.OpenClient("ann")


def test_everything_that_waits_rides_in_one_entry() -> None:
    proposals = Proposals()
    three = [commands.OpenClient(name) for name in ("c0", "c1", "c2")]
    for command in three:
        proposals.add(command)
    (batch,) = proposals.batches()
    assert [command for command, _, _ in batch] == three
    assert len(proposals) == 0


def test_turns_are_bounded_in_count_and_entries_in_bytes() -> None:
    proposals = Proposals()
    for _ in range(TURN_COMMANDS_MAX + 1):
        proposals.add(SMALL)
    assert [len(batch) for batch in proposals.batches()] == [TURN_COMMANDS_MAX]
    assert [len(batch) for batch in proposals.batches()] == [1]
    for _ in range(40):
        proposals.add(LARGE)
    batches = list(proposals.batches())
    assert sum(map(len, batches)) == 40
    assert all(
        len(encode_batch(0, [command for command, _, _ in batch])) <= ENTRY_BYTES_MAX
        for batch in batches
    )


@pytest.mark.parametrize(
    "command",
    [
        LARGE,
        commands.SubmitArray(job(1), "ann", "q", "calc", bytes(5_000), 7),
        commands.SubmitBulk("ann", "q", "calc", tuple(BulkItem(one, b"body") for one in IDS)),
        commands.AckJob(job(1), 1, 1, 0, bytes(5_000)),
        commands.CancelJobs(IDS),
        commands.PurgeJobs(IDS),
        commands.ConfirmResults("ann", IDS),
        commands.RedriveJobs(tuple(commands.RedriveItem(one, b"new body") for one in IDS)),
        commands.OpenWorker(
            job(1), 1 << 60, "w", ("job.assign.>",) * 64, 8, tuple(AttemptRef(i, 9, 9) for i in IDS)
        ),
    ],
)
def test_a_command_is_never_larger_than_it_is_taken_for(command: commands.Command) -> None:
    assert len(encode_batch(1 << 41, [command])) <= size_bytes_of(command) + 64


def test_what_found_no_room_goes_first_next_time() -> None:
    proposals = Proposals()
    proposals.add(commands.OpenClient("first"))
    (batch,) = proposals.batches()
    proposals.add(commands.OpenClient("second"))
    proposals.put_back(batch)
    (again,) = proposals.batches()
    assert [command for command, _, _ in again] == [
        commands.OpenClient("first"),
        commands.OpenClient("second"),
    ]


def test_origins_are_found_by_the_index_of_their_entry() -> None:
    proposals = Proposals()
    origin = Origin(Waiter.REQUEST, 3, job(1))
    proposals.proposed(7, [(SMALL, origin, 1)])
    assert proposals.settled(6) == []
    assert proposals.settled(7) == [(SMALL, origin, 1)]
    assert proposals.settled(7) == []


def test_nothing_is_left_when_leadership_is() -> None:
    proposals = Proposals()
    proposals.add(LARGE)
    proposals.proposed(7, [(SMALL, SILENT, 1)])
    proposals.clear()
    assert list(proposals.batches()) == []
    assert proposals.settled(7) == []


def test_it_is_busy_and_then_full_by_count() -> None:
    proposals = Proposals()
    for _ in range(PENDING_COMMANDS_PAUSE):
        proposals.add(SMALL)
    assert not proposals.is_busy()
    assert proposals.is_busy(2)
    proposals.add(SMALL)
    assert proposals.is_busy()
    for _ in range(PENDING_COMMANDS_MAX - len(proposals)):
        assert not proposals.is_full
        proposals.add(SMALL)
    assert proposals.is_full


def test_it_is_busy_and_then_full_by_bytes_and_free_again_afterwards() -> None:
    proposals = Proposals()
    while not proposals.is_busy():
        proposals.add(LARGE)
    assert len(proposals) <= PENDING_BYTES_PAUSE // INLINE_BYTES_MAX + 1
    while not proposals.is_full:
        proposals.add(LARGE)
    assert len(proposals) <= PENDING_BYTES_MAX // INLINE_BYTES_MAX + 1
    while len(proposals):
        batches = list(proposals.batches())
    assert not proposals.is_busy(1_000)
    proposals.put_back(batches[0])
    assert proposals.is_busy(1_000)
    proposals.clear()
    assert not proposals.is_busy(1_000)


def test_no_request_makes_an_entry_that_fits_no_frame() -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.client(1)
    count = ENTRY_BYTES_MAX // 128 + 1
    ids = tuple(job(number) for number in range(1, count + 1))
    items = tuple(BulkItem(one, b"") for one in ids)
    request = b"r" * 16
    for message in (
        wire.SubmitBulk(request, "ann", "", "calc", items),
        wire.Cancel(request, ids),
    ):
        (error,) = group.say(1, message)
        assert (error.request_id, error.code) == (request, ErrorCode.BAD_PAYLOAD)
        assert error.hint == "send it in parts"
    confirms = [wire.Confirm(ids[:CONFIRM_JOBS_MAX]) for _ in range(100)]
    assert group.say(1, *confirms) == []
    first = group.leader.raft.first_index
    entries = group.leader.raft.entry_slice(first, group.leader.raft.last_index + 1)
    assert max(len(entry.data) for entry in entries) < FRAME_BYTES_MAX // 2
