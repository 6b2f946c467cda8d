"""Each law must be able to fail: one deliberate breach a law, found under its name."""

from collections.abc import Callable

import msgspec
import pytest

from rollq.base.access_rules import AccessRole, Account
from rollq.base.jobs import BlobRef, CacheEntry, ParentRef
from rollq.base.staged import StagedGroup, StagedPart, chunk_crc, part_crc
from rollq.grid import invariants
from rollq.grid.commands import CancelJobs, CommitBatch, PutCache, StageJobs, SubmitJob
from rollq.grid.edge_records import ParentsRecord
from rollq.grid.rule_commands import PutLimit
from rollq.grid.schedule_commands import PutSchedule, ScheduleSpec
from rollq.grid.schedule_records import ScheduleRecord
from rollq.grid.state import (
    ASSIGNED,
    DEAD,
    DONE,
    QUEUED,
    BlobCount,
    ClientRecord,
    PastRecord,
    QueueRecord,
    ReaderRecord,
)
from rollq.grid.topic_commands import PublishKept, PutTopic
from rollq.grid.topic_records import Cursor, TopicRecord
from tests.unit.grid.kit import Grid, job_id, worker_id

BLOB = BlobRef(b"b" * 32, 7)


def sound() -> Grid:
    grid = Grid()
    grid.start("run", "end", max_attempts=3)
    grid.ack("end")
    grid.submit("wait")
    grid.submit("later", delay_ms=5)
    grid.submit_array("many", 4, running_max=2)
    grid.assign_task("many")
    grid.apply(
        PutCache("data", (CacheEntry("a", BLOB),), ">"),
        SubmitJob(job_id("files"), "ann", "q", "exe", b"", None, (BLOB,), ("data",)),
    )
    return grid


def leak_blob(grid: Grid) -> None:
    grid.state.blobs[BLOB.digest].count += 1


def lose_blob(grid: Grid) -> None:
    del grid.state.blobs[BLOB.digest]


def give_blob_to_a_stranger(grid: Grid) -> None:
    grid.state.blobs[BLOB.digest].holders = {"ann": 1, "bob": 1}


def keep_blob_of_nobody(grid: Grid) -> None:
    grid.state.blobs[bytes(32)] = BlobCount(1, 0)


def change_size(grid: Grid) -> None:
    grid.state.blobs[BLOB.digest].size += 1


def leak_cache(grid: Grid) -> None:
    grid.state.caches["data"].user_count += 1


def need_files_after_the_end(grid: Grid) -> None:
    grid.job("end").past = PastRecord(blobs=(BLOB,))


def swap_client(grid: Grid) -> None:
    grid.job("wait").client = ClientRecord("ann")


def share_seq(grid: Grid) -> None:
    grid.job("wait").seq = grid.job("run").seq


def run_ahead(grid: Grid) -> None:
    grid.state.last_seq = 1


def end_without_record(grid: Grid) -> None:
    grid.job("wait").state = DONE


def stop_what_ended(grid: Grid) -> None:
    grid.job("end").cancel_requested = True


def lose_worker(grid: Grid) -> None:
    del grid.state.workers[worker_id("w1")]


def share_fence(grid: Grid) -> None:
    grid.job("many").fence = grid.job("run").fence


def fence_what_waits(grid: Grid) -> None:
    grid.job("wait").fence = 1


def delay_what_is_queued(grid: Grid) -> None:
    grid.job("wait").delay_ms = 1


def start_too_often(grid: Grid) -> None:
    grid.job("run").attempt = 4


def run_too_many(grid: Grid) -> None:
    grid.array("many").running = 3


def skip_task(grid: Grid) -> None:
    grid.array("many").next_number = 2


def miscount_ends(grid: Grid) -> None:
    grid.array("many").ended_counts[DEAD] = 1


def take_next_id(grid: Grid) -> None:
    grid.array("many").next_number = 0


def end_in_bitmap_only(grid: Grid) -> None:
    grid.array("many").chunks[0] = bytearray([1])


def leak_in_flight(grid: Grid) -> None:
    grid.state.clients["ann"].in_flight += 1


def leak_records(grid: Grid) -> None:
    grid.state.clients["ann"].record_count += 1


def forget_debt(grid: Grid) -> None:
    record = grid.job("end")
    assert record.end is not None
    record.client.owed.remove(record.end.seq)


def miscount_queue(grid: Grid) -> None:
    grid.state.queues["q"].counts[ASSIGNED] += 1


def drop_held(grid: Grid) -> None:
    grid.state.workers[worker_id("w1")].held.pop(job_id("run"))


