"""Options of jobs by their Celery names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError

# Those of `rollq.Options`, for modules that an application imports: the client comes later.
OPTION_NAMES: Final = (
    *("queue", "priority", "delay", "max_attempts", "lease", "run_limit", "run_limit_soft"),
    *("expire", "result_ttl", "retry_base", "retry_exit_codes", "worker", "ships_exec"),
    *("resources", "labels", "limits", "sticky_key", "after", "env", "secrets", "traceparent"),
)
ALWAYS: Final = "leave it out: it is always so"
OTHER_NAMES: Final[dict[str, tuple[str, Callable[[Any], Any] | None]]] = {
    "time_limit": ("run_limit", None),
    "soft_time_limit": ("run_limit_soft", None),
    "expires": ("expire", None),
    "countdown": ("delay", None),
    "max_retries": ("max_attempts", lambda retries: retries + 1),
    "retry_backoff": ("retry_base", float),  # True: 1 s
}
# Celery options without an equivalent, and what to use instead.
NOT_HERE: Final = {
    "bind": "rollq.context() tells a function its job",
    "eta": "countdown=SECONDS says how long from now",
    "default_retry_delay": "retry_backoff=SECONDS comes before the second attempt",
    "ignore_result": "leave it out; result_ttl=SECONDS says how long a result is kept",
    "serializer": "leave it out: values travel as what they are",
    "acks_late": ALWAYS,
    "reject_on_worker_lost": ALWAYS,
    "track_started": ALWAYS,
}


def options_of(options: Mapping[str, Any], others: Collection[str] = ()) -> dict[str, Any]:
    """Options of a job by the names of `rollq.Options`, out of those and of Celery's. `others` are
    names that mean something else and are left as they are.

    Raises:
        LocalError: BAD_OPTIONS, for one that is not here, with what to do instead.
    """
    made: dict[str, Any] = {}
    for name, value in options.items():
        own, convert = OTHER_NAMES.get(name, (name, None))
        if name == "rate_limit":
            # A rate in code would be that of the last submitter, and of one worker in Celery.
            hint = (
                "a rate is set in the grid, once for all workers: "
                f"rollq limit set exec:NAME --rate {_rate_text(value)}"
            )
            raise _refused(name, value, hint)
        if name in NOT_HERE:
            raise _refused(name, value, NOT_HERE[name])
        if own not in OPTION_NAMES and name not in others:
            raise _unknown(name)
        try:
            made[own] = value if convert is None else convert(value)
        except (TypeError, ValueError):
            raise LocalError(ErrorCode.BAD_OPTIONS, f"{name}={value!r}", "give a number") from None
    return made


def _refused(name: str, value: Any, hint: str) -> LocalError:
    what = f"{name}={value!r} is not an option of a task"
    return LocalError(ErrorCode.BAD_OPTIONS, what, hint)


def _unknown(name: str) -> LocalError:
    known = [*OPTION_NAMES, *OTHER_NAMES]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"do you mean {close[0]!r}?" if close else f"use one of: {', '.join(known)}"
    return LocalError(ErrorCode.BAD_OPTIONS, f"no option {name[:64]!r}", hint)


def _rate_text(given: Any) -> str:
    """A rate as Celery writes it, as `rollq limit` takes it: 10/s, 100/m, or a number a second."""
    count, _, unit = str(given).partition("/")
    return f"{count}/{ {'m': 'min', 'h': 'h'}.get(unit, 's') }"
