"""`rollq cache`: named sets of files that workers keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import counted
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.calls.caches import CacheReport
    from rollq.roles.client.results.views import CacheView, HolderView

EPILOG = """\b
Examples:
  rollq cache put dataset-v1 data/ model.bin --target render
  rollq cache put dataset-v1 data/ --need 80% --timeout 120
  rollq cache ls dataset-v1
  rollq cache rm dataset-v1
"""
app = typer.Typer(
    name="cache",
    help="Put, list and remove caches: files that workers hold in advance.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
COLUMNS = ("cache", "files", "bytes", "targets", "jobs", "removed")
EXIT_FEW, EXIT_TIMED_OUT = 1, 3
Name = Annotated[str, typer.Argument(metavar="ID", help="Name of the cache.")]
Tell = Callable[["list[HolderView]"], None]


PutTimeout = Annotated[
    float,
    typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for workers."),
]


@app.command(
    epilog="""\b
Examples:
  rollq cache put dataset-v1 data/ model.bin
  rollq cache put tools ./bin --target render --need all --timeout 60
"""
)
def put(
    name: Name,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files, and directories with their contents."),
    ],
    target: Annotated[
        str,
        typer.Option(
            metavar="PATTERN",
            help="Only workers that serve a queue matching this pattern.",
            show_default="all",
        ),
    ] = "",
    need: Annotated[
        str, typer.Option(metavar="all|K|P%", help="How many workers must hold the files.")
    ] = "all",
    timeout: PutTimeout = 600.0,
    servers: Servers = DEFAULT_SERVERS,
    as_json: Json = False,
) -> None:
    """Store files under a cache id, and wait until workers hold them.

    A job refers to such a file by cache id and name: a file by its own name, a file of a directory
    as DIR/NAME. Putting the same files again is idempotent; other files under a taken id are
    refused. Workers that join later, or failed to fetch, fetch the files by themselves.

    Exit code 1 if too many workers failed, 3 if too many did not finish within --timeout.
    """
    from rollq.cli.output import write_json, write_line
    from rollq.cli.progress import progress_bar
    from rollq.cli.service import run

    files = named(paths)

    async def act() -> CacheReport:
        from rollq.cli.grid import connected

        async with connected(servers, min(timeout, DEFAULT_TIMEOUT_S)) as client:
            with progress_bar("upload", is_quiet=as_json) as advance, _lines(as_json) as tell:
                return await client.cache_put(
                    name,
                    files,
                    target=target,
                    need=need,
                    timeout=timeout,
                    on_upload=advance,
                    on_spread=tell,
                )

    report = run(act())
    if as_json:
        write_json(
            {
                "cache": name,
                "held": report.held,
                "needed": report.needed,
                "timed_out": report.timed_out,
                "workers": [_holder(worker) for worker in report.workers],
            }
        )
    else:
        workers = counted(len(report.workers), "worker")
        write_line(f"cache {name}: held by {report.held} of {workers}")
    if not report.is_enough:
        raise typer.Exit(EXIT_TIMED_OUT if report.timed_out else EXIT_FEW)


@app.command("ls", epilog="Example: rollq cache ls dataset-v1 --json")
def list_(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="Cache id; without it, all caches are listed.")
    ] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List caches; or the files of one cache and its state on every worker."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table

    if name:
        document = with_client(servers, timeout, lambda client: _one(client, name))
        if as_json:
            write_json(document)
            return
        write_table(
            ("file", "bytes", "mode", "digest"),
            [[one["name"], one["bytes"], one["mode"], one["digest"]] for one in document["files"]],
        )
        write_line()
        columns = ("worker", "status", "bytes", "message")
        rows = [[one[column] for column in columns] for one in document["workers"]]
        write_table(columns, rows)
        return
    found = with_client(servers, timeout, _all)
    if as_json:
        for document in found:
            write_json(document)
    else:
        write_table(COLUMNS, [[one[column] for column in COLUMNS] for one in found])


@app.command(epilog="Example: rollq cache rm dataset-v1")
def rm(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Remove a cache: new jobs cannot use it; its files are deleted after the last job that
    does."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.cache_remove(name))
    write_answer({"cache": name, "removed": True}, f"cache {name}: removed", as_json=as_json)


def named(paths: list[Path]) -> dict[str, Path]:
    """Map files to their names in the cache.

    Raises:
        LocalError: BAD_OPTIONS, if two have the same name.
    """
    from rollq.base.errors import ErrorCode, LocalError

    files: dict[str, Path] = {}
    for path in paths:
        name = path.name or path.resolve().name
        if name in ("", ".."):
            name = path.resolve().name
        if name in files:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{files[name]} and {path} have the same name {name!r}",
                "put them into one directory, or rename one",
            )
        files[name] = path
    return files


@contextmanager
def _lines(is_quiet: bool) -> Iterator[Tell]:
    """Yield the callback that shows the state of every worker: live on a terminal, else a line when
    a worker has finished."""
    import sys

    if is_quiet:
        yield lambda workers: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=8) as live:
            yield lambda workers: live.update("\n".join(map(_line, workers)))
    else:
        from rollq.cli.output import remark

        statuses: dict[str, str] = {}

        def tell(workers: list[HolderView]) -> None:
            for one in workers:
                is_news = statuses.get(one.worker_id) != one.status
                if is_news and one.status not in ("WAITING", "MOVING"):
                    remark(_line(one))
                statuses[one.worker_id] = one.status

        yield tell


def _line(worker: HolderView) -> str:
    return f"{worker.name}: {worker.status} {worker.done_bytes} bytes {worker.message}".rstrip()


async def _one(client: Any, name: str) -> dict[str, Any]:
    from rollq.base.errors import ErrorCode, StateError

    view = await client.cache(name)
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_CACHE, f"no cache has id {name!r}", "`rollq cache ls` lists caches"
        )
    files = [
        {
            "name": entry.name,
            "bytes": entry.blob.size,
            "mode": f"{entry.mode:o}",
            "digest": entry.blob.digest.hex(),
        }
        for entry in view.entries
    ]
    workers = [_holder(one) for one in await client.cache_holders(name)]
    return _document(view) | {"files": files, "workers": workers}


async def _all(client: Any) -> list[dict[str, Any]]:
    return [_document(view) async for view in client.caches()]


def _document(view: CacheView) -> dict[str, Any]:
    return {
        "cache": view.cache_id,
        "files": view.file_count,
        "bytes": view.size_bytes,
        "targets": ",".join(view.targets),
        "jobs": view.users,
        "removed": view.removed,
        "put_ms": view.stamp_ms,
    }


def _holder(worker: HolderView) -> dict[str, Any]:
    return {
        "worker": worker.name,
        "status": worker.status,
        "bytes": worker.done_bytes,
        "message": worker.message,
    }
