"""Displayed states of jobs: one set of words for the command line, JSON, Python and tables.

Internally a job is blocked, queued, delayed, assigned, done, dead or cancelled, and `done` only
means that a worker gave a result. It is displayed as `ok` or `failed`.
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
UNKNOWN: Final = "unknown"  # of a parent: it is forgotten by now

STATES: Final = (BLOCKED, WAITING, DELAYED, RUNNING, OK, FAILED, DEAD, CANCELLED)
ENDED: Final = (OK, FAILED, DEAD, CANCELLED)

# The format of the data of a result (`rollq.values`): what a function returned, or raised.
VALUE_DATA: Final = "value"
ERROR_DATA: Final = "error"

# Numbers of Linux, where workers run: other systems differ.
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
    """The displayed state. `status` is that of the end (0: ok), and used for `done` only."""
    if state == "done":
        return FAILED if status else OK
    return {"queued": WAITING, "assigned": RUNNING}.get(state, state)


def inner_state(word: str) -> str:
    """The internal state of a displayed one; `ok` and `failed` are both `done`."""
    return {WAITING: "queued", RUNNING: "assigned", OK: "done", FAILED: "done"}.get(word, word)


def shell_code(code: int, signal: int) -> int:
    """An exit code as the shell gives it. Older workers report a signal and no code."""
    return SIGNAL_BASE + signal if signal and not code else code


def exit_code_of(state: str, code: int, signal: int, run_ms: int) -> int | None:
    """The exit code of an ended job; None if no program ended: a job that no worker could run, or
    was cancelled, has no code, signal or run time."""
    if state != "done" and not (code or signal or run_ms):
        return None
    return shell_code(code, signal)


def cause_word(cause: int) -> str:
    """The cause of a dead job or lost attempt as a word; empty if there is none."""
    if not cause:
        return ""
    known = cause in Cause.__members__.values()
    return Cause(cause).name.lower() if known else f"cause {cause}"


def signal_text(number: int) -> str:
    """A signal with its name: SIGSEGV (11)."""
    name = SIGNALS.get(number)
    return f"{name} ({number})" if name else f"signal {number}"


def canceller_text(client_id: str) -> str:
    """The canceller of a job, for people."""
    account, _, name = client_id.rpartition("/")
    if name != COMMAND_LINE:
        return f"client {client_id}"
    return f"`rollq cancel` of {account}" if account else "`rollq cancel`"
