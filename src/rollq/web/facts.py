"""The history of the group, read from its end: who did what, and what became of one job. It is a
search, not an index: it looks at a bounded number of entries, and says where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from rollq.grid.views import CountsView
from rollq.web.limits import FACTS_BYTES_MAX, FACTS_ENTRIES_MIN, FACTS_PAGE_BYTES
from rollq.web.links import Links

BEYOND: Final = 1 << 61  # all entries


class Told(msgspec.Struct, frozen=True, array_like=True):
    """Lines of the history, of these indexes."""

    first: int
    last: int
    lines: tuple[bytes, ...]


class Fact(msgspec.Struct, frozen=True):
    """A line of the history; names are those of its columns."""

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
    """Facts before an index (0: the newest), the newest first, and where to go on; 0: that was all.

    Args:
        links: Of whoever asks.
        before: Entries with a smaller index are looked at.
        limit: How many facts are wanted.
        is_wanted: Which.
    """
    end = before or await _last_index(links) + 1
    found: list[Fact] = []
    left_bytes = FACTS_BYTES_MAX
    entries = FACTS_ENTRIES_MIN  # read next; more of them as long as they are small
    while end > 1 and len(found) < limit and left_bytes > 0:
        first = max(1, end - entries)
        some, size = await _between(links, first, end)
        left_bytes -= max(size, FACTS_PAGE_BYTES)
        entries = 2 * entries if size < FACTS_PAGE_BYTES else max(1, entries // 2)
        wanted = [fact for fact in reversed(some) if is_wanted(fact)]
        end = first
        if len(found) + len(wanted) > limit:  # whole entries: the next page begins below them
            wanted, end = _whole(wanted, limit - len(found))
        found += wanted
    return found, end if end > 1 else 0


async def check_reads_history(links: Links) -> None:
    """Raises StateError ACCESS_DENIED, if the account may not read the history."""
    await links.read(Told, "history", BEYOND.to_bytes(8, "big"))


async def _last_index(links: Links) -> int:
    """The newest entry that the member has applied."""
    await links.read(CountsView, "counts")
    return links.applied


def _whole(facts: list[Fact], count: int) -> tuple[list[Fact], int]:
    """So many facts, and the rest of the last entry; its index is where to go on."""
    last = facts[max(count, 1) - 1].index
    return [fact for fact in facts if fact.index >= last], last


async def _between(links: Links, first: int, end: int) -> tuple[list[Fact], int]:
    """Facts of these entries, and how many bytes were looked at for them."""
    facts: list[Fact] = []
    read_bytes = 0
    while first < end:
        told = await links.read(Told, "history", first.to_bytes(8, "big"))
        low, last, lines = told.first, told.last, told.lines
        if last < low or low >= end:
            break
        read_bytes += sum(map(len, lines))
        facts += map(_decode, lines)
        first = last + 1
    return [fact for fact in facts if fact.index < end], read_bytes


_decode: Final = msgspec.json.Decoder(Fact).decode
