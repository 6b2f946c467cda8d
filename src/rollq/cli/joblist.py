"""Reads many jobs from a file: JSON lines or CSV, one job per line."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.amounts import counted
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import NIL_ID
from rollq.base.limits import INLINE_BYTES_MAX, STAGED_BYTES_MAX, STAGED_JOBS_MAX
from rollq.roles.client.jobs.options import FIELDS, Options, job_options
from rollq.roles.client.jobs.specs import JobSpec, body_of, id_for

FORMS = (".jsonl", ".ndjson", ".csv")
EACH = "give every line a key, or none"
NO_EXEC = "without EXEC the first column is the program: rollq submit EXEC --from-file FILE"
NUMBER: Final = re.compile(r"[+-]?[0-9]+([.][0-9]+)?")
PROBLEMS_SHOWN: Final = 20
LINE: Final = "write a JSON object or a list"
ARGUMENT: Final = 'write each argument as a text or a number, as in ["true", 2]'
# What to write where a line cannot be read, by what its error has in it.
HINTS: Final = {
    "unknown field": "use exec, args, files, options and key",
    "`$.files": 'write names and paths: "files": {"in.csv": "data/in.csv"}',
    "`$.options": 'write names and values: "options": {"priority": 5}',
    "`$.args`": 'write a list: "args": ["1", 2]',
    "`$.args[": ARGUMENT,
    "`$[": ARGUMENT,
    "`$.": "write a text in quotes",  # exec, key
}
BYTE: Final = re.compile(r" \(byte (\d+)\)")


class JobLine(msgspec.Struct, forbid_unknown_fields=True):
    """One job in a file of JSON lines. Option names are those of the client."""

    exec: str = ""
    args: list[str | int | float] = []
    files: dict[str, str] = {}  # name in the job's directory: local path
    options: dict[str, Any] = {}
    key: str = ""  # every line has one, or none has


class MisreadError(Exception):
    """An invalid row. `column` is its place in the line, from 1; 0: the whole line."""

    def __init__(self, what: str, hint: str = "correct it", column: int = 0) -> None:
        super().__init__(what)
        self.hint = hint
        self.column = column


Row: TypeAlias = "tuple[int, JobSpec | MisreadError]"  # with its line number
Read: TypeAlias = "tuple[int, JobLine | MisreadError]"


@dataclass(slots=True)
class Checked:
    """The outcome of checking a file."""

    count: int = 0
    has_keys: bool = False
    problems: list[str] = field(default_factory=list)  # the first PROBLEMS_SHOWN
    problem_count: int = 0


def check_jobs(path: Path, exec_name: str, options: Options, *, header: bool) -> Checked:
    """Read a whole file and check it, so that nothing is submitted if it has an error.

    Raises:
        LocalError: BAD_OPTIONS, naming the first problems by line and column, and their number;
            or the file exceeds the limits of a batch.
    """
    checked, size = Checked(), 0
    for number, row in _rows(path, exec_name, options, header=header):
        problem = row
        if isinstance(row, JobSpec):
            try:
                size += _size(row)
            except RollqError as error:
                problem = MisreadError(error.message, error.hint)
            else:
                checked.count += 1
                checked.has_keys = bool(row.key)
                continue
        assert isinstance(problem, MisreadError)
        checked.problem_count += 1
        if len(checked.problems) < PROBLEMS_SHOWN:
            checked.problems.append(_told(number, problem))
    if checked.problem_count:
        raise _refused(path, checked)
    if not checked.count:
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{path} has no jobs", "write one per line")
    if checked.count > STAGED_JOBS_MAX or size > STAGED_BYTES_MAX:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{path} has {checked.count} jobs of {size} bytes; a batch holds at most "
            f"{STAGED_JOBS_MAX} jobs and {STAGED_BYTES_MAX} bytes",
            "split the file",
        )
    return checked


def read_jobs(
    path: Path, exec_name: str, options: Options, *, header: bool
) -> Iterator[tuple[int, JobSpec]]:
    """Generate the jobs of a file lazily, each with its line number.

    Args:
        path: `.jsonl` (objects, or lists of arguments), or `.csv` (a row of arguments per job).
        exec_name: The program; empty: each line names its own (CSV: in its first column).
        options: Common options; those of a line take precedence.
        header: Whether to skip the first row of a CSV file.

    Raises:
        LocalError: BAD_OPTIONS, naming the line.
    """
    for number, row in _rows(path, exec_name, options, header=header):
        if isinstance(row, MisreadError):
            raise LocalError(ErrorCode.BAD_OPTIONS, f"{path}, {_told(number, row)}")
        yield number, row


def _size(spec: JobSpec) -> int:
    """The size of a job without its files, which are read later.

    Raises:
        RollqError: the job is invalid.
    """
    id_for(spec, "")
    job_options(spec.options)
    return 0 if spec.files else len(body_of(spec, NIL_ID, "", INLINE_BYTES_MAX))


def _refused(path: Path, checked: Checked) -> LocalError:
    hidden = checked.problem_count - len(checked.problems)
    shown = checked.problems + ([f"and {hidden} more"] if hidden else [])
    count = checked.problem_count
    what = f"{path}: {counted(count, 'invalid line')}"
    lines = "\n  ".join(shown)
    return LocalError(
        ErrorCode.BAD_OPTIONS, f"{what}\n  {lines}", "correct the file; no job was accepted"
    )


def _told(number: int, problem: MisreadError) -> str:
    place = f", column {problem.column}" if problem.column else ""
    return f"line {number}{place}: {problem} ({problem.hint})"


def _rows(path: Path, exec_name: str, options: Options, *, header: bool) -> Iterator[Row]:
    """Generate every row of a file, as a job or an error.

    Raises:
        LocalError: BAD_OPTIONS, if the file cannot be read.
    """
    if path.suffix not in FORMS:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{path}: unknown file type",
            f"use the suffix {' or '.join(FORMS)}",
        )
    read = _csv if path.suffix == ".csv" else _jsonl
    keys: dict[str, int] = {}  # and their line numbers
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            for number, line in read(lines, exec_name, header=header):
                if isinstance(line, MisreadError):
                    yield number, line
                    continue
                try:
                    yield number, _spec(path.parent, number, line, options, keys)
                except MisreadError as problem:
                    yield number, problem
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{path}: {error.strerror or error}", "check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{path}: {error}", "save it as UTF-8") from None


def _jsonl(lines: Any, exec_name: str, *, header: bool) -> Iterator[Read]:
    decoder = msgspec.json.Decoder(JobLine | list[str | int | float])
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row: Any = decoder.decode(text)
        except msgspec.MsgspecError as error:
            told = str(error)
            found = BYTE.search(told)
            read = text.rstrip("\r\n").encode()  # to convert the byte position to a column
            if found is not None:
                read = read[: int(found[1])]
            at_path = found is None and "`$" in told
            column = 0 if at_path else len(read.decode(errors="ignore")) + 1
            yield number, MisreadError(BYTE.sub("", told), _hint_of(told), column)
            continue
        line = row if isinstance(row, JobLine) else JobLine(args=row)
        line.exec = line.exec or exec_name
        yield number, line


def _hint_of(told: str) -> str:
    """What to write instead of a line that cannot be read."""
    return next((hint for part, hint in HINTS.items() if part in told), LINE)


def _csv(lines: Any, exec_name: str, *, header: bool) -> Iterator[Read]:
    rows = csv.reader(lines, strict=True)
    number = 1
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield number, MisreadError(str(error), "check its quotes")
            row = []
        if row is None:
            return
        if row and not (header and number == 1):
            if exec_name:
                yield number, JobLine(exec_name, list(row))
            elif NUMBER.fullmatch(row[0]):  # probably arguments, without EXEC
                yield number, MisreadError(f"{row[0]} is a number, not a program", NO_EXEC, 1)
            else:
                yield number, JobLine(row[0], list(row[1:]))
        number = rows.line_num + 1  # a quoted field may span several lines


def _spec(
    folder: Path, number: int, line: JobLine, options: Options, keys: dict[str, int]
) -> JobSpec:
    if not line.exec:
        raise MisreadError("no program given", "add one, or give EXEC")
    first = keys.setdefault(line.key, number)
    if line.key and first != number:
        raise MisreadError(f"same key as line {first}", "remove one of them")
    if "" in keys and len(keys) > 1:
        raise MisreadError("some lines have a key and others have none", EACH)
    unknown = [name for name in line.options if name not in FIELDS]
    if unknown:
        raise MisreadError(f"unknown option {unknown[0]!r}", f"use one of: {', '.join(FIELDS)}")
    files: dict[str, Path] = {}
    for name, place in line.files.items():
        try:
            files[name] = folder / place
            os.close(os.open(files[name], os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            raise MisreadError(f"{place}: {error.strerror or error}", "check it") from None
    own: Any = {**options, **line.options} if line.options else options
    args = [str(one) for one in line.args]
    return JobSpec(line.exec, args, files, options=own, key=line.key)
