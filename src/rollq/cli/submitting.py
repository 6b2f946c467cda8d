"""Executes `rollq submit`, after its arguments are parsed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from rollq.base.amounts import counted
from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RemoteError, RollqError
from rollq.base.ids import JobId, guid_from_text, guid_to_text, task_number
from rollq.base.names import COMMAND_LINE_PREFIX
from rollq.base.outcomes import ENDED
from rollq.base.reasons import Reason
from rollq.cli.credentials import given_credentials
from rollq.cli.failures import EXIT_FOUND, EXIT_OK, report
from rollq.cli.grid import connected
from rollq.cli.ids import parse_id, resolve_id
from rollq.cli.output import remark, write_answer, write_json, write_line
from rollq.cli.progress import Advance, progress_bar
from rollq.cli.waiting import EXIT_WAITED, WaitOverError, exit_code_of_job, follow, trouble
from rollq.documents.jobs import result_document
from rollq.roles.client.client import Client
from rollq.roles.client.engine.base import default_id
from rollq.roles.client.jobs.supply import BytesMoved
from rollq.roles.client.results.handles import Counts, Job
from rollq.roles.client.results.result import Result

if TYPE_CHECKING:
    from rollq.cli.submit import SubmitOrder

TROUBLES_SHOWN: Final = 20
SIMPLE: Final = "simple"  # exit code 0 or 1
HINT_S: Final = 5.0  # interval of the remarks on why a job waits
RUNNING_REASONS: Final = (Reason.RUNNING, Reason.ASSIGNING)


async def carry_out(order: SubmitOrder) -> int:
    """Submit, and wait if requested; returns the exit code."""
    client_id = order.client_id or default_id(given_credentials(), own_name(order.job_id))
    async with connected(order.servers, order.timeout_s, client_id) as client:
        try:
            if order.source is None and not order.count:
                return await _one(client, order)
            run = _array if order.source is None else _file
            return EXIT_OK if await run(client, order) else EXIT_FOUND
        except WaitOverError as error:
            if order.exit_code == SIMPLE:
                raise
            report(error, as_json=order.as_json)
            return EXIT_WAITED


def own_name(job_id: str) -> str:
    """A client id of its own for a command, so that no other command receives the results. With a
    job id it is made from that: the same command is the same client again, whose job it is."""
    unique = guid_to_text(guid_from_text(job_id)) if job_id else secrets.token_hex(6)
    return f"{COMMAND_LINE_PREFIX}{unique}"


async def _submit(client: Client, order: SubmitOrder) -> Job:
    if order.like:
        return await client.submit_like(
            await resolve_id(client, parse_id(order.like)),
            order.args or None,
            env=order.options.get("env"),
            queue=order.options.get("queue", ""),
        )
    with progress_bar("upload", is_quiet=order.as_json, in_bytes=True) as uploaded:
        return await client.submit(
            order.exec_name,
            order.args,
            files=order.files,
            outputs=order.outputs,
            payload=order.payload,
            job_id=order.job_id or None,
            key=order.key,
            then=order.followers,
            progress=uploaded,
            **order.options,
        )


async def _one(client: Client, order: SubmitOrder) -> int:
    with _remark_if_not_answered(client):
        job = await _submit(client, order)
    if not order.wait:
        document: dict[str, Any] = {"id": job.id, "client": client.client_id}
        if job.followers:
            document["then"] = list(job.followers)
        write_answer(document, job.id, as_json=order.as_json)
        return EXIT_OK
    with _remark_if_interrupted(f"job {job.id} is still in the grid: rollq job {job.id}"):
        async with explaining(client, job.id):
            result = await follow(job, order.wait_s, is_quiet=order.as_json)
    with progress_bar("download", is_quiet=order.as_json, in_bytes=True) as downloaded:
        await save_files(order.save, result, progress=downloaded)
    if order.as_json:
        write_json(result_document(result))
    if order.exit_code == SIMPLE:
        return EXIT_OK if result.ok else EXIT_FOUND
    return exit_code_of_job(result)


async def _array(client: Client, order: SubmitOrder) -> bool:
    with (
        _remark_if_not_answered(client, "watch --since 10m"),  # `jobs` lists tasks that started
        progress_bar("upload", is_quiet=order.as_json, in_bytes=True) as uploaded,
    ):
        batch = await client.submit_array(
            order.exec_name,
            order.count,
            order.args,
            files=order.files,
            outputs=order.outputs,
            payload=order.payload,
            running_max=order.running_max,
            keep_results=order.wait,
            then=order.followers,
            progress=uploaded,
            **order.options,
        )
    if order.wait:
        labels = JobLabels("task", partial(task_number, batch.first_id))
        left = f"array {batch.id} is still in the grid: rollq job {batch.id}"
        async with explaining(client, batch.id, lambda: not batch.counts.ended):
            return await _await_all(batch, order, labels, left)
    document = {"accepted": len(batch), "id": batch.id, "client": client.client_id}
    write_answer(document, batch.id, as_json=order.as_json)
    if not order.as_json:
        remark(f"array {batch.id}: {counted(len(batch), 'task')} accepted")
    return True


async def _file(client: Client, order: SubmitOrder) -> bool:
    from rollq.cli.filejobs import FileJobs

    jobs = FileJobs(client, order)
    with _remark_if_not_answered(client), _accepting(order) as advance:
        await jobs.submit(advance)
    if jobs.was_known and not order.as_json:
        remark(f"batch {jobs.batch_key} was already accepted")
    if order.wait:
        left = f"{_jobs(len(jobs))} still in the grid: rollq jobs --client {client.client_id}"
        return await _await_all(jobs, order, JobLabels("line", jobs.line_of), left)
    for line, job_id in jobs.ids():
        text = guid_to_text(job_id)
        document = {"id": text, "line": line, "client": client.client_id, "batch": jobs.batch_key}
        write_answer(document, text, as_json=order.as_json)
    if not order.as_json:
        batch = f"client {client.client_id}, batch {jobs.batch_key}"
        remark(f"{_jobs(len(jobs))} accepted: {batch}")
    return True


def _jobs(count: int) -> str:
    return counted(count, "job")


def _accepting(order: SubmitOrder) -> contextlib.AbstractContextManager[Advance]:
    return progress_bar("accepted", is_quiet=order.as_json or not sys.stderr.isatty())


class ManyJobs(Protocol):
    """Submitted jobs that are waited for."""

    counts: Counts

    def __len__(self) -> int: ...

    def results(self) -> AsyncIterator[Result]:
        """Iterate over the results as they arrive."""


@dataclass(slots=True, frozen=True)
class JobLabels:
    """How the jobs of a batch are named in output: tasks by number, or lines of a file."""

    name: str  # "task" or "line"
    number_of: Callable[[JobId], int]

    def of(self, result: Result) -> dict[str, int]:
        """The number of a result's job, as a field of its document."""
        return {self.name: self.number_of(result.job_id)}

    def folder_of(self, result: Result) -> str:
        """The directory for its output files: line-3, task-0."""
        return f"{self.name}-{self.number_of(result.job_id)}"


