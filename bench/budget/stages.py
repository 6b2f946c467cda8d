"""The stages of a job by modules of rollq. The longest prefix that fits counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from bench.budget.sampler import LOOP, THREADS

MESSAGES: Final = "decode, encode, send messages"
SETUP: Final = ""  # start and end of the process: no job's
REST: Final = "the rest"

COMMON: Final = {
    "rollq.wire": MESSAGES,
    "rollq.net": MESSAGES,
    "rollq.cli": SETUP,
    LOOP: "event loop, reads and writes of sockets",
    THREADS: "other threads: writes and syncs",
}
MEMBER: Final = {
    **COMMON,
    "rollq.roles.door": "sessions: what peers ask, what they are told",
    "rollq.roles.member.leader": "sessions: what peers ask, what they are told",
    "rollq.roles.member.session_links": "sessions: what peers ask, what they are told",
    "rollq.roles.member": "turn of the member's loop",
    "rollq.roles.member.replica": "apply: commands, state, events, effects",
    "rollq.roles.member.history_log": "history: rows for the log of events",
    "rollq.raft": "consensus",
    "rollq.grid": "apply: commands, state, events, effects",
    "rollq.policy": "dispatch: who gets what",
    "rollq.policy.expiry": "timers: leases, results kept",
    "rollq.policy.timers": "timers: leases, results kept",
    "rollq.history": "history: rows for the log of events",
    "rollq.store": "log on disk",
}
WORKER: Final = {
    **COMMON,
    "rollq.roles.worker": "turn of the worker's loop",
    "rollq.roles.worker.machine": "decisions: credit, attempts",
    "rollq.roles.worker.assignments": "decisions: credit, attempts",
    "rollq.roles.worker.attempts": "decisions: credit, attempts",
    "rollq.roles.worker.credit": "decisions: credit, attempts",
    "rollq.roles.worker.calls": "run the function",
    "rollq.roles.worker.executor": "run the function",
    "rollq.tasks": "run the function",
    "rollq.roles.worker.results": "results: encode, keep on disk",
    "rollq.roles.worker.writer": "results: encode, keep on disk",
    "rollq.roles.persist": "results: encode, keep on disk",
    "rollq.store": "results: encode, keep on disk",
}
CLIENT: Final = {
    **COMMON,
    "rollq.roles.client": "calls: jobs out, results in",
    "rollq.roles.client.session.machine": "decisions: what is owed and sent",
    "rollq.roles.client.many.map_run": "map: keep the window full",
    "rollq.roles.client.many.keyed": "map: keep the window full",
    "rollq.roles.client.many.pump": "turn of the client's loop",
}


def stage_of(place: str, stages: Mapping[str, str]) -> str:
    """The stage that a function belongs to, by its module."""
    prefix = place.partition(":")[0]
    while prefix:
        if prefix in stages:
            return stages[prefix]
        prefix = prefix.rpartition(".")[0]
    return REST


def by_stage(seconds: Mapping[str, float], stages: Mapping[str, str]) -> dict[str, float]:
    """CPU seconds by stage, without those of start and end."""
    told: defaultdict[str, float] = defaultdict(float)
    for place, used in seconds.items():
        if stage := stage_of(place, stages):
            told[stage] += used
    return told


def by_function(seconds: Mapping[str, float], stages: Mapping[str, str]) -> dict[str, float]:
    """CPU seconds by function, without those of start and end."""
    return {
        place.removeprefix("rollq."): used
        for place, used in seconds.items()
        if stage_of(place, stages)
    }
