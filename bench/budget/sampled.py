"""rollq's own command, sampled: `python -m bench.budget.sampled leader …`.

The CPU seconds by module are written to the file that the environment names, at the end.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Final

import msgspec

from bench.budget.sampler import Sampler
from rollq.cli.main import main

SAMPLES_FILE: Final = "ROLLQ_BENCH_SAMPLES"

sampler = Sampler()


def save() -> None:
    """Leave them where they are looked for."""
    sampler.stop()
    Path(os.environ[SAMPLES_FILE]).write_bytes(msgspec.json.encode(sampler.seconds))


if __name__ == "__main__":
    atexit.register(save)
    sampler.start()
    main()
