import msgspec
import pytest

from rollq.base import limits
from rollq.base.errors import ErrorCode
from rollq.base.jobs import DEFAULT_OPTIONS, BulkItem, JobOptions
from rollq.grid import admission
from rollq.grid.bounds import Bounds
from rollq.grid.commands import AckJob, ForgetJobs, SubmitArray, SubmitBulk, SubmitJob
from rollq.grid.effects import Done, Duplicate, Refused, SendResult
from rollq.grid.state import DELAYED, QUEUED
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, submit


def bulk(*names: str, key: str = "", client: str = "ann", body: bytes = b"b") -> SubmitBulk:
    items = tuple(BulkItem(job_id(name), body) for name in names)
    return SubmitBulk(client, "q", "exe", items, None, key)


def test_a_new_job_is_queued() -> None:
    grid = Grid()
    applied = grid.submit("a", priority=3)
    assert applied.outcomes == [Done(1)]
    event = applied.events[0]
    assert (event.kind, event.priority, event.body_bytes) == ("enqueue", 3, 1)
    assert grid.job("a").state is QUEUED
    assert grid.job("a").stamp_ms == applied.stamp_ms


def test_a_delayed_job_waits_aside() -> None:
    grid = Grid()
    applied = grid.submit("a", delay_ms=50)
    assert [(event.kind, event.delay_ms) for event in applied.events] == [("delay", 50)]
    assert grid.job("a").state is DELAYED


def test_jobs_share_names_and_options() -> None:
    grid = Grid()
    grid.submit("a", "b", priority=2)
    one, two = grid.job("a"), grid.job("b")
    assert one.options is two.options
    assert one.queue is two.queue
    assert one.exec_name is two.exec_name
    assert one.client is two.client


def test_spelt_out_defaults_are_the_defaults() -> None:
    grid = Grid()
    grid.apply(SubmitJob(job_id("a"), "ann", "q", "exe", b"a", JobOptions()))
    assert grid.job("a").options is DEFAULT_OPTIONS
    assert grid.submit("a").outcomes == [Duplicate(ended=False)]


def test_the_cache_of_options_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_OPTIONS_SEEN_MAX", 2)
    grid = Grid()
    for number in range(1, 6):
        grid.submit(f"j{number}", priority=number)
        assert len(grid.state.options_seen) <= 2
    assert grid.job("j1").options.priority == 1


def test_a_repeated_submit_changes_nothing() -> None:
    grid = Grid()
    grid.submit("a")
    applied = grid.submit("a")
    assert applied.outcomes == [Duplicate(ended=False)]
    assert not applied.events
    assert len(grid.state.jobs) == 1


def test_a_repeated_submit_of_an_ended_job_gets_the_result_again() -> None:
    grid = Grid()
    grid.start("a")
    first = grid.ack("a").effects[0]
    applied = grid.submit("a")
    assert applied.outcomes == [Duplicate(ended=True)]
    assert isinstance(first, SendResult)
    assert applied.effects == [first]
    assert grid.job("a").body == b"a"  # a short one stays, for people to ask about


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (submit("a", body=b"other"), "a job with other arguments, files, payload or environment"),
        (submit("a", client="bob"), "a job of client ann"),
        (submit("a", queue="r"), "a job in the queue q"),
        (submit("a", priority=1), "a job with other options"),
        (SubmitJob(job_id("a"), "ann", "q", "other", b"a"), "a job of the program exe"),
        (SubmitJob(job_id("a"), "ann", "q", "exe", b"a", key="k"), "a job with no key"),
    ],
)
def test_an_id_names_one_job_for_ever(other: SubmitJob, why: str, ended: bool) -> None:
    grid = Grid()
    grid.start("a")
    if ended:
        grid.ack("a")
    outcome = grid.ask(other)
    assert outcome == Refused(ErrorCode.JOB_CONFLICT, f"the id belongs to {why}", job_id("a"))


def test_a_key_is_told_by_its_name() -> None:
    """Whoever gave a key knows of no id."""
    grid = Grid()
    first = SubmitJob(job_id("a"), "ann", "q", "exe", b"a", key="row-1")
    grid.apply(first)
    outcome = grid.ask(msgspec.structs.replace(first, exec_name="other"))
    assert isinstance(outcome, Refused)
    assert outcome.message == "the key 'row-1' belongs to a job of the program exe"
    two = (BulkItem(job_id("b"), b"1", (), "k"), BulkItem(job_id("b"), b"2", (), "k"))
    outcome = grid.ask(SubmitBulk("ann", "q", "exe", two))
    assert isinstance(outcome, Refused)
    assert outcome.message == "the key 'k' is that of two jobs that differ"


