from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from rollq.base.limits import LOOK_MS, SILENCE_MS_MAX, SILENCE_MS_MIN
from rollq.grid.commands import Settings
from rollq.roles.member.driver import Driver
from rollq.testing import sim
from rollq.testing.bugs.registry import MUTANTS, Mutant, applied_mutant
from rollq.testing.checkers.base import Violation
from rollq.testing.clock import MS
from rollq.testing.cluster import SimCluster
from rollq.testing.mutants import hunt
from rollq.testing.nemesis import INJECTORS
from rollq.testing.silences import deafen_worker, silence_leader
from rollq.testing.sim import run_seed
from rollq.testing.swarm import ALL_FAULTS, Swarm

FINGERPRINT = """
from rollq.testing.cluster import SimCluster
from rollq.testing.jitter import Streams
from rollq.testing.swarm import draw_swarm
cluster = SimCluster({seed}, draw_swarm(Streams({seed}).swarm))
cluster.run()
print(cluster.timeline.event_count, cluster.ledger.lines[-1].log_hash.hex())
"""


@pytest.mark.parametrize("seed", range(900_000, 900_006))
def test_a_seed_runs_clean(seed: int) -> None:
    outcome = run_seed(seed)
    assert not outcome.failure
    assert outcome.report.ended_count > 0
    assert outcome.report.virtual_us > 6_000_000


def test_a_calm_world_needs_one_term_and_delivers_every_result() -> None:
    report = run_seed(1, Swarm(silent_ms_max=0)).report
    assert report.term_count == 1
    assert report.result_count >= report.ended_count > 0


def one_slot(*runs_ms: int) -> SimCluster:
    """A calm cluster whose only worker has one slot, and which must converge in 5 s; it is asked to
    run these jobs."""
    calm = Swarm(
        workers=1,
        clients=1,
        slots=1,
        jobs_per_client=0,
        chaos_ms=2_000,
        heal_ms_max=5_000,
        full_ms_max=20_000,
        silent_ms_max=0,
    )
    cluster = SimCluster(1, calm)

    def submit() -> None:
        for run_ms in runs_ms:
            cluster.applications[0].submit_one(run_ms)

    cluster.timeline.after(1_500 * MS, submit)
    return cluster


def test_jobs_may_take_their_turns_on_a_slot_for_longer_than_a_group_may_take_to_heal() -> None:
    report = one_slot(*[900] * 16).run()
    assert report.ended_count == report.result_count == 16


def test_a_job_that_keeps_its_slot_for_ever_is_noticed() -> None:
    with pytest.raises(Violation, match=r"after 2\d s .*no free slot for 20 s.*still running"):
        one_slot(3_600_000).run()


def test_a_job_that_waits_beside_a_free_slot_is_noticed_soon() -> None:
    cluster = one_slot(1)
    cluster.timeline.after(1_000 * MS, cluster.workers[0].find, frozenset())
    with pytest.raises(Violation, match=r"after 5 s .*no free slot for 0 s.*still waiting"):
        cluster.run()


def test_the_same_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    prints = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT.format(seed=7)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "2")
    }
    assert len(prints) == 1


