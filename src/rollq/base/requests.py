"""The displayed request of a job: a summary of its body, of bounded size.

Values of environment variables are never in it: they may be secrets. A body is summarised when
a client asks, as long as it is there. When a job ends, a short body that holds no such values is
kept as it is, and any other is replaced by its summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rollq.base.traces import is_traceparent

REQUEST_BYTES_MAX: Final = 2_048  # of arguments and names in a summary
KEPT_BYTES_MAX: Final = 1_024  # a body that is no longer than this is its own summary
MARK: Final = b"\0rq1"  # before a summary in place of a body: JSON does not begin so


class RequestFile(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One input file: its size if that is known (else -1), the digest of a blob, or its cache."""

    name: str
    size: int = -1
    digest: str = ""
    cache_id: str = ""


class Request(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A summary of a request. A body that is no JobRequest is a payload: only its size is shown."""

    args: tuple[str, ...] = ()
    files: tuple[RequestFile, ...] = ()
    env: tuple[str, ...] = ()  # names alone
    body_bytes: int = 0
    is_payload: bool = False
    is_cut: bool = False  # there was more than fits
    traceparent: str = ""  # the span that it belongs to


class _File(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    name: str
    cache_id: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    digest: str | None = None
    size: int | None = None


class _Body(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    job_id: str
    args: tuple[str, ...] | None = None
    files: tuple[_File, ...] | None = None
    env: msgspec.Raw = msgspec.Raw()
    traceparent: str = ""


def request_in(body: bytes) -> Request:
    """The summary of a body."""
    if body.startswith(MARK):
        try:
            return _decode_summary(body[len(MARK) :])
        except msgspec.MsgspecError:
            return Request(body_bytes=len(body), is_payload=True)
    try:
        asked = _decode_body(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Request(body_bytes=len(body), is_payload=True)
    left = REQUEST_BYTES_MAX
    args, left = _bounded(asked.args or (), left)
    env = _env_names(asked.env)
    names, left = _bounded(env, left)
    files: list[RequestFile] = []
    for one in asked.files or ():
        left -= len(one.name) + len(one.digest or "") + len(one.cache_id or "")
        if left < 0:
            break
        files.append(RequestFile(one.name, _size(one), one.digest or "", one.cache_id or ""))
    counts = (len(asked.args or ()), len(env), len(asked.files or ()))
    is_cut = left < 0 or (len(args), len(names), len(files)) != counts
    trace = asked.traceparent if is_traceparent(asked.traceparent) else ""
    return Request(args, tuple(files), names, len(body), is_cut=is_cut, traceparent=trace)


def request_document(request: Request) -> dict[str, Any]:
    """A request as JSON shows it, on the command line and in the history."""
    if request.is_payload:
        return {"payload_bytes": request.body_bytes}
    document: dict[str, Any] = {"args": list(request.args)}
    if request.files:
        document["files"] = [
            {"name": one.name}
            | ({"bytes": one.size} if one.size >= 0 else {})
            | ({"digest": one.digest} if one.digest else {})
            | ({"cache": one.cache_id} if one.cache_id else {})
            for one in request.files
        ]
    if request.env:
        document["env"] = list(request.env)
    if request.traceparent:
        document["traceparent"] = request.traceparent
    return document | ({"cut": True} if request.is_cut else {})


def kept_of(body: bytes) -> bytes:
    """The reduced body of a job that will not run again."""
    if not body or (len(body) <= KEPT_BYTES_MAX and b'"Env"' not in body):
        return body
    return MARK + _encode_summary(request_in(body))


def all_kept(bodies: Sequence[bytes]) -> Sequence[bytes]:
    """`kept_of` each. Most are short and without variables, which is checked for all at once."""
    if len(bodies) == 1:
        kept = kept_of(bodies[0])
        return bodies if kept is bodies[0] else (kept,)
    if max(map(len, bodies)) <= KEPT_BYTES_MAX and b'"Env"' not in b"".join(bodies):
        return bodies
    return [kept_of(body) for body in bodies]


def _bounded(texts: tuple[str, ...], left: int) -> tuple[tuple[str, ...], int]:
    """As many as fit; the last one may be cut."""
    taken: list[str] = []
    for text in texts:
        if left <= 0:
            return tuple(taken), -1
        taken.append(text[:left])
        left -= len(text) + 1
    return tuple(taken), left


def _env_names(env: msgspec.Raw) -> tuple[str, ...]:
    try:
        return tuple(_decode_env(env) or ()) if bytes(env) else ()
    except msgspec.MsgspecError:
        return ()


def _size(file: _File) -> int:
    """The size of a blob, or of content in base64; -1 of a file of a cache."""
    if file.size is not None:
        return file.size
    text = bytes(file.content)
    if not text.startswith(b'"'):  # null, or absent
        return -1
    return (len(text) - 2) * 3 // 4 - text[-3:-1].count(b"=")


_decode_body: Final = msgspec.json.Decoder(_Body).decode
_decode_env: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
_decode_summary: Final = msgspec.msgpack.Decoder(Request).decode
_encode_summary: Final = msgspec.msgpack.Encoder().encode
