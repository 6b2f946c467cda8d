"""`rollq leader` and `rollq worker` under a profiler: `python -m bench.rollq_proc leader …`.

Without BENCH_PROFILE in the environment this is the plain command. With it, a cProfile dump of
the process's main thread is written to that file plus its id when it ends.
"""

from __future__ import annotations

import cProfile
import os

import typer

from rollq.cli import leader, worker

VARIABLE = "BENCH_PROFILE"


def main() -> None:
    """Run a command of the product."""
    app = typer.Typer()
    leader.register(app)
    worker.register(app)
    path = os.environ.get(VARIABLE, "")
    if not path:
        app()
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        app()
    finally:
        profile.disable()
        profile.dump_stats(f"{path}.{os.getpid()}")


if __name__ == "__main__":
    main()
