"""Writes results as lines."""

from __future__ import annotations

from rollq.cli.output import write_json, write_line
from rollq.documents.jobs import result_document
from rollq.roles.client.results.result import Result


def write_result(result: Result, *, as_json: bool) -> None:
    """Write a result as one line."""
    if as_json:
        write_json(result_document(result))
        return
    first_line = (
        (result.stdout_tail or result.stderr_tail or result.detail).strip().partition("\n")[0]
    )
    write_line(f"{result.id} {result.status:<9} {result.run_ms} ms  {first_line}".rstrip())
