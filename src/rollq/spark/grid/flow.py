"""The rows of one `grid_map` task: rows to jobs, results to rows. Arrow, no network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from rollq.base.ids import GUID_BYTES, JobId, job_id_of_key
from rollq.base.limits import JOB_KEY_BYTES_MAX
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import Input, JobSpec
from rollq.roles.client.many.keyed import Ended
from rollq.spark.grid.columns import STREAM_LIMIT, InputRow, batch_of, pieces

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 1_024  # rows per output batch
LINGER_S: Final = 0.5  # the longest time that an ended row waits for a full batch


@dataclass(frozen=True)
class Layout:
    """The positions of job columns in an input row: after the columns of the input come the
    arguments, then, if present, the key, the payload and file contents."""

    column_count: int
    has_key: bool = False
    has_payload: bool = False
    file_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapPlan:
    """The parameters of a `grid_map` call. Pickled and sent to executors.

    Attributes:
        call_id: Identifies the call, so that a retried task finds its jobs.
        client_id: The namespace of the keys; empty without keys.
        files: Input files that are the same for all rows.
        rerun: Statuses of known results that cause the job to run again.
        prefix: Of the names of the added columns.
    """

    servers: str
    exec_name: str
    call_id: str
    client_id: str
    layout: Layout
    files: Mapping[str, Input]
    outputs: tuple[str, ...]
    options: Options
    rerun: frozenset[str]
    prefix: str
    window: int
    timeout_s: float
    stream_limit: int = STREAM_LIMIT  # the most bytes of stdout, and of stderr, returned whole
    credentials: str = ""  # a directory on every executor


@dataclass(slots=True)
class Flow:
    """The rows of one task: open ones, and ended ones that are not returned yet."""

    plan: MapPlan
    client_id: str
    clock: Callable[[], float] = time.time
    open_count: int = 0
    _row_count: int = 0
    _open: dict[JobId, tuple[JobSpec, list[InputRow]]] = field(default_factory=dict)
    _ended: list[InputRow] = field(default_factory=list)

    def specs(self, batch: pa.RecordBatch, first: int, count: int) -> list[JobSpec]:
        """Create the jobs of some rows; those that are open for other rows already are left out."""
        plan, now = self.plan, self.clock()
        layout = plan.layout
        columns = batch.columns[layout.column_count :]
        values = [column.slice(first, count).to_pylist() for column in columns]
        keys = values[1] if layout.has_key else None
        payloads = values[1 + layout.has_key] if layout.has_payload else None
        contents = values[1 + layout.has_key + layout.has_payload :]
        new: list[JobSpec] = []
        for index, args in enumerate(values[0]):
            self._row_count += 1
            payload = None if payloads is None else payloads[index]
            files = dict(zip(layout.file_names, (one[index] for one in contents), strict=True))
            key = None if keys is None else keys[index]
            error = self._fault(args, key, payload, files)
            row = InputRow(batch, first + index, now, plan.stream_limit)
            if error:
                self._end(row, error=error)
                continue
            spec = JobSpec(
                plan.exec_name,
                args if payloads is None else (),
                {**plan.files, **files} if files or plan.files else {},
                payload,
                self._job_id(key, args, payload, files),
                plan.options,
                plan.outputs,
                key or "",
            )
            if self._enter(spec, [row]):
                new.append(spec)
        return new

    def settle(self, ended: Sequence[Ended]) -> list[JobSpec]:
        """Process results. Returns jobs that must run again under another id, because their result
        is from an earlier run."""
        again: list[JobSpec] = []
        for one in ended:
            spec, rows = self._open.pop(one.job_id)
            self.open_count -= len(rows)
            result = one.result
            if one.is_known and result is not None and result.status in self.plan.rerun:
                spec = structs.replace(spec, job_id=_next_id(one.job_id))
                if self._enter(spec, rows):
                    again.append(spec)
            else:
                for row in rows:
                    self._end(row, one)
        return again

    @property
    def linger_s(self) -> float | None:
        """How long ended rows wait for a full batch; None if there are none."""
        return LINGER_S if self._ended else None

    def batches(self, *, all_of_them: bool = False) -> Iterator[pa.RecordBatch]:
        """Output batches, when there are enough rows or the oldest has waited long enough."""
        ended = self._ended
        if not ended:
            return
        has_waited = self.clock() - ended[0].ended_at >= LINGER_S
        if all_of_them or has_waited or len(ended) >= BATCH_ROWS:
            self._ended = []
            by_batch: dict[int, list[InputRow]] = {}
            for row in ended:
                by_batch.setdefault(id(row.batch), []).append(row)
            for rows in by_batch.values():
                for piece in pieces(rows):
                    yield batch_of(piece, self.plan.layout.column_count, self.plan.prefix)

    # --- helpers

    def _fault(
        self, args: Any, key: str | None, payload: Any, files: Mapping[str, bytes | None]
    ) -> str:
        """Why a row is not valid; empty if it is."""
        layout = self.plan.layout
        if layout.has_key:
            if not key:
                return "job_key is NULL or empty"
            if len(key.encode()) > JOB_KEY_BYTES_MAX:
                return f"job_key is longer than {JOB_KEY_BYTES_MAX} bytes: {key[:64]!r}"
        if layout.has_payload:
            return "the payload is NULL" if payload is None else ""
        if args is None:
            return "the arguments are NULL"
        if None in args:
            return f"argument {args.index(None) + 1} is NULL"
        lacking = next((name for name, content in files.items() if content is None), None)
        return "" if lacking is None else f"the file {lacking!r} is NULL"

    def _job_id(self, key: str | None, args: Any, payload: Any, files: Mapping[str, Any]) -> JobId:
        if key is not None:
            return job_id_of_key(self.client_id, key)
        # The id covers the content of the row: if a retried task gets its rows in another order, it
        # runs jobs again rather than taking the result of another row.
        digest = blake2b(f"{self.client_id}\0{self._row_count}".encode(), digest_size=GUID_BYTES)
        for part in (*(args or ()), payload or b"", *files.values()):
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "big"))
            digest.update(data)
        return digest.digest()

    def _enter(self, spec: JobSpec, rows: list[InputRow]) -> bool:
        """Register open rows; returns whether the job is new."""
        assert isinstance(spec.job_id, bytes)
        known = self._open.get(spec.job_id)
        if known is None:
            self._open[spec.job_id] = (spec, rows)
        elif known[0] == spec:
            known[1].extend(rows)
        else:
            for row in rows:
                self._end(row, error="another row has this job_key, and not the same arguments")
            return False
        self.open_count += len(rows)
        return known is None

    def _end(self, row: InputRow, ended: Ended | None = None, error: str = "") -> None:
        row.ended, row.error, row.ended_at = ended, error, self.clock()
        self._ended.append(row)


def _next_id(job_id: JobId) -> JobId:
    """The id of the job that runs again after a result under this id."""
    return blake2b(job_id, digest_size=GUID_BYTES).digest()
