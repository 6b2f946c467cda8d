"""The ends of parents, as given to a job: one JSON line each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rollq.base.ids import guid_to_text
from rollq.base.jobs import ParentEnd
from rollq.base.outcomes import ENDED, cause_word, exit_code_of, inner_state

PARENTS_FILE_ENV: Final = "ROLLQ_PARENTS"  # path of a file with these lines


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """A parent of a job, and how it ended.

    Attributes:
        id: Its id.
        state: ok, failed, dead or cancelled; unknown if it is forgotten by now. One that was
            redriven since it ended is waiting or running.
        exec, queue, key: Of the job; the key is what its owner calls it.
        exit_code: As the shell gives it; None if no program came to an end, and of an array.
        signal: The number of the signal that ended the program; 0 if none did.
        cause: Why it is dead or cancelled, in a word; empty if there is nothing to say.
        attempts: How often it was assigned.
        run_ms: How long its last attempt ran.
        ended_ms: When it ended, in milliseconds since 1970.
        tasks: Of an array: how many of its tasks are ok, failed, dead and cancelled.
    """

    id: str
    state: str
    exec: str = ""
    queue: str = ""
    key: str = ""
    exit_code: int | None = None
    signal: int = 0
    cause: str = ""
    attempts: int = 0
    run_ms: int = 0
    ended_ms: int = 0
    tasks: dict[str, int] | None = None

    @classmethod
    def of(cls, told: ParentEnd) -> Parent:
        """From the leader's message."""
        has_ended = told.state in ENDED and not told.tasks
        inner = inner_state(told.state)
        code = exit_code_of(inner, told.exit_code, told.signal, told.run_ms) if has_ended else None
        return cls(
            id=guid_to_text(told.job_id),
            state=told.state,
            exec=told.exec_name,
            queue=told.queue,
            key=told.key,
            exit_code=code,
            signal=told.signal,
            cause=cause_word(told.cause),
            attempts=told.attempts,
            run_ms=told.run_ms,
            ended_ms=told.ended_ms,
            tasks=dict(zip(ENDED, told.tasks, strict=False)) if told.tasks else None,
        )


def parent_lines(ends: Iterable[ParentEnd]) -> bytes:
    """One line per parent."""
    return b"".join([msgspec.json.encode(Parent.of(one)) + b"\n" for one in ends])


def parents_in(lines: bytes) -> tuple[Parent, ...]:
    """The inverse.

    Raises:
        msgspec.MsgspecError: these are no such lines.
    """
    return tuple(msgspec.json.decode(line, type=Parent) for line in lines.splitlines())
