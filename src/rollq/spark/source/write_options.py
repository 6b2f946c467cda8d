"""The options of writes: where jobs go, under which name a batch is known, what holds for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rollq.base.limits import BATCH_KEY_BYTES_MAX
from rollq.spark.source.jobs import CHECKS
from rollq.spark.source.options import SPARKS_NAMES, bad_option, check_names, seconds

CLIENT_ID: Final = "spark"
_DEFAULTS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("exec", "queue", "subject", "worker"), str),
    **dict.fromkeys(("priority", "max_attempts"), int),
    **dict.fromkeys(
        ("delay", "lease", "run_limit", "run_limit_soft", "expire", "result_ttl", "retry_base"),
        float,
    ),
}
WRITE_NAMES: Final = ("servers", "op", "batchKey", "clientId", "timeout", *_DEFAULTS)
SUBMIT: Final = "submit"  # rows are new jobs
REDRIVE: Final = "redrive"  # rows are dead jobs that are to run again


@dataclass(slots=True, frozen=True)
class WriteOptions:
    """How to write."""

    servers: str
    batch_key: str  # empty: a new one for every write
    client_id: str  # whose jobs they are
    defaults: dict[str, Any]  # of columns that rows do not have
    timeout_s: float
    op: str = SUBMIT


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check the options of a write.

    Raises:
        LocalError: BAD_OPTIONS; it names the option and says what it may be.
    """
    options = {name.lower(): value for name, value in given.items()}
    check_names(options, (*WRITE_NAMES, *SPARKS_NAMES))
    servers = options.get("servers", "")
    if not servers or ";" in servers:
        hint = "give the members of one group: host:port,host:port"
        raise bad_option("servers", servers, hint)
    op = options.get("op", SUBMIT)
    if op not in (SUBMIT, REDRIVE):
        raise bad_option("op", op, f"use {SUBMIT} or {REDRIVE}")
    named = next((name for name in _DEFAULTS if name in options), "")
    if op == REDRIVE and named:
        hint = "a job that runs again has what it has; only its body and arguments may change"
        raise bad_option(named, options[named], hint)
    batch_key = options.get("batchkey", "")
    if len(batch_key.encode()) > BATCH_KEY_BYTES_MAX:
        raise bad_option("batchKey", batch_key[:40], f"use up to {BATCH_KEY_BYTES_MAX} bytes")
    return WriteOptions(
        servers=servers,
        batch_key=batch_key,
        client_id=options.get("clientid", CLIENT_ID),
        defaults={name: _default(name, options[name]) for name in _DEFAULTS if name in options},
        timeout_s=seconds(options),
        op=op,
    )


def _default(name: str, text: str) -> Any:
    try:
        value = _DEFAULTS[name](text)
    except ValueError:
        raise bad_option(name, text, "it is a number") from None
    hint = CHECKS[name](value) if name in CHECKS else ""
    if hint:
        raise bad_option(name, text, hint)
    return value
