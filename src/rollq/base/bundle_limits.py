"""Bounds of bundles: calls of one function that `map` puts together into one job."""

from __future__ import annotations

from typing import Final

# A bundle that took less than this grows, and one that took four times as long shrinks: what a job
# costs beside its calls is a hundredth of it then, and a cancel or another attempt loses little.
BUNDLE_MS: Final = 10
BUNDLE_CALLS_MAX: Final = 1_024
# Of packed arguments; they must fit INLINE_BYTES_MAX in base64, with what else is in a job.
BUNDLE_BYTES_MAX: Final = 32 * 1024
# Before the first result says how long a call takes, so many go out at once. A function whose first
# result takes longer than this is not short: the whole window is used then.
BUNDLE_PROBES: Final = 16
BUNDLE_PROBE_MS: Final = 100
# Of the traceback of each call that raised.
BUNDLE_TRACE_CHARS_MAX: Final = 4_096
