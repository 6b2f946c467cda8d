from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.ids import task_id
from rollq.base.jobs import BulkItem
from rollq.base.sealed import seal, sealed_bytes
from rollq.grid.apply import apply_entry
from rollq.grid.bodies import Token
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import (
    AssignTask,
    CancelJobs,
    CloseWorker,
    ConfirmResults,
    OpenClient,
    PauseQueue,
    RedriveItem,
    RedriveJobs,
    SetSettings,
    Settings,
    SubmitBulk,
)
from rollq.grid.invariants import check
from rollq.grid.snapshot import PREFACE_BYTES, VERSION, decode_snapshot, encode_snapshot, head_bytes
from rollq.grid.state import GridState, JobState
from tests.unit.grid.kit import Grid, job_id, worker_id

Key = TypeVar("Key")
Value = TypeVar("Value")
CROWDS, ROWS = 10, 11  # places in the head


def turn_round(table: dict[Key, Value]) -> None:
    """The same entries in the opposite order."""
    entries = list(table.items())
    table.clear()
    table.update(reversed(entries))


def busy_grid() -> Grid:
    """Something of everything."""
    grid = Grid(workers=("w1", "w2"))
    grid.apply(OpenClient("idle", 4), PauseQueue("paused"), SetSettings(Settings(client_cap=50)))
    grid.submit("a", "b", "c", "d", priority=2, max_attempts=1)
    grid.submit("later", delay_ms=9)
    grid.submit("x", client="bob", queue="r")
    grid.apply(SubmitBulk("cid", "s", "exe", (BulkItem(job_id("bulk"), b""),), None, "key"))
    grid.submit_array("many", 100, running_max=4, max_attempts=2)
    grid.apply(*(AssignTask(job_id("many"), worker_id("w2"), 1, 5) for _ in range(3)))
    grid.assign("b", "a", "c", "d")
    grid.ack("a")
    grid.nack("b")
    grid.nack("c")
    grid.apply(RedriveJobs((RedriveItem(job_id("c"), b"edited"),)))
    grid.nack("many")
    grid.ack("d")
    grid.apply(ConfirmResults("ann", (job_id("d"),)), CancelJobs((task_id(job_id("many"), 1),)))
    return grid


def test_a_state_survives_the_round_trip() -> None:
    grid = busy_grid()
    data = encode_snapshot(grid.state)
    copy = decode_snapshot(data)
    assert not check(copy)
    assert encode_snapshot(copy) == data
    assert copy.applied_index == grid.state.applied_index
    assert copy.log_hash == grid.state.log_hash


def test_a_copy_goes_on_as_the_original_does() -> None:
    grid = busy_grid()
    copy = decode_snapshot(encode_snapshot(grid.state))
    for command in (
        CloseWorker(worker_id("w2"), 1),
        CancelJobs((job_id("many"), job_id("x"))),
        AssignTask(job_id("many"), worker_id("w1"), 1, 5),
        SubmitBulk("cid", "s", "exe", (BulkItem(job_id("bulk"), b""),), None, "key"),
    ):
        data = encode_batch(5_000, [command])
        index = grid.state.applied_index + 1
        assert apply_entry(copy, index, data) == apply_entry(grid.state, index, data)
    assert encode_snapshot(copy) == encode_snapshot(grid.state)


def test_bytes_do_not_depend_on_the_order_of_tables() -> None:
    grid = busy_grid()
    data = encode_snapshot(grid.state)
    turn_round(grid.state.jobs)
    turn_round(grid.state.arrays)
    turn_round(grid.state.clients)
    turn_round(grid.state.workers)
    turn_round(grid.state.queues)
    assert encode_snapshot(grid.state) == data


def test_names_and_options_are_shared_again() -> None:
    copy = decode_snapshot(encode_snapshot(busy_grid().state))
    one, two = copy.jobs[job_id("b")], copy.jobs[job_id("c")]
    assert one.options is two.options
    assert one.queue is two.queue
    task = copy.jobs[task_id(job_id("many"), 1)]
    assert task.array is copy.array_of(job_id("many"))
    assert task.array is not None
    assert task.body is task.array.body
    assert task.worker_id is copy.workers[worker_id("w2")].worker_id


def test_a_newer_snapshot_is_refused() -> None:
    data = encode_snapshot(GridState())
    for other in (bytes([VERSION + 1]) + data[1:], b""):
        with pytest.raises(LocalError) as caught:
            decode_snapshot(other)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_damaged_snapshot_is_reported() -> None:
    data = encode_snapshot(busy_grid().state)
    for damaged in (data[:-1], data[:1], data + b"x", data.replace(b"\xa3ann", b"\xa3eve", 1)):
        with pytest.raises(DiskError) as caught:
            decode_snapshot(damaged)
        assert caught.value.code is ErrorCode.SNAPSHOT_CORRUPT


