"""`rollq watch`: what happens, as it is committed, in words for people. The rows as they are stored
are for `rollq history tail`."""

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
    from rollq.roles.client.views import ArrayView
    from rollq.roles.reader.reader import Reader

EPILOG = """\b
Examples:
  rollq watch
  rollq watch --queue render --state failed
  rollq watch --since 10m --event dlq --json | jq -r .jobId
  rollq watch --until-ended 6f9619ff
"""
WORKERS_MAX: Final = 1_000
NOT_WELL: Final = (FAILED, DEAD, CANCELLED)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(watch)


def watch(
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only events of this queue.")] = "",
    exec_name: Annotated[
        str, typer.Option("--exec", metavar="NAME", help="Only events of this program.")
    ] = "",
    client: Annotated[str, typer.Option(metavar="NAME", help="Only events of this client.")] = "",
    job: Annotated[str, typer.Option(metavar="ID", help="Only events of this job or array.")] = "",
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

    Goes on when members come and go: each event once, none left out; what retention has removed is
    said. With --until-ended, exit code 1 if one of the jobs did not end well. With --json: the rows
    as stored, one JSON object per line, as `rollq history tail` shows them.
    """
    from rollq.cli.grid import queue_name
    from rollq.cli.ids import asked_of
    from rollq.cli.rows import Wanted
    from rollq.roles.reader.reader import Reader

    wanted = Wanted(
        kind=event,
        job=job,
        queue=queue_name(queue),
        exec_name=exec_name,
        client=client,
        key=key,
        state=state,
        worker=worker,
        since_ms=_since_ms(since),
    )
    standing = asked_of(servers, timeout, until_ended or [], _standing)
    with Reader(servers, timeout_s=timeout, credentials=given_credentials()) as reader:
        code = _show(reader, wanted, standing, count, as_json=as_json)
    raise typer.Exit(code)


def _show(reader: Reader, wanted: Wanted, standing: Standing, count: int, *, as_json: bool) -> int:
    """Write events until there were as many as are wanted, or all ends have come; the exit code."""
    from rollq.cli.event_lines import EventLines
    from rollq.cli.rows import Follower, row_of

    place, names, ends = standing
    shown = EventLines(names, as_json=as_json)
    follower = Follower(reader, lambda _: True)
    first = follower.start_of(wanted.since_ms) if wanted.since_ms else place
    left, reached = count, 0
    for lines in follower.follow(first):
        for line in lines:
            row = row_of(line)
            reached = row.index
            shown.learn(row)
            ends.heard(row)
            if wanted.fits(row, shown.name_of(row.workerId)):
                shown.write(line, row)
                left -= 1
                if count and not left:
                    return 0
        if ends.are_all and (not lines or reached >= place - 1):  # and all before it is shown
            return 0 if ends.are_well else EXIT_FOUND
    raise AssertionError("it is followed for ever")


async def _standing(client: Client, ids: list[JobId]) -> Standing:
    """The index from which on to read, what workers are called, and which of the jobs that are
    waited for have ended already. What happens after the index is read comes as a row."""
    from rollq.base.ids import guid_to_text
    from rollq.cli.grid import ask, unknown_job
    from rollq.grid.views import RawWorkerView
    from rollq.roles.member.status import ClusterView

    place = (await ask(client, ClusterView, "cluster")).applied + 1
    workers = await ask(client, list[RawWorkerView], "workers", b"", WORKERS_MAX)
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
    """Jobs and arrays that are waited for, and how they ended."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._count = 0
        self._bad: set[str] = set()  # those that did not end well, or have a task that did not

    @property
    def are_all(self) -> bool:
        """Whether something is waited for, and all of it has ended."""
        return self._count > 0 and not self._open

    @property
    def are_well(self) -> bool:
        """Whether none of it ended badly."""
        return not self._bad

    def wait_for(self, job_id: str, state: str) -> None:
        """A job, as it stands."""
        self._count += 1
        self._open.add(job_id)
        self._stands(job_id, state)

    def wait_for_array(self, array: ArrayView) -> None:
        """An array, as it stands."""
        self._count += 1
        if array.waiting or array.open:
            self._open.add(array.array_id)
        if array.failed or array.dead or array.cancelled:
            self._bad.add(array.array_id)

    def heard(self, row: HistoryRow) -> None:
        """Something happened."""
        from rollq.cli.rows import state_after
        from rollq.grid.events import ARRAY_ENDED

        if not self._count:
            return
        state = state_after(row)
        if row.jobId in self._open:
            self._stands(row.jobId, state)
        if row.arrayId in self._open:
            if state in NOT_WELL:
                self._bad.add(row.arrayId)
            if row.type == ARRAY_ENDED:
                self._open.discard(row.arrayId)

    def _stands(self, job_id: str, state: str) -> None:
        if state in NOT_WELL:
            self._bad.add(job_id)
        if state in ENDED:
            self._open.discard(job_id)


Standing: TypeAlias = tuple[int, dict[str, str], Ends]


def _since_ms(text: str) -> int:
    return int((time.time() - amount(text, AGES_S, "--since")) * 1000) if text else 0
