"""How a job ended, and why attempts gave no result, as texts for people.

A worker reports why it could not run a job with an error text of ours that starts with the code; a
limit that a program exceeded is in the note of the result. Both texts come from outside: what is
not recognised here is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from rollq.base.amounts import counted, size_text, time_text
from rollq.base.errors import ErrorCode
from rollq.base.jobs import Status
from rollq.base.outcomes import canceller_text, shell_code, signal_text, state_word
from rollq.base.reasons import Reason
from rollq.grid.commands import Cause
from rollq.grid.explanations import AttemptTold, RawExplanation
from rollq.grid.moves import max_attempts, starts_of
from rollq.grid.state import CANCELLED, DEAD, AttemptOutcome, EndRecord, GridState, JobRecord
from rollq.grid.views import worker_called
from rollq.policy import advice

ATTEMPTS_TOLD: Final = 10
LINE_CHARS_MAX: Final = 300
CANNOT_RUN: Final = 126  # the exit code of a job whose options a worker refused
REFUSAL: Final = ": rollq: "  # then its stderr starts with this
SIGKILL: Final = 9

# A worker's note that contains one of these phrases reports an exceeded limit.
LIMITS: Final = (
    ("memory limit of ", Reason.OOM),
    ("run limit of ", Reason.TIME_LIMIT),
    (" s of CPU time exceeded", Reason.CPU_LIMIT),
    ("disk limit of ", Reason.DISK_LIMIT),
    (" processes reached", Reason.PROCESS_LIMIT),
    (" processes exceeded", Reason.PROCESS_LIMIT),
    ("returned value is too large", Reason.OUTPUT_LIMIT),
)
# By the code of the error with which a worker could not run a job.
REFUSALS: Final = {
    ErrorCode.NO_PROGRAM: Reason.PROGRAM_MISSING,
    ErrorCode.NO_SECRET: Reason.SECRET_MISSING,
    ErrorCode.NO_SANDBOX: Reason.SANDBOX_REFUSED,
    ErrorCode.BLOB_MISSING: Reason.INPUT_MISSING,
    ErrorCode.BLOB_CORRUPT: Reason.INPUT_MISSING,
    ErrorCode.UNKNOWN_CACHE: Reason.INPUT_MISSING,
    ErrorCode.DISK_FULL: Reason.DISK_FULL,
    ErrorCode.UNREACHABLE: Reason.TRANSFER,
    ErrorCode.DISCONNECTED: Reason.TRANSFER,
    ErrorCode.TIMED_OUT: Reason.TRANSFER,
    ErrorCode.BAD_PAYLOAD: Reason.BAD_REQUEST,
}
NOT_LISTED: Final = " may not run on this worker: "
NOT_SHIPPED: Final = "does not run shipped programs"
NOT_UPLOADED: Final = "its outputs cannot be uploaded: "
CODE: Final = re.compile(r"[a-z_]+ \((\d{3})\): ")
LOST: Final = {
    Cause.LEASE_LOST: "its worker fell silent, and the lease ran out",
    Cause.WORKER_DOWN: "its worker is gone",
    Cause.WORKER_RESTARTED: "its worker was restarted",
}


class ResultDetail(NamedTuple):
    """The texts in a job's result."""

    note: str = ""  # the worker's remark
    stderr: str = ""  # the end of the program's stderr


ReadResult = Callable[[bytes], ResultDetail]


def how_ended(
    state: GridState, record: JobRecord, end: EndRecord, read: ReadResult, address: str
) -> RawExplanation:
    """Why a job that has ended did so. `address` is of a member, for the command that starts a
    worker."""
    if record.state is CANCELLED and end.cause == Cause.PARENT:
        parent = end.detail.split()[1]
        text = f"cancelled, because {end.detail}"
        return _explanation(
            state, record, Reason.PARENT, why=text, todo=(f"rollq explain {parent}",)
        )
    if record.state is CANCELLED:
        how = _after_starts(record)
        if record.fence:  # its worker ended it; the history has who asked for that
            how = f" while it ran{_where(state, record, end)}"
        elif end.detail and not end.cause:
            how = f" by {canceller_text(end.detail)}{how}"
        return _explanation(state, record, Reason.CANCELLED_BY, f"cancelled{how}")
    if record.state is DEAD and end.cause != Cause.EXIT_CODE:
        return _dead_unrun(state, record, end, address)
    texts = read(end.result)
    where = _where(state, record, end)
    if end.status == Status.OK:
        why = f"its program ended well{where}" + (f": {texts.note}" if texts.note else "")
        return _explanation(state, record, Reason.OK, why)
    last = _last_line(texts.stderr)
    if end.exit_code == CANNOT_RUN and last.startswith(REFUSAL):
        text = last.removeprefix(REFUSAL)
        code = refusal_reason(text)
        code = Reason.BAD_REQUEST if code is Reason.NACK else code
        worker = worker_called(state, record.worker_id)
        why = f"worker {worker} refused it: {text}"
        return _explanation(state, record, code, why=why, todo=(advice.look_at(record.job_id),))
    peak = f", memory peak {size_text(end.peak_bytes)}" if end.peak_bytes else ""
    code, why = _failure(end, texts, f"{where}{peak}")
    why += f"; {_starts_used(state, record)}" if record.state is DEAD else ""
    why += last
    todo = advice.after_failure(record, has_stderr=bool(texts.stderr))
    return _explanation(state, record, code, why=why, todo=todo)


