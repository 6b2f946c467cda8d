"""`rollq subscribe`: shows the messages of a pattern of subjects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq subscribe prices.eur
  rollq subscribe 'prices.>' --json | jq -r .text
  rollq subscribe thumbnails --queue-group makers --count 10
  rollq subscribe time.zone --respond UTC
  rollq subscribe 'price.>' --topic prices --durable desk-1 --from all
"""
BEGINS: Final = {"new": 0, "all": -1}
PatternArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", help="A subject; * matches one token, a final > all tokens that follow."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(subscribe)


def subscribe(
    pattern: PatternArgument,
    queue_group: Annotated[
        str,
        typer.Option(
            "--queue-group",
            metavar="NAME",
            help="Share messages within this queue group: each goes to one of its subscriptions.",
        ),
    ] = "",
    topic: Annotated[
        str,
        typer.Option(metavar="NAME", help="Read the messages that this topic keeps, in order."),
    ] = "",
    durable: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --topic: continue from the position saved under this name.",
        ),
    ] = "",
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="all|new|INDEX",
            help="With --topic: where to begin, unless --durable has a saved position.",
        ),
    ] = "new",
    respond: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Answer each request with this text.", show_default=False
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, metavar="N", help="End after N (0 = never).")
    ] = 0,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show messages that are published to the subjects of a pattern, until Ctrl-C.

    One message per line: its subject, two spaces, its raw payload. With --json one object per
    line, with `base64` if the payload is not UTF-8. It continues after a leader change; messages
    published meanwhile are lost. stderr reports when the subscription is active, and how many
    messages were dropped because this command was too slow.

    With --topic no stored message is lost, and lines begin with the index. --durable saves the
    position after a message when the next one is shown, and at the end.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.published import checked_pattern

    checked_pattern(pattern)
    from_index = _index(from_)
    if not topic and (durable or from_index):
        option = "--durable" if durable else "--from"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{option} without --topic", "name the topic")
    reading = {"topic": topic, "durable": durable, "from_index": from_index}
    listen = partial(
        _listen,
        pattern=pattern,
        asked_for={"queue_group": queue_group} | reading,
        respond=respond,
        count=count,
        as_json=as_json,
    )
    with_client(servers, timeout, listen, shares_id=not durable)


async def _listen(
    client: Client,
    *,
    pattern: str,
    asked_for: dict[str, Any],
    respond: str | None,
    count: int,
    as_json: bool,
) -> None:
    from rollq.base.amounts import counted
    from rollq.cli.output import remark
    from rollq.cli.published import show

    async with await client.subscribe(pattern, **asked_for) as subscription:
        remark(f"listening to {pattern}")
        missed, shown = 0, 0
        async for message in subscription:
            if subscription.missed > missed:
                remark(f"[{counted(subscription.missed - missed, 'message')} missed]")
                missed = subscription.missed
            show(message, as_json=as_json)
            if respond is not None and message.reply_to:
                await message.respond(respond)
            shown += 1
            if shown == count:
                if subscription.topic:
                    subscription.consumed(message)
                return


def _index(text: str) -> int:
    """The start index of a subscription to a topic."""
    if text in BEGINS:
        return BEGINS[text]
    if not text.isascii() or not text.isdigit() or not int(text):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"--from {text[:64]!r}", "use all, new or the index of a message"
        )
    return int(text)