def close_task(grid: Grid) -> None:
    grid.array("many").open_tasks.clear()


def bury_the_living(grid: Grid) -> None:
    grid.state.dead.add(1, job_id("wait"))


def keep_empty_queue(grid: Grid) -> None:
    grid.state.queues["empty"] = QueueRecord("empty")


def lose_idle_client(grid: Grid) -> None:
    grid.state.clients["bob"] = ClientRecord("bob")


def drop_queue(grid: Grid) -> None:
    del grid.state.queues["q"]


def drop_array(grid: Grid) -> None:
    grid.state.arrays.clear()


def misname_job(grid: Grid) -> None:
    grid.state.jobs[job_id("other")] = grid.state.jobs.pop(job_id("wait"))


def misname_array(grid: Grid) -> None:
    grid.state.arrays[bytes(12)] = grid.state.arrays.pop(job_id("many")[:12])


def misname_client(grid: Grid) -> None:
    grid.state.clients["eve"] = grid.state.clients["ann"]


def misname_worker(grid: Grid) -> None:
    grid.state.workers[worker_id("w9")] = grid.state.workers[worker_id("w1")]


def committed_batch(grid: Grid) -> None:
    """A batch that is accepted and not unpacked."""
    group = StagedGroup("q", "exe", job_id("new"), (1,), b"x")
    grid.apply(StageJobs("ann", "b", "p", 0, (group,)))
    part = StagedPart("p", 1, part_crc([chunk_crc((group,))]))
    grid.apply(CommitBatch("ann", "b", (part,)))


def reserve_nothing(grid: Grid) -> None:
    committed_batch(grid)
    grid.state.reserved.clear()


def bury_what_is_reserved(grid: Grid) -> None:
    committed_batch(grid)
    chunks = grid.state.committed["ann", "b"].chunks
    chunks[0] = msgspec.structs.replace(chunks[0], redrives=True)


def misname_batch(grid: Grid) -> None:
    committed_batch(grid)
    grid.state.committed["ann", "other"] = grid.state.committed.pop(("ann", "b"))


def finish_batch(grid: Grid) -> None:
    committed_batch(grid)
    grid.state.committed["ann", "b"].chunks.clear()


def miscount_staged(grid: Grid) -> None:
    committed_batch(grid)
    grid.state.staged_count += 1
    grid.state.staged_bytes += 1


def change_chunk(grid: Grid) -> None:
    committed_batch(grid)
    chunks = grid.state.committed["ann", "b"].chunks
    chunks[0] = msgspec.structs.replace(chunks[0], crc=1, job_ids=job_id("two"))


def lose_place_of_reader(grid: Grid) -> None:
    grid.state.readers["nightly"] = ReaderRecord(0, 0)


def lose_role_of_account(grid: Grid) -> None:
    grid.state.access.accounts["ann"] = Account("ann", ("gone",))


def misname_account(grid: Grid) -> None:
    grid.state.access.accounts["ann"] = Account("bob")


def misname_role(grid: Grid) -> None:
    grid.state.access.roles["nights"] = AccessRole("admin")


def leak_token(grid: Grid) -> None:
    grid.apply(PutLimit("exec", "exe", 3))
    grid.state.limits["exec", "exe"].running += 1


def wind_a_clock(grid: Grid) -> None:
    grid.apply(PutLimit("exec", "exe", 3))
    grid.state.limits["exec", "exe"].due_us = 1


def miscount_topic(grid: Grid) -> None:
    publish(grid).size_bytes += 1


def keep_too_many(grid: Grid) -> None:
    publish(grid).count_max = 2


def read_ahead(grid: Grid) -> None:
    publish(grid).cursors["billing"] = Cursor(index=4, stamp_ms=0)


def publish(grid: Grid) -> TopicRecord:
    """A topic that keeps three messages."""
    put = PutTopic("news", ("news.>",), age_ms=0, bytes_max=1 << 20, count_max=3)
    grid.apply(put, PublishKept("news", ("news.a",) * 3, (b"1", b"2", b"3")))
    assert invariants.check(grid.state) == []
    return grid.state.topics.by_name["news"]


def lose_child(grid: Grid) -> None:
    grid.submit("child", after=(ParentRef(job_id("wait")),))
    grid.state.edges.children.clear()


def let_child_go(grid: Grid) -> None:
    grid.submit("child", after=(ParentRef(job_id("wait")),))
    grid.job("child").state = QUEUED


def forget_parent(grid: Grid) -> None:
    grid.state.edges.parents[job_id("nobody")] = ParentsRecord(bytearray())


