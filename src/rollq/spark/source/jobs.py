"""Rows of a DataFrame as jobs: the allowed columns and their values.

Types are checked when a write is planned, values in the tasks, before a row is sent. An error names
row and column; nothing of the whole write is submitted then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from rollq.base.digests import digest_from_text
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.jobs import BlobRef
from rollq.base.limits import INLINE_BYTES_MAX, JOB_KEY_BYTES_MAX, STAGE_CHUNK_JOBS
from rollq.base.names import EXEC_NAME_HINT, is_exec_name
from rollq.roles.client.jobs.alike import AlikeJobs
from rollq.roles.client.jobs.options import BadOptionError, Options, job_options
from rollq.roles.client.jobs.specs import JobSpec, as_id, check_names, inline_bytes
from rollq.subjects.queues import queue_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

T = TypeVar("T")

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_SECONDS: Final = (*_WHOLE, "float", "double")
_BLOB: Final = "struct<digest:string,size:bigint>"
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "exec": ("string",),
    "args": ("array<string>", "string"),
    "files": ("map<string,binary>", f"map<string,{_BLOB}>"),
    "payload": ("binary", "string"),
    "outputs": ("array<string>",),
    "job_key": ("string",),
    "job_id": ("string",),
    "queue": ("string",),
    "subject": ("string",),
    "priority": _WHOLE,
    "not_before": ("timestamp",),
    "delay": _SECONDS,
    "max_attempts": _WHOLE,
    "lease": _SECONDS,
    "run_limit": _SECONDS,
    "run_limit_soft": _SECONDS,
    "expire": _SECONDS,
    "result_ttl": _SECONDS,
    "retry_base": _SECONDS,
    "retry_exit_codes": ("array<int>",),
    "worker": ("string",),
}
# The columns that are options of a job.
OPTIONS: Final = tuple(COLUMNS)[tuple(COLUMNS).index("queue") :]
EXCLUDING: Final = (
    *(("queue", "subject"), ("delay", "not_before")),
    *(("payload", other) for other in ("args", "files", "outputs")),
)
# Columns that allow rows to be sent in columnar form: no files, no explicit ids.
SIMPLE: Final = frozenset(("exec", "args", "job_key", *OPTIONS))
EXEC_HINT: Final = f"name a program or function; {EXEC_NAME_HINT}"
PAGE_ROWS: Final = 1_000
OPTIONS_CACHE_MAX: Final = 1_000  # cached combinations of options, as each row may have its own
LONG_TEXT: Final = 4096  # shorter arguments need no exact size check


def check_columns(schema: StructType, defaults: Mapping[str, Any]) -> None:
    """Check that rows with this schema can be jobs.

    Raises:
        LocalError: BAD_OPTIONS; it names the column.
    """
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise _bad(f"a job has no column {field.name!r}", f"there are {', '.join(COLUMNS)}")
        given = field.dataType.simpleString()
        if given not in allowed:
            raise _bad(
                f"column {field.name} is {given}", f"it must be {' or '.join(allowed)}: use cast()"
            )
    names = {*schema.fieldNames(), *defaults}
    if "exec" not in names:
        raise _bad("no column says what to run", "add a column exec, or .option('exec', …)")
    for one, other in EXCLUDING:
        if {one, other} <= names:
            raise _bad(f"columns {one} and {other} exclude each other", "drop one of them")


class Rows:
    """Converts the rows of one task to jobs.

    Args:
        defaults: Values for all rows that do not set them.
        partition: The task's partition, for errors.
    """

    def __init__(self, defaults: Mapping[str, Any], partition: int) -> None:
        self._defaults = dict(defaults)
        self._partition = partition
        self._count = 0
        self._known: dict[tuple[Any, ...], Options] = {}  # shared by rows with equal options

    def pages(self, batches: Iterable[Any]) -> Iterator[AlikeJobs | list[JobSpec]]:
        """The jobs of Arrow batches, in order, by page; as columns where all rows of a page are
        alike.

        Raises:
            LocalError: BAD_OPTIONS; it names row and column.
        """
        for batch in batches:
            given = self._checked(batch)
            if SIMPLE.issuperset(given):
                yield from self._alike(given, batch.num_rows)
            else:
                options = self._options(given, batch.num_rows)
                yield from paged(self._specs(given, batch.num_rows, options))
            self._count += batch.num_rows

    def _checked(self, batch: Any) -> dict[str, list[Any]]:
        given = {}
        for name in batch.schema.names:
            column = batch.column(name)
            values = given[name] = column.to_pylist()
            check = CHECKS.get(name)
            if check is not None and not is_surely_fine(name, column):
                self._check(name, values, check)
        return given

    def _alike(
        self, given: Mapping[str, list[Any]], count: int
    ) -> Iterator[AlikeJobs | list[JobSpec]]:
        """Page by page: columnar if all rows of it have the same program and options."""
        options = list(self._options(given, count))
        execs = given.get("exec") or [None] * count
        args = _lists(given.get("args") or [()] * count)
        keys = given.get("job_key") or []
        for at in range(0, count, STAGE_CHUNK_JOBS):
            page = slice(at, min(at + STAGE_CHUNK_JOBS, count))
            exec_names = set(execs[page])
            is_alike = len(exec_names) == 1 and len(set(map(id, options[page]))) == 1
            exec_name = exec_names.pop() or self._defaults.get("exec")
            named = keys[page]
            if is_alike and exec_name and all(named):
                yield AlikeJobs(exec_name, options[at], args[page], named)
            else:
                part = {name: values[page] for name, values in given.items()}
                yield list(self._specs(part, page.stop - at, options[page], at))

    def _specs(
        self,
        given: Mapping[str, list[Any]],
        count: int,
        options_of: Iterable[Options],
        first: int = 0,
    ) -> Iterator[JobSpec]:
        """Row by row. `first` is the position of the first row in its batch."""

        def column(name: str, default: Any = None) -> Any:
            values = given.get(name)
            default = self._defaults.get(name, default)
            if values is None:
                return repeat(default, count)
            return values if default is None else [default if v is None else v for v in values]

        rows = zip(
            *(column(name) for name in ("exec", "args", "files", "payload", "outputs")),
            *(column("job_key", ""), column("job_id"), options_of),
            strict=True,
        )
        for number, (exec_name, args, files, payload, outputs, key, job_id, options) in enumerate(
            rows, first
        ):
            if exec_name is None:
                raise self._row_error(number, "exec", exec_name, EXEC_HINT)
            yield JobSpec(
                exec_name,
                (args,) if isinstance(args, str) else args or (),
                _files(files) if files else {},
                payload.encode() if isinstance(payload, str) else payload,
                job_id,
                options,
                outputs or (),
                key or "",
            )

    def _check(self, name: str, values: Sequence[Any], check: Callable[[Any], str]) -> None:
        for number, value in enumerate(values):
            if value is not None and (hint := check(value)):
                raise self._row_error(number, name, value, hint)

    def _options(self, given: Mapping[str, Sequence[Any]], count: int) -> Iterator[Options]:
        """The options of each row; the same object for equal options."""
        names = [name for name in OPTIONS if name in given]
        if not names:
            return repeat(self._options_for((), ()), count)
        rows = zip(*(map(_hashable, given[name]) for name in names), strict=True)
        return (self._options_for(names, values, number) for number, values in enumerate(rows))

    def _options_for(
        self, names: Sequence[str], values: tuple[Any, ...], number: int = 0
    ) -> Options:
        options = self._known.get(values)
        if options is None:
            asked = dict(self._defaults) | {
                name: value for name, value in zip(names, values, strict=True) if value is not None
            }
            options = _as_options({name: asked[name] for name in OPTIONS if name in asked})
            try:
                job_options(options)
            except LocalError as error:
                column = error.option if isinstance(error, BadOptionError) else ""
                if column not in asked:
                    column = "not_before"  # which became a delay
                raise self._row_error(number, column, asked.get(column), error.hint) from None
            if "not_before" not in names:  # its delay depends on the current time
                if len(self._known) >= OPTIONS_CACHE_MAX:
                    self._known.clear()
                self._known[values] = options
        return options

    def _row_error(self, number: int, column: str, value: Any, hint: str) -> LocalError:
        row = self._count + number + 1
        shown = "NULL" if value is None else repr(value)[:80]
        return _bad(f"row {row} of partition {self._partition}: column {column} is {shown}", hint)


def paged(rows: Iterable[T]) -> Iterator[list[T]]:
    """Rows in pages."""
    left = iter(rows)
    while page := list(islice(left, PAGE_ROWS)):
        yield page


def is_surely_fine(name: str, column: Any) -> bool:
    """Whether all values are valid, as far as a vectorised check can tell; otherwise each value is
    checked."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return True
    if name == "job_key":
        return bool(
            (pc.max(pc.binary_length(column)).as_py() or 0) <= JOB_KEY_BYTES_MAX
            and not pc.any(pc.match_substring(column, "\0")).as_py()
        )
    if name == "args" and pa.types.is_list(column.type):
        texts = column.flatten()
        longest = pc.max(pc.binary_length(texts)).as_py() or 0
        most = pc.max(pc.list_value_length(column)).as_py() or 0
        return texts.null_count == 0 and longest * most <= LONG_TEXT
    if name == "exec":
        return all(map(is_exec_name, column.drop_null().unique().to_pylist()))
    return False


