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
from rollq.grid.topic_commands import PublishKept
from rollq.roles.client.session.runs import SUBMIT_RUN_JOBS
from rollq.roles.member import driver
from rollq.roles.member.leader.addressing import Address
from rollq.roles.member.leader.joining import count_of
from rollq.roles.member.leader.origins import SILENT, Origin
from rollq.roles.member.leader.proposals import (
    ProposalBatch,
    Proposals,
    size_bytes_of,
    weight_of,
)
from rollq.roles.member.leader.runs import submits_of
from rollq.wire import messages as wire
from rollq.wire.run_messages import SubmitRun
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
    if isinstance(kind, inspect.TupleType):
        return tuple(value_of(each, large=large) for each in kind.item_types)
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
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
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
    for _ in range(20):
        proposals.add(LARGE)  # more than an entry holds
    first = next(proposals.batches())
    proposals.add(commands.OpenClient("second"))
    proposals.put_back(first)
    assert len(proposals) == 21
    again = [command for batch in (*proposals.batches(), *proposals.batches()) for command in batch]
    assert [command for command, _, _ in again] == [*[LARGE] * 20, commands.OpenClient("second")]
    assert len(proposals) == 0


# --- clients take turns

BULK = commands.SubmitBulk("bob", "q", "calc", tuple(BulkItem(one, b"") for one in IDS[:256]))
LONE = commands.SubmitJob(job(1), "ann", "q", "calc", b"x" * 200)
STEP = commands.UnpackBatch("bob", "b", 0)


def of(session: int) -> Origin:
    return Origin(SILENT.settle, session)


def kinds(batch: ProposalBatch) -> list[type]:
    return [type(command) for command, _, _ in batch]


def test_a_lone_submit_is_in_the_next_entry_however_much_another_client_asked_for() -> None:
    proposals = Proposals()
    for _ in range(64):
        proposals.add_request(BULK, of(1))
    proposals.add_request(LONE, of(2))
    first, second = proposals.batches()
    assert kinds(first) == [commands.SubmitJob]
    assert kinds(second) == [commands.SubmitBulk]


def test_no_more_of_what_is_heavy_goes_into_the_log_before_it_is_applied() -> None:
    proposals = Proposals()
    for _ in range(64):
        proposals.add_request(BULK, of(1))
    (bulk,) = proposals.batches()
    proposals.proposed(1, bulk, 0)
    proposals.add_request(LONE, of(2))
    (lone,) = proposals.batches()
    assert kinds(lone) == [commands.SubmitJob]
    proposals.proposed(2, lone, 0)
    assert list(proposals.batches()) == []
    proposals.settled(1)
    assert kinds(*proposals.batches()) == [commands.SubmitBulk]


def test_what_is_heavy_comes_in_time_however_many_ask_for_little() -> None:
    proposals = Proposals()
    proposals.add_request(BULK, of(1))
    for number in range(20 * TURN_COMMANDS_MAX):
        proposals.add_request(LONE, of(2 + number % 500))
    assert commands.SubmitBulk in [kind for batch in proposals.batches() for kind in kinds(batch)]


def test_a_client_that_is_alone_is_not_held_up() -> None:
    proposals = Proposals()
    for _ in range(100):
        proposals.add_request(LONE, of(1))
    (batch,) = proposals.batches()
    assert len(batch) == 100
    largest = commands.SubmitBulk("bob", "q", "calc", BULK.items * 31)
    proposals.add_request(largest, of(1))
    (batch,) = proposals.batches()
    assert kinds(batch) == [commands.SubmitBulk]


def test_a_window_of_small_jobs_takes_several_turns() -> None:
    proposals, number = Proposals(), len(IDS) // SUBMIT_RUN_JOBS
    for at in range(number):
        ids = IDS[at * SUBMIT_RUN_JOBS : (at + 1) * SUBMIT_RUN_JOBS]
        run = SubmitRun(job(at), "ann", "q", "calc", b"".join(ids), (bytes(200),) * len(ids))
        for _, command in submits_of(run, "ann", Address("q", "calc", None), range(len(ids))):
            proposals.add_request(command, of(1))
    turns = []
    while proposals:
        (batch,) = proposals.batches()
        turns.append([count_of(command) for command, _, _ in batch])
    assert turns == [[SUBMIT_RUN_JOBS]] * number


