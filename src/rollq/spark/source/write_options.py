"""The options of writes: the target group, the batch key, defaults of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from rollq.base.errors import LocalError
from rollq.base.limits import BATCH_KEY_BYTES_MAX, CLIENT_ID_BYTES_MAX
from rollq.roles.client.engine.base import default_id
from rollq.roles.client.jobs.options import FIELDS, Options, job_options
from rollq.spark.source.conditions import bad_option
from rollq.spark.source.jobs import CHECKS
from rollq.spark.source.options import (
    SPARKS_NAMES,
    check_length,
    check_names,
    check_servers,
    seconds,
)

CLIENT_ID: Final = "spark"
_DEFAULTS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("exec", "queue", "subject", "worker"), str),
    **dict.fromkeys(("priority", "max_attempts"), int),
    **dict.fromkeys(
        ("delay", "lease", "run_limit", "run_limit_soft", "expire", "result_ttl", "retry_base"),
        float,
    ),
}
WRITE_NAMES: Final = ("servers", "credentials", "op", "batchKey", "clientId", "timeout", *_DEFAULTS)
SUBMIT: Final = "submit"  # rows are new jobs
REDRIVE: Final = "redrive"  # rows are redrives of dead jobs


@dataclass(slots=True, frozen=True)
class WriteOptions:
    """Validated options of a write."""

    servers: str
    batch_key: str  # empty: a random one for every write
    client_id: str  # the client of the jobs
    defaults: dict[str, Any]  # values of job columns for rows that do not set them
    timeout_s: float
    op: str = SUBMIT
    credentials: str = ""  # a directory on every executor


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write.

    Raises:
        LocalError: BAD_OPTIONS; it names the option and its allowed values.
    """
    options = {name.lower(): value for name, value in given.items()}
    check_names(options, (*WRITE_NAMES, *SPARKS_NAMES))
    servers = options.get("servers", "")
    if ";" in servers:
        raise bad_option("servers", servers, "jobs go to one group: host:port,host:port")
    check_servers(servers)
    op = options.get("op", SUBMIT)
    if op not in (SUBMIT, REDRIVE):
        raise bad_option("op", op, f"use {SUBMIT} or {REDRIVE}")
    named = next((name for name in _DEFAULTS if name in options), "")
    if op == REDRIVE and named:
        hint = "a job that runs again has what it has; only its body and arguments may change"
        raise bad_option(named, options[named], hint)
    credentials = options.get("credentials", "")
    client_id = options.get("clientid", default_id(credentials, CLIENT_ID))
    if not client_id:
        raise bad_option("clientId", client_id, "jobs belong to a client")
    return WriteOptions(
        servers=servers,
        batch_key=check_length("batchKey", options.get("batchkey", ""), BATCH_KEY_BYTES_MAX),
        client_id=check_length("clientId", client_id, CLIENT_ID_BYTES_MAX),
        defaults={name: _default(name, options[name]) for name in _DEFAULTS if name in options},
        timeout_s=seconds(options),
        op=op,
        credentials=credentials,
    )


def _default(name: str, text: str) -> Any:
    try:
        value = _DEFAULTS[name](text)
    except ValueError:
        raise bad_option(name, text, "it is a number") from None
    hint = CHECKS[name](value) if name in CHECKS else ""
    if hint:
        raise bad_option(name, text, hint)
    if name in FIELDS:
        try:
            job_options(cast("Options", {name: value}))
        except LocalError as error:
            raise bad_option(name, text, error.hint) from None
    return value