def _lists(args: list[Any]) -> list[Sequence[str]]:
    """Arguments of rows, each of which may be a text, a list of texts or NULL."""
    if isinstance(next((one for one in args if one is not None), None), str):
        return [() if one is None else (one,) for one in args]
    return [one or () for one in args]


def _as_options(asked: dict[str, Any]) -> Options:
    options = Options()
    subject = asked.pop("subject", None)
    if subject is not None:
        options["queue"] = queue_of(subject)
    not_before = asked.pop("not_before", None)
    if not_before is not None:
        left_s = (not_before.astimezone(UTC) - datetime.now(UTC)).total_seconds()
        options["delay"] = max(left_s, 0.0)
    options.update(cast("Options", asked))
    return options


def _files(files: Sequence[tuple[str, Any]] | Mapping[str, Any]) -> dict[str, Any]:
    """A map as returned by Arrow, with references to blobs in their own type."""
    return {
        name: content
        if isinstance(content, bytes)
        else BlobRef(digest_from_text(content["digest"]), content["size"])
        for name, content in dict(files).items()
    }


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# --- checks of values: return a hint if the value is not valid


def _check_args(value: Any) -> str:
    texts = (value,) if isinstance(value, str) else value
    if None in texts:
        return "an argument is NULL: use coalesce() or filter()"
    if sum(map(len, texts)) > LONG_TEXT and inline_bytes(JobSpec("", texts), ()) > INLINE_BYTES_MAX:
        return f"all arguments of a job take at most {INLINE_BYTES_MAX} bytes: use files"
    return ""


