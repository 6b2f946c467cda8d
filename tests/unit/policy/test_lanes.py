"""Lanes keep the order of seq, take little room, and rid themselves of what waits no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.jobs import JobOptions
from rollq.grid.state import CANCELLED, QUEUED, ClientRecord, GridState, JobRecord
from rollq.policy.holds import Holds
from rollq.policy.lanes import STALE_MIN, Lane, QueueLanes

OPTIONS = JobOptions()
ANN, BOB = ClientRecord("ann"), ClientRecord("bob")


def job(seq: int, client: ClientRecord = ANN, priority: int = 0) -> JobRecord:
    options = JobOptions(priority=priority) if priority else OPTIONS
    return JobRecord(seq.to_bytes(16, "big"), client, "q", "exe", b"", options, QUEUED, seq, 0)


def drain(queue: QueueLanes) -> list[int]:
    holds = Holds(GridState())
    taken = []
    while (item := queue.take(holds)) is not None:
        taken.append(item.seq)
    return taken


@given(st.lists(st.integers(0, 2), max_size=400), st.randoms(use_true_random=False))
def test_a_lane_is_a_sorted_list(steps: list[int], chance: object) -> None:
    draw = chance.randrange  # type: ignore[attr-defined]
    lane, model = Lane(job(1_000_000), job(1_000_001)), [1_000_000, 1_000_001]
    for number, step in enumerate(steps):
        if step and len(model) > 1:
            lane.drop_first()
            model.pop(0)
        else:
            seq = draw(2_000_000) * 1_000 + number
            lane.add(job(seq))
            model = sorted([*model, seq])
        first = lane.first()
        assert first is not None
        assert first.seq == model[0]
    assert [item.seq for item in lane[lane.head :] if item is not None] == model


def test_a_lane_gives_back_the_room_of_what_was_taken() -> None:
    lane = Lane(job(1), job(2))
    for seq in range(3, 10_001):
        lane.add(job(seq))
    for _ in range(9_990):
        lane.drop_first()
    assert len(lane) < 100
    assert lane.first() is not None


def test_one_job_of_a_client_needs_no_lane() -> None:
    queue = QueueLanes("q")
    queue.push(job(1))
    level = queue.levels[0]
    assert level is not None
    assert isinstance(level.lanes[ANN], JobRecord)
    queue.push(job(2))
    assert isinstance(level.lanes[ANN], Lane)
    assert drain(queue) == [1, 2]
    assert not level.lanes
    assert queue.size == 0


def test_turns_by_level_client_and_seq() -> None:
    queue = QueueLanes("q")
    for record in (job(5), job(3), job(4, BOB), job(9, BOB, 7), job(8, ANN, 7)):
        queue.push(record)
    assert drain(queue) == [9, 8, 3, 4, 5]


def test_a_paused_queue_gives_nothing_and_keeps_everything() -> None:
    queue = QueueLanes("q")
    queue.push(job(1))
    queue.is_paused = True
    assert drain(queue) == []
    assert not queue.is_runnable
    queue.is_paused = False
    assert drain(queue) == [1]


def test_a_follower_keeps_nothing_of_what_was_assigned() -> None:
    """The leader takes, followers are only told: their lanes must not grow."""
    queue = QueueLanes("q")
    for seq in range(1, 5_000):
        record = job(seq, ClientRecord(f"client{seq}"))
        queue.push(record)
        record.state = CANCELLED
        queue.mark_stale(record)
    level = queue.levels[0]
    assert level is not None
    assert queue.size == 0
    assert len(level.lanes) == len(level.ring) <= 2 * STALE_MIN + 2
    assert drain(queue) == []


def test_what_ended_in_the_middle_is_swept_out() -> None:
    queue = QueueLanes("q")
    records = [job(seq, ANN if seq % 2 else BOB) for seq in range(1, 1_001)]
    for record in records:
        queue.push(record)
    for record in records[2:-2]:
        record.state = CANCELLED
        queue.mark_stale(record)
    assert queue.size < 3 * STALE_MIN
    assert drain(queue) == [1, 2, 999, 1_000]


def test_a_sweep_leaves_one_job_of_a_lane_and_drops_empty_ones() -> None:
    queue = QueueLanes("q")
    keep, gone = job(1_000), [job(seq, BOB) for seq in range(1, 200)]
    lost = [job(seq) for seq in range(200, 400)]
    for record in (*gone, *lost, keep):
        queue.push(record)
    for record in reversed((*gone, *lost)):
        record.state = CANCELLED
        queue.mark_stale(record)
    assert drain(queue) == [1_000]


def test_a_client_returns_to_the_place_of_its_emptied_lane() -> None:
    queue = QueueLanes("q")
    first, second = job(1), job(2)
    queue.push(first)
    queue.push(second)
    queue.push(job(3, BOB))
    for record in (first, second):
        record.state = CANCELLED
        queue.mark_stale(record)
    queue.push(job(4))
    level = queue.levels[0]
    assert level is not None
    assert len(level.ring) == 2
    assert drain(queue) == [4, 3]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), max_size=12), st.booleans())
def test_runs_stand_as_if_pushed_one_by_one(runs: list[tuple[int, int]], backwards: bool) -> None:
    alike, one_by_one = QueueLanes("q"), QueueLanes("q")
    seq = 0
    parts = []
    for client, length in runs:
        parts.append([job(seq + n, (ANN, BOB)[client]) for n in range(1, length + 1)])
        seq += length
    for part in reversed(parts) if backwards else parts:
        alike.push_run(list(part))
        for each in part:
            one_by_one.push(each)
    assert alike.size == one_by_one.size == seq
    assert drain(alike) == drain(one_by_one)
