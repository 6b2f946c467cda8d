"""`rollq weight`: weights of clients in fair queueing."""

from __future__ import annotations

from typing import Annotated

import typer

from rollq.base.need_limits import CLIENT_WEIGHT_MAX
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

EPILOG = """\b
Examples:
  rollq weight set team-a 3
  rollq weight set team-a 1
  rollq weight list
"""
app = typer.Typer(
    name="weight",
    help="Set and list the weights of clients that wait in one queue.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("set", epilog="Example: rollq weight set team-a 3")
def set_(
    client_id: Annotated[str, typer.Argument(metavar="CLIENT", help="Client id.")],
    weight: Annotated[
        int,
        typer.Argument(
            metavar="WEIGHT",
            min=1,
            max=CLIENT_WEIGHT_MAX,
            help=f"Its turns per turn of a client with weight 1: 1 to {CLIENT_WEIGHT_MAX}.",
        ),
    ],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Set the weight of a client, known or not yet known."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.set_weight(client_id, weight))
    document = {"client": client_id, "weight": weight}
    write_answer(document, f"client {client_id}: weight {weight}", as_json=as_json)


@app.command("list", epilog="Example: rollq weight list --json | jq -r .client")
def list_(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List weights other than 1."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table
    from rollq.documents.rules import weight_document

    found = [
        weight_document(one) for one in with_client(servers, timeout, lambda one: one.weights())
    ]
    if as_json:
        for document in found:
            write_json(document)
    elif found:
        write_table(("client", "weight"), [list(one.values()) for one in found])
    else:
        write_line("all clients have weight 1")
