"""How long a test waits for what must come about. Only one that fails takes so long: on a machine
that has much else to do, everything may take many times as long as on an idle one."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

DEADLINE_S = 180.0


@contextlib.contextmanager
def read_in_time(process: subprocess.Popen[Any], deadline_s: float = DEADLINE_S) -> Iterator[None]:
    """While a test reads what a process writes. At the deadline the process is killed, so that a
    read comes to its end; if the test fails it is killed at once."""
    alarm = threading.Timer(deadline_s, process.kill)
    alarm.start()
    try:
        yield
    except BaseException:
        process.kill()
        raise
    finally:
        alarm.cancel()
