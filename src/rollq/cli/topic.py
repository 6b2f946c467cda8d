"""`rollq topic`: manages topics, which store the messages of their subjects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.calls.topics import TopicView
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq topic create prices 'price.>' --keep-age 7d --keep-count 50000
  rollq topic list
  rollq topic show prices
  rollq topic forget-cursor prices desk-1
  rollq topic remove prices
"""
app = typer.Typer(
    name="topic",
    help="Create, list and remove topics, which keep what is published to their subjects.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
COLUMNS = ("topic", "patterns", "first", "last", "kept", "bytes", "cursors")
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Patterns = Annotated[
    list[str],
    typer.Argument(metavar="PATTERN", help="Patterns of the subjects whose messages are kept."),
]
KeepAge = Annotated[
    str, typer.Option(metavar="AGE", help="Drop messages older than this (s, m, h, d); 0: never.")
]
KeepBytes = Annotated[
    str,
    typer.Option(metavar="SIZE", help="Keep at most this many bytes (K, M, G); drop the oldest."),
]
KeepCount = Annotated[
    int, typer.Option(metavar="N", min=1, help="Keep at most N messages; drop the oldest.")
]


@app.command(epilog="Example: rollq topic create prices 'price.>' --keep-age 7d")
def create(
    name: Name,
    patterns: Patterns,
    keep_age: KeepAge = "1d",
    keep_bytes: KeepBytes = "16M",
    keep_count: KeepCount = 100_000,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Create a topic, or change what an existing one keeps.

    Messages published to its subjects from then on are numbered and kept on all members. The oldest
    are dropped first when a bound is reached. A message counts 256 bytes beside its payload, which
    has at most 64 KiB. Topics must not overlap: a subject belongs to one topic.
    """
    from rollq.base.amounts import AGES_S, SIZES, amount
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer
    from rollq.documents.grid import topic_document

    age_ms = amount(keep_age, AGES_S, "--keep-age") * 1_000
    bytes_max = amount(keep_bytes, SIZES, "--keep-bytes")

    async def put(client: Client) -> TopicView | None:
        await client.put_topic(
            name, *patterns, age_ms=age_ms, bytes_max=bytes_max, count_max=keep_count
        )
        return await client.topic(name)

    view = with_client(servers, timeout, put)
    document = {"topic": name} if view is None else topic_document(view)
    write_answer(document, f"topic {name}: keeps {' '.join(patterns)}", as_json=as_json)


@app.command("list", epilog="Example: rollq topic list --json | jq -r .topic")
def list_(
    limit: Limit = 100,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List topics with the size of their contents."""
    from rollq.cli.grid import first_rows, with_client
    from rollq.cli.output import remark_more, write_json, write_table
    from rollq.documents.grid import topic_document

    async def read(client: Client) -> tuple[list[TopicView], bool]:
        return await first_rows(client.topics(), limit)

    found, has_more = with_client(servers, timeout, read)
    if as_json:
        for view in found:
            write_json(topic_document(view))
    else:
        write_table(COLUMNS, [_row(view) for view in found])
    if has_more:
        remark_more(len(found))


@app.command(epilog="Example: rollq topic show prices")
def show(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show a topic: bounds, contents, and positions of durable subscriptions."""
    from rollq.base.amounts import size_text, time_text
    from rollq.base.errors import ErrorCode, StateError
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_fields, write_json, write_line, write_table
    from rollq.documents.grid import topic_document
    from rollq.documents.times import when

    view = with_client(servers, timeout, lambda client: client.topic(name))
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_TOPIC, f"no topic {name[:64]!r}", "`rollq topic list` lists them"
        )
    if as_json:
        write_json(topic_document(view))
        return
    age = time_text(view.age_ms) if view.age_ms else "for ever"
    write_fields(
        {
            "topic": view.name,
            "patterns": " ".join(view.patterns),
            "keeps": f"{view.count} messages, {size_text(view.size_bytes)}",
            "indexes": f"{view.first_index} to {view.last_index}" if view.count else "none",
            "at most": f"{age}, {size_text(view.bytes_max)}, {view.count_max} messages",
            "changed": f"{when(view.stamp_ms)} by {view.by or 'unknown'}",
        }
    )
    if view.cursors:
        write_line()
        rows = [(one.durable, one.index, one.behind, when(one.stamp_ms)) for one in view.cursors]
        write_table(("durable", "done up to", "behind", "moved"), rows)


@app.command(epilog="Example: rollq topic remove prices")
def remove(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Remove a topic with all messages and durable subscriptions.

    Messages published to its subjects afterwards reach live subscriptions and are not kept.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.remove_topic(name))
    write_answer({"topic": name, "removed": True}, f"topic {name}: removed", as_json=as_json)


@app.command("forget-cursor", epilog="Example: rollq topic forget-cursor prices desk-1")
def forget_cursor(
    name: Name,
    durable: Annotated[
        str, typer.Argument(metavar="DURABLE", help="Name of the durable subscription.")
    ],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete the position of a durable subscription.

    A connected one ends. A new one with the same name starts over.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.forget_cursor(name, durable))
    document = {"topic": name, "durable": durable, "forgotten": True}
    write_answer(document, f"topic {name}: forgot {durable}", as_json=as_json)


def _row(view: TopicView) -> tuple[Any, ...]:
    indexes = (view.first_index, view.last_index) if view.count else ("", "")
    counts = (view.count, view.size_bytes, len(view.cursors))
    return (view.name, " ".join(view.patterns), *indexes, *counts)
