"""Where a job stands, and how it ended, in the words for people: one set of words for the command
line, JSON, Python and tables.

Inside, a job is blocked, queued, delayed, assigned, done, dead or cancelled, and `done` says only
that a worker gave a result. People ask whether it went well: `done` is `ok` or `failed` for them.
"""

from __future__ import annotations

from typing import Final

from rollq.base.jobs import Cause
from rollq.base.names import COMMAND_LINE

WAITING: Final = "waiting"
DELAYED: Final = "delayed"
BLOCKED: Final = "blocked"  # until other jobs have ended
RUNNING: Final = "running"
OK: Final = "ok"
FAILED: Final = "failed"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"
UNKNOWN: Final = "unknown"  # of a job that another one waited for: it is forgotten by now

STATES: Final = (BLOCKED, WAITING, DELAYED, RUNNING, OK, FAILED, DEAD, CANCELLED)
ENDED: Final = (OK, FAILED, DEAD, CANCELLED)

# What the data of a result is packed of (`rollq.values`): what a function returned, or raised.
VALUE_DATA: Final = "value"
ERROR_DATA: Final = "error"

# Of Linux, where workers run: the system of whoever reads it may number them differently.
SIGNALS: Final = {
    **{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT"},
    **{7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2"},
    **{13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 16: "SIGSTKFLT", 17: "SIGCHLD"},
    **{18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU", 23: "SIGURG"},
    **{24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH"},
    **{29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS"},
}
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


def cause_word(cause: int) -> str:
    """Why a job is dead, or an attempt came to nothing, in a word; empty if there is no cause."""
    if not cause:
        return ""
    known = cause in Cause.__members__.values()
    return Cause(cause).name.lower() if known else f"cause {cause}"


def signal_text(number: int) -> str:
    """A signal as people know it: SIGSEGV (11)."""
    name = SIGNALS.get(number)
    return f"{name} ({number})" if name else f"signal {number}"


def canceller_text(client_id: str) -> str:
    """Who cancelled a job, in words."""
    account, _, name = client_id.rpartition("/")
    if name != COMMAND_LINE:
        return f"client {client_id}"
    return f"`rollq cancel` of {account}" if account else "`rollq cancel`"
