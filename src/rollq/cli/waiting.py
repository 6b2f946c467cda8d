"""Waits for one job: streams its output, and converts its outcome to an exit code."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Final

from rollq.base.errors import DeadlineError, ErrorCode
from rollq.cli.joblogs import Shown
from rollq.cli.output import remark, write_line
from rollq.roles.client.results.handles import Job
from rollq.roles.client.results.result import Result

EXIT_FAILED: Final = 1  # failed without an exit code
EXIT_WAITED: Final = 124  # --wait-timeout expired
EXIT_DEAD: Final = 125
EXIT_CANCELLED: Final = 143  # 128 + SIGTERM
SIGNAL_BASE: Final = 128
LINE_CHARS_MAX: Final = 300


class WaitOverError(DeadlineError):
    """--wait-timeout expired. The jobs go on."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(ErrorCode.TIMED_OUT, message, hint)


def exit_code_of_job(result: Result) -> int:
    """The exit code for a job, as if its program had run here."""
    if result.ok:
        return 0
    if result.status == "DEAD":
        return EXIT_DEAD
    if result.status == "CANCELLED":
        return EXIT_CANCELLED
    if result.signal:
        return SIGNAL_BASE + result.signal
    return ((result.exit_code or 0) & 0xFF) or EXIT_FAILED


async def follow(job: Job, wait_s: float | None, *, is_quiet: bool) -> Result:
    """Stream the output of a job to stdout and stderr; returns its result.

    Args:
        job: The job.
        wait_s: How long to wait; None: without limit.
        is_quiet: Whether to write nothing, and load the output into the result instead.

    Raises:
        WaitOverError: `wait_s` expired. The job goes on.
    """
    try:
        async with asyncio.timeout(wait_s):
            if is_quiet:
                return await (await job.result()).aload()
            shown = Shown(as_json=False)
            async for part in job.output():
                shown.show(part)
            result = await job.result()
            if shown.is_any:  # of an earlier attempt, if the last one wrote nothing
                shown.turn_to(result.attempts)
    except DeadlineError:
        raise
    except TimeoutError:
        raise WaitOverError(
            f"no result of job {job.id} within {wait_s:g} s",
            f"it is still in the grid: `rollq explain {job.id}` says why it waits, "
            "`rollq cancel` ends it",
        ) from None
    await write_value(result)
    if shown.is_line_open and sys.stdout.isatty():
        write_line()  # end the line on a terminal; redirected output stays unchanged
    if not result.ok:
        remark(f"rollq: {trouble(result)}")
    elif result.note:
        remark(f"rollq: {result.note}")
    return result


async def write_value(result: Result) -> None:
    """Write bytes that a function returned to stdout. Text is in its output already."""
    if result.data_size and not result.is_packed:  # of a Python value stdout has a short form
        with await result.whole_data.aopen() as data:
            shutil.copyfileobj(data, sys.stdout.buffer)
    sys.stdout.flush()


def trouble(result: Result, *, with_last_line: bool = False) -> str:
    """The outcome of a job that did not succeed, as one line. `with_last_line`: add the last line
    of its stderr."""
    text = f"{result.exec_name} {result.id}: {result.ending}"
    last = result.stderr_tail.strip().rpartition("\n")[2][:LINE_CHARS_MAX] if with_last_line else ""
    return f"{text}: {last}" if last else text
