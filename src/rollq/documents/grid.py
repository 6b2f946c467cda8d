"""Queues, workers, topics, the group and its hints."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.base.hints import ExecHint
from rollq.base.ids import guid_to_text
from rollq.base.needs import WorkerLoad, resource_texts
from rollq.base.outcomes import STATES
from rollq.grid import views
from rollq.grid.topic_views import TopicView
from rollq.grid.views import RawDrainView, RawWorkerView
from rollq.roles.client.results.views import QueueView
from rollq.roles.member.status import UNKNOWN, ClusterView

NOT_KNOWN: Final = dict.fromkeys(("match", "lag", "active", "clock_skew_ms"))
HINT_COLUMNS: Final = ("exec", "p50_ms", "p95_ms", "p99_ms", "count")


def queue_document(raw: views.RawQueueView) -> dict[str, Any]:
    """A queue, or the sum of all (without a name)."""
    view = QueueView.of(raw)
    document: dict[str, Any] = {"name": view.name, "paused": view.paused} if view.name else {}
    return document | {word: getattr(view, word) for word in STATES}


def worker_document(view: RawWorkerView) -> dict[str, Any]:
    """A worker. `connected` is null if the queried member is not the leader: it knows neither the
    connection, nor the CPU cap, the layers and the load."""
    return {
        "id": guid_to_text(view.worker_id),
        "name": view.name,
        "state": worker_state(view),
        "slots": view.slots,
        "running": len(view.held),
        "connected": view.connected,
        "cpu_capped": view.is_capped,
        "layers": list(view.layers),
        "patterns": list(view.patterns),
        "labels": list(view.labels),
        "resources": resource_texts(view.resources),
        "in_use": resource_texts(view.in_use),
        "load": load_document(view.load),
        "jobs": [guid_to_text(job_id) for job_id in view.held],
    }


def load_document(load: WorkerLoad | None) -> dict[str, Any] | None:
    """The load of a worker's machine; null if it does not report it."""
    if load is None:
        return None
    document = msgspec.structs.asdict(load)
    return {"cpu_percent": document.pop("cpu_permille") / 10} | document


def worker_state(view: RawWorkerView) -> str:
    """The state of a worker: ready, draining (gets no new jobs), drained (and holds none), or away
    (disconnected, within its grace)."""
    if view.is_drained:
        return "draining" if view.held else "drained"
    return "away" if view.connected is False else "ready"


def drain_document(view: RawDrainView) -> dict[str, Any]:
    """A drained worker."""
    return {
        "id": guid_to_text(view.worker_id),
        "name": view.name,
        "state": "draining" if view.held else "drained",
        "known": view.is_known,
        "running": view.held,
        "since_ms": view.stamp_ms,
        "by": view.by,
    }


def cluster_document(view: ClusterView) -> dict[str, Any]:
    """The group. Member ids are text, as they exceed the integers of JavaScript. What the queried
    member does not know of others is null, and so is the lag of one that is not active: what it
    holds on its disk is known when it is back."""
    return {
        "leader": view.leader,
        "leader_id": str(view.leader_id),
        "term": view.term,
        "commit": view.commit,
        "applied": view.applied,
        "last_index": view.last_index,
        "log_hash": view.log_hash.hex(),
        "state_hash": view.state_hash.hex(),
        "members": [
            {
                "id": str(member.member_id),
                "address": member.address,
                "role": member.role,
                "match": member.match,
                "lag": member.lag if member.active else None,
                "active": member.active,
                "state": member.state,
                "clock_skew_ms": member.skew_ms,
                "disk": member.disk,
            }
            | (NOT_KNOWN if member.state == UNKNOWN else {})
            for member in view.members
        ],
        "alarms": [
            {"code": alarm.code, "text": alarm.text, "todo": alarm.todo} for alarm in view.alarms
        ],
    }


def topic_document(view: TopicView) -> dict[str, Any]:
    """A topic, with its durable subscriptions."""
    return {
        "topic": view.name,
        "patterns": list(view.patterns),
        "age_ms": view.age_ms,
        "bytes_max": view.bytes_max,
        "count_max": view.count_max,
        "changed_ms": view.stamp_ms,
        "by": view.by,
        "first_index": view.first_index,
        "last_index": view.last_index,
        "count": view.count,
        "bytes": view.size_bytes,
        "cursors": [
            {
                "durable": one.durable,
                "index": one.index,
                "behind": one.behind,
                "moved_ms": one.stamp_ms,
            }
            for one in view.cursors
        ],
    }


def hint_document(hint: ExecHint) -> dict[str, Any]:
    """The run times of a program."""
    return dict(zip(HINT_COLUMNS, msgspec.structs.astuple(hint), strict=True))
