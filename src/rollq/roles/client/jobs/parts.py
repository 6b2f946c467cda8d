"""Encodes a part of a staged batch: jobs in, messages with columns out. No IO."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from rollq.base.digests import DIGEST_BYTES, Digest
from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import BlobRef
from rollq.base.limits import INLINE_BYTES_MAX, STAGE_CHUNK_BYTES, STAGE_CHUNK_JOBS
from rollq.base.staged import (
    SAME_BODY,
    StagedGroup,
    StagedPart,
    chunk_crc,
    join_keys,
    part_crc,
)
from rollq.roles.client.jobs.alike import AlikeJobs, alike_group
from rollq.roles.client.jobs.specs import JobSpec, as_id, draw_id
from rollq.roles.client.jobs.supply import NOTHING, InputBlob, SubmitMaker, Supply, supply_of
from rollq.roles.client.session.runs import alike
from rollq.wire.kept import stand_in_for_body
from rollq.wire.messages import SubmitJob
from rollq.wire.staging_messages import StageJobs

Message: TypeAlias = tuple[StageJobs, Supply]
REF_BYTES: Final = DIGEST_BYTES + 16  # encoded size of a blob reference
REDRIVEN: Final = "redrive"  # takes the place of the program, which differs per job


class Redrive(msgspec.Struct, frozen=True):
    """A dead job to run again, with another body or its own."""

    job_id: JobId | str
    body: bytes | None = None


class PartBuilder:
    """Encodes the messages of one part.

    Args:
        client_id: The client that will own the jobs.
        batch_key: The batch.
        part: The name of the part.
    """

    def __init__(self, client_id: ClientId, batch_key: str, part: str) -> None:
        self._client_id = client_id
        self._batch_key = batch_key
        self._part = part
        self._count = 0
        self._crcs: list[int] = []
        self._maker = SubmitMaker(client_id)
        self._jobs: list[SubmitJob] = []  # of the next message
        self._bytes = 0
        self._pieces: dict[Digest, InputBlob] = {}

    @property
    def staged(self) -> StagedPart:
        """The description of the part for `commit`, after all messages were accepted."""
        return StagedPart(self._part, self._count, part_crc(self._crcs))

    def messages(self, specs: Iterable[JobSpec]) -> Iterator[Message]:
        """Generate full messages, with their files. Call `rest` for the remaining jobs.

        Raises:
            LocalError: BAD_OPTIONS, for an invalid job.
        """
        for spec in specs:
            self._add(spec)
            if len(self._jobs) >= STAGE_CHUNK_JOBS or self._bytes >= STAGE_CHUNK_BYTES:
                yield self._message()

    def alike(self, jobs: AlikeJobs) -> Iterator[Message]:
        """Generate the message for up to STAGE_CHUNK_JOBS similar jobs, after a message with the
        remaining jobs added before.

        Raises:
            LocalError: BAD_OPTIONS, for an invalid job.
        """
        group = alike_group(self._client_id, jobs, self._maker)
        if group is None or len(group.bodies) > STAGE_CHUNK_BYTES:
            yield from self.messages(jobs.spec(number) for number in range(len(jobs.args)))
            return
        yield from self.rest()
        yield self._numbered((group,)), NOTHING

    def rest(self) -> Iterator[Message]:
        """Generate a message with the remaining jobs, if there are any."""
        if self._jobs:
            yield self._message()

    def redrives(self, jobs: Iterable[Redrive]) -> Iterator[Message]:
        """Generate the messages of a part that has only dead jobs.

        Raises:
            RollqError: BAD_ID.
        """
        page: list[Redrive] = []
        for job in jobs:
            page.append(job)
            self._bytes += len(job.body or b"")
            if len(page) >= STAGE_CHUNK_JOBS or self._bytes >= STAGE_CHUNK_BYTES:
                yield self._again(page)
                page.clear()
        if page:
            yield self._again(page)

    def copies(self, chunks: Iterable[tuple[StagedGroup, ...]]) -> Iterator[Message]:
        """Generate messages from those of another part; the group has their files already."""
        return ((self._numbered(groups), NOTHING) for groups in chunks)

    def _add(self, spec: JobSpec) -> None:
        job = self._maker.make(spec)
        if job.blobs:
            self._pieces.update(supply_of(spec).pieces)
        if len(job.body) > INLINE_BYTES_MAX:
            job = self._with_body_apart(job)
        self._jobs.append(job)
        self._bytes += len(job.body) + len(job.job_key) + REF_BYTES * len(job.blobs)

    def _with_body_apart(self, job: SubmitJob) -> SubmitJob:
        """Move a large body to a blob. For a single submit the leader does it; staged bodies are
        written to its log unchanged."""
        ref = BlobRef(hashlib.sha256(job.body).digest(), len(job.body))
        self._pieces[ref.digest] = InputBlob(job.exec_name, job.body, ref)
        body = stand_in_for_body(ref, job.job_id, job.client_id, job.exec_name)
        return replace(job, body=body, blobs=(*job.blobs, ref))

    def _message(self) -> Message:
        groups = tuple(map(_group, alike(self._jobs)))
        has_blobs = any(group.blobs for group in groups)
        supply = Supply(self._pieces) if has_blobs else NOTHING
        self._jobs, self._pieces = [], {}
        return self._numbered(groups), supply

    def _again(self, jobs: list[Redrive]) -> Message:
        bodies = [job.body for job in jobs]
        group = StagedGroup(
            queue="",
            exec_name=REDRIVEN,
            job_ids=b"".join(as_id(job.job_id) for job in jobs),
            sizes=tuple(SAME_BODY if body is None else len(body) for body in bodies),
            bodies=b"".join(body for body in bodies if body is not None),
            redrives=True,
        )
        return self._numbered((group,)), NOTHING

    def _numbered(self, groups: tuple[StagedGroup, ...]) -> StageJobs:
        """Make the next message of the part."""
        number = len(self._crcs)
        self._crcs.append(chunk_crc(groups))
        self._count += sum(len(group.sizes) for group in groups)
        self._bytes = 0
        return StageJobs(
            request_id=draw_id(),
            batch_key=self._batch_key,
            part=self._part,
            number=number,
            groups=groups,
            client_id=self._client_id,
        )


def _group(run: list[SubmitJob]) -> StagedGroup:
    """A column-wise group of jobs with the same program and options."""
    first = run[0]
    return StagedGroup(
        queue=first.subject,
        exec_name=first.exec_name,
        job_ids=b"".join([job.job_id for job in run]),
        sizes=tuple([len(job.body) for job in run]),
        bodies=b"".join([job.body for job in run]),
        options=first.options,
        caches=first.caches,
        keys=join_keys([job.job_key for job in run]),
        blobs=tuple([job.blobs for job in run]) if any(job.blobs for job in run) else (),
    )
