"""Jobs of a part on their way into messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import guid_to_text, job_id_of_key
from rollq.base.jobs import BlobRef
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.staged import SAME_BODY, StagedPart, bodies_of, chunk_crc, ids_of, keys_of, part_crc
from rollq.roles.client.jobs import parts
from rollq.roles.client.jobs.parts import PartBuilder, Redrive
from rollq.roles.client.jobs.specs import JobSpec, body_of
from rollq.roles.client.jobs.supply import NOTHING, InputBlob, SettledSpec, refs_of
from rollq.wire.kept import stand_in_for_body
from rollq.wire.staging_messages import StageJobs


def built(*specs: JobSpec) -> tuple[list[StageJobs], StagedPart]:
    builder = PartBuilder("ann", "b", "0.1")
    made = [*builder.messages(specs), *builder.rest()]
    return [message for message, _ in made], builder.staged


def test_jobs_that_ask_for_the_same_share_a_group() -> None:
    urgent = {"queue": "fast", "priority": 9}
    (message,), staged = built(
        JobSpec("calc", ("1",)),
        JobSpec("calc", ("2",), options={"priority": 9, "queue": "fast"}),
        JobSpec("other", ("3",)),
        JobSpec("calc", ("4",), options=urgent),  # type: ignore[arg-type]
        JobSpec("calc", ("5",)),
    )
    found = [(group.queue, group.exec_name, len(group.sizes)) for group in message.groups]
    assert found == [
        ("job.submit.calc", "calc", 2),
        ("job.submit.fast", "calc", 2),
        ("job.submit.other", "other", 1),
    ]
    assert (message.batch_key, message.part, message.number) == ("b", "0.1", 0)
    assert message.client_id == "ann"
    assert (staged.part, staged.count) == ("0.1", 5)


def test_the_columns_hold_what_the_jobs_say() -> None:
    own = guid_to_text(bytes(range(16)))
    specs = [JobSpec("calc", ("1",), key="row-1"), JobSpec("calc", payload=b"raw", job_id=own)]
    (message,), _ = built(*specs)
    (group,) = message.groups
    keyed = job_id_of_key("ann", "row-1")
    assert list(ids_of(group.job_ids)) == [keyed, bytes(range(16))]
    assert list(bodies_of(group)) == [body_of(specs[0], keyed, "ann"), b"raw"]
    assert keys_of(group) == ["row-1", ""]


def test_the_same_key_is_the_same_job_for_ever() -> None:
    assert job_id_of_key("ann", "row-1").hex() == "55e24b4ebf2f4515f0a1a9b517065bc9"
    assert job_id_of_key("ann", "row-1") != job_id_of_key("bob", "row-1")
    assert job_id_of_key("a", "b") != job_id_of_key("", "a\0b")


def test_jobs_without_a_key_have_ids_of_their_own() -> None:
    (message,), _ = built(JobSpec("calc"), JobSpec("calc"))
    (group,) = message.groups
    assert len(set(ids_of(group.job_ids))) == 2
    assert group.keys == ""


@pytest.mark.parametrize("limit", ["STAGE_CHUNK_JOBS", "STAGE_CHUNK_BYTES"])
def test_messages_are_bounded_and_numbered(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(parts, limit, 2 if limit == "STAGE_CHUNK_JOBS" else 6)
    messages, staged = built(*(JobSpec("calc", payload=b"abc") for _ in range(5)))
    assert [message.number for message in messages] == [0, 1, 2]
    assert [len(message.groups[0].sizes) for message in messages] == [2, 2, 1]
    assert len({message.request_id for message in messages}) == 3
    crcs = [chunk_crc(message.groups) for message in messages]
    assert staged == StagedPart("0.1", 5, part_crc(crcs))


def test_files_go_along() -> None:
    ref = BlobRef(b"b" * 32, 9)
    piece = InputBlob("data", Path("data"), ref)
    builder = PartBuilder("ann", "b", "p")
    settled = SettledSpec("calc", ("1",), blobs=(ref,), pieces={ref.digest: piece}, caches=("c",))
    assert not list(builder.messages([settled, JobSpec("calc", ("2",))]))
    ((message, supply),) = builder.rest()
    assert supply.pieces == {ref.digest: piece}
    assert refs_of(message) == [ref]
    with_files, without = message.groups
    assert (with_files.blobs, with_files.caches) == (((ref,),), ("c",))
    assert (without.blobs, without.caches) == ((), ())


def test_a_body_that_is_too_large_for_the_log_is_a_blob() -> None:
    """As the leader makes one of the body of a single job."""
    spec = JobSpec("calc", ("x" * INLINE_BYTES_MAX,), key="row-1")
    job_id = job_id_of_key("ann", "row-1")
    body = body_of(spec, job_id, "ann")
    builder = PartBuilder("ann", "b", "p")
    assert not list(builder.messages([spec, JobSpec("calc", ("2",))]))
    ((message, supply),) = builder.rest()
    (ref,) = refs_of(message)
    assert (ref.size, supply.pieces[ref.digest].source) == (len(body), body)
    (group,) = message.groups
    assert group.blobs == ((ref,), ())
    assert next(bodies_of(group)) == stand_in_for_body(ref, job_id, "ann", "calc")


def test_without_files_there_is_nothing_to_bring() -> None:
    builder = PartBuilder("ann", "b", "p")
    assert not list(builder.rest())
    list(builder.messages([JobSpec("calc")]))
    ((_, supply),) = builder.rest()
    assert supply is NOTHING
    assert builder.staged.count == 1


@pytest.mark.parametrize("key", ["a\0b", "ø" * 129])
def test_a_key_that_cannot_be_is_told_at_once(key: str) -> None:
    with pytest.raises(LocalError) as told:
        built(JobSpec("calc", key=key))
    assert told.value.code == ErrorCode.BAD_OPTIONS


def test_dead_jobs_go_with_other_bodies_or_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "STAGE_CHUNK_JOBS", 2)
    jobs = [Redrive(bytes([n]) * 16, b"x" * n if n > 1 else None) for n in range(1, 4)]
    builder = PartBuilder("ann", "b", "0.1")
    first, second = (message for message, _ in builder.redrives(jobs))
    (group,) = first.groups
    assert group.redrives
    assert list(ids_of(group.job_ids)) == [bytes([1]) * 16, bytes([2]) * 16]
    assert (group.sizes, group.bodies) == ((SAME_BODY, 2), b"xx")
    assert (first.number, second.number, second.groups[0].sizes) == (0, 1, (3,))
    crcs = [chunk_crc(one.groups) for one in (first, second)]
    assert builder.staged == StagedPart("0.1", 3, part_crc(crcs))
    monkeypatch.setattr(parts, "STAGE_CHUNK_BYTES", 1)
    assert len(list(PartBuilder("ann", "b", "0.2").redrives(jobs[1:]))) == 2
    assert list(PartBuilder("ann", "b", "0.3").redrives([])) == []
