"""The parameters of a run, drawn from its seed: sizes, rates, and the enabled kinds of faults.

Each seed disables most faults, which gives the others more room (swarm testing).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from rollq.grid.commands import Settings
from rollq.history.retention import Retention
from rollq.raft.state import RaftOptions
from rollq.testing.jitter import SeededJitter
from rollq.testing.network import NetFaults

# All fault kinds, by their names in the statistics.
NET_FAULTS: Final = (
    "partition",
    "one_way",
    "flap",
    "isolate_leader",
    "choke_leader",
    "cut_sessions",
    "shut_out",
    "blackhole",
    "forge",
)
PROCESS_FAULTS: Final = (
    "crash_power",
    "crash_kill",
    "crash_point",
    "crash_disk_op",
    "crash_all",
    "pause",
    "freeze_leader",
    "sleep_alone",
    "clock_jump",
    "clock_stall",
)
DISK_FAULTS: Final = (
    "sync_fails",
    "write_fails",
    "disk_full",
    "disk_slow",
    "rot",
    "rot_tail",
    "empty_disk",
    "old_disk",
)
OPERATION_FAULTS: Final = (
    "worker_crash",
    "worker_pause",
    "worker_busy",
    "worker_drain",
    "worker_programs",
    "worker_rot",
    "blobs_missing",
    "blobs_damaged",
    "client_crash",
    "transfer",
    "remove_member",
)
ALL_FAULTS: Final = NET_FAULTS + PROCESS_FAULTS + DISK_FAULTS + OPERATION_FAULTS


@dataclass(slots=True, frozen=True)
class Swarm:
    """The parameters of one run."""

    members: int = 3
    workers: int = 3
    clients: int = 2
    slots: int = 2
    limited: bool = False  # limits, rates and weights are changed
    scheduled: bool = False  # schedules are changed
    ahead: int = 0  # the most jobs that a worker may prefetch
    usual_run_ms: int = 300  # most jobs run for less
    cap: int = 0
    jobs_per_client: int = 25
    chaos_ms: int = 12_000
    heal_ms_max: int = 90_000  # to converge, without the time when the first worker is full
    full_ms_max: int = 300_000  # of that time; the jobs of a run take less, one after another
    silent_ms_max: int = (
        12_000  # results come within this if the leader falls silent; 0: it does not
    )
    fault_ms_min: int = 150  # time between two faults
    fault_ms_max: int = 1_200
    faults: tuple[str, ...] = ()
    net: NetFaults = field(default_factory=NetFaults)
    snapshot_entries: int = 40
    hot_bytes_max: int = 256  # bodies of waiting jobs in memory
    large_bytes_min: int = 16  # larger bodies stay in the log
    segment_bytes: int = 8 * 1024
    tick_ms: int = 50
    raft: RaftOptions = field(default_factory=RaftOptions)
    settings: Settings = field(default_factory=Settings)
    retention: Retention = field(default_factory=Retention)  # of history


def draw_swarm(chance: SeededJitter, **overrides: Any) -> Swarm:
    """Draw the parameters of a seed; `overrides` replace some, as for a mutant."""
    faults = tuple(name for name in ALL_FAULTS if chance.chance(400))
    noisy = chance.chance(600)
    net = NetFaults(
        loss_per_mille=chance.draw(0, 150) if noisy and chance.chance(700) else 0,
        double_per_mille=chance.draw(0, 150) if noisy and chance.chance(500) else 0,
        replay_per_mille=chance.draw(0, 40) if noisy and chance.chance(400) else 0,
        delay_ms_max=chance.pick((2, 5, 20, 60)),
        tail_per_mille=chance.draw(0, 60) if noisy and chance.chance(500) else 0,
        tail_ms_max=chance.pick((200, 1_000, 4_000)),
    )
    settings = Settings(
        max_attempts=chance.draw(2, 6),
        lease_ms=chance.pick((1_000, 2_000, 3_000)),
        worker_grace_ms=chance.pick((500, 1_500, 3_000)),
        retry_base_ms=chance.pick((20, 100, 300)),
        retry_max_ms=1_000,
        result_ttl_ms=chance.pick((3_600_000, 3_600_000, 6_000)),
        dead_ttl_ms=chance.pick((3_600_000, 3_600_000, 9_000)),
        results_kept_max=chance.pick((100_000, 10)),
    )
    append_bytes_max = chance.pick((512, 4_096, 65_536))
    raft = RaftOptions(
        heartbeat_ticks=3,
        append_bytes_max=append_bytes_max,
        inflight_appends_max=chance.pick((2, 8, 64)),
        snapshot_chunk_bytes_max=chance.pick((256, 1_024, 65_536)),
        log_tail_bytes=append_bytes_max,  # other entries are read back from disk
    )
    swarm = Swarm(
        members=5 if chance.chance(300) else 3,
        workers=chance.draw(2, 5),
        clients=chance.draw(2, 4),
        slots=chance.draw(1, 4),
        cap=chance.pick((0, 1, 2, 4)),
        jobs_per_client=chance.draw(10, 30),
        chaos_ms=chance.draw(6_000, 16_000),
        fault_ms_max=chance.pick((600, 1_200, 2_500)),
        faults=faults,
        net=net,
        snapshot_entries=chance.pick((12, 25, 60, 200)),
        hot_bytes_max=chance.pick((0, 256, 1 << 20)),
        segment_bytes=chance.pick((4, 8, 16)) * 1024,
        raft=raft,
        settings=settings,
        ahead=chance.pick((0, 3, 8, 64)),
        usual_run_ms=chance.pick((300, 300, 30, 8)),
        large_bytes_min=chance.pick((8, 16, 200)),
        limited=chance.chance(500),
        scheduled=chance.chance(500),
    )
    return replace(swarm, **overrides)