def fire_backwards(grid: Grid) -> None:
    schedule(grid).last_due_ms = 60_000


def misname_schedule(grid: Grid) -> None:
    grid.state.schedules.by_name["other"] = grid.state.schedules.by_name.pop(schedule(grid).name)


def move_an_instant(grid: Grid) -> None:
    schedule(grid).next_ms += 1_000


def schedule(grid: Grid) -> ScheduleRecord:
    """A schedule that fires every minute."""
    spec = ScheduleSpec("beat", "ann", "q", "exe", b"", every_ms=60_000)
    grid.apply(PutSchedule(spec, 60_000))
    return grid.state.schedules.by_name["beat"]


BREACHES: dict[Callable[[Grid], None], str] = {
    fire_backwards: "schedules_are_bounded",
    misname_schedule: "schedules_are_bounded",
    move_an_instant: "schedules_are_bounded",
    miscount_topic: "topics_are_counted_and_bounded",
    keep_too_many: "topics_are_counted_and_bounded",
    read_ahead: "topics_are_counted_and_bounded",
    reserve_nothing: "accepted_jobs_are_reserved",
    misname_batch: "accepted_jobs_are_reserved",
    finish_batch: "accepted_jobs_are_reserved",
    bury_what_is_reserved: "accepted_jobs_are_reserved",
    miscount_staged: "what_is_staged_is_counted",
    change_chunk: "what_is_staged_is_counted",
    lose_place_of_reader: "readers_are_few_and_bounded",
    lose_role_of_account: "access_lists_are_sound",
    misname_account: "access_lists_are_sound",
    misname_role: "access_lists_are_sound",
    leak_token: "tokens_are_counted",
    wind_a_clock: "tokens_are_counted",
    swap_client: "owners_are_in_the_tables",
    drop_queue: "owners_are_in_the_tables",
    drop_array: "owners_are_in_the_tables",
    misname_job: "keys_name_records",
    misname_array: "keys_name_records",
    misname_client: "keys_name_records",
    misname_worker: "keys_name_records",
    share_seq: "sequence_numbers_are_unique",
    run_ahead: "sequence_numbers_are_unique",
    end_without_record: "ended_jobs_have_an_end",
    stop_what_ended: "ended_jobs_have_an_end",
    lose_worker: "attempts_are_fenced",
    share_fence: "attempts_are_fenced",
    fence_what_waits: "attempts_are_fenced",
    delay_what_is_queued: "only_delayed_jobs_have_a_delay",
    start_too_often: "attempts_stay_below_their_maximum",
    run_too_many: "running_tasks_stay_below_their_maximum",
    skip_task: "tasks_are_accounted_for",
    miscount_ends: "tasks_are_accounted_for",
    take_next_id: "tasks_are_accounted_for",
    end_in_bitmap_only: "tasks_agree_with_their_arrays",
    leak_in_flight: "derived_fields_follow",
    leak_records: "derived_fields_follow",
    forget_debt: "derived_fields_follow",
    miscount_queue: "derived_fields_follow",
    drop_held: "derived_fields_follow",
    close_task: "derived_fields_follow",
    bury_the_living: "derived_fields_follow",
    keep_empty_queue: "nothing_empty_is_kept",
    lose_idle_client: "nothing_empty_is_kept",
    leak_blob: "references_are_counted",
    lose_blob: "references_are_counted",
    give_blob_to_a_stranger: "references_are_counted",
    keep_blob_of_nobody: "references_are_counted",
    change_size: "references_are_counted",
    leak_cache: "references_are_counted",
    need_files_after_the_end: "only_runnable_jobs_need_files",
    lose_child: "children_wait_for_their_parents",
    let_child_go: "children_wait_for_their_parents",
    forget_parent: "children_wait_for_their_parents",
}


@pytest.mark.parametrize("breach", BREACHES, ids=lambda one: one.__name__)
def test_a_breach_is_named(breach: Callable[[Grid], None]) -> None:
    grid = sound()
    breach(grid)
    found = invariants.check(grid.state)
    assert any(text.startswith(BREACHES[breach] + ":") for text in found), found


def test_a_sound_state_breaks_no_law() -> None:
    grid = sound()
    grid.apply(CancelJobs((job_id("many"),)))
    assert invariants.check(grid.state) == []


def test_every_law_is_broken_by_some_test() -> None:
    laws = {law.__name__ for law in (*invariants.STRUCTURE, *invariants.LAWS)}
    assert laws == set(BREACHES.values())
