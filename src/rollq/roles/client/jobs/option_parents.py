"""Checks and converts the option `after` of a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rollq.base.edges import CONDITION_WORDS
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from rollq.base.ids import GUID_BYTES, NIL_ID, JobId, guid_from_text
from rollq.base.jobs import Condition, ParentRef

CONDITIONS: Final = {word: number for number, word in CONDITION_WORDS.items()}
CONDITIONS_OR_NONE: Final = ("", *CONDITIONS)
OK_OR_RESULT: Final = {Condition.OK, Condition.RESULT}  # RESULT includes OK
HINT: Final = (
    'give a list of jobs or ids: [first, "1d0b…", (second, "ended")]; '
    f"a condition is one of {', '.join(CONDITIONS)}"
)


def stored_parents(given: Any) -> tuple[ParentRef, ...]:
    """Convert handles of jobs or arrays, ids, texts ID[:CONDITION], and pairs of one of these with
    a condition. Duplicates are merged if their conditions agree.

    Raises:
        LocalError: BAD_OPTIONS, if a value is none of these.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _bad(given)
    found: dict[JobId, ParentRef] = {}
    for one in given:
        parent = _parent(one)
        known = found.setdefault(parent.job_id, parent)
        if known is parent:
            continue
        if {known.condition, parent.condition} == OK_OR_RESULT:
            found[parent.job_id] = ParentRef(parent.job_id, Condition.RESULT)
        elif known != parent:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, "after names a job with two conditions", "give one of them"
            )
    if len(found) > PARENTS_PER_JOB_MAX:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"after names {len(found)} jobs; at most {PARENTS_PER_JOB_MAX} can be waited for",
            "put a job between: it waits for some of them, and this one for it",
        )
    return tuple(found.values())


def _parent(given: Any) -> ParentRef:
    condition = ""
    if isinstance(given, tuple | list) and len(given) == len(("job", "condition")):
        given, condition = given
    elif isinstance(given, str) and ":" in given:
        given, _, condition = given.partition(":")
    if condition not in CONDITIONS_OR_NONE:
        hint = f"use one of: {', '.join(CONDITIONS)}"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"after: no condition {condition!r}", hint)
    made = _id_of(given)
    if len(made) != GUID_BYTES or made == NIL_ID:
        raise _bad(given)
    return ParentRef(made, CONDITIONS[condition or "ok"])


def _id_of(given: Any) -> JobId:
    if isinstance(given, bytes):
        return given
    for name in ("array_id", "job_id"):  # Batch has the first, Job the second
        if isinstance(own := getattr(given, name, None), bytes):
            return own
    try:
        return guid_from_text(given) if isinstance(given, str) else b""
    except RollqError:
        return b""


def _bad(given: object) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, f"after={repr(given)[:64]}", HINT)
