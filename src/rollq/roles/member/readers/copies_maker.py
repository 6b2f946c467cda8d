"""Makes copies of sealed history, as a process beside a member: JSON lines for people (`lines`),
and Arrow for readers (`columns`, if pyarrow is installed).

    python -m … STATE GROUP NICENESS LINES_BYTES_MAX COLUMNS

It does what is due and ends. It runs at the lowest priority, dies with the member that started it
(its standard input ends then), and writes only copies: its failure does not affect the member."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import psutil

from rollq.roles.member.readers import columns, lines
from rollq.store.look import LookDisk

PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Make missing copies, remove useless ones."""
    state, group, niceness, lines_bytes_max, with_columns = sys.argv[1:]
    _step_back(int(niceness))
    threading.Thread(target=_follow_parent, daemon=True).start()
    make_all(Path(state), group, int(lines_bytes_max), with_columns=with_columns == "1")


def make_all(state: Path, group: str, lines_bytes_max: int, *, with_columns: bool) -> None:
    """Make all missing copies."""
    lines.make_all(state, lines_bytes_max)
    if with_columns:
        columns.make_all(state, group)


def is_due(state: Path, group: str, lines_bytes_max: int, *, with_columns: bool) -> bool:
    """Whether a copy is missing or useless."""
    disk = LookDisk(state)
    due = lines.due(disk, lines_bytes_max)
    if due.make or due.drop:
        return True
    return with_columns and bool(columns.missing(disk, group) or columns.stale(disk))


def _step_back(niceness: int) -> None:
    """Lower the priority, and do not outlive the member."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.nice(niceness)
    with contextlib.suppress(AttributeError, OSError):  # some systems have no disk priority
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _follow_parent() -> None:
    """End with the member, which holds the other end of the pipe."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
