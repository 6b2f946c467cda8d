"""A search of the history from its end: what it finds, and how much it looks at."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from rollq.grid.views import CountsView
from rollq.web.facts import HistoryLines, facts_before
from rollq.web.limits import FACTS_BYTES_MAX, FACTS_PAGE_BYTES
from rollq.web.links import Links


class Member:
    """Links to a member whose entries have one act each, and so many bytes of other facts."""

    def __init__(self, entries: int, other_bytes: int) -> None:
        self.applied = entries
        self.read_bytes = 0
        self._other = line(0, "enqueue", "x" * other_bytes)

    async def read(self, kind: type, _what: str, key: bytes = b"") -> Any:
        await asyncio.sleep(0)
        if kind is CountsView:
            return None
        index = int.from_bytes(key, "big")
        lines = (line(index, "act", ""), self._other.replace(b'"index":0', b'"index":%d' % index))
        self.read_bytes += sum(map(len, lines))
        return HistoryLines(index, index, lines)


def line(index: int, kind: str, detail: str) -> bytes:
    row = {"index": index, "ordinal": 0, "ts": index, "type": kind, "detail": detail}
    return msgspec.json.encode(row)


def found_in(member: Member, before: int, limit: int) -> tuple[list[int], int]:
    links = cast(Links, member)
    search = facts_before(links, before, limit, lambda fact: fact.type == "act")
    facts, place = asyncio.run(search)
    return [fact.index for fact in facts], place


def test_acts_come_newest_first_and_go_on_where_they_ended() -> None:
    member = Member(entries=100, other_bytes=10)
    first, place = found_in(member, 0, 30)
    assert first == list(range(100, 70, -1))
    rest, end = found_in(member, place, 500)
    assert (rest, end) == (list(range(70, 0, -1)), 0)


def test_a_search_among_large_entries_ends_by_its_bytes_and_says_where() -> None:
    member = Member(entries=10_000, other_bytes=FACTS_PAGE_BYTES)
    found, place = found_in(member, 0, 1_000)
    assert 0 < len(found) < 100
    assert place == found[-1]
    assert member.read_bytes < 2 * FACTS_BYTES_MAX
