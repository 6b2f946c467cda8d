"""`rollq pipeline serve`: keeps Spark running, so that queries are fast."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import (
    DEFAULT_MASTER,
    DEFAULT_TABLES,
    Json,
    Master,
    SparkConf,
    Tables,
    TablesFormat,
)

if TYPE_CHECKING:
    from rollq.spark.serving import Outage

EPILOG = """\b
Examples:
  rollq pipeline serve
  rollq pipeline serve --tables ./tables --port 0
  rollq pipeline serve --tables s3a://bucket/lake --format delta
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(serve)


def serve(
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port on 127.0.0.1 (0 = any free port)."
        ),
    ] = 15002,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Keep Spark and the tables loaded, so that queries take a second.

    `rollq sql` and `rollq report` on this machine find it by the table directory. Any Spark Connect
    client can use the address that it prints; `jobs`, `attempts` and so on are tables of the
    database `rollq`, of the latest batch. The address has a token, which keeps other users out.
    Runs until Ctrl-C or SIGTERM. While the store or the catalog of the tables fails it tries again,
    after 2 s at first and 60 s at last, and says so; it ends if the credentials are refused or the
    tables are gone. With --json: one object when it is ready, one per batch, and one per failure.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.progress import spinner
    from rollq.cli.service import interrupted_by_signals
    from rollq.cli.spark import REMOTE
    from rollq.cli.tables import spark_conf, spark_with
    from rollq.spark import serving
    from rollq.spark.pipeline.formats import expect_files, form_of

    if master.startswith(REMOTE):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{master} is a server already", "use local[*] or spark://…"
        )
    form = form_of(tables, form)
    expect_files(tables, form)  # before Spark is started
    with (
        interrupted_by_signals(),
        serving.announcing(tables, spark_conf(conf)) as announce,
        serving.with_token() as token,
    ):
        port = serving.usable_port(port)
        settings = serving.connect_settings(port)
        address = serving.address_of(port, token)
        with spark_with(form, tables, master, conf, settings) as spark:
            tell = partial(_tell_outage, as_json=as_json)
            with spinner("opening the tables"):
                make = partial(serving.TableServer, spark, tables, form)
                server = serving.outlasting(make, tell)
                server.wait_for_batch(tell)
                serving.outlasting(partial(serving.warm_up, address), tell)
            announce(address)
            document = {"address": address, "batch": server.batch}
            ready = f"batch {server.batch} of {tables} on {address}"
            write_answer(document, ready, as_json=as_json)
            with contextlib.suppress(KeyboardInterrupt):  # the normal way to stop it
                while True:
                    server.wait_for_batch(tell)
                    write_answer({"batch": server.batch}, f"batch {server.batch}", as_json=as_json)


def _tell_outage(outage: Outage, *, as_json: bool) -> None:
    """A line: why tables cannot be read and when that is tried again, or that it is over."""
    from rollq.cli.output import remark, write_json

    error, lasted_s, retry_s = outage
    if as_json:
        cause = {"code": int(error.code), "name": error.code.name.lower()} if error else {}
        document = {"lasted_s": round(lasted_s, 1), "retry_s": retry_s}
        write_json({"outage": document | cause | ({"message": error.message} if error else {})})
    elif error:
        name = error.code.name.lower()
        remark(f"{error.message} [{name}]; trying again in {retry_s:.0f} s")
    else:
        remark(f"the tables can be read again, after {lasted_s:.0f} s")