async def _await_all(batch: ManyJobs, order: SubmitOrder, labels: JobLabels, left: str) -> bool:
    with (
        _remark_if_interrupted(left),
        progress_bar("ended", is_quiet=order.as_json) as advance,
    ):
        are_saved = await _each(batch, order, labels, advance)
    counts = batch.counts
    if not order.as_json:
        write_line(
            f"{_jobs(len(batch))}: {counts.ok} ok, {counts.failed} failed, {counts.dead} dead, "
            f"{counts.cancelled + counts.cut} cancelled"
        )
    return are_saved and counts.ok == len(batch)


async def _each(batch: ManyJobs, order: SubmitOrder, labels: JobLabels, advance: Advance) -> bool:
    """Write every result as it arrives; as text only the first failures. Returns whether all output
    files are saved that should be."""
    told, are_saved = 0, True
    try:
        async with asyncio.timeout(order.wait_s):
            async for result in batch.results():
                are_saved &= await save_files(order.save, result, labels.folder_of(result))
                advance(batch.counts.ended, len(batch))
                if order.as_json:
                    write_json(labels.of(result) | result_document(await result.aload()))
                elif not result.ok:
                    told += 1
                    if told <= TROUBLES_SHOWN:
                        ((name, place),) = labels.of(result).items()
                        remark(f"{name} {place}: {trouble(result, with_last_line=True)}")
    except DeadlineError:
        raise
    except TimeoutError:
        raise WaitOverError(
            f"{batch.counts.ended} of {_jobs(len(batch))} ended within {order.wait_s:g} s",
            "the others are still in the grid: `rollq jobs` lists them, `rollq cancel` ends them",
        ) from None
    return are_saved


