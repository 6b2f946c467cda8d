"""Rows of a DataFrame as redrives of dead jobs: `.option("op", "redrive")`.

Rows of the table `dlq` may be written back as they are: only the columns `job_id`, `body` and
`args` are used, the others allow filtering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.client.jobs.parts import Redrive
from rollq.roles.client.jobs.specs import as_id
from rollq.spark.schemas import TABLES
from rollq.wire.models import JobRequest, decode_if_marked, encode_model

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPES: Final = {"job_id": "string", "body": "binary", "args": "array<string>"}
REQUEST_MARK: Final = "ExecName"


def check_redrive_columns(schema: StructType) -> None:
    """Check that rows with this schema can be redrives.

    Raises:
        LocalError: BAD_OPTIONS; it names the column.
    """
    known = [column.name for column in TABLES["dlq"]]
    for field in schema.fields:
        wanted = TYPES.get(field.name)
        given = field.dataType.simpleString()
        if field.name not in known:
            raise _bad(f"the table dlq has no column {field.name!r}", f"use {', '.join(TYPES)}")
        if wanted is not None and given != wanted:
            raise _bad(f"column {field.name} is {given}", f"it must be {wanted}: use cast()")
    names = schema.fieldNames()
    if "job_id" not in names:
        raise _bad("no column says which job", "add job_id, as the table dlq has it")
    if "args" in names and "body" not in names:
        raise _bad(
            "other arguments need the body that they are put into",
            "keep the column body of the table dlq, or drop args",
        )


class Redrives:
    """Converts the rows of one task to redrives.

    Args:
        partition: The task's partition, for errors.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._count = 0

    def jobs(self, batches: Iterator[Any]) -> Iterator[Redrive]:
        """The redrives of Arrow batches, in order.

        Raises:
            LocalError: BAD_OPTIONS; it names row and column.
        """
        for batch in batches:
            names = batch.schema.names
            nothing: list[Any] = [None] * batch.num_rows
            columns = [
                batch.column(name).to_pylist() if name in names else nothing for name in TYPES
            ]
            for job_id, body, args in zip(*columns, strict=True):
                self._count += 1
                yield Redrive(self._id(job_id), self._body(body, args))

    def _id(self, job_id: str | None) -> bytes:
        try:
            return as_id(job_id or "")
        except RollqError:
            raise self._row_error("job_id", job_id, "give the id of a dead job") from None

    def _body(self, body: bytes | None, args: Sequence[str | None] | None) -> bytes | None:
        """The new body of a job; None: unchanged."""
        if args is None:
            return body
        if None in args:
            raise self._row_error("args", args, "an argument is NULL")
        try:
            request = decode_if_marked(body or b"", JobRequest, REQUEST_MARK)
        except RollqError:
            request = None
        if body is None or request is None:
            hint = "this job has a payload and no arguments: set args to NULL, and change the body"
            raise self._row_error("args", args, hint)
        made = body
        if tuple(args) != tuple(request.args or ()):
            made = encode_model(structs.replace(request, args=tuple(args)))
        if len(made) > INLINE_BYTES_MAX:
            raise self._row_error("args", args, f"at most {INLINE_BYTES_MAX} bytes fit")
        return made

    def _row_error(self, column: str, value: Any, hint: str) -> LocalError:
        shown = "NULL" if value is None else repr(value)[:80]
        place = f"row {self._count} of partition {self._partition}"
        return _bad(f"{place}: column {column} is {shown}", hint)


def _bad(message: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, message, hint)