def with_head(data: bytes, change: Callable[[list[Any]], None]) -> bytes:
    """A snapshot whose head was meddled with."""
    end = head_bytes(data)
    head = msgspec.msgpack.decode(data[PREFACE_BYTES:end])
    change(head)
    changed = msgspec.msgpack.encode(head)
    return data[:1] + len(changed).to_bytes(8, "little") + changed + data[end:]


def test_a_job_in_no_known_state_is_reported() -> None:
    grid = Grid()
    grid.submit("a", delay_ms=5)

    def change(head: list[Any]) -> None:
        rows = msgspec.msgpack.decode(head[ROWS][0])
        rows[0][6] = 77
        head[ROWS] = [msgspec.msgpack.encode(rows)]

    with pytest.raises(DiskError):
        decode_snapshot(with_head(encode_snapshot(grid.state), change))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, "eve"),  # nobody's
        (4, b""),
        (4, bytes(15)),
        (4, bytes(32)),  # the same id twice
        (5, []),
        (5, [1]),
        (5, [1, 3]),
        (5, [-1, 2]),
        (6, [1, 1]),
        (6, [1, 1, 1, -1, 1, 2]),
        (7, [1, 1 << 40]),
        (7, [1 << 40, 2]),
        (7, [0, 2]),  # bytes are left over
    ],
)
def test_a_crowd_that_contradicts_itself_is_reported(column: int, value: object) -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("b")

    def change(head: list[Any]) -> None:
        head[CROWDS][0][column] = value

    with pytest.raises(DiskError) as caught:
        decode_snapshot(with_head(encode_snapshot(grid.state), change))
    assert caught.value.code is ErrorCode.SNAPSHOT_CORRUPT


def test_jobs_that_wait_for_their_first_attempt_stand_in_crowds() -> None:
    grid = Grid()
    for name in ("aaa", "bbb", "ccc", "ddd"):
        grid.submit(name, client="ann" if name != "bbb" else "bob")
    data = encode_snapshot(grid.state)
    head = msgspec.msgpack.decode(data[PREFACE_BYTES : head_bytes(data)])
    ann, bob = head[CROWDS]
    assert (ann[0], bob[0]) == ("ann", "bob")
    assert ann[4] == job_id("aaa") + job_id("ccc") + job_id("ddd")
    bodies = b"".join(seal(body) for body in (b"aaa", b"ccc", b"ddd", b"bbb"))
    assert data[head_bytes(data) :] == bodies
    assert len(ann[5]) == 4  # two runs: bob's job came between
    assert (ann[7], bob[7]) == ([3, 3], [3, 1])
    copy = decode_snapshot(data)
    assert {job.job_id: job.body for job in copy.jobs.values()} == {
        job_id(name): name.encode() for name in ("aaa", "bbb", "ccc", "ddd")
    }
    assert copy.queues["q"].counts[JobState.QUEUED] == 4


class Shelved:
    """Bodies that are numbers: where they stand in a list."""

    def __init__(self) -> None:
        self.kept: list[bytes | None] = []

    def entering(self, index: int, data: bytes) -> None:
        """It does not matter."""

    def keep(self, body: bytes) -> Token:
        """Put it away."""
        self.kept.append(body)
        return len(self.kept) - 1

    def load(self, token: Token) -> bytes:
        """Fetch it."""
        if isinstance(token, bytes):
            return token
        body = self.kept[token]
        assert body is not None, "dropped before"
        return body

    def keep_all(self, bodies: Sequence[bytes]) -> Sequence[Token]:
        """Put them away one by one."""
        return [self.keep(body) for body in bodies]

    def load_all(self, tokens: Sequence[Token]) -> Sequence[bytes]:
        """Fetch them one by one."""
        return [self.load(token) for token in tokens]

    def sealed(self, tokens: Sequence[Token]) -> Iterator[bytes]:
        """Fetch them one by one."""
        return map(seal, map(self.load, tokens))

    def size(self, token: Token) -> int:
        """Fetch and count it."""
        return len(self.load(token))

    def drop_all(self, tokens: Sequence[Token]) -> None:
        """Once only."""
        for token in tokens:
            self.load(token)
            assert isinstance(token, int)
            self.kept[token] = None


def test_bytes_do_not_depend_on_where_bodies_are() -> None:
    data = encode_snapshot(busy_grid().state)
    end = head_bytes(data)
    shelved = Shelved()

    def adopt(offset: int, sizes: list[int]) -> list[Token]:
        places = accumulate(map(sealed_bytes, sizes), initial=offset)
        return [shelved.keep(data[at : at + n]) for at, n in zip(places, sizes, strict=False)]

    state = decode_snapshot(data[:end], shelved, adopt)
    assert encode_snapshot(state) == data