@pytest.mark.parametrize("seed", range(8))
def test_results_come_in_time_although_the_leader_falls_silent(seed: int) -> None:
    outcome = run_seed(seed, Swarm(silent_ms_max=6_000))
    assert not outcome.failure
    assert any(kind.startswith("silent_") for kind in outcome.report.faults)


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_that_hung_up_in_vain_may_be_given_up_while_it_waits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It bears four seconds of silence then, and the new leader three of its absence."""

    def after_hang_ups(cluster: SimCluster) -> None:
        for worker in cluster.workers:
            assert worker.machine is not None
            silence = worker.machine._session._silence
            while silence._patience_ms(SILENCE_MS_MIN) < SILENCE_MS_MAX:
                silence.judge(silence._looked_ms + LOOK_MS, is_greeting=True)
        silence_leader(cluster)

    monkeypatch.setattr("rollq.testing.cluster.silence_leader", after_hang_ups)
    settings = Settings(lease_ms=3_000, worker_grace_ms=3_000)
    assert not run_seed(seed, Swarm(settings=settings)).failure


def test_a_worker_that_hears_nobody_keeps_what_it_runs() -> None:
    settings = Settings(lease_ms=3_000, worker_grace_ms=500)
    outcome = run_seed(0, Swarm(settings=settings))
    assert not outcome.failure
    assert outcome.report.faults["deaf_worker"] == 1


def test_a_worker_that_hears_nobody_may_give_back_what_it_has_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that waits behind a long run is returned after two seconds; attempt 2 is its only
    run."""
    attempts: list[int] = []

    def with_prefetched(cluster: SimCluster) -> None:
        (worker,) = cluster.workers
        assert worker.machine is not None
        worker.machine._credit.window.ran_alike(0.1, 1_000)  # its runs were short
        deafen_worker(cluster)
        attempts.extend(sorted(ref.attempt for ref in list(cluster.runs._started)[-2:]))

    monkeypatch.setattr("rollq.testing.cluster.deafen_worker", with_prefetched)
    # A hint of a long run would close the window.
    settings = Settings(lease_ms=3_000, worker_grace_ms=500, use_hints=False)
    swarm = Swarm(workers=1, slots=1, ahead=4, settings=settings)
    assert not run_seed(0, swarm).failure
    assert attempts == [1, 2]


def test_every_fault_of_the_swarm_has_an_injector() -> None:
    assert set(INJECTORS) == set(ALL_FAULTS)


@pytest.mark.parametrize(
    "name",
    [
        "ack_before_fsync",
        "fence_not_checked",
        "credit_counted_twice",
        "worker_cpu_cap_ignored",
        "worker_slot_leaked",
        "deaf_worker_counts_as_gone",
        "rate_is_not_kept_in_the_state",
        "room_wakes_nobody",
        "firing_is_lost_at_change_of_leader",
        "overlap_is_not_looked_at",
    ],
)
def test_a_mutant_is_killed_and_leaves_no_trace(name: str) -> None:
    found = hunt(name, 20)
    assert found.seed >= 0
    assert found.violation
    assert not run_seed(found.seed, Swarm()).failure


def test_a_mutant_that_raises_has_killed_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(old: Any) -> Any:
        def begin(self: Any) -> Any:
            raise TypeError("begin takes something else now")

        return begin

    monkeypatch.setitem(MUTANTS, "out_of_date", Mutant("out_of_date", ((Driver, "begin", make),)))
    found = hunt("out_of_date", 20)
    assert (found.seed, found.violation) == (-1, "TypeError: begin takes something else now")


def test_a_mutant_is_gone_after_its_block() -> None:
    for bug in MUTANTS.values():
        before = [_current(owner, attribute) for owner, attribute, _ in bug.swaps]
        with applied_mutant(bug):
            during = [_current(owner, attribute) for owner, attribute, _ in bug.swaps]
            assert all(new is not old for new, old in zip(during, before, strict=True))
        assert [_current(owner, attribute) for owner, attribute, _ in bug.swaps] == before


def _current(owner: object, attribute: str) -> object:
    if isinstance(owner, dict):
        return next(value for kind, value in owner.items() if kind.__name__ == attribute)
    return vars(owner)[attribute]


def test_the_command_prints_figures_and_says_how_to_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sim.main(["--seeds", "2", "--start", "900000"]) == 0
    out = capsys.readouterr().out
    assert "seeds run          2" in out
    assert "violations         0" in out
    with applied_mutant(MUTANTS["credit_counted_twice"]):
        assert sim.main(["--seeds", "20", "--start", "0"]) == 1
    out = capsys.readouterr().out
    assert "credit: " in out
    assert "replay: python -m rollq.testing.sim --seed " in out
