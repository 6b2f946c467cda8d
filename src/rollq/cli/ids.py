"""Ids of jobs and arrays on the command line, whole or abbreviated.

A short id is the first digits, `6f9619ff`; or the first and the last ones, `6f9619ff..0000002a`, as
for jobs that were submitted together and differ only in the last digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RemoteError, StateError
from rollq.base.ids import JobId, guid_from_text, guid_to_text, task_id
from rollq.base.limits import ARRAY_TASKS_MAX
from rollq.cli.grid import query_view, with_client
from rollq.grid.pages import IdFilter, IdPage
from rollq.grid.state import PREFIX_BYTES
from rollq.grid.views import RawArrayView
from rollq.roles.client.answers import decode_known
from rollq.roles.client.client import Client

Value = TypeVar("Value")


class TaskName(msgspec.Struct, frozen=True):
    """A task by the id of its array and its number."""

    array: JobId | IdFilter
    number: int


Wanted: TypeAlias = JobId | IdFilter | TaskName

SHORT_DIGITS: Final = 8
DIGITS_MIN: Final = 4
AMBIGUOUS_SHOWN: Final = 5
NUMBER_DIGITS_MAX: Final = 18  # of a task; Python refuses to read a number of thousands
SHORT: Final = re.compile(r"([0-9a-f]+)(?:(?:\.\.+|…)([0-9a-f]+))?")


def with_job_ids(
    servers: str,
    timeout_s: float,
    texts: Sequence[str],
    question: Callable[[Client, list[JobId]], Coroutine[Any, Any, Value]],
) -> Value:
    """Run one query about jobs or arrays that are named on the command line."""
    wanted = [parse_id(text) for text in texts]

    async def ask_it(client: Client) -> Value:
        return await question(client, [await resolve_id(client, one) for one in wanted])

    return with_client(servers, timeout_s, ask_it)


def full_id(servers: str, timeout_s: float, text: str) -> JobId:
    """The full id of a job or array; the group is queried only for a short id."""
    wanted = parse_id(text)
    if isinstance(wanted, bytes):
        return wanted

    async def ask_it(client: Client) -> JobId:
        return await resolve_id(client, wanted)

    return with_client(servers, timeout_s, ask_it)


def parse_id(text: str) -> Wanted:
    """Parse an id, a short id, or the name of a task: ID/NUMBER.

    Raises:
        LocalError: BAD_OPTIONS, if it is none of these.
    """
    name, slash, number = text.partition("/")
    is_number = number.isascii() and number.isdecimal() and len(number) <= NUMBER_DIGITS_MAX
    if slash and is_number:
        return TaskName(_parse_plain(name), int(number))
    return _parse_plain(text)


def _parse_plain(text: str) -> JobId | IdFilter:
    try:
        return guid_from_text(text)
    except RemoteError:
        parts = SHORT.fullmatch(text.strip().lower().replace("-", ""))
    if parts is None or len(parts[1]) < DIGITS_MIN:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{text[:64]!r} is not a job id",
            f"an id looks like 6f9619ff-8b86-d011-b42d-00c04fc964ff; its first {DIGITS_MIN} digits "
            "or more are enough if no other id begins so; `rollq jobs` lists ids",
        )
    return IdFilter(parts[1], parts[2] or "")


def digits_of(text: str) -> tuple[str, str]:
    """The first and last digits of a whole or short id, without dashes.

    Raises:
        LocalError: BAD_OPTIONS, if it is invalid.
    """
    wanted = _parse_plain(text)
    if isinstance(wanted, IdFilter):
        return wanted.first, wanted.last
    return guid_to_text(wanted).replace("-", ""), ""


def digits_in_tables(text: str) -> tuple[str, str]:
    """As `digits_of`, where no member is asked, who alone knows tasks by their numbers.

    Raises:
        LocalError: BAD_OPTIONS, if it is invalid, or the name of a task.
    """
    if isinstance(parse_id(text), TaskName):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{text[:64]!r} is the number of a task, and only a running group knows these",
            f"give the id of the task itself: `rollq job {text[:64]}` shows it",
        )
    return digits_of(text)


def filter_id(servers: str, timeout_s: float, text: str) -> str:
    """An id to look for in the history. The name of a task becomes the id of the task, for which
    the group is queried; all else stays as it was given."""
    if text and isinstance(parse_id(text), TaskName):
        return guid_to_text(full_id(servers, timeout_s, text))
    return text


async def resolve_id(client: Client, wanted: Wanted) -> JobId:
    """Resolve a short id, or the name of a task.

    Raises:
        StateError: UNKNOWN_JOB, if there is no match; AMBIGUOUS_ID, if there is more than one.
    """
    if isinstance(wanted, TaskName):
        return await _task(client, await resolve_id(client, wanted.array), wanted.number)
    if not isinstance(wanted, IdFilter):
        return wanted
    matches: dict[JobId, None] = {}
    before = 0
    while len(matches) <= AMBIGUOUS_SHOWN:
        key = msgspec.msgpack.encode(msgspec.structs.replace(wanted, before=before))
        page = await query_view(client, IdPage, "ids", key, AMBIGUOUS_SHOWN + 1)
        matches |= dict.fromkeys(page.ids)
        before = page.before
        if not before:
            break
    given = f"{wanted.first}{'..' if wanted.last else ''}{wanted.last}"
    if not matches:
        raise StateError(
            ErrorCode.UNKNOWN_JOB,
            f"no job or array has an id like {given}",
            "it was never accepted here, or it ended so long ago that it is forgotten",
        )
    first, *others = matches  # an array comes first, and its tasks have the same first digits
    is_one = all(one[:PREFIX_BYTES] == first[:PREFIX_BYTES] for one in others)
    if is_one and (not others or await client.array(first) is not None):
        return first
    shown = ", ".join(map(guid_to_text, list(matches)[:AMBIGUOUS_SHOWN]))
    raise StateError(
        ErrorCode.AMBIGUOUS_ID, f"{given} is short for several ids", f"give more digits: {shown}"
    )


async def _task(client: Client, array_id: JobId, number: int) -> JobId:
    """The id of a task."""
    array = decode_known(await client.query("array", array_id), RawArrayView)
    if array is None:
        raise StateError(
            ErrorCode.UNKNOWN_JOB,
            f"no array has id {guid_to_text(array_id)}",
            "ID/NUMBER is a task of an array; of a job the id alone is enough",
        )
    if number >= array.task_count:
        raise StateError(
            ErrorCode.UNKNOWN_JOB,
            f"array {guid_to_text(array_id)} has no task {number}",
            f"its tasks are 0 to {array.task_count - 1}",
        )
    return task_id(array_id, array.first_task + number)


def short_workers(texts: Iterable[str]) -> dict[str, str]:
    """Abbreviate ids of workers for a table; in full where two begin alike."""
    heads = Counter(text[:SHORT_DIGITS] for text in texts)
    return {
        text: text[:SHORT_DIGITS] if heads[text[:SHORT_DIGITS]] == 1 else text for text in texts
    }


def short_ids(texts: Iterable[str]) -> dict[str, str]:
    """Abbreviate the ids of a list, unambiguously also beyond the list: jobs that were submitted
    together have the same first digits, and are told apart by the last ones."""
    ids = list(dict.fromkeys(texts))
    heads: dict[str, int] = {}
    for text in ids:
        heads[text[:SHORT_DIGITS]] = heads.get(text[:SHORT_DIGITS], 0) + 1
    both = {text: f"{text[:SHORT_DIGITS]}..{text[-SHORT_DIGITS:]}" for text in ids}
    if len(set(both.values())) < len(ids):
        return {text: text for text in ids}
    return {
        text: both[text]
        if heads[text[:SHORT_DIGITS]] > 1 or int(text[-SHORT_DIGITS:], 16) <= ARRAY_TASKS_MAX
        else text[:SHORT_DIGITS]
        for text in ids
    }


def names_of(documents: Sequence[dict[str, Any]]) -> list[str]:
    """The names of jobs in a table: short ids, and of tasks their array and number."""
    short = short_ids(one["id"] for one in documents)
    return [
        f"{one['array'][:SHORT_DIGITS]}/{one['task']}" if "task" in one else short[one["id"]]
        for one in documents
    ]
