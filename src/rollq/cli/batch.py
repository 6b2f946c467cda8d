"""`rollq batch`: jobs that were staged in parts and accepted by one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.client import Client
    from rollq.roles.client.results.views import BatchView

EPILOG = """\b
Examples:
  rollq batch list
  rollq batch list --client nightly
  rollq batch show load-7 --client nightly
"""
app = typer.Typer(
    name="batch",
    help="List and show batches: jobs accepted all at once under a key.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
COLUMNS = ("client", "batch", "state", "jobs", "entered", "parts", "since")
Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the batch.")]


@app.command("list", epilog="Example: rollq batch list --json | jq -r .key")
def list_(
    client: Annotated[
        str, typer.Option(metavar="CLIENT", help="Only batches of this client.")
    ] = "",
    limit: Limit = 100,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List batches with their progress.

    A batch is staged (sent, not accepted yet), then unpacking (accepted, its jobs are being
    queued), then accepted (all are queued). Keys of the last 100000 are remembered.
    """
    from rollq.cli.grid import first_rows, with_client
    from rollq.cli.output import remark_more, write_json, write_table
    from rollq.documents.jobs import batch_document

    async def read(link: Client) -> tuple[list[BatchView], bool]:
        return await first_rows(link.list_batches(client_id=client), limit)

    found, has_more = with_client(servers, timeout, read)
    if as_json:
        for view in found:
            write_json(batch_document(view))
    else:
        write_table(COLUMNS, [_row(view) for view in found])
    if has_more:
        remark_more(len(found))


@app.command(epilog="Example: rollq batch show load-7 --client nightly")
def show(
    key: Key,
    client: Annotated[
        str, typer.Option(metavar="CLIENT", help="Client whose jobs the batch holds.")
    ],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show a batch: the number of its jobs, and how many of them are queued.

    Use the client to list its jobs: the group does not record which jobs belong to a batch.
    """
    from rollq.base.errors import ErrorCode, StateError
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_fields, write_json
    from rollq.documents.jobs import batch_document

    view = with_client(servers, timeout, lambda link: link.batch(key, client_id=client))
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_BATCH,
            f"no batch {key[:64]!r} of client {client[:64]!r}",
            "`rollq batch list` lists them",
        )
    if as_json:
        write_json(batch_document(view))
        return
    document = dict(zip(COLUMNS, _row(view), strict=True))
    write_fields(document | {"its jobs": f"rollq jobs --client {client}"})


def _row(view: BatchView) -> tuple[Any, ...]:
    from rollq.documents.times import when

    since = when(view.stamp_ms) if view.stamp_ms else ""
    counts = (view.jobs, view.entered, view.parts or "")
    return (view.client_id, view.batch_key, view.state, *counts, since)
