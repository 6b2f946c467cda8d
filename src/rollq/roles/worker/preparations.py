"""Preparation of inputs: fetched, checked and put into a directory before the job takes a slot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import UNSET

from rollq.base.digests import digest_from_text
from rollq.base.errors import DiskError, ErrorCode, RemoteError, RollqError, StateError
from rollq.base.jobs import AttemptRef, BlobRef
from rollq.base.names import is_exec_name
from rollq.roles.blobs.carrier import FULL
from rollq.roles.service import end_tasks
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.directories import Directories, Directory
from rollq.roles.worker.execs import not_allowed
from rollq.roles.worker.inputs import (
    Input,
    Linked,
    Stamps,
    check_named,
    checked_inputs,
    place_all,
)
from rollq.roles.worker.parent_results import with_results
from rollq.store.safe_dir import SafeDir
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest, decode_if_marked

# Permissions do not keep root from writing to a link: jobs of root get copies.
LINKS_ARE_SAFE: Final = os.geteuid() != 0


class Prepared(NamedTuple):
    """The prepared inputs of a job."""

    request: JobRequest
    blobs: tuple[BlobRef, ...]
    directory: Directory | None  # None: a call, whose arguments refer to the blobs
    stamps: Stamps
    links: list[Linked]
    program: bytes | None  # path in the directory, if it is shipped with the job
    fetched_bytes: int = 0  # of the blobs: fetched for this job
    held_bytes: int = 0  # of the blobs: stored, or being fetched for another job
    job: AssignJob | None = None  # with the results of its parents, if it uses some


class Preparations:
    """Inputs under preparation, and prepared ones until their jobs end.

    Args:
        blobs: Stores the inputs.
        allow_shipped_execs: Whether a program may be shipped with its job.
        on_ready: Called when a job can start.
        on_failed: Called with the error if inputs cannot be prepared.
    """

    def __init__(
        self,
        blobs: WorkerBlobs,
        *,
        allow_shipped_execs: bool,
        on_ready: Callable[[AttemptRef], None],
        on_failed: Callable[[AttemptRef, RollqError], None],
    ) -> None:
        self._blobs = blobs
        self._allows_execs = allow_shipped_execs
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._under_way: dict[AttemptRef, tuple[AssignJob, asyncio.Task[None]]] = {}
        self._ready: dict[AttemptRef, Prepared] = {}
        self._begun: dict[AttemptRef, Prepared] = {}
        # Files being written on threads; one that outlives its job needs its directory discarded.
        self._placing: dict[asyncio.Future[list[Linked]], None] = {}

    def open(self, directories: Directories) -> None:
        """Set the directories to use."""
        self._directories = directories

    def begin(self, job: AssignJob, ref: AttemptRef, *, is_call: bool) -> bool:
        """Prepare the inputs of a job with blobs or parents. False: it needs no preparation, or
        fails at its start. `is_call`: a function has its name."""
        try:
            request = decode_if_marked(job.body, JobRequest, "JobId")
        except RemoteError:
            return False
        if request is None or (is_call and not _has_inputs(job, request)):
            return False
        self._blobs.pin(job.blobs)
        task = asyncio.get_running_loop().create_task(self._prepare(job, request, ref))
        self._under_way[ref] = job, task
        return True

    def drop(self, ref: AttemptRef) -> None:
        """The job does not start: cancel its preparation, remove what was prepared."""
        job, task = self._under_way.pop(ref, (None, None))
        if job is None or task is None:
            self.over(ref)
        else:
            task.cancel()
            self._blobs.unpin(job.blobs)

    @property
    def has_ready(self) -> bool:
        """Whether a prepared job has not started yet."""
        return bool(self._ready)

    def is_ready(self, ref: AttemptRef) -> bool:
        """Whether a directory is prepared for the job."""
        prepared = self._ready.get(ref)
        return prepared is not None and prepared.directory is not None

    def resolved(self, job: AssignJob, ref: AttemptRef) -> AssignJob:
        """The job to run: with the results of its parents."""
        prepared = self._ready.get(ref)
        return job if prepared is None or prepared.job is None else prepared.job

    def take(self, ref: AttemptRef) -> Prepared | None:
        """The prepared inputs of a job that starts."""
        prepared = self._ready.pop(ref, None)
        if prepared is not None:
            self._begun[ref] = prepared
        return prepared

    def over(self, ref: AttemptRef) -> None:
        """A job ended or does not start: release its inputs. No effect if it was not prepared."""
        prepared = self._ready.pop(ref, None)
        if prepared is not None:
            self._discard(prepared)
        else:
            prepared = self._begun.pop(ref, None)
        if prepared is not None:
            self._blobs.unpin(prepared.blobs)
            if prepared.links:
                self._blobs.check_links(prepared.links)

    async def close(self) -> None:
        """Cancel all preparations, and discard their directories."""
        tasks = [task for _, task in self._under_way.values()]
        self._under_way.clear()
        await end_tasks(tasks)
        await asyncio.gather(*self._placing, return_exceptions=True)

    # --- helpers

    async def _prepare(self, job: AssignJob, request: JobRequest, ref: AttemptRef) -> None:
        try:
            used = None
            if job.parents:
                used, request = await with_results(job, request, self._blobs)
                if ref in self._under_way:  # else its blobs are unpinned already
                    self._blobs.pin(used.blobs)
                    self._blobs.unpin(job.blobs)
                    self._under_way[ref] = used, self._under_way[ref][1]
                job = used
            is_call = request.call is not UNSET
            inputs, program = ([], None) if is_call else self._inputs(request, job.blobs)
            fetched_bytes = await self._blobs.bring(job.blobs)
            if is_call:
                prepared = Prepared(request, job.blobs, None, {}, [], None)
            else:
                prepared = await self._place(job, request, inputs, program)
        except Exception as error:  # of any kind: the job must not stay here for ever
            if self._under_way.pop(ref, None) is not None:
                self._blobs.unpin(job.blobs)
                self._on_failed(ref, _explained(error))
            return
        if self._under_way.pop(ref, None) is None:  # cancelled just now
            self._discard(prepared)
            return
        held_bytes = sum([blob.size for blob in job.blobs]) - fetched_bytes
        self._ready[ref] = prepared._replace(
            fetched_bytes=fetched_bytes, held_bytes=held_bytes, job=used
        )
        self._on_ready(ref)

    def _discard(self, prepared: Prepared) -> None:
        if prepared.directory is not None:
            self._directories.discard(prepared.directory)

    def _inputs(
        self, request: JobRequest, blobs: tuple[BlobRef, ...]
    ) -> tuple[list[Input], bytes | None]:
        inputs = checked_inputs(request.files) if request.files else []
        if request.exec_digest is UNSET:
            check_named(inputs, blobs)
            return inputs, None
        if not self._allows_execs:
            raise not_allowed(request.exec_name)
        name = request.exec_name
        if not is_exec_name(name) or any(one.parts[0] == name for one in inputs):
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD, f"a program cannot be put in place as {name[:64]!a}"
            )
        inputs.append(Input((name,), None, digest_from_text(request.exec_digest), True))
        check_named(inputs, blobs)
        return inputs, os.fsencode(f"./{name}")

    async def _place(
        self, job: AssignJob, request: JobRequest, inputs: list[Input], program: bytes | None
    ) -> Prepared:
        directory = self._directories.take(job.job_id)
        directory.forget_empty()
        stamps: Stamps = {}
        placing = asyncio.ensure_future(
            self._blobs.on_thread(self._place_all, directory.files, inputs, stamps)
        )
        self._placing[placing] = None
        placing.add_done_callback(self._placing.pop)
        try:
            links = await asyncio.shield(placing)
        except BaseException:
            # A thread cannot be stopped: the directory is removed when it is done.
            placing.add_done_callback(lambda _: self._directories.discard(directory))
            raise
        return Prepared(request, job.blobs, directory, stamps, links, program)

    def _place_all(self, files: SafeDir, inputs: list[Input], stamps: Stamps) -> list[Linked]:
        """See `inputs.place_all`; on a thread."""
        return place_all(files, inputs, stamps, self._blobs.path, links=LINKS_ARE_SAFE)


def _has_inputs(job: AssignJob, request: JobRequest) -> bool:
    """Whether a job with the name of a function has something to prepare: a shipped program, or
    blobs of its arguments."""
    has_blobs = bool(job.blobs or job.parents)
    return request.exec_digest is not UNSET or (request.call is not UNSET and has_blobs)


def _explained(error: Exception) -> RollqError:
    """The error for the machine, which decides what follows."""
    if isinstance(error, DiskError) and error.code is ErrorCode.DISK_FULL:
        return StateError(error.code, f"no room for its inputs on this worker: {error.message}")
    if isinstance(error, OSError):  # of the job's directory; the store raises errors of its own
        code = ErrorCode.DISK_FULL if error.errno in FULL else ErrorCode.DISK_FAILED
        why = error.strerror or str(error)
        return StateError(code, f"its inputs cannot be put into a directory on this worker: {why}")
    if not isinstance(error, RollqError):
        return StateError(ErrorCode.BUG, f"its inputs cannot be prepared: {error!r}")
    return error
