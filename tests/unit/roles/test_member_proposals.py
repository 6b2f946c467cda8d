"""Commands on their way into the log: batches of bounded size, in order."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec import inspect

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BulkItem
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
from rollq.roles.member import driver
from rollq.roles.member.leader.proposals import SILENT, Origin, Proposals, size_bytes_of
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs
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


@pytest.mark.parametrize("kind", get_args(commands.Command))
def test_a_command_is_not_larger_than_it_is_taken_for_whatever_it_holds(
    kind: type[commands.Command],
) -> None:
    fields = {field.name: field.type for field in inspect.type_info(kind).fields}  # type: ignore[attr-defined]
    for large in fields.keys() - BOUNDED_BEFORE:
        values = {name: value_of(each, large=name == large) for name, each in fields.items()}
        command = kind(**values)
        size_bytes = len(encode_batch(1 << 41, [command]))
        assert size_bytes <= size_bytes_of(command) + NAMES_BYTES, f"{kind.__name__}.{large}"


# Of commands that are guessed: ids and names that were checked before, and what is never set.
BOUNDED_BEFORE = {
    *("job_id", "array_id", "worker_id", "client_id"),
    *("queue", "exec_name", "options", "detail"),
}
NAMES_BYTES = 64


def value_of(kind: inspect.Type, *, large: bool) -> Any:
    """A value of a type, with as much in it as that allows, or as little."""
    if isinstance(kind, inspect.VarTupleType):
        is_id = isinstance(kind.item_type, inspect.BytesType)
        item = IDS[0] if is_id else value_of(kind.item_type, large=True)
        return (item,) * (400 if is_id else 9) if large else ()
    if isinstance(kind, inspect.StructType):
        values = {field.name: value_of(field.type, large=large) for field in kind.fields}
        return kind.cls(**values)
    if isinstance(kind, inspect.UnionType):
        return value_of(kind.types[0], large=large)
    if isinstance(kind, inspect.IntType):
        return 1 << 60 if large else 0
    if isinstance(kind, inspect.BoolType):
        return large
    if isinstance(kind, inspect.EnumType):
        return next(iter(kind.cls))
    assert isinstance(kind, inspect.StrType | inspect.BytesType), kind
    filled = b"x" * (2_000 if large else 0)
    return filled.decode() if isinstance(kind, inspect.StrType) else filled


@pytest.mark.parametrize("jobs", [len(IDS), ENTRY_BYTES_MAX // 128])
def test_a_command_of_many_jobs_counts_each(jobs: int) -> None:
    for command in (
        commands.SubmitBulk("ann", "q", "calc", (BulkItem(IDS[0], b""),) * jobs),
        commands.RedriveJobs((commands.RedriveItem(IDS[0]),) * jobs),
        commands.CancelJobs(IDS[:1] * jobs),
        commands.PurgeJobs(IDS[:1] * jobs),
    ):
        assert size_bytes_of(command) == 128 * jobs


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
    origin = Origin(SILENT.settle, 3, job(1))
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


def test_no_request_makes_an_entry_that_fits_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def encode(stamp_ms: int, batch: list[commands.Command]) -> bytes:
        data = encode_batch(stamp_ms, batch)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(driver, "encode_batch", encode)
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
        wire.SubmitJob(request, "ann", "", "calc", b"", job_key="k" * ENTRY_BYTES_MAX),
        StageJobs(request, "key", "p" * ENTRY_BYTES_MAX, 0, ()),
        CommitBatch(request, "b" * ENTRY_BYTES_MAX, ()),
        DropBatch(request, "b" * ENTRY_BYTES_MAX),
    ):
        (error,) = group.say(1, message)
        assert (error.request_id, error.code) == (request, ErrorCode.BAD_PAYLOAD)
        assert error.hint == "send it in parts"
    confirms = [wire.Confirm(ids[:CONFIRM_JOBS_MAX]) for _ in range(100)]
    assert group.say(1, *confirms) == []
    half = "p" * (ENTRY_BYTES_MAX // 2)
    parts = [StageJobs(one, "key", half, 0, ()) for one in ids[:20]]
    assert {answer.code for answer in group.say(1, *parts)} == {ErrorCode.BAD_OPTIONS}
    assert sum(sizes) > 10 * ENTRY_BYTES_MAX
    assert max(sizes) < FRAME_BYTES_MAX // 2
