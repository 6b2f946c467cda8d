"""`rollq status`: an overview of the grid."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any

import typer

from rollq.base.amounts import size_text
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

EPILOG = """\b
Examples:
  rollq status
  rollq status --servers 127.0.0.1:5001 --json | jq .jobs.dead
  rollq status --workers
"""
QUEUES_MAX = 200  # of an overview; `rollq queue list` has the others
NO_WORKERS = "no workers: start one with `rollq worker HOST PORT --exec-dir DIR`, or --app MODULE"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(status)


def status(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    workers: Annotated[
        bool,
        typer.Option("--workers", help="Show workers alone: layers, resources, labels, disk."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show members, workers, and queues with job counts by state.

    Failed: the program ran and reported an error. Dead: no attempt completed.
    """
    import sys

    from rollq.cli.credentials import own_expiry
    from rollq.cli.output import alarming, remark, write_json
    from rollq.cli.service import run

    document, has_more = run(_look(servers, timeout))
    if as_json:
        shown = ("workers", "drained") if workers else tuple(document)
        write_json({name: document[name] for name in shown})
    elif workers:
        _show_layers(document["workers"])
        _show_absent(document["drained"])
    else:
        _show(document)
    if has_more and not workers:
        remark(f"shown: {QUEUES_MAX} queues; there are more: rollq queue list --limit N")
    if warning := own_expiry():
        remark(alarming(f"warning: {warning}", sys.stderr))


async def _look(servers: str, timeout_s: float) -> tuple[dict[str, Any], bool]:
    """The overview, and whether there are more queues than it has."""
    from rollq.cli.grid import all_rows, connected, query_view
    from rollq.documents import grid as documents
    from rollq.grid.views import CountsView, RawDrainView, RawQueueView, RawWorkerView
    from rollq.roles.member.status import ClusterView

    async with connected(servers, timeout_s) as client:
        cluster = await query_view(client, ClusterView, "cluster")
        counts = await query_view(client, CountsView, "counts")
        queues = await query_view(client, list[RawQueueView], "queues", limit=QUEUES_MAX + 1)
        of_id = attrgetter("worker_id")
        workers = await all_rows(client, list[RawWorkerView], "workers", of_id)
        drained = await all_rows(client, list[RawDrainView], "drained", of_id)
    document = {
        "cluster": documents.cluster_document(cluster),
        "jobs": documents.queue_document(counts),
        "queues": [documents.queue_document(queue) for queue in queues[:QUEUES_MAX]],
        "workers": [documents.worker_document(worker) for worker in workers],
        "drained": [documents.drain_document(one) for one in drained],
    }
    return document, len(queues) > QUEUES_MAX


def _show(document: dict[str, Any]) -> None:
    from rollq.cli.cluster import show_cluster
    from rollq.cli.output import write_line, write_table

    show_cluster(document["cluster"])
    write_line()
    states = list(document["jobs"])
    rows = [
        [queue["name"] + (" (paused)" if queue["paused"] else ""), *map(queue.get, states)]
        for queue in document["queues"]
    ]
    write_table(["queue", *states], [*rows, ["all", *document["jobs"].values()]])
    write_line()
    if document["workers"]:
        show_workers(document["workers"])
    else:
        write_line(NO_WORKERS)


def _show_layers(workers: list[dict[str, Any]]) -> None:
    from rollq.cli.output import write_line

    if workers:
        show_workers(workers)
    else:
        write_line(NO_WORKERS)
    for one in workers:
        name = one["name"] or one["id"]
        if one["connected"] is not False:  # one that is away told nothing to this leader
            layers = ", ".join(one["layers"]) or "unknown (worker of an older version)"
            write_line(f"layers of {name}: {layers}")
        if one["resources"]:
            write_line(f"resources of {name}: {', '.join(_resources(one))}")
        if one["labels"]:
            write_line(f"labels of {name}: {', '.join(one['labels'])}")
        if one["load"] is not None:
            cache, disk = one["load"]["cache_bytes"], one["load"]["disk_free_bytes"]
            write_line(f"files of {name}: {size_text(cache)} held, {size_text(disk)} free")


def _resources(worker: dict[str, Any]) -> list[str]:
    """The resources of a worker, and their usage."""
    in_use = worker["in_use"]
    return [
        f"{name}={amount}" + (f" ({in_use[name]} in use)" if name in in_use else "")
        for name, amount in worker["resources"].items()
    ]


def _show_absent(drained: list[dict[str, Any]]) -> None:
    """Show drained workers that are not connected."""
    from rollq.cli.output import write_line

    for one in drained:
        if not one["known"]:
            name = one["name"] or one["id"]
            undo = f"`rollq drain {name} --undo` when it may get jobs again"
            write_line(f"drained and not connected: {name}; {undo}")


def show_workers(workers: list[dict[str, Any]]) -> None:
    """Write a table of workers. `--json` has their whole ids."""
    from rollq.cli.ids import short_workers
    from rollq.cli.output import write_table

    short = short_workers([one["id"] for one in workers])
    write_table(
        ["worker", "name", "state", "running", "slots", "cpu", "memory", "patterns"],
        [
            [
                *(short[one["id"]], one["name"], one["state"], one["running"], _slots(one)),
                *(cpu_text(one["load"]), memory_text(one["load"]), " ".join(one["patterns"])),
            ]
            for one in workers
        ],
    )


def cpu_text(load: dict[str, Any] | None) -> str:
    """The CPU load of a worker's machine."""
    return "-" if load is None else f"{load['cpu_percent']:.0f} %"


def memory_text(load: dict[str, Any] | None) -> str:
    """The memory usage of a worker's machine."""
    if load is None:
        return "-"
    used, total = load["memory_used_bytes"], load["memory_total_bytes"]
    return f"{used / 1024**3:.1f}/{total / 1024**3:.1f} GiB"


def _slots(worker: dict[str, Any]) -> str:
    """The slots of a worker, and why fewer are used now."""
    return f"{worker['slots']}{' (CPU cap: 1)' if worker['cpu_capped'] else ''}"
