"""Looks for bytes that break a target, by atheris: `make fuzz`.

Every target is a process of its own, whose memory is bounded: more than that is a finding too. What
is found is written to the directory of findings, and ends the search; put it into `corpus/TARGET`
with the mending of what it broke.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

INPUT_BYTES_MAX = 8 * 1024
RSS_MIB_MAX = 1_024


def main() -> int:
    """Search in some targets, one after the other; exit code 1 if one of them breaks."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("--inputs", type=int, default=5_000_000, help="of each target")
    parser.add_argument("--only", default="", help="targets, with commas between")
    parser.add_argument("--dir", type=Path, default=Path("fuzz-results"))
    parser.add_argument("--seconds", type=int, default=0, help="at most, each; 0: no bound")
    parser.add_argument("--here", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        return _search(asked.here, asked.inputs, asked.seconds, asked.dir)
    is_well = True
    print(f"{'target':18} {'inputs':>10} {'a second':>9} {'peak MiB':>9}  outcome")
    from tests.fuzz.targets import TARGETS

    for name in asked.only.split(",") if asked.only else TARGETS:
        is_well &= _run(name, asked.inputs, asked.seconds, asked.dir)
    return 0 if is_well else 1


def _run(name: str, inputs: int, seconds: int, directory: Path) -> bool:
    began_s = time.monotonic()
    log = directory / f"{name}.log"
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", "--here", name, "--inputs", str(inputs)]
    with log.open("w") as file:
        ended = subprocess.run(
            [*command, "--seconds", str(seconds), "--dir", str(directory)],
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    took_s = time.monotonic() - began_s
    text = log.read_text(errors="replace")
    counts = [int(count) for count in re.findall(r"^(?:Done |#)(\d+)", text, re.MULTILINE)]
    count = max(counts, default=0)
    peaks = [int(mib) for mib in re.findall(r"rss: (\d+)Mb", text)]
    outcome = "well" if ended.returncode == 0 else f"BROKEN, see {log}"
    speed = count / took_s
    print(
        f"{name:18} {count:>10,} {speed:>9,.0f} {max(peaks, default=0):>9}  {outcome}", flush=True
    )
    return ended.returncode == 0


def _search(name: str, inputs: int, seconds: int, directory: Path) -> int:
    """In the process of one target; libFuzzer ends it."""
    import atheris

    # Only what is imported within is watched by the search: all of it would take minutes.
    with atheris.instrument_imports(include=["rollq", "zipfile"], enable_loader_override=False):
        from tests.fuzz.seeds import seeds_of
        from tests.fuzz.targets import TARGETS

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    corpus = directory / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = seeds_of(name)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-runs={inputs}",
        f"-max_len={max(INPUT_BYTES_MAX, *map(len, seeds))}",
        f"-rss_limit_mb={RSS_MIB_MAX}",
        f"-max_total_time={seconds}",
        f"-artifact_prefix={directory}/{name}-",
        "-timeout=10",
    ]
    atheris.Setup([name, *options, str(corpus)], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
