"""Ends a child process with its parent, also if the parent is killed by SIGKILL.

The parent holds one end of a pipe and never writes; the child waits for EOF on the other. On EOF
the child exits at once, which members and workers tolerate, or sends itself SIGTERM, so that it
drains.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

VARIABLE: Final = "ROLLQ_LEASH_FD"
DRAINS: Final = "ROLLQ_LEASH_DRAINS"
EXIT_LEASH: Final = 1


class Leash:
    """The parent's side. Children inherit `handle` and get its number by `VARIABLE`.

    Args:
        drains: Whether children end as on SIGTERM, and not at once.
    """

    def __init__(self, *, drains: bool = False) -> None:
        self._drains = drains
        self.handle, self._held = os.pipe()  # not inherited, unless passed explicitly

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for a child."""
        return {VARIABLE: str(self.handle), DRAINS: "1" if self._drains else ""}

    def let_go(self) -> None:
        """End the children that still run."""
        if self.handle >= 0:
            os.close(self._held)
            os.close(self.handle)
            self.handle = -1


def watch_leash() -> None:
    """The child's side: end with the parent, if the environment has a leash."""
    text = os.environ.pop(VARIABLE, "")  # the programs of a worker must not inherit it
    drains = bool(os.environ.pop(DRAINS, ""))
    if text.isdecimal():
        handle = int(text)
        try:
            os.set_inheritable(handle, False)
        except OSError:
            return  # the descriptor belongs to another process
        threading.Thread(target=_watch, args=(handle, drains), name="leash", daemon=True).start()


def _watch(handle: int, drains: bool) -> None:
    try:
        while os.read(handle, 1):
            pass
    except OSError:
        return
    if drains:
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        os._exit(EXIT_LEASH)
