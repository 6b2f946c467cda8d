"""`rollq publish`: sends a message to the subscriptions of a subject."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq publish prices.eur 1.08
  rollq publish prices.eur - < price.json
  rollq publish load.test x --count 100000
  tail -f access.log | rollq publish web.access --lines
"""
SubjectArgument = Annotated[
    str, typer.Argument(metavar="SUBJECT", help="Tokens joined by dots: prices.eur.")
]
PayloadArgument = Annotated[
    str,
    typer.Argument(
        metavar="PAYLOAD", help="Text of the message; - reads all of stdin.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(publish)


def publish(
    subject: SubjectArgument,
    payload: PayloadArgument = "",
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, metavar="N", help="Publish it N times.")
    ] = 1,
    lines: Annotated[
        bool, typer.Option("--lines", help="Publish each line of stdin as it arrives.")
    ] = False,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Publish a message to all subscriptions of a subject.

    It reaches only subscriptions that are connected now, unless a topic keeps it (`rollq topic`).
    Prints how many subscriptions the last message was sent to (a queue group counts as one), or its
    index in the topic.
    """
    from rollq.base.amounts import counted
    from rollq.base.errors import ErrorCode, LocalError
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer
    from rollq.cli.published import checked_subject, payload_of

    checked_subject(subject)
    if lines and (payload or count > 1):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--lines publishes lines of stdin",
            "leave out PAYLOAD and --count",
        )
    data = None if lines else payload_of(payload)
    publishing = partial(_publish, subject=subject, data=data, count=count)
    made, reached, topic = with_client(servers, timeout, publishing)
    document: dict[str, Any] = {"subject": subject, "published": made}
    if topic:
        document |= {"topic": topic, "index": reached}
        text = f"{subject}: {counted(made, 'message')} kept by topic {topic}, up to index {reached}"
    else:
        document["subscriptions"] = reached
        text = f"{subject}: {counted(made, 'message')} to {counted(reached, 'subscription')}"
    write_answer(document, text, as_json=as_json)


async def _publish(
    client: Client, *, subject: str, data: bytes | None, count: int
) -> tuple[int, int, str]:
    """Publish; returns the number of messages, the response to the last one, and the topic that
    stores them: if there is one, the response is an index."""
    from rollq.subjects.matcher import matches

    if data is None:
        made, reached = await _lines(client, subject)
    else:
        made, reached = count, await _times(client, subject, data, count)
    if reached:
        async for view in client.topics():
            if any(matches(pattern, subject) for pattern in view.patterns):
                return made, reached, view.name
    return made, reached, ""


async def _times(client: Client, subject: str, data: bytes, count: int) -> int:
    """Publish several; the last one is confirmed, which confirms all before it."""
    for _ in range(count - 1):
        await client.publish(subject, data)
    return await client.publish(subject, data, confirm=True)


async def _lines(client: Client, subject: str) -> tuple[int, int]:
    import asyncio

    from rollq.cli.stdin import open_bytes

    made = reached = 0
    lines = open_bytes()
    while line := await asyncio.to_thread(lines.readline):
        reached = await client.publish(subject, line.rstrip(b"\r\n"), confirm=True)
        made += 1
    return made, reached
