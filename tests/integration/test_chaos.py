"""Silent faults on real processes: the small version of `make chaos`, through relays.

The fault stays until a job that was submitted during it has its result: if nobody leaves the silent
leader, the round never gets there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.chaos.rounds import all_rounds, run_round


@pytest.mark.parametrize("name", ["leader-stop", "leader-cut"])
def test_results_come_while_the_leader_is_silent_and_nothing_runs_again(
    tmp_path: Path, name: str
) -> None:
    figures = run_round(
        all_rounds()[name], tmp_path / name, relay=True, share=0.2, until_result=True
    )
    assert figures.is_good, figures
    assert figures.accepted > 0
