"""`rollq pipeline serve`: keeps Spark running, so that queries are fast."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_MASTER, DEFAULT_TABLES, Json, Master, Tables

EPILOG = """\b
Examples:
  rollq pipeline serve
  rollq pipeline serve --tables ./tables --port 0
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(serve)


def serve(
    tables: Tables = DEFAULT_TABLES,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port on 127.0.0.1 (0 = any free port)."
        ),
    ] = 15002,
    master: Master = DEFAULT_MASTER,
    as_json: Json = False,
) -> None:
    """Keep Spark and the tables loaded, so that queries take a second.

    `rollq sql` and `rollq report` on this machine find it by the table directory. Any Spark Connect
    client can use the address that it prints; `jobs`, `attempts` and so on are tables of the
    database `rollq`, of the latest batch. The address has a token, which keeps other users out.
    Runs until Ctrl-C or SIGTERM. With --json: one object when it is ready, and one per batch.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.progress import spinner
    from rollq.cli.service import interrupted_by_signals
    from rollq.cli.spark import REMOTE, quiet_spark
    from rollq.spark import serving
    from rollq.spark.pipeline.formats import expect_parquet

    if master.startswith(REMOTE):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{master} is a server already", "use local[*] or spark://…"
        )
    folder = Path(tables)
    expect_parquet(folder)  # before Spark is started
    with (
        interrupted_by_signals(),
        serving.announcing(folder) as announce,
        serving.with_token() as token,
    ):
        port = serving.usable_port(port)
        address = serving.address_of(port, token)
        with quiet_spark(master, **serving.connect_settings(port)) as spark:
            server = serving.TableServer(spark, folder)
            with spinner("opening the tables"):
                server.refresh()
                serving.warm_up(address)
            announce(address)
            document = {"address": address, "batch": server.batch}
            ready = f"batch {server.batch} of {tables} on {address}"
            write_answer(document, ready, as_json=as_json)
            with contextlib.suppress(KeyboardInterrupt):  # the normal way to stop it
                while True:
                    server.wait_for_batch()
                    write_answer({"batch": server.batch}, f"batch {server.batch}", as_json=as_json)
