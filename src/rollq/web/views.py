"""GET of queues, workers, members, settings, caches and topics."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.base.counters import Family
from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import guid_to_text
from rollq.documents.federation import federation_document
from rollq.documents.grid import (
    cluster_document,
    queue_document,
    topic_document,
    worker_document,
)
from rollq.gossip.map import FederationView
from rollq.grid import views
from rollq.grid.commands import Settings
from rollq.grid.topic_views import TopicView
from rollq.roles.client.results.views import CacheView, HolderView
from rollq.roles.member.status import ClusterView
from rollq.web.call import ApiCall, ApiReply, Page, fewer_rows, id_of
from rollq.web.errors import RequestError

ROWS_MAX: Final = 1_000


async def queues(call: ApiCall) -> ApiReply:
    """Queues, by name."""
    page: Page = call.query
    rows = await call.links.read(
        list[views.RawQueueView], "queues", page.after.encode(), page.limit
    )
    after = rows[-1].name if len(rows) == page.limit else None
    ages_ms = await _ages_ms(call)
    found = [queue_document(row) | {"oldest_wait_ms": ages_ms.get(row.name)} for row in rows]
    return ApiReply({"queues": found, "after": after})


async def queue(call: ApiCall) -> ApiReply:
    """One queue."""
    name = call.path["name"]
    row = await call.links.find(views.RawQueueView, "queue", name.encode())
    if row is None:
        raise RequestError(404, ErrorCode.BAD_SUBJECT, f"no queue {name[:64]!r}", "GET /queues")
    return ApiReply(queue_document(row))


async def workers(call: ApiCall) -> ApiReply:
    """Workers, by id."""
    page: Page = call.query
    after = id_of(page.after) if page.after else b""
    kind = list[views.RawWorkerView]
    rows, arguments = await fewer_rows(
        lambda limit: call.links.ask(kind, "workers", after, limit), page.limit
    )
    last = guid_to_text(rows[-1].worker_id) if len(rows) == arguments else None
    return ApiReply({"workers": [worker_document(row) for row in rows], "after": last})


async def worker(call: ApiCall) -> ApiReply:
    """One worker."""
    row = await call.links.client.query("worker", call.job_id)
    view = msgspec.msgpack.decode(row, type=views.RawWorkerView | None)
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_WORKER, f"no worker {call.path['id']}", "GET /workers lists them"
        )
    return ApiReply(worker_document(view))


async def cluster(call: ApiCall) -> ApiReply:
    """The members of the group: leader, addresses, lag and disk."""
    return ApiReply(cluster_document(await call.links.ask(ClusterView, "cluster")))


async def groups(call: ApiCall) -> ApiReply:
    """The groups of the federation, as one member knows them."""
    return ApiReply(federation_document(await call.links.read(FederationView, "groups")))


async def settings(call: ApiCall) -> ApiReply:
    """The cluster's settings."""
    found = await call.links.read(Settings, "settings")
    return ApiReply(msgspec.structs.asdict(found))


async def caches(call: ApiCall) -> ApiReply:
    """Caches, by name."""
    page: Page = call.query
    rows = await call.links.read(list[CacheView], "caches", page.after.encode(), page.limit)
    after = rows[-1].cache_id if len(rows) == page.limit else None
    return ApiReply({"files": [_cache(row) for row in rows], "after": after})


async def topics(call: ApiCall) -> ApiReply:
    """Topics, by name."""
    page: Page = call.query
    rows = await call.links.read(list[TopicView], "topics", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return ApiReply({"topics": [topic_document(row) for row in rows], "after": after})


async def topic(call: ApiCall) -> ApiReply:
    """One topic."""
    name = call.path["name"]
    row = await call.links.find(TopicView, "topic", name.encode())
    if row is None:
        raise RequestError(404, ErrorCode.UNKNOWN_TOPIC, f"no topic {name[:64]!r}", "GET /topics")
    return ApiReply(topic_document(row))


async def holders(call: ApiCall) -> ApiReply:
    """The state of a cache on every worker."""
    told = await call.links.ask(
        list[views.RawHolderView], "holders", call.path["name"].encode(), ROWS_MAX
    )
    rows = [msgspec.structs.asdict(HolderView.of(one)) for one in told]
    return ApiReply({"holders": rows})


async def _ages_ms(call: ApiCall) -> dict[str, int]:
    """The age of the oldest job of the deepest queues; empty if access is denied."""
    try:
        families = await call.links.read(list[Family], "metrics")
    except RollqError as error:
        if error.code is not ErrorCode.ACCESS_DENIED:
            raise
        return {}
    return {
        sample.labels[0]: int(1000 * sample.value)
        for family in families
        if family.name == "rollq_queue_oldest_seconds"
        for sample in family.samples
    }


def _cache(view: CacheView) -> dict[str, Any]:
    return {
        "id": view.cache_id,
        "files": view.file_count,
        "bytes": view.size_bytes,
        "targets": list(view.targets),
        "changed_ms": view.stamp_ms,
        "removed": view.removed,
        "users": view.users,
    }
