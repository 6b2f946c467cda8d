"""POST of jobs: as JSON, or as a form with files. Files are streamed to a temporary directory and
from there to the group: large ones are never in memory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from rollq.base.errors import DiskError, ErrorCode
from rollq.roles.client.jobs.specs import JobSpec
from rollq.web.bodies import decode_json, pieces_of, read_json
from rollq.web.call import ApiCall, ApiReply
from rollq.web.errors import RequestError, bad_request
from rollq.web.jobs import known_job
from rollq.web.limits import FORM_BYTES_MAX, FORM_FILES_MAX, FORM_JOB_BYTES_MAX
from rollq.web.links import WebClient

FORM: Final = "multipart/form-data"
JOB: Final = "job"
PIECES_BYTES: Final = 1024 * 1024  # buffered per write
# Options in documents, and in the client, where durations are seconds.
SECONDS: Final = {
    "delay_ms": "delay",
    "lease_ms": "lease",
    "run_ms_soft": "run_limit_soft",
    "run_ms_max": "run_limit",
    "expire_ms": "expire",
    "result_ttl_ms": "result_ttl",
    "retry_base_ms": "retry_base",
}


AS_THEY_ARE: Final = (
    *("priority", "max_attempts", "retry_exit_codes"),
    *("resources", "labels", "limits", "sticky_key", "after"),
)


class JobOptionsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a job; 0 or empty: the cluster's setting."""

    priority: int = 0
    delay_ms: int = 0
    max_attempts: int = 0
    lease_ms: int = 0
    run_ms_soft: int = 0
    run_ms_max: int = 0
    expire_ms: int = 0
    result_ttl_ms: int = 0
    retry_base_ms: int = 0
    retry_exit_codes: tuple[int, ...] = ()
    worker_name: str = ""
    resources: dict[str, str | int | float] = {}
    labels: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    sticky_key: str = ""
    after: tuple[str, ...] = ()


class JobBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to run. Jobs of one account with the same `key` are the same job."""

    exec: str
    args: tuple[str, ...] = ()
    queue: str = ""
    env: dict[str, str] = {}
    outputs: tuple[str, ...] = ()
    key: str = ""
    payload: str | None = None
    secrets: dict[str, str] = {}
    options: JobOptionsBody = JobOptionsBody()


class PostedJob(JobBody, frozen=True, forbid_unknown_fields=True):
    """A job, and URLs to call when it has ended."""

    notify: tuple[str, ...] = ()


class JobForm(msgspec.Struct, frozen=True):
    """A job as a form: the part `job` is a PostedJob, and every file is a part with a name."""

    job: str
    files: list[str] = []


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a copy of a job; null: unchanged. Variables are added to the others."""

    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None


class AcceptedJob(msgspec.Struct, frozen=True):
    """An accepted job."""

    id: str
    client: str


async def submit(call: ApiCall) -> ApiReply:
    """Submit one job, as JSON or as a form: a part `job` with the JSON, and files by name."""
    kind = call.request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != FORM:
        return await _accept(call, await read_json(call.request, PostedJob), {})
    async with _form(call.request, kind) as (data, files):
        body = decode_json(data, PostedJob, f"the part {JOB!r}", "send a job as JSON")
        return await _accept(call, body, files)


async def again(call: ApiCall) -> ApiReply:
    """Run a job once more, as a new job, optionally with other arguments."""
    changes: Changes = call.body
    await known_job(call)
    client = call.links.client
    return _accepted(client, await client.post_like(call.job_id, changes.args, changes.env))


async def redrive(call: ApiCall) -> ApiReply:
    """Run a dead job again under its id, optionally with other arguments."""
    changes: Changes = call.body
    await known_job(call)
    count = await call.links.client.redrive(call.job_id, args=changes.args, env=changes.env)
    return ApiReply({"count": count})


async def _accept(call: ApiCall, body: PostedJob, files: Mapping[str, Path]) -> ApiReply:
    client = call.links.client
    return _accepted(client, await client.post(spec_of(body, files), body.notify))


def _accepted(client: WebClient, job_id: str) -> ApiReply:
    headers = {"Location": f"/api/v1/jobs/{job_id}"}
    return ApiReply({"id": job_id, "client": client.client_id}, 201, headers)


def spec_of(body: JobBody, files: Mapping[str, Path]) -> JobSpec:
    """The spec of a job with these files."""
    options = _options_of(body.options)
    options |= {"queue": body.queue} if body.queue else {}
    options |= {"env": body.env} if body.env else {}
    options |= {"secrets": body.secrets} if body.secrets else {}
    made: Any = options
    return JobSpec(
        exec_name=body.exec,
        args=body.args,
        files=dict(files),
        payload=body.payload,
        options=made,
        outputs=body.outputs,
        key=body.key,
    )


