"""The argument and the result of handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rollq.base.errors import ErrorCode, RollqError
from rollq.base.ids import JobId, guid_from_text
from rollq.web.errors import bad_request
from rollq.web.limits import PAGE_ROWS, PAGE_ROWS_MAX
from rollq.web.links import Links

if TYPE_CHECKING:
    from rollq.web.app import Web

Value = TypeVar("Value")


@dataclass(slots=True)
class ApiCall:
    """A request, as a handler gets it.

    Attributes:
        web: The state of the process.
        request: The HTTP request.
        links: The user's connections to the group.
        query: The decoded query parameters.
        body: The decoded body.
        path: Parameters in the path.
    """

    web: Web
    request: Request
    links: Links
    query: Any = None
    body: Any = None
    path: Mapping[str, str] = field(default_factory=dict)

    @property
    def job_id(self) -> JobId:
        """The job id in the path."""
        return id_of(self.path["id"])


@dataclass(slots=True)
class ApiReply:
    """A document to send as JSON."""

    document: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[ApiCall], ApiReply | Awaitable[ApiReply | Response]]


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paging parameters of a list."""

    limit: int = PAGE_ROWS
    after: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= PAGE_ROWS_MAX:
            raise ValueError(f"limit is {self.limit}; use 1 to {PAGE_ROWS_MAX}")

    @property
    def place(self) -> int:
        """`after` as a number."""
        if not self.after:
            return 0
        if not self.after.isdecimal() or len(self.after) > 18 or not self.after.isascii():
            raise bad_request(f"after={self.after[:32]!r}", "use the `after` of the last page")
        return int(self.after)


def id_of(text: str) -> JobId:
    """Parse an id.

    Raises:
        RequestError: BAD_OPTIONS.
    """
    try:
        return guid_from_text(text)
    except RollqError as error:
        if error.code is not ErrorCode.BAD_ID:
            raise
        raise bad_request(
            f"{text[:64]!r} is not an id", "an id looks like 6f9619ff-8b86-d011-b42d-00c04fc964ff"
        ) from None


async def fewer_rows(ask: Callable[[int], Awaitable[Value]], limit: int) -> tuple[Value, int]:
    """Query a page of large rows: fewer rows if they do not fit. Returns the page and the number of
    rows that were requested."""
    while True:
        try:
            return await ask(limit), limit
        except RollqError as error:
            if error.code is not ErrorCode.ANSWER_TOO_LARGE or limit == 1:
                raise
            limit = max(1, limit // 8)
