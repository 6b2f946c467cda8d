"""One case in a process of its own: `python -m bench.case WORK PEER FOLDER SCALE`.

A client library cannot disturb the next case that way, and a case that hangs can be ended with
all that it started. The scale comes as JSON; the outcome is written to a file in the folder.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import traceback
from pathlib import Path

import msgspec
import psutil

from bench import loops
from bench.figures import Outcome, Sample
from bench.peers import make_peer
from bench.procs import (
    OUR_TREE,
    adopt_orphans,
    die_with_parent,
    end_politely,
    kill_descendants,
    python,
    tail,
)
from bench.works import Scale
from bench.works.all import WORKS

OUTCOME = "outcome.json"
LOG = "case.log"


def run_case(work: str, peer: str, folder: Path, scale: Scale) -> Outcome:
    """Do a case in a fresh process, and leave nothing of it running."""
    busy_percent = psutil.cpu_percent(0.2)
    argv = python("bench.case", work, peer, str(folder), msgspec.json.encode(scale).decode())
    seconds_max = WORKS[work].case_s_max + scale.asked_s
    with (folder / LOG).open("wb") as log:
        case = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **OUR_TREE},
        )
        try:
            case.wait(seconds_max)
        except subprocess.TimeoutExpired:
            why = f"not done after {seconds_max:.0f} s"
        else:
            why = f"the case ended with {case.returncode}: {tail(folder / LOG)}"
        finally:
            end(case)
    written = folder / OUTCOME
    if not written.exists():
        return Outcome(work, peer, failure=why, busy_percent=busy_percent)
    outcome = msgspec.json.decode(written.read_bytes(), type=Outcome)
    return msgspec.structs.replace(outcome, busy_percent=busy_percent)


def end(case: subprocess.Popen[bytes]) -> None:
    """End a case if it still runs, and whatever it left behind."""
    if case.poll() is None:
        kill_descendants(case.pid)
        case.kill()
        case.wait()
    kill_descendants(os.getpid())


def main() -> None:
    """The process of a case. Told to end, it still stops what it started."""
    adopt_orphans()
    end_politely()
    die_with_parent()
    work, peer, folder, scale_json = sys.argv[1:]
    scale = msgspec.json.decode(scale_json, type=Scale).of(peer)
    loops.choose(scale.loop)
    try:
        outcome = measure(work, peer, Path(folder), scale)
        (Path(folder) / OUTCOME).write_bytes(msgspec.json.encode(outcome))
    finally:
        kill_descendants(os.getpid())


def measure(work: str, key: str, folder: Path, scale: Scale) -> Outcome:
    """Start, measure, stop. What was measured before a failure is kept.

    A peer that does not start is missing, whatever its reason; that rollq does not is a failure.
    """
    peer = make_peer(key)
    skipped = peer.available()
    if skipped:
        return Outcome(work, key, skipped=skipped)
    samples: list[Sample] = []
    version = failure = ""
    is_started = key.startswith("rollq")
    try:
        version = peer.version()
        peer.start(folder / "servers")
        is_started = True
        samples.extend(WORKS[work].measure(peer, scale))
    except Exception as error:  # whatever a peer's library raises is this case's failure
        traceback.print_exc()
        failure = f"{type(error).__name__}: {error}"
    finally:
        with contextlib.suppress(Exception):  # whatever it left behind is ended with the case
            peer.stop()
    if not is_started:
        return Outcome(work, key, version, skipped=f"did not start: {failure}")
    return Outcome(work, key, version, tuple(samples), failure=failure, loop=loops.used())


if __name__ == "__main__":
    main()
