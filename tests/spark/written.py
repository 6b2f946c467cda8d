"""What a grid has accepted, by its history."""

from __future__ import annotations

import json
from typing import Any

from rollq.roles.reader.reader import Reader
from tests.integration.procs import until


def events(servers: str) -> list[dict[str, Any]]:
    """All that happened."""
    with Reader(servers) as reader:
        pieces = list(reader.pieces(1, reader.span(fresh=True).applied))
    return [json.loads(line) for piece in pieces for line in piece.lines().splitlines()]


def accepted(servers: str, prefix: str, count: int) -> list[str]:
    """The keys of jobs that were accepted, once they are so many."""

    def found() -> list[str]:
        keys = [
            str(event.get("jobKey", ""))
            for event in events(servers)
            if event["type"] in ("enqueue", "delay")
        ]
        return [key for key in keys if key.startswith(f"{prefix}-")]

    until(lambda: len(found()) >= count)
    return sorted(found())


def keys(prefix: str, count: int) -> list[str]:
    return sorted(f"{prefix}-{n}" for n in range(count))