def _failure(end: EndRecord, texts: ResultDetail, where: str) -> tuple[Reason, str]:
    """The reason and text of a program that failed."""
    for phrase, reason in LIMITS:
        if phrase in texts.note:
            return reason, f"{texts.note};{where}"
    note = f" ({texts.note})" if texts.note else ""
    if end.signal:
        text = f"{signal_text(end.signal)} ended its program{where}{note}"
        if end.signal == SIGKILL:
            text += "; no limit of the grid did: the system kills when its memory runs out"
        return Reason.SIGNAL, text
    code = shell_code(end.exit_code, end.signal)
    return Reason.EXIT_CODE, f"its program ended with exit code {code}{where}{note}"


def _dead_unrun(
    state: GridState, record: JobRecord, end: EndRecord, address: str
) -> RawExplanation:
    """For a dead job none of whose attempts ended."""
    todo: tuple[str, ...] = (advice.redrive(record.job_id),)
    if end.cause == Cause.EXPIRED:
        limit = time_text(record.options.expire_ms)
        why = f"it waited longer than the {limit} that it may{_after_starts(record)}"
        return _explanation(state, record, Reason.EXPIRED, why=why, todo=todo)
    code, what = lost_reason(end.cause, end.detail, end.exit_code)
    worker = _last_worker(state, record)
    on = f" (worker {worker}, attempt {record.attempt})" if worker else ""
    why = f"{what}{on}; {_starts_used(state, record)}"
    before = advice.before_running(code, record, address, end.detail)
    return _explanation(state, record, code, why=why, todo=(*before, *todo))


def lost_reason(cause: int, detail: str, exit_code: int) -> tuple[Reason, str]:
    """Why an attempt gave no result: the reason and its text."""
    if cause in LOST:
        return Reason.WORKER_LOST, LOST[Cause(cause)] + (f": {detail}" if detail else "")
    if cause == Cause.EXIT_CODE:
        last = _last_line(detail)
        return Reason.EXIT_CODE, f"its program ended with exit code {exit_code}{last}"
    if cause == Cause.NACKED:
        reason = refusal_reason(detail)
        if detail.startswith(NOT_UPLOADED):
            return reason, f"it ran, but {detail}"
        return reason, f"its worker could not run it: {detail or 'it did not say why'}"
    return Reason.NACK, detail or f"cause {cause}"


def refusal_reason(detail: str) -> Reason:
    """The reason in a worker's error text."""
    found = CODE.match(detail.removeprefix(NOT_UPLOADED))
    number = int(found[1]) if found is not None else 0
    if detail.startswith(NOT_UPLOADED):
        return Reason.DISK_FULL if number == ErrorCode.DISK_FULL else Reason.TRANSFER
    if number == ErrorCode.NO_PROGRAM:
        if NOT_LISTED in detail:
            return Reason.EXEC_DIGEST
        if NOT_SHIPPED in detail:
            return Reason.SHIPPING_REFUSED
    known = ErrorCode(number) if number in ErrorCode.__members__.values() else None
    return REFUSALS.get(known, Reason.NACK) if known is not None else Reason.NACK


def lost_attempts(state: GridState, record: JobRecord) -> tuple[AttemptTold, ...]:
    """The last attempts that gave no result, with their reasons."""
    lost = record.past.attempts if record.past is not None else ()
    return tuple(_attempt_told(state, outcome) for outcome in lost[-ATTEMPTS_TOLD:])


def _attempt_told(state: GridState, outcome: AttemptOutcome) -> AttemptTold:
    _, what = lost_reason(outcome.cause, outcome.detail, outcome.exit_code)
    return AttemptTold(
        outcome.attempt, worker_called(state, outcome.worker_id), what, outcome.stamp_ms
    )


def _explanation(
    state: GridState, record: JobRecord, code: Reason, why: str, todo: tuple[str, ...] = ()
) -> RawExplanation:
    status = 0 if record.end is None else record.end.status
    return RawExplanation(
        record.job_id,
        state_word(record.state.name.lower(), status),
        code=code,
        why=why,
        todo=todo,
        since_ms=record.stamp_ms,
        attempts=lost_attempts(state, record),
    )


def _last_line(text: str) -> str:
    """The last line of a text, after a colon; empty if there is none."""
    last = text.strip().rpartition("\n")[2][:LINE_CHARS_MAX]
    return f": {last}" if last else ""


def _where(state: GridState, record: JobRecord, end: EndRecord) -> str:
    """On which worker it ran, for how long, and which attempt it was."""
    worker = _last_worker(state, record)
    on = f" on worker {worker}" if worker else ""
    nth = f", attempt {record.attempt}" if record.attempt > 1 else ""
    return f"{on} after {time_text(end.run_ms)}{nth}"


def _last_worker(state: GridState, record: JobRecord) -> str:
    """The worker that gave its result, or else the one of the last attempt."""
    lost = record.past.attempts if record.past is not None else ()
    if not record.fence and lost:
        return worker_called(state, lost[-1].worker_id)
    return worker_called(state, record.worker_id)


def _after_starts(record: JobRecord) -> str:
    return f", after {counted(record.attempt, 'attempt')}" if record.attempt else ""


def _starts_used(state: GridState, record: JobRecord) -> str:
    """That it may not run again, with the figures."""
    used, most = starts_of(record), max_attempts(state, record)
    again = ", those before its last redrive not counted" if used < record.attempt else ""
    if record.past is not None and record.past.not_started and again:
        again = ", those that never started or were before a redrive not counted"
    return f"all of its attempts are used: {used} of {most}{again}"
