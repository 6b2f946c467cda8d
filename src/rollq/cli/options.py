"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from rollq.cli.failures import remember_json
from rollq.cli.logs import Level, LogFormat

DEFAULT_SERVERS: Final = "127.0.0.1:5000"
DEFAULT_TIMEOUT_S: Final = 10.0
DEFAULT_TABLES: Final = "rollq-tables"
DEFAULT_MASTER: Final = "local[*]"

Servers = Annotated[
    str,
    typer.Option(
        "--servers",
        "-s",
        envvar="ROLLQ_SERVERS",
        metavar="HOST:PORT,…",
        help="Addresses of members; one is enough to find the others.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        envvar="ROLLQ_TIMEOUT",
        min=0.1,
        metavar="SECONDS",
        help="How long to wait for the leader to be found and to answer.",
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        envvar="ROLLQ_JSON",
        callback=remember_json,
        help="Write JSON to stdout.",
    ),
]
LogLevel = Annotated[
    Level, typer.Option(envvar="ROLLQ_LOG_LEVEL", help="Log level; logs go to stderr.")
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        envvar="ROLLQ_LOG_FORMAT",
        help="Format of log lines.",
        show_default="json with --json, else text",
    ),
]
CredentialsDir = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        envvar="ROLLQ_CREDENTIALS",
        metavar="DIR",
        help="Directory with certificate, key and token of this process.",
        show_default=False,
    ),
]
UnsafeNoAuth = Annotated[
    bool,
    typer.Option(
        "--unsafe-no-auth",
        envvar="ROLLQ_UNSAFE_NO_AUTH",
        help="Serve other machines without TLS or logins: anyone who reaches the port is trusted.",
    ),
]
JobArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a job or task (ARRAY/NUMBER).")
]
JobIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a job or array.")]
JobIdsArgument = Annotated[list[str], typer.Argument(metavar="ID", help="Ids of jobs or arrays.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show at most N rows.")
]
EncryptedDisk = Annotated[
    bool,
    typer.Option(
        "--require-encrypted-disk",
        envvar="ROLLQ_REQUIRE_ENCRYPTED_DISK",
        help="Refuse to start unless what it writes lies on an encrypted file system.",
    ),
]
MemberDir = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State directory of a member.", show_default=False),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="State directory of a member or worker.", show_default=False
    ),
]
Tables = Annotated[
    str,
    typer.Option(
        "--tables",
        envvar="ROLLQ_TABLES",
        metavar="DIR",
        help="Table directory of `rollq pipeline run`; or its URL or database, see --format.",
    ),
]
TablesFormat = Annotated[
    str,
    typer.Option(
        "--format",
        envvar="ROLLQ_TABLES_FORMAT",
        metavar="NAME",
        help="Format of tables: parquet, iceberg, delta (default: what the directory holds).",
    ),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="NAME=VALUE", help="Spark setting; may be repeated.", show_default=False
    ),
]
Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="ROLLQ_SPARK_MASTER",
        metavar="URL",
        help="Spark master: local[*], spark://… or sc://….",
    ),
]
# For commands that query tables.
MasterToAsk = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="ROLLQ_SPARK_MASTER",
        metavar="URL",
        help="Spark master: local[*], spark://… or sc://….",
        show_default="a running `rollq pipeline serve`, else local[*]",
    ),
]
