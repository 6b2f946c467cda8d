"""The output and the value of a result, decoded lazily; large ones are fetched from the group."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgspec
from msgspec import UNSET

from rollq.base.digests import digest_from_text
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import guid_to_text
from rollq.base.jobs import BlobRef
from rollq.base.outcomes import ERROR_DATA, VALUE_DATA
from rollq.roles.client.results.outputs import Fetcher, Output
from rollq.values.codec import Buffer, pack, unpack
from rollq.values.outcomes import unpack_outcomes
from rollq.wire import messages as wire
from rollq.wire.models import JobResult, StreamBlob, decode_if_marked
from rollq.wire.output_messages import STREAMS

DATA: Final = "data"  # stream name of the bytes that a function returned
WHOLE: Final = "result"  # stream name of a report that was too large for the result message
LEFT_OUT: Final = re.compile(rb"\[(\d+) bytes left out\]\n")


class StreamEnd(NamedTuple):
    """The last bytes of a stream, their offset in it, and its total size."""

    offset: int
    data: bytes
    total: int


def mapped(file: BinaryIO) -> memoryview:
    """Map a file into memory, copy-on-write."""
    with file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


class Contents:
    """The streams and the value of a result, decoded on first use."""

    # Fetched streams by name. Shared while empty, which it stays for nearly every result.
    _loaded: Mapping[str, bytes] = MappingProxyType({})
    _mapped: memoryview | None = None  # a large packed value, mapped from a file

    def __init__(self, message: wire.Result, fetcher: Fetcher | None = None) -> None:
        self._message = message
        self._fetcher = fetcher

    @property
    def raw(self) -> bytes:
        """The report of the worker, undecoded."""
        return self._message.result

    @property
    def stdout(self) -> str:
        """The whole stdout of a program, or what a function returned as text or JSON. Bytes that
        are not UTF-8 are replaced by U+FFFD; `stdout_bytes` has the raw ones.

        Large output is fetched on first use, which blocks. In the client's own event loop call
        `await result.aload()` first.

        Raises:
            LocalError: BAD_SETUP in the client's own event loop, before `aload`.
            StateError: BLOB_MISSING, if part of it was not kept: see `stdout_lost`.
            RollqError: it cannot be fetched.
        """
        report = self._opened()
        if report is not None and report.stdout_blob is UNSET and report.stdout_size is UNSET:
            return report.stdout or ""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """The whole stderr of a program, or the traceback of a function. Otherwise like
        `stdout`."""
        return self.stderr_bytes.decode(errors="replace")

    @property
    def stdout_bytes(self) -> bytes:
        """The whole stdout as bytes; otherwise like `stdout`."""
        return self._whole("stdout")

    @property
    def stderr_bytes(self) -> bytes:
        """The whole stderr as bytes."""
        return self._whole("stderr")

    @property
    def stdout_tail(self) -> str:
        """The end of `stdout` that came with the result, without fetching. It is all of it, if
        `whole_stdout` has no more bytes."""
        return self.end_of("stdout").data.decode(errors="replace")

    @property
    def stderr_tail(self) -> str:
        """The same for `stderr`."""
        return self.end_of("stderr").data.decode(errors="replace")

    @property
    def stdout_lost(self) -> int:
        """How many bytes of `stdout` were not kept: it was too long, or its worker of an earlier
        version had no room."""
        return self._lost("stdout")

    @property
    def stderr_lost(self) -> int:
        """The same for `stderr`."""
        return self._lost("stderr")

    @property
    def whole_stdout(self) -> Output:
        """All of `stdout` that the grid keeps, as an object to save or read like a file."""
        return self._stream("stdout")

    @property
    def whole_stderr(self) -> Output:
        """The same for `stderr`."""
        return self._stream("stderr")

    @property
    def whole_data(self) -> Output:
        """The bytes that a function returned, as an object to save or read like a file."""
        blob = self._blob(DATA)
        if blob is not None:
            return self._kept(DATA, blob)
        return Output(DATA, self.loaded(DATA) or b"")

    def end_of(self, stream: str) -> StreamEnd:
        """The end of a stream, as it came with the result."""
        report = self._report
        if report is None:
            return StreamEnd(0, b"", 0)
        exact: bytes | msgspec.UnsetType = getattr(report, f"{stream}_bytes")
        text: str | None = getattr(report, stream)
        data = (text or "").encode("utf-8", "surrogateescape") if exact is UNSET else exact
        size: int | msgspec.UnsetType = getattr(report, f"{stream}_size")
        if size is not UNSET:
            return StreamEnd(max(size - len(data), 0), data, size)
        if getattr(report, f"{stream}_blob") is not UNSET:
            remark = LEFT_OUT.match(data)  # prefix in results of workers up to 0.1
            if remark is not None:
                data = data[remark.end() :]
                return StreamEnd(int(remark[1]), data, int(remark[1]) + len(data))
        return StreamEnd(0, data, len(data))

    @property
    def is_large(self) -> bool:
        """Whether `aload` has anything to fetch."""
        report = self._report
        if report is not None and report.whole_blob is not UNSET:
            return True
        return any(self._blob(name) is not None for name in (*STREAMS, DATA))

    async def aload(self) -> Self:
        """Fetch a large value, `stdout` and `stderr`, so that reading them does not block; returns
        this result.

        Raises:
            RollqError: it cannot be fetched.
        """
        await self.aload_report()
        for name in (*STREAMS, DATA):
            blob = self._blob(name)
            if blob is not None and name == DATA and self.is_packed:
                if self._mapped is None:
                    self._mapped = mapped(await self._kept(name, blob).aopen())
            elif blob is not None and name not in self._loaded:
                data = await self._kept(name, blob).aread()
                self._loaded = {**self._loaded, name: data}
        return self

    @property
    def is_packed(self) -> bool:
        """Whether the data is a packed Python value or exception."""
        return self._report is not None and self._report.data_kind is not UNSET

    async def aload_report(self) -> None:
        """Fetch the report only, if it was too large for the result message."""
        report = self._report
        if report is not None and report.whole_blob is not UNSET:
            self._open(await self._kept(WHOLE, report.whole_blob).aread())

    def loaded(self, name: str) -> bytes | None:
        """All of `stdout`, `stderr` or `data`, if it needs no fetching; None if it does, or if
        there is no data."""
        if name in self._loaded:
            return self._loaded[name]
        if self._blob(name) is not None:
            return None
        if name == DATA:
            report = self._report
            return None if report is None or report.data is UNSET else report.data
        return None if self._lost(name) else self.end_of(name).data

    @property
    def data_size(self) -> int:
        """The size of the bytes that a function returned; 0 if it returned none."""
        blob, data = self._blob(DATA), self.loaded(DATA)
        return blob.size if blob is not None else len(data or b"")

    def _opened(self) -> JobResult | None:
        """The worker's report, fetched if it was too large for the result message."""
        report = self._report
        if report is not None and report.whole_blob is not UNSET:
            self._open(self._kept(WHOLE, report.whole_blob).read())
        return self._report

    def _open(self, whole: bytes) -> None:
        self._message = msgspec.structs.replace(self._message, result=whole)
        for made in ("_report", "files", "outputs"):
            self.__dict__.pop(made, None)

    def _stream(self, name: str) -> Output:
        blob = self._blob(name)
        return Output(name, self.end_of(name).data) if blob is None else self._kept(name, blob)

    def _blob(self, name: str) -> StreamBlob | None:
        report = self._report
        blob = UNSET if report is None else getattr(report, f"{name}_blob")
        return None if blob is UNSET else blob

    def _kept(self, name: str, blob: StreamBlob) -> Output:
        ref = BlobRef(digest_from_text(blob.digest), blob.size)
        return Output(name, ref, fetcher=self._fetcher, loads="await result.aload() first")

    def _lost(self, name: str) -> int:
        blob = self._blob(name)
        end = self.end_of(name)
        return max(end.total - (len(end.data) if blob is None else blob.size), 0)

    def _whole(self, name: str) -> bytes:
        self._opened()
        blob = self._blob(name)
        if lost := self._lost(name):
            raise StateError(
                ErrorCode.BLOB_MISSING,
                f"{lost} bytes of {name} of job {guid_to_text(self._message.job_id)} were not kept",
                f"{name}_tail has its end, and whole_{name} what the grid keeps",
            )
        return self.end_of(name).data if blob is None else self._load(name, blob)

    def _load(self, name: str, blob: StreamBlob) -> bytes:
        if name not in self._loaded:
            self._loaded = {**self._loaded, name: self._kept(name, blob).read()}
        return self._loaded[name]

    @property
    def is_value(self) -> bool:
        """Whether a function that was called with Python values returned one."""
        report = self._report
        return report is not None and report.data_kind == VALUE_DATA

    @property
    def value(self) -> Any:
        """The value. For a function called with Python values: what it returned; a large value is
        mapped from a file. For a function called with text: bytes as they are, anything else as
        text (see `json`). For a program: its stdout, as text if it is UTF-8, else as bytes. For a
        worker that sends no report: the raw result. Fetches and raises like `stdout`."""
        report = self._opened()
        if report is None:
            return self.raw
        if report.data_kind is not UNSET and report.data_kind == VALUE_DATA:
            return self._unpacked
        if report.data is not UNSET:
            return report.data
        if report.data_blob is not UNSET:
            return self._load(DATA, report.data_blob)
        whole = self._whole("stdout")
        try:
            return whole.decode()
        except UnicodeDecodeError:
            return whole

    @cached_property
    def error(self) -> Exception | None:
        """The exception of a function that was called with Python values, with its remote traceback
        as a note; None if there is none. An exception whose class is not imported in this process
        is a RemoteError."""
        report = self._report
        if report is None or report.data_kind != ERROR_DATA:
            return None
        error = self._unpacked
        if not isinstance(error, Exception):
            return None
        error.add_note(f"in job {guid_to_text(self._message.job_id)}:\n{self.stderr_tail.strip()}")
        return error

    def outcomes(self) -> tuple[list[Any], list[tuple[int, Exception]]]:
        """For a bundle of calls (`map`): their values, and the exceptions by position.

        Raises:
            RemoteError: BAD_PAYLOAD, if the result is not of a bundle.
            RollqError: as for `value`.
        """
        self._opened()
        try:
            values, failures = unpack_outcomes(self._packed())
        except ValueError as why:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"the values: {why}") from None
        ident = guid_to_text(self._message.job_id)
        for place, error, trace in failures:
            error.add_note(f"in call {place + 1} of job {ident}:\n{trace.strip()}")
        return values, [(place, error) for place, error, _ in failures]

    def json(self) -> Any:
        """The value of a function called with text, decoded from JSON.

        Raises:
            RemoteError: BAD_PAYLOAD, if it is not JSON.
            RollqError: as for `value`.
        """
        value = self.value
        if self.is_value:
            return value
        if not value:
            return None
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"the value is not JSON: {error}") from None

    @cached_property
    def _unpacked(self) -> Any:
        """The data, unpacked."""
        try:
            return unpack(self._packed())
        except ValueError as error:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"the value: {error}") from None

    def packed_data(self) -> bytes | BlobRef:
        """The value, packed as an argument of another call; text and bytes must have been
        loaded."""
        report = self._report
        if report is not None and self.is_value:
            blob = self._blob(DATA)
            if blob is not None:
                return BlobRef(digest_from_text(blob.digest), blob.size)
            return b"" if report.data is UNSET else report.data
        return b"".join(pack(self.value))

    def _packed(self) -> Buffer:
        report = self._report
        assert report is not None, "it has data"
        if report.data is not UNSET:
            return report.data
        if self._mapped is None:
            blob = self._blob(DATA)
            assert blob is not None, "it has data"
            self._mapped = mapped(self._kept(DATA, blob).open())
        return self._mapped

    @cached_property
    def _report(self) -> JobResult | None:
        """The worker's report, if the result is one."""
        try:
            return decode_if_marked(self._message.result, JobResult, "Status")
        except RemoteError:
            return None
