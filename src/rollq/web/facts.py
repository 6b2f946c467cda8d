"""Searches the history of the group backwards, for the audit log and the events of a job. There is
no index: it examines a limited number of entries, and returns where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from rollq.grid.views import CountsView
from rollq.web.limits import FACTS_BYTES_MAX, FACTS_ENTRIES_MIN, FACTS_PAGE_BYTES
from rollq.web.links import Links

BEYOND: Final = 1 << 61  # an index after all entries


class HistoryLines(msgspec.Struct, frozen=True, array_like=True):
    """Lines of the history from `first` to `last`."""

    first: int
    last: int
    lines: tuple[bytes, ...]


class Fact(msgspec.Struct, frozen=True):
    """A line of the history, with the names of its columns."""

    index: int
    ordinal: int
    ts: int
    type: str
    jobId: str = ""  # noqa: N815
    arrayId: str = ""  # noqa: N815
    queue: str = ""
    workerId: str = ""  # noqa: N815
    attempt: int = 0
    delayMs: int = 0  # noqa: N815
    status: int = 0
    cause: int = 0
    exitCode: int = 0  # noqa: N815
    signal: int = 0
    runMs: int = 0  # noqa: N815
    count: int = 0
    detail: str = ""
    cacheId: str = ""  # noqa: N815
    by: str = ""
    account: str = ""
    action: str = ""
    resource: str = ""
    address: str = ""


async def facts_before(
    links: Links, before: int, limit: int, is_wanted: Callable[[Fact], bool]
) -> tuple[list[Fact], int]:
    """Facts before an index (0: the end), newest first, and the index to continue at; 0: no more.

    Args:
        links: The user's connections.
        before: Only entries before this index are examined.
        limit: The maximum number of facts.
        is_wanted: The filter.
    """
    end = before or await _last_index(links) + 1
    found: list[Fact] = []
    left_bytes = FACTS_BYTES_MAX
    entries = FACTS_ENTRIES_MIN  # number to read next; it grows while they are small
    while end > 1 and len(found) < limit and left_bytes > 0:
        first = max(1, end - entries)
        some, size = await _between(links, first, end)
        left_bytes -= max(size, FACTS_PAGE_BYTES)
        entries = 2 * entries if size < FACTS_PAGE_BYTES else max(1, entries // 2)
        wanted = [fact for fact in reversed(some) if is_wanted(fact)]
        end = first
        if len(found) + len(wanted) > limit:  # the rest is for the next page
            wanted, end = _whole(wanted, limit - len(found))
        found += wanted
    return found, end if end > 1 else 0


async def check_reads_history(links: Links) -> None:
    """Raises StateError ACCESS_DENIED, if the account may not read the history."""
    await links.read(HistoryLines, "history", BEYOND.to_bytes(8, "big"))


async def _last_index(links: Links) -> int:
    """The index of the newest entry that the member has applied."""
    await links.read(CountsView, "counts")
    return links.applied


def _whole(facts: list[Fact], count: int) -> tuple[list[Fact], int]:
    """The first `count` facts, and the rest of the last one's entry; with its index, to continue
    at."""
    last = facts[max(count, 1) - 1].index
    return [fact for fact in facts if fact.index >= last], last


async def _between(links: Links, first: int, end: int) -> tuple[list[Fact], int]:
    """The facts of these entries, and the number of bytes read."""
    facts: list[Fact] = []
    read_bytes = 0
    while first < end:
        told = await links.read(HistoryLines, "history", first.to_bytes(8, "big"))
        low, last, lines = told.first, told.last, told.lines
        if last < low or low >= end:
            break
        read_bytes += sum(map(len, lines))
        facts += map(_decode, lines)
        first = last + 1
    return [fact for fact in facts if fact.index < end], read_bytes


_decode: Final = msgspec.json.Decoder(Fact).decode
