"""Real executables on two slots: /bin/true, and a script in its own directory with a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import Scale, Work


class RunsExecutables(Protocol):
    """A peer that runs programs."""

    def run_true(self, count: int) -> float:
        """/bin/true, so many times; runs a second."""

    def run_files(self, count: int) -> float:
        """`cat input; echo done` in a fresh directory, stdout collected; runs a second."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """Both figures, after a warm-up."""
    runner = cast(RunsExecutables, peer)
    runner.run_true(scale.execs // 10)
    yield Sample("true_per_s", runner.run_true(scale.execs))
    runner.run_files(scale.file_execs // 10)
    yield Sample("files_per_s", runner.run_files(scale.file_execs))


WORK = Work(
    "execs",
    "Executables on 2 slots",
    (
        "rollq:r1",
        "local:spawn",
        "local:pool",
        "local:xargs",
        "ray:default",
        "dask:default",
    ),
    measure,
    case_s_max=180,
    columns=(
        ("true_per_s", "/bin/true per s"),
        ("files_per_s", "cat+echo in own directory per s"),
    ),
)
