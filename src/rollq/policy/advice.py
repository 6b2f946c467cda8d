"""Commands that would help somebody whose job waits or failed. Each can be typed as it is."""

from __future__ import annotations

import shlex
from typing import Final

from rollq.base.ids import JobId, guid_to_text
from rollq.base.reasons import Reason
from rollq.grid.state import DEAD, JobRecord
from rollq.policy.lanes import Item

NAMES_MAX: Final = 5  # of workers, in a command
NOT_STARTED: Final = ": cannot start "  # a worker says so of a program that the system refused


def look_at(job_id: JobId) -> str:
    """What is known of a job or array."""
    return f"rollq job {guid_to_text(job_id)}"


def stderr_of(job_id: JobId) -> str:
    """What its program said last."""
    return f"rollq logs {guid_to_text(job_id)} --stderr"


def redrive(job_id: JobId) -> str:
    """Run a dead job again."""
    return f"rollq dlq redrive {guid_to_text(job_id)}"


def cancel(job_id: JobId) -> str:
    """End it."""
    return f"rollq cancel {guid_to_text(job_id)}"


def resume(queue: str) -> str:
    """Start jobs of a paused queue again."""
    return f"rollq queue resume {shlex.quote(queue)}"


def undrain(names: list[str]) -> str:
    """Give drained workers jobs again."""
    return shlex.join(("rollq", "drain", *names[:NAMES_MAX], "--undo"))


def start_worker(address: str, item: Item, *options: str) -> str:
    """A worker that serves the queue of an item, under the name that it asks for."""
    host, _, port = address.rpartition(":")
    words = ["rollq", "worker", host, port, item.queue, *options]
    if item.options.worker_name:
        words += ["--name", item.options.worker_name]
    return shlex.join(words)


def after_failure(record: JobRecord) -> tuple[str, ...]:
    """For a job whose program ran: what it said, and if it is dead how to run it again."""
    said = stderr_of(record.job_id)
    return (said, redrive(record.job_id)) if record.state is DEAD else (said,)


def before_running(code: Reason, item: Item, address: str, detail: str = "") -> tuple[str, ...]:
    """For what a worker lacks: what to do on it, or which worker to start. A program that is there
    and cannot be seen lacks its mode bits more often than not; one that a worker tried to start,
    as `detail` says, has them."""
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
