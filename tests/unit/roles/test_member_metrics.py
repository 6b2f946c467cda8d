"""The view `metrics`: what a member counted, told by any member, in bounded labels."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.counters import Family
from rollq.base.jobs import Status
from rollq.observe.text import exposition
from rollq.roles.member.metrics.families import OTHER, QUEUES_SHOWN, families
from rollq.wire import messages as wire
from tests.unit.roles.members import CLIENT, Group, job, submit, three_members, worker

WORKER = 2
LEADERS_OWN = {
    "rollq_raft_lag_entries",
    "rollq_raft_round_trip_seconds",
    "rollq_commit_seconds",
    "rollq_job_wait_seconds",
    "rollq_commands_waiting",
    "rollq_workers_connected",
    "rollq_workers_capped",
    "rollq_worker_credits",
    "rollq_clients_connected",
    "rollq_clients_at_cap",
    "rollq_jobs_at_limit",
    "rollq_subscriptions",
    "rollq_published_total",
    "rollq_delivered_total",
    "rollq_missed_total",
    "rollq_alarms",
}


def values(told: list[Family]) -> dict[Any, float]:
    """By name, and by name and labels where there are some; of histograms how many values."""
    found: dict[Any, float] = {}
    for family in told:
        for sample in family.samples:
            key = (family.name, *sample.labels) if sample.labels else family.name
            assert key not in found, "no sample twice"
            assert len(sample.labels) == len(family.labels)
            found[key] = sum(sample.counts) if family.kind == "histogram" else sample.value
    return found


@pytest.fixture
def group() -> Group:
    return three_members()


def test_the_view_is_what_the_leader_counts(group: Group) -> None:
    answer = group.say(CLIENT, wire.Query(job(99), "metrics"))[-1]
    told = values(msgspec.msgpack.decode(answer.value, type=list[Family]))
    assert told["rollq_jobs_accepted_total"] == 3
    assert told["rollq_jobs", "waiting"] == told["rollq_queue_jobs", "calc", "waiting"] == 3
    assert told["rollq_raft_role", "leader"] == 1
    assert told["rollq_raft_voters"] == 3
    assert told["rollq_raft_lag_entries", "b"] == 0
    assert told["rollq_clients_connected"] == 1
    assert told["rollq_commit_seconds"] > 0


def test_the_life_of_a_job_is_counted_once_wherever_it_is_applied(group: Group) -> None:
    assigned = [m for m in group.worker(WORKER, credit=3) if isinstance(m, wire.AssignJob)]
    for one, status in zip(assigned, (Status.OK, Status.OK, Status.FAILED), strict=True):
        ack = wire.AckJob(one.job_id, one.attempt, one.fence, status=status, run_ms=70)
        group.say(WORKER, ack)
    group.run(4)
    for member in group.members.values():
        told = values(families(member))
        assert told["rollq_jobs_accepted_total"] == 3
        assert told["rollq_attempts_started_total"] == 3
        assert told["rollq_jobs_ended_total", "succeeded"] == 2
        assert told["rollq_jobs_ended_total", "failed"] == 1
        assert told["rollq_attempt_run_seconds"] == 3
        assert told["rollq_jobs", "done"] == 3
    waited = values(families(group.leader))["rollq_job_wait_seconds"]
    assert waited == 3


def test_a_follower_answers_all_but_what_the_leader_alone_has(group: Group) -> None:
    names = {
        driver.leading: {family.name for family in families(driver)}
        for driver in group.members.values()
    }
    assert names[True] - names[False] == LEADERS_OWN
    assert not names[False] - names[True]


def test_what_a_start_reads_back_does_not_count() -> None:
    group = Group("a")
    group.elect()
    group.client(CLIENT)
    group.say(CLIENT, submit(1))
    assert group.leader.replica.counted.accepted == 1
    group.kill("a")
    group.start("a")
    group.elect()
    told = values(families(group.leader))
    assert told["rollq_jobs_accepted_total"] == 0
    assert told["rollq_jobs", "waiting"] == 1


def test_attempts_that_come_to_nothing_have_a_cause(group: Group) -> None:
    (first, *_) = [m for m in group.worker(WORKER, credit=1) if isinstance(m, wire.AssignJob)]
    group.say(WORKER, wire.Nack(first.job_id, first.attempt, first.fence))
    told = values(families(group.leader))
    assert told["rollq_attempts_lost_total", "given_back"] == 1
    assert told["rollq_attempts_lost_total", "worker_lost"] == 0


def test_only_the_deepest_queues_have_a_label() -> None:
    group = Group("a")
    group.elect()
    group.client(CLIENT)
    for number in range(2 * QUEUES_SHOWN):
        group.say(CLIENT, submit(number + 1, f"queue{number}"))
    for number in range(5):
        group.say(CLIENT, submit(1_000 + number, "deep"))
    told = values(families(group.leader))
    labels = {key[1] for key in told if key[0] == "rollq_queue_jobs"}
    assert len(labels) == QUEUES_SHOWN + 1
    assert {"deep", OTHER} < labels
    waiting = [count for key, count in told.items() if key[::2] == ("rollq_queue_jobs", "waiting")]
    assert sum(waiting) == told["rollq_jobs", "waiting"] == 2 * QUEUES_SHOWN + 5


def test_the_text_is_bounded_however_many_queues_there_are_and_however_long_their_names() -> None:
    group = Group("a")
    group.elect()
    group.client(CLIENT)
    for number in range(4 * QUEUES_SHOWN):
        group.say(CLIENT, submit(number + 1, f"{'q' * 240}{number}"))
    assert len(exposition(families(group.leader))) < 2 * 1024 * 1024 / 8


def test_a_queue_that_is_called_other_is_added_to_the_others() -> None:
    group = Group("a")
    group.elect()
    group.client(CLIENT)
    for number in range(QUEUES_SHOWN + 3):
        group.say(CLIENT, submit(number + 1, f"queue{number}"))
    group.say(CLIENT, submit(1_000, OTHER), submit(1_001, OTHER))
    told = values(families(group.leader))
    assert told["rollq_queue_jobs", OTHER, "waiting"] == 2 + 4


def test_the_age_of_a_queue_is_that_of_its_oldest_job(group: Group) -> None:
    group.clock.ms += 5_000
    group.say(CLIENT, submit(10))
    group.say(CLIENT, submit(11, "later"))
    told = values(families(group.leader))
    assert told["rollq_queue_oldest_seconds", "calc"] >= 5
    assert told["rollq_queue_oldest_seconds", "later"] < 5
    group.worker(WORKER, credit=10)
    group.run(4)
    for member in group.members.values():
        told = values(families(member))
        assert told["rollq_queue_oldest_seconds", "calc"] == 0


def test_who_asks_for_what_is_refused_is_counted_by_code(group: Group) -> None:
    group.say(CLIENT, wire.Query(job(9), "nothing"))
    assert values(families(group.leader))["rollq_refused_total", "BAD_PAYLOAD"] == 1


def test_changes_of_the_leader_are_counted(group: Group) -> None:
    old = group.address_of(group.leader)
    before = values(families(group.leader))
    group.kill(old)
    group.until(lambda: any(driver.leading for driver in group.members.values()))
    after = values(families(group.leader))
    assert after["rollq_raft_leader_changes_total"] == before["rollq_raft_leader_changes_total"] + 1
    assert after["rollq_raft_led_total"] == 1
    assert after["rollq_raft_campaigns_total"] >= 1


def test_credits_and_caps_are_the_leaders(group: Group) -> None:
    group.worker(WORKER, credit=10)
    assert worker(WORKER) in group.leader.state.workers
    told = values(families(group.leader))
    assert told["rollq_worker_credits"] == 7
    assert told["rollq_workers_connected"] == told["rollq_workers"] == 1
    assert told["rollq_attempts_running"] == 3
    assert told["rollq_clients_at_cap"] == 0


def test_jobs_fetched_ahead_are_in_no_slot(group: Group) -> None:
    group.worker(WORKER, credit=3, slots=2)
    told = values(families(group.leader))
    assert (told["rollq_worker_slots"], told["rollq_worker_slots_used"]) == (2, 2)
    assert told["rollq_attempts_running"] == 3


def test_limits_are_shown_with_what_is_taken_and_what_waits(group: Group) -> None:
    arguments = {"scope": "exec", "name": "calc", "running_max": 2}
    group.say(CLIENT, wire.Admin(job(98), "put_limit", msgspec.msgpack.encode(arguments)))
    rate = {"scope": "client", "name": "nobody", "rate": 5, "burst": 1}
    group.say(CLIENT, wire.Admin(job(97), "put_limit", msgspec.msgpack.encode(rate)))
    group.worker(WORKER, credit=3)
    answer = group.say(CLIENT, wire.Query(job(99), "metrics"))[-1]
    told = values(msgspec.msgpack.decode(answer.value, type=list[Family]))
    assert told["rollq_limit_running", "exec:calc"] == 2
    assert told["rollq_limit_running_max", "exec:calc"] == 2
    assert told["rollq_limit_running", "client:nobody"] == 0
    assert ("rollq_limit_running_max", "client:nobody") not in told
    assert told["rollq_jobs_at_limit"] == 1
