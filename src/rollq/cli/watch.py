"""`rollq watch`: shows events as they are committed, as text. `rollq history tail` shows the stored
rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from rollq.base.amounts import AGES_S, amount
from rollq.base.outcomes import CANCELLED, DEAD, ENDED, FAILED
from rollq.cli.credentials import given_credentials
from rollq.cli.failures import EXIT_FOUND
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.base.ids import JobId
    from rollq.cli.rows import Wanted
    from rollq.history.schema import HistoryRow
    from rollq.roles.client.client import Client
    from rollq.roles.client.results.views import ArrayView
    from rollq.roles.reader.reader import Reader

EPILOG = """\b
Examples:
  rollq watch
  rollq watch --queue render --state failed
  rollq watch --since 10m --event dlq --json | jq -r .jobId
  rollq watch --until-ended 6f9619ff
"""
NOT_OK: Final = (FAILED, DEAD, CANCELLED)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(watch)


def watch(
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only events of this queue.")] = "",
    exec_name: Annotated[
        str, typer.Option("--exec", metavar="NAME", help="Only events of this program.")
    ] = "",
    client: Annotated[str, typer.Option(metavar="NAME", help="Only events of this client.")] = "",
    job: Annotated[
        str,
        typer.Option(metavar="ID", help="Only events of this job, array or task (ARRAY/NUMBER)."),
    ] = "",
    key: Annotated[str, typer.Option(metavar="KEY", help="Only jobs with this key.")] = "",
    worker: Annotated[
        str, typer.Option(metavar="NAME", help="Only events of this worker: name or id.")
    ] = "",
    event: Annotated[
        str, typer.Option(metavar="TYPE", help="Only events of this type: ack, dlq, …")
    ] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE", help="Only events that bring a job into this state.")
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Begin with events of this age: 30s, 10m, 2h.", show_default="now"
        ),
    ] = "",
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, metavar="N", help="End after N (0 = never).")
    ] = 0,
    until_ended: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="End when this job or array has ended; may be repeated."),
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show events as they are committed, until Ctrl-C.

    Each event is shown once, also if members stop and start; a message reports events that
    retention removed. With --until-ended, exit code 1 unless all of the jobs succeeded. With
    --json: the rows as stored, one JSON object per line, as `rollq history tail` shows them.
    """
    from rollq.cli.grid import queue_name
    from rollq.cli.ids import filter_id, with_job_ids
    from rollq.cli.rows import Wanted
    from rollq.roles.reader.reader import Reader

    wanted = Wanted(
        kind=event,
        job=filter_id(servers, timeout, job),
        queue=queue_name(queue),
        exec_name=exec_name,
        client=client,
        key=key,
        state=state,
        worker=worker,
        since_ms=_since_ms(since),
    )
    initial = with_job_ids(servers, timeout, until_ended or [], _initial_state)
    with Reader(servers, timeout_s=timeout, credentials=given_credentials()) as reader:
        code = _show(reader, wanted, initial, count, as_json=as_json)
    raise typer.Exit(code)


def _show(
    reader: Reader, wanted: Wanted, initial: InitialState, count: int, *, as_json: bool
) -> int:
    """Write events until the count is reached, or all jobs have ended; returns the exit code."""
    from rollq.cli.event_lines import EventLines
    from rollq.cli.rows import HistoryFollower, row_of

    place, names, ends = initial
    shown = EventLines(names, as_json=as_json)
    follower = HistoryFollower(reader, lambda _: True)
    first = follower.start_of(wanted.since_ms) if wanted.since_ms else place
    left, reached = count, 0
    for lines in follower.follow(first):
        for line in lines:
            row = row_of(line)
            reached = row.index
            shown.learn(row)
            ends.handle(row)
            if wanted.fits(row, shown.name_of(row.workerId)):
                shown.write(line, row)
                left -= 1
                if count and not left:
                    return 0
        if ends.are_all and (not lines or reached >= place - 1):  # all events before are shown
            return 0 if ends.are_ok else EXIT_FOUND
    raise AssertionError("following the history has no end")


async def _initial_state(client: Client, ids: list[JobId]) -> InitialState:
    """The index to read from, the names of workers, and the awaited jobs that have ended already.
    Later events are rows."""
    from rollq.base.ids import guid_to_text
    from rollq.cli.grid import all_rows, query_view, unknown_job
    from rollq.grid.views import RawWorkerView
    from rollq.roles.member.status import ClusterView

    place = (await query_view(client, ClusterView, "cluster")).applied + 1
    workers = await all_rows(client, list[RawWorkerView], "workers", lambda one: one.worker_id)
    names = {guid_to_text(one.worker_id): one.name for one in workers if one.name}
    ends = Ends()
    for job_id in ids:
        array = await client.array(job_id)
        job = await client.status(job_id) if array is None else None
        if array is not None:
            ends.wait_for_array(array)
        elif job is not None:
            ends.wait_for(job.job_id, job.state)
        else:
            raise unknown_job(job_id)
    return place, names, ends


class Ends:
    """The awaited jobs and arrays, and their outcomes."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._count = 0
        self._bad: set[str] = set()  # not ok, or with tasks that are not ok

    @property
    def are_all(self) -> bool:
        """Whether there are awaited jobs, and all have ended."""
        return self._count > 0 and not self._open

    @property
    def are_ok(self) -> bool:
        """Whether all of them succeeded."""
        return not self._bad

    def wait_for(self, job_id: str, state: str) -> None:
        """Add a job in its current state."""
        self._count += 1
        self._open.add(job_id)
        self._set_state(job_id, state)

    def wait_for_array(self, array: ArrayView) -> None:
        """Add an array in its current state."""
        self._count += 1
        if array.waiting or array.open:
            self._open.add(array.array_id)
        if array.failed or array.dead or array.cancelled:
            self._bad.add(array.array_id)

    def handle(self, row: HistoryRow) -> None:
        """Handle a row."""
        from rollq.cli.rows import state_after
        from rollq.grid.events import ARRAY_ENDED

        if not self._count:
            return
        state = state_after(row)
        if row.jobId in self._open:
            self._set_state(row.jobId, state)
        if row.arrayId in self._open:
            if state in NOT_OK:
                self._bad.add(row.arrayId)
            if row.type == ARRAY_ENDED:
                self._open.discard(row.arrayId)

    def _set_state(self, job_id: str, state: str) -> None:
        if state in NOT_OK:
            self._bad.add(job_id)
        if state in ENDED:
            self._open.discard(job_id)


InitialState: TypeAlias = tuple[int, dict[str, str], Ends]


def _since_ms(text: str) -> int:
    return int((time.time() - amount(text, AGES_S, "--since")) * 1000) if text else 0
