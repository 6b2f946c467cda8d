"""How a job ended, as a person reads it. Decoded only when it is looked at."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from rollq.base.digests import digest_from_text
from rollq.base.errors import ErrorCode, Fault, RemoteError, RollqError, StateError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.jobs import BlobRef, Status
from rollq.base.limits import OUTPUT_BYTES_MAX
from rollq.base.names import checked_tree
from rollq.base.outcomes import exit_code_of, state_word
from rollq.grid.views import JobView
from rollq.roles.client.outputs import PLAIN, Fetcher, Output, asave_outputs, save_outputs
from rollq.roles.client.supply import BytesMoved
from rollq.roles.client.views import cause_text, cause_word, signal_text
from rollq.store.archive import unpack
from rollq.wire import messages as wire
from rollq.wire.models import STATUS_FAILED, STATUS_OK, JobResult, StreamBlob, decode_if_marked
from rollq.wire.output_messages import STREAMS

DONE = "done"
DATA = "data"  # beside the streams: what a function returned as bytes
OK = int(Status.OK)
CANCELLED = "cancelled"
WHOLE = "result"


LEFT_OUT: Final = re.compile(rb"\[(\d+) bytes left out\]\n")


class StreamEnd(NamedTuple):
    """The last bytes of a stream, where they begin in it, and how many it has."""

    offset: int
    data: bytes
    total: int


class JobError(RollqError):
    """A job did not end well; `result` has everything that is known of it."""

    fault = Fault.STATE

    def __init__(self, code: ErrorCode, message: str, hint: str, result: Result) -> None:
        super().__init__(code, message, hint)
        self.result = result


class Result:
    """How a job ended.

    `ok` means that it ran to its end and the program was content: exit code 0, or a function that
    returned. `status` is OK, FAILED (it ran and failed), DEAD (no attempt came to an end) or
    CANCELLED.
    """

    def __init__(self, message: wire.Result, fetcher: Fetcher | None = None) -> None:
        self._message = message
        self._fetcher = fetcher
        self._loaded: dict[str, bytes] = {}  # what was large and has been fetched

    @property
    def job_id(self) -> JobId:
        """The job's id."""
        return self._message.job_id

    @property
    def id(self) -> str:
        """The job's id as text."""
        return guid_to_text(self._message.job_id)

    @property
    def key(self) -> str:
        """What its owner calls the job; empty if it has no key."""
        return self._message.job_key

    @property
    def exec_name(self) -> str:
        """What ran."""
        return self._message.exec_name

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        message = self._message
        return message.outcome == DONE and message.status == OK

    @property
    def status(self) -> str:
        """OK, FAILED, DEAD or CANCELLED."""
        if self._message.outcome != DONE:
            return self._message.outcome.upper()
        return STATUS_OK if self.ok else STATUS_FAILED

    @property
    def state(self) -> str:
        """ok, failed, dead or cancelled."""
        return state_word(self._message.outcome, self._message.status)

    @property
    def exit_code(self) -> int | None:
        """Of the last attempt, as the shell gives it: 128 + n if signal n ended the program. None
        if no program came to an end."""
        told = self._message
        return exit_code_of(told.outcome, told.exit_code, told.signal, told.run_ms)

    @property
    def signal(self) -> int:
        """The signal that ended it; 0 if none did."""
        return self._message.signal

    @property
    def run_ms(self) -> int:
        """How long the last attempt ran."""
        return self._message.run_ms

    @property
    def attempts(self) -> int:
        """How often it was started."""
        return self._message.attempt

    @property
    def worker(self) -> str:
        """Who ran it last: the name of the worker, else its id; empty if nobody did, or if it is
        not known."""
        return self._message.worker

    @property
    def cause(self) -> str:
        """Why it is dead, in one word; empty if it is not."""
        return cause_word(self._message.cause)

    @property
    def ending(self) -> str:
        """How it ended, in words and without its output: `ok`, `failed: exit code 3`, `failed:
        SIGSEGV (11)`, `dead after 5 attempts: no worker could run it`."""
        word = self.state
        if word == "dead":
            count = self.attempts
            tries = f" after {count} attempt{'' if count == 1 else 's'}" if count else ""
            why = " / ".join(filter(None, (cause_text(self.cause), self.detail)))
            return f"dead{tries}: {why}" if why else f"dead{tries}"
        if word == "failed":
            how = signal_text(self.signal) if self.signal else f"exit code {self.exit_code}"
            note = self.note
            if not note.startswith("killed"):  # then the signal was ours, and the note says why
                note = f"{how}; {note}" if note else how
            return f"failed: {note}"
        said = self.detail or self.note
        return f"{word}: {said}" if said else word

    @property
    def detail(self) -> str:
        """The grid's or the worker's words on what went wrong."""
        return self._message.detail

    @property
    def raw(self) -> bytes:
        """What the worker sent, as it came."""
        return self._message.result

    @property
    def stdout(self) -> str:
        """What the program wrote, or what a function returned as text or JSON: all of it, as text.
        Bytes that are not UTF-8 are replaced by U+FFFD; `stdout_bytes` has them.

        What is large is fetched when it is asked for. In the client's own event loop that would
        block, so `await result.aload()` comes first there.

        Raises:
            LocalError: BAD_SETUP in the client's own event loop, before `aload`.
            StateError: BLOB_MISSING, if not all of it was kept: `stdout_lost`.
            RollqError: why it cannot be fetched.
        """
        report = self._opened()
        if report is not None and report.stdout_blob is UNSET and report.stdout_size is UNSET:
            return report.stdout or ""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """What the program wrote there, or the traceback of a function. As `stdout`."""
        return self.stderr_bytes.decode(errors="replace")

    @property
    def stdout_bytes(self) -> bytes:
        """What the program wrote, byte by byte; as `stdout`."""
        return self._whole("stdout")

    @property
    def stderr_bytes(self) -> bytes:
        """The same for `stderr`."""
        return self._whole("stderr")

    @property
    def stdout_tail(self) -> str:
        """The end of `stdout` that came with the result; nothing is fetched. It is all of it, if
        `whole_stdout` has no more bytes."""
        return self.end_of("stdout").data.decode(errors="replace")

    @property
    def stderr_tail(self) -> str:
        """The same for `stderr`."""
        return self.end_of("stderr").data.decode(errors="replace")

    @property
    def stdout_lost(self) -> int:
        """How many bytes of `stdout` were not kept: it was too long, or the worker's disk full."""
        return self._lost("stdout")

    @property
    def stderr_lost(self) -> int:
        """The same for `stderr`."""
        return self._lost("stderr")

    @property
    def note(self) -> str:
        """The worker's remark: a limit that was reached, outputs left out."""
        report = self._report
        return "" if report is None or report.note is UNSET else report.note

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The small files that the program left, by path; see `outputs` for all of them.

        Raises:
            RemoteError: BAD_PAYLOAD, if the archive is broken or has a name that is refused;
                DECOMPRESSION_BOMB, if it inflates beyond measure.
        """
        report = self._report
        if report is None or not report.output_archive:
            return {}
        return unpack(report.output_archive, OUTPUT_BYTES_MAX)

    @cached_property
    def outputs(self) -> Mapping[str, Output]:
        """The files that the program left, by path: also those that the grid keeps because they
        are large, which are fetched when they are wanted. Of a result that is kept as a whole, as
        it came from a worker that knows no blobs, the only one is `result`.

        Raises:
            RemoteError: BAD_PAYLOAD or DECOMPRESSION_BOMB, as for `files`.
        """
        report, fetcher = self._report, self._fetcher
        found = {name: Output(name, content) for name, content in self.files.items()}
        if report is not None and report.whole_blob is not UNSET:
            found[WHOLE] = self._kept(WHOLE, report.whole_blob)
        if report is None or report.outputs is UNSET:
            return found
        for one in report.outputs:
            ref = BlobRef(digest_from_text(one.digest), one.size)
            mode = PLAIN if one.mode is UNSET else one.mode
            found[one.name] = Output(one.name, ref, mode=mode, fetcher=fetcher)
        checked_tree(found)
        return found

    @property
    def whole_stdout(self) -> Output:
        """All that the grid keeps of `stdout`, to be saved or read like a file."""
        return self._stream("stdout")

    @property
    def whole_stderr(self) -> Output:
        """The same for `stderr`."""
        return self._stream("stderr")

    @property
    def whole_data(self) -> Output:
        """What a function returned as bytes, to be saved or read like a file."""
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
            remark = LEFT_OUT.match(data)  # as workers up to 0.1 began the end of a long stream
            if remark is not None:
                data = data[remark.end() :]
                return StreamEnd(int(remark[1]), data, int(remark[1]) + len(data))
        return StreamEnd(0, data, len(data))

    @property
    def is_large(self) -> bool:
        """Whether `aload` has something to fetch."""
        report = self._report
        if report is not None and report.whole_blob is not UNSET:
            return True
        return any(self._blob(name) is not None for name in (*STREAMS, DATA))

    async def aload(self) -> Result:
        """Fetch what is large of the value, `stdout` and `stderr`, so that they can be read in the
        client's event loop; returns this result.

        Raises:
            RollqError: why it cannot be fetched.
        """
        await self.aload_report()
        for name in (*STREAMS, DATA):
            blob = self._blob(name)
            if blob is not None and name not in self._loaded:
                self._loaded[name] = await self._kept(name, blob).aread()
        return self

    async def aload_report(self) -> None:
        """Fetch the report alone, if the grid sent a stand-in for a large one."""
        report = self._report
        if report is not None and report.whole_blob is not UNSET:
            self._open(await self._kept(WHOLE, report.whole_blob).aread())

    def loaded(self, name: str) -> bytes | None:
        """All of `stdout`, `stderr` or `data`, if it is here; None if it is not, or if there is no
        data."""
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
        """How many bytes a function returned, if it returned bytes."""
        blob, data = self._blob(DATA), self.loaded(DATA)
        return blob.size if blob is not None else len(data or b"")

    def _opened(self) -> JobResult | None:
        """The worker's report, where the grid may have sent a stand-in for a large one."""
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
                f"{lost} bytes of {name} of job {self.id} were not kept",
                f"{name}_tail has its end, and whole_{name} what the grid keeps",
            )
        return self.end_of(name).data if blob is None else self._load(name, blob)

    def _load(self, name: str, blob: StreamBlob) -> bytes:
        if name not in self._loaded:
            self._loaded[name] = self._kept(name, blob).read()
        return self._loaded[name]

    def save_files(self, folder: str | PathLike[str]) -> list[str]:
        """Write all outputs below a folder, instead of what has their names; returns the names.

        The folder and those in it are made if they are missing. Nothing is written through a link
        that lies in the folder.

        Raises:
            RemoteError: BAD_PAYLOAD or DECOMPRESSION_BOMB, as for `files`; nothing is written then.
            LocalError: BAD_SETUP in the client's own event loop: use `asave_files` there.
            RollqError: BLOB_MISSING, DISK_FULL and so on.
            OSError: the disk's own reasons; a folder has the name of a file, or a link that of a
                folder.
        """
        return save_outputs(list(self.outputs.values()), Path(folder))

    async def asave_files(
        self,
        folder: str | PathLike[str],
        names: Collection[str] | None = None,
        progress: BytesMoved | None = None,
    ) -> list[str]:
        """The same without blocking the loop; only some of them if names are given."""
        outputs = self.outputs
        wanted = list(outputs if names is None else names)
        lacking = [name for name in wanted if name not in outputs]
        if lacking:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"job {self.id} left no file {lacking[0]!r}",
                f"it left: {', '.join(outputs)[:500]}" if outputs else "it left none",
            )
        return await asave_outputs([outputs[name] for name in wanted], Path(folder), progress)

    @property
    def value(self) -> bytes | str:
        """What a function returned, whole: bytes as they are, anything else as text (see `json`).
        For a program its stdout, as text if it is UTF-8, else as bytes; for a worker that sends no
        report, what it sent. Large ones are fetched, as `stdout` is, and may raise the same."""
        report = self._opened()
        if report is None:
            return self.raw
        if report.data is not UNSET:
            return report.data
        if report.data_blob is not UNSET:
            return self._load(DATA, report.data_blob)
        whole = self._whole("stdout")
        try:
            return whole.decode()
        except UnicodeDecodeError:
            return whole

    def json(self) -> Any:
        """The value of a function that returned something other than text or bytes.

        Raises:
            RemoteError: BAD_PAYLOAD, if it is not JSON.
            RollqError: as for `value`.
        """
        value = self.value
        if not value:
            return None
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"the value is not JSON: {error}") from None

    def raise_for_status(self) -> Result:
        """This result if it is ok.

        Raises:
            JobError: JOB_FAILED, JOB_DEAD or CANCELLED, with the last words of the program.
        """
        if self.ok:
            return self
        what = f"{self.exec_name or 'job'} {self.id}"
        if self._message.outcome == CANCELLED:
            raise JobError(ErrorCode.CANCELLED, f"{what} was cancelled", "", self)
        last_words = (self.stderr_tail or self.detail).strip().rpartition("\n")[2][:500]
        if self._message.outcome == DONE:
            how = f"exit code {self.exit_code}"
            if self.signal:
                how = signal_text(self.signal)
            why = " / ".join(text for text in (self.note, last_words) if text)
            raise JobError(ErrorCode.JOB_FAILED, f"{what} failed with {how}", why, self)
        why = f"{what} is {self.ending}"
        hint = last_words or "look at the dead jobs, and redrive it when the cause is gone"
        raise JobError(ErrorCode.JOB_DEAD, why, hint, self)

    @cached_property
    def _report(self) -> JobResult | None:
        """The worker's report, if what it sent is one."""
        try:
            return decode_if_marked(self._message.result, JobResult, "Status")
        except RemoteError:
            return None

    def __repr__(self) -> str:
        return f"<Result {self.id} {self.state} exit_code={self.exit_code}>"


def result_message(view: JobView) -> wire.Result:
    """The message that would have told the end of a job."""
    end = view.end
    assert end is not None
    return wire.Result(
        view.job_id,
        view.state,
        end.status,
        end.result,
        view.exec_name,
        end.exit_code,
        end.signal,
        end.run_ms,
        view.attempt,
        end.cause,
        end.detail,
        view.client_id,
        job_key=view.key,
    )
