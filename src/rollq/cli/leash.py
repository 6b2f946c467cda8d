"""A child that must not outlive its parent, however that ends: `kill -9` leaves no time to tell it.

The parent holds one end of a pipe and never writes; the child watches the other. When nobody holds
the parent's end any more, the child ends at once: members and workers are made for that.
"""

from __future__ import annotations

import os
import threading
from typing import Final

VARIABLE: Final = "ROLLQ_LEASH_FD"
EXIT_LEASH: Final = 1


class Leash:
    """The parent's side. `handle` goes to children, by inheritance and by `VARIABLE`."""

    def __init__(self) -> None:
        self.handle, self._held = os.pipe()  # neither is inherited unless a child is given it

    @property
    def environment(self) -> dict[str, str]:
        """What a child must find in its environment."""
        return {VARIABLE: str(self.handle)}

    def let_go(self) -> None:
        """Children that still run end now."""
        if self.handle >= 0:
            os.close(self._held)
            os.close(self.handle)
            self.handle = -1


def watch_leash() -> None:
    """The child's side: end as soon as the parent has, if there is one that wants that."""
    text = os.environ.pop(VARIABLE, "")  # not for the programs that a worker runs
    if text.isdecimal():
        handle = int(text)
        try:
            os.set_inheritable(handle, False)
        except OSError:
            return  # it was meant for somebody else
        threading.Thread(target=_watch, args=(handle,), name="leash", daemon=True).start()


def _watch(handle: int) -> None:
    try:
        while os.read(handle, 1):
            pass
    except OSError:
        return
    os._exit(EXIT_LEASH)
