"""Checks of `rollq doctor` other than log and snapshots: history, free disk space, and a running
group."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from pathlib import Path
from typing import Final

from rollq.base.amounts import counted, size_text
from rollq.base.disk_use import is_low
from rollq.base.errors import RollqError
from rollq.base.ids import guid_to_text
from rollq.base.limits import QUERY_ROWS_MAX
from rollq.cli.credentials import given_credentials, own_expiry
from rollq.cli.failures import EXIT_UNREACHABLE, exit_code_of
from rollq.cli.grid import all_rows, connected, query_view
from rollq.grid.views import CountsView, RawQueueView, RawWorkerView, UnservedView
from rollq.history.arrow_cache import copies_there
from rollq.history.segments import Segments
from rollq.net.dialer import dial, is_served, takes_connections
from rollq.roles.client.addresses import as_addresses
from rollq.roles.member.readers.columns import is_worth
from rollq.roles.member.status import ClusterView
from rollq.security.expiry import RENEW
from rollq.store.check import NOTE, PROBLEM, Finding
from rollq.store.disk import Disk

LAG_MAX: Final = 10_000
NAMES_MAX: Final = 5
MEMORY_FULL: Final = 0.95  # of a worker's machine
DISK_FREE_BYTES_MIN: Final = 1024**3
SILENT: Final = "accepts connections but does not answer"
WAKE: Final = "its process is stopped or hangs: continue it, or restart it"
APART: Final = "its log says why: it was started on another state directory, or the network is cut"


def history_findings(disk: Disk) -> list[Finding]:
    """Find corrupt segments and missing ranges."""
    segments = Segments(disk)
    findings = [
        Finding(
            PROBLEM,
            f"history segment {name} is corrupt",
            "start the member with its peers: it fetches those rows again",
        )
        for name in segments.scrub()
    ]
    last = max((last for _, last in map(_range, segments.names())), default=0)
    for low, high in segments.gaps(last):
        findings.append(
            Finding(
                NOTE,
                f"history of log index {low} to {high} is missing here",
                "the member fetches it from its peers at start, unless retention removed it",
            )
        )
    return findings + _columns_findings(disk, segments)


def _columns_findings(disk: Disk, segments: Segments) -> list[Finding]:
    """Check that segments have columns, which are the fastest to read."""
    worth = [ends for ends in segments.ranges() if is_worth(disk, *ends)]
    there = copies_there(disk)
    lacking = sum(ends not in there for ends in worth)
    if not lacking:
        return []
    return [
        Finding(
            NOTE,
            f"{lacking} of {len(worth)} history segments have no Arrow columns: readers make "
            "them themselves, which is slower",
            "members write them when idle, if pyarrow is installed and --no-columns is not set",
        )
    ]


def room_findings(state: Path) -> list[Finding]:
    """Check the free disk space: a member stops when the disk is full."""
    room = shutil.disk_usage(state)
    if not is_low(room.free, room.total):
        return []
    free, total = size_text(room.free), size_text(room.total)
    return [
        Finding(
            PROBLEM,
            f"only {free} of {total} are free on the disk of {state}",
            "free some space: a member stops when its disk is full",
        )
    ]


async def group_findings(servers: str, timeout_s: float) -> tuple[bool, list[Finding]]:
    """Check a group; returns whether a leader responds, and the findings."""
    try:
        async with connected(servers, timeout_s) as client:
            cluster = await query_view(client, ClusterView, "cluster")
            counts = await query_view(client, CountsView, "counts")
            queues = await all_rows(
                client, list[RawQueueView], "queues", lambda one: one.name.encode()
            )
            workers = await all_rows(
                client, list[RawWorkerView], "workers", lambda one: one.worker_id
            )
            kind = list[UnservedView]
            unserved = await query_view(client, kind, "unserved", b"", QUERY_ROWS_MAX)
    except RollqError as error:
        if exit_code_of(error) != EXIT_UNREACHABLE:
            raise
        return False, await _without_leader(servers)
    findings = [
        Finding(
            NOTE,
            f"{cluster.leader} leads {counted(len(cluster.members), 'member')} "
            f"in term {cluster.term}, "
            f"commit {cluster.commit}",
        )
    ]
    findings += await member_findings(cluster)
    if warning := own_expiry():
        findings.append(Finding(PROBLEM, warning, RENEW))
    findings += _jobs(counts, queues, workers)
    findings += unserved_findings(unserved) if workers else []
    findings += away_findings(workers)
    findings += layer_findings(workers)
    findings += load_findings(workers)
    return True, findings


def away_findings(workers: list[RawWorkerView]) -> list[Finding]:
    """Workers that are not connected, and have their grace to come back; a few are named."""
    away = [one for one in workers if one.connected is False]
    if not away or len(away) == len(workers):  # none at all is another finding
        return []
    held = sum(len(one.held) for one in away)
    names = _some([one.name or guid_to_text(one.worker_id) for one in away])
    what = f"not connected: worker {names}, with {counted(held, 'job')}"
    todo = "their jobs go to other workers when their grace is over; look at their logs"
    return [Finding(NOTE, what, todo)]


def layer_findings(workers: list[RawWorkerView]) -> list[Finding]:
    """The sandbox layers of workers, grouped."""
    by_layers: dict[tuple[str, ...], list[str]] = {}
    for one in workers:
        by_layers.setdefault(one.layers, []).append(one.name or guid_to_text(one.worker_id))
    return [
        Finding(NOTE, f"jobs on {_some(names)} run in the layers {', '.join(layers)}")
        for layers, names in by_layers.items()
        if layers
    ]


def load_findings(workers: list[RawWorkerView]) -> list[Finding]:
    """Workers whose machines are short of memory or disk; a few are named."""
    loads = [(one.name or guid_to_text(one.worker_id), one.load) for one in workers if one.load]
    full = [
        name
        for name, load in loads
        if load.memory_used_bytes > MEMORY_FULL * load.memory_total_bytes
    ]
    short = [name for name, load in loads if load.disk_free_bytes < DISK_FREE_BYTES_MIN]
    findings = []
    if full:
        todo = "let them run fewer jobs (--slots), or let jobs say what they need (--memory)"
        findings.append(Finding(PROBLEM, f"memory is nearly used up on {_some(full)}", todo))
    if short:
        todo = "free space, or keep fewer files there: --blob-bytes-max"
        what = f"less than {size_text(DISK_FREE_BYTES_MIN)} of disk is free on {_some(short)}"
        findings.append(Finding(PROBLEM, what, todo))
    return findings


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


async def _without_leader(servers: str) -> list[Finding]:
    """Find out why there is no leader."""
    findings = []
    addresses = as_addresses(servers)
    troubles = {address: await _trouble(address) for address in addresses}
    for address, trouble in troubles.items():
        if trouble == SILENT:
            findings.append(Finding(PROBLEM, f"{address} {trouble}", WAKE))
        elif trouble:
            todo = "start it, or correct the address"
            findings.append(Finding(PROBLEM, f"{address} cannot be reached: {trouble}", todo))
        else:
            findings.append(Finding(NOTE, f"{address} answers; it knows no leader"))
    away = sum(map(bool, troubles.values()))
    if away == len(addresses):
        todo = "start the members; if they run, check the network between them and here"
    else:
        todo = "a majority of members must run and reach each other: check their logs"
    return [Finding(PROBLEM, f"no leader answers at {servers}", todo), *findings]


async def member_findings(cluster: ClusterView) -> list[Finding]:
    """Members that are down or behind. A router reports the members of several groups together,
    named GROUP/HOST:PORT, without the number of voters of each."""
    findings = [Finding(PROBLEM, alarm.text, alarm.todo) for alarm in cluster.alarms]
    is_of_router = any("/" in member.address for member in cluster.members)
    addresses = [member.address.rpartition("/")[2] for member in cluster.members]
    troubles = await asyncio.gather(*map(_trouble, addresses))
    for member, address, trouble in zip(cluster.members, addresses, troubles, strict=True):
        if trouble == SILENT:
            findings.append(Finding(PROBLEM, f"member {member.address} {trouble}", WAKE))
        elif trouble:
            what = f"member {member.address} is down: {trouble}"
            todo = (
                "start it, or mend the network to it; if it is gone for good: rollq cluster remove"
            )
            findings.append(Finding(PROBLEM, what, f"{todo} {address}"))
        elif not member.active:
            what = f"member {member.address} runs, but does not answer the leader"
            findings.append(Finding(PROBLEM, what, APART))
        elif member.lag > LAG_MAX:
            findings.append(
                Finding(
                    PROBLEM,
                    f"member {member.address} lags {member.lag} log entries behind the leader",
                    "if the lag does not shrink, check its disk and its network",
                )
            )
        if member.role == "learner":
            findings.append(
                Finding(
                    NOTE, f"member {member.address} is a learner: no vote until it has caught up"
                )
            )
    if is_of_router:
        return findings
    voters = sum(member.role != "learner" for member in cluster.members)
    if voters == 1:
        findings.append(Finding(NOTE, "one voter: no replication", "run three members"))
    elif voters % 2 == 0:
        findings.append(
            Finding(
                NOTE,
                f"{voters} voters tolerate no more failures than {voters - 1} would",
                "add one, or remove one",
            )
        )
    return findings


async def _trouble(address: str) -> str:
    """Why a member cannot be reached from here; empty if it can."""
    try:
        link = await dial(
            address, "", lambda *_: None, lambda *_: None, credentials=given_credentials()
        )
    except RollqError as error:
        # For a stopped process the system accepts connections, on which nobody speaks TLS.
        is_silent = await takes_connections(address) and not await is_served(address)
        return SILENT if is_silent else error.message
    link.close("probe only")
    return "" if await is_served(address) else SILENT


def _jobs(
    counts: CountsView, queues: list[RawQueueView], workers: list[RawWorkerView]
) -> list[Finding]:
    findings = []
    if all(one.connected is False for one in workers):
        severity = PROBLEM if counts.queued else NOTE
        findings.append(
            Finding(severity, "no workers are connected", "start one: rollq worker HOST PORT")
        )
    for queue in queues:
        if queue.paused and queue.queued:
            findings.append(
                Finding(
                    NOTE,
                    f"queue {queue.name} is paused; waiting in it: {counted(queue.queued, 'job')}",
                    f"rollq queue resume {queue.name}",
                )
            )
    dead = counts.dead - counts.expired  # tasks that expired unassigned cannot be redriven
    if dead:
        findings.append(
            Finding(
                PROBLEM,
                f"{counted(dead, 'job')} {'is' if dead == 1 else 'are'} dead",
                "see why with `rollq dlq list`; then redrive or purge them",
            )
        )
    return findings


def unserved_findings(unserved: list[UnservedView]) -> list[Finding]:
    """Jobs that wait for a worker that is not connected, or for something that no worker has. The
    number of waiting jobs is known per queue only."""
    findings = []
    for one in unserved:
        worker = f" named {one.worker_name}" if one.worker_name else ""
        verb = "waits" if one.waiting == 1 else "wait"
        waiting = f"{counted(one.waiting, 'job')} {verb} in queue {one.queue}"
        if one.waiting > 1 and (one.workers or one.worker_name):
            waiting += ", some of them for a worker"
        if one.lacks:
            needs = "what it needs" if one.waiting == 1 else "what these need"
            lacks = f"no connected worker{worker} has {needs}: {one.lacks}"
            todo = f"start one that has: rollq worker HOST PORT {one.queue} --label … --resource …"
        elif one.workers:
            lacks = (
                f"no connected worker{worker} has program or function {one.program}; "
                f"workers serving the queue: {one.workers}"
            )
            todo = (
                f"put {one.program} into the exec directory of a worker that serves the queue, or "
                "start one with its module as --app"
            )
        else:
            lacks = f"no connected worker{worker} serves it"
            name = f" --name {shlex.quote(one.worker_name)}" if one.worker_name else ""
            todo = (
                f"start one: rollq worker HOST PORT {one.queue}{name}; "
                "without a pattern it serves all"
            )
        findings.append(Finding(PROBLEM, f"{waiting}, and {lacks}", todo))
    if len(unserved) == QUERY_ROWS_MAX:
        what = f"the first {len(unserved)} of such needs are told; there may be more"
        findings.append(Finding(NOTE, what, "meet these, and run `rollq doctor` again"))
    return findings


def _range(name: str) -> tuple[int, int]:
    first, _, last = name.partition(".")[0].partition("-")
    return int(first), int(last)
