"""A part of a staged batch on its way into messages: jobs in, columns out. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from rollq.base.digests import DIGEST_BYTES, Digest
from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.limits import INLINE_BYTES_MAX, STAGE_CHUNK_BYTES, STAGE_CHUNK_JOBS
from rollq.base.staged import (
    SAME_BODY,
    StagedGroup,
    StagedPart,
    chunk_crc,
    join_keys,
    part_crc,
)
from rollq.roles.client.draws import draw_id
from rollq.roles.client.specs import (
    JobSpec,
    Options,
    as_id,
    body_of,
    id_for,
    job_options,
    subject_of,
)
from rollq.roles.client.supply import NOTHING, InputBlob, Supply, blobs_of, caches_of, supply_of
from rollq.wire.staging_messages import StageJobs

# What jobs of one group have in common: program, subject, options, caches.
Likeness: TypeAlias = tuple[str, str, JobOptions | None, tuple[str, ...]]
Message: TypeAlias = tuple[StageJobs, Supply]
REF_BYTES: Final = DIGEST_BYTES + 16  # of a reference, in a message
REDRIVEN: Final = "redrive"  # in place of a program: each job has its own


class Redrive(msgspec.Struct, frozen=True):
    """A dead job that is to run again: with another body, or with the one that it has."""

    job_id: JobId | str
    body: bytes | None = None


class PartBuilder:
    """The messages of one part, made as jobs come.

    Args:
        client_id: Whose jobs they will be.
        batch_key: The batch that they are for.
        part: The name of the part.
    """

    def __init__(self, client_id: ClientId, batch_key: str, part: str) -> None:
        self._client_id = client_id
        self._batch_key = batch_key
        self._part = part
        self._count = 0
        self._crcs: list[int] = []
        self._groups: dict[Likeness, Columns] = {}
        self._jobs = 0  # in the message that is being made
        self._bytes = 0
        self._pieces: dict[Digest, InputBlob] = {}
        # The last job's, and what they mean, because neighbours are often alike.
        self._last: Options | None = None
        self._last_exec = ""
        self._meaning: tuple[str, JobOptions | None] = ("", None)

    @property
    def staged(self) -> StagedPart:
        """The part as it is to be committed, when all its messages are accepted."""
        return StagedPart(self._part, self._count, part_crc(self._crcs))

    def messages(self, specs: Iterable[JobSpec]) -> Iterator[Message]:
        """Full messages, and what their files are; the rest comes with `rest`.

        Raises:
            LocalError: BAD_OPTIONS, for a job that cannot be meant so.
        """
        for spec in specs:
            self._add(spec)
            if self._jobs >= STAGE_CHUNK_JOBS or self._bytes >= STAGE_CHUNK_BYTES:
                yield self._message()

    def rest(self) -> Iterator[Message]:
        """What is left, if anything is."""
        if self._jobs:
            yield self._message()

    def redrives(self, jobs: Iterable[Redrive]) -> Iterator[Message]:
        """The messages of a part that has dead jobs and nothing else.

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
        """The messages of a part from what messages of another held, whose files the group has."""
        return ((self._numbered(groups), NOTHING) for groups in chunks)

    def _add(self, spec: JobSpec) -> None:
        job_id, key = id_for(spec, self._client_id), spec.key
        body = body_of(spec, job_id, self._client_id, INLINE_BYTES_MAX)
        if spec.options is not self._last or spec.exec_name != self._last_exec:
            self._last, self._last_exec = spec.options, spec.exec_name
            subject = subject_of(spec.exec_name, spec.options)
            self._meaning = (subject, job_options(spec.options))
        likeness = (spec.exec_name, *self._meaning, caches_of(spec))
        columns = self._groups.get(likeness)
        if columns is None:
            columns = self._groups[likeness] = Columns()
        refs = blobs_of(spec)
        columns.add(job_id, body, key, refs)
        self._jobs += 1
        self._bytes += len(body) + len(key)
        if refs:
            self._bytes += REF_BYTES * len(refs)
            self._pieces.update(supply_of(spec).pieces)

    def _message(self) -> Message:
        groups = tuple(columns.group(like) for like, columns in self._groups.items())
        has_blobs = any(group.blobs for group in groups)
        supply = Supply(self._pieces) if has_blobs else NOTHING
        self._groups, self._jobs, self._pieces = {}, 0, {}
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
        """The next message of the part."""
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


class Columns:
    """Jobs of one group, column by column."""

    __slots__ = ("_blobs", "_bodies", "_has_blobs", "_ids", "_keys")

    def __init__(self) -> None:
        self._ids: list[JobId] = []
        self._bodies: list[bytes] = []
        self._keys: list[str] = []
        self._blobs: list[tuple[BlobRef, ...]] = []
        self._has_blobs = False

    def add(self, job_id: JobId, body: bytes, key: str, blobs: tuple[BlobRef, ...]) -> None:
        """One more."""
        self._ids.append(job_id)
        self._bodies.append(body)
        self._keys.append(key)
        self._blobs.append(blobs)
        self._has_blobs |= bool(blobs)

    def group(self, likeness: Likeness) -> StagedGroup:
        """All of them."""
        exec_name, subject, options, caches = likeness
        return StagedGroup(
            queue=subject,
            exec_name=exec_name,
            job_ids=b"".join(self._ids),
            sizes=tuple(map(len, self._bodies)),
            bodies=b"".join(self._bodies),
            options=options,
            caches=caches,
            keys=join_keys(self._keys),
            blobs=tuple(self._blobs) if self._has_blobs else (),
        )
