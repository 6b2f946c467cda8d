"""Reading many jobs from a file: JSON lines or CSV, one job a line."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.specs import FIELDS, JobSpec, Options

FORMS = (".jsonl", ".ndjson", ".csv")
EACH = "give each a key, or none"


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One job in a file of JSON lines. Options have the names of the client's."""

    exec: str = ""
    args: list[str | int | float] = []
    files: dict[str, str] = {}  # name in the job's directory: path here
    options: dict[str, Any] = {}
    key: str = ""  # what you call the job; every line has one, or none has


def read_jobs(
    path: Path, exec_name: str, options: Options, *, header: bool
) -> Iterator[tuple[int, JobSpec]]:
    """The jobs of a file, each with the line where it begins, as they are needed: it may be long.

    Args:
        path: `.jsonl` (objects, or lists of arguments), or `.csv` (a row of arguments a job).
        exec_name: the program; empty: a line names its own (CSV: in its first column).
        options: for all of them; a line's own win.
        header: whether the first row of a CSV file is no job.

    Raises:
        LocalError: BAD_OPTIONS, naming the line.
    """
    if path.suffix not in FORMS:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{path}: not known what kind of file that is",
            f"name it {' or '.join(FORMS)}",
        )
    read = _csv if path.suffix == ".csv" else _jsonl
    keys: dict[str, int] = {}  # and where they stand
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            for number, line in read(lines, exec_name, header=header):
                if not line.exec:
                    raise _bad(path, number, "names no program", "add it, or give EXEC")
                first = keys.setdefault(line.key, number)
                if line.key and first != number:
                    raise _bad(path, number, f"has the key of line {first}", "leave one out")
                if "" in keys and len(keys) > 1:
                    raise _bad(path, number, "has a key or lacks one, unlike those before it", EACH)
                yield number, _spec(path, number, line, options)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{path}: {error.strerror or error}", "check the name"
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, csv.Error) as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{path}: {error}", "correct the file") from None


def _jsonl(lines: Any, exec_name: str, *, header: bool) -> Iterator[tuple[int, Line]]:
    decoder = msgspec.json.Decoder(Line | list[str | int | float])
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row: Any = decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise msgspec.MsgspecError(f"line {number}: {error}") from None
        line = row if isinstance(row, Line) else Line(args=row)
        line.exec = line.exec or exec_name
        yield number, line


def _csv(lines: Any, exec_name: str, *, header: bool) -> Iterator[tuple[int, Line]]:
    rows = csv.reader(lines, strict=True)
    number = 1
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise csv.Error(f"line {number}: {error}") from None
        if row is None:
            return
        if row and not (header and number == 1):
            yield number, Line(exec_name, list(row)) if exec_name else Line(row[0], list(row[1:]))
        number = rows.line_num + 1  # a quoted field may go on over several lines


def _spec(path: Path, number: int, line: Line, options: Options) -> JobSpec:
    unknown = [name for name in line.options if name not in FIELDS]
    if unknown:
        raise _bad(
            path, number, f"has no option {unknown[0]!r}", f"use one of: {', '.join(FIELDS)}"
        )
    files: dict[str, Path] = {}
    for name, place in line.files.items():
        try:
            files[name] = path.parent / place
            os.close(os.open(files[name], os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            raise _bad(path, number, f"{place}: {error.strerror or error}", "check it") from None
    own: Any = {**options, **line.options}
    args = [str(one) for one in line.args]
    return JobSpec(line.exec, args, files, options=own, key=line.key)


def _bad(path: Path, number: int, what: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, f"{path}, line {number}: {what}", hint)
