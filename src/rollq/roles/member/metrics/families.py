"""All metrics of a member, with their names and present values.

Any member answers: values that only a leader has are absent on the others. The cost is one pass
over all queues and workers, and more for the queues that are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rollq.base.counters import (
    GAUGE,
    MS_PER_S,
    US_PER_S,
    Family,
    Sample,
    counter,
    counters_by,
    gauge,
    gauges_by,
    histogram,
    histograms_by,
)
from rollq.base.disk_use import DiskUse
from rollq.base.errors import ErrorCode
from rollq.base.jobs import Cause
from rollq.grid.limits import limit_text
from rollq.grid.state import ASSIGNED, DELAYED, QUEUED, QueueRecord
from rollq.grid.views import CountsView, RawQueueView, grid_counts, queue_view
from rollq.policy.firing import fires_ms
from rollq.raft.types import NO_MEMBER, Role
from rollq.roles.member.reports import ALARM_EVENTS

if TYPE_CHECKING:
    from rollq.roles.member.driver import Driver

OTHER: Final = "other"  # the label of all queues that are not shown
QUEUES_SHOWN: Final = 50  # with a label of their own, deepest first
LIMITS_SHOWN: Final = 50
QUEUES_SEARCHED: Final = 1_000  # for the oldest waiting job among the others
HASH_NUMBER_BYTES: Final = 6  # of a hash: such a number is exact in every metrics reader


def families(driver: Driver) -> list[Family]:
    """All families."""
    counts = grid_counts(driver.state)
    return [
        *_of_jobs(driver, counts),
        *_of_queues(driver, counts),
        *_of_limits(driver),
        *_of_schedules(driver),
        *_of_raft(driver),
        *_of_work(driver),
        *_of_disk(driver.reports.disk),
        *(_of_leader(driver) if driver.leading else ()),
        *driver.counters.shell(),
    ]


def _of_jobs(driver: Driver, counts: CountsView) -> list[Family]:
    counted = driver.replica.counted
    state = driver.replica.state
    slots = used = held = 0
    for worker in state.workers.values():
        slots += worker.slots
        used += min(worker.slots, len(worker.held))
        held += len(worker.held)
    return [
        counter("rollq_jobs_accepted_total", counted.accepted),
        counter("rollq_attempts_started_total", counted.started),
        counters_by("rollq_jobs_ended_total", "outcome", counted.ended()),
        counters_by("rollq_attempts_lost_total", "cause", counted.retried()),
        counters_by(
            "rollq_jobs_dead_total",
            "cause",
            {Cause(cause).name.lower(): count for cause, count in counted.dead.items()},
        ),
        counters_by("rollq_facts_total", "event", {**counted.facts}),
        histogram("rollq_attempt_run_seconds", counted.run_ms, MS_PER_S),
        gauges_by("rollq_jobs", "state", _by_state(counts)),
        gauge("rollq_jobs_failed", counts.failed),
        gauge("rollq_arrays", len(state.arrays)),
        gauge("rollq_clients", len(state.clients)),
        gauge("rollq_queues", len(state.queues)),
        gauge("rollq_queues_paused", sum(queue.paused for queue in state.queues.values())),
        gauge("rollq_workers", len(state.workers)),
        gauge("rollq_workers_drained", len(state.drained)),
        gauge("rollq_worker_slots", slots),
        gauge("rollq_worker_slots_used", used),
        gauge("rollq_attempts_running", held),
        gauge("rollq_blobs", counts.blobs),
        gauge("rollq_caches", counts.caches),
    ]


def _by_state(counts: RawQueueView) -> dict[str, float]:
    return {
        "blocked": counts.blocked,
        "waiting": counts.queued,
        "delayed": counts.delayed,
        "running": counts.assigned,
        "done": counts.done,
        "dead": counts.dead,
        "cancelled": counts.cancelled,
    }


def _of_queues(driver: Driver, counts: CountsView) -> list[Family]:
    """The deepest queues one by one, and the others together."""
    state = driver.replica.state
    shown = [queue.name for queue in nlargest(QUEUES_SHOWN, state.queues.values(), key=_depth)]
    rows = {name: _by_state(view) for name in shown if (view := queue_view(state, name))}
    if len(state.queues) > len(shown):
        rest = _by_state(counts)
        for row in rows.values():
            for job_state, count in row.items():
                rest[job_state] -= count
        own = rows.get(OTHER, {})  # of a queue that is really named so
        rows[OTHER] = {job_state: n + own.get(job_state, 0) for job_state, n in rest.items()}
    now_ms, since_ms = driver.time.now_ms(), _oldest(driver, shown)
    return [
        Family(
            "rollq_queue_jobs",
            GAUGE,
            ("queue", "state"),
            [
                Sample((name, job_state), count)
                for name, row in rows.items()
                for job_state, count in row.items()
            ],
        ),
        gauges_by(
            "rollq_queue_oldest_seconds",
            "queue",
            {name: max(0, now_ms - since_ms.get(name, now_ms)) / MS_PER_S for name in rows},
        ),
    ]


def _depth(queue: QueueRecord) -> int:
    counts = queue.counts
    return counts[QUEUED] + counts[DELAYED] + counts[ASSIGNED] + queue.tasks_waiting


def _oldest(driver: Driver, shown: list[str]) -> dict[str, int]:
    """By label: since when the oldest waiting job waits."""
    others = islice(driver.replica.state.queues, QUEUES_SEARCHED)
    found = driver.replica.dispatcher.oldest({*shown, *others})
    since_ms: dict[str, int] = {}
    for name, at_ms in found.items():
        label = name if name in shown else OTHER
        since_ms[label] = min(at_ms, since_ms.get(label, at_ms))
    return since_ms


def _of_limits(driver: Driver) -> list[Family]:
    """The limits with most running jobs."""
    limits = driver.replica.state.limits.values()
    shown = nlargest(LIMITS_SHOWN, limits, key=attrgetter("running"))
    most = {limit_text(one): one.running_max for one in shown if one.running_max}
    return [
        gauges_by("rollq_limit_running", "limit", {limit_text(one): one.running for one in shown}),
        gauges_by("rollq_limit_running_max", "limit", most),
    ]


def _of_schedules(driver: Driver) -> list[Family]:
    records = driver.replica.state.schedules.by_name.values()
    active = [record for record in records if not record.paused]
    now_ms = driver.time.now_ms()
    late_ms = max((now_ms - fires_ms(one, one.next_ms) for one in active), default=0)
    states = {"active": len(active), "paused": len(records) - len(active)}
    return [
        gauges_by("rollq_schedules", "state", states),
        gauge("rollq_schedule_overdue_seconds", max(0, late_ms) / 1_000),
    ]


def _of_raft(driver: Driver) -> list[Family]:
    raft, replica, counters = driver.raft, driver.replica, driver.counters
    index, state_hash = replica.known_hash(is_idle=False)
    return [
        gauge("rollq_raft_term", raft.term),
        gauges_by(
            "rollq_raft_role",
            "role",
            {role.name.lower(): int(raft.role is role) for role in Role},
        ),
        gauge("rollq_raft_has_leader", int(raft.leader_id != NO_MEMBER)),
        gauge("rollq_raft_commit_index", raft.commit),
        gauge("rollq_raft_applied_index", replica.state.applied_index),
        gauge("rollq_raft_last_index", raft.last_index),
        gauge("rollq_raft_voters", len(raft.config.voters)),
        gauge("rollq_raft_learners", len(raft.config.learners)),
        counter("rollq_raft_campaigns_total", raft.campaign_count),
        counter("rollq_raft_leader_changes_total", counters.leader_changes),
        counter("rollq_raft_led_total", counters.led),
        gauge("rollq_state_hash", int.from_bytes(state_hash[:HASH_NUMBER_BYTES], "big")),
        gauge("rollq_state_hash_index", index),
    ]


def _of_work(driver: Driver) -> list[Family]:
    counters = driver.counters
    return [
        histograms_by("rollq_turn_step_seconds", "step", counters.step_us, US_PER_S),
        histogram("rollq_wal_sync_seconds", counters.sync_us, US_PER_S),
        counter("rollq_wal_failed_total", counters.sync_failed),
        histograms_by("rollq_snapshot_seconds", "phase", counters.snapshot_ms, MS_PER_S),
        counter("rollq_snapshot_failed_total", counters.snapshots_failed),
        histogram("rollq_history_seal_seconds", counters.seal_ms, MS_PER_S),
        counter("rollq_history_seal_failed_total", counters.seals_failed),
        histogram("rollq_loop_late_seconds", counters.tick_late_us, US_PER_S),
        counters_by("rollq_refused_total", "code", _by_name(driver.leader_state.replies.refused)),
    ]


def _of_disk(disk: DiskUse | None) -> list[Family]:
    """Of this member alone; none before it is measured."""
    if disk is None:
        return []
    parts = {
        "log": disk.log_bytes,
        "snapshots": disk.snapshot_bytes,
        "history": disk.history_bytes,
        "blobs": disk.blob_bytes,
        "other": disk.other_bytes,
    }
    return [
        gauges_by("rollq_disk_used_bytes", "part", parts),
        gauge("rollq_disk_free_bytes", disk.free_bytes),
        gauge("rollq_disk_size_bytes", disk.total_bytes),
    ]


def _of_leader(driver: Driver) -> list[Family]:
    """Metrics that only a leader has."""
    raft, leader, trips_us = driver.raft, driver.leader_state, driver.counters.round_trip_us
    members = (*raft.config.voters, *raft.config.learners)
    progress = raft.progress
    others = {one.id: one.address for one in members if one.id != raft.member_id}
    alarms = dict.fromkeys((ErrorCode(code).name for code in ALARM_EVENTS), 0)
    for alarm in driver.reports.alarms(raft.member_id, raft.config):
        alarms[ErrorCode(alarm.code).name] = alarms.get(ErrorCode(alarm.code).name, 0) + 1
    sessions, dispatcher = leader.sessions, driver.replica.dispatcher
    return [
        gauges_by(
            "rollq_raft_lag_entries",
            "member",
            {address: max(0, raft.commit - progress[one].match) for one, address in others.items()},
        ),
        histograms_by(
            "rollq_raft_round_trip_seconds",
            "member",
            {address: trips_us[one] for one, address in others.items() if one in trips_us},
            US_PER_S,
        ),
        histogram("rollq_commit_seconds", leader.counted.commit_us, US_PER_S),
        histogram("rollq_job_wait_seconds", leader.counted.wait_ms, MS_PER_S),
        gauge("rollq_commands_waiting", len(leader.proposals)),
        gauge("rollq_workers_connected", len(sessions.workers())),
        gauge("rollq_workers_capped", sum(one.is_capped for one in sessions.workers())),
        gauge("rollq_worker_credits", dispatcher.credits),
        gauge("rollq_clients_connected", sessions.client_count),
        gauge("rollq_clients_at_cap", dispatcher.parked_clients),
        gauge("rollq_jobs_at_limit", dispatcher.limited_count),
        gauge("rollq_subscriptions", len(leader.publishing.subscriptions)),
        counter("rollq_published_total", leader.publishing.published),
        counter("rollq_delivered_total", leader.publishing.delivered),
        counter("rollq_missed_total", leader.publishing.missed),
        gauges_by("rollq_alarms", "code", alarms),
    ]


def _by_name(refused: Mapping[int, int]) -> dict[str, float]:
    return {ErrorCode(code).name: count for code, count in refused.items()}