@contextlib.asynccontextmanager
async def explaining(
    client: Client, job_id: str, is_idle: Callable[[], bool] = lambda: True
) -> AsyncIterator[None]:
    """While the block waits, write remarks on why the job does not run: after some seconds, and
    when the reason changes. `is_idle`: whether none of its jobs has ended."""

    async def ask() -> tuple[str, str]:
        told = await client.explain(job_id) if is_idle() else None
        if told is None or told.state in ENDED or told.code in RUNNING_REASONS:
            return "", ""
        return told.code, told.why

    task = asyncio.ensure_future(
        tell_reasons(ask, remark, lambda: asyncio.sleep(HINT_S), f"rollq: job {job_id} is waiting")
    )
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def tell_reasons(
    ask: Callable[[], Awaitable[tuple[str, str]]],
    say: Callable[[str], None],
    pause: Callable[[], Awaitable[None]],
    what: str,
) -> None:
    """After every pause, write the reason that `ask` returns, if its code differs from the last
    one. Runs until it is cancelled; errors of queries are ignored, because the leader may
    change."""
    told = ""
    while True:
        await pause()
        try:
            code, why = await ask()
        except RollqError:
            continue
        if code and code != told:
            say(f"{what}: {why}")
        told = code


@contextlib.contextmanager
def _remark_if_interrupted(what: str) -> Iterator[None]:
    """On Ctrl-C, write what is still running."""
    try:
        yield
    except asyncio.CancelledError:
        remark(what)
        raise


@contextlib.contextmanager
def _remark_if_not_answered(client: Client, look: str = "jobs") -> Iterator[None]:
    """On Ctrl-C while the group may already have accepted what was submitted, write the command
    that shows it. Not while files are read or uploaded: the jobs are sent after them."""
    try:
        yield
    except asyncio.CancelledError:
        if client.has_submitted:
            remark(f"it may have been accepted: rollq {look} --client {client.client_id}")
        raise


async def save_files(
    folder: Path | None, result: Result, apart: str = "", *, progress: BytesMoved | None = None
) -> bool:
    """Save the output files of a job below a directory. `apart`: its own subdirectory, if it is one
    of many: then a file that cannot be saved is told, and the others go on. Returns whether all are
    saved, or none should be."""
    if folder is None:
        return True
    place = folder / apart
    try:
        await result.asave_files(place, progress=progress)
    except RemoteError as error:
        if not apart:
            raise
        remark(f"output of job {result.id} was not saved: {error}")
        return False
    except RollqError as error:
        error.add_note(f"the files are still in the grid: `rollq fetch {result.id} --save DIR`")
        raise
    except OSError as error:
        raise LocalError(
            ErrorCode.DISK_FAILED,
            f"output of job {result.id} cannot be written: {place}: {error.strerror or error}",
            f"free space or use another directory: `rollq fetch {result.id} --save DIR`",
        ) from None
    return True
