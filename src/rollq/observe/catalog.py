"""Every metric: its type, its labels, the processes that export it, and its meaning.

docs/metrics.md shows this table, and a test compares it with the metrics of running processes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rollq.base.counters import COUNTER, GAUGE, HISTOGRAM

EVERY_MEMBER: Final = "every member"
LEADER: Final = "the leader"
WORKER: Final = "a worker"
ALL: Final = "members and workers"
GOSSIP: Final = "processes with a federation key"


class Spec(NamedTuple):
    """One metric.

    Attributes:
        kind: COUNTER, GAUGE or HISTOGRAM.
        labels: Their names.
        exporter: The processes that export it.
        meaning: In a sentence.
    """

    kind: str
    labels: tuple[str, ...]
    exporter: str
    meaning: str


_MEMBER_JOBS: Final = {
    "rollq_jobs_accepted_total": Spec(COUNTER, (), EVERY_MEMBER, "Jobs and tasks accepted."),
    "rollq_attempts_started_total": Spec(
        COUNTER, (), EVERY_MEMBER, "Attempts that were given to workers."
    ),
    "rollq_jobs_ended_total": Spec(
        *(COUNTER, ("outcome",), EVERY_MEMBER),
        "Jobs and tasks that ended: succeeded, failed (their program said so), dead, cancelled.",
    ),
    "rollq_attempts_lost_total": Spec(
        *(COUNTER, ("cause",), EVERY_MEMBER),
        "Attempts without a result that are repeated: lease_lost, worker_lost, given_back, "
        "failed (by the retry rule of the job).",
    ),
    "rollq_jobs_dead_total": Spec(
        COUNTER, ("cause",), EVERY_MEMBER, "Jobs and tasks that became dead letters, by cause."
    ),
    "rollq_facts_total": Spec(
        *(COUNTER, ("event",), EVERY_MEMBER),
        "Facts of the history, by kind: one for each job that an event is about.",
    ),
    "rollq_attempt_run_seconds": Spec(
        *(HISTOGRAM, (), EVERY_MEMBER),
        "Run time of attempts with a result, as reported by workers.",
    ),
    "rollq_jobs": Spec(GAUGE, ("state",), EVERY_MEMBER, "Jobs and tasks in the state, by state."),
    "rollq_jobs_failed": Spec(
        GAUGE, (), EVERY_MEMBER, "Of the done jobs in the state: those whose program failed."
    ),
    "rollq_arrays": Spec(GAUGE, (), EVERY_MEMBER, "Arrays in the state."),
    "rollq_clients": Spec(GAUGE, (), EVERY_MEMBER, "Clients in the state."),
    "rollq_queues": Spec(GAUGE, (), EVERY_MEMBER, "Queues in the state."),
    "rollq_queues_paused": Spec(GAUGE, (), EVERY_MEMBER, "Queues that are paused."),
    "rollq_queue_jobs": Spec(
        *(GAUGE, ("queue", "state"), EVERY_MEMBER),
        "Jobs and tasks by queue and state: of the 50 deepest queues; all others are `other`.",
    ),
    "rollq_queue_oldest_seconds": Spec(
        *(GAUGE, ("queue",), EVERY_MEMBER),
        "How long the job waits that waits longest, of the same queues; 0: none waits.",
    ),
    "rollq_limit_running": Spec(
        *(GAUGE, ("limit",), EVERY_MEMBER),
        "Tokens that are taken of a limit: of the 50 limits of which most are.",
    ),
    "rollq_limit_running_max": Spec(
        *(GAUGE, ("limit",), EVERY_MEMBER),
        "Tokens that the limit has; absent: no such bound.",
    ),
    "rollq_schedules": Spec(
        *(GAUGE, ("state",), EVERY_MEMBER), "Schedules in the state: active or paused."
    ),
    "rollq_schedule_overdue_seconds": Spec(
        *(GAUGE, (), EVERY_MEMBER),
        "How long the schedule that is most overdue should have fired by now; 0: none is.",
    ),
    "rollq_workers": Spec(
        GAUGE, (), EVERY_MEMBER, "Workers that are connected, or gone for less than their grace."
    ),
    "rollq_workers_drained": Spec(
        GAUGE, (), EVERY_MEMBER, "Workers that get no new jobs, connected or not."
    ),
    "rollq_worker_slots": Spec(GAUGE, (), EVERY_MEMBER, "Slots of these workers."),
    "rollq_worker_slots_used": Spec(
        GAUGE, (), EVERY_MEMBER, "Slots of these workers that a job is in."
    ),
    "rollq_attempts_running": Spec(
        GAUGE, (), EVERY_MEMBER, "Attempts that these workers hold, those fetched ahead among them."
    ),
    "rollq_blobs": Spec(GAUGE, (), EVERY_MEMBER, "Blobs that jobs, results and caches refer to."),
    "rollq_caches": Spec(GAUGE, (), EVERY_MEMBER, "Caches in the state."),
}
_MEMBER_GROUP: Final = {
    "rollq_raft_term": Spec(GAUGE, (), EVERY_MEMBER, "Term of this member."),
    "rollq_raft_role": Spec(
        GAUGE, ("role",), EVERY_MEMBER, "1 for what this member is in its term, 0 for the others."
    ),
    "rollq_raft_has_leader": Spec(GAUGE, (), EVERY_MEMBER, "1 if this member knows who leads."),
    "rollq_raft_commit_index": Spec(GAUGE, (), EVERY_MEMBER, "Last log index known as committed."),
    "rollq_raft_applied_index": Spec(GAUGE, (), EVERY_MEMBER, "Last log index applied here."),
    "rollq_raft_last_index": Spec(GAUGE, (), EVERY_MEMBER, "Last log index that is here."),
    "rollq_raft_voters": Spec(GAUGE, (), EVERY_MEMBER, "Voters of the group."),
    "rollq_raft_learners": Spec(GAUGE, (), EVERY_MEMBER, "Learners of the group."),
    "rollq_raft_campaigns_total": Spec(
        COUNTER, (), EVERY_MEMBER, "How often this member stood for election."
    ),
    "rollq_raft_leader_changes_total": Spec(
        COUNTER, (), EVERY_MEMBER, "How often this member heard of another leader than before."
    ),
    "rollq_raft_led_total": Spec(COUNTER, (), EVERY_MEMBER, "How often this member began to lead."),
    "rollq_state_hash": Spec(
        *(GAUGE, (), EVERY_MEMBER),
        "The first six bytes of the hash of the state, as a number, at rollq_state_hash_index: "
        "members with the same index have the same number.",
    ),
    "rollq_state_hash_index": Spec(GAUGE, (), EVERY_MEMBER, "The log index of rollq_state_hash."),
    "rollq_turn_step_seconds": Spec(
        *(HISTOGRAM, ("step",), EVERY_MEMBER),
        "Steps of a turn of the loop: decide (assignments, timers), propose, apply, answer "
        "(views).",
    ),
    "rollq_wal_sync_seconds": Spec(
        HISTOGRAM, (), EVERY_MEMBER, "A write to the log, with its sync."
    ),
    "rollq_wal_failed_total": Spec(
        *(COUNTER, (), EVERY_MEMBER),
        "Writes to the log that failed. A member stops after the first: see also `up`.",
    ),
    "rollq_snapshot_seconds": Spec(
        *(HISTOGRAM, ("phase",), EVERY_MEMBER),
        "Snapshots: write (state and history, by a child), publish (names, and the log shrinks).",
    ),
    "rollq_snapshot_failed_total": Spec(COUNTER, (), EVERY_MEMBER, "Snapshots that failed."),
    "rollq_history_seal_seconds": Spec(
        *(HISTOGRAM, (), EVERY_MEMBER),
        "Sealing a piece of history; its bytes are written with the snapshot.",
    ),
    "rollq_history_seal_failed_total": Spec(
        COUNTER, (), EVERY_MEMBER, "Pieces of history that could not be sealed."
    ),
    "rollq_loop_late_seconds": Spec(
        *(HISTOGRAM, (), EVERY_MEMBER),
        "Delay of the ticks of the event loop, which was blocked for this long.",
    ),
    "rollq_refused_total": Spec(
        *(COUNTER, ("code",), EVERY_MEMBER),
        "Requests of clients and workers that this member refused as a leader, by error code.",
    ),
    "rollq_disk_used_bytes": Spec(
        *(GAUGE, ("part",), EVERY_MEMBER),
        "What the state directory takes, by part: log, snapshots, history, blobs, other.",
    ),
    "rollq_disk_free_bytes": Spec(
        GAUGE, (), EVERY_MEMBER, "What is free on the file system of the state directory."
    ),
    "rollq_disk_size_bytes": Spec(
        GAUGE, (), EVERY_MEMBER, "The size of the file system of the state directory."
    ),
    "rollq_links": Spec(
        GAUGE, ("role",), EVERY_MEMBER, "Open links by what they are for, since their hello."
    ),
    "rollq_links_refused_total": Spec(
        *(COUNTER, ("reason",), EVERY_MEMBER),
        "Links that were refused, by error code or bound.",
    ),
    "rollq_blob_transfers_total": Spec(
        *(COUNTER, ("direction",), EVERY_MEMBER),
        "Blobs received (whole and verified), and blobs whose sending began.",
    ),
    "rollq_blob_transfer_bytes_total": Spec(
        COUNTER, ("direction",), EVERY_MEMBER, "Bytes of blobs received and sent."
    ),
    "rollq_blob_stored_bytes": Spec(
        GAUGE, (), EVERY_MEMBER, "Bytes of the blobs here; 0 with a shared store."
    ),
    "rollq_blobs_missing": Spec(
        GAUGE, (), EVERY_MEMBER, "Blobs that the state refers to and that are not here yet."
    ),
}
_LEADER: Final = {
    "rollq_raft_lag_entries": Spec(
        GAUGE, ("member",), LEADER, "Committed entries that a member is not known to hold."
    ),
    "rollq_raft_round_trip_seconds": Spec(
        HISTOGRAM, ("member",), LEADER, "From a heartbeat to its answer."
    ),
    "rollq_commit_seconds": Spec(
        HISTOGRAM, (), LEADER, "From the proposal of an entry until it is applied."
    ),
    "rollq_job_wait_seconds": Spec(
        *(HISTOGRAM, (), LEADER),
        "From when a job could start (accepted, released, given back) until a worker was chosen; "
        "all of a run as its first.",
    ),
    "rollq_commands_waiting": Spec(GAUGE, (), LEADER, "Commands that are not in the log yet."),
    "rollq_workers_connected": Spec(GAUGE, (), LEADER, "Workers that are connected."),
    "rollq_workers_capped": Spec(GAUGE, (), LEADER, "Of them, those above their CPU cap."),
    "rollq_worker_credits": Spec(GAUGE, (), LEADER, "Jobs that workers can still take (credit)."),
    "rollq_clients_connected": Spec(GAUGE, (), LEADER, "Clients that are connected, by id."),
    "rollq_clients_at_cap": Spec(
        GAUGE, (), LEADER, "Clients whose jobs wait because of their cap alone."
    ),
    "rollq_jobs_at_limit": Spec(
        GAUGE, (), LEADER, "Jobs and arrays that wait because of a limit of an operator."
    ),
    "rollq_subscriptions": Spec(GAUGE, (), LEADER, "Subscriptions of all sessions to subjects."),
    "rollq_published_total": Spec(COUNTER, (), LEADER, "Messages that were published to subjects."),
    "rollq_delivered_total": Spec(
        COUNTER, (), LEADER, "Deliveries of published messages to sessions."
    ),
    "rollq_missed_total": Spec(
        COUNTER, (), LEADER, "Messages not sent to a session because it did not read fast enough."
    ),
    "rollq_alarms": Spec(
        *(GAUGE, ("code",), LEADER),
        "Alarms by code; STATE_DIVERGED: a member derived another state from the same log. "
        "DISK_LOW: the disk of a member is nearly full.",
    ),
}
_WORKER: Final = {
    "rollq_slots": Spec(GAUGE, (), WORKER, "Jobs that it runs at once."),
    "rollq_slots_used": Spec(GAUGE, (), WORKER, "Slots in use."),
    "rollq_worker_attempts_waiting": Spec(GAUGE, (), WORKER, "Attempts that wait for a slot."),
    "rollq_worker_attempts_held": Spec(
        GAUGE,
        (),
        WORKER,
        "Attempts that it holds, also those whose result the leader has not accepted yet.",
    ),
    "rollq_credit": Spec(GAUGE, (), WORKER, "Jobs that it can still take (credit)."),
    "rollq_worker_connected": Spec(GAUGE, (), WORKER, "1 if it has a session with a leader."),
    "rollq_worker_cpu_capped": Spec(
        GAUGE, (), WORKER, "1 while the CPU is above its cap: one job at a time."
    ),
    "rollq_worker_cpu_capped_total": Spec(
        COUNTER, (), WORKER, "How often the CPU went above the cap."
    ),
    "rollq_worker_sandbox_layer": Spec(
        GAUGE, ("layer",), WORKER, "1 for each layer of the sandbox that jobs run in."
    ),
    "rollq_worker_attempts_started_total": Spec(
        COUNTER, ("kind",), WORKER, "Attempts that it started: of a program or a function."
    ),
    "rollq_worker_results_total": Spec(
        COUNTER, ("outcome",), WORKER, "Results: ok, failed, cancelled."
    ),
    "rollq_worker_killed_total": Spec(
        COUNTER, (), WORKER, "Results of programs that a signal ended, limits among them."
    ),
    "rollq_worker_run_seconds": Spec(HISTOGRAM, (), WORKER, "Run time of attempts with a result."),
    "rollq_worker_attempts_failed_total": Spec(
        *(COUNTER, ("step",), WORKER),
        "Attempts that came to no result, by what could not be done: inputs, start, upload.",
    ),
    "rollq_worker_given_back_total": Spec(
        COUNTER, (), WORKER, "Attempts that were returned to the leader."
    ),
    "rollq_worker_disconnects_total": Spec(
        COUNTER, (), WORKER, "How often the connection to a leader was lost."
    ),
    "rollq_worker_result_sync_seconds": Spec(
        HISTOGRAM, (), WORKER, "A write to the table of results, with its sync."
    ),
    "rollq_worker_input_bytes_total": Spec(
        *(COUNTER, ("source",), WORKER),
        "Inputs of the attempts that gave results: fetched for them, or held already.",
    ),
    "rollq_worker_fetch_seconds": Spec(HISTOGRAM, (), WORKER, "Fetching a blob."),
    "rollq_worker_cache_bytes": Spec(GAUGE, (), WORKER, "Bytes of the blobs that are here."),
    "rollq_worker_cache_files": Spec(GAUGE, (), WORKER, "Blobs that are here."),
    "rollq_worker_outputs_watched": Spec(
        GAUGE, (), WORKER, "Watchers of the output of jobs that run here."
    ),
    "rollq_worker_output_bytes_total": Spec(
        COUNTER, (), WORKER, "Bytes of output sent to watchers."
    ),
}
_FEDERATION: Final = {
    "rollq_gossip_nodes": Spec(
        *(GAUGE, ("standing",), GOSSIP),
        "Processes of the federation, this one too: alive, suspect, dead, left.",
    ),
    "rollq_gossip_news": Spec(GAUGE, (), GOSSIP, "Processes whose changes are being gossiped."),
    "rollq_gossip_nodes_untaken_total": Spec(
        *(COUNTER, (), GOSSIP),
        "How often a process was not added because the table was full.",
    ),
    "rollq_gossip_sent_total": Spec(COUNTER, (), GOSSIP, "Datagrams sent."),
    "rollq_gossip_received_total": Spec(COUNTER, (), GOSSIP, "Datagrams received, good or not."),
    "rollq_gossip_refused_total": Spec(
        *(COUNTER, ("reason",), GOSSIP),
        "Datagrams ignored: too_long, bad_version, no_key (signed with another key), bad_mac, "
        "bad_body, too_old (or the clocks differ).",
    ),
}
_PROCESS: Final = {
    "rollq_link_bytes_total": Spec(
        *(COUNTER, ("direction",), ALL),
        "Bytes of all links of the process, before TLS.",
    ),
    "rollq_link_moves_total": Spec(
        COUNTER, ("direction",), ALL, "Reads and writes of all links of the process."
    ),
    "rollq_link_saved_bytes_total": Spec(COUNTER, (), ALL, "Bytes saved by compression."),
    "rollq_links_cut_total": Spec(
        *(COUNTER, (), ALL),
        "Connections that this side closed because of an error or silence of the peer.",
    ),
    "process_resident_memory_bytes": Spec(GAUGE, (), ALL, "Memory in use."),
    "process_virtual_memory_bytes": Spec(GAUGE, (), ALL, "Address space in use."),
    "process_cpu_seconds_total": Spec(COUNTER, (), ALL, "CPU time, of user and system."),
    "process_open_fds": Spec(GAUGE, (), ALL, "Open descriptors."),
    "process_threads": Spec(GAUGE, (), ALL, "Threads."),
    "process_start_time_seconds": Spec(
        GAUGE, (), ALL, "When the process began, in seconds since 1970."
    ),
    "rollq_build_info": Spec(
        GAUGE, ("version", "python"), ALL, "1, with the versions of rollq and Python."
    ),
}
CATALOG: Final[dict[str, Spec]] = {
    **_MEMBER_JOBS,
    **_MEMBER_GROUP,
    **_LEADER,
    **_WORKER,
    **_FEDERATION,
    **_PROCESS,
}


def as_markdown() -> str:
    """The table as docs/metrics.md shows it."""
    lines = ["| Name | Type | Labels | Told by | Meaning |", "|---|---|---|---|---|"]
    for name, row in CATALOG.items():
        labels = " ".join(f"`{label}`" for label in row.labels)
        lines.append(f"| `{name}` | {row.kind} | {labels} | {row.exporter} | {row.meaning} |")
    return "\n".join(lines)
