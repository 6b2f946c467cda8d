"""The trace that a job belongs to, as W3C Trace Context has it: `traceparent`. Pure.

https://www.w3.org/TR/trace-context/: version, trace id, id of the span before, and flags, in hex.
"""

from __future__ import annotations

import re
from typing import Final

VARIABLE: Final = "TRACEPARENT"  # of the environment
CHARS_MAX: Final = 128  # later versions may have more fields
_PARTS: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]*)?")
_FIRST_VERSION: Final = "00"
_NO_VERSION: Final = "ff"


def is_traceparent(text: str) -> bool:
    """Whether this names a trace and a span of it."""
    found = _PARTS.fullmatch(text) if len(text) <= CHARS_MAX else None
    if found is None:
        return False
    version, trace_id, span_id, more = found.groups()
    is_known = version != _NO_VERSION and not (version == _FIRST_VERSION and more is not None)
    return is_known and trace_id.strip("0") != "" and span_id.strip("0") != ""
