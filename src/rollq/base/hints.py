"""Run times of programs as found in the history: hints, without guarantee.

They are part of the log and of the wire, so fields may be appended with a default, and nothing else
may change.
"""

from __future__ import annotations

import msgspec


class ExecHint(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Run times of one program or function: half, 95 % and 99 % of `count` runs took no longer."""

    exec_name: str
    p50_ms: int
    p95_ms: int
    p99_ms: int
    count: int = 0