def _options_of(given: JobOptionsBody) -> dict[str, Any]:
    options: dict[str, Any] = {
        ours: getattr(given, name) / 1000 for name, ours in SECONDS.items() if getattr(given, name)
    }
    for name in AS_THEY_ARE:
        if getattr(given, name):
            options[name] = getattr(given, name)
    if given.worker_name:
        options["worker"] = given.worker_name
    return options


# --- forms


@asynccontextmanager
async def _form(request: Request, kind: str) -> AsyncIterator[tuple[bytes, dict[str, Path]]]:
    """Context manager: the part `job` and the files of a form."""
    _, options = parse_options_header(kind)
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise bad_request("the form has no boundary", "curl -F sends one")
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="rollq-web-"))
    form = _Form(folder)
    try:
        await _receive(request, boundary, form)
        yield bytes(form.job), form.files
    finally:
        with contextlib.suppress(OSError):  # what was not written is removed with the rest
            form.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _receive(request: Request, boundary: bytes, form: _Form) -> None:
    """Read a form.

    Raises:
        RequestError: it is invalid, or too large.
        DiskError: its files cannot be stored here.
    """
    parser = MultipartParser(boundary, form.callbacks())
    left = FORM_BYTES_MAX
    try:
        async for piece in pieces_of(request):
            left -= len(piece)
            if left < 0:
                raise RequestError(
                    413, ErrorCode.FRAME_TOO_LARGE, f"the form has more than {FORM_BYTES_MAX} bytes"
                )
            parser.write(piece)
            if form.waiting_bytes >= PIECES_BYTES:
                await asyncio.to_thread(form.flush)
        parser.finalize()
        await asyncio.to_thread(form.flush)
    except MultipartParseError as error:
        raise bad_request(f"the form: {error}", "curl -F sends one") from None
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise DiskError(
            ErrorCode.DISK_FULL if is_full else ErrorCode.DISK_FAILED,
            f"the files of the form cannot be stored by `rollq web`: {error.strerror or error}",
            "make room in its temporary directory (TMPDIR), or send fewer files",
        ) from None
    if not form.is_whole:
        raise bad_request("the form is cut", "send all of it")


class _Form:
    """Receives the parts of a form from the parser. `flush` writes files, on a thread, under
    generated names: names of the browser are never used as paths."""

    def __init__(self, folder: Path) -> None:
        self.job = bytearray()
        self.files: dict[str, Path] = {}
        self.waiting_bytes = 0
        self.is_whole = False
        self._folder = folder
        self._header = ""
        self._value = b""
        self._headers: dict[str, bytes] = {}
        self._target: Path | None = None  # of the current part; None: the part `job`
        self._open: dict[Path, BinaryIO] = {}
        self._waiting: list[tuple[Path, bytes]] = []

    def callbacks(self) -> Any:
        """The callbacks for the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_name,
            "on_header_value": self._on_value,
            "on_header_end": self._on_header,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_end": self._end,
        }

    def flush(self) -> None:
        """Write the buffered data."""
        waiting, self._waiting, self.waiting_bytes = self._waiting, [], 0
        for path, data in waiting:
            file = self._open.get(path)
            if file is None:
                self.close()
                file = self._open[path] = path.open("ab")
            file.write(data)
        for file in self._open.values():
            file.flush()

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _begin(self) -> None:
        self._headers = {}

    def _on_name(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end].decode("latin-1")

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = "", b""

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        field = options.get(b"name", b"").decode(errors="replace")
        name = options.get(b"filename", b"").decode(errors="replace")
        if field == JOB and not name:
            self._target = None
            return
        if not name:
            raise bad_request(f"unknown field {field[:64]!r}", f"send {JOB!r} and files")
        if name in self.files:
            raise bad_request(f"two files are called {name[:128]!r}", "rename one")
        if len(self.files) >= FORM_FILES_MAX:
            raise bad_request(f"more than {FORM_FILES_MAX} files", "send an archive")
        self._target = self._folder / str(len(self.files))
        self.files[name] = self._target
        self._waiting.append((self._target, b""))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._target is not None:
            self._waiting.append((self._target, data[start:end]))
            self.waiting_bytes += end - start
            return
        if len(self.job) + end - start > FORM_JOB_BYTES_MAX:
            raise RequestError(413, ErrorCode.FRAME_TOO_LARGE, f"the part {JOB!r} is too large")
        self.job += data[start:end]

    def _end(self) -> None:
        self.is_whole = True