@pytest.mark.parametrize(
    "command",
    [
        submit("a", priority=limits.PRIORITY_MAX + 1),
        submit("a", priority=-1),
        submit("a", max_attempts=limits.ATTEMPTS_MAX + 1),
        submit("a", delay_ms=-1),
        submit("a", lease_ms=limits.LEASE_MS_MIN - 1),
        submit("a", expire_ms=limits.DURATION_MS_MAX + 1),
        submit("a", retry_exit_codes=tuple(range(limits.RETRY_EXIT_CODES_MAX + 1))),
        submit("a", worker_name="w" * (limits.WORKER_NAME_BYTES_MAX + 1)),
        submit("a", body=bytes(limits.INLINE_BYTES_MAX + 1)),
        submit("a", queue=""),
        submit("a", queue="é" * limits.QUEUE_NAME_BYTES_MAX),
        submit("a", client=""),
        submit("a", client="c" * (limits.CLIENT_ID_BYTES_MAX + 1)),
        SubmitJob(b"short", "ann", "q", "exe", b""),
        SubmitJob(job_id("a"), "ann", "q", "e" * (limits.EXEC_NAME_BYTES_MAX + 1), b""),
    ],
)
def test_what_is_out_of_bounds_is_refused(command: SubmitJob) -> None:
    grid = Grid()
    assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS
    assert not grid.state.jobs
    assert not grid.state.clients
    assert not grid.state.queues


def test_a_full_grid_refuses_new_jobs_and_knows_old_ones() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(jobs=2)
    grid.submit("a", "b")
    assert refusal(grid.ask(submit("c"))) is ErrorCode.GRID_FULL
    assert refusal(grid.ask(bulk("c"))) is ErrorCode.GRID_FULL
    assert grid.ask(submit("a")) == Duplicate(ended=False)


def test_full_tables_of_queues_and_clients_refuse() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(queues=1, clients=1)
    grid.submit("a")
    assert refusal(grid.ask(submit("b", queue="r"))) is ErrorCode.GRID_FULL
    assert refusal(grid.ask(submit("b", client="bob"))) is ErrorCode.GRID_FULL


def test_ids_of_tasks_are_taken() -> None:
    grid = Grid()
    array = bytes(12) + b"\0\0\0\5"
    grid.apply(SubmitArray(array, "ann", "q", "exe", b"", 10))
    inside, outside = bytes(12) + b"\0\0\0\x0e", bytes(12) + b"\0\0\0\x0f"
    assert refusal(grid.ask(SubmitJob(inside, "ann", "q", "exe", b""))) is ErrorCode.ID_CONFLICT
    assert grid.ask(SubmitJob(outside, "ann", "q", "exe", b"")) == Done(1)


def test_bulk_is_one_fact_a_job() -> None:
    grid = Grid()
    applied = grid.apply(bulk("a", "b", "c"))
    assert applied.outcomes == [Done(3)]
    assert kinds(applied) == ["enqueue"] * 3
    assert [grid.job(name).seq for name in "abc"] == sorted(grid.job(name).seq for name in "abc")


def test_bulk_may_be_delayed() -> None:
    grid = Grid()
    items = (BulkItem(job_id("a"), b""),)
    grid.apply(SubmitBulk("ann", "q", "exe", items, JobOptions(delay_ms=9)))
    assert grid.job("a").state is DELAYED


def test_bulk_is_all_or_none() -> None:
    grid = Grid()
    grid.submit("b")
    outcome = grid.ask(bulk("a", "b", body=b"other"))
    assert refusal(outcome) is ErrorCode.JOB_CONFLICT
    assert len(grid.state.jobs) == 1


def test_bulk_refuses_a_bad_item_and_bad_names() -> None:
    grid = Grid()
    assert refusal(grid.ask(bulk("a", body=bytes(70_000)))) is ErrorCode.BAD_OPTIONS
    assert refusal(grid.ask(bulk("a", client=""))) is ErrorCode.BAD_OPTIONS


def test_bulk_has_a_size() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(bulk_jobs=1)
    assert refusal(grid.ask(bulk("a", "b"))) is ErrorCode.BAD_OPTIONS


def test_bulk_without_key_is_idempotent_by_job() -> None:
    grid = Grid()
    grid.apply(bulk("a", "b"))
    assert grid.ask(bulk("a", "b", "c", "c")) == Done(1)
    assert grid.ask(bulk("a", "b", "c")) == Duplicate(ended=False)


def test_bulk_that_contradicts_itself_is_refused() -> None:
    items = (BulkItem(job_id("a"), b"1"), BulkItem(job_id("a"), b"2"))
    outcome = Grid().ask(SubmitBulk("ann", "q", "exe", items))
    assert refusal(outcome) is ErrorCode.JOB_CONFLICT


def test_a_batch_key_makes_the_call_idempotent_when_its_jobs_are_gone() -> None:
    grid = Grid()
    grid.apply(bulk("a", key="k"))
    grid.assign("a")
    grid.ack("a")
    grid.apply(ForgetJobs((job_id("a"),)))
    assert grid.ask(bulk("a", key="k")) == Duplicate(ended=False)
    assert refusal(grid.ask(bulk("b", key="k"))) is ErrorCode.BATCH_CONFLICT
    assert grid.ask(bulk("c", key="k", client="bob")) == Done(1)


def test_batch_keys_are_bounded() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(batches_kept=2)
    for name in "abc":
        grid.apply(bulk(name, key=name))
    assert [key for _, key in grid.state.batches] == ["b", "c"]
    assert refusal(grid.ask(bulk("x", key="k" * 300))) is ErrorCode.BAD_OPTIONS


def test_an_empty_bulk_makes_nothing() -> None:
    grid = Grid()
    assert grid.ask(bulk()) == Duplicate(ended=False)
    assert not grid.state.clients


def test_a_stale_ack_for_an_unknown_job_is_refused() -> None:
    outcome = Grid().ask(AckJob(job_id("a"), 1, 1, 0))
    assert refusal(outcome) is ErrorCode.UNKNOWN_JOB
