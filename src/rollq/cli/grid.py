"""The client of a command, and typed queries."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from rollq.base.amounts import counted
from rollq.base.errors import ErrorCode, LocalError, RemoteError, RollqError, StateError
from rollq.base.ids import JobId, guid_from_text, guid_to_text
from rollq.base.limits import QUEUE_NAME_BYTES_MAX
from rollq.base.names import COMMAND_LINE
from rollq.cli.credentials import given_credentials
from rollq.cli.service import run
from rollq.roles.client.answers import decode_as
from rollq.roles.client.client import Client
from rollq.roles.client.engine.base import default_id
from rollq.subjects.queues import QUEUE_TOKENS_MAX, check_typed, queue_of

Value = TypeVar("Value")
PAGE_ROWS = 500


@contextlib.asynccontextmanager
async def connected(servers: str, timeout_s: float, client_id: str = "") -> AsyncIterator[Client]:
    """Connect a client. Read-only and administrative commands share one client id, so that the grid
    does not accumulate client ids."""
    credentials = given_credentials()
    async with Client(
        servers,
        client_id=client_id or default_id(credentials, COMMAND_LINE),
        timeout=timeout_s,
        credentials=credentials,
    ) as client:
        yield client


def with_client(
    servers: str,
    timeout_s: float,
    question: Callable[[Client], Coroutine[Any, Any, Value]],
    *,
    shares_id: bool = True,
) -> Value:
    """Run one query in a client of its own. With `shares_id=False` it has a random client id, and
    so receives no results of other commands."""
    client_id = (
        ""
        if shares_id
        else default_id(given_credentials(), f"{COMMAND_LINE}-{secrets.token_hex(8)}")
    )

    async def ask_it() -> Value:
        async with connected(servers, timeout_s, client_id) as client:
            return await question(client)

    return run(ask_it())


async def query_view(
    client: Client, kind: type[Value], what: str, key: bytes = b"", limit: int = 100
) -> Value:
    """Query a view."""
    return decode_as(await client.query(what, key, limit), kind)


async def query_page(
    client: Client, kind: type[Value], what: str, key: bytes, limit: int
) -> tuple[Value, int]:
    """Query one page of a view with large rows: fewer rows if they do not fit. Returns the page and
    the number of rows that were requested."""
    limit = min(limit, PAGE_ROWS)
    while True:
        try:
            return await query_view(client, kind, what, key, limit), limit
        except RollqError as error:
            if error.code is not ErrorCode.ANSWER_TOO_LARGE or limit == 1:
                raise
            limit = max(1, limit // 8)


async def all_rows(
    client: Client, kind: type[list[Value]], what: str, key_of: Callable[[Value], bytes]
) -> list[Value]:
    """All rows of a view that continues after the key of a row."""
    found: list[Value] = []
    while True:
        after = key_of(found[-1]) if found else b""
        page, rows = await query_page(client, kind, what, after, PAGE_ROWS)
        found += page
        if len(page) < rows:
            return found


async def first_rows(rows: AsyncIterable[Value], limit: int) -> tuple[list[Value], bool]:
    """The first rows of a list, and whether there are more."""
    found: list[Value] = []
    async for row in rows:
        if len(found) == limit:
            return found, True
        found.append(row)
    return found, False


def job_ids(texts: list[str]) -> list[JobId]:
    """Parse job ids of the command line.

    Raises:
        LocalError: BAD_OPTIONS, naming the invalid one.
    """
    made = []
    for text in texts:
        try:
            made.append(guid_from_text(text))
        except RemoteError:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{text[:64]!r} is not a job id",
                "an id looks like 6f9619ff-8b86-d011-b42d-00c04fc964ff; `rollq jobs` lists some",
            ) from None
    return made


def queue_name(text: str) -> str:
    """Normalize a queue name; empty stays empty.

    Raises:
        LocalError: BAD_OPTIONS, if the name is invalid.
    """
    if not text:
        return ""
    check_typed(text)
    try:
        return queue_of(text)
    except RemoteError:
        name_bytes = len(text.encode(errors="replace"))
        if name_bytes > QUEUE_NAME_BYTES_MAX:
            what = f"the queue name {text[:32] + '…'!r} is too long: it has {name_bytes} bytes"
            hint = f"use up to {QUEUE_NAME_BYTES_MAX} bytes"
        else:
            what = f"{text!r} is not a valid queue name"
            hint = (
                f"use up to {QUEUE_TOKENS_MAX} words without white space, * or >, joined by dots, "
                "as in render.fast"
            )
        raise LocalError(ErrorCode.BAD_OPTIONS, what, hint) from None


def unknown_job(job_id: JobId) -> StateError:
    """The error for an unknown job."""
    return StateError(
        ErrorCode.UNKNOWN_JOB,
        f"no job or array has id {guid_to_text(job_id)}",
        "it was never accepted here, or it ended so long ago that it is forgotten: "
        f"try `rollq history tail --from 1 --job {guid_to_text(job_id)}`",
    )


async def check_is_job(client: Client, job_id: JobId) -> None:
    """Raises StateError WRONG_STATE for an array: only its tasks have output."""
    if await client.jobs.view(job_id) is None and (array := await client.array(job_id)) is not None:
        raise StateError(
            ErrorCode.WRONG_STATE,
            f"{guid_to_text(job_id)} is an array of {counted(array.task_count, 'task')}",
            f"name one of them: {guid_to_text(job_id)}/0 to {array.task_count - 1}",
        )
