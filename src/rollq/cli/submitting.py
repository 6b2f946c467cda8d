"""What `rollq submit` does once its arguments are understood."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rollq.base.errors import DeadlineError, ErrorCode, LocalError
from rollq.cli.documents import result_document
from rollq.cli.grid import connected
from rollq.cli.output import remark, write_json, write_line
from rollq.cli.progress import Advance, progress_bar
from rollq.roles.client.client import Client
from rollq.roles.client.handles import Batch
from rollq.roles.client.results import Result

if TYPE_CHECKING:
    from rollq.cli.submit import Order


async def carry_out(order: Order) -> bool:
    """Submit, and wait if that is wanted; whether all that was waited for ended well."""
    # Results go to a client id: one of its own, so that nobody else takes them.
    client_id = order.client_id or f"cli-{secrets.token_hex(6)}"
    async with connected(order.servers, order.timeout_s, client_id) as client:
        if order.source is not None:
            return await _file(client, order)
        if order.count:
            return await _array(client, order)
        return await _one(client, order)


async def _one(client: Client, order: Order) -> bool:
    job = await client.submit(
        order.exec_name,
        order.args,
        files=order.files,
        payload=order.payload,
        job_id=order.job_id or None,
        **order.options,
    )
    if not order.wait:
        if order.as_json:
            write_json({"id": job.id, "client": client.client_id})
        else:
            write_line(job.id)
        return True
    with _told_if_interrupted(f"job {job.id} goes on: rollq job {job.id}"):
        result = await job.result(order.wait_s)
    save_files(order.out, result, apart=False)
    if order.as_json:
        write_json(result_document(result))
    else:
        _show(result)
    return result.ok


async def _array(client: Client, order: Order) -> bool:
    batch = await client.submit_array(
        order.exec_name,
        order.count,
        order.args,
        files=order.files,
        payload=order.payload,
        running_max=order.running_max,
        keep_results=order.wait and (order.as_json or order.out is not None),
        **order.options,
    )
    return await _batch(batch, order, client)


async def _file(client: Client, order: Order) -> bool:
    from rollq.cli.joblist import read_jobs

    assert order.source is not None
    specs = read_jobs(order.source, order.exec_name, order.options, header=order.header)
    with progress_bar("accepted", is_quiet=order.as_json or not sys.stderr.isatty()) as advance:
        batch = await client.submit_many(
            specs,
            keep_results=order.wait and (order.as_json or order.out is not None),
            progress=advance,
        )
    if not len(batch):
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{order.source} holds no job", "write one a line")
    return await _batch(batch, order, client)


async def _batch(batch: Batch, order: Order, client: Client) -> bool:
    if not order.wait:
        if order.as_json:
            write_json({"accepted": len(batch), "id": batch.id, "client": client.client_id})
        elif order.count:
            write_line(batch.id)
        else:
            write_line(f"{len(batch)} jobs accepted, from {batch.id} on")
        return True
    left = f"{len(batch)} jobs from {batch.id} on were accepted and go on"
    with (
        _told_if_interrupted(left),
        progress_bar("ended", is_quiet=order.as_json) as advance,
    ):
        if order.as_json or order.out is not None:
            await _each(batch, order, advance)
        else:
            await batch.wait(order.wait_s, advance)
    counts = batch.counts
    if not order.as_json:
        write_line(
            f"{len(batch)} jobs: {counts.ok} ok, {counts.failed} failed, {counts.dead} dead, "
            f"{counts.cancelled + counts.cut} cancelled"
        )
    return counts.ok == len(batch)


async def _each(batch: Batch, order: Order, advance: Advance) -> None:
    """Every result as it comes."""
    try:
        async with asyncio.timeout(order.wait_s):
            async for result in batch.results():
                save_files(order.out, result, apart=True)
                advance(batch.counts.ended, len(batch))
                if order.as_json:
                    write_json(result_document(result))
    except DeadlineError:
        raise
    except TimeoutError:
        raise DeadlineError(
            ErrorCode.TIMED_OUT,
            f"{batch.counts.ended} of {len(batch)} jobs ended within {order.wait_s} s",
            "they go on: look with `rollq jobs`, or end them with `rollq cancel`",
        ) from None


@contextlib.contextmanager
def _told_if_interrupted(what: str) -> Iterator[None]:
    """Whoever stops waiting must learn what goes on, or could never ask for it."""
    try:
        yield
    except asyncio.CancelledError:
        remark(what)
        raise


def save_files(folder: Path | None, result: Result, *, apart: bool) -> None:
    """Put the files that a program left below a folder; `apart`: one folder a job."""
    if folder is None:
        return
    base = (folder / result.id if apart else folder).resolve()
    for name, content in result.files.items():
        place = (base / name).resolve()
        if not place.is_relative_to(base):
            remark(f"output {name!r} points out of the folder and is left out")
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        except OSError as error:
            raise LocalError(
                ErrorCode.DISK_FAILED,
                f"the output of job {result.id} cannot be written: {place}: "
                f"{error.strerror or error}",
                "make room or choose another folder, and submit the job again",
            ) from None


def _show(result: Result) -> None:
    """What the program wrote, where it wrote it; and why it failed."""
    sys.stdout.write(result.stdout)
    sys.stdout.flush()
    sys.stderr.write(result.stderr)
    if result.ok:
        return
    how = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
    why = " / ".join(text for text in (result.cause, result.detail, result.note) if text)
    ending = how if result.status == "FAILED" else f"{result.attempts} attempts"
    remark(f"rollq: {result.exec_name} {result.id}: {result.status}, {ending} {why}".rstrip())
