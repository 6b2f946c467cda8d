"""Answers of a member as errors that Python raises. No IO."""

from __future__ import annotations

from typing import Final

from rollq.base.errors import (
    DialError,
    DiskError,
    ErrorCode,
    LocalError,
    RollqError,
    StateError,
)
from rollq.wire import messages as wire


def error_of(answer: wire.Error) -> RollqError:
    """The error that a refusal means: what a member calls our fault is ours."""
    try:
        code = ErrorCode(answer.code)
    except ValueError:
        # A newer member knows more codes; its words are still worth reading.
        text = f"refused with code {answer.code}: {answer.message}"
        return StateError(ErrorCode.WRONG_STATE, text, answer.hint)
    return KINDS.get(code // 100, StateError)(code, answer.message, answer.hint)


KINDS: Final[dict[int, type[RollqError]]] = {
    1: LocalError,
    2: StateError,
    3: StateError,
    4: DiskError,
    6: DialError,
}
