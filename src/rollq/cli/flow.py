"""`rollq flow`: submits a graph of jobs from a file."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.errors import ErrorCode, StateError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout

if TYPE_CHECKING:
    from rollq.cli.flow_file import Tables
    from rollq.grid.views import RawJobView
    from rollq.roles.client.client import Client
    from rollq.roles.client.jobs.specs import JobSpec

EPILOG = """\b
Examples:
  rollq flow run nightly.toml
  rollq flow run nightly.toml --name nightly-2026-11-18
  rollq flow show nightly-2026-11-18
  rollq flow cancel nightly-2026-11-18
"""
PREFIX: Final = "flow-"  # of the client id that owns the jobs of a flow; its name follows
BATCH: Final = "flow"
TOLD: Final = 3  # differences of two flows that are named

app = typer.Typer(
    name="flow",
    help="Run, show and cancel jobs that wait for each other.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the flow.")]


@app.command(epilog="Example: rollq flow run nightly.toml --name nightly-2026-11-18")
def run(
    source: Annotated[
        Path, typer.Argument(metavar="FLOW.toml", help="A table for each job: exec, args, after, …")
    ],
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name of the flow.",
            show_default="name of the file and a random suffix",
        ),
    ] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Submit all jobs of a flow, or none.

    Prints its name. The same name is accepted once: if the response was lost, run it again. Exit
    code 4 if the name is that of another flow.
    """
    from rollq.base.amounts import counted
    from rollq.cli.flow_file import read_flow
    from rollq.cli.output import remark, write_answer
    from rollq.cli.service import run as run_async

    name = name or f"{source.stem}-{secrets.token_hex(3)}"
    tables = read_flow(source, name)
    gone = run_async(_submit(servers, timeout, name, tables, source.parent))
    if gone is not None:
        remark(f"flow {name} was already submitted; nothing changed")
    if gone:
        remark(
            f"not compared with the file: {counted(gone, 'job')}, forgotten or not in the queue "
            "yet; give another --name to run the file as a new flow"
        )
    document = {"name": name, "jobs": len(tables), "known": gone is not None}
    write_answer(document, name, as_json=as_json)


async def _submit(
    servers: str, timeout_s: float, name: str, tables: Tables, folder: Path
) -> int | None:
    """Submit the jobs. If they had been submitted before, returns how many could not be compared
    with those of the file, else None."""
    from rollq.cli.flow_file import specs_of
    from rollq.cli.grid import connected

    async with connected(servers, timeout_s, _client_of(name)) as client:
        specs = list(specs_of(tables, client.client_id, folder))
        part = await client.stage(BATCH, secrets.token_hex(8), specs)
        outcome = await client.commit(BATCH, (part,))
        if not outcome.known:
            return None
        return outcome.count - await _compare(client, name, specs, outcome.count)


async def _compare(client: Client, name: str, specs: list[JobSpec], count: int) -> int:
    """Refuse a file whose name another flow has; returns how many jobs were compared.

    Raises:
        StateError: BATCH_CONFLICT, naming what differs.
    """
    from rollq.cli.choosing import jobs_like
    from rollq.cli.flow_changes import differences
    from rollq.grid.matching import JobFilter

    ids = [job.job_id async for job in jobs_like(client, JobFilter(client_id=client.client_id))]
    known = [view for job_id in ids if (view := await client.jobs.view(job_id)) is not None]
    found = list(differences(specs, known, count))
    if found:
        raise StateError(
            ErrorCode.BATCH_CONFLICT,
            f"another flow has the name {name[:64]!r}: {'; '.join(found[:TOLD])}",
            f"give this one another --name; `rollq flow show {name}` shows the one that has it",
        )
    return len(known)


@app.command(epilog="Example: rollq flow show nightly-2026-11-18 --json | jq .counts")
def show(
    name: Name,
    limit: Limit = 100,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the jobs of a flow, their states, and what they wait for."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table

    document = with_client(servers, timeout, lambda client: _look(client, name, limit))
    if as_json:
        write_json(document)
        return
    counts = ", ".join(f"{count} {word}" for word, count in document["counts"].items())
    write_line(f"{name}: {counts}")
    rows = [
        [one["name"], one["state"], one["id"], ", ".join(one["after"])] for one in document["jobs"]
    ]
    write_table(["name", "state", "id", "after"], rows, fits=True)
    hidden = document["count"] - len(rows)
    if hidden > 0:
        write_line(f"and {hidden} more: --limit {document['count']} shows all")


@app.command(epilog="Example: rollq flow cancel nightly-2026-11-18")
def cancel(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Cancel all jobs of a flow that have not ended.

    Its followers (then, notify) run. Exit code 4 if there is no such flow.
    """
    from rollq.base.amounts import counted
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    count = with_client(servers, timeout, lambda client: _cancel(client, name))
    text = f"{name}: {counted(count, 'job')} cancelled"
    write_answer({"name": name, "count": count}, text, as_json=as_json)


async def _cancel(client: Client, name: str) -> int:
    from rollq.cli.choosing import choose, jobs_like
    from rollq.cli.flow_file import is_follower
    from rollq.grid.matching import JobFilter

    wanted = JobFilter(client_id=_client_of(name))
    keys = {job.job_id: job.key async for job in jobs_like(client, wanted)}
    if not keys:
        raise _unknown(name)
    chosen = await choose(client, wanted)
    ids = [one for one in chosen.ids if not is_follower(keys.get(one, ""))]
    return await client.cancel(*ids) if ids else 0


async def _look(client: Client, name: str, limit: int) -> dict[str, Any]:
    from rollq.base.ids import guid_to_text
    from rollq.cli.choosing import jobs_like
    from rollq.grid.matching import JobFilter
    from rollq.roles.client.results.views import state_of

    counts: dict[str, int] = {}
    shown: list[RawJobView] = []
    async for job in jobs_like(client, JobFilter(client_id=_client_of(name))):
        word = state_of(job)
        counts[word] = counts.get(word, 0) + 1
        if len(shown) < limit:
            shown.append(job)
    if not shown:
        raise _unknown(name)
    names = {guid_to_text(job.job_id): job.key for job in shown}
    rows = [await _row(client, job, names) for job in shown]
    return {"name": name, "count": sum(counts.values()), "counts": counts, "jobs": rows}


async def _row(client: Client, job: RawJobView, names: dict[str, str]) -> dict[str, Any]:
    from rollq.base.ids import guid_to_text
    from rollq.roles.client.results.views import ParentView, state_of

    view = await client.jobs.view(job.job_id)
    after = [
        names.get(one.job_id, one.job_id) + ("" if one.condition == "ok" else f":{one.condition}")
        for one in map(ParentView.of, () if view is None else view.parents)
    ]
    ident = guid_to_text(job.job_id)
    return {"name": job.key, "state": state_of(job), "id": ident, "after": after}


def _unknown(name: str) -> StateError:
    return StateError(
        ErrorCode.UNKNOWN_JOB,
        f"no flow {name[:64]!r}",
        "`rollq flow run` prints its name; a flow is forgotten after the result_ttl of its jobs",
    )


def _client_of(name: str) -> str:
    from rollq.cli.credentials import given_credentials
    from rollq.roles.client.engine.base import default_id

    return default_id(given_credentials(), f"{PREFIX}{name}")
