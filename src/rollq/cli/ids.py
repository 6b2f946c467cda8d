"""Ids of jobs and arrays as people type and read them: whole, or shortened where that is clear.

A short id is the first digits, `6f9619ff`; or the first and the last ones, `6f9619ff..0000002a`, as
for jobs that were submitted together and differ only in the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RemoteError, StateError
from rollq.base.ids import JobId, guid_from_text, guid_to_text
from rollq.base.limits import ARRAY_TASKS_MAX
from rollq.cli.grid import ask, asked
from rollq.grid.pages import IdFilter, IdPage
from rollq.grid.state import PREFIX_BYTES
from rollq.roles.client.client import Client

Value = TypeVar("Value")
Wanted: TypeAlias = JobId | IdFilter

SHORT_DIGITS: Final = 8
DIGITS_MIN: Final = 4
AMBIGUOUS_SHOWN: Final = 5
SHORT: Final = re.compile(r"([0-9a-f]+)(?:(?:\.\.+|…)([0-9a-f]+))?")


def asked_of(
    servers: str,
    timeout_s: float,
    texts: Sequence[str],
    question: Callable[[Client, list[JobId]], Coroutine[Any, Any, Value]],
) -> Value:
    """The answer to one question about jobs or arrays that were named on the command line."""
    wanted = [parse_id(text) for text in texts]

    async def ask_it(client: Client) -> Value:
        return await question(client, [await found(client, one) for one in wanted])

    return asked(servers, timeout_s, ask_it)


def full_id(servers: str, timeout_s: float, text: str) -> JobId:
    """The id of a job or array; the group is asked only for what is missing of it."""
    wanted = parse_id(text)
    if isinstance(wanted, bytes):
        return wanted

    async def ask_it(client: Client) -> JobId:
        return await found(client, wanted)

    return asked(servers, timeout_s, ask_it)


def parse_id(text: str) -> Wanted:
    """An id, or what is known of its digits.

    Raises:
        LocalError: BAD_OPTIONS, if it is neither.
    """
    try:
        return guid_from_text(text)
    except RemoteError:
        parts = SHORT.fullmatch(text.strip().lower().replace("-", ""))
    if parts is None or len(parts[1]) < DIGITS_MIN:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{text[:64]!r} is not a job id",
            "an id looks like 6f9619ff-8b86-d011-b42d-00c04fc964ff; its first digits are enough if "
            "unambiguous; `rollq jobs` lists ids",
        )
    return IdFilter(parts[1], parts[2] or "")


def digits_of(text: str) -> tuple[str, str]:
    """The first and last digits of an id that was typed, whole or short, without dashes.

    Raises:
        LocalError: BAD_OPTIONS, if it is none.
    """
    wanted = parse_id(text)
    if isinstance(wanted, IdFilter):
        return wanted.first, wanted.last
    return guid_to_text(wanted).replace("-", ""), ""


async def found(client: Client, wanted: Wanted) -> JobId:
    """The one job or array that is meant.

    Raises:
        StateError: UNKNOWN_JOB, if there is none; AMBIGUOUS_ID, if there is more than one.
    """
    if not isinstance(wanted, IdFilter):
        return wanted
    matches: dict[JobId, None] = {}
    before = 0
    while len(matches) <= AMBIGUOUS_SHOWN:
        key = msgspec.msgpack.encode(msgspec.structs.replace(wanted, before=before))
        page = await ask(client, IdPage, "ids", key, AMBIGUOUS_SHOWN + 1)
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
    first, *others = matches  # arrays come first, and their tasks begin alike
    is_one = all(one[:PREFIX_BYTES] == first[:PREFIX_BYTES] for one in others)
    if is_one and (not others or await client.array(first) is not None):
        return first
    shown = ", ".join(map(guid_to_text, list(matches)[:AMBIGUOUS_SHOWN]))
    raise StateError(
        ErrorCode.AMBIGUOUS_ID, f"{given} is short for several ids", f"give more digits: {shown}"
    )


def short_ids(texts: Iterable[str]) -> dict[str, str]:
    """Ids of a list as short as they are clear, in it and beyond: jobs that were submitted together
    begin alike, and the others of them need not be in the list. Their last digits are a number."""
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
