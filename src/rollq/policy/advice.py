"""Commands that help when a job waits or failed. Each can be typed as printed."""

from __future__ import annotations

import shlex
from typing import Final

from rollq.base.ids import JobId, guid_to_text
from rollq.base.reasons import Reason
from rollq.grid.state import DEAD, JobRecord
from rollq.policy.lanes import Item

NAMES_MAX: Final = 5  # of workers, in a command
# in a worker's error for a program that the system refused to execute
NOT_STARTED: Final = ": cannot start "


def look_at(job_id: JobId) -> str:
    """The command that shows a job or array."""
    return f"rollq job {guid_to_text(job_id)}"


def output_of(job_id: JobId, *, has_stderr: bool) -> str:
    """The command that shows what a job said of its failure: its stderr, or all if that is
    empty."""
    return f"rollq logs {guid_to_text(job_id)}" + (" --stderr" if has_stderr else "")


def redrive(job_id: JobId) -> str:
    """The command that redrives a dead job."""
    return f"rollq dlq redrive {guid_to_text(job_id)}"


def cancel(job_id: JobId) -> str:
    """The command that cancels a job."""
    return f"rollq cancel {guid_to_text(job_id)}"


def resume(queue: str) -> str:
    """The command that resumes a paused queue."""
    return f"rollq queue resume {shlex.quote(queue)}"


def undrain(names: list[str]) -> str:
    """The command that ends the drain of workers."""
    return shlex.join(("rollq", "drain", *names[:NAMES_MAX], "--undo"))


def start_worker(address: str, item: Item, *options: str) -> str:
    """The command that starts a worker for the queue of an item, with the worker name it asks
    for."""
    host, _, port = address.rpartition(":")
    words = ["rollq", "worker", host, port, item.queue, *options]
    if item.options.worker_name:
        words += ["--name", item.options.worker_name]
    return shlex.join(words)


def after_failure(record: JobRecord, *, has_stderr: bool) -> tuple[str, ...]:
    """For a job whose program ran: how to see its output and, if it is dead, how to redrive it."""
    output = output_of(record.job_id, has_stderr=has_stderr)
    return (output, redrive(record.job_id)) if record.state is DEAD else (output,)


def before_running(code: Reason, item: Item, address: str, detail: str = "") -> tuple[str, ...]:
    """For an attempt that could not start: what to change on the worker, or which worker to start.
    A program file that is not found most often lacks its mode bits, unless `detail` shows that a
    worker tried to start it."""
    if code is Reason.PROGRAM_MISSING:
        if NOT_STARTED in detail:
            return ()
        rights = shlex.join(("chmod", "+x", item.exec_name))
        return (rights,) if detail else (rights, start_worker(address, item, "--app", "MODULE"))
    if code is Reason.SHIPPING_REFUSED:
        return (start_worker(address, item, "--allow-shipped-execs"),)
    if code is Reason.EXEC_DIGEST:
        return (shlex.join(("rollq", "exec", "digest", item.exec_name)),)
    if code is Reason.SECRET_MISSING:
        return (start_worker(address, item, "--vault", "DIR"),)
    if code is Reason.SANDBOX_REFUSED:
        return ("rollq status --workers",)
    return ("rollq doctor",) if code in (Reason.TRANSFER, Reason.DISK_FULL) else ()
