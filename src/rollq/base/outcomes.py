"""Where a job stands, and how it ended, in the words for people: one set of words for the command
line, JSON, Python and tables.

Inside, a job is queued, delayed, assigned, done, dead or cancelled, and `done` says only that a
worker gave a result. People ask whether it went well: `done` is `ok` or `failed` for them.
"""

from __future__ import annotations

from typing import Final

WAITING: Final = "waiting"
DELAYED: Final = "delayed"
RUNNING: Final = "running"
OK: Final = "ok"
FAILED: Final = "failed"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"

STATES: Final = (WAITING, DELAYED, RUNNING, OK, FAILED, DEAD, CANCELLED)
ENDED: Final = (OK, FAILED, DEAD, CANCELLED)

SIGNAL_BASE: Final = 128  # a program that signal n ended has exit code 128 + n, as in a shell


def state_word(state: str, status: int) -> str:
    """The word for people. `status` is that of the end (0: well), and counts for `done` alone."""
    if state == "done":
        return FAILED if status else OK
    return {"queued": WAITING, "assigned": RUNNING}.get(state, state)


def inner_state(word: str) -> str:
    """The state that a word for people means inside; `ok` and `failed` are both `done`."""
    return {WAITING: "queued", RUNNING: "assigned", OK: "done", FAILED: "done"}.get(word, word)


def shell_code(code: int, signal: int) -> int:
    """An exit code as the shell gives it. Older workers report a signal and no code."""
    return SIGNAL_BASE + signal if signal and not code else code


def exit_code_of(state: str, code: int, signal: int, run_ms: int) -> int | None:
    """The exit code of an ended job; None if no program came to an end: what ended the job
    (no worker could run it, it was cancelled) reported no code, signal or run time."""
    if state != "done" and not (code or signal or run_ms):
        return None
    return shell_code(code, signal)