def test_as_many_large_bodies_go_into_a_turn_as_cost_what_small_jobs_do() -> None:
    proposals = Proposals()
    for _ in range(16):
        proposals.add_request(LARGE, of(1))
    assert [len(batch) for batch in proposals.batches()] == [7]


def test_a_kept_message_costs_half_as_much_as_a_job() -> None:
    kept = PublishKept("orders", ("orders.new",), (bytes(200),))
    half, lone = (weight_of((one, SILENT, size_bytes_of(one))) for one in (kept, LONE))
    assert 0.5 <= half / lone < 0.6


def test_what_one_client_asks_for_keeps_its_order() -> None:
    proposals = Proposals()
    proposals.add_request(LONE, of(1))
    proposals.add_request(BULK, of(1))
    proposals.add_request(commands.CancelJobs(IDS[:1]), of(1))
    said = []
    while len(proposals):
        for index, batch in enumerate(proposals.batches()):
            proposals.proposed(index, batch, 0)
            said += kinds(batch)
            proposals.settled(index)
    assert said == [commands.SubmitJob, commands.SubmitBulk, commands.CancelJobs]


def test_a_step_of_a_batch_comes_behind_all_else() -> None:
    proposals = Proposals()
    proposals.add_own([STEP, commands.AssignJob(job(1), b"w" * 16, 1, 1, 1_000)])
    proposals.add_request(LONE, of(1))
    proposals.add(SMALL)
    light, heavy = proposals.batches()
    assert kinds(light) == [commands.OpenClient, commands.SubmitJob, commands.AssignJob]
    assert kinds(heavy) == [commands.UnpackBatch]
    assert heavy.heavy > light.heavy == 0


def test_a_large_body_weighs_less_than_as_many_bytes_of_jobs() -> None:
    large, bulk = ((command, SILENT, size_bytes_of(command)) for command in (LARGE, BULK))
    assert 2 * weight_of(large) < weight_of(bulk)
    assert weight_of(large) > 16 * weight_of((LONE, SILENT, size_bytes_of(LONE)))


def test_only_the_session_of_which_much_waits_is_busy() -> None:
    proposals = Proposals()
    for _ in range(8):
        proposals.add_request(BULK, of(1))
    proposals.add_request(LONE, of(2))
    assert proposals.is_busy_with(1)
    assert not proposals.is_busy_with(2)
    assert not proposals.is_busy_with(3)
    assert not proposals.is_busy()


def test_origins_are_found_by_the_index_of_their_entry() -> None:
    proposals = Proposals()
    origin = Origin(SILENT.settle, 3, job(1))
    proposals.proposed(7, ProposalBatch([(SMALL, origin, 1)]), 0)
    assert proposals.settled(6) is None
    assert proposals.settled(7) == [(SMALL, origin, 1)]
    assert proposals.settled(7) is None


def test_nothing_is_left_when_leadership_is() -> None:
    proposals = Proposals()
    proposals.add(LARGE)
    proposals.proposed(7, ProposalBatch([(SMALL, SILENT, 1)]), 0)
    proposals.clear()
    assert list(proposals.batches()) == []
    assert proposals.settled(7) is None


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


def test_every_command_that_is_not_applied_is_told() -> None:
    proposals = Proposals()
    waits, asks, own = (commands.CancelJobs((bytes([n]) * 16,)) for n in (1, 2, 3))
    proposals.add(waits)
    proposals.add_request(asks, SILENT)
    proposals.add_own([own])
    assert list(proposals.commands()) == [waits, asks, own]
    batches = list(proposals.batches())
    assert list(proposals.commands()) == []  # in the hands of whoever takes them
    for index, batch in enumerate(batches, 1):
        proposals.proposed(index, batch, 0)
    said: list[Any] = list(proposals.commands())
    assert {job_id for command in said for job_id in command.job_ids} == {
        *waits.job_ids,
        *asks.job_ids,
        *own.job_ids,
    }
    for index in range(1, len(batches) + 1):
        proposals.settled(index)
    assert list(proposals.commands()) == []
