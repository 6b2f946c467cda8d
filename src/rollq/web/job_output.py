"""Output of jobs: streams, as bytes or live, and files to download."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncGenerator
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rollq.base.digests import digest_from_text
from rollq.base.errors import ErrorCode, RollqError
from rollq.base.jobs import BlobRef
from rollq.documents.output import OutputDocuments
from rollq.roles.client.results.result import Result
from rollq.roles.client.results.streams import StreamPart
from rollq.web.answers import BYTES, TEXT
from rollq.web.call import ApiCall, ApiReply
from rollq.web.errors import RequestError, not_found
from rollq.web.events import EventStream, event
from rollq.web.jobs import known_job
from rollq.web.limits import SLOW_READER_S
from rollq.web.overview import open_stream

STREAMS: Final = ("stdout", "stderr")
PIECE_BYTES: Final = 256 * 1024
RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
UTF8: Final = f"{TEXT}; charset=utf-8"


class OutputQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start of the output."""

    offset: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.offset < 1 << 62:
            raise ValueError(f"offset is {self.offset}")


class FileQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kind of a file, because an input and an output may have the same name."""

    kind: str = "output"

    def __post_init__(self) -> None:
        if self.kind not in ("output", "input"):
            raise ValueError(f"kind is {self.kind[:32]!r}; use output or input")


class Content(NamedTuple):
    """The available part of a stream: its offset, and the total size of the stream."""

    file: BinaryIO
    begin: int
    total: int


async def output(call: ApiCall) -> Response:
    """A stream of a job, complete or so far; `Range` and `offset` select a part."""
    name = call.path["stream"]
    if name not in STREAMS:
        raise not_found(f"no stream {name[:32]!r}", "use stdout or stderr")
    wanted: OutputQuery = call.query
    view = await known_job(call)
    content = await (_ended(call, name) if view.end is not None else _running(call, name))
    place = _range(call.request.headers.get("range", ""), content, wanted.offset)
    if place is None:
        content.file.close()
        raise RequestError(
            416, ErrorCode.BAD_OPTIONS, f"there are {content.total} bytes", "ask for some of them"
        )
    return _Download(content, *place, {"Content-Type": UTF8})


async def follow(call: ApiCall) -> EventStream:
    """Events `output`: the output of a job from its beginning, live, until `end`."""
    await known_job(call)
    return open_stream(call, _parts(call))


async def files(call: ApiCall) -> ApiReply:
    """The input and output files of a job."""
    view = await known_job(call)
    request = view.request
    inputs = [] if request is None else [_input(one) for one in request.files]
    outputs: list[dict[str, Any]] = []
    if view.end is not None:
        result = await _result(call)
        outputs = [
            {"name": one.name, "bytes": one.size, "digest": one.digest}
            for one in result.outputs.values()
        ]
    return ApiReply({"inputs": inputs, "outputs": outputs})


async def file(call: ApiCall) -> Response:
    """A file of a job."""
    wanted: FileQuery = call.query
    name = call.path["name"]
    view = await known_job(call)
    found = None
    if wanted.kind == "output" and view.end is not None:
        found = (await _result(call)).outputs.get(name)
    if found is None:
        given = () if view.request is None else view.request.files
        ref = next((one for one in given if one.name == name and one.digest), None)
        if ref is not None:
            blob = BlobRef(digest_from_text(ref.digest), ref.size)
            found = call.links.client.kept(name, blob)
    if found is None:
        raise not_found(
            f"job {call.path['id']} has no file {name[:128]!r} to download",
            "GET /jobs/ID/files lists them; files inside the request are not kept apart",
        )
    opened = await found.aopen()
    content = Content(opened, 0, found.size)
    place = _range(call.request.headers.get("range", ""), content, 0) or (0, found.size)
    headers = {"Content-Type": BYTES, "Content-Disposition": attachment(name)}
    return _Download(content, *place, headers)


def attachment(name: str) -> str:
    """The Content-Disposition header to save a file under the last part of its name. Special
    characters are encoded, so that a name cannot change the header."""
    last = name.rpartition("/")[2] or "file"
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", last)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"


async def _result(call: ApiCall) -> Result:
    result = await call.links.client.result_of(call.job_id)
    await result.aload_report()
    return result


async def _ended(call: ApiCall, name: str) -> Content:
    result = await _result(call)
    end = result.end_of(name)
    whole = result.whole_stdout if name == "stdout" else result.whole_stderr
    if end.offset and not whole.is_here:
        try:
            return Content(await whole.aopen(), 0, whole.size)
        except RollqError as error:
            if error.code is not ErrorCode.BLOB_MISSING:
                raise
    return Content(io.BytesIO(end.data), end.offset, end.total)


async def _running(call: ApiCall, name: str) -> Content:
    """The output that the worker still buffers."""
    parts: list[StreamPart] = []
    async for part in call.links.client.output(call.job_id, follow=False, stream=name):
        if parts and part.attempt != parts[-1].attempt:
            parts.clear()
        parts.append(part)
    data = b"".join(part.data for part in parts)
    begin = parts[0].offset if parts else 0
    return Content(io.BytesIO(data), begin, begin + len(data))


async def _parts(call: ApiCall) -> AsyncGenerator[bytes, None]:
    documents = OutputDocuments()
    async for part in call.links.client.output(call.job_id, follow=True):
        yield event("output", documents.of(part))
    yield event("end", {})


def _input(one: Any) -> dict[str, Any]:
    return {
        "name": one.name,
        "bytes": one.size,
        "digest": one.digest,
        "cache": one.cache_id,
        "kept": bool(one.digest),
    }


def _range(header: str, content: Content, offset: int) -> tuple[int, int] | None:
    """The first byte and the end of the range; None if it is empty."""
    first, behind = max(offset, content.begin), content.total
    found = RANGE.fullmatch(header.strip())
    if found is not None and (found[1] or found[2]):
        if not found[1]:
            first = max(content.begin, content.total - int(found[2]))
        else:
            first = max(content.begin, int(found[1]))
            behind = min(content.total, int(found[2]) + 1) if found[2] else content.total
        if first >= behind and content.total:
            return None
    return first, max(first, behind)


class _Download(Response):
    """A part of a file, sent in pieces at the reader's pace."""

    def __init__(self, content: Content, first: int, behind: int, headers: dict[str, str]) -> None:
        self._content = content
        self._first = first
        self._left = behind - first
        is_whole = first == 0 and behind == content.total
        if not is_whole and self._left:
            headers = headers | {"Content-Range": f"bytes {first}-{behind - 1}/{content.total}"}
        self.status_code = 200 if is_whole or not self._left else 206
        self.background = None
        self.init_headers(headers | {"Content-Length": str(self._left), "Accept-Ranges": "bytes"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it."""
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        file = self._content.file
        try:
            await send(start)
            await asyncio.to_thread(file.seek, self._first - self._content.begin)
            while self._left:
                piece = await asyncio.to_thread(file.read, min(PIECE_BYTES, self._left))
                if not piece:
                    break
                self._left -= len(piece)
                async with asyncio.timeout(SLOW_READER_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return  # the reader is gone or too slow
        finally:
            file.close()
