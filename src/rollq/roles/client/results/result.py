"""The result of a job, decoded on first use."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import UNSET

from rollq.base.digests import digest_from_text
from rollq.base.errors import ErrorCode, Fault, RollqError, StateError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.jobs import BlobRef, Status
from rollq.base.limits import OUTPUT_BYTES_MAX
from rollq.base.names import checked_tree
from rollq.base.outcomes import canceller_text, exit_code_of, signal_text, state_word
from rollq.grid.views import RawJobView
from rollq.roles.client.jobs.supply import BytesMoved
from rollq.roles.client.results.contents import WHOLE, Contents
from rollq.roles.client.results.outputs import PLAIN, Output, asave_outputs, save_outputs
from rollq.roles.client.results.views import cause_text, cause_word
from rollq.store.archive import unpack
from rollq.wire import messages as wire
from rollq.wire.models import STATUS_FAILED, STATUS_OK

DONE = "done"
OK = int(Status.OK)
CANCELLED = "cancelled"
HTML_CHARS_MAX = 2_000  # of stdout, in a notebook


class JobError(RollqError):
    """A job that is not ok; `result` is its result."""

    fault = Fault.STATE

    def __init__(self, code: ErrorCode, message: str, hint: str, result: Result) -> None:
        super().__init__(code, message, hint)
        self.result = result


class Result(Contents):
    """The result of a job.

    `ok` means exit code 0, or a function that returned. `status` is OK, FAILED (it ran and failed),
    DEAD (all attempts were lost) or CANCELLED.
    """

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
        """The job's key; empty if it has none."""
        return self._message.job_key

    @property
    def exec_name(self) -> str:
        """The program or function."""
        return self._message.exec_name

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
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
        """The exit code of the last attempt; 128 + n if signal n killed the program. None if no
        program ran to its end."""
        message = self._message
        return exit_code_of(message.outcome, message.exit_code, message.signal, message.run_ms)

    @property
    def signal(self) -> int:
        """The signal that killed the program; 0 if none did."""
        return self._message.signal

    @property
    def run_ms(self) -> int:
        """The run time of the last attempt, in milliseconds."""
        return self._message.run_ms

    @property
    def attempts(self) -> int:
        """The number of the last attempt, counting every assignment to a worker, also one that the
        worker returned unstarted. A redrive continues the count."""
        return self._message.attempt

    @property
    def worker(self) -> str:
        """The worker of the last attempt: its name, or its id; empty if no worker had it or it is
        unknown."""
        return self._message.worker

    @property
    def cause(self) -> str:
        """Why it is dead, as one word; empty if it is not."""
        return cause_word(self._message.cause)

    @property
    def ending(self) -> str:
        """How it ended, as a phrase: `ok`, `failed: exit code 3`, `failed: SIGSEGV (11)`, `dead
        after 5 attempts: no worker could run it`."""
        word = self.state
        if word == "dead":
            count = self.attempts
            tries = f" after {count} attempt{'' if count == 1 else 's'}" if count else ""
            why = " / ".join(filter(None, (cause_text(self.cause), self.detail)))
            return f"dead{tries}: {why}" if why else f"dead{tries}"
        if word == "failed":
            how = signal_text(self.signal) if self.signal else f"exit code {self.exit_code}"
            note = self.note
            if not note.startswith("killed"):  # else the note explains the signal
                note = f"{how}; {note}" if note else how
            return f"failed: {note}"
        if word == CANCELLED and self.detail and not self.cause and self.exit_code is None:
            return f"cancelled by {canceller_text(self.detail)}"  # before it started
        remark = self.detail or self.note
        return f"{word}: {remark}" if remark else word

    @property
    def detail(self) -> str:
        """The error message of the grid or the worker."""
        return self._message.detail

    @property
    def note(self) -> str:
        """A remark of the worker, such as an exceeded limit or omitted outputs."""
        report = self._report
        return "" if report is None or report.note is UNSET else report.note

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The small output files, by path; `outputs` has all of them.

        Raises:
            RemoteError: BAD_PAYLOAD, if the archive is corrupt or has an invalid name;
                DECOMPRESSION_BOMB, if it inflates beyond the limit.
        """
        report = self._report
        if report is None or not report.output_archive:
            return {}
        return unpack(report.output_archive, OUTPUT_BYTES_MAX)

    @cached_property
    def outputs(self) -> Mapping[str, Output]:
        """The output files, by path. Large ones are kept by the grid and downloaded on demand. A
        result that is stored as a whole, from a worker that does not support blobs, has only
        `result`.

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

    def save_files(self, folder: str | PathLike[str]) -> list[str]:
        """Save all outputs below a folder, replacing existing files; returns their names.

        Missing folders are created. Symbolic links in the folder are not followed.

        Raises:
            RemoteError: BAD_PAYLOAD or DECOMPRESSION_BOMB, as for `files`; nothing is written then.
            LocalError: BAD_SETUP in the client's own event loop: use `asave_files` there.
            RollqError: BLOB_MISSING, DISK_FULL and so on.
            OSError: an error of the file system, such as a folder or a symbolic link in the place
                of a file.
        """
        return save_outputs(list(self.outputs.values()), Path(folder))

    async def asave_files(
        self,
        folder: str | PathLike[str],
        names: Collection[str] | None = None,
        progress: BytesMoved | None = None,
    ) -> list[str]:
        """The same without blocking the loop; only these names, if they are given."""
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

    def raise_for_status(self) -> Result:
        """Return this result if it is ok.

        Raises:
            JobError: JOB_FAILED, JOB_DEAD or CANCELLED, with the last line of stderr.
        """
        if self.ok:
            return self
        what = f"{self.exec_name or 'job'} {self.id}"
        if self._message.outcome == CANCELLED:
            raise JobError(ErrorCode.CANCELLED, f"{what} was cancelled", self.detail, self)
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

    def get(self) -> Any:
        """Return the value (`value`).

        Raises:
            Exception: the exception of the function, if it was called with Python values.
            JobError: it failed otherwise.
            RollqError: as for `value`.
        """
        if not self.ok and (error := self.error) is not None:
            raise error
        return self.raise_for_status().value

    def _repr_html_(self) -> str:
        shown = self.stdout_tail[:HTML_CHARS_MAX]
        more = f"<pre>{html.escape(shown)}</pre>" if shown else ""
        return html_row("Result", self.id, self.ending) + more

    def __repr__(self) -> str:
        return f"<Result {self.id} {self.state} exit_code={self.exit_code}>"


def html_row(kind: str, ident: str, state: str) -> str:
    """The HTML form of a job, a batch or a result, for notebooks."""
    return f"<b>{kind}</b> <code>{ident}</code> {html.escape(state)}"


def result_message(view: RawJobView) -> wire.Result:
    """The result message of a job that ended, rebuilt from its view."""
    end = view.end
    assert end is not None
    return wire.Result(
        job_id=view.job_id,
        outcome=view.state,
        status=end.status,
        result=end.result,
        exec_name=view.exec_name,
        exit_code=end.exit_code,
        signal=end.signal,
        run_ms=end.run_ms,
        attempt=view.attempt,
        cause=end.cause,
        detail=end.detail,
        client_id=view.client_id,
        job_key=view.key,
    )
