"""`rollq top`: a live overview of the grid."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.cli.top_look import Looker

EPILOG = """\b
Examples:
  rollq top
  rollq top --once
  rollq top --json --interval 5 | jq .rates
"""
# Size of a frame without a terminal: unlimited.
COLUMNS_MAX = 500
LINES_MAX = 1_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(top)


def top(
    interval: Annotated[
        float, typer.Option(min=0.2, max=3600, metavar="SECONDS", help="Time between updates.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show one frame and exit.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show queues, workers, rates and the longest running jobs, live.

    Enter on a queue or worker shows its jobs; on a job, the explanation of its state and its last
    output; ? shows all keys. While no leader responds, it shows that and retries. Without a
    terminal it behaves as with --once. With --json: one document per interval, with --once only
    one. Rates are those of the last interval, so a single frame takes one interval.
    """
    from rollq.cli.service import run
    from rollq.cli.stdin import is_terminal

    is_live = is_terminal() and sys.stdout.isatty() and not once
    if as_json:
        run(_write_documents(servers, timeout, interval, once=once))
    elif is_live:
        from rollq.cli.top_live import run_live

        run(run_live(servers, timeout, interval))
    else:
        run(_write_frame(servers, timeout, interval))


async def _write_documents(servers: str, timeout_s: float, interval: float, *, once: bool) -> None:
    import asyncio

    from rollq.base.errors import RollqError
    from rollq.cli.grid import connected
    from rollq.cli.output import remark, write_json
    from rollq.cli.top_look import Looker

    async with connected(servers, timeout_s) as client:
        looker = Looker(client)
        if once:
            write_json(await _second_look(looker, interval))
            return
        while True:
            try:
                write_json(await looker.look())
            except RollqError as error:
                remark(f"waiting: {error.message}")
            await asyncio.sleep(interval)


async def _write_frame(servers: str, timeout_s: float, interval: float) -> None:
    from rollq.cli.grid import connected
    from rollq.cli.output import write_line
    from rollq.cli.top_look import Looker
    from rollq.cli.top_screen import Screen, frame

    async with connected(servers, timeout_s) as client:
        look = await _second_look(Looker(client), interval)
    rows = sum(len(look[name]) + 2 for name in ("queues", "workers", "slowest"))
    # A third of the lines for each of the three sections.
    lines = frame(Screen(look), COLUMNS_MAX, min(LINES_MAX, 3 * rows + 10), look["ts_ms"])
    for text in "\n".join(line.text.rstrip() for line in lines[:-1]).rstrip().split("\n"):
        write_line(text)


async def _second_look(looker: Looker, interval: float) -> dict[str, Any]:
    """Query twice, to compute rates."""
    import asyncio

    await looker.look()
    await asyncio.sleep(interval)
    return await looker.look()
