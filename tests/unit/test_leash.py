"""Children that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rollq.leash import EXIT_LEASH, Leash

CHILD = """
import signal, sys
from rollq.leash import watch_leash
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
watch_leash()
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize(("drains", "code"), [(False, EXIT_LEASH), (True, 7)])
def test_a_child_ends_when_its_parent_lets_go(drains: bool, code: int) -> None:
    leash = Leash(drains=drains)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env=os.environ | leash.environment,
        pass_fds=(leash.handle,),
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        leash.let_go()
        try:
            assert child.wait(30) == code
        finally:
            child.send_signal(signal.SIGKILL)
    leash.let_go()


def test_a_child_without_a_leash_goes_on() -> None:
    code = "from rollq.leash import watch_leash; watch_leash(); print('on')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert told.stdout == b"on\n"
