"""A child that must not outlive its parent, however that ends: `kill -9` leaves no time to tell it.

The parent holds one end of a pipe and never writes; the child watches the other. When nobody holds
the parent's end any more, the child ends: at once, which members and workers are made for, or as if
it were told to by a signal, so that it may finish what it does.
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
    """The parent's side. `handle` goes to children, by inheritance and by `VARIABLE`.

    Args:
        drains: Whether children are to end as on SIGTERM, and not at once.
    """

    def __init__(self, *, drains: bool = False) -> None:
        self._drains = drains
        self.handle, self._held = os.pipe()  # neither is inherited unless a child is given it

    @property
    def environment(self) -> dict[str, str]:
        """What a child must find in its environment."""
        return {VARIABLE: str(self.handle), DRAINS: "1" if self._drains else ""}

    def let_go(self) -> None:
        """Children that still run end now."""
        if self.handle >= 0:
            os.close(self._held)
            os.close(self.handle)
            self.handle = -1


def watch_leash() -> None:
    """The child's side: end as soon as the parent has, if there is one that wants that."""
    text = os.environ.pop(VARIABLE, "")  # not for the programs that a worker runs
    drains = bool(os.environ.pop(DRAINS, ""))
    if text.isdecimal():
        handle = int(text)
        try:
            os.set_inheritable(handle, False)
        except OSError:
            return  # it was meant for somebody else
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