def _check_payload(value: Any) -> str:
    size = len(value.encode() if isinstance(value, str) else value)
    return "" if size <= INLINE_BYTES_MAX else f"at most {INLINE_BYTES_MAX} bytes: use files"


def _check_files(value: Any) -> str:
    for name, content in dict(value).items():
        if content is None:
            return f"file {name!r} is NULL"
        if not isinstance(content, bytes):
            try:
                digest_from_text(content["digest"] or "")
            except RollqError as error:
                return f"file {name!r}: {error.message}"
            if content["size"] is None or content["size"] < 0:
                return f"file {name!r} needs its size beside the digest"
    return _what_fails(check_names, dict(value))


def _check_exec(value: str) -> str:
    return "" if is_exec_name(value) else EXEC_HINT


def _check_texts(value: Any) -> str:
    return "an element is NULL: use filter()" if None in value else ""


def _check_key(value: str) -> str:
    is_bad = "\0" in value or len(value.encode()) > JOB_KEY_BYTES_MAX
    return f"use up to {JOB_KEY_BYTES_MAX} bytes, none of them 0" if is_bad else ""


def _check_id(value: str) -> str:
    return _what_fails(as_id, value)


def _check_queue(value: str) -> str:
    return _what_fails(queue_of, value)


def _what_fails(parse: Callable[[Any], object], value: Any) -> str:
    try:
        parse(value)
    except RollqError as error:
        return error.message
    return ""


def _check_attempts(value: int) -> str:
    return "" if value > 0 else "use 1 or more, or NULL for the cluster's setting"


# `job_options` checks the other options.
CHECKS: Final[dict[str, Callable[[Any], str]]] = {
    "exec": _check_exec,
    "args": _check_args,
    "files": _check_files,
    "payload": _check_payload,
    "outputs": _check_texts,
    "retry_exit_codes": _check_texts,
    "job_key": _check_key,
    "job_id": _check_id,
    "queue": _check_queue,
    "subject": _check_queue,
    "max_attempts": _check_attempts,
}


def _bad(message: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, message, hint)
